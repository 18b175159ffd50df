//! `sabactl incidents`: what failed together, and that a person has looked.

use clap::Subcommand;
use sabakan_client::Client;
use sabakan_wire::rest::repair::{AcknowledgedJson, GroupJson, IncidentJson, IncidentNowJson, IncidentSummaryJson};

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
            print_rows(["Number", "Phase", "Group", "Machines", "Broken now", "Opened", "Opened because"], rows)
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
        let [number, phase, group, machines, _, opened, because] = row(incident);
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

fn row(incident: &IncidentSummaryJson) -> [String; 7] {
    let IncidentSummaryJson {
        number,
        group,
        phase,
        holds,
        opened,
        because,
        now,
        now_unknown,
        member_count,
        acknowledged: _,
        recovered: _,
    } = incident;
    let phase = if phase == "open" && !holds { "open, holds nobody".to_owned() } else { phase.clone() };
    let broken = match (now, now_unknown) {
        (Some(now), _) => format!("{} of {}", now.broken, now.machines),
        (None, Some(_)) => "unknown".to_owned(),
        (None, None) => "-".to_owned(),
    };
    [number.to_string(), phase, named(group), member_count.to_string(), broken, opened.clone(), because.clone()]
}

fn named(group: &GroupJson) -> String {
    let GroupJson { kind, value } = group;
    if value.is_empty() { format!("the whole {kind}") } else { format!("{kind} {value}") }
}

/// What holds now, in a line of its own: the reason it was opened for may be long past.
fn present(now: &IncidentNowJson) -> String {
    let IncidentNowJson { broken, machines, since, controllers_answering, controllers_silent } = now;
    let Some(since) = since else { return format!("Now: none of its {machines} machines is broken.\n") };
    let (are, unknown) =
        (if *broken == 1 { "is" } else { "are" }, broken.saturating_sub(controllers_answering + controllers_silent));
    let controllers = [
        (*controllers_answering, "answer"),
        (*controllers_silent, "do not answer"),
        (unknown, "are not asked or have not been asked yet"),
    ];
    let controllers: Vec<String> =
        controllers.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    format!(
        "Now: {broken} of {machines} machines {are} broken, the first since {since}. Of their controllers {}.\n",
        controllers.join(", ")
    )
}

fn whole(incident: &IncidentJson) -> String {
    let IncidentJson { summary, members } = incident;
    let IncidentSummaryJson {
        number,
        group,
        phase,
        holds,
        opened,
        because,
        now,
        now_unknown,
        member_count,
        acknowledged,
        recovered,
    } = summary;
    let mut shown = format!("Incident {number}: {} failed together. It is {phase}.\n", named(group));
    shown.push_str(&format!("Opened at {opened}: {because}.\n"));
    if let Some(now) = now {
        shown.push_str(&present(now));
    }
    if let Some(reason) = now_unknown {
        shown.push_str(&format!("How many are broken now is not known: {reason}.\n"));
    }
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
            now: None,
            now_unknown: None,
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
    fn why_it_was_opened_and_what_holds_now_stand_side_by_side() {
        let now = IncidentNowJson {
            broken: 27,
            machines: 28,
            since: Some("2026-01-02T02:58:00Z".into()),
            controllers_answering: 3,
            controllers_silent: 20,
        };
        let opened = IncidentSummaryJson { because: "4 of 28 failed".into(), ..incident() };
        let summary = IncidentSummaryJson { now: Some(now.clone()), ..opened.clone() };
        assert_eq!(row(&summary)[4..], ["27 of 28", "2026-01-02T03:00:00Z", "4 of 28 failed"]);
        let text = whole(&IncidentJson { summary, members: vec![] });
        let expected = "\
Opened at 2026-01-02T03:00:00Z: 4 of 28 failed.
Now: 27 of 28 machines are broken, the first since 2026-01-02T02:58:00Z. Of their controllers 3 answer, 20 do not answer, 4 are \
not asked or have not been asked yet.
";
        assert!(text.contains(expected), "{text}");
        let none = IncidentNowJson { broken: 0, since: None, controllers_answering: 0, controllers_silent: 0, ..now };
        assert_eq!(present(&none), "Now: none of its 28 machines is broken.\n");
        let unknown = IncidentSummaryJson { now_unknown: Some("the registry did not answer in time".into()), ..opened };
        assert_eq!(row(&unknown)[4], "unknown");
        let text = whole(&IncidentJson { summary: unknown, members: vec![] });
        assert!(
            text.contains("\nHow many are broken now is not known: the registry did not answer in time.\n"),
            "{text}"
        );
    }

    #[test]
    fn the_fleet_has_no_name() {
        let fleet = GroupJson { kind: "fleet".into(), value: String::new() };
        assert_eq!(row(&IncidentSummaryJson { group: fleet, ..incident() })[2], "the whole fleet");
    }
}
