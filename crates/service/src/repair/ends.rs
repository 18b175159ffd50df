//! How entries of the repair queue end, and what is written down when something that was begun for them has ended.

use sabakan_domain::{
    machine::Machine,
    repair::entry::{Entry, Status, bounded_note},
};
use sabakan_store::repo::{
    leaders::Lead,
    repairs::{self, Begun, Under},
};

use super::{
    Repairs, TASK, Work,
    work::{Job, Outcome},
};
use crate::ServiceError;

impl Repairs {
    /// Ends an entry at the step where it is.
    pub(super) async fn finish(
        &self,
        lead: &Lead,
        entry: &Entry,
        status: Status,
        because: &str,
    ) -> Result<(), ServiceError> {
        self.end(lead, entry, |entry| entry.ended(status, because, self.now())).await
    }

    /// Ends an entry.
    pub(super) async fn end(
        &self,
        lead: &Lead,
        entry: &Entry,
        end: impl Fn(&Entry) -> Entry,
    ) -> Result<(), ServiceError> {
        if let Some(Entry { status, .. }) = self.write(Under::lead(lead), entry.index, "finish", end).await? {
            let mut told = self.told();
            let counter =
                if status == Status::Succeeded { &mut told.figures.succeeded } else { &mut told.figures.failed };
            *counter += 1;
            drop(told);
            tracing::info!(task = TASK, index = entry.index, address = %entry.address, %status, "repair ended");
        }
        Ok(())
    }

    pub(super) async fn back_off(&self, lead: &Lead, index: u64, because: &str) -> Result<(), ServiceError> {
        let (now, random) = (self.now(), random());
        let back_off = |entry: &Entry| entry.backed_off(because, now, random);
        if self.write(Under::lead(lead), index, "back-off", back_off).await?.is_some() {
            self.told().figures.drains_given_up += 1;
            tracing::warn!(task = TASK, index, because, "a drain was given up for a while");
        }
        Ok(())
    }

    /// Changes an entry that has not ended. `None`: it has ended or is gone, or what the change depends on is switched off.
    pub(super) async fn write(
        &self,
        under: Under<'_>,
        index: u64,
        action: &'static str,
        change: impl Fn(&Entry) -> Entry,
    ) -> Result<Option<Entry>, ServiceError> {
        let begun = Begun { action, ..Begun::default() };
        self.write_knowing(under, index, begun, |entry, _| Some(change(entry))).await
    }

    /// The same, knowing the machine as it is when that is written; `None` from `change` leaves the entry alone.
    pub(super) async fn write_knowing(
        &self,
        under: Under<'_>,
        index: u64,
        begun: Begun<'_>,
        change: impl Fn(&Entry, Option<&Machine>) -> Option<Entry>,
    ) -> Result<Option<Entry>, ServiceError> {
        let on = &self.on;
        let by = on.by(&self.actor());
        // Only what an operation owns is changed: that somebody wants the entry gone must not be lost.
        let decide = |entry: &Entry, machine: Option<&Machine>| {
            if entry.is_finished() { None } else { change(entry, machine) }
        };
        match repairs::begin(&*on.store, &on.keys, &by, under, index, begun, decide).await {
            Ok(changed) => Ok(changed),
            Err(error) => match ServiceError::from(error) {
                ServiceError::NotFound => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Writes down what ended since the last time.
    pub(super) async fn write_down(&self, lead: &Lead, work: &mut Work) -> Result<(), ServiceError> {
        work.collect();
        while let Some((job, outcome)) = work.first_ended() {
            match job {
                Job::Repair(index) => self.write_repair(lead, index, outcome).await?,
                Job::Reboot(index) => self.write_reboot(lead, index, outcome).await?,
                Job::Check(_) | Job::BootCheck(_) => {}
            }
            work.is_written();
        }
        Ok(())
    }

    async fn write_repair(&self, lead: &Lead, index: u64, outcome: Outcome) -> Result<(), ServiceError> {
        let Some(entry) = repairs::find(&*self.on.store, &self.on.keys, index).await? else { return Ok(()) };
        let entry = &entry;
        match outcome {
            Outcome::Executed(Ok(text)) => {
                let note = |entry: &Entry| Entry { note: bounded_note(&text), ..entry.clone() };
                self.write(Under::lead(lead), index, "executed", note).await.map(drop)
            }
            Outcome::Executed(Err(reason)) => self.finish(lead, entry, Status::Failed, &reason).await,
            Outcome::Drained(Ok(())) | Outcome::Cancelled | Outcome::Checked(..) => Ok(()),
            Outcome::Drained(Err(reason)) => self.back_off(lead, index, &reason).await,
            Outcome::Concluded(Ok(text)) => self.finish(lead, entry, Status::Succeeded, &text).await,
            Outcome::Concluded(Err(reason)) => {
                let reason = format!("the machine is healthy, but its success command failed: {reason}");
                self.finish(lead, entry, Status::Failed, &reason).await
            }
            Outcome::Broken => {
                let reason = "it broke off because of a defect; see the log";
                self.finish(lead, entry, Status::Failed, reason).await
            }
        }
    }
}

/// Where several come back at different times. Without a source of randomness they come back together.
pub(super) fn random() -> u64 {
    getrandom::u64().unwrap_or(0)
}
