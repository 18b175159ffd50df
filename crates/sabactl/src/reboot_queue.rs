//! `sabactl reboot-queue`: nodes that are to be rebooted in an orderly way.

use std::path::PathBuf;

use clap::Subcommand;
use sabakan_client::{Client, RepairSwitch};
use sabakan_wire::rest::repair::RebootEntryJson;

use crate::{
    auto_repair::{enable, hinted, is_enabled},
    cluster::send_file,
    exit::Failure,
    output::{Output, QueueOutput},
    repair_queue::lines,
};

pub const EXAMPLES: &str = "Examples:
  sabactl reboot-queue add nodes.txt     reboot the nodes with the addresses in its lines
  sabactl reboot-queue list              where they are, and what they wait for
  sabactl rq cancel-all                  leave all others as they are

While a node is rebooted this way it is not taken for a broken one.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Let reboots begin
    #[command(after_help = "Example:\n  sabactl reboot-queue enable")]
    Enable(Output),
    /// Let no reboot begin
    #[command(after_help = "Example:\n  sabactl reboot-queue disable")]
    Disable(Output),
    /// Print whether reboots begin: true or false
    #[command(after_help = "Example:\n  sabactl reboot-queue is-enabled")]
    IsEnabled(Output),
    /// Ask for reboots, all of them or none; prints their indexes
    #[command(after_help = "Examples:
  sabactl reboot-queue add nodes.txt
  echo 10.69.0.4 | sabactl reboot-queue add -")]
    Add {
        /// File with the IPv4 address of one node in each line, or {"nodes": [...]}; `-` is standard input
        #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
        file: PathBuf,
        #[command(flatten)]
        output: Output,
    },
    /// Show all entries, with what they wait for
    #[command(after_help = "Examples:
  sabactl reboot-queue list
  sabactl reboot-queue list -o json | jq '.[]?.node'")]
    List(QueueOutput),
    /// Cancel a reboot
    #[command(after_help = "Example:\n  sabactl reboot-queue cancel 17")]
    Cancel {
        /// Its index
        index: u64,
        #[command(flatten)]
        output: Output,
    },
    /// Cancel all reboots; prints their indexes
    #[command(after_help = "Example:\n  sabactl reboot-queue cancel-all")]
    CancelAll(Output),
    /// Let drains that failed be tried at once
    #[command(after_help = "Example:\n  sabactl reboot-queue reset-backoff")]
    ResetBackoff(Output),
}

/// Does what the command says.
pub fn run(client: &Client, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Enable(output) => enable(client, RepairSwitch::RebootQueue, output, true),
        Command::Disable(output) => enable(client, RepairSwitch::RebootQueue, output, false),
        Command::IsEnabled(output) => is_enabled(client, RepairSwitch::RebootQueue, output),
        Command::Add { file, output } => output.print(&send_file(file, |bytes| client.add_reboots(bytes))?, lines),
        Command::List(output) => output.print(&client.reboots()?, ["Index", "Node", "Status", "Since", "Remark"], row),
        Command::Cancel { index, output } => {
            let sent =
                client.cancel_reboot(*index).map_err(hinted("sabactl reboot-queue list shows what there is."))?;
            output.print_done(&sent)
        }
        Command::CancelAll(output) => output.print(&client.cancel_reboots()?, lines),
        Command::ResetBackoff(output) => output.print_done(&client.reset_reboot_backoff()?),
    }
}

fn row(entry: &RebootEntryJson) -> [String; 5] {
    let RebootEntryJson {
        index,
        node,
        status,
        last_transition_time,
        drain_backoff_count,
        drain_backoff_expire,
        note,
        waits,
    } = entry;
    // A time that was never set begins like this.
    let since = if last_transition_time.starts_with("0001-") { "-" } else { last_transition_time };
    let backoff = (*drain_backoff_count > 0)
        .then(|| format!("{drain_backoff_count} drains failed, the next after {drain_backoff_expire}"));
    let note = Some(note.clone()).filter(|note| !note.is_empty());
    let remarks: Vec<String> = [waits.clone(), backoff, note].into_iter().flatten().collect();
    [index.clone(), node.clone(), status.clone(), since.to_owned(), remarks.join("; ")]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_a_reboot_waits_for() {
        let fresh = RebootEntryJson {
            index: "3".into(),
            node: "10.0.0.1".into(),
            status: "queued".into(),
            last_transition_time: "0001-01-01T00:00:00Z".into(),
            drain_backoff_count: 0,
            drain_backoff_expire: "0001-01-01T00:00:00Z".into(),
            note: String::new(),
            waits: None,
        };
        assert_eq!(row(&fresh), ["3", "10.0.0.1", "queued", "-", ""]);
        let tried = RebootEntryJson {
            last_transition_time: "2026-01-02T03:00:00Z".into(),
            drain_backoff_count: 2,
            drain_backoff_expire: "2026-01-02T03:10:00Z".into(),
            note: "pod a/b may not be evicted".into(),
            waits: Some("a repair is under way".into()),
            ..fresh
        };
        let shown = row(&tried);
        assert_eq!(shown[3], "2026-01-02T03:00:00Z");
        assert_eq!(
            shown[4],
            "a repair is under way; 2 drains failed, the next after 2026-01-02T03:10:00Z; pod a/b may not be evicted"
        );
    }
}
