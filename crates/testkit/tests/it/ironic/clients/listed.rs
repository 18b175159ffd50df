//! The differences that are known: one file a scenario, one paragraph a command, with the reason and the lines that differ. A
//! difference that is not listed fails the test, and so does one that is listed and does not occur, or occurs in other words.

use std::{collections::BTreeSet, fs, path::PathBuf};

/// A command that ends differently here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Which command of the scenario, from 1 on.
    pub step: usize,
    /// The command.
    pub command: String,
    /// Why.
    pub reason: String,
    /// The recorded lines with `-`, ours with `+`.
    pub lines: Vec<String>,
}

/// What is known of a scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Which of the rules of `throughout` were needed.
    pub throughout: BTreeSet<String>,
    /// The commands that differ in another way.
    pub commands: Vec<Difference>,
}

/// Stands where nobody has given a reason yet.
pub const UNEXPLAINED: &str = "?";

fn path(scenario: &str) -> PathBuf {
    super::here().join("differences").join(format!("{scenario}.txt"))
}

/// What is listed for a scenario. A scenario without differences has no file.
pub fn read(scenario: &str) -> Listed {
    let text = fs::read_to_string(path(scenario)).unwrap_or_default();
    let (mut listed, mut text) = (Listed::default(), text.as_str());
    if let Some(rest) = text.strip_prefix("throughout: ") {
        let (names, commands) = rest.split_once('\n').unwrap_or((rest, ""));
        listed.throughout = names.split(", ").map(str::to_owned).collect();
        text = commands;
    }
    listed.commands = text.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()).map(parse).collect();
    listed
}

fn parse(paragraph: &str) -> Difference {
    let mut lines = paragraph.trim_matches('\n').lines();
    let head = lines.next().and_then(|line| line.split_once(". ")).unwrap_or_else(|| panic!("no command: {paragraph}"));
    let reason = lines.next().and_then(|line| line.strip_prefix("because ")).unwrap_or(UNEXPLAINED);
    Difference {
        step: head.0.parse().unwrap_or_else(|_| panic!("no number: {paragraph}")),
        command: head.1.to_owned(),
        reason: reason.to_owned(),
        lines: lines.map(str::to_owned).collect(),
    }
}

/// Writes what was found in place of what was listed, with the reasons that were given.
pub fn write(scenario: &str, found: &Listed) {
    let Listed { throughout, commands } = found;
    let mut paragraphs = Vec::new();
    if !throughout.is_empty() {
        let names: Vec<&str> = throughout.iter().map(String::as_str).collect();
        paragraphs.push(format!("throughout: {}\n", names.join(", ")));
    }
    for Difference { step, command, reason, lines } in commands {
        paragraphs.push(format!("{step}. {command}\nbecause {reason}\n{}\n", lines.join("\n")));
    }
    if paragraphs.is_empty() {
        // Nothing to remove is as good.
        let _absent = fs::remove_file(path(scenario));
        return;
    }
    fs::create_dir_all(super::here().join("differences")).expect("the sources can be written");
    fs::write(path(scenario), paragraphs.join("\n")).expect("the sources can be written");
}

/// What is wrong with the list, given what was found.
pub fn compare(listed: &Listed, found: &Listed) -> Vec<String> {
    let mut problems: Vec<String> = Vec::new();
    if listed.throughout != found.throughout {
        problems.push(format!("throughout: {:?} where the list has {:?}", found.throughout, listed.throughout));
    }
    for difference in &found.commands {
        let Difference { step, command, reason, lines } = difference;
        match listed.commands.iter().find(|other| other.step == *step) {
            None => problems.push(format!("{step}. {command}: not listed\n{}", lines.join("\n"))),
            Some(other) if other.lines != *lines => {
                let (other, lines) = (other.lines.join("\n"), lines.join("\n"));
                problems.push(format!("{step}. {command}: differs otherwise\n{lines}\nwhere the list has\n{other}"));
            }
            Some(_) if reason == UNEXPLAINED => problems.push(format!("{step}. {command}: no reason")),
            Some(_) => {}
        }
    }
    let gone = listed.commands.iter().filter(|other| !found.commands.iter().any(|here| here.step == other.step));
    problems.extend(gone.map(|other| format!("{}. {}: listed, but not different", other.step, other.command)));
    problems
}

#[test]
fn a_list_that_is_not_true_is_found_out() {
    let difference = |step: usize, reason: &str, line: &str| Difference {
        step,
        command: "baremetal node list".into(),
        reason: reason.into(),
        lines: vec![line.into()],
    };
    let list = |commands: &[Difference]| Listed { commands: commands.to_vec(), ..Listed::default() };
    let (one, two) = (difference(1, "so", "-a"), difference(2, "so", "-b"));
    let both = list(&[one.clone(), two.clone()]);
    assert_eq!(compare(&both, &both), [""; 0]);
    let first = list(std::slice::from_ref(&one));
    assert_eq!(compare(&both, &first), ["2. baremetal node list: listed, but not different"]);
    assert_eq!(compare(&first, &both).len(), 1);
    let other = list(&[difference(1, "so", "-c"), two]);
    assert!(compare(&both, &other)[0].starts_with("1. baremetal node list: differs otherwise"));
    let unexplained = list(&[difference(1, "?", "-a")]);
    assert_eq!(compare(&unexplained, &unexplained), ["1. baremetal node list: no reason"]);
    let ruled = Listed { throughout: ["power".to_owned()].into(), ..both.clone() };
    assert_eq!((compare(&ruled, &both).len(), compare(&both, &ruled).len()), (1, 1));
    assert_eq!(parse("1. baremetal node list\nbecause so\n-a\n"), one);
}
