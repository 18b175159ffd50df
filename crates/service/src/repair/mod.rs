//! Automatic repair: which broken machines are repaired and how, which are held and why. What people ask of it and are told is here;
//! `tasks::repairer` runs `Repairs::cycle` on the server that leads. The rules are in `sabakan_domain::repair`.

mod actions;
mod cycle;
mod damage;
mod drain;
mod ends;
mod explain;
mod facts;
mod figures;
mod health;
mod incidents;
mod pass;
mod power;
mod queue;
mod reboots;
mod restart;
mod round;
mod sight;
mod tries;
mod work;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

pub use explain::{Budget, Explanation, Status};
pub use figures::{Figures, Phase, Present};
pub use incidents::ShownIncident;
use jiff::Timestamp;
pub use queue::{ManualEntry, ShownEntry};
pub use reboots::ShownReboot;
pub use round::RoundEnd;
use sabakan_domain::{
    audit::Actor,
    cluster::{shape::Problem, variables::Variables},
    repair::settings::RepairSettings,
    words::Serial,
};
use sabakan_drivers::{command::Runner, kubernetes::Kubernetes, registry::Registry};
use sabakan_store::repo::{
    cluster::{self, ClusterState},
    repairs::{self, BadSetting, RepairState, Switch},
};
pub(crate) use work::Work;

use crate::{
    Foundation, Nodes, ServiceError,
    cluster::{Problems, live_nodes::LiveNodes},
    error::Refusal,
    limits,
};

/// The name repair is led under.
pub const TASK: &str = "repair";

/// How everybody who repairs is called, whichever server it is on. By this a power change is known that was asked for here.
const ACTOR: &str = "repair on ";

/// Where facts come from, and what may be acted on.
pub struct RepairOptions {
    /// Another registry; `None`: our own.
    pub registry: Option<Arc<dyn Registry>>,
    /// The Nodes of Kubernetes; `None`: nothing is known about them.
    pub nodes: Option<Arc<LiveNodes>>,
    /// Kubernetes, where nodes are drained; `None`: a step that needs it cannot be taken.
    pub kubernetes: Option<Arc<dyn Kubernetes>>,
    /// Runs commands.
    pub runner: Runner,
    /// Runs checks. Many of them must not keep a repair waiting.
    pub checker: Runner,
    /// This server.
    pub server: String,
    /// How often everything is looked at when nothing changes.
    pub period: Duration,
    /// How long the lead outlives its server.
    pub lease: Duration,
}

impl Default for RepairOptions {
    fn default() -> RepairOptions {
        RepairOptions {
            registry: None,
            nodes: None,
            kubernetes: None,
            runner: Runner::default(),
            checker: Runner::default(),
            server: "sabakan".to_owned(),
            period: limits::REPAIR_PERIOD,
            lease: limits::LEAD_LEASE,
        }
    }
}

/// Repair.
pub struct Repairs {
    on: Arc<Foundation>,
    nodes: Arc<Nodes>,
    options: RepairOptions,
    told: Mutex<Told>,
}

/// What the last cycle of this server came to, for those who ask. Empty on a server that does not lead.
#[derive(Debug, Clone, Default)]
struct Told {
    figures: Figures,
    /// The last look of the enqueuer, and what came of it.
    round: Option<(Timestamp, RoundEnd)>,
    /// Since when each machine has been broken, in whatever way.
    broken_since: BTreeMap<Serial, Timestamp>,
    /// Why nothing is done with an entry of the repair queue, by index.
    waits: BTreeMap<u64, String>,
    /// The same of the reboot queue.
    reboot_waits: BTreeMap<u64, String>,
}

impl Refusal for repairs::QueueRefusal {
    fn kind(self) -> ServiceError {
        match self {
            repairs::QueueRefusal::Active { .. } => ServiceError::Conflict(self.to_string()),
            repairs::QueueRefusal::TooMany(_) => ServiceError::Invalid(format!("nodes: {self}")),
            repairs::QueueRefusal::Full | repairs::QueueRefusal::Over(_) => ServiceError::Refused(self.to_string()),
        }
    }
}

impl Refusal for BadSetting {
    fn kind(self) -> ServiceError {
        Problems(vec![self.0]).kind()
    }
}

impl Repairs {
    /// The repair of a foundation.
    pub fn new(on: Arc<Foundation>, nodes: Arc<Nodes>, options: RepairOptions) -> Repairs {
        Repairs { on, nodes, options, told: Mutex::default() }
    }

    /// How it works.
    pub fn options(&self) -> &RepairOptions {
        &self.options
    }

    /// Whether a part of it works.
    pub async fn is_enabled(&self, switch: Switch) -> Result<bool, ServiceError> {
        Ok(repairs::is_enabled(&*self.on.store, &self.on.keys, switch).await?)
    }

    /// Has a part of it work, or not.
    pub async fn set_enabled(&self, actor: &Actor, switch: Switch, enabled: bool) -> Result<(), ServiceError> {
        let on = &self.on;
        repairs::set_enabled(&*on.store, &on.keys, &on.by(actor), switch, enabled).await?;
        tracing::info!(user = actor.name, ?switch, enabled, "repair switched");
        Ok(())
    }

    /// Which machines count as broken, as somebody wrote it, and what is meant.
    pub async fn variables(&self) -> Result<(Option<String>, Variables), ServiceError> {
        let text = self.state().await?.variables;
        let variables = facts::variables(text.as_deref()).map_err(|problems| Problems(problems).kind())?;
        Ok((text, variables))
    }

    /// Says which machines count as broken; `None`: the defaults. What is allowed but doubtful is returned.
    pub async fn set_variables(&self, actor: &Actor, text: Option<&str>) -> Result<Vec<Problem>, ServiceError> {
        let variables = facts::variables(text).map_err(|problems| Problems(problems).kind())?;
        let on = &self.on;
        repairs::put_variables(&*on.store, &on.keys, &on.by(actor), text).await?;
        Ok(variables.warnings())
    }

    /// What an operator chose about the guard.
    pub async fn settings(&self) -> Result<RepairSettings, ServiceError> {
        Ok(self.state().await?.settings)
    }

    /// Changes settings, all of the given ones or none. What is allowed but leaves machines without protection is returned.
    pub async fn set_settings(&self, actor: &Actor, values: &[(String, String)]) -> Result<Vec<Problem>, ServiceError> {
        let on = &self.on;
        let decide = |settings: RepairSettings| {
            let set = |settings: RepairSettings, (name, value): &(String, String)| settings.with(name, value);
            values.iter().try_fold(settings, set).map_err(BadSetting)
        };
        // Read first: once they are set, no read decides about the answer. What cannot be read must not keep anybody from setting them.
        let open = self.state().await.map_or(0, |state| open_incidents(&state));
        let settings = repairs::edit_settings(&*on.store, &on.keys, &on.by(actor), decide).await?;
        let warnings = settings.warnings(if settings.guard.enabled { 0 } else { open });
        for Problem { path, reason } in &warnings {
            tracing::warn!(user = actor.name, setting = path, reason, "repair settings protect less than they could");
        }
        Ok(warnings)
    }

    /// Figures of the last cycle of this server.
    pub fn figures(&self) -> Figures {
        self.told().figures.clone()
    }

    /// A cycle was given up.
    pub(crate) fn gave_up(&self) {
        self.told().figures.cycle_failures += 1;
    }

    /// From here on this server does not repair.
    pub(crate) fn rests(&self) {
        let mut told = self.told();
        *told = Told { figures: told.figures.counters(), ..Told::default() };
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().expect("no holder of this lock panics")
    }

    async fn state(&self) -> Result<RepairState, ServiceError> {
        repairs::read(&*self.on.store, &self.on.keys).await.map_err(|error| self.unread(error))
    }

    async fn cluster(&self) -> Result<ClusterState, ServiceError> {
        cluster::read(&*self.on.store, &self.on.keys).await.map_err(|error| self.unread(error))
    }

    fn now(&self) -> Timestamp {
        self.on.clock.now()
    }

    /// Who acts when nobody asked.
    fn actor(&self) -> Actor {
        Actor::internal(format!("{ACTOR}{}", self.options.server))
    }
}

/// How many incidents are open, whether they hold anybody or not.
fn open_incidents(state: &RepairState) -> usize {
    state.incidents.iter().filter(|incident| incident.is_open()).count()
}
