//! `sabactl cluster explain` and `sabactl cluster why-not`.

use sabakan_client::{Client, Error};
use sabakan_wire::rest::cluster::{ExplanationJson, NextJson, PastJson, StandingJson, WhyJson};

use super::text;
use crate::{exit::Failure, render};

#[derive(Debug, clap::Args)]
pub struct Machine {
    /// Serial of the machine
    serial: String,
    /// Print the JSON that the server sent
    #[arg(long)]
    json: bool,
}

/// Everything about a machine.
pub fn explain(client: &Client, machine: &Machine) -> Result<(), Failure> {
    show(client, machine, |told| {
        let mut shown = place(told);
        shown.push_str(&reasons(told));
        shown.push_str(&next(&told.next));
        shown.push_str(&text::section("Choices it is part of", told.selections.iter().flat_map(text::selection)));
        let past = told.past.iter().flat_map(past);
        shown.push_str(&text::section("What was done with it, newest first", past));
        shown
    })
}

/// Why it was not chosen, and nothing else.
pub fn why_not(client: &Client, machine: &Machine) -> Result<(), Failure> {
    show(client, machine, |told| {
        let mut shown = place(told);
        shown.push_str(&reasons(told));
        shown
    })
}

fn show(client: &Client, machine: &Machine, told: impl FnOnce(&ExplanationJson) -> String) -> Result<(), Failure> {
    let unknown =
        |error: Error| Failure::from(error).if_not_found("sabactl machines get shows the machines there are.");
    let sent = client.explain_cluster(&machine.serial).map_err(unknown)?;
    if machine.json {
        render::print_json_text(&sent.text)
    } else {
        render::print_text(&text::visible(&told(&sent.value)))
    }
}

/// Where it is now.
fn place(told: &ExplanationJson) -> String {
    let ExplanationJson { serial, now, standing, .. } = told;
    let address = standing.as_ref().and_then(|standing| standing.address.as_ref());
    let address = address.map_or_else(String::new, |address| format!(" ({address})"));
    let now = match now.as_str() {
        "outside" => "not in the cluster",
        "worker" => "a worker",
        _ => "a control plane",
    };
    format!("{serial}{address} is {now}.\n")
}

/// Why the next round makes it no control plane, or no worker.
fn reasons(told: &ExplanationJson) -> String {
    let Some(standing @ StandingJson { place, not_control_plane, not_worker, .. }) = &told.standing else {
        let reason = if told.registered {
            "it is registered, but the query variables leave it out: sabactl cluster get-variables"
        } else {
            "it is in no list of machines"
        };
        return format!("The planner does not see it: {reason}.\n");
    };
    let mut lines = String::new();
    let changes = place != &told.now;
    if changes {
        let place = if place == "outside" { "outside the cluster" } else { place };
        lines.push_str(&format!("After the next round it would be: {place}.\n"));
    }
    let it_is = if changes { "It would be" } else { "It is" };
    for (what, why) in [("no control plane", not_control_plane), ("no worker", not_worker)] {
        if let Some(why) = why {
            lines.push_str(&format!("{it_is} {what}: {}.\n", because(why)));
        }
    }
    if let Some(caution) = text::untold_caution(standing) {
        lines.push_str(&format!("Other machines are preferred to it: {caution}.\n"));
    }
    lines
}

fn because(why: &WhyJson) -> String {
    let WhyJson { kind: _, text, by, own, best, incident: _ } = why;
    match (by, own, best) {
        (Some(by), Some(own), Some(best)) => {
            format!("{text}\n  its own      {}\n  {by:11}  {}\n ", text::points(own), text::points(best))
                .trim_end()
                .to_owned()
        }
        _ => text.clone(),
    }
}

fn next(next: &NextJson) -> String {
    let NextJson { outcome: _, operation, changes, blocked, disabled } = next;
    let told = match (operation, blocked) {
        (Some(operation), _) if changes.is_empty() => format!("{operation}; nothing about this machine changes"),
        (Some(operation), _) => operation.clone(),
        (None, Some(blocked)) => format!("blocked: {}", blocked.reason),
        (None, None) => "nothing to do".to_owned(),
    };
    let disabled = disabled.then(|| "the planner is disabled".to_owned());
    text::section("Next round", std::iter::once(told).chain(text::changes(changes)).chain(disabled))
}

fn past(past: &PastJson) -> Vec<String> {
    let PastJson { plan, changes } = past;
    let operation = plan.operation.as_deref().unwrap_or(&plan.outcome);
    let mut lines = vec![format!("plan {}, {}, {operation}", plan.number, plan.at)];
    lines.extend(text::changes(changes).into_iter().map(|line| format!("  {line}")));
    lines
}

#[cfg(test)]
mod tests {
    use sabakan_wire::rest::cluster::{CautionJson, ScoreJson};

    use super::*;

    fn told() -> ExplanationJson {
        ExplanationJson {
            serial: "a".into(),
            registered: true,
            standing: None,
            now: "outside".into(),
            next: NextJson {
                outcome: "nothing".into(),
                operation: None,
                changes: vec![],
                blocked: None,
                disabled: false,
            },
            selections: vec![],
            past: vec![],
        }
    }

    #[test]
    fn a_machine_that_is_not_listed() {
        let shown = |told: ExplanationJson| format!("{}{}", place(&told), reasons(&told));
        let text = shown(told());
        assert!(
            text.starts_with("a is not in the cluster.\nThe planner does not see it: it is registered, but"),
            "{text}"
        );
        let text = shown(ExplanationJson { registered: false, ..told() });
        assert!(text.ends_with("it is in no list of machines.\n"), "{text}");
    }

    #[test]
    fn reasons_have_the_points_of_both() {
        let score = |total| ScoreJson { total, rack: total, lifetime: 0, health: 0, in_rack: 0, days: 5 };
        let why = WhyJson {
            kind: "outscored".into(),
            text: "b has 1000 points, it has 990".into(),
            by: Some("b".into()),
            own: Some(score(990)),
            best: Some(score(1000)),
            incident: None,
        };
        let standing = StandingJson {
            serial: "a".into(),
            address: Some("10.0.0.1".into()),
            place: "worker".into(),
            not_control_plane: Some(why),
            not_worker: None,
            caution: None,
        };
        let told = ExplanationJson { standing: Some(standing), ..told() };
        let shown = format!("{}{}", place(&told), reasons(&told));
        let expected = "\
a (10.0.0.1) is not in the cluster.
After the next round it would be: worker.
It would be no control plane: b has 1000 points, it has 990
  its own      990 points = rack 990 (0 there) + lifetime 0 (5 days)
  b            1000 points = rack 1000 (0 there) + lifetime 0 (5 days).
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_speaks_against_a_machine_is_told_once() {
        let caution = "rack 1 failed together (incident 7, open)";
        let why = |kind: &str, text: String| WhyJson { kind: kind.into(), text, ..WhyJson::default() };
        let reason = |why: WhyJson| {
            let standing = StandingJson {
                serial: "a".into(),
                address: None,
                place: "worker".into(),
                not_control_plane: Some(why),
                not_worker: None,
                caution: Some(CautionJson { kind: "group-failed".into(), text: caution.into(), incident: Some(7) }),
            };
            reasons(&ExplanationJson { standing: Some(standing), now: "worker".into(), ..told() })
        };
        let passed_over = reason(why("cautioned", format!("not chosen: {caution}")));
        assert_eq!(passed_over, format!("It is no control plane: not chosen: {caution}.\n"));
        let not_needed = reason(why("not-needed", "there are 3 of 3".into()));
        let expected = "It is no control plane: there are 3 of 3.\nOther machines are preferred to it: ";
        assert_eq!(not_needed, format!("{expected}{caution}.\n"));
    }
}
