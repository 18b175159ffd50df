//! Root documents, links, drivers, conductors, history, validation.

use std::collections::BTreeMap;

use sabakan_domain::provision::{
    interfaces::{HardwareType, Slot},
    node::{Row, Severity},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Field, Version, node::state_in, time};

/// A link to something of this API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkJson {
    /// Where.
    pub href: String,
    /// `self`: with the version in the path; `bookmark`: without.
    pub rel: String,
}

/// The two links of a thing.
pub fn links(base: &str, path: &str) -> [LinkJson; 2] {
    [
        LinkJson { href: format!("{base}/v1/{path}"), rel: "self".to_owned() },
        LinkJson { href: format!("{base}/{path}"), rel: "bookmark".to_owned() },
    ]
}

/// The two links of a collection.
pub fn collection_links(base: &str, name: &str) -> [LinkJson; 2] {
    links(base, &format!("{name}/"))
}

fn version_object(base: &str) -> Value {
    json!({
        "id": "v1",
        "links": [{ "href": format!("{base}/v1/"), "rel": "self" }],
        "status": "CURRENT",
        "min_version": Version::MIN.to_string(),
        "version": Version::MAX.to_string(),
    })
}

/// `GET /`.
pub fn root(base: &str) -> Value {
    let version = version_object(base);
    json!({
        "name": "OpenStack Ironic API",
        "description": "sabakan: provisioning of physical servers, compatible with the OpenStack bare metal API",
        "default_version": version,
        "versions": [version],
    })
}

/// Collections and the versions they came with. Only what is served.
const COLLECTIONS: &[(&str, u16)] = &[
    ("chassis", 1),
    ("nodes", 1),
    ("ports", 1),
    ("drivers", 1),
    ("lookup", 22),
    ("heartbeat", 22),
    ("portgroups", 23),
    ("volume", 32),
    ("conductors", 49),
    ("allocations", 52),
    ("events", 54),
    ("deploy_templates", 55),
    ("shards", 82),
    ("continue_inspection", 84),
    ("runbooks", 92),
];

/// `GET /v1`.
pub fn root_v1(base: &str, version: Version) -> Value {
    let mut document = Map::new();
    document.insert("id".to_owned(), json!("v1"));
    document.insert("links".to_owned(), json!([{ "href": format!("{base}/v1/"), "rel": "self" }]));
    document.insert(
        "media_types".to_owned(),
        json!({ "base": "application/json", "type": "application/vnd.openstack.ironic.v1+json" }),
    );
    for (name, since) in COLLECTIONS.iter().filter(|(_, since)| version.has(*since)) {
        let _known_since = since;
        document.insert((*name).to_owned(), json!(collection_links(base, name)));
    }
    document.insert("version".to_owned(), version_object(base));
    Value::Object(document)
}

/// A driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DriverJson {
    /// Its name.
    pub name: String,
    /// Servers that have it.
    pub hosts: Vec<String>,
    /// Links to it.
    pub links: Vec<LinkJson>,
    /// Links to its settings.
    pub properties: Vec<LinkJson>,
    /// Always `dynamic`; since 1.30.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Implementations of its interfaces; since 1.30, and only where one driver or details are asked for.
    #[serde(flatten)]
    pub interfaces: BTreeMap<String, Value>,
}

impl DriverJson {
    /// A driver, as a version knows it.
    pub fn of(known: &HardwareType, hosts: &[String], detail: bool, base: &str, version: Version) -> DriverJson {
        let name = known.driver;
        let mut interfaces = BTreeMap::new();
        if detail && version.has(30) {
            for slot in Slot::ALL.into_iter().filter(|slot| version.has(slot_since(*slot))) {
                interfaces.insert(format!("default_{slot}_interface"), json!(known.default_of(slot)));
                interfaces.insert(format!("enabled_{slot}_interfaces"), json!(known.implementations(slot)));
            }
        }
        DriverJson {
            name: name.to_owned(),
            hosts: hosts.to_vec(),
            links: links(base, &format!("drivers/{name}")).to_vec(),
            properties: links(base, &format!("drivers/{name}/properties")).to_vec(),
            kind: version.has(30).then(|| "dynamic".to_owned()),
            interfaces,
        }
    }
}

/// The version a slot came with.
fn slot_since(slot: Slot) -> u16 {
    super::NodeField::parse(slot.field()).map_or(1, super::NodeField::since)
}

/// A server that does provisioning work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConductorJson {
    /// Its name.
    pub hostname: String,
    /// Its group; servers have none and serve all.
    pub conductor_group: String,
    /// Links to it.
    pub links: Vec<LinkJson>,
    /// Whether it lives. Dead ones are forgotten.
    pub alive: bool,
    /// Its drivers; only where details are asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drivers: Option<Vec<String>>,
}

impl ConductorJson {
    /// A server. `drivers`: shown if given.
    pub fn of(hostname: &str, drivers: Option<Vec<String>>, base: &str) -> ConductorJson {
        ConductorJson {
            hostname: hostname.to_owned(),
            conductor_group: String::new(),
            links: links(base, &format!("conductors/{hostname}")).to_vec(),
            alive: true,
            drivers,
        }
    }
}

/// A row of a node's history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HistoryJson {
    /// Its UUID.
    pub uuid: String,
    /// When.
    pub created_at: String,
    /// `INFO` or `ERROR`.
    pub severity: String,
    /// What happened.
    pub event: String,
    /// Links to it.
    pub links: Vec<LinkJson>,
    /// Everything else; only where details are asked for.
    #[serde(flatten)]
    pub detail: BTreeMap<String, Value>,
}

impl HistoryJson {
    /// A row of the node `node`, under a UUID of its own.
    pub fn of(row: &Row, uuid: String, node: &str, detail: bool, base: &str, version: Version) -> HistoryJson {
        let Row { at, by, severity, text, from, to, lasted_ms } = row;
        let mut more = BTreeMap::new();
        if detail {
            let kind = if from == to { "step" } else { "transition" };
            more.insert("event_type".to_owned(), json!(kind));
            more.insert("conductor".to_owned(), json!(by));
            more.insert("user".to_owned(), json!(by));
            if version.has(113) {
                more.insert("project".to_owned(), Value::Null);
            }
            if version.has(115) {
                more.insert("state".to_owned(), state_in(*from, version));
                more.insert("target_provision_state".to_owned(), state_in(*to, version));
                more.insert(
                    "duration_seconds".to_owned(),
                    json!(std::time::Duration::from_millis(lasted_ms.unsigned_abs()).as_secs_f64()),
                );
            }
        }
        HistoryJson {
            links: links(base, &format!("nodes/{node}/history/{uuid}")).to_vec(),
            uuid,
            created_at: time(*at),
            severity: match severity {
                Severity::Info => "INFO".to_owned(),
                Severity::Error => "ERROR".to_owned(),
            },
            event: text.clone(),
            detail: more,
        }
    }
}

/// How many nodes one part of a divided fleet has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardJson {
    /// Its name; `None`, as a text, for nodes in no part.
    pub name: String,
    /// How many.
    pub count: usize,
}

impl ShardJson {
    /// A part and how many nodes it has.
    pub fn of((name, count): (Option<String>, usize)) -> ShardJson {
        ShardJson { name: name.unwrap_or_else(|| "None".to_owned()), count }
    }
}

/// What an interface says to the settings of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidationJson {
    /// Whether they can be used; `None`: the node does not have this interface.
    pub result: Option<bool>,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_come_with_their_versions() {
        let has = |version, name: &str| root_v1("http://h", Version(version)).get(name).is_some();
        assert!(has(1, "nodes") && !has(1, "conductors") && has(49, "conductors"));
        assert!(!has(22, "portgroups") && has(23, "portgroups"));
        let document = root("http://h:1");
        assert_eq!(document["default_version"]["version"], json!("1.115"));
        assert_eq!(document["versions"][0]["links"][0]["href"], json!("http://h:1/v1/"));
    }
}
