//! `/api/v1/incidents`: what failed together, and that a person has looked.

use axum::{
    Json,
    body::Body,
    extract::{Query, State},
    http::HeaderMap,
};
use sabakan_service::repair::ShownIncident;
use sabakan_wire::rest::{
    ErrorJson,
    repair::{AcknowledgeJson, IncidentJson, IncidentSummaryJson, acknowledge_from_input},
};

use super::{
    Actor, ApiError, App, body,
    cluster::{
        change,
        plans::{truth, whole},
        read,
    },
    path::InPath,
};
use crate::limits;

/// Incidents that are kept, the newest first. `because` says why each was opened, `now` what holds of those that are not over.
#[utoipa::path(get, path = "/api/v1/incidents", tag = "repair", operation_id = "listIncidents",
    params(("open" = Option<bool>, Query, description = "Only those that are open")), responses(
    (status = 200, body = Vec<IncidentSummaryJson>),
    (status = 400, description = "Not a truth value", body = ErrorJson),
))]
pub async fn list(
    State(app): State<App>,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Json<Vec<IncidentSummaryJson>>, ApiError> {
    let open = truth(&pairs, "open")?;
    let incidents = read(app.repairs.incidents()).await?;
    let wanted = |shown: &&ShownIncident| !open || shown.incident.is_open();
    let json = |shown: &ShownIncident| {
        let ShownIncident { incident, guard, now } = shown;
        IncidentSummaryJson::new(incident, *guard).at(now.as_ref())
    };
    Ok(Json(incidents.iter().filter(wanted).map(json).collect()))
}

/// One incident, with its machines, why it was opened and what holds now.
#[utoipa::path(get, path = "/api/v1/incidents/{number}", tag = "repair", operation_id = "getIncident",
    params(("number" = u64, Path, description = "Its number")), responses(
    (status = 200, body = IncidentJson),
    (status = 400, description = "Not a number", body = ErrorJson),
    (status = 404, description = "No such incident, or no longer kept", body = ErrorJson),
))]
pub async fn get(State(app): State<App>, InPath(text): InPath<String>) -> Result<Json<IncidentJson>, ApiError> {
    let number = whole("number", &text)?;
    let ShownIncident { incident, guard, now } = read(app.repairs.incident(number)).await?;
    Ok(Json(IncidentJson::new(&incident, guard).at(now.as_ref())))
}

/// Says that a person has looked: the machines may be repaired, as far as the limits allow.
#[utoipa::path(post, path = "/api/v1/incidents/{number}/acknowledge", tag = "repair", operation_id = "acknowledgeIncident",
    params(("number" = u64, Path, description = "Its number")), request_body = AcknowledgeJson, responses(
    (status = 200, body = IncidentSummaryJson),
    (status = 400, description = "What is wrong, all of it", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
    (status = 404, description = "No such incident, or no longer kept", body = ErrorJson),
    (status = 409, description = "It is over already", body = ErrorJson),
))]
pub async fn acknowledge(
    State(app): State<App>,
    Actor(actor): Actor,
    InPath(text): InPath<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<IncidentSummaryJson>, ApiError> {
    let number = whole("number", &text)?;
    let body = body::read(&headers, body, limits::REPAIR_BYTES_MAX).await?;
    let wish = acknowledge_from_input(&body).map_err(|problems| ApiError::problems(&problems))?;
    let incident = change(app.repairs.acknowledge(&actor, number, &wish.reason)).await?;
    // Who acknowledges it lets its machines go, whatever the guard is.
    Ok(Json(IncidentSummaryJson::new(&incident, false)))
}
