//! Waiting for the end of work: what counts as the end, and the patience until then. A server that restarts meanwhile is waited for.

use std::time::{Duration, Instant};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use sabakan_client::{Error, NodeJson, NodesClient};
use sabakan_domain::provision::{
    power::PowerTarget,
    states::{Kind, State},
};
use sabakan_wire::ironic::NodeStatusJson;

use super::{
    duration, limit,
    many::{self, Done},
    watch::{Board, Line},
    words,
};
use crate::{events, exit::Failure, limits};

#[derive(Debug, clap::Args)]
pub struct Wait {
    /// Wait for this state instead of the end of all work
    #[arg(long = "for", value_name = "STATE", value_parser = stable_states())]
    state: Option<State>,
    /// Longest wait, such as 90s, 30m or 2h; 0 waits for ever [default: 2h]
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    targets: super::Targets,
}

fn stable_states() -> impl TypedValueParser<Value = State> {
    let stable = State::ALL.into_iter().filter(|state| state.kind() == Kind::Stable).map(State::as_str);
    PossibleValuesParser::new(stable).try_map(|word| word.parse::<State>())
}

/// Does what the command says.
pub fn run(client: &NodesClient, wait: &Wait) -> Result<(), Failure> {
    let goal = wait.state.map_or(Goal::Rest, Goal::State);
    many::each(&wait.targets, |id, board| {
        let node = until(client, id, goal, limit(wait.timeout), board)?;
        Ok(Done::of(&node))
    })
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// This stable state.
    State(State),
    /// Any stable state.
    Rest,
    /// No work any more, wherever that is: what an abort leads to.
    End,
    /// A power change is done.
    Power(PowerTarget),
}

/// Whether the goal is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is.
    Reached,
    /// It will not be.
    Failed(String),
    /// Nobody knows yet.
    Open,
}

/// Judges a node as the API shows it.
pub fn judge(node: &NodeJson, goal: Goal) -> Verdict {
    if let Goal::Power(target) = goal {
        return judge_power(node, target);
    }
    let Some(state) = words::state(node) else { return Verdict::Open };
    match (state.kind(), goal) {
        (Kind::Busy | Kind::Waiting | Kind::Holding, _) => Verdict::Open,
        (Kind::Failed, Goal::End) => Verdict::Reached,
        (Kind::Failed, _) => {
            let reason = node.last_error.as_deref().unwrap_or("the server gives no reason");
            Verdict::Failed(format!("{state}: {reason}"))
        }
        // A stable state with a target is left at once.
        (Kind::Stable, _) if node.target_provision_state.is_some() => Verdict::Open,
        (Kind::Stable, Goal::State(wanted)) if state != wanted => {
            let reason = node.last_error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
            Verdict::Failed(format!("it came to rest in {state}, not in {wanted}{reason}"))
        }
        (Kind::Stable, _) => Verdict::Reached,
    }
}

fn judge_power(node: &NodeJson, target: PowerTarget) -> Verdict {
    if node.target_power_state.is_some() {
        return Verdict::Open;
    }
    if node.power_state.as_deref() == Some(target.result().as_str()) {
        return Verdict::Reached;
    }
    let power = node.power_state.as_deref().unwrap_or("unknown");
    let reason = node.last_error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    Verdict::Failed(format!("its power is {power}{reason}"))
}

/// Waits for a goal; gives the node as it is then.
pub fn until(
    client: &NodesClient,
    id: &str,
    goal: Goal,
    limit: Option<Duration>,
    board: &Board,
) -> Result<NodeJson, Failure> {
    let begun = Instant::now();
    let line = board.line(id);
    let mut pause = limits::POLL_PAUSE_MIN;
    let mut silent_since: Option<Instant> = None;
    loop {
        let seen = look(client, id);
        let standing = match seen {
            Ok((node, progress)) => {
                silent_since = None;
                match judge(&node, goal) {
                    Verdict::Reached => return Ok(node),
                    Verdict::Failed(reason) => return Err(failed(id, &node, &reason)),
                    Verdict::Open => words::progress_line(&node, progress.as_ref()),
                }
            }
            Err(error) => {
                let silent = silent_since.get_or_insert_with(Instant::now).elapsed();
                if !may_pass(&error) || silent >= limits::OUTAGE_MAX {
                    return Err(Failure::from_node(error));
                }
                format!("the server does not answer: {error}")
            }
        };
        line.show(&standing);
        if let Some(limit) = limit.filter(|limit| begun.elapsed() >= *limit) {
            return Err(timed_out(id, limit, &standing));
        }
        sleep(pause, &line, limit.map(|limit| limit.saturating_sub(begun.elapsed())));
        pause = (pause * 3 / 2).min(limits::POLL_PAUSE_MAX);
    }
}

/// A node and what it does. The second is for people: a server that does not tell is no reason to stop waiting.
fn look(client: &NodesClient, id: &str) -> Result<(NodeJson, Option<NodeStatusJson>), Error> {
    let node = client.get(id)?;
    Ok((node, client.status(id).ok()))
}

/// Whether the same question may be answered a little later.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::Connect { .. } | Error::Interrupted { .. } | Error::Timeout { .. } => true,
        Error::Api { status, .. } => *status >= 500,
        _ => false,
    }
}

fn failed(id: &str, node: &NodeJson, reason: &str) -> Failure {
    Failure::work_failed(words::one_line(&format!("{id}: {reason}")))
        .with_hint(format!("sabactl nodes show {} says what can be done.", words::name(node)))
}

fn timed_out(id: &str, limit: Duration, standing: &str) -> Failure {
    let limit = crate::render::human_duration(limit.as_secs_f64());
    Failure::timed_out(format!("{id}: not done after {limit}; it is {standing}"))
        .with_hint(format!("The work goes on. sabactl nodes show {id} says what it waits for."))
}

fn sleep(pause: Duration, line: &Line<'_>, left: Option<Duration>) {
    line.tick();
    let pause = left.map_or(pause, |left| pause.min(left.max(limits::POLL_PAUSE_MIN)));
    events::wait(pause);
}
