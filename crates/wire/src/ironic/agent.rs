//! What ramdisks ask and tell, and what they are answered. Nobody has to show anything to send these, so that each is read strictly.

use sabakan_domain::{
    mac::Mac,
    provision::{
        agent,
        edit::MASK,
        node::{Node, NodeId},
    },
};
use serde_json::{Map, Value, json};

use super::{Refused, Version, links, node, states::members, unexpected};

/// How often agents shall call at least, in seconds. They call three times as often.
const HEARTBEAT_TIMEOUT: u32 = 300;

/// Addresses one lookup may name. Machines with more interfaces know their UUID.
const ADDRESSES_MAX: usize = 1_000;

/// `GET /v1/lookup`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookupQuery {
    /// The node it was booted for, if it was told.
    pub id: Option<NodeId>,
    /// Addresses of its interfaces. Those that are none are left out.
    pub addresses: Vec<Mac>,
}

impl LookupQuery {
    /// Reads the query.
    pub fn parse(pairs: Vec<(String, String)>) -> Result<LookupQuery, Refused> {
        let mut query = LookupQuery { id: None, addresses: Vec::new() };
        for (name, value) in pairs {
            match name.as_str() {
                "node_uuid" => query.id = uuid(&value)?,
                "addresses" => {
                    let addresses = value.split(',').filter_map(|text| text.trim().parse::<Mac>().ok());
                    query.addresses.extend(addresses.take(ADDRESSES_MAX));
                }
                _ => return Err(unexpected(&name)),
            }
        }
        if query.id.is_none() && query.addresses.is_empty() {
            return Err(Refused::invalid("Either valid addresses or node_uuid is needed to look a node up."));
        }
        Ok(query)
    }
}

/// `POST /v1/continue_inspection`: the node it was booted for, if the ramdisk was told.
pub fn inspected_node(pairs: Vec<(String, String)>) -> Result<Option<NodeId>, Refused> {
    let mut id = None;
    for (name, value) in pairs {
        match name.as_str() {
            "node_uuid" => id = uuid(&value)?,
            _ => return Err(unexpected(&name)),
        }
    }
    Ok(id)
}

fn uuid(text: &str) -> Result<Option<NodeId>, Refused> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| Refused::invalid(format!("Expected a UUID but received {text}.")))
}

/// The answer to a ramdisk that found its node: what it runs on and how it shall behave. `token`: in the open to the first, `None` to
/// all others.
pub fn lookup_json(found: &Node, token: Option<&str>, base: &str) -> Value {
    let mut internal: Map<String, Value> = agent::erasing().into_iter().collect();
    internal.insert("agent_secret_token".to_owned(), json!(MASK));
    json!({
        "node": {
            "uuid": found.id.to_string(),
            "properties": found.properties,
            "instance_info": node::masked_instance(&found.instance_info),
            "driver_internal_info": internal,
            "links": links(base, &format!("nodes/{}", found.id)),
        },
        "config": {
            "metrics": {
                "backend": "noop",
                "prepend_host": false,
                "prepend_uuid": false,
                "prepend_host_reverse": true,
                "global_prefix": null,
            },
            "metrics_statsd": { "statsd_host": "localhost", "statsd_port": 8125 },
            "heartbeat_timeout": HEARTBEAT_TIMEOUT,
            "agent_containers": {
                "allow_arbitrary_containers": false,
                "allowed_containers": [],
                "container_steps_file": "/etc/ironic-python-agent.d/mysteps.yaml",
                "runner": "podman",
                "pull_options": [],
                "run_options": ["--rm", "--network=host"],
            },
            "agent_token": token.unwrap_or(MASK),
            "agent_token_required": true,
            "agent_md5_checksum_enable": false,
            "disable_deep_image_inspection": false,
            "permitted_image_formats": ["raw", "gpt", "qcow2", "iso"],
            "agent_skip_bmc_detect": false,
            "enable_bios_bootloader_install": false,
            "tls_min_version": "1.2",
            "tls_cipher_suites": null,
        },
    })
}

/// `POST /v1/heartbeat/{id}`.
#[derive(Clone, PartialEq, Eq)]
pub struct HeartbeatRequest {
    /// Where the agent listens.
    pub callback_url: String,
    /// What it proves itself with.
    pub agent_token: String,
    /// What it is.
    pub agent_version: String,
    /// The certificate it shows where it listens.
    pub agent_verify_ca: Option<String>,
}

impl HeartbeatRequest {
    /// Reads the body. How far an agent says it is with work of its own (`agent_status`) is read and of no consequence: no work here
    /// waits for it.
    pub fn parse(body: &Value, version: Version) -> Result<HeartbeatRequest, Refused> {
        const NAMES: [&str; 6] =
            ["callback_url", "agent_token", "agent_version", "agent_verify_ca", "agent_status", "agent_status_message"];
        let members = members(body, &NAMES)?;
        let text = |name: &str| match members.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            Some(_) => Err(Refused::invalid(format!("{name} is not of type 'string'"))),
        };
        for (name, since) in
            [("agent_version", 36), ("agent_verify_ca", 68), ("agent_status", 72), ("agent_status_message", 72)]
        {
            if text(name)?.is_some() && !version.has(since) {
                return Err(Refused::invalid(format!("Field \"{name}\" not recognised in this API version")));
            }
        }
        if let Some(status) = text("agent_status")?
            && !matches!(status.as_str(), "start" | "end" | "error")
        {
            return Err(Refused::invalid("agent_status is one of start, end and error"));
        }
        let needed =
            |name: &str| text(name)?.ok_or_else(|| Refused::invalid(format!("Missing mandatory parameter: {name}")));
        let token = text("agent_token")?;
        let token = token.ok_or_else(|| Refused::invalid("Agent token is required for heartbeat processing."))?;
        let agent_version = needed("agent_version")?;
        if agent_version.len() > VERSION_BYTES_MAX {
            return Err(Refused::invalid("agent_version is too long"));
        }
        Ok(HeartbeatRequest {
            callback_url: needed("callback_url")?,
            agent_token: token,
            agent_version,
            agent_verify_ca: text("agent_verify_ca")?,
        })
    }
}

/// Three numbers and a word.
const VERSION_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(query: &[(&str, &str)]) -> Vec<(String, String)> {
        query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_lookup_names_a_node_or_addresses() {
        let parse = |query: &[(&str, &str)]| LookupQuery::parse(pairs(query));
        let found = parse(&[("addresses", "52:54:00:A9:00:01,nonsense,52:54:00:a9:00:02")]).expect("addresses");
        assert_eq!(
            found.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["52:54:00:a9:00:01", "52:54:00:a9:00:02"]
        );
        assert!(parse(&[("node_uuid", "11111111-0a9e-4000-8000-000000000001"), ("addresses", "")]).is_ok());
        for bad in [&[][..], &[("addresses", "x")], &[("node_uuid", "x")], &[("node_uuid", "")], &[("fields", "a")]] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(inspected_node(Vec::new()), Ok(None));
        assert!(inspected_node(pairs(&[("x", "y")])).is_err());
    }

    #[test]
    fn a_heartbeat_says_who_and_where() {
        let whole = json!({ "callback_url": "http://192.0.2.1", "agent_token": "t", "agent_version": "13.0.0" });
        let parse = |body: &Value, version| HeartbeatRequest::parse(body, Version(version)).map_err(|e| e.to_string());
        assert!(parse(&whole, 68).is_ok_and(|request| request.agent_version == "13.0.0"));
        assert!(parse(&whole, 35).is_err_and(|text| text.contains("agent_version")));
        let without = |name: &str| {
            let mut body = whole.clone();
            body.as_object_mut().expect("an object").remove(name);
            parse(&body, 115).map(drop).expect_err(name)
        };
        assert_eq!(without("agent_token"), "Agent token is required for heartbeat processing.");
        assert_eq!(without("callback_url"), "Missing mandatory parameter: callback_url");
        assert_eq!(without("agent_version"), "Missing mandatory parameter: agent_version");
        for bad in [json!(null), json!([]), json!("x"), json!({ "agent_token": 7 }), json!({ "extra": 1 })] {
            assert!(parse(&bad, 115).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_the_first_sees_the_token() {
        let name = sabakan_domain::words::Serial::new("n1").expect("a name");
        let mut found = Node::implied(NodeId(1), name, jiff::Timestamp::UNIX_EPOCH);
        found.driver_info.insert("redfish_address".to_owned(), json!("192.0.2.1"));
        found.instance_info.insert("configdrive".to_owned(), json!("secret"));
        let first = lookup_json(&found, Some("tok"), "http://h");
        assert_eq!(first["config"]["agent_token"], "tok");
        assert_eq!(first["node"]["instance_info"]["configdrive"], MASK);
        assert!(first["node"].get("driver_info").is_none(), "an agent needs no way to the BMC");
        let later = lookup_json(&found, None, "http://h").to_string();
        assert!(!later.contains("tok\"") && later.contains(MASK));
    }
}
