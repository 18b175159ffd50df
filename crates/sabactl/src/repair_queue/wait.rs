//! `sabactl repair-queue wait`: until no entry is left. A server that restarts meanwhile is waited for.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use sabakan_client::Client;
use sabakan_wire::rest::repair::RepairEntryJson;

use crate::{
    events,
    exit::{self, Failure},
};

#[derive(Debug, clap::Args)]
pub struct Wait {
    /// Longest wait; 0 looks once
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout_seconds: u32,
    /// Pause between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    interval_seconds: u32,
}

/// Does what the command says.
pub fn run(client: &Client, wait: &Wait) -> Result<(), Failure> {
    let (limit, pause) = (seconds(wait.timeout_seconds), seconds(wait.interval_seconds));
    let begun = Instant::now();
    let mut told = String::new();
    loop {
        let standing = match client.repairs() {
            Ok(sent) if sent.value.is_empty() => return Ok(()),
            Ok(sent) => left(&sent.value),
            Err(error) if !events::may_pass(&error) || begun.elapsed() >= limit => return Err(error.into()),
            Err(error) => Left { text: format!("the server does not answer: {error}"), only_finished: false },
        };
        if begun.elapsed() >= limit {
            return Err(timed_out(wait.timeout_seconds, &standing));
        }
        if standing.text != told {
            exit::note(&format!("{}\n", standing.text));
            told = standing.text;
        }
        events::wait(pause.min(limit.saturating_sub(begun.elapsed())));
    }
}

fn seconds(number: u32) -> Duration {
    Duration::from_secs(number.into())
}

/// What is left in the queue.
struct Left {
    text: String,
    /// No time makes it empty.
    only_finished: bool,
}

fn left(entries: &[RepairEntryJson]) -> Left {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries {
        *counts.entry(&entry.status).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    let entries_left = if entries.len() == 1 { "entry is" } else { "entries are" };
    Left {
        text: format!("{} {entries_left} left: {}", entries.len(), counts.join(", ")),
        only_finished: entries.iter().all(|entry| entry.is_finished() && !entry.deleted),
    }
}

fn timed_out(limit: u32, standing: &Left) -> Failure {
    let after = if limit == 0 { String::new() } else { format!(" after {limit} s") };
    let failure = Failure::timed_out(format!("the repair queue is not empty{after}: {}", standing.text));
    failure.with_hint(if standing.only_finished {
        "They have ended, and stay until somebody deletes them: sabactl repair-queue delete-finished."
    } else {
        "The repairs go on. sabactl repair-queue list says what they wait for."
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repair_queue::tests::entry;

    #[test]
    fn what_is_left_is_counted_and_finished_entries_need_a_person() {
        let of = |status: &str| RepairEntryJson { status: status.into(), ..entry() };
        let one = left(&[of("failed")]);
        assert_eq!((one.text.as_str(), one.only_finished), ("1 entry is left: 1 failed", true));
        let failure = timed_out(30, &one);
        assert_eq!(failure.text, "the repair queue is not empty after 30 s: 1 entry is left: 1 failed");
        assert!(failure.code == 7 && failure.hint.is_some_and(|hint| hint.contains("delete-finished")));
        let many = left(&[of("queued"), of("failed"), of("queued")]);
        assert_eq!((many.text.as_str(), many.only_finished), ("3 entries are left: 1 failed, 2 queued", false));
        let failure = timed_out(0, &many);
        assert!(failure.text.starts_with("the repair queue is not empty: 3"), "{}", failure.text);
    }
}
