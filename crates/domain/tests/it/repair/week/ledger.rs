//! What repair did in a week, and how it is shown.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Default)]
pub struct Ledger {
    /// Entries that something was done for.
    pub started: usize,
    /// The machine was broken, and the repair cured it.
    pub useful: usize,
    /// The machine was broken, and the repair could not help or did not.
    pub useless: usize,
    /// A machine that worked was power-cycled.
    pub harmful: usize,
    /// Repairs begun in the rack without power, behind the dead switch, and while the monitor could not see.
    pub in_cut: usize,
    pub in_switch: usize,
    pub while_blind: usize,
    /// Machines that were let into the queue in one of the three.
    pub let_in: usize,
    /// Repairs begun for machines with the bad firmware.
    pub of_batch: usize,
    /// Machines that were held at some time.
    pub held: BTreeSet<u32>,
    /// Minutes that machines which broke alone were held.
    pub alone_held_minutes: u64,
    /// Incidents, as they were opened.
    pub incidents: Vec<String>,
    /// Machines that broke alone, and minutes until they worked again, by whoever's hand.
    pub broke_alone: usize,
    pub minutes: Vec<u32>,
    /// Mended by a person.
    pub by_hand: usize,
    /// Broken at the end, and so nobody but a person helps.
    pub waiting: usize,
    /// Minutes in which a machine that broke alone, and could be cured, was not let in because of the room.
    pub no_room_minutes: u64,
    /// Each entry that was begun: what came of it.
    pub outcomes: BTreeMap<u64, Outcome>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Useless,
    Useful,
    Harmful,
}

impl Ledger {
    /// Adds up the entries.
    pub fn close(&mut self) {
        let count = |outcome: Outcome| self.outcomes.values().filter(|known| **known == outcome).count();
        (self.useful, self.useless, self.harmful) =
            (count(Outcome::Useful), count(Outcome::Useless), count(Outcome::Harmful));
        self.started = self.outcomes.len();
        self.minutes.sort_unstable();
    }

    fn percentile(&self, percent: usize) -> u32 {
        let last = self.minutes.len().saturating_sub(1);
        self.minutes.get(last * percent / 100).copied().unwrap_or(0)
    }
}

/// Runs side by side, as a Markdown table.
pub fn table(runs: &[(u32, Ledger, Ledger)]) -> String {
    let columns: Vec<(String, &Ledger)> = runs
        .iter()
        .flat_map(|(max, plain, guard)| [(format!("{max} entries, plain"), plain), (format!("{max}, guard"), guard)])
        .collect();
    let mut text = String::from("|");
    for (title, _) in &columns {
        text += &format!(" | {title}");
    }
    text += " |\n|---";
    text += &"|---:".repeat(columns.len());
    text += "|\n";
    type Row = (&'static str, fn(&Ledger) -> String);
    let rows: [Row; 17] = [
        ("repairs started", |run| run.started.to_string()),
        ("useful", |run| run.useful.to_string()),
        ("useless", |run| run.useless.to_string()),
        ("harmful", |run| run.harmful.to_string()),
        ("in the rack without power", |run| run.in_cut.to_string()),
        ("behind the dead switch", |run| run.in_switch.to_string()),
        ("while the monitor was blind", |run| run.while_blind.to_string()),
        ("machines let into the queue in these", |run| run.let_in.to_string()),
        ("for the bad firmware", |run| run.of_batch.to_string()),
        ("machines held at some time", |run| run.held.len().to_string()),
        ("machines that broke alone", |run| run.broke_alone.to_string()),
        ("hours they were held", |run| (run.alone_held_minutes / 60).to_string()),
        ("hours there was no room for them", |run| (run.no_room_minutes / 60).to_string()),
        ("minutes until they worked, median", |run| run.percentile(50).to_string()),
        ("95 of 100", |run| run.percentile(95).to_string()),
        ("mended by hand", |run| run.by_hand.to_string()),
        ("waiting for a person at the end", |run| run.waiting.to_string()),
    ];
    for (title, show) in rows {
        text += &format!("| {title}");
        for (_, run) in &columns {
            text += &format!(" | {}", show(run));
        }
        text += " |\n";
    }
    for (title, run) in &columns {
        for incident in &run.incidents {
            text += &format!("{title}: {incident}\n");
        }
    }
    text
}
