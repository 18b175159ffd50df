//! What becomes of Nodes, as it happens, and when kubelets were last heard of.

use std::collections::BTreeMap;

use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::{
    client::Body,
    core::{
        Request, Status,
        params::{ListParams, WatchParams},
    },
};
use sabakan_domain::cluster::live_node::LiveNode;
use sabakan_drivers::kubernetes::{KubernetesError, KubernetesFuture, NodeEvent, NodeEvents};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    Kube, NODES,
    failure::{self, Failure},
    limits,
    list::Kind,
    node::RawNode,
};

const WHAT: &str = "watch nodes";

const LEASES: Kind = Kind {
    name: "leases",
    path: "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
    max: limits::LEASES_MAX,
};

pub async fn watch(kube: &Kube, after: String) -> Result<Box<dyn NodeEvents>, KubernetesError> {
    let params = WatchParams { timeout: Some(limits::WATCH_SECONDS), bookmarks: true, ..WatchParams::default() };
    let request = Request::new(NODES.path).watch(&params, &after).map_err(|error| failure::request(WHAT, &error))?;
    let client = kube.client().await?;
    let answer = tokio::time::timeout(limits::CALL_MAX, client.send(request.map(Body::from))).await;
    let answer = match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(kube.failed(failure::of(WHAT, &error)).into()),
        Err(_) => return Err(failure::late().into()),
    };
    let (parts, body) = answer.into_parts();
    if parts.status.is_success() {
        return Ok(Box::new(Events { body, buffer: Vec::new() }));
    }
    let body = tokio::time::timeout(limits::CALL_MAX, body.collect()).await;
    let text = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
    let status = serde_json::from_slice::<Status>(&text).unwrap_or_default();
    let status = Status { code: parts.status.as_u16(), ..status };
    Err(over(kube.failed(failure::of_status(WHAT, &status))))
}

/// A moment that is forgotten is a reason to read everything again, and no fault of anybody.
fn over(failure: Failure) -> KubernetesError {
    match failure {
        Failure::Expired => KubernetesError::Conflict("the moment to go on from is forgotten".to_owned()),
        failure => failure.into(),
    }
}

/// Events, one in each line.
struct Events {
    body: Body,
    buffer: Vec<u8>,
}

impl NodeEvents for Events {
    fn next(&mut self) -> KubernetesFuture<'_, Option<NodeEvent>> {
        Box::pin(async move {
            loop {
                if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = self.buffer.drain(..=end).collect();
                    if let Some(event) = read(&line)? {
                        return Ok(Some(event));
                    }
                    continue;
                }
                if self.buffer.len() > limits::EVENT_BYTES_MAX {
                    let reason = format!("an event is longer than {} bytes", limits::EVENT_BYTES_MAX);
                    return Err(KubernetesError::Protocol { what: WHAT.to_owned(), reason });
                }
                match self.body.frame().await {
                    None => return Ok(None),
                    Some(Ok(frame)) => self.buffer.extend_from_slice(frame.data_ref().map_or(&[], |data| data)),
                    Some(Err(error)) => return Err(failure::of(WHAT, &error).into()),
                }
            }
        })
    }
}

#[derive(Deserialize)]
struct RawEvent<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct RawMark {
    metadata: RawMarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMarkMeta {
    #[serde(default)]
    name: String,
    resource_version: String,
}

/// Reads an event; `None`: one of a kind that we do not know.
fn read(line: &[u8]) -> Result<Option<NodeEvent>, KubernetesError> {
    let wrong = |error: serde_json::Error| KubernetesError::from(failure::answer(WHAT, &error));
    let RawEvent { kind, object } = serde_json::from_slice(line).map_err(wrong)?;
    let mark = || serde_json::from_str::<RawMark>(object.get()).map(|mark| mark.metadata).map_err(wrong);
    Ok(match kind.as_str() {
        "ADDED" | "MODIFIED" => {
            let node: RawNode = serde_json::from_str(object.get()).map_err(wrong)?;
            Some(NodeEvent::Present(Box::new(LiveNode::from(node))))
        }
        "DELETED" => {
            let RawMarkMeta { name, resource_version: moment } = mark()?;
            Some(NodeEvent::Gone { name, moment })
        }
        "BOOKMARK" => Some(NodeEvent::Nothing { moment: mark()?.resource_version }),
        "ERROR" => {
            let status: Status = serde_json::from_str(object.get()).map_err(wrong)?;
            return Err(over(failure::of_status(WHAT, &status)));
        }
        _ => None,
    })
}

#[derive(Deserialize)]
struct RawLease {
    metadata: RawLeaseMeta,
    spec: Option<RawLeaseSpec>,
}

#[derive(Deserialize)]
struct RawLeaseMeta {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawLeaseSpec {
    renew_time: Option<String>,
}

pub async fn leases(kube: &Kube) -> Result<BTreeMap<String, Timestamp>, KubernetesError> {
    let (leases, _) = kube.list_all::<RawLease>(LEASES, &ListParams::default()).await?;
    let renewed = |lease: RawLease| Some((lease.metadata.name, lease.spec?.renew_time?.parse().ok()?));
    Ok(leases.into_iter().filter_map(renewed).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events() {
        let line = |kind: &str, object: serde_json::Value| json!({ "type": kind, "object": object }).to_string();
        let node = json!({ "metadata": { "name": "n", "uid": "u", "resourceVersion": "7" }, "spec": {}, "status": {} });
        let present = |event: Option<NodeEvent>| match event {
            Some(NodeEvent::Present(node)) => (node.name, node.resource_version),
            other => panic!("{other:?}"),
        };
        for kind in ["ADDED", "MODIFIED"] {
            assert_eq!(present(read(line(kind, node.clone()).as_bytes()).unwrap()), ("n".to_owned(), "7".to_owned()));
        }
        let gone = read(line("DELETED", node).as_bytes()).unwrap();
        assert_eq!(gone, Some(NodeEvent::Gone { name: "n".to_owned(), moment: "7".to_owned() }));
        let mark = json!({ "kind": "Node", "metadata": { "resourceVersion": "9" } });
        let nothing = read(line("BOOKMARK", mark).as_bytes()).unwrap();
        assert_eq!(nothing, Some(NodeEvent::Nothing { moment: "9".to_owned() }));
        assert_eq!(read(line("LATER", json!({})).as_bytes()), Ok(None));
    }

    #[test]
    fn a_watch_that_cannot_go_on_says_why() {
        let error = |code: u16| {
            let object = json!({ "kind": "Status", "status": "Failure", "code": code, "message": "too old" });
            read(json!({ "type": "ERROR", "object": object }).to_string().as_bytes()).unwrap_err()
        };
        assert!(matches!(error(410), KubernetesError::Conflict(_)));
        assert!(matches!(error(500), KubernetesError::Failed { .. }));
        for text in ["", "{}", "not JSON", r#"{"type":"ADDED","object":{}}"#, r#"{"type":"BOOKMARK","object":{}}"#] {
            assert!(matches!(read(text.as_bytes()), Err(KubernetesError::Protocol { .. })), "{text}");
        }
    }
}
