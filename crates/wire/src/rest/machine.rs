//! Machines: what callers send to register them, and what they get back.
//!
//! Answers carry `spec`, `status` and `info`, and beside them the flat keys of the oldest document, so that clients of either
//! generation find what they look for. Input takes either form.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sabakan_domain::{
    machine::{Bmc, Machine, NewMachine, NewMachineError, NewMachineInput, Nic},
    takeover,
    time::{Moment, MomentError},
    words::BmcType,
};
use serde::{Deserialize, Serialize};

/// A machine to register: the fields of `spec`, either at the top or inside `spec`. What the service assigns (index, addresses,
/// dates of registration) is ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case", default)]
pub struct MachineInput {
    /// SMBIOS serial. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "1234abcd")]
    pub serial: Option<String>,
    /// Arbitrary names and values.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Logical rack number; absent: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rack: Option<u32>,
    /// `boot`, or any other word. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "worker")]
    pub role: Option<String>,
    /// RFC 3339; absent: the date of registration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retire_date: Option<String>,
    /// The management controller. Required, except beside `product` or `datacenter`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bmc: Option<BmcInput>,
    /// Oldest form: becomes the label `product`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Oldest form: becomes the label `datacenter`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datacenter: Option<String>,
    /// The same fields one level deeper, as in answers; then everything beside it is ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    pub spec: Option<Box<MachineInput>>,
}

/// The controller of a machine to register.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(default)]
pub struct BmcInput {
    /// How it is spoken to.
    #[serde(rename = "type")]
    #[schema(example = "iDRAC-9")]
    pub kind: Option<String>,
}

/// Which machine of a request is wrong, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} (machine {number} of the request{serial})", number = element + 1)]
pub struct InputError {
    /// Its place in the list, from 0.
    pub element: usize,
    serial: String,
    reason: InputReason,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum InputReason {
    #[error(transparent)]
    Machine(#[from] NewMachineError),
    #[error("retire-date: {0}")]
    RetireDate(#[from] MomentError),
}

/// Checks every machine of a request, in order; the first that is wrong is reported.
pub fn machines_from_input(input: Vec<MachineInput>) -> Result<Vec<NewMachine>, InputError> {
    let check = |(element, mut input): (usize, MachineInput)| {
        let input = input.spec.take().map_or(input, |spec| *spec);
        let serial = input.serial.as_deref().map(|s| format!(", serial {s:?}")).unwrap_or_default();
        new_machine(input).map_err(|reason| InputError { element, serial, reason })
    };
    input.into_iter().enumerate().map(check).collect()
}

fn new_machine(input: MachineInput) -> Result<NewMachine, InputReason> {
    let MachineInput { serial, labels, rack, role, retire_date, bmc, product, datacenter, spec: _ } = input;
    let oldest_form = product.is_some() || datacenter.is_some();
    let mut labels: Vec<_> = labels.unwrap_or_default().into_iter().collect();
    labels.extend(product.map(|value| ("product".to_owned(), value)));
    labels.extend(datacenter.map(|value| ("datacenter".to_owned(), value)));
    let bmc_type = bmc
        .and_then(|bmc| bmc.kind)
        .unwrap_or_else(|| if oldest_form { BmcType::unknown().to_string() } else { String::new() });
    // The text of a date is checked after what callers expect to be checked first.
    let new = NewMachine::new(NewMachineInput {
        serial: serial.unwrap_or_default(),
        labels,
        rack: rack.unwrap_or_default(),
        role: role.unwrap_or_default(),
        bmc_type,
        retire_date: None,
    })?;
    let retire_date = retire_date.map(|text| text.parse::<Moment>()).transpose()?;
    Ok(NewMachine { retire_date: retire_date.filter(|date| !date.is_zero()), ..new })
}

/// A registered machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct MachineJson {
    /// What it is and where.
    pub spec: SpecJson,
    /// Where it is in its life.
    pub status: StatusJson,
    /// Network settings computed at registration.
    pub info: InfoJson,
    /// What the older service stored and input would refuse today, for people; not there when there is nothing. The machine is served
    /// like every other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub takeover: Vec<String>,
    /// Flat form: the serial.
    #[serde(default)]
    pub serial: String,
    /// Flat form: the label `product`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    /// Flat form: the label `datacenter`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub datacenter: Option<String>,
    /// Flat form: the rack.
    #[serde(default)]
    pub rack: u32,
    /// Flat form: the index.
    #[serde(default)]
    pub index_in_rack: u32,
    /// Flat form: the role.
    #[serde(default)]
    pub role: String,
    /// Flat form: `node0`, `node1`, … with one address each.
    #[serde(default)]
    pub network: BTreeMap<String, FlatNodeJson>,
    /// Flat form: the controller.
    #[serde(default)]
    pub bmc: FlatBmcJson,
}

/// What a machine is and where.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct SpecJson {
    /// SMBIOS serial.
    pub serial: String,
    /// `null` when there are none.
    pub labels: Option<BTreeMap<String, String>>,
    /// Logical rack number.
    pub rack: u32,
    /// Position assigned at registration.
    pub index_in_rack: u32,
    /// What it is for.
    pub role: String,
    /// Addresses of the operating system.
    pub ipv4: Vec<String>,
    /// Always `null`.
    pub ipv6: Option<Vec<String>>,
    /// RFC 3339.
    pub register_date: String,
    /// RFC 3339, with the offset it was given in.
    pub retire_date: String,
    /// The controller.
    pub bmc: BmcJson,
}

/// The controller of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BmcJson {
    /// Its address.
    pub ipv4: String,
    /// Always empty.
    pub ipv6: String,
    /// How it is spoken to.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Where a machine is in its life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct StatusJson {
    /// When it came into its state, RFC 3339.
    pub timestamp: String,
    /// Seconds since then.
    pub duration: f64,
    /// The state.
    #[schema(example = "uninitialized")]
    pub state: String,
}

/// Network settings of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct InfoJson {
    /// Of its operating system.
    pub network: NetworkJson,
    /// Of its controller.
    pub bmc: BmcInfoJson,
}

/// Interfaces of an operating system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NetworkJson {
    /// One for each address, in order.
    pub ipv4: Vec<NicJson>,
}

/// The interface of a controller.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BmcInfoJson {
    /// Its settings.
    pub ipv4: NicJson,
}

/// Settings of one interface.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct NicJson {
    /// Its address.
    pub address: String,
    /// Dotted mask.
    pub netmask: String,
    /// The mask as a prefix length.
    pub maskbits: u8,
    /// The way out.
    pub gateway: String,
}

/// Flat form: one interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FlatNodeJson {
    /// One address.
    pub ipv4: Vec<String>,
    /// Always `null`.
    pub ipv6: Option<Vec<String>>,
}

/// Flat form: the controller.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct FlatBmcJson {
    /// One address.
    pub ipv4: Vec<String>,
    /// How it is spoken to.
    #[serde(rename = "type")]
    pub kind: String,
}

impl MachineJson {
    /// The public shape of a machine, its duration counted up to `now`.
    pub fn new(machine: &Machine, now: Timestamp) -> MachineJson {
        let Machine {
            serial,
            labels,
            rack,
            index_in_rack,
            role,
            nics,
            bmc: Bmc { kind, nic: bmc_nic },
            register_date,
            retire_date,
            status,
        } = machine;
        let label = |name| labels.find(name).map(ToString::to_string);
        let ipv4: Vec<String> = machine.ipv4().map(|address| address.to_string()).collect();
        let flat_node = |(n, address): (usize, &String)| {
            (format!("node{n}"), FlatNodeJson { ipv4: vec![address.clone()], ipv6: None })
        };
        let all_labels = || labels.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        let bmc_address = bmc_nic.address.to_string();
        MachineJson {
            takeover: takeover::remarks(machine),
            serial: serial.to_string(),
            product: label("product"),
            datacenter: label("datacenter"),
            rack: rack.0,
            index_in_rack: *index_in_rack,
            role: role.to_string(),
            network: ipv4.iter().enumerate().map(flat_node).collect(),
            bmc: FlatBmcJson { ipv4: vec![bmc_address.clone()], kind: kind.to_string() },
            spec: SpecJson {
                serial: serial.to_string(),
                labels: (!labels.is_empty()).then(all_labels),
                rack: rack.0,
                index_in_rack: *index_in_rack,
                role: role.to_string(),
                ipv4,
                ipv6: None,
                register_date: register_date.to_string(),
                retire_date: retire_date.to_string(),
                bmc: BmcJson { ipv4: bmc_address, ipv6: String::new(), kind: kind.to_string() },
            },
            status: StatusJson {
                timestamp: status.since.to_string(),
                duration: machine.seconds_in_state(now),
                state: status.state.to_string(),
            },
            info: InfoJson {
                network: NetworkJson { ipv4: nics.iter().map(NicJson::from).collect() },
                bmc: BmcInfoJson { ipv4: bmc_nic.into() },
            },
        }
    }
}

impl From<&Nic> for NicJson {
    fn from(nic: &Nic) -> NicJson {
        let Nic { address, maskbits, gateway } = nic;
        NicJson {
            address: address.to_string(),
            netmask: nic.netmask().to_string(),
            maskbits: *maskbits,
            gateway: gateway.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> Result<Vec<NewMachine>, String> {
        let input: Vec<MachineInput> = crate::json::decode(body.as_bytes()).map_err(|e| e.to_string())?;
        machines_from_input(input).map_err(|e| e.to_string())
    }

    fn one(body: &str) -> NewMachine {
        let mut machines = parse(body).expect(body);
        assert_eq!(machines.len(), 1);
        machines.remove(0)
    }

    #[test]
    fn either_form_of_input() {
        let flat =
            one(r#"[{"Serial":"s","rack":1,"role":"worker","labels":{"a":"1"},"bmc":{"type":"iDRAC-9","ipv4":["x"]},
                "index-in-rack":"ignored","ipv4":7,"retire-date":"0001-01-01T00:00:00Z"}]"#);
        let nested = one(r#"[{"serial":"ignored","spec":{"serial":"s","rack":1,"role":"worker","labels":{"a":"1"},
                "bmc":{"type":"iDRAC-9"}},"status":{"state":"healthy"},"info":null}]"#);
        assert_eq!(flat, nested);
        assert_eq!(flat.retire_date, None);
        let oldest = one(r#"[{"serial":"1234abcd","product":"R630","datacenter":"ty3","rack":1,"role":"boot"}]"#);
        assert_eq!(oldest.bmc_type, BmcType::unknown());
        let labels: Vec<_> = oldest.labels.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(labels, ["datacenter=ty3", "product=R630"]);
        assert_eq!(parse("null"), Ok(vec![]));
        assert_eq!(parse("[]"), Ok(vec![]));
    }

    #[test]
    fn what_is_wrong_and_where() {
        let check = |body: &str, expected: &str| {
            let error = parse(body).expect_err(body);
            assert!(error.starts_with(expected), "{body}: {error}");
        };
        check("[{}]", "serial is empty (machine 1 of the request)");
        check(r#"[{"serial":"s"}]"#, "invalid role: \"\"");
        check(r#"[{"serial":"s","role":"worker"}]"#, "BMC type is empty (machine 1 of the request, serial \"s\")");
        check(r#"[{"serial":"s","role":"w","bmc":{"type":"a b"}}]"#, "BMC type contains invalid character");
        check(r#"[{"serial":"s","role":"w","product":"a b"}]"#, "labels contain invalid character");
        check(
            r#"[{"serial":"s","role":"w","product":"p"},{"serial":"t","role":"w","product":"p","retire-date":"soon"}]"#,
            "retire-date: invalid time: \"soon\"; RFC 3339 is expected, such as 2030-01-02T03:04:05Z (machine 2",
        );
        check("[null]", "[0]: invalid type: null, expected an object");
        check(r#"[{"rack":-1}]"#, "[0].rack: invalid value");
        check(r#"[{"rack":4294967296}]"#, "[0].rack: invalid value");
        check(r#"[{"labels":{"a":1}}]"#, "[0].labels.a: invalid type");
        check(r#"{"serial":"s"}"#, "invalid type: map, expected a sequence");
    }
}
