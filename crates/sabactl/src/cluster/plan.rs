//! `sabactl cluster plan`.

use sabakan_client::Client;
use sabakan_wire::rest::cluster::{PlanJson, SelectionJson, StandingJson};

use super::text;
use crate::{exit::Failure, limits, render};

pub const EXAMPLES: &str = "Examples:
  sabactl cluster plan                            what would change, who was chosen over whom, what blocks
  sabactl cluster plan --full                     all choices and the whole difference
  sabactl cluster plan --machines                 with every machine's reasons
  sabactl cluster plan --json | jq .outcome       change, nothing or blocked";

#[derive(Debug, clap::Args)]
pub struct Plan {
    /// Show every machine with the reasons why it is not chosen
    #[arg(long)]
    machines: bool,
    /// Show all choices and the whole difference, however many lines that takes
    #[arg(long)]
    full: bool,
    /// Print the JSON that the server sent
    #[arg(long)]
    json: bool,
}

/// Does what the command says.
pub fn run(client: &Client, wish: &Plan, colour: bool) -> Result<(), Failure> {
    let sent = client.plan_cluster(wish.machines)?;
    if wish.json {
        return render::print_json_text(&sent.text);
    }
    render::print_text(&for_people(&sent.value, wish.full, colour))
}

fn for_people(plan: &PlanJson, full: bool, colour: bool) -> String {
    let mut shown = text::visible(&first_lines(plan));
    shown.push_str(&text::visible(&text::section("Changes", text::changes(&plan.changes))));
    let remedies = plan.remedies.iter().map(|remedy| format!("- {}", remedy.text));
    shown.push_str(&text::visible(&text::section("What would unblock it, each alone", remedies)));
    shown.push_str(&text::visible(&choices(&plan.selections, 0, full)));
    shown.push_str(&text::visible(&text::section("Rules looked at, in order", text::checked(&plan.checked))));
    let warnings = plan.warnings.iter().map(|warning| format!("- {warning}"));
    shown.push_str(&text::visible(&text::section("Warnings", warnings)));
    if let Some(machines) = &plan.machines {
        shown.push_str(&text::visible(&text::section("Machines", standings(machines))));
    }
    let after = if plan.operation.is_some() { "After this round" } else { "As it is" };
    shown.push_str(&text::visible(&text::section(after, [text::totals(&plan.totals)])));
    if let Some(diff) = plan.diff.as_deref().filter(|diff| !diff.is_empty()) {
        shown.push('\n');
        shown.push_str(&painted(diff, full, colour));
    }
    shown
}

/// What comes of the round, in a sentence.
pub fn first_lines(plan: &PlanJson) -> String {
    let mut lines = match (&plan.operation, &plan.blocked) {
        (Some(operation), _) => format!("The next round would change the cluster: {operation}.\n"),
        (None, Some(blocked)) => format!("The next round is blocked: {}.\n", blocked.reason),
        (None, None) => "The next round would change nothing.\n".to_owned(),
    };
    if plan.disabled {
        lines.push_str("The planner is disabled: nothing of this happens before `sabactl cluster enable`.\n");
    }
    lines
}

/// Who was chosen over whom. `left_out` choices are not known.
pub fn choices(selections: &[SelectionJson], left_out: usize, full: bool) -> String {
    let most = if full { selections.len() } else { limits::CHOICES_SHOWN };
    let mut lines: Vec<String> = selections.iter().take(most).flat_map(text::selection).collect();
    let hidden = selections.len().saturating_sub(most);
    if hidden > 0 {
        lines.push(format!("and {hidden} more; --full or --json shows them"));
    }
    if left_out > 0 {
        lines.push(format!("and {left_out} more that were not kept"));
    }
    text::section("Choices", lines)
}

fn standings(machines: &[StandingJson]) -> Vec<String> {
    let row = |machine: &StandingJson| {
        let StandingJson { serial, address, place, not_control_plane, not_worker, caution: _ } = machine;
        let mut why = match (not_control_plane, not_worker) {
            (_, Some(why)) => format!("no worker: {}", why.text),
            (Some(why), None) => format!("no control plane: {}", why.text),
            (None, None) => String::new(),
        };
        if let Some(caution) = text::untold_caution(machine) {
            why = format!("{why}; others are preferred: {caution}").trim_start_matches("; ").to_owned();
        }
        [serial.clone(), address.clone().unwrap_or_else(|| "-".to_owned()), place.clone(), why]
    };
    text::aligned(&machines.iter().map(row).collect::<Vec<_>>())
}

/// The difference, its lines coloured where somebody looks at them.
fn painted(diff: &str, full: bool, colour: bool) -> String {
    let lines: Vec<&str> = diff.lines().collect();
    let most = if full { lines.len() } else { limits::DIFF_LINES_SHOWN };
    let mut shown = String::new();
    for line in lines.iter().take(most) {
        let line = text::visible(line);
        let code = match line.chars().next() {
            _ if !colour => "",
            Some('+') => "\u{1b}[32m",
            Some('-') => "\u{1b}[31m",
            Some('@') => "\u{1b}[36m",
            _ => "",
        };
        let end = if code.is_empty() { "" } else { "\u{1b}[0m" };
        shown.push_str(&format!("{code}{line}{end}\n"));
    }
    if lines.len() > most {
        shown.push_str(&format!("and {} more lines; --full or --json shows them\n", lines.len() - most));
    }
    shown
}

#[cfg(test)]
mod tests {
    use sabakan_wire::rest::cluster::{BlockedJson, RemedyJson, TotalsJson};

    use super::*;

    fn plan() -> PlanJson {
        PlanJson {
            outcome: "nothing".into(),
            operation: None,
            changes: vec![],
            blocked: None,
            remedies: vec![],
            checked: vec![],
            selections: vec![],
            warnings: vec![],
            totals: TotalsJson::default(),
            disabled: false,
            diff: None,
            machines: None,
        }
    }

    #[test]
    fn what_blocks_comes_with_what_helps() {
        let blocked = BlockedJson {
            kind: "no-machine".into(),
            reason: "no healthy machine is available".into(),
            operation: None,
            shortage: None,
            gone: vec![],
        };
        let remedy = RemedyJson { text: "sabactl constraints set minimum-workers 1".into(), ..RemedyJson::default() };
        let shown = for_people(
            &PlanJson { blocked: Some(blocked), remedies: vec![remedy], disabled: true, ..plan() },
            false,
            false,
        );
        let expected = "\
The next round is blocked: no healthy machine is available.
The planner is disabled: nothing of this happens before `sabactl cluster enable`.

What would unblock it, each alone
  - sabactl constraints set minimum-workers 1

As it is
  0 control planes; 0 workers, 0 of them healthy; 0 healthy machines unused; 0 machines in the list
";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_difference_has_colours_only_where_they_are_wanted() {
        let diff = "--- present\n+++ planned\n@@ settings @@\n name: x\n-a: 1\n+a: 2\u{1b}\n";
        assert_eq!(painted(diff, false, false), diff.replace('\u{1b}', " "));
        let coloured = painted(diff, false, true);
        assert!(coloured.contains("\u{1b}[31m-a: 1\u{1b}[0m\n\u{1b}[32m+a: 2 \u{1b}[0m\n"), "{coloured:?}");
        let long = "+x\n".repeat(limits::DIFF_LINES_SHOWN + 3);
        assert!(painted(&long, false, false).ends_with("and 3 more lines; --full or --json shows them\n"));
        assert_eq!(painted(&long, true, false), long);
    }
}
