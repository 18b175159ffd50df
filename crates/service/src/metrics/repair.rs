//! Figures of repair and of planned reboots. Those that begin with `cke_` have the names that programs around CKE know.

use std::{collections::BTreeMap, net::Ipv4Addr};

use sabakan_domain::repair::{entry::Status, reboot::RebootStatus};

use super::{
    catalogue::{
        AUTO_REPAIR_ENABLED, MACHINE_REPAIR_STATUS, Metric, NODE_REBOOT_STATUS, OPERATION_PHASE, REBOOT_QUEUE_ENABLED,
        REBOOT_QUEUE_ENTRIES, REBOOT_QUEUE_ITEMS, REBOOT_QUEUE_RUNNING, REPAIR_BLOCKED_BY_FINISHED, REPAIR_BROKEN,
        REPAIR_BUDGET_ENTRIES, REPAIR_BUDGET_FINISHED, REPAIR_BUDGET_MAX, REPAIR_CYCLE_FAILURES,
        REPAIR_DRAINS_GIVEN_UP, REPAIR_ENDED, REPAIR_ENQUEUED, REPAIR_GUARD_ENABLED, REPAIR_HELD, REPAIR_INCIDENTS,
        REPAIR_INCIDENTS_OPEN, REPAIR_LOOKED_AT, REPAIR_QUERY_FAILURES, REPAIR_QUEUE_ENABLED, REPAIR_QUEUE_ENTRIES,
        REPAIR_QUEUE_ITEMS, REPAIR_STEPS, REPAIR_WITHOUT_ROOM,
    },
    text::Text,
};
use crate::{
    limits,
    repair::{Budget, Figures, Phase, Present},
};

/// Writes everything but the series of single nodes. A server that does not repair has counters alone: what it knows of the queues is old.
pub(super) fn write(text: &mut Text, figures: &Figures) {
    let Figures { now, enqueued, steps, succeeded, failed, drains_given_up, incidents, query_failures, cycle_failures } =
        figures;
    if let Some(present) = now {
        write_queue(text, present);
        write_reboots(text, present);
        text.head(&OPERATION_PHASE);
        for phase in Phase::ALL {
            text.sample(&OPERATION_PHASE, &[phase.as_str()], u8::from(phase == present.phase));
        }
        write_reports(text, present);
    }
    text.single(&REPAIR_ENQUEUED, enqueued);
    text.single(&REPAIR_STEPS, steps);
    text.head(&REPAIR_ENDED);
    for (status, count) in [(Status::Succeeded, succeeded), (Status::Failed, failed)] {
        text.sample(&REPAIR_ENDED, &[status.as_str()], count);
    }
    text.single(&REPAIR_DRAINS_GIVEN_UP, drains_given_up);
    text.single(&REPAIR_INCIDENTS, incidents);
    text.single(&REPAIR_QUERY_FAILURES, query_failures);
    text.single(&REPAIR_CYCLE_FAILURES, cycle_failures);
}

fn write_queue(text: &mut Text, present: &Present) {
    text.single(&REPAIR_QUEUE_ENABLED, u8::from(present.enabled));
    text.head(&REPAIR_QUEUE_ITEMS);
    for (status, count) in present.by_status() {
        text.sample(&REPAIR_QUEUE_ITEMS, &[status.as_str()], count);
    }
    text.head(&REPAIR_QUEUE_ENTRIES);
    for entry in &present.entries {
        let (index, address, step) = (entry.index.to_string(), entry.address.to_string(), entry.step.to_string());
        let labels = [index.as_str(), &address, &entry.operation, entry.status.as_str(), &step];
        text.sample(&REPAIR_QUEUE_ENTRIES, &labels, 1);
    }
    text.single(&AUTO_REPAIR_ENABLED, u8::from(present.automatic));
}

fn write_reboots(text: &mut Text, present: &Present) {
    let Present { reboots, reboots_enabled, .. } = present;
    text.single(&REBOOT_QUEUE_ENABLED, u8::from(*reboots_enabled));
    text.single(&REBOOT_QUEUE_ENTRIES, reboots.len());
    text.single(&REBOOT_QUEUE_RUNNING, u8::from(*reboots_enabled && !reboots.is_empty()));
    text.head(&REBOOT_QUEUE_ITEMS);
    for status in RebootStatus::ALL {
        let count = reboots.iter().filter(|entry| entry.status == status).count();
        text.sample(&REBOOT_QUEUE_ITEMS, &[status.as_str()], count);
    }
}

fn write_reports(text: &mut Text, present: &Present) {
    let Budget { entries, finished, max, needed: _ } = present.budget;
    text.single(&REPAIR_BUDGET_ENTRIES, entries);
    text.single(&REPAIR_BUDGET_FINISHED, finished);
    text.single(&REPAIR_BUDGET_MAX, max);
    text.single(&REPAIR_BLOCKED_BY_FINISHED, u8::from(present.budget.is_used_up_by_finished()));
    text.single(&REPAIR_BROKEN, present.broken);
    text.single(&REPAIR_HELD, present.held);
    text.single(&REPAIR_WITHOUT_ROOM, present.without_room);
    text.single(&REPAIR_INCIDENTS_OPEN, present.incidents_open);
    text.single(&REPAIR_GUARD_ENABLED, u8::from(present.guard));
    text.single(&REPAIR_LOOKED_AT, present.at.as_second());
}

/// How many statuses a queue has, and so how many series a node has in each.
const STATUSES: usize = 4;

/// The series of single nodes, piece by piece: four for every node in each of two queues.
pub(super) struct NodeStatus(Vec<Rows>);

/// One metric of them.
struct Rows {
    metric: &'static Metric,
    statuses: [&'static str; STATUSES],
    /// Which of the statuses every address has.
    rows: Vec<(Ipv4Addr, [bool; STATUSES])>,
    next: usize,
}

impl NodeStatus {
    pub(super) fn new(present: &Present) -> NodeStatus {
        let repairs = Rows::new(
            &MACHINE_REPAIR_STATUS,
            &present.nodes,
            present.entries.iter().map(|entry| (entry.address, entry.status)),
            (Status::ALL, Status::as_str),
        );
        let reboots = Rows::new(
            &NODE_REBOOT_STATUS,
            &present.nodes,
            present.reboots.iter().map(|entry| (entry.node, entry.status)),
            (RebootStatus::ALL, RebootStatus::as_str),
        );
        NodeStatus(vec![reboots, repairs])
    }

    /// The next piece; `None`: that was all.
    pub(super) fn next_chunk(&mut self) -> Option<Vec<u8>> {
        let mut text = Text(Vec::with_capacity(limits::SCRAPE_CHUNK_BYTES + limits::SCRAPE_CHUNK_SLACK_BYTES));
        while let Some(rows) = self.0.last_mut() {
            if rows.write(&mut text) {
                self.0.pop();
            } else {
                break;
            }
        }
        (!text.0.is_empty()).then_some(text.0)
    }
}

impl Rows {
    /// One row for each node of the cluster and each address of an entry.
    fn new<S: Copy + PartialEq>(
        metric: &'static Metric,
        nodes: &[Ipv4Addr],
        entries: impl Iterator<Item = (Ipv4Addr, S)>,
        (statuses, name): ([S; STATUSES], impl Fn(S) -> &'static str),
    ) -> Rows {
        let nobody = nodes.iter().map(|node| (*node, [false; STATUSES]));
        let mut rows: BTreeMap<Ipv4Addr, [bool; STATUSES]> = nobody.collect();
        for (address, status) in entries {
            let has = rows.entry(address).or_default();
            statuses.iter().zip(has).filter(|(known, _)| **known == status).for_each(|(_, has)| *has = true);
        }
        Rows { metric, statuses: statuses.map(name), rows: rows.into_iter().collect(), next: 0 }
    }

    /// Writes as much as fits. Whether that was the rest.
    fn write(&mut self, text: &mut Text) -> bool {
        if self.next == 0 && !self.rows.is_empty() {
            text.head(self.metric);
        }
        while let Some((address, has)) = self.rows.get(self.next) {
            if text.0.len() >= limits::SCRAPE_CHUNK_BYTES {
                return false;
            }
            let address = address.to_string();
            for (status, has) in self.statuses.iter().zip(has) {
                text.sample(self.metric, &[&address, status], u8::from(*has));
            }
            self.next += 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use sabakan_domain::repair::{
        entry::{Backoff, Entry, StepStatus},
        reboot::RebootEntry,
    };

    use super::*;

    fn at() -> jiff::Timestamp {
        "2026-11-15T00:00:00Z".parse().expect("a time")
    }

    fn entry(index: u64, last: u8, status: Status) -> Entry {
        Entry {
            index,
            address: Ipv4Addr::new(10, 0, 0, last),
            serial: None,
            machine_type: "r640".to_owned(),
            operation: "unreachable".to_owned(),
            status,
            step: 2,
            step_status: StepStatus::Watching,
            deleted: false,
            changed_at: None,
            backoff: Backoff::default(),
            created_at: at(),
            asked_by: String::new(),
            note: String::new(),
        }
    }

    fn reboot(index: u64, last: u8, status: RebootStatus) -> RebootEntry {
        let node = Ipv4Addr::new(10, 0, 0, last);
        RebootEntry { index, node, status, changed_at: None, backoff: Backoff::default(), note: String::new() }
    }

    fn present() -> Present {
        Present {
            at: at(),
            automatic: true,
            enabled: false,
            reboots_enabled: true,
            guard: true,
            phase: Phase::Repair,
            entries: vec![entry(7, 1, Status::Processing), entry(8, 9, Status::Failed)],
            reboots: vec![reboot(3, 2, RebootStatus::Draining)],
            nodes: vec![Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)],
            budget: Budget { entries: 2, finished: 1, max: 2, needed: 1 },
            broken: 31,
            held: 28,
            without_room: 3,
            incidents_open: 1,
        }
    }

    fn shown(figures: &Figures) -> String {
        let mut text = Text::default();
        write(&mut text, figures);
        String::from_utf8(text.0).expect("text")
    }

    fn nodes(present: &Present) -> (String, usize) {
        let mut status = NodeStatus::new(present);
        let chunks: Vec<Vec<u8>> = std::iter::from_fn(|| status.next_chunk()).collect();
        (String::from_utf8(chunks.concat()).expect("text"), chunks.len())
    }

    #[test]
    fn a_server_that_does_not_repair_tells_counters_alone() {
        let text = shown(&Figures { steps: 4, failed: 2, ..Figures::default() });
        assert!(!text.contains("cke_") && !text.contains("budget"), "{text}");
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(samples.contains(&"sabakan_repair_steps_total 4"), "{text}");
        assert!(samples.contains(&"sabakan_repair_ended_total{status=\"failed\"} 2"), "{text}");
        assert!(samples.iter().all(|line| line.contains("_total")), "{text}");
    }

    #[test]
    fn the_server_that_repairs_tells_what_is_there() {
        let text = shown(&Figures { now: Some(present()), ..Figures::default() });
        for line in [
            "cke_repair_queue_enabled 0",
            "cke_repair_queue_items{status=\"queued\"} 0",
            "cke_repair_queue_items{status=\"processing\"} 1",
            "cke_repair_queue_items{status=\"succeeded\"} 0",
            "cke_repair_queue_items{status=\"failed\"} 1",
            "cke_repair_queue_entries{index=\"7\",address=\"10.0.0.1\",operation=\"unreachable\",status=\"processing\",step=\"2\"} 1",
            "cke_auto_repair_enabled 1",
            "cke_reboot_queue_enabled 1",
            "cke_reboot_queue_entries 1",
            "cke_reboot_queue_running 1",
            "cke_reboot_queue_items{status=\"draining\"} 1",
            "cke_reboot_queue_items{status=\"cancelled\"} 0",
            "cke_operation_phase{phase=\"repair-machines\"} 1",
            "cke_operation_phase{phase=\"completed\"} 0",
            "sabakan_repair_budget_entries 2",
            "sabakan_repair_budget_finished 1",
            "sabakan_repair_budget_max 2",
            "sabakan_repair_queue_blocked_by_finished 1",
            "sabakan_repair_machines_broken 31",
            "sabakan_repair_machines_held 28",
            "sabakan_repair_machines_without_room 3",
            "sabakan_repair_incidents_open 1",
            "sabakan_repair_guard_enabled 1",
            "sabakan_repair_timestamp_seconds 1794700800",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
        }
        assert_eq!(text.matches("cke_operation_phase{").count(), Phase::ALL.len());
    }

    #[test]
    fn a_guard_that_is_off_is_told() {
        let now = Some(Present { guard: false, ..present() });
        let text = shown(&Figures { now, ..Figures::default() });
        assert!(text.contains("\nsabakan_repair_guard_enabled 0\n"), "{text}");
    }

    #[test]
    fn a_reboot_queue_runs_while_it_is_enabled_and_not_empty() {
        let runs = |enabled, entries| {
            let reboots = present().reboots[..entries].to_vec();
            let now = Some(Present { reboots_enabled: enabled, reboots, ..present() });
            shown(&Figures { now, ..Figures::default() }).contains("cke_reboot_queue_running 1\n")
        };
        assert!(runs(true, 1));
        assert!(!runs(false, 1) && !runs(true, 0));
    }

    #[test]
    fn every_node_and_every_entry_has_four_series() {
        let (text, _) = nodes(&present());
        let count = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!(count("cke_machine_repair_status{"), 3 * 4, "two nodes and an entry of a machine outside: {text}");
        assert_eq!(count("cke_node_reboot_status{"), 2 * 4, "{text}");
        for line in [
            "cke_machine_repair_status{address=\"10.0.0.1\",status=\"processing\"} 1",
            "cke_machine_repair_status{address=\"10.0.0.1\",status=\"failed\"} 0",
            "cke_machine_repair_status{address=\"10.0.0.2\",status=\"queued\"} 0",
            "cke_machine_repair_status{address=\"10.0.0.9\",status=\"failed\"} 1",
            "cke_node_reboot_status{node=\"10.0.0.2\",status=\"draining\"} 1",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line} in {text}");
        }
        let two = vec![entry(7, 1, Status::Failed), entry(8, 1, Status::Queued)];
        let (text, _) = nodes(&Present { entries: two, ..present() });
        let has = |status| text.contains(&format!("address=\"10.0.0.1\",status=\"{status}\"}} 1"));
        assert!(has("failed") && has("queued"), "a machine with two entries has both: {text}");
        assert_eq!(nodes(&Present::default()).0, "");
    }

    #[test]
    fn many_nodes_come_in_pieces_and_each_once() {
        let all: Vec<Ipv4Addr> = (0..5_000).map(Ipv4Addr::from).collect();
        let (text, chunks) = nodes(&Present { nodes: all, ..Present::default() });
        assert!(chunks > 5, "{chunks}");
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), lines.len());
        assert_eq!(lines.len(), 2 * 4 * 5_000);
        assert_eq!(text.matches("# TYPE ").count(), 2);
    }
}
