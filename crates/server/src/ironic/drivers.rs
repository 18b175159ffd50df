//! Drivers, and the servers that do provisioning work.

use axum::{
    extract::{Path, RawQuery, State},
    http::StatusCode,
    response::Response,
};
use sabakan_domain::provision::{
    control::ControlRefusal,
    interfaces::{HardwareType, Slot, hardware_type},
    raid,
};
use sabakan_wire::ironic::{ConductorJson, DriverJson, Page, parse_bool};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    App,
    call::{self, Call, within},
    error::Fault,
    nodes::{next_page, pairs},
};

/// What of a thing is wanted.
struct Choice {
    detail: bool,
    fields: Option<Vec<String>>,
}

impl Choice {
    /// A thing with the members that are wanted; links are always there.
    fn of(&self, thing: &impl Serialize) -> Value {
        let Ok(Value::Object(members)) = serde_json::to_value(thing) else { return Value::Null };
        let Some(fields) = &self.fields else { return Value::Object(members) };
        let wanted = |name: &String| name == "links" || fields.contains(name);
        Value::Object(members.into_iter().filter(|(name, _)| wanted(name)).collect())
    }
}

fn fields_of(value: &str) -> Vec<String> {
    value.split(',').map(|name| name.trim().to_owned()).collect()
}

/// Servers and the drivers they have. Without a server there is nobody to drive anything.
async fn known(app: &App) -> Result<(Vec<String>, Vec<&'static HardwareType>), Fault> {
    let hosts = within(app.nodes.conductors()).await?;
    let drivers = app.nodes.hardware().drivers().filter_map(|driver| hardware_type(driver.name())).collect();
    Ok((hosts, drivers))
}

/// `GET /v1/drivers`
pub(super) async fn list(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    let mut choice = Choice { detail: false, fields: None };
    let mut kind = None;
    for (name, value) in pairs(&query) {
        match name.as_str() {
            "detail" => choice.detail = parse_bool(&value).map_err(Fault::invalid)?,
            "type" if matches!(value.as_str(), "classic" | "dynamic") => kind = Some(value),
            "type" => return Err(Fault::invalid("type is classic or dynamic")),
            "fields" => choice.fields = Some(fields_of(&value)),
            other => return Err(Fault::invalid(format!("Unexpected arguments: {other}"))),
        }
    }
    if choice.detail && choice.fields.is_some() {
        return Err(Fault::invalid("Can not specify ?detail=True and fields in the same request."));
    }
    let (hosts, drivers) = known(&app).await?;
    let shown = drivers.into_iter().filter(|_| kind.as_deref() != Some("classic"));
    let detail = choice.detail || choice.fields.is_some();
    let driver = |known| choice.of(&DriverJson::of(known, &hosts, detail, &call.base, call.version));
    Ok(call::json(StatusCode::OK, &json!({ "drivers": shown.map(driver).collect::<Vec<_>>() })))
}

async fn find(app: &App, name: &str) -> Result<(Vec<String>, &'static HardwareType), Fault> {
    let (hosts, drivers) = known(app).await?;
    let found = drivers.into_iter().find(|known| known.driver == name);
    let found = found.ok_or_else(|| {
        Fault::missing(format!("Could not find the following driver(s) or hardware type(s): {name}."))
    })?;
    Ok((hosts, found))
}

/// `GET /v1/drivers/{name}`
pub(super) async fn get(
    State(app): State<App>,
    call: Call,
    Path(name): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    let mut choice = Choice { detail: true, fields: None };
    for (name, value) in pairs(&query) {
        match name.as_str() {
            "fields" => choice.fields = Some(fields_of(&value)),
            other => return Err(Fault::invalid(format!("Unexpected arguments: {other}"))),
        }
    }
    let (hosts, known) = find(&app, &name).await?;
    let driver = DriverJson::of(known, &hosts, choice.detail, &call.base, call.version);
    Ok(call::json(StatusCode::OK, &choice.of(&driver)))
}

/// `GET /v1/drivers/{name}/properties`
pub(super) async fn properties(State(app): State<App>, Path(name): Path<String>) -> Result<Response, Fault> {
    find_below(&app, &name).await?;
    let texts: Map<String, Value> =
        settings(&name).iter().map(|(key, text)| ((*key).to_owned(), json!(text))).collect();
    Ok(call::json(StatusCode::OK, &texts))
}

/// The driver something is below of; the original says it in other words there.
async fn find_below(app: &App, name: &str) -> Result<&'static HardwareType, Fault> {
    let found = find(app, name).await.map(|(_, known)| known);
    found.map_err(|fault| fault.worded(format!("The driver '{name}' is unknown.")))
}

/// `GET /v1/drivers/{name}/raid/logical_disk_properties`
pub(super) async fn logical_disk_properties(
    State(app): State<App>,
    call: Call,
    Path(name): Path<String>,
) -> Result<Response, Fault> {
    call.needs(12)?;
    let known = find_below(&app, &name).await?;
    if known.default_of(Slot::Raid).starts_with("no-") {
        return Err(Fault::missing(format!("Driver {name} does not support raid (disabled or not implemented).")));
    }
    let texts: Map<String, Value> =
        raid::PROPERTIES.iter().map(|(key, text)| ((*key).to_owned(), json!(text))).collect();
    Ok(call::json(StatusCode::OK, &texts))
}

/// Settings of a driver that people need; each driver's own module knows more.
fn settings(driver: &str) -> &'static [(&'static str, &'static str)] {
    match driver {
        "redfish" => &[
            ("redfish_address", "URL or host name of the BMC. Required unless the registry knows the machine's BMC."),
            ("redfish_system_id", "Path of the system. Needed if the BMC has several."),
            ("redfish_username", "User name."),
            ("redfish_password", "Password. Stored sealed."),
            ("redfish_verify_ca", "true, false, or a file with certificates of authorities."),
            ("redfish_auth_type", "basic, session or auto."),
        ],
        "ipmi" => &[
            ("ipmi_address", "Address of the BMC. Required unless the registry knows the machine's BMC."),
            ("ipmi_username", "User name."),
            ("ipmi_password", "Password. Stored sealed."),
            ("ipmi_port", "UDP port; 623 by default."),
            ("ipmi_priv_level", "Privilege level; ADMINISTRATOR by default."),
        ],
        _ => &[],
    }
}

/// `GET /v1/drivers/{name}/vendor_passthru/methods`: there are none; those of nodes are with the nodes.
pub(super) async fn no_methods(State(app): State<App>, Path(name): Path<String>) -> Result<Response, Fault> {
    find_below(&app, &name).await?;
    Ok(call::json(StatusCode::OK, &json!({})))
}

/// `/v1/drivers/{name}/vendor_passthru?method=…`
pub(super) async fn no_method(
    State(app): State<App>,
    Path(name): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    let method = pairs(&query).into_iter().find(|(name, _)| name == "method").map(|(_, value)| value);
    let method = method.ok_or_else(|| Fault::invalid("Missing mandatory parameter: method"))?;
    refuse_method(&app, &name, &method).await
}

/// `/v1/drivers/{name}/vendor_passthru/{method}`
pub(super) async fn no_method_named(
    State(app): State<App>,
    Path((name, method)): Path<(String, String)>,
) -> Result<Response, Fault> {
    refuse_method(&app, &name, &method).await
}

async fn refuse_method(app: &App, driver: &str, method: &str) -> Result<Response, Fault> {
    find_below(app, driver).await?;
    Err(Fault::invalid(ControlRefusal::NoMethod(method.to_owned()).to_string()))
}

/// `GET /v1/conductors`
pub(super) async fn conductors(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    call.needs(49).map_err(|_| Fault::missing("The API is not supported for this version"))?;
    let mut pairs = pairs(&query);
    let page = Page::take(&mut pairs)?;
    let mut choice = Choice { detail: false, fields: None };
    for (name, value) in pairs {
        match name.as_str() {
            "detail" => choice.detail = parse_bool(&value).map_err(Fault::invalid)?,
            "fields" => choice.fields = Some(fields_of(&value)),
            other => return Err(Fault::invalid(format!("Unexpected arguments: {other}"))),
        }
    }
    let (hosts, drivers) = known(&app).await?;
    let names: Vec<String> = drivers.iter().map(|known| known.driver.to_owned()).collect();
    let after = |host: &&String| page.marker.as_ref().is_none_or(|marker| *host > marker);
    let found: Vec<&String> = hosts.iter().filter(after).take(page.limit).collect();
    let drivers = (choice.detail || choice.fields.is_some()).then_some(names);
    let shown: Vec<Value> =
        found.iter().map(|host| choice.of(&ConductorJson::of(host, drivers.clone(), &call.base))).collect();
    let mut answer = json!({ "conductors": shown });
    if let (Some(last), Value::Object(members)) = (found.last().filter(|_| found.len() == page.limit), &mut answer) {
        members.insert("next".to_owned(), json!(next_page(&call, "conductors", &query, page.limit, last)));
    }
    Ok(call::json(StatusCode::OK, &answer))
}

/// `GET /v1/conductors/{name}`
pub(super) async fn conductor(
    State(app): State<App>,
    call: Call,
    Path(name): Path<String>,
    query: RawQuery,
) -> Result<Response, Fault> {
    call.needs(49).map_err(|_| Fault::missing("The API is not supported for this version"))?;
    let fields = pairs(&query).into_iter().find(|(name, _)| name == "fields").map(|(_, value)| fields_of(&value));
    let (hosts, drivers) = known(&app).await?;
    if !hosts.contains(&name) {
        return Err(Fault::missing(format!("Conductor {name} could not be found.")));
    }
    let drivers = drivers.iter().map(|known| known.driver.to_owned()).collect();
    let choice = Choice { detail: true, fields };
    Ok(call::json(StatusCode::OK, &choice.of(&ConductorJson::of(&name, Some(drivers), &call.base))))
}
