//! What goes on in the background while decisions are made: commands, drains, health checks. A decision never waits for any of them;
//! each ends in an outcome that is written down before the next decision.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::{
    task::{self, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// What one piece of work is about. There is at most one of each at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Job {
    /// Asks whether the machine of a repair is healthy.
    Check(u64),
    /// A step, a drain or the last command of a repair.
    Repair(u64),
    /// Asks whether the node of a reboot has booted.
    BootCheck(u64),
    /// A drain or the command of a reboot.
    Reboot(u64),
}

/// What a piece of work came to. Reasons are for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A check said yes or no; with a reason when it could not tell.
    Checked(bool, Option<String>),
    /// Pods were told to leave, or why not.
    Drained(Result<(), String>),
    /// A step was carried out; the last word of its command.
    Executed(Result<String, String>),
    /// The command after a success.
    Concluded(Result<String, String>),
    /// It was not wanted any more.
    Cancelled,
    /// A defect.
    Broken,
}

/// Why something that failed is not tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NotAgain {
    /// Its entry is gone, has ended, or is not this server's to work on: what becomes of it is not said here.
    Gone,
    /// Nothing is left to repair.
    Well,
    /// It must not be; why, for people.
    Barred(String),
}

/// Tells something that is under way that its present try is its last, and why.
#[derive(Debug, Clone, Default)]
pub(super) struct LastTry(Arc<OnceLock<NotAgain>>);

impl LastTry {
    /// Why there is no further try; `None`: nobody said so.
    pub(super) fn why(&self) -> Option<NotAgain> {
        self.0.get().cloned()
    }
}

/// What a check said last.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    at: Instant,
    pub(super) yes: bool,
    /// Why it could not tell.
    pub(super) problem: Option<String>,
}

/// Something that was begun and has not been written down.
struct UnderWay {
    id: task::Id,
    /// Ends it.
    stop: CancellationToken,
    /// Lets it end what it is at, and begin nothing more.
    last: LastTry,
    /// What it does, for people.
    what: String,
}

/// Everything that goes on.
#[derive(Default)]
pub(crate) struct Work {
    jobs: JoinSet<Outcome>,
    ids: HashMap<task::Id, Job>,
    /// Jobs that have not been written down yet.
    under_way: BTreeMap<Job, UnderWay>,
    ended: VecDeque<(Job, Outcome)>,
    answers: BTreeMap<Job, Answer>,
    /// Drains that this server began, by the job they belong to.
    drains: BTreeSet<Job>,
}

impl Work {
    /// Begins something.
    pub(super) fn begin(&mut self, job: Job, what: String, work: impl Future<Output = Outcome> + Send + 'static) {
        self.begin_tries(job, what, |_| work);
    }

    /// Begins something that may be tried several times; `work` gets what tells it not to try again.
    pub(super) fn begin_tries<F>(&mut self, job: Job, what: String, work: impl FnOnce(LastTry) -> F)
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let (stop, last) = (CancellationToken::new(), LastTry::default());
        let (stopped, work) = (stop.clone(), work(last.clone()));
        let handle = self.jobs.spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => Outcome::Cancelled,
                outcome = work => outcome,
            }
        });
        self.ids.insert(handle.id(), job);
        self.under_way.insert(job, UnderWay { id: handle.id(), stop, last, what });
        // What was said before this began says nothing about what comes after it.
        if let Job::Repair(index) = job {
            self.forget(Job::Check(index));
        }
        if let Job::Reboot(index) = job {
            self.forget(Job::BootCheck(index));
        }
    }

    /// Begins a drain.
    pub(super) fn begin_drain(&mut self, job: Job, work: impl Future<Output = Outcome> + Send + 'static) {
        self.drains.insert(job);
        self.begin(job, "pods are asked to leave its node".to_owned(), work);
    }

    /// Whether this server began the drain of a job. Otherwise another one did, and stopped before every pod was asked.
    pub(super) fn has_begun_drain(&self, job: Job) -> bool {
        self.drains.contains(&job)
    }

    /// Waits until something ends.
    pub(crate) async fn something_ends(&mut self) {
        match self.jobs.join_next_with_id().await {
            Some(ended) => self.hear(ended),
            None => std::future::pending().await,
        }
    }

    /// Takes note of everything that has ended.
    pub(super) fn collect(&mut self) {
        while let Some(ended) = self.jobs.try_join_next_with_id() {
            self.hear(ended);
        }
    }

    fn hear(&mut self, ended: Result<(task::Id, Outcome), task::JoinError>) {
        match ended {
            Ok((id, outcome)) => self.note(id, outcome),
            Err(error) => {
                if !error.is_cancelled() {
                    tracing::error!(%error, "work of repair broke off");
                }
                self.note(error.id(), Outcome::Broken);
            }
        }
    }

    fn note(&mut self, id: task::Id, outcome: Outcome) {
        let Some(job) = self.ids.remove(&id) else { return };
        // A check that was forgotten meanwhile has nothing to say, also if another one has begun since.
        if self.under_way.get(&job).is_some_and(|under_way| under_way.id == id) {
            self.ended.push_back((job, outcome));
        }
    }

    /// The first outcome that is not written down.
    pub(super) fn first_ended(&self) -> Option<(Job, Outcome)> {
        self.ended.front().cloned()
    }

    /// It is written down.
    pub(super) fn is_written(&mut self) {
        let Some((job, outcome)) = self.ended.pop_front() else { return };
        self.under_way.remove(&job);
        // A drain that was stopped has not asked every pod.
        if outcome == Outcome::Cancelled {
            self.drains.remove(&job);
        }
        if let Outcome::Checked(yes, problem) = outcome {
            self.answers.insert(job, Answer { at: Instant::now(), yes, problem });
        }
    }

    /// What is done in a job that is under way, for people.
    pub(super) fn what(&self, job: Job) -> Option<&str> {
        self.under_way.get(&job).map(|under_way| under_way.what.as_str())
    }

    /// Repairs that something is done for.
    pub(super) fn repairs(&self) -> BTreeSet<u64> {
        self.under_way.keys().filter_map(|job| if let Job::Repair(index) = job { Some(*index) } else { None }).collect()
    }

    /// Reboots that something is done for.
    pub(super) fn reboots(&self) -> BTreeSet<u64> {
        self.under_way.keys().filter_map(|job| if let Job::Reboot(index) = job { Some(*index) } else { None }).collect()
    }

    /// Stops something that is not wanted any more.
    pub(super) fn stop(&self, job: Job) {
        if let Some(under_way) = self.under_way.get(&job) {
            under_way.stop.cancel();
        }
    }

    /// Stops what is done for entries that went without waiting for it. Whether there is any: until it has ended, its machine is in
    /// somebody's hands and nobody knows which that is.
    pub(super) fn stop_orphans(&self, is_there: impl Fn(Job) -> bool) -> bool {
        let works = |job: &&Job| matches!(job, Job::Repair(_) | Job::Reboot(_));
        let orphans: Vec<Job> = self.under_way.keys().filter(works).copied().filter(|job| !is_there(*job)).collect();
        orphans.iter().for_each(|job| self.stop(*job));
        !orphans.is_empty()
    }

    /// Lets something end what it is at, and begin nothing more.
    pub(super) fn last_try(&self, job: Job, why: NotAgain) {
        if let Some(under_way) = self.under_way.get(&job) {
            // The first reason is the one it ends for.
            under_way.last.0.get_or_init(|| why);
        }
    }

    /// The last answer of a check.
    pub(super) fn answer(&self, job: Job) -> Option<&Answer> {
        self.answers.get(&job)
    }

    /// Whether a check is due: it never answered or long ago, and is not being asked.
    pub(super) fn is_due(&self, job: Job, period: Duration) -> bool {
        let answered = self.answers.get(&job);
        !self.under_way.contains_key(&job) && answered.is_none_or(|answer| answer.at.elapsed() >= period)
    }

    /// Forgets a check and what it said.
    fn forget(&mut self, job: Job) {
        self.stop(job);
        self.under_way.remove(&job);
        self.ended.retain(|(ended, _)| *ended != job);
        self.answers.remove(&job);
    }

    /// Forgets checks and drains of entries that are not there any more.
    pub(super) fn keep(&mut self, wanted: impl Fn(Job) -> bool) {
        let checks = self.answers.keys().chain(self.under_way.keys());
        let checks = checks.filter(|job| matches!(job, Job::Check(_) | Job::BootCheck(_)));
        let gone: Vec<Job> = checks.filter(|job| !wanted(**job)).copied().collect();
        for job in gone {
            self.forget(job);
        }
        self.drains.retain(|job| wanted(*job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ended(work: &mut Work) -> (Job, Outcome) {
        while work.first_ended().is_none() {
            work.something_ends().await;
        }
        work.first_ended().expect("something ended")
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_stays_so_until_it_is_written_down() {
        let mut work = Work::default();
        work.begin(Job::Repair(3), "a step".to_owned(), async { Outcome::Executed(Ok(String::new())) });
        assert_eq!(ended(&mut work).await, (Job::Repair(3), Outcome::Executed(Ok(String::new()))));
        assert_eq!(work.repairs(), BTreeSet::from([3]));
        work.is_written();
        assert!(work.repairs().is_empty() && work.first_ended().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_stopped_and_what_breaks_ends_too() {
        let mut work = Work::default();
        work.begin(Job::Repair(1), String::new(), std::future::pending());
        work.stop(Job::Repair(1));
        assert_eq!(ended(&mut work).await, (Job::Repair(1), Outcome::Cancelled));
        work.is_written();
        work.begin(Job::Reboot(1), String::new(), async { panic!("a defect") });
        assert_eq!(ended(&mut work).await, (Job::Reboot(1), Outcome::Broken));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_done_for_an_entry_that_is_gone_is_stopped() {
        let mut work = Work::default();
        for job in [Job::Repair(1), Job::Repair(2), Job::Check(3), Job::Reboot(1)] {
            work.begin(job, String::new(), std::future::pending());
        }
        assert!(!work.stop_orphans(|_| true));
        assert!(work.stop_orphans(|job| job != Job::Repair(2)));
        assert_eq!(ended(&mut work).await, (Job::Repair(2), Outcome::Cancelled));
        assert!(work.stop_orphans(|job| job != Job::Repair(2)), "until it is written down");
        work.is_written();
        assert!(!work.stop_orphans(|job| job != Job::Repair(2)), "checks touch nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_said_before_a_step_says_nothing_about_it() {
        let (mut work, check, period) = (Work::default(), Job::Check(7), Duration::from_secs(15));
        let healthy = || async { Outcome::Checked(true, None) };
        assert!(work.is_due(check, period));
        work.begin(check, String::new(), healthy());
        assert!(!work.is_due(check, period), "it is being asked");
        ended(&mut work).await;
        work.is_written();
        assert!(work.answer(check).is_some_and(|answer| answer.yes) && !work.is_due(check, period));
        tokio::time::advance(period).await;
        assert!(work.is_due(check, period));
        // One answer is known, another is on its way; then a step begins.
        work.begin(check, String::new(), healthy());
        work.begin(Job::Repair(7), String::new(), std::future::pending());
        assert!(work.answer(check).is_none());
        work.begin(Job::Check(8), String::new(), healthy());
        assert_eq!(ended(&mut work).await.0, Job::Check(8), "the answer about 7 is not heard");
    }
}
