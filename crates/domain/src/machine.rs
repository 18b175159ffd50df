//! A machine: what its owner said about it ([`NewMachine`]) and what it became at registration ([`Machine`]).

use std::{fmt, net::Ipv4Addr, str::FromStr};

use jiff::Timestamp;

use crate::{
    lifecycle::HealthState,
    limits,
    time::Moment,
    words::{BmcType, BmcTypeError, LabelError, LabelName, LabelValue, Role, RoleError, Serial, SerialError},
};

/// The logical number of a rack. It selects the rack's block of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rack(pub u32);

impl fmt::Display for Rack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Rack {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Rack, Self::Err> {
        text.parse().map(Rack)
    }
}

/// Labels of a machine, sorted by name. A sorted list, because most machines have two or three and there are many machines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels(Box<[(LabelName, LabelValue)]>);

impl Labels {
    /// Checks every name and value. A name that comes twice keeps its last value, as in a JSON object.
    pub fn new<N: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (N, V)>) -> Result<Labels, LabelsError> {
        let mut labels = std::collections::BTreeMap::new();
        for (name, value) in pairs {
            labels.insert(LabelName::new(name)?, LabelValue::new(value)?);
        }
        if labels.len() > limits::LABELS_MAX {
            return Err(LabelsError::TooMany(labels.len()));
        }
        Ok(Labels(labels.into_iter().collect()))
    }

    /// Keeps labels that are in the store already, however many and whatever they are.
    pub fn stored<N: AsRef<str>, V: AsRef<str>>(pairs: impl IntoIterator<Item = (N, V)>) -> Labels {
        let word = |(name, value): (N, V)| (LabelName::stored(name), LabelValue::stored(value));
        Labels(pairs.into_iter().map(word).collect::<std::collections::BTreeMap<_, _>>().into_iter().collect())
    }

    /// The value of a label.
    pub fn find(&self, name: &str) -> Option<&LabelValue> {
        self.0.iter().find(|(n, _)| n.as_str() == name).map(|(_, v)| v)
    }

    /// The same labels with one set. A machine that was taken over with too many may have values changed, but gets no more.
    pub fn with(&self, name: LabelName, value: LabelValue) -> Result<Labels, LabelsError> {
        let mut labels: Vec<_> = self.0.iter().filter(|(n, _)| *n != name).cloned().collect();
        labels.push((name, value));
        labels.sort_unstable();
        if labels.len() > limits::LABELS_MAX && labels.len() > self.0.len() {
            return Err(LabelsError::TooMany(labels.len()));
        }
        Ok(Labels(labels.into()))
    }

    /// The same labels without one; `None`: it is not there.
    pub fn without(&self, name: &LabelName) -> Option<Labels> {
        self.find(name.as_str())?;
        Some(Labels(self.0.iter().filter(|(n, _)| n != name).cloned().collect()))
    }

    /// Names and values as they are kept, by name.
    pub fn pairs(&self) -> &[(LabelName, LabelValue)] {
        &self.0
    }

    /// The same, each name apart from its value.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&LabelName, &LabelValue)> {
        self.0.iter().map(|(n, v)| (n, v))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why labels were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LabelsError {
    /// A name or value is not allowed.
    #[error("labels contain invalid character: {0}")]
    Label(#[from] LabelError),
    /// More than [`limits::LABELS_MAX`].
    #[error("too many labels: {0}, at most {max} are allowed", max = limits::LABELS_MAX)]
    TooMany(usize),
}

/// What a caller says about a machine it wants registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMachine {
    /// Who it is.
    pub serial: Serial,
    /// Arbitrary names and values.
    pub labels: Labels,
    /// Where it is.
    pub rack: Rack,
    /// What it is for.
    pub role: Role,
    /// How its controller is spoken to.
    pub bmc_type: BmcType,
    /// When it should go; absent: the day it came.
    pub retire_date: Option<Moment>,
}

/// The unchecked parts of a [`NewMachine`].
#[derive(Debug, Clone, Default)]
pub struct NewMachineInput {
    /// See [`NewMachine::serial`].
    pub serial: String,
    /// See [`NewMachine::labels`].
    pub labels: Vec<(String, String)>,
    /// See [`NewMachine::rack`].
    pub rack: u32,
    /// See [`NewMachine::role`].
    pub role: String,
    /// See [`NewMachine::bmc_type`].
    pub bmc_type: String,
    /// See [`NewMachine::retire_date`].
    pub retire_date: Option<Moment>,
}

/// Why a description was refused: the first reason in the order callers know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NewMachineError {
    /// The serial.
    #[error(transparent)]
    Serial(#[from] SerialError),
    /// The role.
    #[error(transparent)]
    Role(#[from] RoleError),
    /// A label.
    #[error(transparent)]
    Labels(#[from] LabelsError),
    /// The BMC type.
    #[error(transparent)]
    BmcType(#[from] BmcTypeError),
}

impl NewMachine {
    /// Checks a description: serial, role, labels, BMC type, in this order.
    pub fn new(input: NewMachineInput) -> Result<NewMachine, NewMachineError> {
        Ok(NewMachine {
            serial: Serial::new(input.serial)?,
            role: Role::new(input.role)?,
            labels: Labels::new(input.labels)?,
            bmc_type: BmcType::new(input.bmc_type)?,
            rack: Rack(input.rack),
            retire_date: input.retire_date.filter(|date| !date.is_zero()),
        })
    }
}

/// One configured network interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nic {
    /// Its address.
    pub address: Ipv4Addr,
    /// Prefix length of its network, at most 32.
    pub maskbits: u8,
    /// The way out of its network.
    pub gateway: Ipv4Addr,
}

impl Nic {
    /// The mask in dotted form.
    pub fn netmask(&self) -> Ipv4Addr {
        netmask(self.maskbits)
    }
}

/// The dotted mask of a prefix length; lengths over 32 count as 32.
pub(crate) fn netmask(maskbits: u8) -> Ipv4Addr {
    Ipv4Addr::from(u32::MAX.checked_shl(32 - u32::from(maskbits.min(32))).unwrap_or(0))
}

/// The management controller of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bmc {
    /// How it is spoken to.
    pub kind: BmcType,
    /// Its network interface. Unspecified (`0.0.0.0`) where the older service stored no address.
    pub nic: Nic,
}

impl Bmc {
    /// Where the controller answers, if anybody knows.
    pub fn address(&self) -> Option<Ipv4Addr> {
        Some(self.nic.address).filter(|address| !address.is_unspecified())
    }
}

/// Where a machine is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// The state.
    pub state: HealthState,
    /// Since when.
    pub since: Timestamp,
}

impl Status {
    /// Seconds in this state; never negative, whatever the clocks of two servers say.
    pub fn seconds(&self, now: Timestamp) -> f64 {
        now.duration_since(self.since).as_secs_f64().max(0.0)
    }
}

/// A registered machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Who it is.
    pub serial: Serial,
    /// Arbitrary names and values.
    pub labels: Labels,
    /// Where it is.
    pub rack: Rack,
    /// Its logical position, which together with the rack determines every address.
    pub index_in_rack: u32,
    /// What it is for.
    pub role: Role,
    /// Its interfaces, in order. At least one, unless the older service could not compute an address and stored none.
    pub nics: Box<[Nic]>,
    /// Its controller.
    pub bmc: Bmc,
    /// When it was registered.
    pub register_date: Timestamp,
    /// When it should go.
    pub retire_date: Moment,
    /// Where it is in its life.
    pub status: Status,
}

impl Machine {
    /// Addresses of the operating system, in order.
    pub fn ipv4(&self) -> impl ExactSizeIterator<Item = Ipv4Addr> {
        self.nics.iter().map(|nic| nic.address)
    }

    /// Seconds in the present state.
    pub fn seconds_in_state(&self, now: Timestamp) -> f64 {
        self.status.seconds(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> NewMachineInput {
        NewMachineInput {
            serial: "s1".into(),
            role: "worker".into(),
            bmc_type: "iDRAC-9".into(),
            ..NewMachineInput::default()
        }
    }

    #[test]
    fn the_first_reason_in_the_documented_order_wins() {
        let check = |change: &dyn Fn(&mut NewMachineInput), message: &str| {
            let mut all_wrong = input();
            change(&mut all_wrong);
            let error = NewMachine::new(all_wrong).expect_err(message).to_string();
            assert!(error.starts_with(message), "{error}");
        };
        let bad_label = || vec![("a b".to_owned(), String::new())];
        check(&|i| *i = NewMachineInput::default(), "serial is empty");
        check(
            &|i| {
                i.role = "-".into();
                i.labels = bad_label();
                i.bmc_type = String::new();
            },
            "invalid role",
        );
        check(
            &|i| {
                i.labels = bad_label();
                i.bmc_type = String::new();
            },
            "labels contain invalid character",
        );
        check(&|i| i.labels = vec![("a".into(), "b c".into())], "labels contain invalid character");
        check(&|i| i.bmc_type = String::new(), "BMC type is empty");
        check(&|i| i.bmc_type = "a b".into(), "BMC type contains invalid character");
        let many = (0..257).map(|n| (format!("n{n}"), String::new())).collect::<Vec<_>>();
        check(&|i| i.labels = many.clone(), "too many labels: 257");
        assert!(NewMachine::new(input()).is_ok());
    }

    #[test]
    fn a_zero_retire_date_is_absent() {
        let zero = NewMachineInput { retire_date: "0001-01-01T00:00:00Z".parse().ok(), ..input() };
        assert_eq!(NewMachine::new(zero).expect("valid").retire_date, None);
    }

    #[test]
    fn labels_are_sorted_and_found() {
        let labels = Labels::new([("b", "2"), ("a", "1"), ("b", "3")]).expect("valid");
        let pairs: Vec<_> = labels.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(pairs, [("a", "1"), ("b", "3")]);
        assert_eq!(labels.find("b").map(LabelValue::as_str), Some("3"));
        assert_eq!(labels.find("c"), None);
        let name = |text: &str| LabelName::new(text).expect("a name");
        let more = labels.with(name("aa"), LabelValue::new("").expect("a value")).expect("few");
        assert_eq!(more, Labels::new([("a", "1"), ("aa", ""), ("b", "3")]).expect("valid"));
        assert_eq!(more.without(&name("aa")), Some(labels.clone()));
        assert_eq!(labels.without(&name("c")), None);
        let full = Labels::new((0..256).map(|n| (format!("n{n}"), "v"))).expect("as many as allowed");
        assert!(full.with(name("n7"), LabelValue::new("w").expect("a value")).is_ok(), "replacing is not adding");
        assert!(full.with(name("one-more"), LabelValue::new("w").expect("a value")).is_err());
        let over = Labels::stored((0..300).map(|n| (format!("n{n}"), "v")));
        assert!(over.with(name("n7"), LabelValue::new("w").expect("a value")).is_ok(), "what is there can be changed");
        assert!(over.with(name("one-more"), LabelValue::new("w").expect("a value")).is_err());
        assert_eq!(over.without(&name("n7")).map(|left| left.pairs().len()), Some(299));
    }

    #[test]
    fn netmasks() {
        for (bits, text) in [(0, "0.0.0.0"), (8, "255.0.0.0"), (26, "255.255.255.192"), (32, "255.255.255.255")] {
            assert_eq!(netmask(bits).to_string(), text);
        }
    }
}
