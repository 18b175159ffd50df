//! Everything a plan is made from, read at one moment.

use std::time::Duration;

use jiff::Timestamp;
use sabakan_domain::cluster::{
    attributes,
    config::Configuration,
    constraints::Constraints,
    input::{Input, ListedMachine, LiveTaints},
    live_node,
    template::Template,
    variables::Variables,
};
use sabakan_store::{StoreError, repo::cluster::ClusterState};

use super::{ClusterOptions, Problems};
use crate::{Foundation, ServiceError, error::Refusal, limits};

/// Everything a plan is made from.
pub(super) struct Facts {
    pub(super) state: ClusterState,
    template: Template,
    constraints: Constraints,
    machines: Vec<ListedMachine>,
    taints: LiveTaints,
    now: Timestamp,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub(super) enum Missing {
    #[error("there is no template; set one with `sabactl cluster set-template FILE`")]
    Template,
    #[error("the query variables cannot be used: {0}; set them again with `sabactl cluster set-variables FILE`")]
    Variables(String),
    #[error("{0}")]
    Registry(String),
    #[error("the taints of nodes are not known, and control planes must not be chosen without: {0}")]
    Taints(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Missing> for ServiceError {
    fn from(missing: Missing) -> ServiceError {
        match missing {
            Missing::Store(error) => error.into(),
            Missing::Template | Missing::Variables(_) | Missing::Registry(_) | Missing::Taints(_) => {
                ServiceError::Refused(missing.to_string())
            }
        }
    }
}

impl Facts {
    pub(super) async fn gather(
        on: &Foundation,
        options: &ClusterOptions,
        state: ClusterState,
        now: Timestamp,
    ) -> Result<Facts, Missing> {
        let (template, _) = state.template.clone().ok_or(Missing::Template)?;
        let variables = variables(state.variables.as_deref()).map_err(|error| Missing::Variables(error.to_string()))?;
        let machines = match &options.registry {
            Some(registry) => {
                let answer = within(limits::REGISTRY_TIME_MAX, registry.machines(&variables)).await;
                answer
                    .ok_or_else(|| Missing::Registry("the registry did not answer in time".to_owned()))?
                    .map_err(|error| Missing::Registry(error.to_string()))?
            }
            None => {
                let snapshot = on.view.read().await?;
                let found = snapshot.search(&variables.query(now));
                found.iter().map(|machine| ListedMachine::of(machine, now)).collect()
            }
        };
        let taints = match &options.nodes {
            None => LiveTaints::new(),
            Some(nodes) => {
                let configuration = state.configuration.as_ref().map(|configured| &configured.configuration);
                let read = nodes.read().await.map(|nodes| live_node::live_taints(configuration, &nodes));
                attributes::taints_to_plan_with(state.configuration.is_some(), read).map_err(Missing::Taints)?
            }
        };
        let constraints = state.constraints.unwrap_or_default();
        Ok(Facts { state, template, constraints, machines, taints, now })
    }

    pub(super) fn current(&self) -> Option<&Configuration> {
        self.state.configuration.as_ref().map(|configured| &configured.configuration)
    }

    pub(super) fn input(&self) -> Input<'_> {
        Input {
            machines: &self.machines,
            template: &self.template,
            template_changed: self.state.template_changed(),
            constraints: &self.constraints,
            current: self.current(),
            taints: &self.taints,
            now: self.now,
        }
    }
}

/// What is meant by the variables somebody wrote, or by none.
pub(super) fn variables(text: Option<&str>) -> Result<Variables, ServiceError> {
    match text {
        None => Ok(Variables::for_planner()),
        Some(text) => Variables::parse(text).map_err(|problems| Problems(problems).kind()),
    }
}

async fn within<T>(time: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, work).await.ok()
}
