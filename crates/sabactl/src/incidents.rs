//! `sabactl incidents`: what failed together, and that a person has looked.

use clap::Subcommand;
use sabakan_client::Client;
use sabakan_wire::rest::repair::{AcknowledgedJson, GroupJson, IncidentJson, IncidentSummaryJson};

use crate::{
    auto_repair::hinted,
    cluster::text,
    exit::Failure,
    output::{Output, print_rows},
    render,
};

pub const EXAMPLES: &str = "Examples:
  sabactl incidents list --open                 what failed together and is not over
  sabactl incidents show 4                      which machines, and what was counted
  sabactl incidents acknowledge 4 --reason \"the switch was replaced\"

Machines that failed together are held, and not repaired, until their group recovers or a person acknowledges the incident.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what failed together, the newest first
    #[command(after_help = "Examples:
  sabactl incidents list
  sabactl incidents list --open")]
    List {
        /// Only those that are open: their machines are held, unless the guard is off
        #[arg(long)]
        open: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Show an incident with all of its machines
    #[command(after_help = "Examples:
  sabactl incidents show 4
  sabactl incidents show 4 -o json | jq -r '.members[]'")]
    Show {
        /// Its number
        number: u64,
        #[command(flatten)]
        output: Output,
    },
    /// Say that a person has looked: the machines may be repaired, as far as the limits allow
    #[command(after_help = "Example:\n  sabactl incidents acknowledge 4 --reason \"the switch was replaced\"")]
    Acknowledge {
        /// Its number
        number: u64,
        /// What was found; kept with the incident
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        reason: String,
        #[command(flatten)]
        output: Output,
    },
}

const WHICH: &str = "sabactl incidents list shows those that are kept.";

/// Does what the command says.
pub fn run(client: &Client, command: &Command) -> Result<(), Failure> {
    match command {
        Command::List { open, output } => {
            let sent = client.incidents(*open)?;
            if output.is_json() {
                return render::print_json_text(&sent.text);
            }
            let rows = sent.value.iter().map(row);
            print_rows(["Number", "Phase", "Group", "Machines", "Opened", "Because"], rows)
        }
        Command::Show { number, output } => output.print(&client.incident(*number).map_err(hinted(WHICH))?, whole),
        Command::Acknowledge { number, reason, output } => {
            let sent = client.acknowledge_incident(*number, reason).map_err(hinted(WHICH))?;
            output.print_done(&sent)
        }
    }
}

/// Incidents in lines of a larger text.
pub fn lines(incidents: &[IncidentSummaryJson]) -> Vec<String> {
    let line = |incident: &IncidentSummaryJson| {
        let [number, phase, group, machines, opened, because] = row(incident);
        [
            format!("incident {number}"),
            phase,
            group,
            format!("{machines} machines"),
            format!("opened {opened}"),
            because,
        ]
    };
    text::aligned(&incidents.iter().map(line).collect::<Vec<_>>())
}

fn row(incident: &IncidentSummaryJson) -> [String; 6] {
    let IncidentSummaryJson {
        number,
        group,
        phase,
        holds,
        opened,
        because,
        member_count,
        acknowledged: _,
        recovered: _,
    } = incident;
    let phase = if phase == "open" && !holds { "open, holds nobody".to_owned() } else { phase.clone() };
    [number.to_string(), phase, named(group), member_count.to_string(), opened.clone(), because.clone()]
}

fn named(group: &GroupJson) -> String {
    let GroupJson { kind, value } = group;
    if value.is_empty() { format!("the whole {kind}") } else { format!("{kind} {value}") }
}

fn whole(incident: &IncidentJson) -> String {
    let IncidentJson { summary, members } = incident;
    let IncidentSummaryJson { number, group, phase, holds, opened, because, member_count, acknowledged, recovered } =
        summary;
    let mut shown = format!("Incident {number}: {} failed together. It is {phase}.\n", named(group));
    shown.push_str(&format!("Opened at {opened}: {because}.\n"));
    if let Some(AcknowledgedJson { by, at, reason }) = acknowledged {
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        shown.push_str(&format!("Acknowledged at {at} by {by}{reason}.\n"));
    }
    if let Some(at) = recovered {
        shown.push_str(&format!("Recovered at {at}.\n"));
    }
    if *holds {
        shown.push_str(&format!(
            "Its machines are held until the group recovers or somebody runs: sabactl incidents acknowledge {number}\n"
        ));
    } else if phase == "open" {
        shown.push_str("It holds nobody, because the guard is off: sabactl auto-repair settings set guard true\n");
    }
    shown.push_str(&text::section(&format!("Machines ({member_count})"), members.iter().cloned()));
    shown
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn incident() -> IncidentSummaryJson {
        IncidentSummaryJson {
            number: 4,
            group: GroupJson { kind: "rack".into(), value: "1".into() },
            phase: "open".into(),
            holds: true,
            opened: "2026-01-02T03:00:00Z".into(),
            because: "28 of 28 failed".into(),
            member_count: 28,
            acknowledged: None,
            recovered: None,
        }
    }

    #[test]
    fn an_incident_says_what_to_do() {
        let open = IncidentJson { summary: incident(), members: vec!["m1".into(), "m2".into()] };
        let expected = "\
Incident 4: rack 1 failed together. It is open.
Opened at 2026-01-02T03:00:00Z: 28 of 28 failed.
Its machines are held until the group recovers or somebody runs: sabactl incidents acknowledge 4

Machines (28)
  m1
  m2
";
        assert_eq!(whole(&open), expected);
        let acknowledged =
            AcknowledgedJson { by: "alice".into(), at: "2026-01-02T04:00:00Z".into(), reason: "power is back".into() };
        let summary = IncidentSummaryJson {
            phase: "acknowledged".into(),
            holds: false,
            acknowledged: Some(acknowledged),
            ..incident()
        };
        let text = whole(&IncidentJson { summary, members: vec![] });
        assert!(text.ends_with("Acknowledged at 2026-01-02T04:00:00Z by alice: power is back.\n"), "{text}");
    }

    #[test]
    fn an_open_incident_that_holds_nobody_says_so() {
        let loose = IncidentSummaryJson { holds: false, ..incident() };
        assert_eq!(row(&loose)[1], "open, holds nobody");
        let text = whole(&IncidentJson { summary: loose, members: vec![] });
        assert!(
            text.contains("\nIt holds nobody, because the guard is off: sabactl auto-repair settings set guard true\n")
        );
        assert!(!text.contains("are held"), "{text}");
    }

    #[test]
    fn the_fleet_has_no_name() {
        let fleet = GroupJson { kind: "fleet".into(), value: String::new() };
        assert_eq!(row(&IncidentSummaryJson { group: fleet, ..incident() })[2], "the whole fleet");
    }
}
