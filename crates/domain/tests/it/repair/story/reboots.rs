//! What the commands about the reboot queue do.

use std::collections::{BTreeMap, BTreeSet};

use sabakan_domain::repair::{
    entry::Backoff,
    incident::Judgement,
    reboot::{Act, Next, RebootEntry, RebootStatus},
};

use super::{Ipv4Addr, Story, Told, names, number, serial, signed, switch};
use crate::repair::reboots::{rules, without_rules};

impl Story {
    /// `reboot n4 draining for=300s`.
    pub(super) fn reboot(&mut self, name: &str, status: &str, options: &[&str]) -> Result<(), String> {
        let status = RebootStatus::parse(status).ok_or_else(|| format!("{status:?} is no status of a reboot"))?;
        let index = self.machinery.reboots.iter().map(|entry| entry.index).max().unwrap_or(0) + 1;
        let (node, mut backoff, mut changed_at) = (self.address(name)?, Backoff::default(), Some(self.now));
        for option in options {
            match option.split_once('=') {
                Some(("for", since)) => changed_at = Some(self.now - signed(since)?),
                Some(("backoff", until)) => backoff = Backoff { count: 1, until: Some(self.now + signed(until)?) },
                _ => return Err(format!("{option:?} says nothing about a reboot")),
            }
        }
        self.machinery.reboots.push(RebootEntry { index, node, status, changed_at, backoff, note: String::new() });
        Ok(())
    }

    /// Commands that set one thing.
    pub(super) fn set_reboots(&mut self, command: &str, rest: &str) -> Result<(), String> {
        let facts = &mut self.reboots;
        let indexes = || names(rest).iter().map(|index| number(index)).collect::<Result<BTreeSet<u64>, String>>();
        match command {
            "max-concurrent-reboots" => facts.rules = Some(rules(number(rest)?)),
            "no-reboot-commands" => facts.rules = without_rules(),
            "reboots-enabled" => facts.enabled = switch(rest)?,
            "unreachable-nodes" => facts.unreachable = number(rest)?,
            "maximum-unreachable-nodes-for-reboot" => facts.unreachable_max = number(rest)?,
            "booted" => facts.booted = indexes()?,
            "running-reboots" => facts.running = indexes()?,
            _ => return Err(format!("there is no command {command:?}")),
        }
        Ok(())
    }

    /// What is done with the reboot queue, once it is known what is done with the repairs.
    pub(super) fn pass_reboots(&mut self, done: bool) -> Told {
        let judgement = self.judgement(&self.failures()?);
        self.facts.nodes = self.nodes();
        let repair_active = self.machinery.next(&self.facts, &judgement, &self.procedures(), self.now).active;
        let held = self.held(&judgement)?;
        let next = self.machinery.next_reboots(&self.facts, &self.reboots, &held, repair_active, self.now);
        let shown = self.show_next_reboots(&next);
        if done {
            for (index, act) in &next.acts {
                self.machinery.put_reboot(*index, act, self.now, 0);
            }
        }
        Ok(shown)
    }

    fn held(&self, judgement: &Judgement) -> Result<BTreeMap<Ipv4Addr, String>, String> {
        let mut held = BTreeMap::new();
        for (name, (address, _)) in &self.machines {
            if let (Some(address), Some(reason)) = (address, judgement.why_held(&serial(name)?)) {
                held.insert(*address, reason);
            }
        }
        Ok(held)
    }

    fn show_next_reboots(&self, next: &Next) -> Vec<String> {
        let who = |index: &u64| {
            let entry = self.machinery.reboots.iter().find(|entry| entry.index == *index);
            entry.map_or("?", |entry| self.name(entry.node))
        };
        let mut lines = Vec::new();
        for (index, act) in &next.acts {
            let act = match act {
                Act::Remove { because } => format!("remove: {because}"),
                Act::StartDrain => "drain".to_owned(),
                Act::GiveUpDrain { because } => format!("give up the drain: {because}"),
                Act::Reboot => "reboot".to_owned(),
                Act::Check => "check".to_owned(),
            };
            lines.push(format!("{} {act}", who(index)));
        }
        if lines.is_empty() {
            lines.push("nothing is done".to_owned());
        }
        lines.extend(next.waits.iter().map(|(index, reason)| format!("{}: {reason}", who(index))));
        lines
    }

    pub(super) fn show_reboots(&self) -> Vec<String> {
        let show = |entry: &RebootEntry| {
            let RebootEntry { index, node, status, backoff, .. } = entry;
            let pause = backoff.until.map(|until| format!(", not before {until}")).unwrap_or_default();
            format!("{index} {}: {status}{pause}", self.name(*node))
        };
        let lines: Vec<String> = self.machinery.reboots.iter().map(show).collect();
        if lines.is_empty() { vec!["empty".to_owned()] } else { lines }
    }
}
