//! Has the pods of a node leave. What becomes of each is decided in `sabakan_domain::repair::drain`.

use sabakan_domain::{
    cluster::live_node::LiveNode,
    repair::{
        drain::{Cordon, LivePod, Obstacle, Protected, Treatment, cordon, treat},
        procedure::DrainRules,
    },
};
use sabakan_drivers::kubernetes::{Evicted, Kubernetes, KubernetesError};

/// Why pods do not leave. For operators.
#[derive(Debug, thiserror::Error)]
pub(super) enum DrainError {
    #[error(transparent)]
    Obstacle(#[from] Obstacle),
    #[error(transparent)]
    Kubernetes(#[from] KubernetesError),
    #[error("pods were asked to leave for {0} s, and not all have answered")]
    Late(u64),
    /// Nobody knows what runs on it.
    #[error("Node {0} is gone from Kubernetes since it was found, or another one has its name")]
    Replaced(String),
}

/// Asks whether every protected pod may leave, keeps new pods away, and tells all to go. They have gone when none is shown any more.
pub(super) async fn drain(kubernetes: &dyn Kubernetes, node: &LiveNode, rules: &DrainRules) -> Result<(), DrainError> {
    let (node, uid) = (node.name.as_str(), node.uid.as_str());
    let all = async {
        let protected = match &rules.protected_namespaces {
            None => Protected::All,
            Some(selector) => Protected::Only(kubernetes.namespaces(selector).await?),
        };
        rehearse(kubernetes, &staying(kubernetes, node).await?, &protected, rules).await?;
        let found = kubernetes.find(node).await?.filter(|found| found.uid == uid);
        match cordon(&found.ok_or_else(|| DrainError::Replaced(node.to_owned()))?) {
            Cordon::Open | Cordon::Ours => kubernetes.cordon(node).await?,
            // Somebody else keeps pods away. It stays theirs: with our mark the node would be opened when we are done.
            Cordon::Theirs => {}
        }
        // Others may have come until the node was closed.
        for pod in staying(kubernetes, node).await? {
            send_away(kubernetes, &pod, &protected, rules).await?;
        }
        Ok(())
    };
    let late = |_| DrainError::Late(rules.timeout.as_secs());
    tokio::time::timeout(rules.timeout, all).await.map_err(late)?
}

/// Pods of a node that nobody told to go yet.
async fn staying(kubernetes: &dyn Kubernetes, node: &str) -> Result<Vec<LivePod>, KubernetesError> {
    let mut pods = kubernetes.pods(node).await?;
    pods.retain(|pod| !pod.terminating);
    Ok(pods)
}

/// Finds out what stands in the way before anything is touched.
async fn rehearse(
    kubernetes: &dyn Kubernetes,
    pods: &[LivePod],
    protected: &Protected,
    rules: &DrainRules,
) -> Result<(), DrainError> {
    for pod in pods {
        match treat(pod, rules) {
            Treatment::Ignore | Treatment::DeleteJobPod => {}
            Treatment::JobRuns => return Err(Obstacle::job_runs(pod).into()),
            Treatment::Evict if !protected.holds(&pod.namespace) => {}
            Treatment::Evict => match kubernetes.evict(pod, true).await? {
                Evicted::Done | Evicted::Gone => {}
                Evicted::Refused(reason) => return Err(Obstacle::refused(pod, &reason).into()),
            },
        }
    }
    Ok(())
}

async fn send_away(
    kubernetes: &dyn Kubernetes,
    pod: &LivePod,
    protected: &Protected,
    rules: &DrainRules,
) -> Result<(), DrainError> {
    match treat(pod, rules) {
        Treatment::Ignore => return Ok(()),
        Treatment::JobRuns => return Err(Obstacle::job_runs(pod).into()),
        Treatment::DeleteJobPod => return Ok(kubernetes.delete_pod(pod).await?),
        Treatment::Evict => {}
    }
    for attempt in 0..=rules.evict_retries {
        let reason = match kubernetes.evict(pod, false).await? {
            Evicted::Done | Evicted::Gone => return Ok(()),
            Evicted::Refused(reason) => reason,
        };
        if !protected.holds(&pod.namespace) {
            return Ok(kubernetes.delete_pod(pod).await?);
        }
        if attempt == rules.evict_retries {
            return Err(Obstacle::refused(pod, &reason).into());
        }
        tokio::time::sleep(rules.evict_interval).await;
    }
    Ok(())
}
