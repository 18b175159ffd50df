//! The answer of a registry: every machine in it, or why there is no list.

use std::net::Ipv4Addr;

use sabakan_domain::{
    cluster::input::ListedMachine,
    lifecycle::HealthState,
    machine::{Labels, Rack},
    time::Moment,
    words::{Role, Serial},
};
use serde_json::Value;

/// The machines of an answer.
pub(super) fn machines(body: &[u8]) -> Result<Vec<ListedMachine>, String> {
    let answer: Value = serde_json::from_slice(body).map_err(|error| format!("its answer is not JSON: {error}"))?;
    if let Some(errors) = answer.get("errors").and_then(Value::as_array).filter(|errors| !errors.is_empty()) {
        let text = |error: &Value| {
            error.get("message").and_then(Value::as_str).map_or_else(|| error.to_string(), str::to_owned)
        };
        let told: Vec<String> = errors.iter().take(3).map(text).collect();
        return Err(format!("it answered with errors: {}", told.join("; ")));
    }
    let list = answer.pointer("/data/searchMachines").and_then(Value::as_array);
    let list = list.ok_or_else(|| "its answer has no data.searchMachines".to_owned())?;
    list.iter()
        .enumerate()
        .map(|(n, value)| machine(value).map_err(|reason| format!("machine {n} of its answer: {reason}")))
        .collect()
}

fn machine(value: &Value) -> Result<ListedMachine, String> {
    let serial = text(value, "/spec/serial")?;
    // Another service has its own rules for what it takes; a machine left out here would be taken out of the cluster.
    let serial = Serial::stored(serial);
    let named = |reason: String| format!("{serial}: {reason}");
    Ok(ListedMachine {
        labels: labels(value).map_err(named)?,
        rack: Rack(number(value, "/spec/rack").map_err(named)?),
        index_in_rack: number(value, "/spec/indexInRack").map_err(named)?,
        role: Role::stored(text(value, "/spec/role").map_err(named)?),
        machine_type: text(value, "/spec/bmc/bmcType").map_err(named)?.to_owned(),
        address: address(value).map_err(named)?,
        register_date: moment(value, "/spec/registerDate").map_err(named)?,
        retire_date: moment(value, "/spec/retireDate").map_err(named)?,
        state: state(value).map_err(named)?,
        seconds_in_state: value
            .pointer("/status/duration")
            .and_then(Value::as_f64)
            .ok_or_else(|| named("status.duration is not a number".to_owned()))?,
        serial,
    })
}

fn text<'a>(value: &'a Value, path: &str) -> Result<&'a str, String> {
    value.pointer(path).and_then(Value::as_str).ok_or_else(|| format!("{} is not a text", dotted(path)))
}

fn number(value: &Value, path: &str) -> Result<u32, String> {
    let number = value.pointer(path).and_then(Value::as_u64).and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| format!("{} is not a number", dotted(path)))
}

fn moment(value: &Value, path: &str) -> Result<Moment, String> {
    text(value, path)?.parse().map_err(|_| format!("{} is not a time in RFC 3339", dotted(path)))
}

/// Labels; `null` is none.
fn labels(value: &Value) -> Result<Labels, String> {
    let list = match value.pointer("/spec/labels") {
        None | Some(Value::Null) => return Ok(Labels::default()),
        Some(list) => list.as_array().ok_or("spec.labels is not a list")?,
    };
    let pairs: Result<Vec<(String, String)>, String> =
        list.iter().map(|label| Ok((text(label, "/name")?.to_owned(), text(label, "/value")?.to_owned()))).collect();
    Ok(Labels::stored(pairs?))
}

/// The first address, which is who the machine is in the cluster.
fn address(value: &Value) -> Result<Option<Ipv4Addr>, String> {
    let list = match value.pointer("/spec/ipv4") {
        None | Some(Value::Null) => return Ok(None),
        Some(list) => list.as_array().ok_or("spec.ipv4 is not a list")?,
    };
    // What the older service writes where it could not compute an address.
    let Some(first) = list.first().filter(|first| *first != "<nil>") else { return Ok(None) };
    let address = first.as_str().and_then(|text| text.parse().ok());
    address.map(Some).ok_or_else(|| format!("{first} in spec.ipv4 is not an IPv4 address"))
}

/// States are in upper case here.
fn state(value: &Value) -> Result<HealthState, String> {
    let word = text(value, "/status/state")?;
    let known = HealthState::ALL.into_iter().find(|state| state.as_str().to_uppercase() == word);
    known.ok_or_else(|| format!("there is no state {word:?}"))
}

fn dotted(path: &str) -> String {
    path.trim_start_matches('/').replace('/', ".")
}
