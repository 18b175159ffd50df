//! What the planner would do, why, and what it did.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Query, State},
};
use sabakan_service::{
    ServiceError,
    cluster::{Cluster, DryRun, Explanation, Round, RoundEnd, Status},
};
use sabakan_wire::rest::{
    ErrorJson, ErrorKind,
    cluster::{
        ClusterStatusJson, Explained, ExplanationJson, KeptPlanJson, PlanJson, PlanSummaryJson, RoundJson,
        SimulationJson,
    },
};
use tokio::time::timeout;

use super::{diff, given, read};
use crate::{
    limits,
    rest::{
        ApiError, App,
        path::{InPath, SerialPath},
    },
};

/// Plans for a caller.
async fn planned<T, F>(app: &App, work: impl FnOnce(Arc<Cluster>) -> F) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, ServiceError>> + Send + 'static,
    T: Send + 'static,
{
    in_turn(app, work(Arc::clone(&app.cluster))).await
}

/// Does work that looks at all machines. Few callers do at once, and what takes too long keeps its place until it is done.
pub(in super::super) async fn in_turn<T, F>(app: &App, work: F) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, ServiceError>> + Send + 'static,
    T: Send + 'static,
{
    let busy =
        || ApiError::new(ErrorKind::Unavailable, "too many plans or looks at all machines are being made; try again");
    let places = Arc::clone(&app.plans);
    let place = timeout(limits::WORK_TIME_MAX, places.acquire_owned()).await;
    let place = place.map_err(|_| busy())?.map_err(|_| busy())?;
    let made = tokio::spawn(async move {
        let _place = place;
        work.await
    });
    read(async { made.await.map_err(|_| ServiceError::Defect("a plan was not finished"))? }).await
}

/// What the next round would do, and why. Changes nothing.
#[utoipa::path(get, path = "/api/v1/cluster/plan", tag = "cluster", operation_id = "planCluster",
    params(("machines" = Option<bool>, Query, description = "Add every machine of the list with the reasons why it is not chosen")),
    responses(
    (status = 200, body = PlanJson),
    (status = 409, description = "There is no template, or no list of machines", body = ErrorJson),
))]
pub async fn plan(
    State(app): State<App>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Json<PlanJson>, ApiError> {
    let machines = truth(&pairs, "machines")?;
    let shape = move |run: DryRun| {
        let DryRun { current, plan, remedies, disabled } = run;
        let mut shown = PlanJson::new(&plan, &remedies, disabled);
        if let Some(made) = plan.outcome.made() {
            shown = shown.with_diff(diff::diff(current.as_ref(), &made.configuration));
        }
        if machines { shown.with_machines(&plan) } else { shown }
    };
    let shown = planned(&app, |cluster| async move {
        let run = cluster.dry_run().await?;
        tokio::task::spawn_blocking(move || shape(run)).await.map_err(|_| ServiceError::Defect("a plan was not shown"))
    });
    Ok(Json(shown.await?))
}

/// What the next rounds would do if nothing but time changed. Changes nothing.
#[utoipa::path(get, path = "/api/v1/cluster/simulation", tag = "cluster", operation_id = "simulateCluster",
    params(("rounds" = Option<usize>, Query, description = "How many; 10 without it, 200 at most")), responses(
    (status = 200, body = SimulationJson),
    (status = 400, description = "Not a number, or too many", body = ErrorJson),
    (status = 409, description = "There is no template, or no list of machines", body = ErrorJson),
))]
pub async fn simulate(
    State(app): State<App>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Json<SimulationJson>, ApiError> {
    let rounds = number(&pairs, "rounds", limits::ROUNDS)?;
    let show = |plan: &_| PlanJson::new(plan, &[], false);
    let shown = planned(&app, move |cluster| async move { cluster.simulate(rounds, show).await }).await?;
    Ok(Json(SimulationJson::new(shown, rounds)))
}

/// Why a machine is, or is not, in the cluster: what the next round says about it, and what was done with it.
#[utoipa::path(get, path = "/api/v1/cluster/machines/{serial}", tag = "cluster", operation_id = "explainClusterMachine",
    params(("serial" = String, Path, description = "Serial of the machine")), responses(
    (status = 200, body = ExplanationJson),
    (status = 404, description = "No such machine", body = ErrorJson),
    (status = 409, description = "There is no template, or no list of machines", body = ErrorJson),
))]
pub async fn explain(
    State(app): State<App>,
    SerialPath(serial): SerialPath,
) -> Result<Json<ExplanationJson>, ApiError> {
    let asked = serial.clone();
    let explanation = planned(&app, |cluster| async move { cluster.explain(&asked).await }).await?;
    let Explanation { next, standing, registered, past } = &explanation;
    let DryRun { current, plan, remedies: _, disabled } = next;
    Ok(Json(ExplanationJson::from(Explained {
        serial: &serial,
        registered: *registered,
        standing: standing.as_ref(),
        current: current.as_ref(),
        plan,
        disabled: *disabled,
        past,
    })))
}

/// Plans that were kept, the newest first.
#[utoipa::path(get, path = "/api/v1/cluster/plans", tag = "cluster", operation_id = "listClusterPlans",
    params(
        ("before" = Option<u64>, Query, description = "Only plans with a smaller number"),
        ("limit" = Option<usize>, Query, description = "How many; 20 without it, 1000 at most"),
    ),
    responses(
    (status = 200, body = Vec<PlanSummaryJson>),
    (status = 400, description = "Not a number", body = ErrorJson),
))]
pub async fn list(
    State(app): State<App>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Json<Vec<PlanSummaryJson>>, ApiError> {
    let mut before = given(&pairs, "before").map(|text| whole("before", text)).transpose()?;
    let limit = number(&pairs, "limit", limits::PLANS_LISTED)?;
    let mut found: Vec<PlanSummaryJson> = Vec::new();
    while found.len() < limit {
        // The service gives some at a time.
        let plans = read(app.cluster.plans(before, limit - found.len())).await?;
        let Some(oldest) = plans.last() else { break };
        before = Some(oldest.number);
        found.extend(plans.iter().map(PlanSummaryJson::from));
    }
    Ok(Json(found))
}

/// One plan that was kept.
#[utoipa::path(get, path = "/api/v1/cluster/plans/{number}", tag = "cluster", operation_id = "getClusterPlan",
    params(("number" = u64, Path, description = "Its number")), responses(
    (status = 200, body = KeptPlanJson),
    (status = 400, description = "Not a number", body = ErrorJson),
    (status = 404, description = "No such plan, or no longer kept", body = ErrorJson),
))]
pub async fn get(State(app): State<App>, InPath(text): InPath<String>) -> Result<Json<KeptPlanJson>, ApiError> {
    let number = whole("the number of the plan", &text)?;
    Ok(Json(KeptPlanJson::from(&read(app.cluster.plan(number)).await?)))
}

/// How the planner is doing: whether it works, who plans, what it did last.
#[utoipa::path(get, path = "/api/v1/cluster/status", tag = "cluster", operation_id = "getClusterStatus", responses(
    (status = 200, body = ClusterStatusJson),
))]
pub async fn status(State(app): State<App>) -> Result<Json<ClusterStatusJson>, ApiError> {
    let Status { enabled, leader, has_template, nodes, last, plan } = read(app.cluster.status()).await?;
    Ok(Json(ClusterStatusJson {
        enabled,
        leader,
        has_template,
        nodes,
        last_round: last.map(round),
        plan: plan.as_ref().map(KeptPlanJson::from),
    }))
}

fn round(round: Round) -> RoundJson {
    let Round { at, end } = round;
    let (word, reason, operation, plan) = match end {
        RoundEnd::Skipped(reason) => ("skipped", Some(reason), None, None),
        RoundEnd::Nothing => ("nothing", None, None, None),
        RoundEnd::Changed { operation, plan } => ("changed", None, Some(operation.as_str().to_owned()), Some(plan)),
        RoundEnd::Blocked(reason) => ("blocked", Some(reason), None, None),
        RoundEnd::Overtaken => ("overtaken", None, None, None),
    };
    RoundJson { at: at.to_string(), end: word.to_owned(), reason, operation, plan }
}

pub(in crate::rest) fn truth(pairs: &[(String, String)], name: &str) -> Result<bool, ApiError> {
    match given(pairs, name) {
        None | Some("false" | "0") => Ok(false),
        Some("true" | "1") => Ok(true),
        Some(other) => Err(ApiError::invalid(format!("{name} is {other:?}; true or false is expected"))),
    }
}

pub(in crate::rest) fn whole(name: &str, text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| ApiError::invalid(format!("{name} is {text:?}; a whole number is expected")))
}

fn number(pairs: &[(String, String)], name: &str, (default, max): (usize, usize)) -> Result<usize, ApiError> {
    let Some(text) = given(pairs, name) else { return Ok(default) };
    let number = usize::try_from(whole(name, text)?).unwrap_or(usize::MAX);
    if (1..=max).contains(&number) {
        return Ok(number);
    }
    Err(ApiError::invalid(format!("{name} is {number}; from 1 to {max} are accepted")))
}
