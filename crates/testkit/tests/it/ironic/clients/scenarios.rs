//! Recorded sessions of the command line with the original service, run again with the same programs against this one. Exit code, standard
//! output and standard error must be the same but for what changes in every run; requests that were made by hand must get the same
//! answers. What differs is listed in `differences/`, with its reason.
//!
//! `SABAKAN_GOLDEN=write` rewrites the lists and keeps their reasons.

use std::time::Duration;

use jiff::SignedDuration;
use sabakan_testkit::{
    Backend,
    rack::{Rack, WORK_MAX},
    raw,
    simulated::{Fault, FleetConfig},
    wait_for,
};
use serde_json::{Value, json};

use super::{
    super::Api,
    Commands, diff,
    listed::{self, Difference, Listed},
    normal, throughout,
};

macro_rules! scenarios {
    ($($name:ident $file:literal,)*) => {
        $(
            #[test]
            fn $name() {
                check($file);
            }
        )*

        /// Every scenario.
        pub const ALL: &[&str] = &[$($file,)*];
    };
}

scenarios! {
    allocations "allocations",
    boot_console_misc "boot-console-misc",
    chassis "chassis",
    clean_manual "clean-manual",
    deploy_templates "deploy-templates",
    drivers_conductors "drivers-conductors",
    errors_bad_input "errors-bad-input",
    errors_state "errors-state",
    inspect_inventory "inspect-inventory",
    lifecycle_basic "lifecycle-basic",
    node_list_queries "node-list-queries",
    node_show "node-show",
    node_traits "node-traits",
    old_microversions "old-microversions",
    openstack_plugin "openstack-plugin",
    ports "ports",
    runbooks "runbooks",
    shards_parents "shards-parents",
    slow_intermediate "slow-intermediate",
    slow_locked "slow-locked",
    vendor_passthru "vendor-passthru",
    version_negotiation "version-negotiation",
}

/// Commands that must meet a machine at work: scenario, node, the first that makes it work, the last that meets it, and how much longer
/// each answer of its controller takes meanwhile.
const AT_WORK: &[(&str, &str, usize, usize, Duration)] = &[
    ("slow-intermediate", "sl-1", 2, 3, Duration::from_secs(4)),
    ("slow-intermediate", "sl-1", 4, 5, Duration::from_secs(4)),
    ("slow-intermediate", "sl-1", 7, 8, Duration::from_secs(4)),
    ("slow-intermediate", "sl-1", 12, 13, Duration::from_secs(4)),
    ("slow-locked", "lk-1", 4, 6, Duration::from_secs(6)),
    ("slow-locked", "lk-1", 7, 11, Duration::from_secs(6)),
    ("slow-locked", "lk-1", 12, 13, Duration::from_millis(150)),
];

/// Commands during which nodes are not to be had. The original's machines have no power state until they are switched, and are passed
/// over; a simulated one always has. Maintenance has the same effect.
const NOT_TO_BE_HAD: &[(&str, usize, &[&str])] = &[("allocations", 9, &["al-1", "al-2"])];

/// Commands whose output is by chance, and why. They must end as they did, whatever they print.
pub const CHANCE: &[(&str, usize, &str)] = &[
    ("allocations", 21, "identifiers that a server makes up decide the order"),
    ("chassis", 6, "identifiers that a server makes up decide which is the last"),
];

/// How many lines of one command are listed.
const LINES_MAX: usize = 24;

/// The lines of a scenario's file.
pub fn lines(scenario: &str) -> Vec<Value> {
    let path = super::here().join("scenarios").join(format!("{scenario}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn check(scenario: &str) {
    let listed = listed::read(scenario);
    let found = run(scenario, &listed);
    if std::env::var("SABAKAN_GOLDEN").as_deref() == Ok("write") {
        listed::write(scenario, &found);
        return;
    }
    let problems = listed::compare(&listed, &found);
    assert!(problems.is_empty(), "{scenario}:\n{}", problems.join("\n\n"));
}

/// Runs every command and gives what differs.
fn run(scenario: &str, listed: &Listed) -> Listed {
    let mut fleet = FleetConfig::instant();
    // Slow answers are waited for.
    fleet.latencies.limit = WORK_MAX;
    let rack = Rack::start_with(Backend::Embedded, fleet, |_| {});
    let mut commands = Commands::of(&rack);
    let lines = lines(scenario);
    let texts: Vec<&str> = lines.iter().filter_map(|line| line["cmd"].as_str()).collect();
    let chosen = |id: &str| texts.iter().any(|text| text.contains(id));
    let (mut step, mut found) = (0_usize, Listed::default());
    for line in &lines {
        if let (Some(name), Some(content)) = (line["file"].as_str(), line["content"].as_str()) {
            commands.write(name, content);
        }
        let Some(command) = line["cmd"].as_str() else { continue };
        step += 1;
        prepare(&rack, scenario, step);
        let withheld = NOT_TO_BE_HAD.iter().find(|(name, number, _)| (*name, *number) == (scenario, step));
        withhold(&rack, withheld, "PUT");
        let (mut recorded, mut ours) = match line["method"].as_str() {
            None => typed(&mut commands, command, line, &chosen),
            Some(method) => made_by_hand(&rack, method, line, &chosen),
        };
        withhold(&rack, withheld, "DELETE");
        if CHANCE.iter().any(|(name, number, _)| (*name, *number) == (scenario, step)) {
            for text in [&mut recorded, &mut ours] {
                text.truncate(text.find('\n').unwrap_or(text.len()));
            }
        }
        let (lines, rules) = throughout::explain(diff::lines(&recorded, &ours));
        found.throughout.extend(rules);
        if lines.is_empty() {
            continue;
        }
        let reason = listed.commands.iter().find(|other| other.step == step && other.command == command);
        let reason = reason.map_or(listed::UNEXPLAINED, |other| other.reason.as_str()).to_owned();
        found.commands.push(Difference { step, command: command.to_owned(), reason, lines: shortened(lines) });
    }
    found
}

fn withhold(rack: &Rack, withheld: Option<&(&str, usize, &[&str])>, method: &str) {
    for node in withheld.iter().flat_map(|(_, _, nodes)| nodes.iter()) {
        Api::of(rack).ask(method, &format!("/v1/nodes/{node}/maintenance"), &json!({}), 202);
    }
}

/// Whole documents in place of others are not worth reading to their ends.
fn shortened(mut lines: Vec<String>) -> Vec<String> {
    let count = lines.len();
    if count > LINES_MAX {
        lines.truncate(LINES_MAX);
        lines.push(format!("… {} lines more", count - LINES_MAX));
    }
    lines
}

/// Lets some time pass, so that nothing is as old as what came before it; makes machines slow or quick again, and waits until nobody works on any, unless the next command must meet one at work.
fn prepare(rack: &Rack, scenario: &str, step: usize) {
    rack.server.clock.advance(SignedDuration::from_millis(100));
    let met = AT_WORK.iter().filter(|(name, ..)| *name == scenario);
    for (_, node, first, last, delay) in met {
        if step == last + 1 {
            rack.clear_faults(node);
        }
        if step > *first && step <= *last {
            wait_for("somebody to work on it", WORK_MAX, || {
                let node = Api::of(rack).get(&format!("/v1/nodes/{node}"));
                (!node["reservation"].is_null()).then_some(())
            });
            return;
        }
        if step == *first {
            settle(rack);
            rack.fleet.set_fault(node, Fault::Slow(*delay));
        }
    }
    settle(rack);
}

/// Waits until nobody works on a node or looks for one, as those who recorded did.
fn settle(rack: &Rack) {
    let api = Api::of(rack);
    wait_for("nodes and allocations to settle", WORK_MAX, || {
        let nodes = api.get("/v1/nodes?detail=true&include_children=true");
        let busy = |node: &Value| {
            let state = node["provision_state"].as_str().unwrap_or_default();
            let rests =
                node["target_provision_state"].is_null() || state.ends_with("failed") || state.ends_with("hold");
            !rests || !node["reservation"].is_null() || !node["target_power_state"].is_null()
        };
        let allocations = api.get("/v1/allocations");
        let seeking = |allocation: &Value| allocation["state"] == "allocating";
        let none = |list: &Value, is: &dyn Fn(&Value) -> bool| !list.as_array().expect("a list").iter().any(is);
        (none(&nodes["nodes"], &busy) && none(&allocations["allocations"], &seeking)).then_some(())
    });
}

/// What was recorded of a command line, and what it does here.
fn typed(commands: &mut Commands, command: &str, line: &Value, chosen: &dyn Fn(&str) -> bool) -> (String, String) {
    let shown = |exit: i64, stdout: &str, stderr: &str| {
        let stderr: Vec<String> = stderr.lines().map(|line| format!("error: {line}")).collect();
        // The order of members says nothing in JSON.
        let stdout = serde_json::from_str(stdout)
            .map_or_else(|_| normal::text(stdout, chosen), |value: Value| normal::json(&value, chosen));
        format!("exit {exit}\n{stdout}\n{}", normal::text(&stderr.join("\n"), chosen))
    };
    let ours = commands.run(command);
    let text = |name: &str| line[name].as_str().unwrap_or_default();
    let recorded = shown(line["exit"].as_i64().expect("an exit code"), text("stdout"), text("stderr"));
    (recorded, shown(ours.exit, &ours.stdout, &ours.stderr))
}

/// What was recorded of a request, and what is answered here.
fn made_by_hand(rack: &Rack, method: &str, line: &Value, chosen: &dyn Fn(&str) -> bool) -> (String, String) {
    let headers = line["headers"].as_object().expect("headers");
    let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (n.as_str(), v.as_str().expect("a text"))).collect();
    let body = line["body"].as_str().unwrap_or_default();
    let path = line["path"].as_str().expect("a path");
    let answer = raw::request(&rack.server.ironic_url(), method, path, &headers, body.as_bytes());
    let ours = serde_json::from_str(&answer.body).unwrap_or_else(|_| match answer.body.is_empty() {
        true => Value::Null,
        false => Value::String(answer.body.clone()),
    });
    let shown = |status: u64, answer: &Value| format!("status {status}\n{}", normal::json(answer, chosen));
    let recorded = shown(line["status"].as_u64().expect("a status"), &line["answer"]);
    (recorded, shown(u64::from(answer.status), &ours))
}
