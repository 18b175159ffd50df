//! `sabactl nodes list`.

use std::{collections::HashMap, time::Duration};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use jiff::{SignedDuration, Timestamp};
use sabakan_client::{NodeFilter, NodeJson, NodesClient};
use sabakan_domain::provision::states::{Kind, State};
use sabakan_wire::ironic::NodeStatusJson;
use serde::Serialize;

use super::{duration, words};
use crate::{exit::Failure, render};

pub const EXAMPLES: &str = "Examples:
  sabactl nodes list
  sabactl nodes list --state available,active
  sabactl nodes list --stuck=30m                 moved by nobody for half an hour
  sabactl nodes list --json | jq -r '.[] | select(.last_error) | .name'";

#[derive(Debug, clap::Args)]
pub struct List {
    /// Only nodes in one of these states
    #[arg(long, value_name = "STATE,...", value_delimiter = ',', value_parser = states())]
    state: Vec<State>,
    /// Only nodes with this driver
    #[arg(long, value_name = "NAME")]
    driver: Option<String>,
    /// Only nodes in maintenance
    #[arg(long)]
    maintenance: bool,
    /// Only nodes that are at work, wait or have failed for longer than this [without a value: 15m]
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true, default_missing_value = "15m",
        value_parser = duration)]
    stuck: Option<Duration>,
    /// Print everything the server says about them as JSON
    #[arg(long)]
    json: bool,
}

fn states() -> impl TypedValueParser<Value = State> {
    PossibleValuesParser::new(State::ALL.map(State::as_str)).try_map(|word| word.parse::<State>())
}

/// A node and what it does.
#[derive(Debug, Serialize)]
struct Listed {
    #[serde(flatten)]
    node: NodeJson,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<NodeStatusJson>,
}

/// Does what the command says.
pub fn run(client: &NodesClient, list: &List) -> Result<(), Failure> {
    let now = words::now();
    // One state is the server's to find; several are found here.
    let state = match list.state.as_slice() {
        [only] => Some(only.wire().to_owned()),
        _ => None,
    };
    let filter = NodeFilter { state, driver: list.driver.clone(), maintenance: list.maintenance.then_some(true) };
    let mut nodes = client.list(&filter).map_err(Failure::from_node)?;
    nodes.retain(|node| is_in(node, &list.state));
    let mut listed = with_progress(client, nodes);
    if let Some(limit) = list.stuck {
        listed.retain(|listed| is_stuck(&listed.node, listed.progress.as_ref(), limit, now));
    }
    if list.json {
        return render::print_json(&listed);
    }
    let rows = listed.iter().map(|listed| row(&listed.node, listed.progress.as_ref(), now));
    render::print_columns(["Name", "State", "Target", "Power", "Driver", "Since", "Waiting"], rows)
}

/// Whether a node is in one of these states; none named means all. A state nobody knows is not one of those named.
pub fn is_in(node: &NodeJson, states: &[State]) -> bool {
    states.is_empty() || words::state(node).is_some_and(|state| states.contains(&state))
}

/// Whether a node is where it cannot stay, and has been for long.
pub fn is_stuck(node: &NodeJson, progress: Option<&NodeStatusJson>, limit: Duration, now: Timestamp) -> bool {
    let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
    let at_rest = words::state(node).is_some_and(|state| state.kind() == Kind::Stable);
    !at_rest && words::since(node, progress).is_some_and(|since| now.duration_since(since) >= limit)
}

/// Asks about those that are not at rest: once for all of them, and not at all if there is none.
fn with_progress(client: &NodesClient, nodes: Vec<NodeJson>) -> Vec<Listed> {
    let asked = nodes.iter().any(does_something);
    // A table without reasons is better than none.
    let statuses = if asked { client.statuses().unwrap_or_default() } else { Vec::new() };
    let mut statuses: HashMap<String, NodeStatusJson> =
        statuses.into_iter().map(|status| (status.uuid.clone(), status)).collect();
    nodes.into_iter().map(|node| Listed { progress: statuses.remove(&node.uuid), node }).collect()
}

fn does_something(node: &NodeJson) -> bool {
    let at_rest = words::state(node).is_some_and(|state| state.kind() == Kind::Stable);
    !at_rest || node.target_power_state.is_some() || node.reservation.is_some()
}

fn row(node: &NodeJson, progress: Option<&NodeStatusJson>, now: Timestamp) -> [String; 7] {
    let cell = |text: Option<&str>| text.unwrap_or("-").to_owned();
    [
        words::name(node).to_owned(),
        words::state_word(node).replace(' ', "-"),
        cell(node.target_provision_state.as_deref()),
        cell(node.power_state.as_deref().map(|power| power.trim_start_matches("power "))),
        cell(node.driver.as_deref()),
        words::since(node, progress).map_or_else(|| "-".to_owned(), |since| words::between(since, now)),
        words::one_line(&waiting(node, progress)),
    ]
}

/// Why it does not move: what it waits for, what went wrong, or that nobody lets it.
fn waiting(node: &NodeJson, progress: Option<&NodeStatusJson>) -> String {
    let mut parts = Vec::new();
    parts.extend(progress.and_then(words::step_text));
    parts.extend(progress.and_then(|progress| progress.waiting.as_ref()).map(|waiting| waiting.reason.clone()));
    if words::state(node).is_some_and(|state| state.kind() == Kind::Failed) {
        parts.extend(node.last_error.clone());
    }
    if node.maintenance {
        let reason = node.maintenance_reason.as_deref().or(node.fault.as_deref()).unwrap_or("no reason given");
        parts.push(format!("maintenance: {reason}"));
    }
    parts.join("; ")
}
