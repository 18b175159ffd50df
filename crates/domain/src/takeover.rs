//! What is in a registry that was taken over from an older service and that input would refuse today. Such values are read, shown and
//! served like all others, because a machine that vanished from the registry would vanish from the cluster. They are only marked, until
//! somebody mends them. The marks are found from the values themselves, so that a mended machine has none.

use crate::{
    limits,
    machine::{LabelsError, Machine},
};

/// What input would refuse of a machine, for people; empty: nothing.
pub fn remarks(machine: &Machine) -> Vec<String> {
    let mut found = Vec::new();
    note(&mut found, "serial", machine.serial.judge().err());
    note(&mut found, "role", machine.role.judge().err());
    let count = machine.labels.pairs().len();
    note(&mut found, "labels", (count > limits::LABELS_MAX).then_some(LabelsError::TooMany(count)));
    let odd = machine.labels.iter().filter_map(|(name, value)| name.judge().and_then(|()| value.judge()).err());
    for error in odd.take(limits::NAMES_SHOWN) {
        note(&mut found, "labels", Some(error));
    }
    note(&mut found, "bmc.type", machine.bmc.kind.judge().err());
    let per_node = limits::IP_PER_NODE_MAX as usize;
    if machine.nics.is_empty() {
        note(&mut found, "ipv4", Some("no address was stored; register the machine again to give it one"));
    } else if machine.nics.len() > per_node {
        let text = format!("{} addresses, at most {per_node} are allowed", machine.nics.len());
        note(&mut found, "ipv4", Some(text));
    }
    if machine.bmc.address().is_none() {
        note(&mut found, "bmc.ipv4", Some("no address was stored; register the machine again to give it one"));
    }
    found
}

/// Whether input would refuse anything of a machine.
pub fn is_marked(machine: &Machine) -> bool {
    let per_node = limits::IP_PER_NODE_MAX as usize;
    machine.serial.judge().is_err()
        || machine.role.judge().is_err()
        || machine.labels.pairs().len() > limits::LABELS_MAX
        || machine.labels.iter().any(|(name, value)| name.judge().is_err() || value.judge().is_err())
        || machine.bmc.kind.judge().is_err()
        || !(1..=per_node).contains(&machine.nics.len())
        || machine.bmc.address().is_none()
}

/// Adds a remark, cut to what people read: a stored text has no bound of its own.
fn note(found: &mut Vec<String>, field: &str, reason: Option<impl ToString>) {
    let Some(reason) = reason.map(|reason| reason.to_string()) else { return };
    let cut = match reason.char_indices().nth(limits::TAKEOVER_REMARK_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &reason[..end]),
        None => reason,
    };
    found.push(format!("{field}: {cut}"));
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use jiff::Timestamp;

    use super::*;
    use crate::{
        lifecycle::HealthState,
        machine::{Bmc, Labels, Nic, Rack, Status},
        words::{BmcType, Role, Serial},
    };

    fn machine() -> Machine {
        let nic = Nic { address: Ipv4Addr::new(10, 0, 0, 1), maskbits: 24, gateway: Ipv4Addr::new(10, 0, 0, 254) };
        Machine {
            serial: Serial::stored("s1"),
            labels: Labels::default(),
            rack: Rack(1),
            index_in_rack: 4,
            role: Role::stored("worker"),
            nics: [nic].into(),
            bmc: Bmc { kind: BmcType::stored("iDRAC-9"), nic },
            register_date: Timestamp::UNIX_EPOCH,
            retire_date: "9999-12-31T23:59:59Z".parse().expect("a time"),
            status: Status { state: HealthState::Healthy, since: Timestamp::UNIX_EPOCH },
        }
    }

    fn check(change: impl Fn(&mut Machine), expected: &[&str]) {
        let mut changed = machine();
        change(&mut changed);
        let found = remarks(&changed);
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found:?} {expected:?}");
        }
        assert_eq!(is_marked(&changed), !expected.is_empty(), "{expected:?}");
    }

    #[test]
    fn every_value_that_input_refuses_is_marked_and_nothing_else() {
        check(|_| {}, &[]);
        check(|m| m.serial = Serial::stored("a/b"), &["serial: invalid serial: \"a/b\" must not contain '/'"]);
        check(|m| m.serial = Serial::stored("x".repeat(300)), &["serial: invalid serial: 300 bytes"]);
        check(|m| m.serial = Serial::stored(" a\u{7}"), &["serial: invalid serial"]);
        check(|m| m.role = Role::stored(""), &["role: invalid role"]);
        check(|m| m.bmc.kind = BmcType::stored("b".repeat(300)), &["bmc.type: BMC type is too long: 300 bytes"]);
        check(|m| m.bmc.nic.address = Ipv4Addr::UNSPECIFIED, &["bmc.ipv4: no address"]);
        check(|m| m.nics = Box::default(), &["ipv4: no address"]);
        check(|m| m.nics = vec![m.nics[0]; 65].into(), &["ipv4: 65 addresses"]);
        check(
            |m| m.labels = Labels::stored([("a b", "x"), ("c", "d e")]),
            &["labels: invalid label name", "labels: inv"],
        );
        let many = |n: u32| move |m: &mut Machine| m.labels = Labels::stored((0..n).map(|n| (format!("n{n}"), "v")));
        check(many(256), &[]);
        check(many(257), &["labels: too many labels: 257"]);
    }

    #[test]
    fn a_remark_is_short_however_long_the_value_is() {
        let mut long = machine();
        long.serial = Serial::stored("a,".repeat(50_000));
        long.role = Role::stored("-é".repeat(50_000));
        long.labels = Labels::stored((0..1_000).map(|n| (format!("n {n}"), "-".repeat(1_000))));
        let found = remarks(&long);
        assert!(found.iter().map(String::len).sum::<usize>() < 10_000, "{}", found.len());
    }
}
