//! A machine as stored under `machines/<serial>`.

use std::{borrow::Cow, collections::BTreeMap, net::Ipv4Addr};

use jiff::Timestamp;
use sabakan_domain::{
    lifecycle::HealthState,
    machine::{Bmc, Labels, Machine, Nic, Rack, Status},
    time::Moment,
    words::{BmcType, Role, Serial},
};
use serde::{Deserialize, Serialize};

/// `machines/<serial>`.
#[derive(Debug, Serialize, Deserialize)]
pub struct MachineRecord<'a> {
    #[serde(borrow)]
    spec: Spec<'a>,
    status: StatusRecord,
    info: Info,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Spec<'a> {
    #[serde(borrow)]
    serial: Cow<'a, str>,
    #[serde(borrow)]
    labels: Option<BTreeMap<Cow<'a, str>, Cow<'a, str>>>,
    rack: u32,
    index_in_rack: u32,
    #[serde(borrow)]
    role: Cow<'a, str>,
    ipv4: Vec<Ipv4Addr>,
    ipv6: Option<Vec<String>>,
    register_date: Timestamp,
    #[serde(borrow)]
    retire_date: Cow<'a, str>,
    #[serde(borrow)]
    bmc: BmcRecord<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
struct BmcRecord<'a> {
    ipv4: Ipv4Addr,
    #[serde(borrow)]
    ipv6: Cow<'a, str>,
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StatusRecord {
    timestamp: Timestamp,
    /// Always 0: computed when read.
    #[serde(serialize_with = "zero")]
    duration: f64,
    state: HealthState,
}

#[derive(Debug, Serialize, Deserialize)]
struct Info {
    network: Network,
    bmc: BmcInfo,
}

#[derive(Debug, Serialize, Deserialize)]
struct Network {
    ipv4: Vec<NicRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct BmcInfo {
    ipv4: NicRecord,
}

#[derive(Debug, Serialize, Deserialize)]
struct NicRecord {
    address: Ipv4Addr,
    netmask: Ipv4Addr,
    maskbits: u8,
    gateway: Ipv4Addr,
}

/// Writes a number without a fraction, as other programs on this schema do.
fn zero<S: serde::Serializer>(_: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(0)
}

impl From<&Nic> for NicRecord {
    fn from(nic: &Nic) -> NicRecord {
        let Nic { address, maskbits, gateway } = *nic;
        NicRecord { address, netmask: nic.netmask(), maskbits, gateway }
    }
}

impl From<NicRecord> for Nic {
    fn from(record: NicRecord) -> Nic {
        let NicRecord { address, netmask: _, maskbits, gateway } = record;
        Nic { address, maskbits: maskbits.min(32), gateway }
    }
}

impl<'a> From<&'a Machine> for MachineRecord<'a> {
    fn from(machine: &'a Machine) -> MachineRecord<'a> {
        let Machine {
            serial,
            labels,
            rack,
            index_in_rack,
            role,
            nics,
            bmc: Bmc { kind, nic },
            register_date,
            retire_date,
            status: Status { state, since },
        } = machine;
        let pairs = || labels.iter().map(|(n, v)| (n.as_str().into(), v.as_str().into())).collect();
        MachineRecord {
            spec: Spec {
                serial: serial.as_str().into(),
                labels: (!labels.is_empty()).then(pairs),
                rack: rack.0,
                index_in_rack: *index_in_rack,
                role: role.as_str().into(),
                ipv4: machine.ipv4().collect(),
                ipv6: None,
                register_date: *register_date,
                retire_date: retire_date.to_string().into(),
                bmc: BmcRecord { ipv4: nic.address, ipv6: "".into(), kind: kind.as_str().into() },
            },
            status: StatusRecord { timestamp: *since, duration: 0.0, state: *state },
            info: Info {
                network: Network { ipv4: nics.iter().map(NicRecord::from).collect() },
                bmc: BmcInfo { ipv4: nic.into() },
            },
        }
    }
}

impl TryFrom<MachineRecord<'_>> for Machine {
    type Error = String;

    fn try_from(record: MachineRecord<'_>) -> Result<Machine, String> {
        let MachineRecord {
            spec:
                Spec {
                    serial,
                    labels,
                    rack,
                    index_in_rack,
                    role,
                    ipv4,
                    ipv6: _,
                    register_date,
                    retire_date,
                    bmc: BmcRecord { ipv4: bmc_ipv4, ipv6: _, kind },
                },
            status: StatusRecord { timestamp, duration: _, state },
            info: Info { network, bmc: BmcInfo { ipv4: bmc_nic } },
        } = record;
        let text = |error: &dyn std::fmt::Display| error.to_string();
        if !ipv4.iter().eq(network.ipv4.iter().map(|nic| &nic.address)) {
            return Err("spec.ipv4 and info.network.ipv4 name different addresses".to_owned());
        }
        if bmc_ipv4 != bmc_nic.address {
            return Err("spec.bmc.ipv4 and info.bmc.ipv4 name different addresses".to_owned());
        }
        Ok(Machine {
            serial: Serial::new(serial).map_err(|e| text(&e))?,
            labels: Labels::new(labels.unwrap_or_default()).map_err(|e| text(&e))?,
            rack: Rack(rack),
            index_in_rack,
            role: Role::new(role).map_err(|e| text(&e))?,
            nics: network.ipv4.into_iter().map(Nic::from).collect(),
            bmc: Bmc { kind: BmcType::new(kind).map_err(|e| text(&e))?, nic: bmc_nic.into() },
            register_date,
            retire_date: retire_date.parse::<Moment>().map_err(|e| text(&e))?,
            status: Status { state, since: timestamp },
        })
    }
}

/// Reads a stored machine.
pub(crate) fn decode_machine(kv: &crate::KeyValue) -> Result<Machine, crate::StoreError> {
    let corrupt = |reason| crate::StoreError::Corrupt { place: kv.key.clone(), reason };
    let record: MachineRecord<'_> = serde_json::from_slice(&kv.value).map_err(|error| corrupt(error.to_string()))?;
    Machine::try_from(record).map_err(corrupt)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the reference implementation of this schema stores it.
    const STORED: &str = concat!(
        r#"{"spec":{"serial":"w2","labels":null,"rack":1,"index-in-rack":4,"role":"worker","#,
        r#""ipv4":["10.69.0.196","10.69.1.4"],"ipv6":null,"register-date":"2026-11-15T19:36:21.214789506Z","#,
        r#""retire-date":"2030-01-02T03:04:05+09:00","bmc":{"ipv4":"10.72.17.36","ipv6":"","type":"iDRAC-9"}},"#,
        r#""status":{"timestamp":"2026-11-15T19:36:21.214790467Z","duration":0,"state":"uninitialized"},"#,
        r#""info":{"network":{"ipv4":[{"address":"10.69.0.196","netmask":"255.255.255.192","maskbits":26,"#,
        r#""gateway":"10.69.0.193"},{"address":"10.69.1.4","netmask":"255.255.255.192","maskbits":26,"#,
        r#""gateway":"10.69.1.1"}]},"bmc":{"ipv4":{"address":"10.72.17.36","netmask":"255.255.240.0","maskbits":20,"#,
        r#""gateway":"10.72.16.1"}}}}"#
    );

    fn stored(text: &str) -> crate::KeyValue {
        crate::KeyValue {
            key: "/sabakan/machines/w2".into(),
            value: text.to_owned().into(),
            create_revision: crate::Revision(1),
            mod_revision: crate::Revision(1),
            lease: None,
        }
    }

    #[test]
    fn the_stored_form_is_read_and_written_byte_for_byte() {
        let machine = decode_machine(&stored(STORED)).expect("decodes");
        assert_eq!(machine.index_in_rack, 4);
        assert_eq!(super::super::encode(&MachineRecord::from(&machine)), STORED.as_bytes());
    }

    #[test]
    fn what_cannot_be_ours_is_reported_with_its_key() {
        let check = |from: &str, to: &str, reason: &str| {
            assert!(STORED.contains(from), "{from}");
            let error = decode_machine(&stored(&STORED.replacen(from, to, 1))).expect_err(to).to_string();
            assert!(error.contains("/sabakan/machines/w2") && error.contains(reason), "{error}");
        };
        check(r#""serial":"w2""#, r#""serial":"a/b""#, "invalid serial");
        check(r#""state":"uninitialized""#, r#""state":"fine""#, "invalid state: fine");
        check(r#""10.69.0.196""#, r#""<nil>""#, "IPv4");
        check(r#""10.69.0.196","10"#, r#""10.69.0.197","10"#, "different addresses");
        check("2030-01-02T03:04:05+09:00", "soon", "invalid time");
        check("}}}}", "}}", "EOF");
    }
}
