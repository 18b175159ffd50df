//! What is said about a node in words: the node, what the server says beyond it, and the time go in, text comes out.

use jiff::Timestamp;
use sabakan_client::NodeJson;
use sabakan_domain::provision::{
    edges,
    states::{Kind, State},
    verbs::Verb,
};
use sabakan_wire::ironic::NodeStatusJson;

use crate::render::human_duration;

/// The time, for saying how long ago something was. Nothing is decided by it but what is shown.
#[expect(clippy::disallowed_methods, reason = "a person reads it; the server's clock decides")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// What to call a node.
pub fn name(node: &NodeJson) -> &str {
    node.name.as_deref().unwrap_or(&node.uuid)
}

/// The state in our own words; `None`: a newer server has states we do not know.
pub fn state(node: &NodeJson) -> Option<State> {
    let state: State = node.provision_state.as_deref()?.parse().ok()?;
    // The API has no word for a failed verification: it shows where the node was, and why.
    let failed = state == State::Enroll && node.target_provision_state.is_none() && node.last_error.is_some();
    Some(if failed { State::VerifyFailed } else { state })
}

/// The state as a word, ours where we know it.
pub fn state_word(node: &NodeJson) -> String {
    state(node).map_or_else(|| node.provision_state.clone().unwrap_or_default(), |state| state.to_string())
}

/// `cleaning -> available`
pub fn state_and_target(node: &NodeJson) -> String {
    match &node.target_provision_state {
        Some(target) => format!("{} -> {target}", state_word(node)),
        None => state_word(node),
    }
}

/// Since when it is where it is. The API itself does not tell for a node that never moved.
pub fn since(node: &NodeJson, progress: Option<&NodeStatusJson>) -> Option<Timestamp> {
    progress.map(|progress| progress.since).or_else(|| node.provision_updated_at.as_deref()?.parse().ok())
}

/// One line about work under way. It has no duration in it, so that it changes only when something happened.
pub fn progress_line(node: &NodeJson, progress: Option<&NodeStatusJson>) -> String {
    let mut line = state_and_target(node);
    if let Some(step) = progress.and_then(step_text) {
        line.push_str(&format!(", {step}"));
    }
    if let Some(waiting) = progress.and_then(|progress| progress.waiting.as_ref()) {
        line.push_str(&format!(": {}", waiting.reason));
    }
    one_line(&line)
}

/// `step 2 of 5 deploy.erase_devices`
pub fn step_text(progress: &NodeStatusJson) -> Option<String> {
    let operation = progress.operation.as_ref()?;
    let step = operation.step.as_deref()?;
    Some(match operation.step_number {
        Some(number) => format!("step {number} of {} {step}", operation.step_count),
        None => format!("step {step}"),
    })
}

/// Everything a person wants to know about a node at three in the morning.
pub fn explain(node: &NodeJson, progress: Option<&NodeStatusJson>, now: Timestamp) -> String {
    let mut text = String::new();
    let mut say = |title: &str, words: String| {
        if !words.is_empty() {
            text.push_str(format!("{title:<12}{}\n", one_line(&words)).as_str());
        }
    };
    say("Node", format!("{} ({})", name(node), node.uuid));
    let kind = state(node).map(State::kind).map(kind_word).unwrap_or_default();
    say("State", format!("{}{kind}{}", state_and_target(node), ago(since(node, progress), now, ", since ")));
    say("Why", state(node).map(|state| state.text().to_owned()).unwrap_or_default());
    say("Last error", node.last_error.clone().unwrap_or_default());
    say("Maintenance", maintenance(node));
    say("Work", work(progress, now));
    say("Waits for", waiting(progress, now));
    say("Worker", worker(node, progress));
    say("Power", power(node));
    say("BMC", silent(progress, now));
    say("Driver", node.driver.clone().unwrap_or_else(|| "none is known for its BMC type".to_owned()));
    say("Health", node.other.get("health").and_then(|health| health.as_str()).unwrap_or_default().to_owned());
    say("Machine", progress.and_then(|progress| progress.machine_state.clone()).unwrap_or_default());
    say("Next", next(node, progress));
    text
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Stable => "",
        Kind::Busy => " (work goes on)",
        Kind::Waiting => " (waiting)",
        Kind::Holding => " (waits for a person)",
        Kind::Failed => " (failed)",
    }
}

fn maintenance(node: &NodeJson) -> String {
    if !node.maintenance {
        return String::new();
    }
    let reason = node.maintenance_reason.as_deref().or(node.fault.as_deref()).unwrap_or("no reason given");
    let fault = node.fault.as_deref().filter(|fault| *fault != reason);
    let fault = fault.map(|fault| format!(" ({fault})")).unwrap_or_default();
    format!("yes: {reason}{fault}; automation keeps its hands off, deadlines rest")
}

fn work(progress: Option<&NodeStatusJson>, now: Timestamp) -> String {
    let Some(operation) = progress.and_then(|progress| progress.operation.as_ref()) else { return String::new() };
    let step = progress.and_then(step_text).map(|step| format!("; {step}")).unwrap_or_default();
    let asked = ago(Some(operation.asked_at), now, ", asked for ");
    let by = if operation.asked_by.is_empty() { String::new() } else { format!(" by {}", operation.asked_by) };
    let abort = operation.abort_by.as_deref().map(|by| format!("; {by} wants it stopped after this step"));
    format!("{}{asked}{by}{step}{}", operation.work, abort.unwrap_or_default())
}

fn waiting(progress: Option<&NodeStatusJson>, now: Timestamp) -> String {
    let Some(waiting) = progress.and_then(|progress| progress.waiting.as_ref()) else { return String::new() };
    let since = ago(Some(waiting.since), now, ", since ");
    let until = match waiting.until {
        None => "; nothing ends this by itself".to_owned(),
        Some(until) => format!("; given up at {}{}", moment(until), ahead(until, now)),
    };
    format!("{}{since}{until}", waiting.reason)
}

fn worker(node: &NodeJson, progress: Option<&NodeStatusJson>) -> String {
    let busy = state(node).is_some_and(|state| state.kind() == Kind::Busy);
    match progress.and_then(|progress| progress.worker.as_ref()).or(node.reservation.as_ref()) {
        Some(holder) => holder.clone(),
        None if busy => "nobody yet; it waits for its turn".to_owned(),
        None => "nobody".to_owned(),
    }
}

fn power(node: &NodeJson) -> String {
    let now = node.power_state.as_deref().unwrap_or("unknown");
    match &node.target_power_state {
        Some(target) => format!("{now}, {target} is asked for"),
        None => now.to_owned(),
    }
}

fn silent(progress: Option<&NodeStatusJson>, now: Timestamp) -> String {
    let silent = progress.and_then(|progress| progress.bmc_silent.as_ref());
    silent.map(|silent| format!("{}{}", silent.reason, ago(Some(silent.since), now, ", since "))).unwrap_or_default()
}

/// What can be asked of it, as one types it.
fn next(node: &NodeJson, progress: Option<&NodeStatusJson>) -> String {
    let ours = state(node).into_iter().flat_map(edges::accepted).map(Verb::as_str).map(str::to_owned).collect();
    let verbs: Vec<String> = progress.map_or(ours, |progress| progress.accepted.clone());
    let mut commands: Vec<String> = verbs.iter().map(|verb| command(verb).to_owned()).collect();
    if node.maintenance {
        commands.push("maintenance clear".to_owned());
    }
    commands.dedup();
    if commands.is_empty() {
        return "nothing can be asked while work goes on; it ends by itself".to_owned();
    }
    format!("sabactl nodes {}", commands.join(" | "))
}

/// The command for a verb of the API.
pub fn command(verb: &str) -> &str {
    match verb {
        "active" => "deploy",
        "deleted" => "undeploy",
        other => other,
    }
}

/// `, since 2026-11-16T00:00:00Z (3m12s ago)`, or nothing.
fn ago(at: Option<Timestamp>, now: Timestamp, before: &str) -> String {
    at.map(|at| format!("{before}{} ({} ago)", moment(at), between(at, now))).unwrap_or_default()
}

/// A moment to the second: nobody reads more.
fn moment(at: Timestamp) -> String {
    at.strftime("%FT%TZ").to_string()
}

fn ahead(at: Timestamp, now: Timestamp) -> String {
    if at > now { format!(" (in {})", between(now, at)) } else { " (overdue)".to_owned() }
}

/// How long from one moment to a later one.
pub fn between(from: Timestamp, to: Timestamp) -> String {
    human_duration(to.duration_since(from).as_secs_f64())
}

/// One thing is one line, and nothing in it may steer a terminal.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
