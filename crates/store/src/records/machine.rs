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
    ipv4: Option<Vec<StoredAddress>>,
    #[serde(default)]
    ipv6: Option<Vec<String>>,
    register_date: Timestamp,
    #[serde(borrow)]
    retire_date: Cow<'a, str>,
    #[serde(borrow)]
    bmc: BmcRecord<'a>,
}

#[derive(Debug, Serialize, Deserialize)]
struct BmcRecord<'a> {
    ipv4: StoredAddress,
    #[serde(borrow, default)]
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
    ipv4: Option<Vec<NicRecord>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct BmcInfo {
    ipv4: NicRecord,
}

#[derive(Debug, Serialize, Deserialize)]
struct NicRecord {
    address: StoredAddress,
    netmask: StoredAddress,
    maskbits: u8,
    gateway: StoredAddress,
}

/// An address, or none: the older service writes `<nil>` for one that it cannot compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct StoredAddress(Option<Ipv4Addr>);

impl StoredAddress {
    const NONE: [&'static str; 2] = ["<nil>", ""];

    fn or_unspecified(self) -> Ipv4Addr {
        self.0.unwrap_or(Ipv4Addr::UNSPECIFIED)
    }
}

impl From<Ipv4Addr> for StoredAddress {
    fn from(address: Ipv4Addr) -> StoredAddress {
        StoredAddress(Some(address).filter(|address| !address.is_unspecified()))
    }
}

impl Serialize for StoredAddress {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(address) => serializer.collect_str(&address),
            None => serializer.serialize_str(StoredAddress::NONE[0]),
        }
    }
}

impl<'de> Deserialize<'de> for StoredAddress {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<StoredAddress, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        if StoredAddress::NONE.contains(&text.as_ref()) {
            return Ok(StoredAddress(None));
        }
        let unknown = || serde::de::Error::custom(format_args!("{text:?} is not an IPv4 address"));
        Ok(StoredAddress(Some(text.parse().map_err(|_| unknown())?)))
    }
}

/// Writes a number without a fraction, as other programs on this schema do.
fn zero<S: serde::Serializer>(_: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u8(0)
}

impl From<&Nic> for NicRecord {
    fn from(nic: &Nic) -> NicRecord {
        let Nic { address, maskbits, gateway } = *nic;
        // A machine without an address has a mask all the same, and a gateway may be 0.0.0.0.
        let known = |address| StoredAddress(Some(address));
        NicRecord { address: address.into(), netmask: known(nic.netmask()), maskbits, gateway: known(gateway) }
    }
}

impl From<NicRecord> for Nic {
    fn from(record: NicRecord) -> Nic {
        let NicRecord { address, netmask: _, maskbits, gateway } = record;
        Nic { address: address.or_unspecified(), maskbits: maskbits.min(32), gateway: gateway.or_unspecified() }
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
                ipv4: Some(machine.ipv4().map(StoredAddress::from).collect()),
                ipv6: None,
                register_date: *register_date,
                retire_date: retire_date.to_string().into(),
                bmc: BmcRecord { ipv4: nic.address.into(), ipv6: "".into(), kind: kind.as_str().into() },
            },
            status: StatusRecord { timestamp: *since, duration: 0.0, state: *state },
            info: Info {
                network: Network { ipv4: Some(nics.iter().map(NicRecord::from).collect()) },
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
        let (ipv4, nics) = (ipv4.unwrap_or_default(), network.ipv4.unwrap_or_default());
        if !ipv4.iter().eq(nics.iter().map(|nic| &nic.address)) {
            return Err("spec.ipv4 and info.network.ipv4 name different addresses".to_owned());
        }
        if bmc_ipv4 != bmc_nic.address {
            return Err("spec.bmc.ipv4 and info.bmc.ipv4 name different addresses".to_owned());
        }
        if serial.is_empty() {
            return Err("the serial is empty".to_owned());
        }
        Ok(Machine {
            serial: Serial::stored(serial),
            labels: Labels::stored(labels.unwrap_or_default()),
            rack: Rack(rack),
            index_in_rack,
            role: Role::stored(role),
            // An interface without an address is none.
            nics: nics.into_iter().filter(|nic| nic.address.0.is_some()).map(Nic::from).collect(),
            bmc: Bmc { kind: BmcType::stored(kind), nic: bmc_nic.into() },
            register_date,
            retire_date: retire_date.parse::<Moment>().map_err(|error| error.to_string())?,
            status: Status { state, since: timestamp },
        })
    }
}

/// Reads a stored machine, as it is: `sabakan_domain::takeover` tells what input would refuse of it.
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
        check(r#""serial":"w2""#, r#""serial":"""#, "the serial is empty");
        check(r#""state":"uninitialized""#, r#""state":"fine""#, "invalid state: fine");
        check(r#""10.69.0.196""#, r#""<nil>""#, "different addresses");
        check(r#""10.69.0.196""#, r#""fd00::1""#, "IPv4");
        check("2030-01-02T03:04:05+09:00", "2016-12-31T23:59:60Z", "leap second");
        check(r#""10.69.0.196","10"#, r#""10.69.0.197","10"#, "different addresses");
        check("2030-01-02T03:04:05+09:00", "soon", "invalid time");
        check("}}}}", "}}", "EOF");
    }

    /// What the older service accepted, and what is said about it today.
    #[test]
    fn what_the_older_service_stored_is_read_marked_and_written_back() {
        let labels = |n: u32| (0..n).map(|n| format!(r#""l{n:03}":"v""#)).collect::<Vec<_>>().join(",");
        let many = format!(r#""labels":{{{}}}"#, labels(300));
        let long = format!(r#""type":"{}""#, "x".repeat(1_000));
        let check = |from: &str, to: &str, remark: Option<&str>| {
            assert!(STORED.contains(from), "{from}");
            let text = STORED.replace(from, to);
            let machine = decode_machine(&stored(&text)).expect(to);
            let remarks = sabakan_domain::takeover::remarks(&machine);
            assert_eq!(remarks.len(), usize::from(remark.is_some()), "{remarks:?}");
            assert!(remarks.iter().zip(remark).all(|(said, expected)| said.starts_with(expected)), "{remarks:?}");
            assert_eq!(super::super::encode(&MachineRecord::from(&machine)), text.as_bytes());
        };
        check("2030-01-02T03:04:05+09:00", "9999-12-31T00:00:00Z", None);
        check("2030-01-02T03:04:05+09:00", "9999-12-31T23:59:59-12:00", None);
        check(r#""serial":"w2""#, r#""serial":"a/b, c""#, Some("serial: "));
        check(r#""serial":"w2""#, r#""serial":" w2\u0007""#, Some("serial: "));
        check(r#""role":"worker""#, r#""role":"""#, Some("role: "));
        check(r#""labels":null"#, &many, Some("labels: too many labels: 300"));
        check(r#""type":"iDRAC-9""#, &long, Some("bmc.type: BMC type is too long: 1000 bytes"));
        check(r#""10.72.17.36""#, r#""<nil>""#, Some("bmc.ipv4: no address"));
    }

    #[test]
    fn a_machine_without_addresses_is_a_machine() {
        let text = STORED.replace(r#""10.69.0.196""#, r#""<nil>""#).replace(r#""10.69.1.4""#, r#""<nil>""#);
        let machine = decode_machine(&stored(&text)).expect("decodes");
        assert!(machine.nics.is_empty());
        let again = super::super::encode(&MachineRecord::from(&machine));
        let again = stored(std::str::from_utf8(&again).expect("text"));
        assert_eq!(decode_machine(&again).expect("decodes"), machine);
    }
}
