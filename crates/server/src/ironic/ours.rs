//! What clients of the original API do not know: why a node waits, who works on it, how far it is. For one node, and in one answer for
//! all that are not at rest, because whoever looks at a fleet wants to know that of hundreds.

use axum::{
    extract::{Path, RawQuery, State},
    http::StatusCode,
    response::Response,
};
use sabakan_domain::provision::{accept, edges, verbs::Verb};
use sabakan_service::Shown;
use sabakan_wire::ironic::{NodeStatusJson, NodeStatusesJson, Page, WaitingJson};

use super::{
    App,
    call::{Call, json, within},
    error::Fault,
    nodes::{next_page, pairs},
};

/// `GET /v1/nodes/{id}/sabakan`
pub(super) async fn one(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Fault> {
    let shown = within(app.nodes.get(&id)).await.map_err(|fault| fault.about_node(&id))?;
    Ok(json(StatusCode::OK, &status(&shown)))
}

/// `GET /v1/sabakan`
pub(super) async fn under_way(State(app): State<App>, call: Call, query: RawQuery) -> Result<Response, Fault> {
    let mut pairs = pairs(&query);
    let page = Page::take(&mut pairs)?;
    if let Some((other, _)) = pairs.first() {
        return Err(Fault::invalid(format!("Unexpected arguments: {other}")));
    }
    // One more than wanted tells whether there are more.
    let mut found = within(app.nodes.under_way(page.marker.as_deref(), page.limit + 1)).await?;
    let more = found.len() > page.limit;
    found.truncate(page.limit);
    let nodes: Vec<NodeStatusJson> = found.iter().map(status).collect();
    let last = nodes.last().filter(|_| more);
    let next = last.map(|last| next_page(&call, "sabakan", &query, page.limit, &last.name));
    Ok(json(StatusCode::OK, &NodeStatusesJson { nodes, next }))
}

fn status(shown: &Shown) -> NodeStatusJson {
    let waiting = shown.waiting.as_ref().map(|waiting| WaitingJson {
        reason: waiting.reason.clone(),
        since: waiting.since,
        until: waiting.until,
    });
    let mut accepted: Vec<String> = edges::accepted(shown.node.state).map(Verb::as_str).map(str::to_owned).collect();
    let abort = Verb::Abort.as_str();
    if accept::can_take_back(&shown.node) && !accepted.iter().any(|verb| verb == abort) {
        accepted.push(abort.to_owned());
    }
    let machine = shown.machine.as_ref().map(|machine| machine.status.state);
    let worker = shown.lock.as_ref().map(|lock| lock.record.holder.as_str());
    NodeStatusJson::of(&shown.node, machine, worker, waiting, accepted)
}
