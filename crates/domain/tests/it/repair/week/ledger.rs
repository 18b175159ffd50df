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

    fn percentile(&self, percent: usize) -> usize {
        let last = self.minutes.len().saturating_sub(1);
        self.minutes.get(last * percent / 100).map_or(0, |minutes| usize::try_from(*minutes).expect("a week"))
    }
}

/// Weeks side by side, as a Markdown table: the least and the most of the weeks that were lived through under the same title.
pub fn table(columns: &[(String, Vec<&Ledger>)]) -> String {
    let mut text = String::from("|");
    for (title, _) in columns {
        text += &format!(" | {title}");
    }
    text += " |\n|---";
    text += &"|---:".repeat(columns.len());
    text += "|\n";
    type Row = (&'static str, fn(&Ledger) -> usize);
    let rows: [Row; 17] = [
        ("repairs started", |run| run.started),
        ("useful", |run| run.useful),
        ("useless", |run| run.useless),
        ("harmful", |run| run.harmful),
        ("in the rack without power", |run| run.in_cut),
        ("behind the dead switch", |run| run.in_switch),
        ("while the monitor was blind", |run| run.while_blind),
        ("machines let into the queue in these", |run| run.let_in),
        ("for the bad firmware", |run| run.of_batch),
        ("machines held at some time", |run| run.held.len()),
        ("machines that broke alone", |run| run.broke_alone),
        ("hours they were held", |run| hours(run.alone_held_minutes)),
        ("hours there was no room for them", |run| hours(run.no_room_minutes)),
        ("minutes until they worked, median", |run| run.percentile(50)),
        ("95 of 100", |run| run.percentile(95)),
        ("mended by hand", |run| run.by_hand),
        ("waiting for a person at the end", |run| run.waiting),
    ];
    for (title, count) in rows {
        text += &format!("| {title}");
        for (_, runs) in columns {
            let counts = || runs.iter().map(|run| count(run));
            let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
            text += &if least == most { format!(" | {most}") } else { format!(" | {least}–{most}") };
        }
        text += " |\n";
    }
    for (title, runs) in columns {
        for incident in runs.iter().flat_map(|run| &run.incidents) {
            text += &format!("{title}: {incident}\n");
        }
    }
    text
}

fn hours(minutes: u64) -> usize {
    usize::try_from(minutes / 60).expect("a week")
}
