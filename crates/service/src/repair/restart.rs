//! The next thing for every entry of the reboot queue, as decided in `sabakan_domain::repair::reboot`: written down first, done then.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::Arc,
};

use sabakan_domain::{
    repair::{
        entry::bounded_note,
        queue,
        reboot::{self, Act, RebootEntry, RebootRules, RebootStatus},
    },
    words::Serial,
};
use sabakan_store::repo::{
    leaders::Lead,
    repairs::{self, Switch, Under},
};

use super::{
    Repairs, TASK, Work,
    ends::random,
    facts::{Look, Standing},
    pass::NO_KUBERNETES,
    sight::Sight,
    tries,
    work::{Job, LastTry, NotAgain, Outcome},
};
use crate::ServiceError;

impl Repairs {
    /// Does the next thing for every entry. Whether nodes are being rebooted.
    pub(super) async fn restart(
        self: &Arc<Self>,
        lead: &Lead,
        look: &Look,
        sight: &Sight,
        repair_active: bool,
        work: &mut Work,
    ) -> Result<bool, ServiceError> {
        let standing = &look.standing;
        let state = &standing.state;
        let indexes: BTreeSet<u64> = state.reboots.iter().map(|entry| entry.index).collect();
        work.keep(|job| !matches!(job, Job::BootCheck(index) | Job::Reboot(index) if !indexes.contains(&index)));
        let answers = |yes: bool| {
            let says = |index: &u64| work.answer(Job::BootCheck(*index)).is_some_and(|answer| answer.yes == yes);
            indexes.iter().copied().filter(says).collect::<BTreeSet<u64>>()
        };
        let (booted, not_booted) = (answers(true), answers(false));
        let nodes: BTreeMap<Ipv4Addr, bool> =
            standing.nodes.iter().map(|(address, node)| (*address, node.control_plane)).collect();
        let rebooted =
            |address: &Ipv4Addr| state.reboots.iter().any(|entry| entry.node == *address && entry.is_under_way());
        let blocked = look.reports.as_ref().err().or(sight.problem.as_ref());
        let constraints = standing.cluster.constraints.unwrap_or_default();
        let held = self.held_nodes(look).await?;
        stop_unwanted(standing, &held, work);
        let next = reboot::next(&reboot::Around {
            entries: &state.reboots,
            enabled: state.reboots_enabled,
            rules: standing.rebooting.as_ref(),
            nodes: &nodes,
            drained: &sight.drained,
            gone: &sight.evidence(),
            lost: &sight.lost,
            booted: &booted,
            not_booted: &not_booted,
            unreachable: look.unreachable().filter(|address| !rebooted(address)).count(),
            unreachable_max: constraints.maximum_unreachable_nodes_for_reboot,
            repair_active,
            repaired: &queue::control_planes_away(&state.entries, &nodes),
            running: &work.reboots(),
            blocked: blocked.map(String::as_str),
            held: &held,
            now: standing.now,
        });
        for (index, act) in &next.acts {
            if let Some(entry) = state.reboots.iter().find(|entry| entry.index == *index) {
                self.carry_out_reboot(lead, standing, sight, entry, act, work).await?;
            }
        }
        let mut waits = next.waits;
        if blocked.is_none() {
            self.resume_reboot_drains(standing, sight, &waits, work);
        }
        for (index, act) in &next.acts {
            if *act == Act::Check {
                let problem = work.answer(Job::BootCheck(*index)).and_then(|answer| answer.problem.clone());
                let reason = problem.map_or(String::new(), |problem| format!("; {problem}"));
                waits.insert(*index, format!("the reboot was begun, and it has not booted since{reason}"));
            }
        }
        let under_way = state.reboots.iter().any(RebootEntry::is_under_way);
        self.told().reboot_waits = waits;
        Ok(under_way)
    }

    /// Nodes that are left alone, and why: they failed together with others, or somebody works on them.
    async fn held_nodes(&self, look: &Look) -> Result<BTreeMap<Ipv4Addr, String>, ServiceError> {
        let snapshot = self.on.view.read().await?;
        let address =
            |serial: &Serial| snapshot.find_machine(serial.as_str()).and_then(|machine| machine.ipv4().next());
        let mut held = look.judgement.held_addresses(look.watched());
        // Also those that are called healthy for a moment.
        let members = look.judgement.held.iter().filter_map(|(serial, why)| Some((address(serial)?, why.to_string())));
        held.extend(members);
        let hands_off = self.hands_off(&snapshot, &look.standing);
        held.extend(hands_off.into_iter().filter_map(|(serial, reason)| Some((address(&serial)?, reason.to_string()))));
        Ok(held)
    }

    /// Goes on with drains that another server began and may not have finished.
    fn resume_reboot_drains(&self, standing: &Standing, sight: &Sight, waits: &BTreeMap<u64, String>, work: &mut Work) {
        let Some(rules) = &standing.rebooting else { return };
        let draining = standing.state.reboots.iter().filter(|entry| entry.status == RebootStatus::Draining);
        for entry in draining.filter(|entry| waits.contains_key(&entry.index)) {
            let job = Job::Reboot(entry.index);
            if !work.has_begun_drain(job)
                && let Some(drain) = self.drained(sight, entry.node, &rules.drain)
            {
                work.begin_drain(job, drain);
            }
        }
    }

    async fn carry_out_reboot(
        self: &Arc<Self>,
        lead: &Lead,
        standing: &Standing,
        sight: &Sight,
        entry: &RebootEntry,
        act: &Act,
        work: &mut Work,
    ) -> Result<(), ServiceError> {
        let rules = || standing.rebooting.clone();
        match act {
            Act::Remove { because } => self.remove_reboot(lead, entry, because).await?,
            Act::GiveUpDrain { because } => self.queue_again(lead, entry.index, because).await?,
            Act::StartDrain => {
                if let Some(rules) = rules() {
                    self.drain_for_reboot(lead, sight, entry, &rules, work).await?;
                }
            }
            Act::Reboot => {
                if let Some(rules) = rules() {
                    self.reboot(lead, entry, rules, work).await?;
                }
            }
            Act::Check => {
                if let Some(rules) = rules() {
                    self.check_boot(entry, rules, work);
                }
            }
        }
        Ok(())
    }

    async fn drain_for_reboot(
        self: &Arc<Self>,
        lead: &Lead,
        sight: &Sight,
        entry: &RebootEntry,
        rules: &RebootRules,
        work: &mut Work,
    ) -> Result<(), ServiceError> {
        if !self.write_status(lead, entry.index, RebootStatus::Draining).await? {
            return Ok(());
        }
        if let Some(gone) = sight.gone.get(&entry.node) {
            // Its pods cannot leave; it is rebooted in the next cycle.
            tracing::warn!(task = TASK, index = entry.index, node = %entry.node, evidence = gone.evidence, "node is gone, not drained");
            return Ok(());
        }
        match self.drained(sight, entry.node, &rules.drain) {
            Some(drain) => work.begin_drain(Job::Reboot(entry.index), drain),
            None => self.queue_again(lead, entry.index, NO_KUBERNETES).await?,
        }
        Ok(())
    }

    async fn reboot(
        self: &Arc<Self>,
        lead: &Lead,
        entry: &RebootEntry,
        rules: RebootRules,
        work: &mut Work,
    ) -> Result<(), ServiceError> {
        if !self.write_status(lead, entry.index, RebootStatus::Rebooting).await? {
            return Ok(());
        }
        tracing::info!(task = TASK, index = entry.index, node = %entry.node, "reboot of a node begun");
        let (this, lead, entry) = (Arc::clone(self), lead.clone(), entry.clone());
        work.begin_tries(Job::Reboot(entry.index), "its command is running".to_owned(), |last| async move {
            this.try_reboot(&lead, &entry, &rules, &last).await
        });
        Ok(())
    }

    /// Has a node rebooted, as often as that may be tried.
    async fn try_reboot(&self, lead: &Lead, entry: &RebootEntry, rules: &RebootRules, last: &LastTry) -> Outcome {
        let node = [entry.node.to_string()];
        let mut tries = 0;
        loop {
            tries += 1;
            let reason = match self.command(&rules.reboot_command, &node, rules.timeout).await {
                Ok(text) => return Outcome::Executed(Ok(text)),
                Err(reason) => reason,
            };
            let is_over = tries > rules.retries;
            tokio::time::sleep(tries::pause(rules.interval, is_over)).await;
            if is_over {
                return Outcome::Executed(Err(format!("its command failed {tries} times, at last: {reason}")));
            }
            let why = match self.no_reboot_again(lead, entry, last).await {
                None => continue,
                Some(NotAgain::Gone) => return Outcome::Cancelled,
                Some(NotAgain::Well) => "the node works again".to_owned(),
                Some(NotAgain::Barred(why)) => why,
            };
            let text = format!("its command failed {tries} times; it is not tried again, because {why}: {reason}");
            return Outcome::Executed(Err(text));
        }
    }

    fn check_boot(self: &Arc<Self>, entry: &RebootEntry, rules: RebootRules, work: &mut Work) {
        let job = Job::BootCheck(entry.index);
        if !work.is_due(job, self.options.period) {
            return;
        }
        let since = entry.changed_at.map_or(0, jiff::Timestamp::as_second);
        let (this, added) = (Arc::clone(self), [entry.node.to_string(), since.to_string()]);
        work.begin(job, "the node is asked whether it has booted".to_owned(), async move {
            this.check(&rules.boot_check_command, &added, rules.timeout).await
        });
    }

    /// What the work for an entry came to.
    pub(super) async fn write_reboot(&self, lead: &Lead, index: u64, outcome: Outcome) -> Result<(), ServiceError> {
        let note = match outcome {
            Outcome::Drained(Err(reason)) => return self.queue_again(lead, index, &reason).await,
            Outcome::Executed(Ok(text)) => text,
            // It stays as it is: whether the node reboots all the same is found out by asking it.
            Outcome::Executed(Err(reason)) => {
                tracing::warn!(task = TASK, index, "a node may not have been rebooted: its command failed");
                reason
            }
            Outcome::Broken => "it broke off because of a defect; see the log".to_owned(),
            Outcome::Drained(Ok(())) | Outcome::Checked(..) | Outcome::Concluded(_) | Outcome::Cancelled => {
                return Ok(());
            }
        };
        let noted = |entry: &RebootEntry| Some(RebootEntry { note: bounded_note(&note), ..entry.clone() });
        self.edit_reboot(Under::lead(lead), index, noted).await.map(drop)
    }

    async fn remove_reboot(&self, lead: &Lead, entry: &RebootEntry, because: &str) -> Result<(), ServiceError> {
        let is_same = |present: &RebootEntry| (present != entry).then(|| present.clone());
        if self.edit_reboot(Under::lead(lead), entry.index, is_same).await?.is_none() {
            tracing::info!(task = TASK, index = entry.index, node = %entry.node, because, "reboot ended");
        }
        Ok(())
    }

    async fn queue_again(&self, lead: &Lead, index: u64, because: &str) -> Result<(), ServiceError> {
        let (now, random) = (self.now(), random());
        let again = |entry: &RebootEntry| {
            let is_draining = entry.status == RebootStatus::Draining;
            let backoff = entry.backoff_after_failure(now, random);
            let (status, changed_at, note) = (RebootStatus::Queued, Some(now), bounded_note(because));
            let queued = RebootEntry { status, changed_at, backoff, note, ..entry.clone() };
            Some(if is_draining { queued } else { entry.clone() })
        };
        let after = self.edit_reboot(Under::lead(lead), index, again).await?;
        if after.is_some_and(|entry| entry.status == RebootStatus::Queued) {
            tracing::warn!(task = TASK, index, because, "a drain for a reboot was given up for a while");
        }
        Ok(())
    }

    /// Moves an entry on. Whether it was moved: somebody may have cancelled it.
    async fn write_status(&self, lead: &Lead, index: u64, status: RebootStatus) -> Result<bool, ServiceError> {
        let now = self.now();
        let decide = |entry: &RebootEntry| match entry.status {
            RebootStatus::Cancelled => Some(entry.clone()),
            _ => Some(RebootEntry { status, changed_at: Some(now), note: String::new(), ..entry.clone() }),
        };
        let under = Under { lead: Some(lead), switch: Some(Switch::Reboots) };
        let moved = self.edit_reboot(under, index, decide).await?;
        Ok(moved.is_some_and(|entry| entry.status == status && entry.changed_at == Some(now)))
    }

    async fn edit_reboot(
        &self,
        under: Under<'_>,
        index: u64,
        decide: impl Fn(&RebootEntry) -> Option<RebootEntry>,
    ) -> Result<Option<RebootEntry>, ServiceError> {
        let on = &self.on;
        let by = on.by(&self.actor());
        match repairs::edit_reboot(&*on.store, &on.keys, &by, under, index, decide).await.map_err(ServiceError::from) {
            Err(ServiceError::NotFound) => Ok(None),
            done => done,
        }
    }
}

/// Stops what is done for entries that are cancelled, and drains that must not go on. A reboot that was begun is left to end, but not
/// begun again.
fn stop_unwanted(standing: &Standing, held: &BTreeMap<Ipv4Addr, String>, work: &Work) {
    let state = &standing.state;
    for entry in &state.reboots {
        let job = Job::Reboot(entry.index);
        let disabled = (!state.reboots_enabled).then(|| "the queue was disabled".to_owned());
        let must_not = disabled.or_else(|| held.get(&entry.node).cloned());
        match entry.status {
            RebootStatus::Cancelled => work.stop(job),
            RebootStatus::Draining if must_not.is_some() => work.stop(job),
            _ => {
                if let Some(why) = must_not {
                    work.last_try(job, NotAgain::Barred(why));
                }
            }
        }
    }
}
