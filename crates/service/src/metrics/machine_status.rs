//! `sabakan_machine_status`: seven lines for each machine, 700,000 for a large fleet. Written straight into the pieces that are sent:
//! what the seven lines of a machine have in common is made once and copied, and nothing is allocated for a line.

use std::{array, io::Write as _, sync::Arc};

use sabakan_domain::{lifecycle::HealthState, machine::Machine};
use sabakan_store::view::Snapshot;

use super::{
    catalogue::MACHINE_STATUS,
    text::{Text, label},
};
use crate::limits;

/// The label of a machine that says what type it is.
const TYPE_LABEL: &str = "machine-type";

/// The lines of every machine of a snapshot, piece by piece.
pub(super) struct MachineStatus {
    snapshot: Arc<Snapshot>,
    /// Where the walk goes on.
    next: usize,
    begun: bool,
    lines: Lines,
}

impl MachineStatus {
    pub(super) fn new(snapshot: Arc<Snapshot>) -> MachineStatus {
        MachineStatus { snapshot, next: 0, begun: false, lines: Lines::default() }
    }

    /// The next piece; `None`: that was all.
    pub(super) fn next_chunk(&mut self) -> Option<Vec<u8>> {
        let mut text = Text(Vec::with_capacity(limits::SCRAPE_CHUNK_BYTES + limits::SCRAPE_CHUNK_SLACK_BYTES));
        if !self.begun {
            self.begun = true;
            text.head(&MACHINE_STATUS);
        }
        let MachineStatus { snapshot, next, lines, .. } = self;
        for (at, machine) in snapshot.walk(*next) {
            if text.0.len() >= limits::SCRAPE_CHUNK_BYTES {
                break;
            }
            lines.write(&mut text.0, machine);
            *next = at + 1;
        }
        (!text.0.is_empty()).then_some(text.0)
    }
}

/// Writes the lines of one machine.
struct Lines {
    /// Up to the label that differs between machines.
    begins: [Vec<u8>; HealthState::ALL.len()],
    /// What the lines of one machine have in common; kept for its memory.
    common: Vec<u8>,
}

impl Default for Lines {
    fn default() -> Lines {
        let begin = |at: usize| {
            let mut begin = MACHINE_STATUS.name.as_bytes().to_vec();
            begin.push(b'{');
            label(&mut begin, MACHINE_STATUS.labels[0], HealthState::ALL[at].as_str());
            begin.push(b',');
            begin
        };
        Lines { begins: array::from_fn(begin), common: Vec::new() }
    }
}

impl Lines {
    fn write(&mut self, out: &mut Vec<u8>, machine: &Machine) {
        let Some(address) = machine.ipv4().next() else { return };
        let [_, address_label, serial_label, rack_label, role_label, type_label] = MACHINE_STATUS.labels else {
            unreachable!("the catalogue names six labels")
        };
        let common = &mut self.common;
        common.clear();
        write!(common, "{address_label}=\"{address}\",").expect("writing into memory does not fail");
        label(common, serial_label, machine.serial.as_str());
        write!(common, ",{rack_label}=\"{}\",", machine.rack).expect("writing into memory does not fail");
        label(common, role_label, machine.role.as_str());
        common.push(b',');
        label(common, type_label, machine.labels.find(TYPE_LABEL).map_or("", |value| value.as_str()));
        common.extend_from_slice(b"} ");
        for (state, begin) in HealthState::ALL.into_iter().zip(&self.begins) {
            out.extend_from_slice(begin);
            out.extend_from_slice(common);
            out.extend_from_slice(if state == machine.status.state { b"1\n" } else { b"0\n" });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use sabakan_domain::{
        machine::{Bmc, Labels, Nic, Rack, Status},
        words::{BmcType, Role, Serial},
    };

    use super::*;

    fn machine(labels: &[(&str, &str)], addresses: &[[u8; 4]]) -> Machine {
        let nic = |address: [u8; 4]| Nic { address: address.into(), maskbits: 24, gateway: Ipv4Addr::UNSPECIFIED };
        Machine {
            serial: Serial::new("1234abcd").expect("a serial"),
            labels: Labels::new(labels.iter().copied()).expect("labels"),
            rack: Rack(7),
            index_in_rack: 3,
            role: Role::new("worker").expect("a role"),
            nics: addresses.iter().copied().map(nic).collect(),
            bmc: Bmc { kind: BmcType::new("x").expect("a type"), nic: nic([10, 1, 0, 1]) },
            register_date: jiff::Timestamp::UNIX_EPOCH,
            retire_date: "2030-01-01T00:00:00Z".parse().expect("a date"),
            status: Status { state: HealthState::Updating, since: jiff::Timestamp::UNIX_EPOCH },
        }
    }

    fn written(machine: &Machine) -> String {
        let mut out = Vec::new();
        Lines::default().write(&mut out, machine);
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn seven_lines_one_of_them_true() {
        let text = written(&machine(&[("machine-type", "r640-boot"), ("a", "b")], &[[10, 69, 0, 4], [10, 69, 1, 4]]));
        let lines: Vec<_> = text.lines().collect();
        let line = |state: HealthState, value: u8| {
            format!(
                "sabakan_machine_status{{status=\"{state}\",address=\"10.69.0.4\",serial=\"1234abcd\",rack=\"7\",\
                 role=\"worker\",machine_type=\"r640-boot\"}} {value}"
            )
        };
        let expected: Vec<_> =
            HealthState::ALL.into_iter().map(|state| line(state, u8::from(state == HealthState::Updating))).collect();
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_machine_without_a_type_or_an_address() {
        assert!(written(&machine(&[], &[[10, 69, 0, 4]])).contains(",machine_type=\"\"} 0\n"));
        assert_eq!(written(&machine(&[], &[])), "", "the others keep their lines");
    }
}
