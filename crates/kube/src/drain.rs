//! What it takes to empty a Node: keeping new pods away, finding those that are there, and making them leave.

use std::collections::BTreeSet;

use kube::core::{
    Request,
    params::{DeleteParams, GetParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
    request::Error as RequestError,
};
use sabakan_domain::repair::drain::LivePod;
use sabakan_drivers::kubernetes::{Evicted, KubernetesError};

use crate::{
    FIELD_MANAGER, Kube, NODES,
    failure::{self, Failure},
    limits,
    list::{Kind, field_value},
    node,
    pod::{self, RawNamespace, RawPod},
};

const PODS: Kind = Kind { name: "pods", path: "/api/v1/pods", max: limits::NODE_PODS_MAX };
const NAMESPACES: Kind = Kind { name: "namespaces", path: "/api/v1/namespaces", max: limits::NAMESPACES_MAX };

pub async fn cordon(kube: &Kube, name: String) -> Result<(), KubernetesError> {
    let is_there = mark(kube, &format!("cordon node {name}"), &name, true).await?;
    is_there.then_some(()).ok_or_else(|| KubernetesError::Conflict(format!("there is no Node {name}")))
}

pub async fn uncordon(kube: &Kube, name: String) -> Result<(), KubernetesError> {
    mark(kube, &format!("uncordon node {name}"), &name, false).await.map(drop)
}

/// Whether there is such a Node.
async fn mark(kube: &Kube, what: &str, name: &str, is_on: bool) -> Result<bool, KubernetesError> {
    let patch = Patch::Merge(node::cordon_document(is_on));
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let request = Request::new(NODES.path).patch(name, &params, &patch);
    match kube.send(what, request.map_err(|error| failure::request(what, &error))?).await {
        Ok(_) => Ok(true),
        Err(Failure::NotFound) => Ok(false),
        Err(failure) => Err(failure.into()),
    }
}

pub async fn pods(kube: &Kube, node: String) -> Result<Vec<LivePod>, KubernetesError> {
    if node.is_empty() {
        // Pods that nobody has found a node for yet have this name.
        let reason = "a node has a name".to_owned();
        return Err(KubernetesError::Rejected { what: "list pods of a node".to_owned(), reason });
    }
    let params = ListParams::default().fields(&format!("spec.nodeName={}", field_value(&node)));
    let (pods, _) = kube.list_all::<RawPod>(PODS, &params).await?;
    Ok(pods.into_iter().map(LivePod::from).collect())
}

pub async fn namespaces(kube: &Kube, selector: String) -> Result<BTreeSet<String>, KubernetesError> {
    let params = ListParams::default().labels(&selector);
    let (namespaces, _) = kube.list_all::<RawNamespace>(NAMESPACES, &params).await?;
    Ok(namespaces.into_iter().map(RawNamespace::name).collect())
}

pub async fn evict(kube: &Kube, pod: LivePod, dry_run: bool) -> Result<Evicted, KubernetesError> {
    let what = &format!("evict pod {pod}");
    let request = eviction(&pod, dry_run).map_err(|error| failure::request(what, &error))?;
    let sent = kube.send(what, request).await;
    match sent {
        Ok(_) => Ok(Evicted::Done),
        Err(Failure::NotFound) => Ok(Evicted::Gone),
        Err(Failure::Budget(words)) => Ok(Evicted::Refused(words)),
        Err(Failure::Other(conflict @ KubernetesError::Conflict(_))) => {
            if is_there(kube, &pod).await? {
                Err(conflict)
            } else {
                Ok(Evicted::Gone)
            }
        }
        Err(failure) => Err(failure.into()),
    }
}

/// A dry run is said twice: hooks of the API server look at the request, and not into the document.
fn eviction(pod: &LivePod, dry_run: bool) -> Result<http::Request<Vec<u8>>, RequestError> {
    let params = PostParams { dry_run, field_manager: None };
    let body = pod::eviction(pod, dry_run).to_string().into_bytes();
    pods_of(pod).create_subresource("eviction", &pod.name, &params, body)
}

pub async fn delete_pod(kube: &Kube, pod: LivePod) -> Result<(), KubernetesError> {
    let what = &format!("delete pod {pod}");
    let preconditions = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    let request = pods_of(&pod).delete(&pod.name, &params);
    let sent = kube.send(what, request.map_err(|error| failure::request(what, &error))?).await;
    match sent {
        Ok(_) | Err(Failure::NotFound) => Ok(()),
        Err(Failure::Other(conflict @ KubernetesError::Conflict(_))) => {
            if is_there(kube, &pod).await? {
                Err(conflict)
            } else {
                Ok(())
            }
        }
        Err(failure) => Err(failure.into()),
    }
}

/// Whether it was this very pod that something was in conflict with. The answer to the conflict says so in words only; another pod of
/// its name means that this one is gone, and anything else that it is not.
async fn is_there(kube: &Kube, pod: &LivePod) -> Result<bool, KubernetesError> {
    let what = &format!("read pod {pod}");
    let request = pods_of(pod).get(&pod.name, &GetParams::default());
    match kube.send(what, request.map_err(|error| failure::request(what, &error))?).await {
        Ok(text) => Ok(pod::read(&text).map_err(|error| failure::answer(what, &error))?.uid == pod.uid),
        Err(Failure::NotFound) => Ok(false),
        Err(failure) => Err(failure.into()),
    }
}

fn pods_of(pod: &LivePod) -> Request {
    Request::new(format!("{}/{}/pods", NAMESPACES.path, pod.namespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dry_run_says_so_where_the_request_is_read() {
        let pod = LivePod { namespace: "prod".to_owned(), name: "db-0".to_owned(), ..LivePod::default() };
        let asked = |dry_run| eviction(&pod, dry_run).unwrap().uri().to_string();
        assert_eq!(asked(false).trim_end_matches('?'), "/api/v1/namespaces/prod/pods/db-0/eviction");
        assert_eq!(asked(true), "/api/v1/namespaces/prod/pods/db-0/eviction?&dryRun=All");
    }
}
