//! Machines to choose from, the best at hand without looking at all of them.
//!
//! A score is a part for the rack, the same for all machines of it, and a part of the machine's own that does not change. So the
//! machines of a rack are sorted once, and choosing among all means choosing among the first of every rack.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
};

use super::score::Score;
use crate::{machine::Rack, words::Serial};

/// Which end of the ranking is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The best machine, to be added.
    Highest,
    /// The worst one, to leave.
    Lowest,
}

/// What is known of a machine that may be chosen.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Its number among all machines.
    pub machine: usize,
    /// Where it is.
    pub rack: Rack,
    /// Its place there.
    pub index_in_rack: u32,
    /// Its address.
    pub address: Ipv4Addr,
    /// Who it is.
    pub serial: &'a Serial,
    /// Days it has left.
    pub days: i64,
    /// Whether its health counts, and is good.
    pub healthy: Option<bool>,
}

impl Entry<'_> {
    pub fn score(&self, in_rack: usize) -> Score {
        match self.healthy {
            None => Score::to_choose(in_rack, self.days),
            Some(healthy) => Score::to_leave(in_rack, self.days, healthy),
        }
    }

    /// The order among machines with the same score, so that the same input gives the same choice.
    fn tie(&self) -> (Rack, u32, Ipv4Addr, &str) {
        (self.rack, self.index_in_rack, self.address, self.serial.as_str())
    }
}

/// Machines of one rack, the wanted one first.
#[derive(Debug)]
struct Shelf {
    members: Vec<usize>,
    /// Members before it are gone.
    next: usize,
}

/// Where the first machine of a rack stands among those of other racks: points (turned around when the highest are wanted), rack.
type Head = (i64, Rack);

/// Machines to choose from.
#[derive(Debug)]
pub struct Pool<'a> {
    wanted: Wanted,
    entries: Vec<Entry<'a>>,
    shelves: BTreeMap<Rack, Shelf>,
    heads: BTreeSet<Head>,
    counts: BTreeMap<Rack, usize>,
}

/// A machine with its score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranked {
    /// Its number among all machines.
    pub machine: usize,
    /// Its score.
    pub score: Score,
}

impl<'a> Pool<'a> {
    /// `counts`: how many machines are in each rack already.
    pub fn new(wanted: Wanted, entries: Vec<Entry<'a>>, counts: &BTreeMap<Rack, usize>) -> Pool<'a> {
        let mut pool =
            Pool { wanted, entries, shelves: BTreeMap::new(), heads: BTreeSet::new(), counts: counts.clone() };
        let mut order: Vec<usize> = (0..pool.entries.len()).collect();
        order.sort_by(|a, b| pool.compare(*a, *b, 0, 0));
        for place in order {
            let rack = pool.entries[place].rack;
            pool.shelves.entry(rack).or_insert_with(|| Shelf { members: Vec::new(), next: 0 }).members.push(place);
        }
        let racks: Vec<Rack> = pool.shelves.keys().copied().collect();
        for rack in racks {
            pool.heads.extend(pool.head(rack));
        }
        pool
    }

    /// The wanted machine first, then those that come next, at most `more` of them. `gone`: machines that were taken meanwhile.
    pub fn leaders(&mut self, more: usize, gone: impl Fn(usize) -> bool) -> Vec<Ranked> {
        self.settle(more + 1, &gone);
        let racks: Vec<Rack> = self.heads.iter().take(more + 1).map(|(_, rack)| *rack).collect();
        let mut places: Vec<(usize, usize)> = Vec::new();
        for rack in racks {
            let shelf = &self.shelves[&rack];
            let count = self.count(rack);
            let there = shelf.members[shelf.next..].iter().filter(|place| !gone(self.entries[**place].machine));
            places.extend(there.take(more + 1).map(|place| (*place, count)));
        }
        places.sort_by(|(a, in_a), (b, in_b)| self.compare(*a, *b, *in_a, *in_b));
        places.truncate(more + 1);
        let ranked = |(place, count): (usize, usize)| {
            let entry = &self.entries[place];
            Ranked { machine: entry.machine, score: entry.score(count) }
        };
        places.into_iter().map(ranked).collect()
    }

    /// Another number of machines is in the rack now.
    pub fn recount(&mut self, rack: Rack, count: usize) {
        if let Some(head) = self.head(rack) {
            self.heads.remove(&head);
        }
        self.counts.insert(rack, count);
        self.heads.extend(self.head(rack));
    }

    fn count(&self, rack: Rack) -> usize {
        self.counts.get(&rack).copied().unwrap_or(0)
    }

    /// The score decides, then the place, the address and the serial.
    fn compare(&self, a: usize, b: usize, in_a: usize, in_b: usize) -> Ordering {
        let (a, b) = (&self.entries[a], &self.entries[b]);
        let points = a.score(in_a).total().cmp(&b.score(in_b).total());
        let points = if self.wanted == Wanted::Highest { points.reverse() } else { points };
        points.then_with(|| a.tie().cmp(&b.tie()))
    }

    fn head(&self, rack: Rack) -> Option<Head> {
        let shelf = self.shelves.get(&rack)?;
        let entry = &self.entries[*shelf.members.get(shelf.next)?];
        let points = entry.score(self.count(rack)).total();
        Some((if self.wanted == Wanted::Highest { -points } else { points }, rack))
    }

    /// Makes sure that the first heads are machines that are still there. Every machine is stepped over once.
    fn settle(&mut self, heads: usize, gone: &impl Fn(usize) -> bool) {
        let stale = |pool: &Pool<'_>, rack: &Rack| {
            let shelf = &pool.shelves[rack];
            shelf.members.get(shelf.next).is_some_and(|place| gone(pool.entries[*place].machine))
        };
        while let Some(head) = self.heads.iter().take(heads).find(|(_, rack)| stale(self, rack)).copied() {
            self.heads.remove(&head);
            let rack = head.1;
            while stale(self, &rack) {
                if let Some(shelf) = self.shelves.get_mut(&rack) {
                    shelf.next += 1;
                }
            }
            self.heads.extend(self.head(rack));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Choosing by sorting everything anew each time gives the same.
    #[test]
    fn the_wanted_machine_comes_first_whatever_was_taken_before() {
        let serials: Vec<Serial> = (0..60).map(|n| Serial::new(format!("s{n:02}")).expect("a serial")).collect();
        let entries: Vec<Entry<'_>> = serials
            .iter()
            .enumerate()
            .map(|(n, serial)| Entry {
                machine: n,
                rack: Rack(u32::try_from(n * 7 % 5).expect("small")),
                index_in_rack: u32::try_from(n * 11 % 4).expect("small"),
                address: Ipv4Addr::from(u32::try_from(n * 13 % 60).expect("small")),
                serial,
                days: i64::try_from(n * 97 % 1_500).expect("small") - 700,
                healthy: (n % 2 == 0).then_some(n % 3 == 0),
            })
            .collect();
        for wanted in [Wanted::Highest, Wanted::Lowest] {
            let mut counts = BTreeMap::from([(Rack(1), 3), (Rack(4), 1)]);
            let mut pool = Pool::new(wanted, entries.clone(), &counts);
            let mut taken = BTreeSet::new();
            while let Some(first) = {
                let leaders = pool.leaders(3, |n| taken.contains(&n));
                let mut slow: Vec<&Entry<'_>> = entries.iter().filter(|e| !taken.contains(&e.machine)).collect();
                let points = |e: &Entry<'_>| e.score(counts.get(&e.rack).copied().unwrap_or(0)).total();
                let sign = if wanted == Wanted::Highest { -1 } else { 1 };
                slow.sort_by_key(|e| (sign * points(e), e.rack, e.index_in_rack, e.address));
                let expected: Vec<usize> = slow.iter().take(4).map(|e| e.machine).collect();
                assert_eq!(leaders.iter().map(|ranked| ranked.machine).collect::<Vec<_>>(), expected);
                leaders.first().copied()
            } {
                taken.insert(first.machine);
                // Machines also leave without being chosen from here.
                taken.insert((first.machine + 17) % 60);
                let rack = entries[first.machine].rack;
                let count = counts.entry(rack).or_insert(0);
                *count += 1;
                pool.recount(rack, *count);
            }
            assert_eq!(taken.len(), 60);
        }
    }
}
