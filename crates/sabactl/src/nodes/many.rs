//! One command for several nodes: bounded concurrency, every outcome told, one exit code.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
};

use sabakan_client::NodeJson;
use serde::Serialize;

use super::{Targets, watch::Board, words};
use crate::{
    exit::{self, Failure},
    limits, render,
};

/// What came of a command for one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Where the node is now.
    pub state: String,
    /// Where it is heading.
    pub target: Option<String>,
    /// The same for people.
    pub text: String,
}

impl Done {
    /// The node is there.
    pub fn of(node: &NodeJson) -> Done {
        let target = node.target_provision_state.clone();
        Done { state: words::state_word(node), target, text: words::state_and_target(node) }
    }

    /// The same with other words for people.
    pub fn saying(self, text: impl Into<String>) -> Done {
        Done { text: text.into(), ..self }
    }
}

/// The outcome for one node, for programs.
#[derive(Debug, Serialize)]
struct Outcome<'a> {
    node: &'a str,
    ok: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    exit_code: u8,
}

/// Does the same with every node and tells what came of each, as soon as it is known.
pub fn each(targets: &Targets, act: impl Fn(&str, &Board) -> Result<Done, Failure> + Sync) -> Result<(), Failure> {
    let ids = distinct(&targets.nodes);
    let board = Board::open(targets.json);
    let told = |id: &str| {
        let result = act(id, &board);
        if !targets.json {
            match &result {
                Ok(done) => board.suspend(|| render::print_text(&format!("{id}: {}\n", done.text)))?,
                Err(failure) if ids.len() > 1 => board.suspend(|| exit::note(&format!("{}\n", named(id, failure)))),
                Err(_) => {}
            }
        }
        result
    };
    let results = in_parallel(&ids, told);
    if targets.json {
        let outcomes = ids.iter().zip(&results).map(|(id, result)| outcome(id, result));
        render::print_json(&outcomes.collect::<Vec<_>>())?;
    }
    summary(results)
}

/// Runs `act` for each, several at once; results in the order of the names.
pub fn in_parallel<T: Send>(ids: &[&str], act: impl Fn(&str) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(ids.len()));
    std::thread::scope(|scope| {
        for _ in 0..ids.len().min(limits::NODES_AT_ONCE) {
            scope.spawn(|| {
                while let Some((n, id)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, ids.get(n)?)))
                {
                    let result = act(id);
                    results.lock().expect("no holder of this lock panics").push((n, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("no holder of this lock panics");
    results.sort_unstable_by_key(|(n, _)| *n);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Each name once, in the order given: asking twice would fail the second time.
pub fn distinct(ids: &[String]) -> Vec<&str> {
    let mut seen = Vec::with_capacity(ids.len());
    ids.iter().for_each(|id| {
        if !seen.contains(&id.as_str()) {
            seen.push(id.as_str());
        }
    });
    seen
}

/// The text of a failure, with the node's name once.
fn named(id: &str, failure: &Failure) -> String {
    if failure.text.starts_with(&format!("{id}: ")) { failure.text.clone() } else { format!("{id}: {}", failure.text) }
}

fn outcome<'a>(id: &'a str, result: &'a Result<Done, Failure>) -> Outcome<'a> {
    let (done, failure) = (result.as_ref().ok(), result.as_ref().err());
    Outcome {
        node: id,
        ok: done.is_some(),
        state: done.map(|done| done.state.as_str()),
        target: done.and_then(|done| done.target.as_deref()),
        error: failure.map(|failure| failure.text.as_str()),
        exit_code: failure.map_or(0, |failure| failure.code),
    }
}

/// The first failure decides how the program ends.
pub fn summary(results: Vec<Result<Done, Failure>>) -> Result<(), Failure> {
    let total = results.len();
    let mut failures: Vec<Failure> = results.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() {
        return Ok(());
    }
    let count = failures.len();
    let first = failures.swap_remove(0);
    if total == 1 {
        return Err(first);
    }
    Err(Failure { text: format!("{count} of {total} nodes did not succeed"), ..first })
}
