//! `sabactl auto-repair explain`: why a machine is, or is not, being repaired.

use sabakan_client::Client;
use sabakan_wire::rest::repair::{BrokenJson, OpinionJson, RepairExplanationJson};

use super::{hinted, status};
use crate::{
    cluster::text,
    exit::Failure,
    incidents,
    output::Output,
    render::human_duration,
    repair_queue::{self, since},
};

#[derive(Debug, clap::Args)]
pub struct Explain {
    /// Serial of the machine
    serial: String,
    #[command(flatten)]
    output: Output,
}

/// Does what the command says.
pub fn run(client: &Client, explain: &Explain) -> Result<(), Failure> {
    let hint = "sabactl machines get shows the machines there are.";
    let sent = client.explain_repair(&explain.serial).map_err(hinted(hint))?;
    explain.output.print(&sent, shown)
}

fn shown(told: &RepairExplanationJson) -> String {
    let mut shown = state(told);
    if let Some(broken) = &told.broken {
        shown.push_str(&opinion(broken.second_opinion));
    }
    shown.push_str(&format!("Repair: {}.\n", told.answer));
    if let Some(change) = &told.change {
        shown.push_str(&format!("What would change that: {change}.\n"));
    }
    shown.push_str(&text::section("Repairs", text::aligned(&told.entries.iter().map(entry).collect::<Vec<_>>())));
    shown.push_str(&text::section("Incidents, newest first", incidents::lines(&told.incidents)));
    shown.push_str(&text::section("Budget", [status::budget(&told.budget)]));
    shown.push_str(&text::section("Needs attention", told.messages.iter().map(|line| format!("- {line}"))));
    shown
}

fn state(told: &RepairExplanationJson) -> String {
    let RepairExplanationJson { serial, address, state, since, broken, registered, .. } = told;
    let address = address.as_ref().map(|address| format!(" ({address})")).unwrap_or_default();
    let state = state.as_deref().unwrap_or("of unknown state");
    let since = since.as_ref().map(|since| format!(" since {since}")).unwrap_or_default();
    let long = |broken: &BrokenJson| {
        let seconds = std::time::Duration::from_secs(broken.seconds).as_secs_f64();
        format!("; reported {} for {}", broken.state, human_duration(seconds))
    };
    let reported = broken.as_ref().map(long).unwrap_or_default();
    let known = if *registered { "" } else { "; it is not in the registry of this server" };
    format!("{serial}{address} is {state}{since}{reported}{known}.\n")
}

fn opinion(opinion: OpinionJson) -> String {
    let OpinionJson { bmc_answers, lease_renewed } = opinion;
    let bmc = match bmc_answers {
        Some(true) => "its controller answers",
        Some(false) => "its controller does not answer",
        None => "whether its controller answers is not known",
    };
    let lease = match lease_renewed {
        Some(true) => "it renewed its lease since then, so it may be alive",
        Some(false) => "it did not renew its lease since then",
        None => "nothing is known about its lease",
    };
    format!("Second opinion: {bmc}; {lease}.\n")
}

fn entry(entry: &sabakan_wire::rest::repair::RepairEntryJson) -> [String; 5] {
    let what = format!("{}, step {} {}", entry.status, entry.step, entry.step_status);
    [
        format!("repair {}", entry.index),
        entry.operation.clone(),
        what,
        format!("since {}", since(entry)),
        repair_queue::remark(entry),
    ]
}

#[cfg(test)]
mod tests {
    use sabakan_wire::rest::repair::{BudgetJson, SwitchesJson, VerdictJson};

    use super::*;
    use crate::repair_queue::tests::entry as an_entry;

    fn verdict() -> VerdictJson {
        VerdictJson {
            kind: "held".into(),
            text: "rack 1 failed together".into(),
            change: Some("the group recovers".into()),
            incident: Some(4),
            group: None,
            index: None,
            seconds_left: None,
            entries: None,
            new: None,
            max: None,
        }
    }

    fn told() -> RepairExplanationJson {
        RepairExplanationJson {
            serial: "m1".into(),
            answer: "rack 1 failed together".into(),
            change: Some("the group recovers".into()),
            registered: true,
            state: Some("unreachable".into()),
            since: Some("2026-01-02T03:04:05Z".into()),
            address: Some("10.0.0.1".into()),
            broken: Some(BrokenJson {
                serial: "m1".into(),
                address: Some("10.0.0.1".into()),
                state: "unreachable".into(),
                seconds: 7_800,
                rack: 1,
                role: "cs".into(),
                machine_type: "type1".into(),
                version: None,
                power_domain: None,
                second_opinion: OpinionJson { bmc_answers: Some(false), lease_renewed: None },
                hands_off: None,
                verdict: verdict(),
            }),
            broken_unknown: None,
            entries: vec![an_entry()],
            incidents: vec![incidents::tests::incident()],
            switches: SwitchesJson { automatic: true, repair_queue: false, guard: true, reboot_queue: None },
            budget: BudgetJson::new((1, 0), 5, (4, 1), false),
            leader: Some("boot-0".into()),
            messages: vec!["the repair queue is disabled".into()],
        }
    }

    #[test]
    fn everything_an_operator_asks_is_answered() {
        let expected = "\
m1 (10.0.0.1) is unreachable since 2026-01-02T03:04:05Z; reported unreachable for 2h10m.
Second opinion: its controller does not answer; nothing is known about its lease.
Repair: rack 1 failed together.
What would change that: the group recovers.

Repairs
  repair 17  unreachable  queued, step 0 waiting  since 2026-01-02T03:00:00Z  the queue is disabled

Incidents, newest first
  incident 4  open  rack 1  28 machines  opened 2026-01-02T03:00:00Z  28 of 28 failed

Budget
  1 of 5 entries, none of them finished; 4 repairs may still begin

Needs attention
  - the repair queue is disabled
";
        assert_eq!(shown(&told()), expected);
    }

    #[test]
    fn a_machine_that_nothing_is_known_about() {
        let told = RepairExplanationJson {
            answer: "nobody reports that it is broken".into(),
            change: None,
            registered: false,
            state: None,
            since: None,
            address: None,
            broken: None,
            entries: vec![],
            incidents: vec![],
            messages: vec![],
            ..told()
        };
        let shown = shown(&told);
        assert!(
            shown.starts_with("m1 is of unknown state; it is not in the registry of this server.\nRepair: nobody"),
            "{shown}"
        );
        assert!(!shown.contains("Second opinion") && !shown.contains("Needs attention"), "{shown}");
    }
}
