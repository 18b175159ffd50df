//! Plans as people read them.

use std::fmt::Write as _;

use sabakan_wire::rest::cluster::{
    CandidateJson, ChangeJson, CheckedJson, RatioJson, ScoreJson, SelectionJson, StandingJson, TotalsJson,
};

/// What a terminal may be shown: nothing that steers it.
pub fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}

/// A heading and indented lines; nothing without lines.
pub fn section(title: &str, lines: impl IntoIterator<Item = String>) -> String {
    let mut text = String::new();
    for line in lines {
        if text.is_empty() {
            text = format!("\n{title}\n");
        }
        writeln!(text, "  {line}").expect("writing to a string does not fail");
    }
    text
}

/// Rows whose columns are aligned, the last one as it is.
pub fn aligned<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(|column| if column + 1 == N { 0 } else { width(column) });
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// What changes, node by node.
pub fn changes(changes: &[ChangeJson]) -> Vec<String> {
    let row = |change: &ChangeJson| {
        let ChangeJson { kind, address, serial, why } = change;
        [kind.clone(), address.clone(), serial.clone().unwrap_or_else(|| "-".to_owned()), why.clone()]
    };
    aligned(&changes.iter().map(row).collect::<Vec<_>>())
}

/// Rules that were looked at.
pub fn checked(checked: &[CheckedJson]) -> Vec<String> {
    let row = |CheckedJson { operation, verdict, because }: &CheckedJson| {
        [operation.clone(), verdict.clone(), because.clone()]
    };
    aligned(&checked.iter().map(row).collect::<Vec<_>>())
}

/// One choice: who, with the points in parts, and who came next by how much.
pub fn selection(selection: &SelectionJson) -> Vec<String> {
    let SelectionJson { purpose, source, role, ratios, chosen, runner_up, others: _, passed_over } = selection;
    let role = role.as_ref().map_or_else(|| "any role".to_owned(), |role| format!("role {role}"));
    let mut lines = vec![format!("{purpose}, among {source} of {role}{}", due(ratios))];
    // What speaks against a machine stands behind its points.
    let caution = |candidate: &CandidateJson| candidate.caution.clone().unwrap_or_default();
    let passed_over = passed_over.as_ref().map(|candidate| {
        row(
            "passed over",
            candidate,
            candidate.caution.as_ref().map_or_else(String::new, |why| format!("not chosen: {why}")),
        )
    });
    let Some(chosen) = chosen else {
        let nobody = if passed_over.is_some() { "nobody: no other machine fits" } else { "nobody: no machine fits" };
        lines.push(format!("  {nobody}"));
        lines.extend(aligned(passed_over.as_slice()).into_iter().map(|line| format!("  {line}")));
        return lines;
    };
    let lowest = purpose == "leave control plane";
    let mut rows = vec![row("chosen", chosen, caution(chosen))];
    match runner_up {
        Some(next) => rows.push(row("runner-up", next, margin(&chosen.score, &next.score, lowest))),
        None => rows.push(["runner-up", "nobody else fits", "", "", "", ""].map(str::to_owned)),
    }
    rows.extend(passed_over);
    lines.extend(aligned(&rows).into_iter().map(|line| format!("  {line}")));
    lines
}

fn row(what: &str, candidate: &CandidateJson, end: String) -> [String; 6] {
    let CandidateJson { serial, address, rack, score, caution: _ } = candidate;
    [what.to_owned(), serial.clone(), address.clone(), format!("rack {rack}"), points(score), end]
}

/// Why others are preferred to a machine, unless the reasons why it was not chosen say so already.
pub fn untold_caution(machine: &StandingJson) -> Option<&str> {
    let mut reasons = machine.not_control_plane.iter().chain(&machine.not_worker);
    let told = reasons.any(|why| why.kind == "cautioned");
    machine.caution.as_ref().filter(|_| !told).map(|caution| caution.text.as_str())
}

/// A score in its parts.
pub fn points(score: &ScoreJson) -> String {
    let ScoreJson { total, rack, lifetime, health, in_rack, days } = *score;
    let health = if health == 0 { String::new() } else { format!(" + healthy {health}") };
    format!("{total} points = rack {rack} ({in_rack} there) + lifetime {lifetime} ({days} days){health}")
}

fn margin(chosen: &ScoreJson, next: &ScoreJson, lowest: bool) -> String {
    match (chosen.total - next.total).abs() {
        0 => "the same: rack, index and address decide".to_owned(),
        by if lowest => format!("{by} more"),
        by => format!("{by} less"),
    }
}

/// Why a role was due.
fn due(ratios: &[RatioJson]) -> String {
    if ratios.len() < 2 {
        return String::new();
    }
    let one = |RatioJson { role, count, weight, ratio }: &RatioJson| {
        format!("{} {count}/{weight} = {ratio:.2}", role.as_deref().unwrap_or("any"))
    };
    format!("; due by {}", ratios.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// Numbers after a round, in a sentence.
pub fn totals(totals: &TotalsJson) -> String {
    let TotalsJson { machines, control_planes, workers, healthy_workers, unused } = totals;
    let count: usize = workers.values().sum();
    let roles: Vec<String> = workers.iter().map(|(role, count)| format!("{role} {count}")).collect();
    let roles = if roles.is_empty() { String::new() } else { format!(" ({})", roles.join(", ")) };
    format!(
        "{control_planes} control planes; {count} workers{roles}, {healthy_workers} of them healthy; {unused} healthy machines unused; \
         {machines} machines in the list"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(total: i64) -> ScoreJson {
        ScoreJson { total, rack: total - 1, lifetime: 1, health: 0, in_rack: 2, days: 300 }
    }

    fn candidate(serial: &str, total: i64) -> CandidateJson {
        CandidateJson { serial: serial.into(), address: "10.0.0.1".into(), rack: 3, score: score(total), caution: None }
    }

    #[test]
    fn a_choice_shows_the_points_and_the_margin() {
        let ratio = |role: &str, count, weight, ratio| RatioJson { role: Some(role.into()), count, weight, ratio };
        let mut choice = SelectionJson {
            purpose: "worker".into(),
            source: "unused machines".into(),
            role: Some("cs".into()),
            ratios: vec![ratio("cs", 1, 2.0, 0.5), ratio("ss", 1, 1.0, 1.0)],
            chosen: Some(candidate("a", 981)),
            runner_up: Some(candidate("bb", 971)),
            others: vec![],
            passed_over: None,
        };
        assert_eq!(
            selection(&choice),
            [
                "worker, among unused machines of role cs; due by cs 1/2 = 0.50, ss 1/1 = 1.00",
                "  chosen     a   10.0.0.1  rack 3  981 points = rack 980 (2 there) + lifetime 1 (300 days)",
                "  runner-up  bb  10.0.0.1  rack 3  971 points = rack 970 (2 there) + lifetime 1 (300 days)  10 less",
            ]
        );
        choice.runner_up = Some(candidate("bb", 981));
        assert!(selection(&choice)[2].ends_with("the same: rack, index and address decide"));
        choice.purpose = "leave control plane".into();
        choice.runner_up = Some(candidate("bb", 1981));
        assert!(selection(&choice)[2].ends_with("1000 more"));
        choice.chosen = None;
        assert_eq!(selection(&choice)[1], "  nobody: no machine fits");
    }

    #[test]
    fn a_choice_shows_who_was_passed_over_and_why() {
        let caution = Some("rack 1 failed together (incident 7, open)".to_owned());
        let dark = CandidateJson { rack: 1, caution, ..candidate("dark", 1001) };
        let mut choice = SelectionJson {
            purpose: "control plane".into(),
            source: "unused machines".into(),
            role: None,
            ratios: vec![],
            chosen: Some(candidate("a", 981)),
            runner_up: None,
            others: vec![],
            passed_over: Some(dark.clone()),
        };
        let why = "rack 1  1001 points = rack 1000 (2 there) + lifetime 1 (300 days)  not chosen: rack 1 failed together (incident 7, open)";
        assert!(selection(&choice)[3].ends_with(why), "{:?}", selection(&choice));
        choice.chosen = None;
        let told = selection(&choice);
        assert_eq!(told[1], "  nobody: no other machine fits");
        assert!(told[2].starts_with("  passed over  dark") && told[2].ends_with(why), "{told:?}");
        // Nobody else was left.
        (choice.chosen, choice.passed_over) = (Some(dark), None);
        let told = selection(&choice);
        assert!(
            told[1].starts_with("  chosen") && told[1].ends_with("  rack 1 failed together (incident 7, open)"),
            "{told:?}"
        );
    }

    #[test]
    fn nothing_steers_a_terminal() {
        assert_eq!(visible("a\u{1b}[31mb\n\u{7}"), "a [31mb\n ");
    }

    #[test]
    fn numbers_are_a_sentence() {
        let told = TotalsJson {
            machines: 9,
            control_planes: 3,
            workers: [("cs".to_owned(), 2), ("ss".to_owned(), 1)].into(),
            healthy_workers: 2,
            unused: 3,
        };
        let expected = "3 control planes; 3 workers (cs 2, ss 1), 2 of them healthy; 3 healthy machines unused; 9 machines in the list";
        assert_eq!(totals(&told), expected);
    }
}
