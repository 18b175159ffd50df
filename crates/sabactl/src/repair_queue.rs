//! `sabactl repair-queue`: machines that are being repaired, were, or wait for it.

mod wait;

use clap::Subcommand;
use sabakan_client::{Client, RepairSweep, RepairSwitch};
use sabakan_wire::rest::repair::{IndexesJson, NewRepairJson, RepairEntryJson};

use crate::{
    auto_repair::{enable, hinted, is_enabled},
    exit::Failure,
    output::{Output, QueueOutput},
};

pub const EXAMPLES: &str = "Examples:
  sabactl repair-queue list                               what is repaired, and what it waits for
  sabactl repair-queue add unreachable iDRAC-9 10.69.0.4  repair a machine
  sabactl repair-queue delete-finished                    make room for others
  sabactl repair-queue wait --timeout-seconds 600         until nothing is left

An entry that has ended stays until it is deleted, and counts: sabactl auto-repair status.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Let repairs begin
    #[command(after_help = "Example:\n  sabactl repair-queue enable")]
    Enable(Output),
    /// Let no repair begin; drains are given up, commands that run go on
    #[command(after_help = "Example:\n  sabactl repair-queue disable")]
    Disable(Output),
    /// Print whether repairs begin: true or false
    #[command(after_help = "Example:\n  sabactl repair-queue is-enabled")]
    IsEnabled(Output),
    /// Ask for a repair; prints its index
    #[command(after_help = "Examples:
  sabactl repair-queue add unreachable iDRAC-9 10.69.0.4
  sabactl repair-queue add unhealthy iDRAC-9 10.69.0.4 1234abcd

The cluster template says which operations there are for which machine type. The limits of automatic
repair do not hold for this entry, and count it.")]
    Add {
        /// What is wrong
        operation: String,
        /// BMC type of the machine
        machine_type: String,
        /// IPv4 address of the machine
        address: std::net::Ipv4Addr,
        /// Serial of the machine; without it that of the registered machine with the address
        serial: Option<String>,
        #[command(flatten)]
        output: Output,
    },
    /// Show all entries, with what they wait for
    #[command(after_help = "Examples:
  sabactl repair-queue list
  sabactl repair-queue list -o json | jq '.[]? | select(.status == \"failed\") | .address'")]
    List(QueueOutput),
    /// Clear an entry that has ended, cancel any other
    #[command(after_help = "Example:\n  sabactl repair-queue delete 17")]
    Delete {
        /// Its index
        index: u64,
        #[command(flatten)]
        output: Output,
    },
    /// Clear all entries that have ended; prints their indexes
    #[command(after_help = "Example:\n  sabactl repair-queue delete-finished")]
    DeleteFinished(Output),
    /// Cancel all entries that have not ended; prints their indexes
    #[command(after_help = "Example:\n  sabactl repair-queue delete-unfinished")]
    DeleteUnfinished(Output),
    /// Let drains that failed be tried at once
    #[command(after_help = "Example:\n  sabactl repair-queue reset-backoff")]
    ResetBackoff(Output),
    /// Wait until no entry is left; those that have ended count
    #[command(after_help = "Examples:
  sabactl repair-queue wait
  sabactl repair-queue wait --timeout-seconds 0      look once

Exits with 7 if entries are left.")]
    Wait(wait::Wait),
}

/// Does what the command says.
pub fn run(client: &Client, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Enable(output) => enable(client, RepairSwitch::RepairQueue, output, true),
        Command::Disable(output) => enable(client, RepairSwitch::RepairQueue, output, false),
        Command::IsEnabled(output) => is_enabled(client, RepairSwitch::RepairQueue, output),
        Command::Add { operation, machine_type, address, serial, output } => {
            let wish = NewRepairJson {
                operation: operation.clone(),
                machine_type: machine_type.clone(),
                address: address.to_string(),
                serial: serial.clone(),
            };
            output.print(&client.add_repair(&wish)?, |entry| format!("{}\n", entry.index))
        }
        Command::List(output) => output.print(&client.repairs()?, HEADER, row),
        Command::Delete { index, output } => {
            let sent =
                client.delete_repair(*index).map_err(hinted("sabactl repair-queue list shows what there is."))?;
            output.print_done(&sent)
        }
        Command::DeleteFinished(output) => output.print(&client.sweep_repairs(RepairSweep::DeleteFinished)?, lines),
        Command::DeleteUnfinished(output) => output.print(&client.sweep_repairs(RepairSweep::DeleteUnfinished)?, lines),
        Command::ResetBackoff(output) => output.print_done(&client.sweep_repairs(RepairSweep::ResetBackoff)?),
        Command::Wait(wait) => wait::run(client, wait),
    }
}

/// Indexes, one in each line.
pub fn lines(told: &IndexesJson) -> String {
    told.indexes.iter().map(|index| format!("{index}\n")).collect()
}

const HEADER: [&str; 9] = ["Index", "Status", "Step", "Address", "Serial", "Type", "Operation", "Since", "Remark"];

fn row(entry: &RepairEntryJson) -> [String; 9] {
    let or_dash = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
    [
        entry.index.clone(),
        entry.status.clone(),
        format!("{}/{}", entry.step, entry.step_status),
        entry.address.clone(),
        or_dash(entry.serial.as_deref().unwrap_or_default()),
        or_dash(&entry.machine_type),
        entry.operation.clone(),
        since(entry).to_owned(),
        remark(entry),
    ]
}

/// A time that was never set, as the older service writes it.
const NEVER: &str = "0001-01-01T00:00:00Z";

/// Since when an entry has been where it is.
pub fn since(entry: &RepairEntryJson) -> &str {
    if entry.last_transition_time == NEVER { &entry.created } else { &entry.last_transition_time }
}

/// What a person wants to know besides: that it is going away, what it waits for, what was done last.
pub fn remark(entry: &RepairEntryJson) -> String {
    let deleted = if entry.deleted { "is being deleted" } else { "" };
    let waits = entry.waits.as_deref().unwrap_or_default();
    let parts = [deleted, waits, &entry.note].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn entry() -> RepairEntryJson {
        RepairEntryJson {
            index: "17".into(),
            address: "10.0.0.1".into(),
            nodename: String::new(),
            serial: None,
            machine_type: "type1".into(),
            operation: "unreachable".into(),
            status: "queued".into(),
            step: 0,
            step_status: "waiting".into(),
            deleted: false,
            last_transition_time: NEVER.into(),
            drain_backoff_count: 0,
            drain_backoff_expire: NEVER.into(),
            created: "2026-01-02T03:00:00Z".into(),
            asked_by: "alice".into(),
            note: String::new(),
            waits: Some("the queue is disabled".into()),
        }
    }

    #[test]
    fn a_row_says_since_when_and_why() {
        let expected = [
            "17",
            "queued",
            "0/waiting",
            "10.0.0.1",
            "-",
            "type1",
            "unreachable",
            "2026-01-02T03:00:00Z",
            "the queue is disabled",
        ];
        assert_eq!(row(&entry()), expected);
        let later = RepairEntryJson {
            serial: Some("m1".into()),
            last_transition_time: "2026-01-02T04:00:00Z".into(),
            deleted: true,
            note: "a pod stays".into(),
            ..entry()
        };
        let shown = row(&later);
        assert_eq!((shown[4].as_str(), shown[7].as_str()), ("m1", "2026-01-02T04:00:00Z"));
        assert_eq!(shown[8], "is being deleted; the queue is disabled; a pod stays");
    }

    #[test]
    fn indexes_are_lines() {
        assert_eq!(lines(&IndexesJson { indexes: vec!["3".into(), "12".into()] }), "3\n12\n");
        assert_eq!(lines(&IndexesJson::default()), "");
    }
}
