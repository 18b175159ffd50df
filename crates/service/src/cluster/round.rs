//! One round of the planner: read, plan, and write what came out if nothing it was made from has changed meanwhile.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use sabakan_domain::{
    audit::Actor,
    cluster::{
        history::{self, KeptPlan, KeptResult, Origin},
        plan::{self, Outcome, Plan},
        remedy,
        report::Operation,
    },
};
use sabakan_store::repo::{
    cluster::{self, ClusterState},
    leaders::Lead,
    mirror,
};

use super::{
    Cluster, TASK, away,
    facts::{Facts, Missing},
};
use crate::ServiceError;

/// What a round came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// When.
    pub at: Timestamp,
    /// What.
    pub end: RoundEnd,
}

/// How a round ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoundEnd {
    /// Nothing was planned; why.
    Skipped(String),
    /// Nothing had to be done.
    Nothing,
    /// The configuration was changed.
    Changed {
        /// By which rule.
        operation: Operation,
        /// The number of the plan.
        plan: u64,
    },
    /// It could not go on; why.
    Blocked(String),
    /// Something it was made from changed meanwhile; nothing was written.
    Overtaken,
}

impl Cluster {
    /// Plans once. `first`: the server has just taken the lead; then only a changed template is applied.
    pub(crate) async fn round(&self, lead: &Lead, first: bool) -> Result<Round, ServiceError> {
        let at = self.now();
        let tried = self.try_round(lead, first, at).await;
        // What failed is shown too: whoever asks why nothing happens must find it.
        let end = tried.as_ref().map_or_else(|error| RoundEnd::Skipped(format!("it failed: {error}")), Clone::clone);
        if tried.is_err() {
            self.figures.lock().expect("no holder of this lock panics").failed(at);
        }
        let round = Round { at, end };
        *self.last.lock().expect("no holder of this lock panics") = Some(round.clone());
        tried.map(|_| round)
    }

    async fn try_round(&self, lead: &Lead, first: bool, at: Timestamp) -> Result<RoundEnd, ServiceError> {
        let state = self.state().await?;
        if state.disabled {
            self.rests();
            return Ok(RoundEnd::Skipped("the planner is disabled; `sabactl cluster enable` lets it work".to_owned()));
        }
        self.correct_mirror(lead).await?;
        if first && !(state.configuration.is_some() && state.template_changed()) {
            return Ok(RoundEnd::Nothing);
        }
        let newest = self.newest(&state).await?;
        if let Some(until) = self.settles_until(newest.as_ref(), at) {
            return Ok(RoundEnd::Skipped(format!("the last change is left to take effect until {until}")));
        }
        let facts = match Facts::gather(&self.on, &self.options, state, at).await {
            Ok(facts) => facts,
            Err(Missing::Store(error)) => return Err(error.into()),
            Err(missing) => return Ok(self.without_facts(&missing)),
        };
        let (facts, plan, took) = away(move || {
            let began = Instant::now();
            let plan = if first { plan::regenerate_only(facts.input()) } else { plan::plan(facts.input()) };
            (facts, plan, began.elapsed())
        })
        .await?;
        self.count(&plan, at, took, facts.input().constraints.minimum_workers);
        if !history::is_news(newest.as_ref(), &plan.outcome, at) {
            return Ok(end_of(&plan, 0));
        }
        // Each costs plans of its own, so they are looked for only where they are kept.
        let (facts, plan, remedies) = away(move || {
            let remedies = match &plan.outcome {
                Outcome::Blocked(blocked) => remedy::remedies(facts.input(), blocked),
                Outcome::Change(_) | Outcome::Nothing => Vec::new(),
            };
            (facts, plan, remedies)
        })
        .await?;
        let number = facts.state.plans.1;
        let parent = newest.map(|newest| newest.number);
        let origin = Origin { number, parent, at, server: self.options.server.clone() };
        let kept = cluster::fit(|room| KeptPlan::of(origin.clone(), &plan, &remedies, room));
        let by = self.on.by(&Actor::internal(format!("planner on {}", self.options.server)));
        let made = plan.outcome.made().map(|made| &made.configuration);
        let on = &self.on;
        if !cluster::put_plan(&*on.store, &on.keys, &by, lead, &facts.state, &kept, made).await? {
            return Ok(RoundEnd::Overtaken);
        }
        self.tell(&kept);
        Ok(end_of(&plan, number))
    }

    /// Compares the copies for a CKE with what they should be, once after this server took the lead or the planner was enabled: an
    /// earlier version may have left some that let CKE repair machines, and the next change may be long in coming.
    async fn correct_mirror(&self, lead: &Lead) -> Result<(), ServiceError> {
        if self.mirror_is_right.load(Ordering::Relaxed) {
            return Ok(());
        }
        let by = self.on.by(&Actor::internal(format!("planner on {}", self.options.server)));
        let wrong = mirror::correct(&*self.on.store, &self.on.keys, &by, lead).await?;
        if !wrong.is_empty() {
            let keys = wrong.iter().map(|copy| copy.doc().pattern).collect::<Vec<_>>().join(", ");
            tracing::warn!(task = TASK, keys, "copies for CKE were not as they should be and were rewritten");
        }
        self.mirror_is_right.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// A round without everything a plan is made from. It is logged when it is new: rounds follow each other fast where much changes.
    fn without_facts(&self, missing: &Missing) -> RoundEnd {
        let end = RoundEnd::Skipped(missing.to_string());
        if matches!(missing, Missing::Registry(_) | Missing::Taints(_)) {
            self.figures.lock().expect("no holder of this lock panics").query_failures += 1;
            let last = self.last.lock().expect("no holder of this lock panics");
            if last.as_ref().is_none_or(|last| last.end != end) {
                tracing::warn!(task = TASK, error = %missing, "no plan");
            }
        }
        end
    }

    /// The newest plan that was kept.
    async fn newest(&self, state: &ClusterState) -> Result<Option<KeptPlan>, ServiceError> {
        let (first, next) = state.plans;
        if next <= first {
            return Ok(None);
        }
        Ok(cluster::find_plan(&*self.on.store, &self.on.keys, next - 1).await?)
    }

    /// Until when nothing is changed, because the last change has to take effect.
    fn settles_until(&self, newest: Option<&KeptPlan>, now: Timestamp) -> Option<Timestamp> {
        let changed = newest.filter(|plan| matches!(plan.result, KeptResult::Changed { .. }))?;
        let until = changed.at.checked_add(SignedDuration::try_from(self.options.settle).ok()?).ok()?;
        // A clock that was set back must not stop the planner for longer than the pause itself.
        (now < until && now >= changed.at).then_some(until)
    }

    /// From here on this server does not plan.
    pub(crate) fn rests(&self) {
        self.figures.lock().expect("no holder of this lock panics").last = None;
        self.mirror_is_right.store(false, Ordering::Relaxed);
    }

    fn count(&self, plan: &Plan, at: Timestamp, took: Duration, minimum: u32) {
        let totals = match plan.outcome {
            Outcome::Blocked(_) => None,
            Outcome::Change(_) | Outcome::Nothing => Some(&plan.report.totals),
        };
        self.figures.lock().expect("no holder of this lock panics").planned(at, took, totals, minimum);
    }

    fn tell(&self, kept: &KeptPlan) {
        let plan = kept.number;
        match &kept.result {
            KeptResult::Changed { operation, changes, left_out } => {
                self.figures.lock().expect("no holder of this lock panics").changes += 1;
                let changes = changes.len() + left_out;
                tracing::info!(task = TASK, plan, %operation, changes, "cluster configuration changed");
            }
            KeptResult::Blocked { reason, .. } => tracing::warn!(task = TASK, plan, reason, "the planner cannot go on"),
            KeptResult::Settled => tracing::info!(task = TASK, plan, "the planner is no longer blocked"),
        }
    }
}

fn end_of(plan: &Plan, number: u64) -> RoundEnd {
    match &plan.outcome {
        Outcome::Nothing => RoundEnd::Nothing,
        Outcome::Blocked(blocked) => RoundEnd::Blocked(blocked.to_string()),
        Outcome::Change(made) => RoundEnd::Changed { operation: made.operation, plan: number },
    }
}
