//! Recorded traffic between stock clients and the original service, sent to this one: each answer must have the same status, the
//! same headers that matter and a body of the same shape. What differs on purpose stands in [`DIFFERENCES`], with its reason.
//!
//! The recordings are cut down to what is compared: lists to their first item, refusals to their status. Where the original waited
//! for a node to settle, so does this. Left out are a request in which the original refuses an owner to administrators of a project,
//! because here are no projects; and in `allocations` the wish for a node whose power nobody knows, because here it is known as soon
//! as its credentials are proved.

use std::collections::BTreeMap;

use sabakan_testkit::{Backend, rack::Rack, wait_for};
use serde_json::{Map, Value};

use super::Api;

/// Scenario, request, and what this server answers instead; and why.
const DIFFERENCES: &[(&str, &str, u16, &str)] = &[
    ("errors-bad-input", "POST /v1/nodes \"{not json\"", 400, "the original fails with 500"),
    ("errors-bad-input", "PATCH /v1/nodes/bi-1 \"notjson\"", 400, "the original fails with 500"),
    ("errors-bad-input", "POST /v1/nodes/bi-again", 405, "the original takes the path for a body"),
    ("errors-bad-input", "GET /v1/nodes accept", 200, "whatever is accepted, JSON is what there is"),
    ("errors-bad-input", "PATCH /v1/nodes/11111111-0014-4000-8000-000000000001", 200, "~1 is an escape since 1.98"),
    ("errors-bad-input", "GET /v1/nodes/bi-again", 200, "follows from the one before"),
    (
        "node-list-queries",
        "GET /v1/nodes/ fields=name,conductor&conductor=conductor-1",
        200,
        "the original fails with 500",
    ),
    ("node-show", "GET /v1/nodes/s-1.json", 404, "the original fails with 500"),
    ("node-show", "GET /v1/nodes/s-1/nosuch", 404, "the original takes the path for a field"),
    ("version-negotiation", "HEAD /v1/nodes", 200, "HEAD is GET without a body, as everywhere"),
    ("version-negotiation", "OPTIONS /v1/nodes", 405, "nobody asks"),
    ("old-microversions", "GET /v1/nodes/om-1/traits 1.30", 404, "a sub-resource that came later is not there"),
    (
        "ports",
        "PATCH /v1/ports/66666666-0001-4000-8000-000000000002 [{\"op\":\"add\",\"path\":\"/node_uuid\"",
        400,
        "the original fails with 500",
    ),
    ("ports", "GET /v1/nodes/po-1/ports", 200, "the original looks for a port group instead"),
    (
        "boot-console-misc",
        "PUT /v1/nodes/b-1/management/boot_device {\"boot_device\":\"disk\"",
        204,
        "simulated machines can start from their disk",
    ),
    ("shards-parents", "PATCH /v1/nodes/sp-other [{", 200, "every server serves every group"),
];

/// Lists whose length is compared.
const LISTS: &[&str] = &[
    "nodes",
    "conductors",
    "traits",
    "ports",
    "portgroups",
    "chassis",
    "allocations",
    "shards",
    "deploy_templates",
    "runbooks",
];

/// Members the original shows that are not shown here.
const ABSENT: &[(&str, &str)] = &[
    ("/v1/conductors", "created_at: a server that does not live is forgotten, and one that lives has no history"),
    ("/v1/conductors", "updated_at"),
    ("/v1", "inspection_rules"),
    ("/v1/portgroups/detail", "physical_network: newer than the version of the request, as are the next two"),
    ("/v1/portgroups/detail", "category"),
    ("/v1/portgroups/detail", "dynamic_portgroup"),
    ("/v1/drivers/fake-hardware/properties", "B1"),
    ("/v1/drivers/fake-hardware/properties", "B2"),
];

#[test]
fn recorded_requests_get_the_answers_of_the_original() {
    let scenarios = [
        ("version-negotiation", include_str!("transcripts/version-negotiation.jsonl")),
        ("node-show", include_str!("transcripts/node-show.jsonl")),
        ("node-list-queries", include_str!("transcripts/node-list-queries.jsonl")),
        ("node-traits", include_str!("transcripts/node-traits.jsonl")),
        ("errors-state", include_str!("transcripts/errors-state.jsonl")),
        ("errors-bad-input", include_str!("transcripts/errors-bad-input.jsonl")),
        ("old-microversions", include_str!("transcripts/old-microversions.jsonl")),
        ("lifecycle-basic", include_str!("transcripts/lifecycle-basic.jsonl")),
        ("drivers-conductors", include_str!("transcripts/drivers-conductors.jsonl")),
        ("boot-console-misc", include_str!("transcripts/boot-console-misc.jsonl")),
        ("vendor-passthru", include_str!("transcripts/vendor-passthru.jsonl")),
        ("sdk-node-crud", include_str!("transcripts/sdk-node-crud.jsonl")),
        ("ports", include_str!("transcripts/ports.jsonl")),
        ("sdk-ports", include_str!("transcripts/sdk-ports.jsonl")),
        ("chassis", include_str!("transcripts/chassis.jsonl")),
        ("allocations", include_str!("transcripts/allocations.jsonl")),
        ("sdk-allocations", include_str!("transcripts/sdk-allocations.jsonl")),
        ("shards-parents", include_str!("transcripts/shards-parents.jsonl")),
        ("deploy-templates", include_str!("transcripts/deploy-templates.jsonl")),
        ("runbooks", include_str!("transcripts/runbooks.jsonl")),
    ];
    let problems: Vec<String> = scenarios.into_iter().flat_map(|(name, text)| replay(name, text)).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Everything that is not as it was, or as it is said to be.
fn replay(scenario: &str, text: &str) -> Vec<String> {
    let rack = Rack::start(Backend::Embedded);
    let mut unused: Vec<_> = DIFFERENCES.iter().filter(|(name, ..)| *name == scenario).collect();
    // UUIDs the original made up, and those this server made up in their place.
    let mut ids: BTreeMap<String, String> = BTreeMap::new();
    let mut problems = Vec::new();
    for line in text.lines() {
        // Lists are ordered by when things were made, and on a clock that stands still all were made at once.
        rack.server.clock.advance(jiff::SignedDuration::from_millis(1));
        let recorded: Value = serde_json::from_str(line).expect("JSON");
        let mut line = line.to_owned();
        for (theirs, ours) in &ids {
            line = line.replace(theirs, ours);
        }
        let exchange: Value = serde_json::from_str(&line).expect("JSON");
        let api = client(&rack, &exchange);
        settle(&api, &exchange);
        let (what, expected) = expectation(scenario, &exchange, &mut unused);
        let method = exchange["method"].as_str().expect("a method");
        let query = exchange["query"].as_str().map(|query| format!("?{query}")).unwrap_or_default();
        let path = format!("{}{query}", exchange["path"].as_str().expect("a path"));
        let body = match &exchange["body"] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            json => json.to_string(),
        };
        let answer = api.send(method, &path, &body);
        if answer.status != expected {
            problems.push(format!("{what}: {} instead of {expected}: {}", answer.status, answer.body));
            continue;
        }
        if exchange["location"] == true && answer.header("location").is_none() {
            problems.push(format!("{what}: no location"));
        }
        if exchange["status"] != expected || answer.body.is_empty() || expected >= 400 {
            continue;
        }
        let ours = answer.json();
        if let (Some(theirs), Some(ours)) = (recorded["answer"]["uuid"].as_str(), ours["uuid"].as_str()) {
            ids.insert(theirs.to_owned(), ours.to_owned());
        }
        let list = LISTS.iter().find(|name| path.ends_with(*name) || ours.get(name).is_some());
        if let (Some(count), Some(items)) = (exchange["count"].as_u64(), list.and_then(|name| ours[*name].as_array()))
            && ours.get("uuid").is_none()
            && ours.get("links").is_none()
            && items.len() as u64 != count
        {
            problems.push(format!("{what}: {} items instead of {count}", items.len()));
        }
        compare(&what, exchange["path"].as_str().unwrap_or_default(), &exchange["answer"], &ours, &mut problems);
    }
    problems.extend(unused.iter().map(|(_, what, ..)| format!("{what}: listed, but not different")));
    problems.iter().map(|problem| format!("{scenario}: {problem}")).collect()
}

pub(super) fn client(rack: &Rack, exchange: &Value) -> Api {
    let mut api = Api::of(rack);
    match exchange["version"].as_str() {
        Some(version) => api.set("x-openstack-ironic-api-version", version),
        None => api.headers.clear(),
    }
    api.set("accept", exchange["accept"].as_str().unwrap_or("application/json"));
    api
}

/// What is asked, and the status that is expected.
fn expectation(
    scenario: &str,
    exchange: &Value,
    unused: &mut Vec<&'static (&'static str, &'static str, u16, &'static str)>,
) -> (String, u16) {
    let text = |name: &str| exchange[name].as_str().map(|text| format!(" {text}")).unwrap_or_default();
    let body = if exchange["body"].is_null() { String::new() } else { format!(" {}", exchange["body"]) };
    let accept = if exchange["accept"].is_null() { "" } else { " accept" };
    let what = format!(
        "{}{}{}{}{}",
        exchange["method"].as_str().unwrap_or_default(),
        text("path"),
        text("query"),
        accept,
        body
    );
    let with_version = format!("{}{}", what, text("version"));
    let recorded = u16::try_from(exchange["status"].as_u64().unwrap_or(0)).unwrap_or(0);
    let differs = DIFFERENCES.iter().find(|(name, request, status, _)| {
        *name == scenario && *status != recorded && (what.starts_with(request) || with_version == *request)
    });
    let Some(found) = differs else { return (what, recorded) };
    unused.retain(|listed| listed.1 != found.1);
    (what, found.2)
}

/// Waits until nobody works on the node a request is about, as those who recorded did. A request about allocations is about all.
pub(super) fn settle(api: &Api, exchange: &Value) {
    let path = exchange["path"].as_str().unwrap_or_default();
    let newest = Api::at(api.url.clone(), "latest");
    if let Some(id) = path.strip_prefix("/v1/nodes/").and_then(|rest| rest.split('/').next()) {
        wait_for("the node to settle", sabakan_testkit::rack::WORK_MAX, || {
            let answer = newest.send("GET", &format!("/v1/nodes/{id}"), "");
            (answer.status != 200 || is_settled(&answer.json())).then_some(())
        });
    }
    if path.contains("/allocation") {
        wait_for("everything to settle", sabakan_testkit::rack::WORK_MAX, || {
            let nodes = newest.get("/v1/nodes/detail");
            let wanting = newest.get("/v1/allocations?state=allocating");
            let settled = nodes["nodes"].as_array()?.iter().all(is_settled);
            (settled && wanting["allocations"].as_array()?.is_empty()).then_some(())
        });
    }
}

fn is_settled(node: &Value) -> bool {
    let failed = node["provision_state"].as_str().is_some_and(|state| state.ends_with("failed"));
    let busy = node["target_provision_state"].is_string() && !failed;
    !busy && node["reservation"].is_null() && node["target_power_state"].is_null()
}

/// Objects that have whatever members somebody gave them.
const OPEN: &[&str] = &["driver_info", "driver_internal_info", "properties", "instance_info", "extra", "network_data"];

/// Whether everything the original shows is shown here, with values of the same kind.
pub(super) fn compare(what: &str, path: &str, theirs: &Value, ours: &Value, problems: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => members(what, path, theirs, ours, problems),
        (Value::Array(theirs), Value::Array(ours)) => {
            if let (Some(theirs), Some(ours)) = (theirs.first(), ours.first()) {
                compare(what, path, theirs, ours, problems);
            }
        }
        // What is null at one moment is a text at another.
        (Value::Null, _) | (_, Value::Null) => {}
        _ if std::mem::discriminant(theirs) == std::mem::discriminant(ours) => {}
        _ => problems.push(format!("{what}: {ours} instead of {theirs}")),
    }
}

fn members(what: &str, path: &str, theirs: &Map<String, Value>, ours: &Map<String, Value>, problems: &mut Vec<String>) {
    for (name, value) in theirs {
        let absent = ABSENT.iter().any(|(below, listed)| {
            path.trim_end_matches('/').starts_with(below) && listed.split(':').next() == Some(name)
        });
        match ours.get(name) {
            _ if absent || OPEN.contains(&name.as_str()) => {}
            Some(other) => compare(what, path, value, other, problems),
            None => problems.push(format!("{what}: no {name}")),
        }
    }
}
