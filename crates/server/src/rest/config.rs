//! `/api/v1/config/…`

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use sabakan_domain::{dhcp::DhcpConfig, ipam::IpamConfig};
use sabakan_wire::{
    json,
    rest::{DhcpConfigJson, ErrorJson, IpamConfigJson},
};

use super::{Actor, ApiError, App, body, change_within, read_within};
use crate::limits;

/// The IPAM configuration as it is stored.
#[utoipa::path(get, path = "/api/v1/config/ipam", tag = "config", operation_id = "getIpam", responses(
    (status = 200, body = IpamConfigJson),
    (status = 404, description = "Never set", body = ErrorJson),
))]
pub async fn get_ipam(State(app): State<App>) -> Result<Json<IpamConfigJson>, ApiError> {
    let config = read_within(app.config.get_ipam()).await?;
    Ok(Json(IpamConfigJson::from(config.given())))
}

/// Sets the IPAM configuration. Refused once a machine is registered, because its addresses were computed from the present one, unless
/// the present one was taken over from the older service and cannot be used.
#[utoipa::path(put, path = "/api/v1/config/ipam", tag = "config", operation_id = "putIpam", request_body = IpamConfigJson, responses(
    (status = 200, description = "Set; the body is `null`"),
    (status = 400, description = "A field is missing or out of range", body = ErrorJson),
    (status = 403, description = "Not from an allowed network", body = ErrorJson),
    (status = 500, description = "A machine is registered", body = ErrorJson),
))]
pub async fn put_ipam(
    State(app): State<App>,
    Actor(actor): Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = body::read(&headers, body, limits::CONFIG_BYTES_MAX).await?;
    let config = IpamConfig::try_from(json::decode::<IpamConfigJson>(&body)?)?;
    change_within(app.config.put_ipam(&actor, &config)).await?;
    Ok(null())
}

/// The DHCP configuration.
#[utoipa::path(get, path = "/api/v1/config/dhcp", tag = "config", operation_id = "getDhcp", responses(
    (status = 200, body = DhcpConfigJson),
    (status = 404, description = "Never set", body = ErrorJson),
))]
pub async fn get_dhcp(State(app): State<App>) -> Result<Json<DhcpConfigJson>, ApiError> {
    let config = read_within(app.config.get_dhcp()).await?;
    Ok(Json(DhcpConfigJson::from(&*config)))
}

/// Sets the DHCP configuration. May be changed at any time.
#[utoipa::path(put, path = "/api/v1/config/dhcp", tag = "config", operation_id = "putDhcp", request_body = DhcpConfigJson, responses(
    (status = 200, description = "Set; the body is `null`"),
    (status = 400, description = "A DNS server is not an IPv4 address", body = ErrorJson),
    (status = 403, description = "Not from an allowed network", body = ErrorJson),
))]
pub async fn put_dhcp(
    State(app): State<App>,
    Actor(actor): Actor,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let body = body::read(&headers, body, limits::CONFIG_BYTES_MAX).await?;
    let config = DhcpConfig::try_from(json::decode::<DhcpConfigJson>(&body)?)?;
    config.check_new()?;
    change_within(app.config.put_dhcp(&actor, &config)).await?;
    Ok(null())
}

fn null() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], "null\n").into_response()
}
