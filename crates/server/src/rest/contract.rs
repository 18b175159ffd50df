//! Makes the OpenAPI document true: adds what the types behind it cannot say. What every operation may answer, bounds and patterns of
//! what is sent, and where null is as good as nothing. `cargo xtask openapi` holds the server to the result.
//!
//! Rules stay in `domain`; patterns here only describe them.

use sabakan_domain::{
    cluster::{
        constraints::Constraints,
        shape::{Field, Object, Presence, Shape},
        variables::VARIABLES,
    },
    lifecycle::HealthState,
    limits::{
        BMC_TYPE_BYTES_MAX, DISK_KEY_BYTES_MAX, DISK_PATH_BYTES_MAX, DNS_SERVERS_MAX, LABELS_MAX, LEASE_MINUTES_MAX,
        REPAIR_HOURS_MAX, REPAIR_WINDOWS_MAX, SERIAL_BYTES_MAX,
    },
    repair::settings::Setting,
};
use sabakan_wire::rest::{QueryParams, paths};
use serde_json::{Map, Value, json};

use crate::limits;

/// A serial: no control character, comma or slash, no white space at its ends.
const SERIAL: &str = r"^[^\s,/\x00-\x1f\x7f-\x9f]([^,/\x00-\x1f\x7f-\x9f]*[^\s,/\x00-\x1f\x7f-\x9f])?$";

/// A word as roles and names of labels are.
const WORD: &str = r"^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$";

/// A word or nothing, as values of labels are.
const VALUE: &str = r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$";

/// Numbers separated by commas, or nothing.
const NUMBERS: &str = r"^((0|[1-9][0-9]{0,8})(,(0|[1-9][0-9]{0,8}))*)?$";

/// A day or nothing. Which years have a 29 February, no pattern says.
const DAY: &str = r"^([0-9]{4}((0[13578]|1[02])(0[1-9]|[12][0-9]|3[01])|(0[469]|11)(0[1-9]|[12][0-9]|30)|02(0[1-9]|1[0-9]|2[0-8])))?$";

/// A time as in RFC 3339. Which years have a 29 February, no pattern says.
const TIME: &str = r"^[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$";

/// IPv4 addresses, one in each line.
const ADDRESSES: &str = r"^((0|[1-9][0-9]?)(\.(0|[1-9][0-9]?)){3}\n)+$";

/// An IPv4 network. That the bits after its prefix are zero, no pattern says.
const NETWORK: &str =
    r"^(25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})(\.(25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})){3}/(3[0-2]|[12]?[0-9])$";

/// A part of an IPv4 address.
const OCTET: &str = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])";

/// Completes the document.
pub(super) fn complete(document: &mut Value) {
    unsigned(document);
    let schemas = &mut document["components"]["schemas"];
    inputs(schemas);
    let Some(paths) = document["paths"].as_object_mut() else { return };
    for (path, item) in paths {
        let Some(operations) = item.as_object_mut() else { continue };
        for (method, operation) in operations {
            parameters(path, operation);
            if let Some(body) = body(method, path)
                && let Some(slot) = operation.pointer_mut("/requestBody")
            {
                *slot = body;
            }
            answers(method, path, operation);
        }
    }
}

/// Unsigned numbers have a greatest one. As `int32` and `int64` they would end at half of it.
fn unsigned(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let max = match (members.get("format").and_then(Value::as_str), members.get("minimum")) {
                (Some("int32"), Some(_)) => Some(u64::from(u32::MAX)),
                (Some("int64"), Some(_)) => Some(u64::MAX),
                _ => None,
            };
            if let Some(max) = max {
                members.remove("format");
                members.entry("maximum").or_insert(json!(max));
            }
            members.values_mut().for_each(unsigned);
        }
        Value::Array(items) => items.iter_mut().for_each(unsigned),
        _ => {}
    }
}

/// What every operation may answer besides what it says itself. The one place: whoever reads a body may be refused it for its size, its
/// silence or for want of room, whoever asks may be nobody, and any store may be away.
fn answers(method: &str, path: &str, operation: &mut Value) {
    if !path.starts_with("/api/v1/") {
        return;
    }
    let has_body = operation.get("requestBody").is_some();
    // A reader of YAML finds the same object in it.
    if let Some(yaml) = operation.pointer_mut("/responses/200/content/application~1yaml") {
        *yaml = json!({ "schema": { "type": "object" } });
    }
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    let mut add = |status: &str, text: &str| {
        let schema = json!({ "$ref": "#/components/schemas/ErrorJson" });
        let answer = json!({ "description": text, "content": { "application/json": { "schema": schema } } });
        responses.entry(status).or_insert(answer);
    };
    add("400", "A name in the path, a parameter or the body cannot be, or a token is in the URL");
    add("401", "The token is malformed, unknown or revoked");
    add("403", "Not allowed");
    add("500", "A defect, or damaged data; the log of the server says more");
    add("503", "The store does not answer, or the server has too much to do; nothing was changed, try again");
    if has_body {
        add("408", "The body did not come, or too slowly");
        add("413", "The body is larger than this operation takes");
    }
    if method != "get" {
        add("504", "The store did not answer in time; the change may or may not have been made");
    }
}

/// What the parameters of an operation must be like.
fn parameters(path: &str, operation: &mut Value) {
    let Some(parameters) = operation.get_mut("parameters").and_then(Value::as_array_mut) else { return };
    for parameter in parameters {
        let (name, place) = (text(parameter, "name"), text(parameter, "in"));
        let schema = match (name.as_str(), place.as_str()) {
            ("serial", "path") => serial(),
            ("disk", "path") => {
                let pattern = r"^[^/\x00-\x1f\x7f-\x9f]+$";
                json!({ "type": "string", "minLength": 1, "maxLength": DISK_PATH_BYTES_MAX, "pattern": pattern })
            }
            ("id", "path") => json!({ "type": "string", "pattern": "^[0-9A-Za-z_-]+$" }),
            ("name", "path") if path.starts_with(paths::LABELS) => json!({ "type": "string", "pattern": WORD }),
            ("name", "path") if path.starts_with(paths::CONSTRAINTS) => {
                json!({ "type": "string", "enum": Constraints::NAMES })
            }
            ("name", "path") if path.starts_with(paths::AUTO_REPAIR_SETTINGS) => {
                json!({ "type": "string", "enum": Setting::ALL.map(Setting::as_str) })
            }
            ("force" | "open" | "follow", "query") => truth(),
            ("machines", "query") if text(&parameter["schema"], "type") == "boolean" => truth(),
            ("machines", "query") => whole(0, limits::BROKEN_LISTED.1),
            ("rounds", "query") => whole(1, limits::ROUNDS.1),
            ("limit", "query") => whole(1, limits::PLANS_LISTED.1),
            ("format", "query") => json!({ "type": "string", "enum": ["json", "yaml"] }),
            ("after", "query") => json!({ "type": "integer", "minimum": 0, "maximum": i64::MAX - 1 }),
            ("since" | "until", "query") => json!({ "type": "string", "pattern": DAY }),
            (name, "query") => match filter(name) {
                Some(schema) => schema,
                None => continue,
            },
            _ => continue,
        };
        parameter["schema"] = schema;
    }
}

/// What a search parameter of machines must be like. Empty is as good as absent.
fn filter(name: &str) -> Option<Value> {
    let bare = name.strip_prefix("without-").unwrap_or(name);
    if !QueryParams::NAMES.contains(&bare) {
        return None;
    }
    let states = HealthState::ALL.map(HealthState::as_str).join("|");
    let pattern = match bare {
        "rack" | "index-in-rack" => NUMBERS.to_owned(),
        "state" => format!("^(({states})(,({states}))*)?$"),
        "labels" => r"^([^=,\s]+=[^=,\s]+(,[^=,\s]+=[^=,\s]+)*)?$".to_owned(),
        "ipv4" => format!("^({OCTET}(\\.{OCTET}){{3}})?$"),
        "ipv6" => r"^([0-9a-f]{1,4}(:[0-9a-f]{1,4}){7})?$".to_owned(),
        _ => return None,
    };
    Some(json!({ "type": "string", "pattern": pattern }))
}

/// True or false, as a URL says it.
fn truth() -> Value {
    json!({ "type": "string", "enum": ["true", "false", "1", "0"] })
}

fn whole(min: usize, max: usize) -> Value {
    json!({ "type": "integer", "minimum": min, "maximum": max })
}

fn serial() -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": SERIAL_BYTES_MAX, "pattern": SERIAL, "not": { "enum": [".", ".."] } })
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

/// Bodies whose types say less than their rules.
fn body(method: &str, path: &str) -> Option<Value> {
    let one = |kind: &str, schema: Value| json!({ "required": true, "content": { kind: { "schema": schema } } });
    let states = HealthState::ALL.map(HealthState::as_str).into_iter().chain(["dead"]).collect::<Vec<_>>();
    let whole_document = json!({ "type": "object", "required": ["name", "service_subnet", "nodes"] });
    Some(match (method, path) {
        ("put", "/api/v1/state/{serial}") => one("text/plain", json!({ "type": "string", "enum": states })),
        ("put", "/api/v1/labels/{serial}/{name}") => {
            let schema = json!({ "type": "string", "pattern": VALUE });
            json!({ "required": false, "content": { "text/plain": { "schema": schema } } })
        }
        ("put", "/api/v1/retire-date/{serial}") => {
            one("text/plain", json!({ "type": "string", "pattern": TIME, "example": "2030-01-02T03:04:05Z" }))
        }
        ("put", "/api/v1/crypts/{serial}/{disk}") => {
            let key = json!({ "type": "string", "format": "binary", "minLength": 1, "maxLength": DISK_KEY_BYTES_MAX });
            one("application/octet-stream", key)
        }
        ("post", paths::MACHINES) => {
            let machine = json!({ "$ref": "#/components/schemas/MachineInput" });
            one("application/json", json!({ "type": ["array", "null"], "items": machine }))
        }
        ("put", "/api/v1/cluster/variables" | "/api/v1/auto-repair/variables") => {
            one("application/json", object(&VARIABLES))
        }
        ("put", "/api/v1/cluster/template" | "/api/v1/cluster/configuration") => json!({
            "required": true,
            "content": {
                "application/json": { "schema": whole_document },
                "application/yaml": { "schema": whole_document },
            },
        }),
        ("post", paths::REBOOT_QUEUE) => json!({
            "required": true,
            "content": {
                "application/json": { "schema": { "$ref": "#/components/schemas/NewRebootsJson" } },
                "text/plain": { "schema": { "type": "string", "pattern": ADDRESSES, "example": "10.69.0.4\n" } },
            },
        }),
        ("put", "/api/v1/constraints") => {
            let named = Constraints::NAMES.map(|name| (name.to_owned(), constraint(name)));
            let properties: Map<String, Value> = named.into_iter().collect();
            let schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
            one("application/json", schema)
        }
        ("put", "/api/v1/constraints/{name}") => one("application/json", constraint("")),
        ("put", "/api/v1/auto-repair/settings") => {
            let named = Setting::ALL.map(|name| (name.as_str().to_owned(), setting(name)));
            let properties: Map<String, Value> = named.into_iter().collect();
            let schema = json!({ "type": "object", "properties": properties, "additionalProperties": false });
            one("application/json", schema)
        }
        ("put", "/api/v1/auto-repair/settings/{name}") => {
            let any = Setting::ALL.map(setting).to_vec();
            one("application/json", json!({ "description": "What it is depends on the setting.", "anyOf": any }))
        }
        ("post", "/api/v1/incidents/{number}/acknowledge") => {
            let schema = json!({ "$ref": "#/components/schemas/AcknowledgeJson" });
            json!({ "required": false, "content": { "application/json": { "schema": schema } } })
        }
        _ => return None,
    })
}

fn constraint(name: &str) -> Value {
    json!({ "type": "integer", "minimum": i32::from(name == "control-plane-count"), "maximum": i32::MAX })
}

/// A setting of repair: a value of its kind, or the text of one.
fn setting(setting: Setting) -> Value {
    let or_text = |schema: Value, pattern: &str| json!({ "anyOf": [schema, { "type": "string", "pattern": pattern }] });
    match setting {
        Setting::Guard | Setting::OutOfServiceTaint => json!({ "enum": [true, false, "true", "false"] }),
        Setting::FailuresPercentPerDay => {
            let number = json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 100 });
            or_text(number, r"^([1-9][0-9]?|0\.[0-9]{0,3}[1-9])$")
        }
        Setting::Chance => {
            let number = json!({ "type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1 });
            or_text(number, r"^0\.[0-9]{0,6}[1-9]$")
        }
        Setting::WindowsMinutes => {
            let minutes = json!({ "type": "integer", "minimum": 1, "maximum": 10_080 });
            let list = json!({ "type": "array", "items": minutes, "minItems": 1, "maxItems": REPAIR_WINDOWS_MAX });
            json!({ "anyOf": [list, minutes, { "type": "string", "pattern": r"^[1-9][0-9]{0,3}(,[1-9][0-9]{0,3}){0,7}$" }] })
        }
        Setting::GroupLeast => {
            or_text(json!({ "type": "integer", "minimum": 2, "maximum": 1_000_000 }), "^[1-9][0-9]$")
        }
        Setting::ObserveSeconds => {
            or_text(json!({ "type": "integer", "minimum": 0, "maximum": 86_400 }), "^[0-9]{1,4}$")
        }
        Setting::StaleAfterHours | Setting::FinishedCountHours => {
            or_text(json!({ "type": "integer", "minimum": 0, "maximum": REPAIR_HOURS_MAX }), "^[0-9]{1,3}$")
        }
        Setting::PowerDomainLabel | Setting::VersionLabel => json!({ "type": "string", "pattern": WORD }),
    }
}

/// The table of what people may write, as a schema. Null is as good as absent.
fn object(of: &Object) -> Value {
    let nullable = |field: &Field| {
        let schema = shape(&field.shape);
        let or_null = match field.presence {
            Presence::Required => schema,
            Presence::Optional | Presence::OrEmpty => json!({ "anyOf": [schema, { "type": "null" }] }),
        };
        (field.name.to_owned(), or_null)
    };
    let properties: Map<String, Value> = of.fields().map(nullable).collect();
    let required: Vec<&str> =
        of.fields().filter(|field| field.presence == Presence::Required).map(|field| field.name).collect();
    json!({
        "type": "object", "description": of.text, "properties": properties, "required": required,
        "additionalProperties": of.open,
    })
}

fn shape(of: &Shape) -> Value {
    match of {
        Shape::Text(rule) => json!({ "type": "string", "minLength": i32::from(!(rule.accepts)("")) }),
        Shape::Word(words) => json!({ "type": "string", "enum": words }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Integer { min, max } => json!({ "type": "integer", "minimum": min, "maximum": max }),
        Shape::List { of, min, max } => {
            json!({ "type": "array", "items": shape(of), "minItems": min, "maxItems": max })
        }
        Shape::Map { value, .. } => json!({ "type": "object", "additionalProperties": shape(value) }),
        Shape::Object(inner) => object(inner),
        Shape::Any => json!({}),
    }
}

/// Named inputs whose fields are bounded by rules.
fn inputs(schemas: &mut Value) {
    machine(schemas);
    let ipv4 = json!({ "type": "string", "format": "ipv4" });
    let dhcp = &mut schemas["DhcpConfigJson"];
    let number = |max: u32| json!({ "type": ["integer", "null"], "minimum": 0, "maximum": max, "default": 0 });
    refine(dhcp, "lease-minutes", number(LEASE_MINUTES_MAX));
    refine(dhcp, "gateway-offset", number(u32::MAX));
    refine(dhcp, "dns-servers", json!({ "items": ipv4, "maxItems": DNS_SERVERS_MAX }));
    dhcp["type"] = json!(["object", "null"]);
    let ipam = &mut schemas["IpamConfigJson"];
    for (name, min, max) in [
        ("max-nodes-in-rack", 1, u32::MAX),
        ("node-index-offset", 1, u32::MAX),
        ("node-ip-per-node", 1, 64),
        ("node-ipv4-range-size", 1, 31),
        ("bmc-ipv4-range-size", 1, 31),
        ("node-ipv4-range-mask", 8, 32),
        ("bmc-ipv4-range-mask", 8, 32),
        ("node-gateway-offset", 1, u32::MAX),
        ("bmc-ipv4-gateway-offset", 1, u32::MAX),
    ] {
        refine(ipam, name, json!({ "minimum": min, "maximum": max }));
    }
    for pool in ["node-ipv4-pool", "bmc-ipv4-pool"] {
        refine(ipam, pool, json!({ "pattern": NETWORK }));
    }
    for offset in ["node-ipv4-offset", "bmc-ipv4-offset"] {
        refine(ipam, offset, json!({ "format": "ipv4" }));
    }
    ipam["required"] = json!([
        "max-nodes-in-rack",
        "node-ipv4-pool",
        "node-ipv4-range-size",
        "node-ipv4-range-mask",
        "node-ip-per-node",
        "node-index-offset",
        "bmc-ipv4-pool",
        "bmc-ipv4-range-size",
        "bmc-ipv4-range-mask",
    ]);
    let token = &mut schemas["TokenRequest"];
    refine(token, "name", json!({ "minLength": 1, "maxLength": 63, "pattern": r"^[^\x00-\x1f\x7f-\x9f]+$" }));
    refine(token, "role", json!({ "enum": ["admin", "operator", "machine", "read"] }));
    token["properties"]["serial"] = json!({ "anyOf": [serial(), { "type": "null" }] });
    token["required"] = json!(["name", "role"]);
    let repair = &mut schemas["NewRepairJson"];
    for name in ["operation", "machine_type"] {
        refine(repair, name, json!({ "minLength": 1 }));
    }
    refine(repair, "address", json!({ "format": "ipv4" }));
    let or_null = json!({ "anyOf": [serial(), { "type": "null" }] });
    repair["properties"]["serial"] = or_null;
    repair["additionalProperties"] = json!(false);
    let reboots = &mut schemas["NewRebootsJson"];
    refine(reboots, "nodes", json!({ "items": ipv4, "minItems": 1, "maxItems": 100 }));
    reboots["additionalProperties"] = json!(false);
    let acknowledge = &mut schemas["AcknowledgeJson"];
    refine(acknowledge, "reason", json!({ "type": ["string", "null"], "maxLength": 500 }));
    acknowledge["additionalProperties"] = json!(false);
}

/// A machine to register, in either form, or one level deeper. Beside `spec` everything is ignored, as long as it can be read.
fn machine(schemas: &mut Value) {
    let beside = schemas["MachineInput"].clone();
    let mut spec = beside.clone();
    let word = json!({ "type": "string", "pattern": WORD });
    let value = json!({ "type": "string", "pattern": VALUE });
    let controller = json!({ "$ref": "#/components/schemas/BmcInput" });
    spec["properties"]["serial"] = serial();
    refine(&mut spec, "serial", json!({ "example": "1234abcd" }));
    spec["properties"]["role"] = json!({ "type": "string", "pattern": WORD, "example": "worker" });
    for name in ["product", "datacenter"] {
        spec["properties"][name] = json!({ "type": ["string", "null"], "pattern": VALUE });
    }
    let labels = json!({ "additionalProperties": value, "propertyNames": word, "maxProperties": LABELS_MAX - 2 });
    refine(&mut spec, "labels", labels);
    refine(&mut spec, "retire-date", json!({ "pattern": TIME }));
    refine(&mut spec, "rack", json!({ "example": 0 }));
    spec["properties"]["bmc"] = json!({ "anyOf": [controller, { "type": "null" }], "example": { "type": "iDRAC-9" } });
    spec["properties"]["spec"] = json!({ "type": "null" });
    let modern = json!({ "required": ["serial", "role", "bmc"], "properties": { "bmc": controller } });
    let oldest =
        |name: &str| json!({ "required": ["serial", "role", name], "properties": { name: { "type": "string" } } });
    spec["anyOf"] = json!([modern, oldest("product"), oldest("datacenter")]);
    let this = json!({ "$ref": "#/components/schemas/MachineSpecInput" });
    let mut deeper = beside;
    deeper["required"] = json!(["spec"]);
    deeper["properties"]["spec"] = this.clone();
    deeper["properties"]["bmc"] =
        json!({ "type": ["object", "null"], "properties": { "type": { "type": ["string", "null"] } } });
    schemas["MachineInput"] = json!({ "description": spec["description"], "anyOf": [this, deeper] });
    schemas["MachineSpecInput"] = spec;
    let controller = &mut schemas["BmcInput"];
    let pattern = "^[A-Za-z0-9/._-]+$";
    let kind = json!({ "type": "string", "minLength": 1, "maxLength": BMC_TYPE_BYTES_MAX, "pattern": pattern });
    refine(controller, "type", kind);
    controller["required"] = json!(["type"]);
}

/// Adds to what is said about a property.
fn refine(schema: &mut Value, property: &str, more: Value) {
    let (Some(known), Value::Object(more)) = (schema["properties"][property].as_object_mut(), more) else { return };
    if known.get("default").is_some_and(Value::is_null) {
        known.remove("default");
    }
    known.extend(more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_says_what_it_may_answer() {
        let document = super::super::document();
        let mut operations = 0;
        for (path, item) in document["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("operations") {
                if !path.starts_with("/api/v1/") {
                    continue;
                }
                operations += 1;
                let mut expected = vec!["400", "401", "403", "500", "503"];
                if operation.get("requestBody").is_some() {
                    expected.extend(["408", "413"]);
                }
                for status in expected {
                    assert!(operation["responses"].get(status).is_some(), "{method} {path} {status}");
                }
            }
        }
        assert!(operations > 60, "{operations}");
    }

    #[test]
    fn unsigned_numbers_end_where_they_end() {
        let mut document =
            json!([{ "format": "int32", "minimum": 0 }, { "format": "int64", "minimum": 0, "maximum": 7 }]);
        unsigned(&mut document);
        assert_eq!(document, json!([{ "minimum": 0, "maximum": 4_294_967_295_u32 }, { "minimum": 0, "maximum": 7 }]));
    }
}
