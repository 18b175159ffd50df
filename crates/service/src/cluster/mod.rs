//! The Kubernetes cluster: what people ask of it, what the planner would do, why, and what it did. The rules are in
//! `sabakan_domain::cluster`; `tasks::planner` runs rounds.

mod facts;
mod figures;
pub mod kubernetes;
pub mod live_nodes;
mod round;

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::Duration,
};

use facts::Facts;
pub use figures::Figures;
use jiff::Timestamp;
use live_nodes::LiveNodes;
pub use round::{Round, RoundEnd};
use sabakan_domain::{
    audit::Actor,
    cluster::{
        config::Configuration,
        constraints::Constraints,
        history::{KeptPlan, KeptResult},
        plan::{self, Outcome, Plan},
        remedy::{self, Remedy},
        report::{Change, Standing},
        shape::Problem,
        simulate,
        template::Template,
        variables::Variables,
    },
    repair::procedure::Procedures,
    words::Serial,
};
use sabakan_drivers::registry::Registry;
use sabakan_store::{
    Revision,
    repo::{
        cluster::{self, ClusterState},
        leaders,
    },
};
use serde_json::Value;

use crate::{Foundation, ServiceError, error::Refusal, limits};

/// The name the planner is led under.
pub const TASK: &str = "cluster";

/// Where facts come from, and how often is planned.
pub struct ClusterOptions {
    /// Another registry; `None`: our own.
    pub registry: Option<Arc<dyn Registry>>,
    /// The Nodes of Kubernetes; `None`: there is none, and no node is tainted.
    pub nodes: Option<Arc<LiveNodes>>,
    /// Who applies the configuration to Kubernetes; `None`: nobody here.
    pub applier: Option<Arc<kubernetes::Applier>>,
    /// This server.
    pub server: String,
    /// How often is planned when nothing changes.
    pub period: Duration,
    /// How long a change is left to take effect before the next.
    pub settle: Duration,
    /// How long the lead outlives its server.
    pub lease: Duration,
}

impl Default for ClusterOptions {
    fn default() -> ClusterOptions {
        ClusterOptions {
            registry: None,
            nodes: None,
            applier: None,
            server: "sabakan".to_owned(),
            period: limits::PLAN_PERIOD,
            settle: limits::PLAN_SETTLE,
            lease: limits::LEAD_LEASE,
        }
    }
}

/// The cluster.
pub struct Cluster {
    on: Arc<Foundation>,
    options: ClusterOptions,
    last: Mutex<Option<Round>>,
    figures: Mutex<Figures>,
    /// Since this server leads, and since the planner was enabled, the copies for a CKE were seen to be right.
    mirror_is_right: AtomicBool,
}

/// What a round would do now.
pub struct DryRun {
    /// The present configuration.
    pub current: Option<Configuration>,
    /// The plan.
    pub plan: Plan,
    /// What would let a blocked plan go on.
    pub remedies: Vec<Remedy>,
    /// The planner does nothing by itself at the moment.
    pub disabled: bool,
}

/// Why a machine is, or is not, in the cluster.
pub struct Explanation {
    /// What the next round would do.
    pub next: DryRun,
    /// What it says about the machine; `None`: the machine is not in the list.
    pub standing: Option<Standing>,
    /// Whether there is such a machine at all, in our own registry.
    pub registered: bool,
    /// What was done with it, newest first.
    pub past: Vec<(KeptPlan, Vec<Change>)>,
}

/// How the planner is doing.
pub struct Status {
    /// Whether it works.
    pub enabled: bool,
    /// The server that plans.
    pub leader: Option<String>,
    /// Whether there is a template.
    pub has_template: bool,
    /// Nodes of the configuration.
    pub nodes: Option<usize>,
    /// The last round of this server, if it leads or led.
    pub last: Option<Round>,
    /// The newest plan that was kept.
    pub plan: Option<KeptPlan>,
}

/// What somebody wrote that cannot be.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Problems(pub Vec<Problem>);

impl Refusal for Problems {
    fn kind(self) -> ServiceError {
        ServiceError::Problems(self)
    }
}

impl Cluster {
    /// The cluster of a foundation.
    pub fn new(on: Arc<Foundation>, options: ClusterOptions) -> Cluster {
        Cluster {
            on,
            options,
            last: Mutex::default(),
            figures: Mutex::default(),
            mirror_is_right: AtomicBool::new(false),
        }
    }

    /// How it plans.
    pub fn options(&self) -> &ClusterOptions {
        &self.options
    }

    /// The template, if there is one.
    pub async fn template(&self) -> Result<Option<Template>, ServiceError> {
        Ok(self.state().await?.template.map(|(template, _)| template))
    }

    /// Sets the template. What is allowed but doubtful is returned.
    pub async fn set_template(&self, actor: &Actor, document: Value) -> Result<Vec<Problem>, ServiceError> {
        let template = Template::parse(document).map_err(|problems| Problems(problems).kind())?;
        let on = &self.on;
        cluster::put_template(&*on.store, &on.keys, &on.by(actor), &template).await?;
        tracing::info!(user = actor.name, "cluster template set");
        let mut warnings = template.warnings();
        warnings.extend(Procedures::of(&template.rest).warnings());
        Ok(warnings)
    }

    /// Which machines may be used, as somebody wrote it, and what is meant.
    pub async fn variables(&self) -> Result<(Option<String>, Variables), ServiceError> {
        let text = self.state().await?.variables;
        let variables = facts::variables(text.as_deref())?;
        Ok((text, variables))
    }

    /// Says which machines may be used; `None`: the defaults. What is allowed but doubtful is returned.
    pub async fn set_variables(&self, actor: &Actor, text: Option<&str>) -> Result<Vec<Problem>, ServiceError> {
        let variables = match text {
            Some(text) => Variables::parse(text).map_err(|problems| Problems(problems).kind())?,
            None => Variables::for_planner(),
        };
        let on = &self.on;
        cluster::put_variables(&*on.store, &on.keys, &on.by(actor), text).await?;
        Ok(variables.warnings())
    }

    /// What the cluster must keep to.
    pub async fn constraints(&self) -> Result<Constraints, ServiceError> {
        Ok(self.state().await?.constraints.unwrap_or_default())
    }

    /// Changes constraints, all of the given ones or none. What is allowed but doubtful is returned.
    pub async fn set_constraints(
        &self,
        actor: &Actor,
        values: &[(String, u32)],
    ) -> Result<(Constraints, Vec<Problem>), ServiceError> {
        let on = &self.on;
        let decide = |mut constraints: Constraints| -> Result<Constraints, Problems> {
            let mut problems = Vec::new();
            for (name, value) in values {
                match constraints.with(name, *value) {
                    Ok(changed) => constraints = changed,
                    Err(error) => problems.push(Problem::new(name.as_str(), error.to_string())),
                }
            }
            problems.extend(constraints.check());
            if problems.is_empty() { Ok(constraints) } else { Err(Problems(problems)) }
        };
        let constraints = cluster::edit_constraints(&*on.store, &on.keys, &on.by(actor), decide).await?;
        Ok((constraints, constraints.warnings()))
    }

    /// Whether the planner works.
    pub async fn is_enabled(&self) -> Result<bool, ServiceError> {
        Ok(!self.state().await?.disabled)
    }

    /// Has the planner work, or not.
    pub async fn set_enabled(&self, actor: &Actor, enabled: bool) -> Result<(), ServiceError> {
        let on = &self.on;
        cluster::set_enabled(&*on.store, &on.keys, &on.by(actor), enabled).await?;
        tracing::info!(user = actor.name, enabled, "cluster planner switched");
        Ok(())
    }

    /// The configuration, if there is one.
    pub async fn configuration(&self) -> Result<Option<Configuration>, ServiceError> {
        Ok(self.state().await?.configuration.map(|configured| configured.configuration))
    }

    /// When the configuration was written last.
    pub(crate) async fn configuration_revision(&self) -> Result<Revision, ServiceError> {
        Ok(cluster::configuration_revision(&*self.on.store, &self.on.keys).await?)
    }

    /// Stores a configuration that somebody wrote. The planner takes it from there.
    pub async fn set_configuration(&self, actor: &Actor, document: Value) -> Result<Vec<Problem>, ServiceError> {
        let parsed = away(move || Configuration::parse(document)).await?;
        let configuration = parsed.map_err(|problems| Problems(problems).kind())?;
        let on = &self.on;
        let check = |state: &ClusterState| -> Result<(), Problems> {
            let problems = configuration.check_constraints(&state.constraints.unwrap_or_default());
            if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
        };
        cluster::put_configuration(&*on.store, &on.keys, &on.by(actor), &configuration, check).await?;
        tracing::info!(user = actor.name, nodes = configuration.nodes.len(), "cluster configuration set by hand");
        Ok(Procedures::of(&configuration.rest).warnings())
    }

    /// What the next round would do.
    pub async fn dry_run(&self) -> Result<DryRun, ServiceError> {
        let facts = self.facts().await?;
        away(move || {
            let plan = plan::plan(facts.input());
            let remedies = match &plan.outcome {
                Outcome::Blocked(blocked) => remedy::remedies(facts.input(), blocked),
                Outcome::Change(_) | Outcome::Nothing => Vec::new(),
            };
            DryRun { current: facts.current().cloned(), plan, remedies, disabled: facts.state.disabled }
        })
        .await
    }

    /// What the next rounds would do if nothing but time changed; `show` says what is kept of each.
    pub async fn simulate<T: Send + 'static>(
        &self,
        rounds: usize,
        show: impl Fn(&Plan) -> T + Send + 'static,
    ) -> Result<Vec<T>, ServiceError> {
        let facts = self.facts().await?;
        let period = self.options.period.max(self.options.settle);
        away(move || simulate::simulate(facts.input(), rounds, period, show)).await
    }

    /// Why a machine is, or is not, in the cluster.
    pub async fn explain(&self, serial: &Serial) -> Result<Explanation, ServiceError> {
        let machine = self.on.view.read().await?.find_machine(serial.as_str()).cloned();
        let next = self.dry_run().await?;
        let standing = next.plan.report.standing(serial).cloned();
        if machine.is_none() && standing.is_none() {
            return Err(ServiceError::NotFound);
        }
        // Nodes whose machines are not in the list are known by their address alone.
        let listed = standing.as_ref().and_then(|standing| standing.address);
        let address = listed.or_else(|| machine.as_ref()?.ipv4().next()).map(IpAddr::V4);
        let past = self.past(serial, address).await?;
        Ok(Explanation { next, standing, registered: machine.is_some(), past })
    }

    /// What was done with a machine, newest first. A plan may be large: they are read a few at a time.
    async fn past(
        &self,
        serial: &Serial,
        address: Option<IpAddr>,
    ) -> Result<Vec<(KeptPlan, Vec<Change>)>, ServiceError> {
        let (mut past, mut before) = (Vec::new(), None);
        for _ in 0..limits::PLANS_SEARCHED_MAX / limits::PLANS_AT_ONCE {
            let plans = self.plans(before, limits::PLANS_AT_ONCE).await?;
            let Some(oldest) = plans.last() else { break };
            before = Some(oldest.number);
            for plan in plans {
                let changes = changes_of(&plan, serial, address);
                if !changes.is_empty() {
                    past.push((plan, changes));
                }
            }
        }
        Ok(past)
    }

    /// Plans that were kept, the newest first, those before a number if one is given. At most `limits::PLANS_AT_ONCE`.
    pub async fn plans(&self, before: Option<u64>, limit: usize) -> Result<Vec<KeptPlan>, ServiceError> {
        let on = &self.on;
        Ok(cluster::plans(&*on.store, &on.keys, before, limit.min(limits::PLANS_AT_ONCE)).await?)
    }

    /// One plan that was kept.
    pub async fn plan(&self, number: u64) -> Result<KeptPlan, ServiceError> {
        let on = &self.on;
        cluster::find_plan(&*on.store, &on.keys, number).await?.ok_or(ServiceError::NotFound)
    }

    /// How the planner is doing.
    pub async fn status(&self) -> Result<Status, ServiceError> {
        let on = &self.on;
        let state = self.state().await?;
        let last = self.last.lock().expect("no holder of this lock panics").clone();
        Ok(Status {
            enabled: !state.disabled,
            leader: leaders::holder(&*on.store, &on.keys, TASK).await?,
            has_template: state.template.is_some(),
            nodes: state.configuration.map(|configured| configured.configuration.nodes.len()),
            last,
            plan: self.plans(None, 1).await?.into_iter().next(),
        })
    }

    /// How applying the configuration to Kubernetes goes on this server; `None`: it does not.
    pub fn applying(&self) -> Option<kubernetes::Progress> {
        self.options.applier.as_ref().map(|applier| applier.progress())
    }

    /// Figures of the last round of this server.
    pub fn figures(&self) -> Figures {
        self.figures.lock().expect("no holder of this lock panics").clone()
    }

    async fn state(&self) -> Result<ClusterState, ServiceError> {
        Ok(cluster::read(&*self.on.store, &self.on.keys).await?)
    }

    /// Everything a plan is made from; what is missing is a refusal that says what to do.
    async fn facts(&self) -> Result<Facts, ServiceError> {
        let state = self.state().await?;
        Facts::gather(&self.on, &self.options, state, self.now()).await.map_err(Into::into)
    }

    fn now(&self) -> Timestamp {
        self.on.clock.now()
    }
}

/// Changes of a plan that are about a machine.
fn changes_of(plan: &KeptPlan, serial: &Serial, address: Option<IpAddr>) -> Vec<Change> {
    let KeptResult::Changed { changes, .. } = &plan.result else { return Vec::new() };
    let about = |change: &&Change| match &change.serial {
        Some(named) => named == serial,
        None => Some(change.address) == address,
    };
    changes.iter().filter(about).cloned().collect()
}

/// Plans and reads away from the threads that serve connections: it takes a while for many machines, and waits for nothing.
async fn away<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, ServiceError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "a plan or a configuration was not finished");
        ServiceError::Defect("a plan or a configuration was not finished")
    })
}
