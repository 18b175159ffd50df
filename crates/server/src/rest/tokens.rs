//! `/api/v1/tokens`: access tokens.

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
};
use sabakan_domain::words::Serial;
use sabakan_wire::{
    json,
    rest::{ErrorJson, NewTokenJson, TokenJson, TokenRequest},
};

use super::{Actor, ApiError, App, body, change_within, path::InPath, read_within};
use crate::limits;

/// Makes a token. Its text is in this answer and nowhere else.
#[utoipa::path(post, path = "/api/v1/tokens", tag = "tokens", operation_id = "createToken", request_body = TokenRequest, responses(
    (status = 201, body = NewTokenJson),
    (status = 400, description = "The name, the role or the serial is wrong", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn create(
    State(app): State<App>,
    Actor(actor): Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<(StatusCode, Json<NewTokenJson>), ApiError> {
    let body = body::read(&headers, body, limits::CONFIG_BYTES_MAX).await?;
    let TokenRequest { name, role, serial } = json::decode(&body)?;
    let role = role.parse()?;
    let bound = serial.as_deref().map(Serial::new).transpose()?;
    let text = change_within(app.tokens.create(&actor, &name, role, bound)).await?;
    let (id, token) = (text.id().to_owned(), text.expose().to_string());
    Ok((StatusCode::CREATED, Json(NewTokenJson { id, name, role: role.to_string(), serial, token })))
}

/// Every token, without its secret.
#[utoipa::path(get, path = "/api/v1/tokens", tag = "tokens", operation_id = "listTokens", responses(
    (status = 200, body = Vec<TokenJson>),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn list(State(app): State<App>) -> Result<Json<Vec<TokenJson>>, ApiError> {
    let tokens = read_within(app.tokens.list()).await?;
    let shape = |token: sabakan_service::TokenInfo| TokenJson {
        id: token.id,
        name: token.record.name,
        role: token.record.role.to_string(),
        serial: token.record.serial.map(String::from),
        created: token.record.created.to_string(),
    };
    Ok(Json(tokens.into_iter().map(shape).collect()))
}

/// Revokes a token.
#[utoipa::path(delete, path = "/api/v1/tokens/{id}", tag = "tokens", operation_id = "revokeToken",
    params(("id" = String, Path, description = "Id of the token")), responses(
    (status = 200, description = "Revoked"),
    (status = 403, description = "Not allowed", body = ErrorJson),
    (status = 404, description = "No such token", body = ErrorJson),
))]
pub async fn revoke(
    State(app): State<App>,
    Actor(actor): Actor,
    InPath(id): InPath<String>,
) -> Result<StatusCode, ApiError> {
    change_within(app.tokens.revoke(&actor, &id)).await?;
    Ok(StatusCode::OK)
}
