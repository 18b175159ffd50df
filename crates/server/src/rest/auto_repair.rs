//! `/api/v1/auto-repair/…`: whether and which broken machines come into the repair queue by themselves, and why not.

use std::sync::Arc;

use axum::{
    Json,
    body::Body,
    extract::{Query, State},
    http::HeaderMap,
};
use sabakan_domain::{audit, repair::settings::Setting};
use sabakan_service::repair::{Budget, Explanation, RoundEnd, Status};
use sabakan_store::repo::repairs::Switch;
use sabakan_wire::rest::{
    ErrorJson, ErrorKind,
    cluster::{EnabledJson, VariablesJson, WarningsJson},
    repair::{
        BudgetJson, Explained, RepairExplanationJson, RepairRoundJson, RepairStatusJson, Reported, SettingJson,
        SwitchesJson, settings_from_input, settings_json,
    },
};
use serde_json::{Value, json};

use super::{
    Actor, ApiError, App, body,
    cluster::{
        change, given,
        plans::{in_turn, whole},
        read,
    },
    path::{InPath, SerialPath},
    repair_queue::shown,
};
use crate::limits;

/// Whether broken machines come into the repair queue by themselves.
#[utoipa::path(get, path = "/api/v1/auto-repair/enabled", tag = "repair", operation_id = "getAutoRepairEnabled", responses(
    (status = 200, body = EnabledJson),
))]
pub async fn get_enabled(State(app): State<App>) -> Result<Json<EnabledJson>, ApiError> {
    is_enabled(&app, Switch::Automatic).await
}

/// Has broken machines come into the repair queue by themselves, or not. What is in it goes on.
#[utoipa::path(put, path = "/api/v1/auto-repair/enabled", tag = "repair", operation_id = "putAutoRepairEnabled",
    request_body = EnabledJson, responses(
    (status = 200, body = EnabledJson),
    (status = 400, description = "Not a truth value", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn put_enabled(
    State(app): State<App>,
    Actor(actor): Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<EnabledJson>, ApiError> {
    enable(&app, &actor, Switch::Automatic, &headers, body).await
}

/// Whether a part of repair works.
pub(super) async fn is_enabled(app: &App, switch: Switch) -> Result<Json<EnabledJson>, ApiError> {
    Ok(Json(EnabledJson { enabled: read(app.repairs.is_enabled(switch)).await? }))
}

/// Has a part of repair work, or not, as the body says.
pub(super) async fn enable(
    app: &App,
    actor: &audit::Actor,
    switch: Switch,
    headers: &HeaderMap,
    body: Body,
) -> Result<Json<EnabledJson>, ApiError> {
    let wish = body::read_switch(headers, body).await?;
    change(app.repairs.set_enabled(actor, switch, wish.enabled)).await?;
    Ok(Json(wish))
}

/// Which machines count as broken.
#[utoipa::path(get, path = "/api/v1/auto-repair/variables", tag = "repair", operation_id = "getAutoRepairVariables", responses(
    (status = 200, body = VariablesJson),
))]
pub async fn get_variables(State(app): State<App>) -> Result<Json<VariablesJson>, ApiError> {
    let (given, variables) = read(app.repairs.variables()).await?;
    Ok(Json(VariablesJson::new(given, &variables)))
}

/// Says which machines count as broken, in place of the defaults: an object with `having` and `notHaving`, as in GraphQL searches.
#[utoipa::path(put, path = "/api/v1/auto-repair/variables", tag = "repair", operation_id = "putAutoRepairVariables",
    request_body(content = Value), responses(
    (status = 200, body = WarningsJson),
    (status = 400, description = "What is wrong, all of it", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn put_variables(
    State(app): State<App>,
    Actor(actor): Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<WarningsJson>, ApiError> {
    let body = body::read(&headers, body, limits::VARIABLES_BYTES_MAX).await?;
    let warnings = change(app.repairs.set_variables(&actor, Some(body.text()?))).await?;
    Ok(Json(WarningsJson::from(warnings.as_slice())))
}

/// Lets those count as broken that do by default: unhealthy and unreachable machines that are no boot servers.
#[utoipa::path(delete, path = "/api/v1/auto-repair/variables", tag = "repair", operation_id = "resetAutoRepairVariables", responses(
    (status = 200, body = WarningsJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn delete_variables(State(app): State<App>, Actor(actor): Actor) -> Result<Json<WarningsJson>, ApiError> {
    let warnings = change(app.repairs.set_variables(&actor, None)).await?;
    Ok(Json(WarningsJson::from(warnings.as_slice())))
}

/// What can be chosen about automatic repair, and what holds.
#[utoipa::path(get, path = "/api/v1/auto-repair/settings", tag = "repair", operation_id = "getAutoRepairSettings", responses(
    (status = 200, body = Vec<SettingJson>),
))]
pub async fn get_settings(State(app): State<App>) -> Result<Json<Vec<SettingJson>>, ApiError> {
    Ok(Json(settings_json(&read(app.repairs.settings()).await?)))
}

/// Changes the settings that are given, all of them or none. A value is a text, a number or a truth value; that of `windows-minutes` may
/// be a list. Told is what of it leaves machines without protection.
#[utoipa::path(put, path = "/api/v1/auto-repair/settings", tag = "repair", operation_id = "putAutoRepairSettings",
    request_body(content = Value), responses(
    (status = 200, body = WarningsJson),
    (status = 400, description = "What is wrong, all of it", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn put_settings(
    State(app): State<App>,
    Actor(actor): Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<WarningsJson>, ApiError> {
    let document = body::read_json(&headers, body, limits::REPAIR_BYTES_MAX).await?;
    set(&app, &actor, &document).await
}

/// Changes one setting. The body is its value. Told is what of it leaves machines without protection.
#[utoipa::path(put, path = "/api/v1/auto-repair/settings/{name}", tag = "repair", operation_id = "putAutoRepairSetting",
    params(("name" = String, Path, description = "Which")), request_body(content = Value), responses(
    (status = 200, body = WarningsJson),
    (status = 400, description = "It cannot be", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
    (status = 404, description = "No such setting", body = ErrorJson),
))]
pub async fn put_setting(
    State(app): State<App>,
    Actor(actor): Actor,
    InPath(name): InPath<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<WarningsJson>, ApiError> {
    if !Setting::ALL.into_iter().any(|setting| setting.as_str() == name) {
        return Err(ApiError::new(ErrorKind::NotFound, ""));
    }
    let value = body::read_json(&headers, body, limits::REPAIR_BYTES_MAX).await?;
    set(&app, &actor, &json!({ name: value })).await
}

async fn set(app: &App, actor: &audit::Actor, document: &Value) -> Result<Json<WarningsJson>, ApiError> {
    let values = settings_from_input(document).map_err(|problems| ApiError::problems(&problems))?;
    let warnings = change(app.repairs.set_settings(actor, &values)).await?;
    Ok(Json(WarningsJson::from(warnings.as_slice())))
}

/// How repair is doing: what stands in its way, what failed together, how much may still be repaired, what becomes of broken machines.
#[utoipa::path(get, path = "/api/v1/auto-repair/status", tag = "repair", operation_id = "getAutoRepairStatus",
    params(("machines" = Option<usize>, Query,
        description = "How many broken machines are named; 1000 without it, 100000 at most. All are counted")), responses(
    (status = 200, body = RepairStatusJson),
    (status = 400, description = "Not a number, or too many", body = ErrorJson),
))]
pub async fn status(
    State(app): State<App>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Json<RepairStatusJson>, ApiError> {
    let shown_max = machines(&pairs)?;
    let repairs = Arc::clone(&app.repairs);
    let asked = in_turn(&app, async move { repairs.status().await });
    let Status { automatic, enabled, reboots_enabled, guard, warnings, budget, broken, incidents, leader, last } =
        asked.await?;
    let switches = SwitchesJson { automatic, repair_queue: enabled, guard, reboot_queue: Some(reboots_enabled) };
    Ok(Json(RepairStatusJson::from(Reported {
        switches,
        budget: budget_json(budget),
        broken: broken.as_deref().map_err(String::as_str),
        warnings: &warnings,
        incidents: &incidents,
        leader,
        last_round: last.map(|(at, end)| {
            let (word, count, reason) = match end {
                RoundEnd::Nothing => ("nothing", 0, None),
                RoundEnd::Enqueued(count) => ("enqueued", count, None),
                RoundEnd::Skipped(reason) => ("skipped", 0, Some(reason)),
                RoundEnd::Overtaken => ("overtaken", 0, None),
            };
            RepairRoundJson::new(at, word, count, reason)
        }),
        shown_max,
    })))
}

fn machines(pairs: &[(String, String)]) -> Result<usize, ApiError> {
    let (usual, max) = limits::BROKEN_LISTED;
    let Some(text) = given(pairs, "machines") else { return Ok(usual) };
    let number = usize::try_from(whole("machines", text)?).unwrap_or(usize::MAX);
    if number <= max {
        return Ok(number);
    }
    Err(ApiError::invalid(format!("machines is {number}; at most {max} are accepted")))
}

fn budget_json(budget: Budget) -> BudgetJson {
    let Budget { entries, finished, max, needed } = budget;
    BudgetJson::new((entries, finished), max, (budget.left(), needed), budget.is_used_up_by_finished())
}

/// Why a machine is, or is not, being repaired, and what would change that.
#[utoipa::path(get, path = "/api/v1/auto-repair/explain/{serial}", tag = "repair", operation_id = "explainAutoRepair",
    params(("serial" = String, Path, description = "Serial of the machine")), responses(
    (status = 200, body = RepairExplanationJson),
    (status = 404, description = "No such machine", body = ErrorJson),
))]
pub async fn explain(
    State(app): State<App>,
    SerialPath(serial): SerialPath,
) -> Result<Json<RepairExplanationJson>, ApiError> {
    let (repairs, named) = (Arc::clone(&app.repairs), serial.clone());
    let asked = in_turn(&app, async move { repairs.explain(&named).await });
    let Explanation {
        machine,
        failure,
        unknown,
        verdict,
        entries,
        incidents,
        automatic,
        enabled,
        guard,
        warnings,
        budget,
        leader,
    } = asked.await?;
    Ok(Json(RepairExplanationJson::from(Explained {
        serial: &serial,
        machine: machine.as_ref(),
        broken: failure.as_ref().zip(verdict.as_ref()),
        broken_unknown: unknown,
        entries: entries.iter().map(shown).collect(),
        warnings: &warnings,
        incidents: &incidents,
        switches: SwitchesJson { automatic, repair_queue: enabled, guard, reboot_queue: None },
        budget: budget_json(budget),
        leader,
    })))
}
