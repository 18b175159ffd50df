//! The page that says how far the stock clients work: made from the lists these tests are held to, so that it cannot say anything else.
//! `SABAKAN_GOLDEN=write` rewrites it.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use super::{functional, listed, scenarios, throughout};

#[test]
fn coverage_page_says_what_the_tests_are_held_to() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/ironic-coverage.md");
    let page = page();
    if std::env::var("SABAKAN_GOLDEN").as_deref() == Ok("write") {
        fs::write(&path, &page).expect("the sources can be written");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "{} is not what the lists say; run with SABAKAN_GOLDEN=write", path.display());
}

#[test]
fn every_recorded_session_is_run() {
    let dir = super::here().join("scenarios");
    let files = fs::read_dir(&dir).expect("the recorded sessions").map(|entry| entry.expect("a file").file_name());
    let mut names: Vec<String> =
        files.filter_map(|name| Some(name.to_str()?.strip_suffix(".jsonl")?.to_owned())).collect();
    names.sort();
    assert_eq!(names, scenarios::ALL);
}

#[test]
fn every_rule_is_needed() {
    let needed: Vec<_> = scenarios::ALL.iter().flat_map(|name| listed::read(name).throughout).collect();
    for rule in throughout::RULES {
        assert!(needed.iter().any(|name| name == rule.name), "no session needs the rule {}", rule.name);
    }
}

fn page() -> String {
    let mut page = String::from(
        "# How far the clients of Ironic work\n\n\
         Made from the lists of the tests in `crates/testkit/tests/it/ironic/clients`; do not edit.\n\n\
         Sessions of the `baremetal` and `openstack` command lines, and requests made by hand, were recorded with Ironic 39.0. CI\n\
         types the same commands with the same programs into this server, with simulated machines behind it. Exit code, output, error\n\
         text and answers must be the same, but for identifiers, times, addresses, the widths of tables, the order of members in JSON,\n\
         and `driver_internal_info`.\n\n\
         | Session | What | Commands | The same | Different |\n|---|---|---|---|---|\n",
    );
    let (mut commands, mut different) = (0, 0);
    let mut reasons: BTreeMap<String, Vec<(&str, Vec<String>)>> = BTreeMap::new();
    for name in scenarios::ALL {
        let lines = scenarios::lines(name);
        let about = lines[0]["about"].as_str().unwrap_or_default();
        let count = lines.iter().filter(|line| line["cmd"].is_string()).count();
        let listed = listed::read(name).commands;
        write_row(&mut page, &[&format!("`{name}`"), &about, &count, &(count - listed.len()), &listed.len()]);
        (commands, different) = (commands + count, different + listed.len());
        for difference in listed {
            let places = reasons.entry(difference.reason).or_default();
            match places.last_mut() {
                Some((last, steps)) if last == name => steps.push(difference.step.to_string()),
                _ => places.push((name, vec![difference.step.to_string()])),
            }
        }
    }
    write_row(&mut page, &[&"all", &"", &commands, &(commands - different), &different]);
    write_throughout(&mut page);
    page.push_str("\n## Why commands end differently\n\nNumbers are those of the commands in their session.\n\n");
    page.push_str("| Because | Commands |\n|---|---|\n");
    for (reason, places) in reasons {
        let places: Vec<String> = places.iter().map(|(name, steps)| format!("{name} {}", steps.join(" "))).collect();
        write_row(&mut page, &[&reason, &places.join("; ")]);
    }
    page.push_str("\n## Commands whose output is not compared\n\n| Command | Because |\n|---|---|\n");
    for (name, step, reason) in scenarios::CHANCE {
        write_row(&mut page, &[&format!("{name} {step}"), reason]);
    }
    page.push_str(
        "\n## Functional tests of openstacksdk\n\nAll that the package ships for bare metal pass, except:\n\n",
    );
    page.push_str("| Tests | Why not |\n|---|---|\n");
    functional::NOT_PASSED.iter().for_each(|(tests, reason)| write_row(&mut page, &[&format!("`{tests}…`"), reason]));
    page
}

fn write_throughout(page: &mut String) {
    page.push_str(
        "\n## What differs throughout\n\nNot counted above.\n\n| What | Because | Sessions |\n|---|---|---|\n",
    );
    for rule in throughout::RULES {
        let needs = |name: &&&str| listed::read(name).throughout.contains(rule.name);
        let sessions: Vec<&str> = scenarios::ALL.iter().filter(needs).copied().collect();
        write_row(page, &[&rule.name, &rule.reason, &sessions.join(", ")]);
    }
}

fn write_row(page: &mut String, cells: &[&dyn std::fmt::Display]) {
    for cell in cells {
        write!(page, "| {} ", cell.to_string().replace('|', "\\|")).expect("writing to a string works");
    }
    page.push_str("|\n");
}
