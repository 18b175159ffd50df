//! How a node is emptied: what becomes of each pod on it, and when it is empty.
//!
//! A pod is evicted, which asks its disruption budget; only where the rules allow is one deleted. Who asks Kubernetes, how often and when
//! to give up is decided by whoever carries this out.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use super::procedure::DrainRules;
use crate::{
    cluster::{attributes::REBOOT_ANNOTATION, live_node::LiveNode},
    limits,
};

/// A pod on a node, as far as we look at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LivePod {
    /// Where it belongs.
    pub namespace: String,
    /// Its name there.
    pub name: String,
    /// Tells it from another pod that had or will have this name, as the pods of stateful sets do.
    pub uid: String,
    /// The kind of whoever controls it and would make another, such as `ReplicaSet`.
    pub owner: Option<String>,
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// It was told to go and is still there.
    pub terminating: bool,
}

/// Names the pod to an operator.
impl fmt::Display for LivePod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The namespaces whose pods are never deleted by force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protected {
    /// Every one.
    All,
    /// These.
    Only(BTreeSet<String>),
}

impl Protected {
    /// Whether this namespace is one of them.
    pub fn holds(&self, namespace: &str) -> bool {
        match self {
            Protected::All => true,
            Protected::Only(names) => names.contains(namespace),
        }
    }
}

/// What becomes of a pod when its node is emptied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// It may stay: it is finished, would come back at once, or has not begun.
    Ignore,
    /// It is at work that must not be interrupted: the node cannot be emptied now.
    JobRuns,
    /// It is at work that may be begun anew elsewhere: deleted, since a job has no disruption budget to ask.
    DeleteJobPod,
    /// It is asked to leave, as far as its disruption budget allows.
    Evict,
}

/// What becomes of a pod.
pub fn treat(pod: &LivePod, rules: &DrainRules) -> Treatment {
    match pod.owner.as_deref() {
        // A daemon set tolerates a node that takes no pods and would put its pod there again. A pod that belongs to the Node itself is
        // the image of a file the kubelet reads: whatever is done to the image, the kubelet goes on and shows another.
        Some("DaemonSet" | "Node") => Treatment::Ignore,
        Some("Job") => match pod.phase.as_str() {
            "Pending" | "Succeeded" | "Failed" => Treatment::Ignore,
            _ if rules.protected_job_pods.as_ref().is_none_or(|protected| protected.matches(&pod.labels)) => {
                Treatment::JobRuns
            }
            _ => Treatment::DeleteJobPod,
        },
        _ => Treatment::Evict,
    }
}

/// Whether a pod keeps its node from being empty. One that was told to go still does until it is gone: its volumes are in use.
pub fn is_left(pod: &LivePod, rules: &DrainRules) -> bool {
    treat(pod, rules) != Treatment::Ignore
}

/// Why a node is not empty, or cannot be emptied now. For operators.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// A job is at work.
    #[error(
        "pod {pod} of a job is running; it may finish, or be left out of `protected_job_pods` of the cluster template"
    )]
    JobRuns {
        /// Its pod.
        pod: String,
    },
    /// Kubernetes does not let a pod go.
    #[error("pod {pod} may not be evicted: {reason}")]
    Refused {
        /// The pod.
        pod: String,
        /// What Kubernetes said.
        reason: String,
    },
    /// Pods were told to go and have not gone.
    #[error("{count} of its pods are still there: {named}")]
    Left {
        /// How many.
        count: usize,
        /// The first of them, and how they are.
        named: String,
    },
}

impl Obstacle {
    /// A job is at work in this pod.
    pub fn job_runs(pod: &LivePod) -> Obstacle {
        Obstacle::JobRuns { pod: pod.to_string() }
    }

    /// Kubernetes did not let this pod go, in its words.
    pub fn refused(pod: &LivePod, reason: &str) -> Obstacle {
        Obstacle::Refused { pod: pod.to_string(), reason: reason.to_owned() }
    }

    /// What keeps a node with these pods from being empty; `None`: it is empty.
    pub fn left(pods: &[LivePod], rules: &DrainRules) -> Option<Obstacle> {
        let left: Vec<&LivePod> = pods.iter().filter(|pod| is_left(pod, rules)).collect();
        let named = left.iter().take(limits::DRAIN_NAMED_PODS_MAX);
        let mut named: Vec<String> =
            named.map(|pod| if pod.terminating { format!("{pod} (terminating)") } else { pod.to_string() }).collect();
        if left.len() > named.len() {
            named.push("…".to_owned());
        }
        (!left.is_empty()).then(|| Obstacle::Left { count: left.len(), named: named.join(", ") })
    }
}

/// Who keeps new pods away from a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cordon {
    /// Nobody.
    Open,
    /// Whoever repairs or reboots nodes of this cluster, and so is to let them back in.
    Ours,
    /// Somebody else, whose decision it stays.
    Theirs,
}

/// Who keeps new pods away from a node.
pub fn cordon(node: &LiveNode) -> Cordon {
    match (node.cordoned, node.annotations.get(REBOOT_ANNOTATION).map(String::as_str)) {
        (false, _) => Cordon::Open,
        (true, Some("true")) => Cordon::Ours,
        (true, _) => Cordon::Theirs,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules(protected_job_pods: &Value) -> DrainRules {
        let members = json!({ "protected_job_pods": protected_job_pods });
        DrainRules::of(members.as_object().expect("an object"))
    }

    fn pod(owner: &str, phase: &str, labels: &[(&str, &str)]) -> LivePod {
        LivePod {
            namespace: "default".to_owned(),
            name: "web-1".to_owned(),
            owner: (!owner.is_empty()).then(|| owner.to_owned()),
            phase: phase.to_owned(),
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..LivePod::default()
        }
    }

    #[test]
    fn owners_and_phases() {
        use Treatment::{DeleteJobPod, Evict, Ignore, JobRuns};
        let (all, none) = (json!(null), json!({ "matchLabels": { "keep": "yes" } }));
        for (protected, owner, phase, labels, expected) in [
            (&all, "DaemonSet", "Running", &[][..], Ignore),
            (&all, "Node", "Running", &[], Ignore),
            (&all, "Job", "Pending", &[], Ignore),
            (&all, "Job", "Succeeded", &[], Ignore),
            (&all, "Job", "Failed", &[], Ignore),
            (&all, "Job", "Running", &[], JobRuns),
            (&all, "Job", "Unknown", &[], JobRuns),
            (&all, "Job", "", &[], JobRuns),
            (&json!({}), "Job", "Running", &[], JobRuns),
            (&json!({ "matchLabels": {} }), "Job", "Running", &[], JobRuns),
            (&json!({ "matchLabels": 1 }), "Job", "Running", &[], JobRuns),
            (&none, "Job", "Running", &[], DeleteJobPod),
            (&none, "Job", "Running", &[("keep", "no")], DeleteJobPod),
            (&none, "Job", "Running", &[("keep", "yes")], JobRuns),
            (&none, "Job", "Succeeded", &[("keep", "yes")], Ignore),
            (&all, "ReplicaSet", "Running", &[], Evict),
            (&all, "ReplicaSet", "Pending", &[], Evict),
            (&all, "ReplicaSet", "Failed", &[], Evict),
            (&all, "StatefulSet", "Running", &[], Evict),
            (&all, "job", "Succeeded", &[], Evict),
            (&all, "", "Running", &[], Evict),
            (&all, "", "Succeeded", &[], Evict),
        ] {
            let pod = pod(owner, phase, labels);
            let rules = rules(protected);
            assert_eq!(treat(&pod, &rules), expected, "{protected} {owner} {phase} {labels:?}");
            let terminating = LivePod { terminating: true, ..pod };
            assert_eq!(is_left(&terminating, &rules), expected != Ignore, "{protected} {owner} {phase} {labels:?}");
        }
    }

    #[test]
    fn protected_namespaces() {
        assert!(Protected::All.holds("default"));
        let only = Protected::Only(BTreeSet::from(["prod".to_owned()]));
        assert!(only.holds("prod") && !only.holds("production") && !only.holds(""));
        assert!(!Protected::Only(BTreeSet::new()).holds("prod"), "a selector that selects nothing protects nothing");
    }

    #[test]
    fn what_is_left_is_named() {
        let rules = rules(&Value::Null);
        let (daemon, job) = (pod("DaemonSet", "Running", &[]), pod("Job", "Succeeded", &[]));
        assert_eq!(Obstacle::left(&[daemon.clone(), job], &rules), None);
        let going = LivePod { terminating: true, ..pod("ReplicaSet", "Running", &[]) };
        let staying = LivePod { name: "db-0".to_owned(), ..pod("", "Running", &[]) };
        let left = Obstacle::left(&[daemon, going.clone(), staying.clone()], &rules).expect("two are left");
        assert_eq!(left.to_string(), "2 of its pods are still there: default/web-1 (terminating), default/db-0");
        let many = vec![staying.clone(); limits::DRAIN_NAMED_PODS_MAX + 1];
        let text = Obstacle::left(&many, &rules).expect("many are left").to_string();
        assert!(text.ends_with("default/db-0, …"), "{text}");
        assert_eq!(text.matches("db-0").count(), limits::DRAIN_NAMED_PODS_MAX);
        assert!(Obstacle::job_runs(&staying).to_string().contains("default/db-0"));
        let refused = Obstacle::refused(&going, "its budget needs 3 pods").to_string();
        assert_eq!(refused, "pod default/web-1 may not be evicted: its budget needs 3 pods");
    }

    #[test]
    fn whose_cordon_it_is() {
        for (cordoned, annotation, expected) in [
            (false, None, Cordon::Open),
            (false, Some("true"), Cordon::Open),
            (true, None, Cordon::Theirs),
            (true, Some("false"), Cordon::Theirs),
            (true, Some("true"), Cordon::Ours),
        ] {
            let annotations =
                annotation.map(|value| (REBOOT_ANNOTATION.to_owned(), value.to_owned())).into_iter().collect();
            let node = LiveNode { cordoned, annotations, ..LiveNode::default() };
            assert_eq!(cordon(&node), expected, "{cordoned} {annotation:?}");
        }
    }
}
