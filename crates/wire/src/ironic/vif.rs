//! Networks attached to nodes.

use sabakan_domain::provision::node_ports::{Vif, VifTarget};
use serde_json::{Value, json};

use super::{Refused, Version, document::parse_uuid};

/// The networks of a node, as answers show them.
pub fn vifs_json(vifs: &[String]) -> Value {
    let vifs: Vec<Value> = vifs.iter().map(|id| json!({ "id": id })).collect();
    json!({ "vifs": vifs })
}

/// Reads a request to attach a network. Members nobody here knows are for the network service of others and are passed over.
pub fn parse_vif(body: &Value, version: Version) -> Result<Vif, Refused> {
    let Some(members) = body.as_object() else {
        return Err(Refused::invalid(format!("Expected a dictionary for VIF: {body}")));
    };
    let text = |name: &str| match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(other) => Err(Refused::invalid(format!("Expected a string for {name}: {other}"))),
    };
    let id = text("id")?.ok_or_else(|| Refused::invalid("Missing mandatory keys: id"))?;
    let (port, group) = (text("port_uuid")?, text("portgroup_uuid")?);
    if (port.is_some() || group.is_some()) && !version.has(67) {
        return Err(Refused::newer("port_uuid", 67));
    }
    let to = match (port, group) {
        (None, None) => None,
        (Some(port), None) => Some(VifTarget::Port(parse_uuid("port_uuid", port)?)),
        (None, Some(group)) => Some(VifTarget::Group(parse_uuid("portgroup_uuid", group)?)),
        (Some(_), Some(_)) => {
            return Err(Refused::invalid("Cannot specify both port_uuid and portgroup_uuid in VIF"));
        }
    };
    Ok(Vif { id: id.to_owned(), to })
}

#[cfg(test)]
mod tests {
    use sabakan_domain::provision::ids::PortId;

    use super::*;

    #[test]
    fn where_a_network_goes() {
        let port = "11111111-0008-4000-8000-000000000001";
        let read = |body: Value| parse_vif(&body, Version::MAX);
        assert_eq!(read(json!({ "id": "n", "other": 1 })), Ok(Vif { id: "n".to_owned(), to: None }));
        let to = Some(VifTarget::Port(port.parse::<PortId>().expect("a UUID")));
        assert_eq!(read(json!({ "id": "n", "port_uuid": port })), Ok(Vif { id: "n".to_owned(), to }));
        for bad in [
            json!("n"),
            json!({}),
            json!({ "id": 1 }),
            json!({ "id": "n", "port_uuid": "x" }),
            json!({ "id": "n", "port_uuid": port, "portgroup_uuid": port }),
        ] {
            assert!(matches!(read(bad.clone()), Err(Refused::Invalid(_))), "{bad}");
        }
        let newer = parse_vif(&json!({ "id": "n", "port_uuid": port }), Version(66));
        assert!(matches!(newer, Err(Refused::Version(_))));
    }
}
