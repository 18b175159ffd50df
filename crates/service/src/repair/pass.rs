//! The next thing for every entry of the repair queue: what is decided in `sabakan_domain::repair::queue` is written down first and
//! done then, so that a server which dies in between leaves an entry that says what was begun.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    sync::{Arc, Mutex, PoisonError},
};

use sabakan_domain::{
    machine::Machine,
    repair::{
        entry::{Entry, Status, StepStatus, bounded_note},
        procedure::{DrainRules, HealthCheck, NothingLeft},
        queue::{self, Act},
    },
};
use sabakan_store::{
    repo::{
        leaders::Lead,
        repairs::{self, Begun, Switch, Under},
    },
    view::Snapshot,
};

use super::{
    Repairs, TASK, Work, drain,
    facts::{Look, Standing},
    power::powered,
    queue::by_index,
    sight::Sight,
    work::{Job, NotAgain, Outcome},
};
use crate::{ServiceError, limits};

/// Why no pod leaves where nobody may tell it to.
pub(super) const NO_KUBERNETES: &str = "pods cannot be told to leave its node: this server may not change Kubernetes; start it with \
     --cluster-kubeconfig and --cluster-apply, or take need_drain out of the template";

impl Repairs {
    /// Stops what is done for entries that somebody wants gone, or that are gone, and drains that must not go on. What a step began is
    /// left to end, but not begun again. Nobody who takes long to answer is asked before this.
    pub(super) async fn stop_unwanted(&self, look: &Look, work: &Work) -> Result<(), ServiceError> {
        let running = work.repairs();
        if running.is_empty() {
            return Ok(());
        }
        let (standing, snapshot) = (&look.standing, self.on.view.read().await?);
        let hands_off = self.hands_off(&snapshot, standing);
        let entries: Vec<Entry> = standing.state.entries.iter().map(|entry| look.named(entry)).collect();
        let (entries, broken) = (by_index(&entries), look.broken());
        for index in &running {
            let job = Job::Repair(*index);
            let Some(entry) = entries.get(index).filter(|entry| !entry.deleted && !entry.is_finished()) else {
                work.stop(job);
                continue;
            };
            let disabled = (!standing.state.enabled).then(|| "the queue was disabled".to_owned());
            let barred = disabled.or_else(|| queue::held(entry, &look.judgement, &hands_off));
            match barred {
                Some(_) if entry.step_status == StepStatus::Draining => work.stop(job),
                Some(why) => work.last_try(job, NotAgain::Barred(why)),
                None if self.is_told_well(look, entry, &snapshot, &broken) => work.last_try(job, NotAgain::Well),
                None => {}
            }
        }
        Ok(())
    }

    /// Does the next thing for every entry. Whether repair is at work, and whether nodes were given back.
    pub(super) async fn pass(
        self: &Arc<Self>,
        lead: &Lead,
        look: &Look,
        sight: &Sight,
        work: &mut Work,
    ) -> Result<(bool, bool), ServiceError> {
        let standing = &look.standing;
        let state = &standing.state;
        let snapshot = self.on.view.read().await?;
        let hands_off = self.hands_off(&snapshot, standing);
        let strangers = self.end_strangers(lead, standing, &snapshot).await?;
        let entries: Vec<Entry> = state
            .entries
            .iter()
            .filter(|entry| !strangers.contains(&entry.index))
            .map(|entry| look.named(entry))
            .collect();
        let (healthy, unchecked) = self.healthy(look, &entries, &snapshot, work);
        let blocked = look.reports.as_ref().err().or(sight.problem.as_ref());
        let nodes = standing.nodes.iter().map(|(address, node)| (*address, node.control_plane)).collect();
        let running = work.repairs();
        let powered = powered(&snapshot);
        let around = queue::Around {
            entries: &entries,
            enabled: state.enabled,
            procedures: &standing.procedures,
            nodes: &nodes,
            healthy: &healthy,
            unchecked: &unchecked,
            drained: &sight.drained,
            gone: &sight.evidence(),
            lost: &sight.lost,
            cordoned: &sight.cordoned.keys().copied().collect(),
            reboots: if state.reboots_enabled { &state.reboots } else { &[] },
            judgement: &look.judgement,
            hands_off: &hands_off,
            powered: &powered.keys().copied().collect(),
            running: &running,
            blocked: blocked.map(String::as_str),
            now: standing.now,
        };
        self.withdraw_power(lead, &powered, &queue::unwanted_power(&around)).await?;
        let next = queue::next(&around);
        let uncordoned = self.uncordon(&next.uncordon, sight).await;
        self.remove(lead, &next.acts).await?;
        let by_index = by_index(&entries);
        for (index, act) in &next.acts {
            if let Some(entry) = by_index.get(index) {
                self.carry_out(lead, standing, sight, entry, act, work).await?;
            }
        }
        if blocked.is_none() {
            self.resume_drains(standing, sight, &entries, &next.waits, work);
        }
        let waits = with_details(next.waits, &entries, sight, work);
        self.told().waits = waits;
        Ok((next.active, uncordoned))
    }

    /// Ends entries whose machine is gone or has another address by now: what is done to the address would be done to somebody else.
    /// Which.
    async fn end_strangers(
        &self,
        lead: &Lead,
        standing: &Standing,
        snapshot: &Snapshot,
    ) -> Result<BTreeSet<u64>, ServiceError> {
        let mut strangers = BTreeSet::new();
        if self.options.registry.is_some() {
            return Ok(strangers);
        }
        for entry in standing.state.entries.iter().filter(|entry| !entry.is_finished() && !entry.deleted) {
            let Some(serial) = &entry.serial else { continue };
            let (status, because) = match snapshot.find_machine(serial.as_str()) {
                Some(machine) if machine.ipv4().any(|address| address == entry.address) => continue,
                Some(_) => (Status::Failed, format!("machine {serial} does not have the address any more")),
                None => (Status::Succeeded, format!("machine {serial} is not registered any more")),
            };
            self.finish(lead, entry, status, &because).await?;
            strangers.insert(entry.index);
        }
        Ok(strangers)
    }

    /// Gives nodes back to the scheduler. Whether there were any.
    async fn uncordon(&self, addresses: &[Ipv4Addr], sight: &Sight) -> bool {
        let Some(kubernetes) = &self.options.kubernetes else { return false };
        let names = addresses.iter().filter_map(|address| sight.cordoned.get(address));
        for name in names.take(limits::UNCORDONED_AT_ONCE) {
            // What was kept may be old: somebody else may keep pods away by now, and that is theirs to undo.
            let given_back = async {
                let ours = kubernetes.find(name).await?.is_some_and(|node| drain::is_ours(&node));
                if ours { kubernetes.uncordon(name).await } else { Ok(()) }
            };
            match given_back.await {
                Ok(()) => tracing::info!(task = TASK, node = name, "node uncordoned"),
                // It is seen and tried again in the next cycle.
                Err(error) => tracing::warn!(task = TASK, node = name, %error, "node not uncordoned"),
            }
        }
        !addresses.is_empty()
    }

    /// Takes all entries out of the queue that go, together: somebody may have deleted thousands, and others wait for this.
    async fn remove(&self, lead: &Lead, acts: &[(u64, Act)]) -> Result<(), ServiceError> {
        let on = &self.on;
        let gone: Vec<u64> = acts.iter().filter(|(_, act)| *act == Act::Remove).map(|(index, _)| *index).collect();
        repairs::remove(&*on.store, &on.keys, &on.by(&self.actor()), lead, &gone).await?;
        Ok(())
    }

    /// Writes down what is done with an entry, and begins it.
    async fn carry_out(
        self: &Arc<Self>,
        lead: &Lead,
        standing: &Standing,
        sight: &Sight,
        entry: &Entry,
        act: &Act,
        work: &mut Work,
    ) -> Result<(), ServiceError> {
        match act {
            // It has gone with the others.
            Act::Remove => {}
            Act::Finish { healthy: false, .. } => {
                let fail = |entry: &Entry| act.written(entry, &standing.procedures, self.now(), 0);
                self.end(lead, entry, fail).await?;
            }
            Act::Finish { healthy: true, because } => self.conclude(lead, standing, entry, because, work).await?,
            Act::StartDrain { step } => self.start_drain(lead, standing, sight, entry, *step, work).await?,
            Act::GiveUpDrain { because } => self.back_off(lead, entry.index, because).await?,
            Act::WatchAgain => {
                let again = |entry: &Entry| act.written(entry, &standing.procedures, self.now(), 0);
                self.write(Under::lead(lead), entry.index, "watch-again", again).await?;
            }
            Act::Execute { step } => self.start_step(lead, standing, sight, entry, *step, work).await?,
        }
        Ok(())
    }

    /// The machine is healthy: what shall be run then is run, and the entry ends.
    async fn conclude(
        self: &Arc<Self>,
        lead: &Lead,
        standing: &Standing,
        entry: &Entry,
        because: &str,
        work: &mut Work,
    ) -> Result<(), ServiceError> {
        let operation = standing.procedures.operation(&entry.machine_type, &entry.operation).ok();
        let by_registry = operation.is_some_and(|operation| operation.health_check == HealthCheck::Registry);
        let because = if by_registry { "the registry does not call the machine broken any more" } else { because };
        let command = operation.and_then(|operation| {
            operation.success_command.clone().map(|command| (command, operation.success_command_timeout))
        });
        let Some((command, limit)) = command else {
            return self.finish(lead, entry, Status::Succeeded, because).await;
        };
        // A server that lost the lead without noticing finds out here.
        let mark = |entry: &Entry| Entry { note: bounded_note(because), ..entry.clone() };
        if self.write(Under::lead(lead), entry.index, "conclude", mark).await?.is_none() {
            return Ok(());
        }
        let (this, address) = (Arc::clone(self), entry.address.to_string());
        let run = async move { Outcome::Concluded(this.command(&command, &[address], limit).await) };
        work.begin(Job::Repair(entry.index), "the machine is healthy; the success command is running".to_owned(), run);
        Ok(())
    }

    async fn start_drain(
        self: &Arc<Self>,
        lead: &Lead,
        standing: &Standing,
        sight: &Sight,
        entry: &Entry,
        step: usize,
        work: &mut Work,
    ) -> Result<(), ServiceError> {
        let Some(begun) = self.begin_step(lead, standing, entry, &Act::StartDrain { step }, "").await? else {
            return Ok(());
        };
        match self.drained(sight, entry.address, &standing.procedures.drain) {
            Some(drain) => work.begin_drain(Job::Repair(begun.index), drain),
            None => self.back_off(lead, begun.index, NO_KUBERNETES).await?,
        }
        Ok(())
    }

    /// Has pods leave a node; `None`: this server may not tell them to.
    pub(super) fn drained(
        &self,
        sight: &Sight,
        address: Ipv4Addr,
        rules: &DrainRules,
    ) -> Option<impl Future<Output = Outcome> + Send + 'static> {
        let kubernetes = self.options.kubernetes.clone()?;
        let node = Arc::clone(sight.nodes.get(&address)?);
        let rules = rules.clone();
        Some(async move {
            let drained = drain::drain(&*kubernetes, &node, &rules).await;
            Outcome::Drained(drained.map_err(|error| error.to_string()))
        })
    }

    /// Goes on with drains that another server began. It may have stopped before every pod was asked; to be asked twice hurts none.
    fn resume_drains(
        &self,
        standing: &Standing,
        sight: &Sight,
        entries: &[Entry],
        waits: &BTreeMap<u64, String>,
        work: &mut Work,
    ) {
        for entry in entries.iter().filter(|entry| waits.contains_key(&entry.index) && !entry.deleted) {
            let job = Job::Repair(entry.index);
            let is_draining = entry.status == Status::Processing && entry.step_status == StepStatus::Draining;
            if is_draining
                && !work.has_begun_drain(job)
                && let Some(drain) = self.drained(sight, entry.address, &standing.procedures.drain)
            {
                work.begin_drain(job, drain);
            }
        }
    }

    async fn start_step(
        self: &Arc<Self>,
        lead: &Lead,
        standing: &Standing,
        sight: &Sight,
        entry: &Entry,
        number: usize,
        work: &mut Work,
    ) -> Result<(), ServiceError> {
        let found = standing.procedures.operation(&entry.machine_type, &entry.operation);
        let Some(operation) = found.ok().filter(|operation| number < operation.steps.len()).cloned() else {
            return Ok(());
        };
        // A node that is gone was not drained, if it should have been.
        let drains = operation.steps[number].need_drain && !sight.drained.contains(&entry.address);
        let gone = sight.gone.get(&entry.address).filter(|_| drains).cloned();
        let because = gone.as_ref().map_or_else(String::new, |gone| format!("not drained: {}", gone.evidence));
        let act = Act::Execute { step: number };
        let Some(begun) = self.begin_step(lead, standing, entry, &act, &because).await? else { return Ok(()) };
        self.told().figures.steps += 1;
        tracing::info!(task = TASK, index = begun.index, address = %begun.address, step = number, because, "step of a repair begun");
        let (this, lead, node) = (Arc::clone(self), lead.clone(), sight.nodes.get(&entry.address).cloned());
        let what = format!("step {number} is being carried out");
        work.begin_tries(Job::Repair(begun.index), what, |last| async move {
            if let Some(gone) = gone
                && let Err(reason) = this.confirm_gone(begun.address, &gone, node).await
            {
                return Outcome::Drained(Err(reason));
            }
            match this.execute(&lead, &begun, &operation, &last).await {
                Outcome::Executed(Ok(text)) if !because.is_empty() => {
                    Outcome::Executed(Ok(format!("{text}; {because}")))
                }
                outcome => outcome,
            }
        });
        Ok(())
    }

    /// Writes down that a step is begun. `None`: the entry is not wanted any more, the queue was disabled meanwhile, or the machine is
    /// not one that anything is begun for, as it is at that moment.
    async fn begin_step(
        &self,
        lead: &Lead,
        standing: &Standing,
        entry: &Entry,
        act: &Act,
        because: &str,
    ) -> Result<Option<Entry>, ServiceError> {
        let action = if matches!(act, Act::StartDrain { .. }) { "drain-start" } else { "execute" };
        let operation = standing.procedures.operation(&entry.machine_type, &entry.operation).ok();
        // Another registry is asked in the next cycle.
        let serial = if self.options.registry.is_some() { None } else { self.serial_of(entry).await.ok() };
        let leaving = Mutex::new(None);
        let begin = |entry: &Entry, machine: Option<&Machine>| {
            let state = machine.map(|machine| machine.status.state);
            let nothing = serial.as_ref().and_then(|_| operation?.nothing_left(state));
            // That nothing is left to repair ends the entry in the next cycle.
            let state = if let Some(NothingLeft::Leaving(state)) = nothing { Some(state) } else { None };
            *leaving.lock().unwrap_or_else(PoisonError::into_inner) = state;
            nothing.is_none().then(|| act.written(entry, &standing.procedures, self.now(), 0))
        };
        let under = Under { lead: Some(lead), switch: Some(Switch::Queue) };
        let begun = Begun { action, because, machine: serial.as_ref() };
        let begun = self.write_knowing(under, entry.index, begun, begin).await?;
        let leaving = leaving.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let (None, Some(state)) = (&begun, leaving) {
            self.finish(lead, entry, Status::Failed, &format!("the machine is {state}; nothing more is done to it"))
                .await?;
        }
        Ok(begun.filter(|begun| !begun.deleted))
    }
}

/// Why nothing is done with entries, with what this server knows beyond the rule.
fn with_details(
    mut waits: BTreeMap<u64, String>,
    entries: &[Entry],
    sight: &Sight,
    work: &Work,
) -> BTreeMap<u64, String> {
    for entry in entries.iter().filter(|entry| !entry.is_finished()) {
        let Some(reason) = waits.get_mut(&entry.index) else { continue };
        match work.what(Job::Repair(entry.index)) {
            Some(what) => what.clone_into(reason),
            // What a step came to is noted when it ends.
            None if entry.step_status == StepStatus::Watching && entry.note.is_empty() => {
                reason.push_str("; what the step came to is not known, because the server that began it stopped");
            }
            None => {}
        }
        let left = sight.left.get(&entry.address).filter(|_| entry.step_status == StepStatus::Draining);
        let problem = work.answer(Job::Check(entry.index)).and_then(|answer| answer.problem.as_ref());
        for more in left.into_iter().chain(problem) {
            *reason = format!("{reason}; {more}");
        }
    }
    waits
}
