//! When a node is gone: its kubelet is silent, and the machine has no power or nobody reaches it. Pods that are told to leave such a node
//! stay *Terminating* for ever, because only the kubelet can say that they ended; waiting for them would keep the machine from ever being
//! repaired.
//!
//! A Node that cannot be found is never proof by itself: looked up wrongly, it may be full of pods.

use std::time::Duration;

use jiff::Timestamp;

use crate::{
    cluster::{
        attributes::Step,
        live_node::{LiveNode, LiveTaint, NodeLost, NodeMatch},
    },
    provision::power::PowerState,
};

/// Tells Kubernetes that a Node has no power, so that volumes are detached and pods are started elsewhere.
pub const OUT_OF_SERVICE_TAINT: &str = "node.kubernetes.io/out-of-service";
/// The annotation of a Node on which we set that taint. Somebody else's is theirs to remove.
pub const OUT_OF_SERVICE_ANNOTATION: &str = "sabakan.cybozu.com/out-of-service";

/// A kubelet renews its lease every ten seconds, and is called silent after forty. One that renewed it within this time works, whatever
/// the conditions of its Node say.
pub const LEASE_FRESH: Duration = Duration::from_secs(60);

/// What is known about a node whose pods shall leave.
#[derive(Debug, Clone, Copy)]
pub struct NodeSigns<'a> {
    /// Its Node.
    pub node: &'a NodeMatch<&'a LiveNode>,
    /// When its kubelet renewed its lease last; `None`: not known.
    pub lease: Option<Timestamp>,
    /// What its controller says about its power; `None`: it says nothing.
    pub power: Option<PowerState>,
    /// For how long the registry has called it unreachable; `None`: it does not.
    pub unreachable: Option<Duration>,
    /// How long its pods may take to leave.
    pub limit: Duration,
    /// Now.
    pub now: Timestamp,
}

/// A node that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeGone {
    /// What proves it, for people.
    pub evidence: String,
    /// Its controller says that it has no power: nothing can run on it.
    pub is_off: bool,
}

impl NodeSigns<'_> {
    /// Whether the node is gone; otherwise why not, for people.
    pub fn judge(&self) -> Result<NodeGone, String> {
        let kubelet = match self.node {
            NodeMatch::Found(node) if node.is_ready() => return Err(format!("Node {} is Ready", node.name)),
            NodeMatch::Found(node) => silence(node),
            NodeMatch::Lost(lost @ NodeLost::Ambiguous { .. }) => return Err(lost.to_string()),
            NodeMatch::Lost(lost @ NodeLost::Missing { .. }) => lost.to_string(),
        };
        let silent = self.lease.map(|at| Duration::try_from(self.now.duration_since(at)).unwrap_or_default());
        if let Some(silent) = silent.filter(|silent| *silent < LEASE_FRESH) {
            return Err(format!("{kubelet}, but its kubelet renewed its lease {} s ago", silent.as_secs()));
        }
        let lease = silent.map_or_else(String::new, |time| format!("; its lease was renewed {} s ago", time.as_secs()));
        if self.power == Some(PowerState::Off) {
            let evidence = format!("{kubelet}{lease}; its controller says that the power is off");
            return Ok(NodeGone { evidence, is_off: true });
        }
        let (limit, unreachable) = (self.limit, self.unreachable.unwrap_or_default());
        if self.unreachable.is_some() && unreachable >= limit && silent.is_none_or(|silent| silent >= limit) {
            let evidence =
                format!("{kubelet}{lease}; the machine has been unreachable for {} s", unreachable.as_secs());
            return Ok(NodeGone { evidence, is_off: false });
        }
        Err(format!(
            "{kubelet}; it counts as gone when its controller says that the power is off, or when the machine has been unreachable for {} s",
            limit.as_secs()
        ))
    }
}

fn silence(node: &LiveNode) -> String {
    match &node.ready {
        None => format!("Node {} has no condition Ready", node.name),
        Some(ready) => {
            let since = ready.since.map_or_else(String::new, |since| format!(" since {since}"));
            format!("Node {} is not Ready ({}){since}", node.name, ready.status)
        }
    }
}

/// The step that marks a Node as out of service; `None`: it carries that taint already, whoever set it.
pub fn out_of_service(node: &LiveNode) -> Option<Step> {
    if node.taints.iter().any(|taint| taint.key == OUT_OF_SERVICE_TAINT) {
        return None;
    }
    let taint = LiveTaint {
        key: OUT_OF_SERVICE_TAINT.to_owned(),
        value: "nodeshutdown".to_owned(),
        effect: "NoExecute".to_owned(),
        time_added: None,
    };
    let list = node.taints.iter().cloned().chain([taint]).collect();
    Some(Step::OutOfService { list, is_on: true })
}

/// The step that takes our mark away from a Node that is back; `None`: it is not ours, or the Node is not back.
///
/// It is back when its kubelet says so after the machine has power again. A kubelet that was silent for a moment only is not: the pods
/// that were declared dead may still run there.
pub fn back_in_service(node: &LiveNode, power: Option<PowerState>) -> Option<Step> {
    let is_ours = node.annotations.contains_key(OUT_OF_SERVICE_ANNOTATION);
    if !is_ours || !node.is_ready() || power == Some(PowerState::Off) {
        return None;
    }
    let list = node.taints.iter().filter(|taint| taint.key != OUT_OF_SERVICE_TAINT).cloned().collect();
    Some(Step::OutOfService { list, is_on: false })
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;
    use crate::cluster::live_node::ReadyCondition;

    fn node(status: Option<&str>) -> LiveNode {
        let ready = status.map(|status| ReadyCondition { status: status.to_owned(), since: None });
        LiveNode { name: "host-5".to_owned(), ready, ..LiveNode::default() }
    }

    const NOW: &str = "2026-01-02T03:00:00Z";

    fn ago(seconds: i64) -> Timestamp {
        NOW.parse::<Timestamp>().expect("a time") - SignedDuration::from_secs(seconds)
    }

    #[test]
    fn only_a_silent_node_without_power_or_reach_is_gone() {
        use PowerState::{Off, On};
        let (limit, short, long) = (600, Some(599), Some(600));
        // Ready, seconds since the lease, power, seconds unreachable, whether it is gone.
        for (ready, lease, power, unreachable, expected) in [
            (Some("True"), None, Some(Off), long, false),
            (Some("True"), Some(9_999), Some(Off), long, false),
            (Some("Unknown"), None, Some(Off), None, true),
            (Some("Unknown"), Some(61), Some(Off), None, true),
            (Some("Unknown"), Some(59), Some(Off), long, false),
            (Some("False"), None, Some(Off), None, true),
            (None, None, Some(Off), None, true),
            (Some("Unknown"), None, Some(On), None, false),
            (Some("Unknown"), None, None, None, false),
            (Some("Unknown"), None, None, short, false),
            (Some("Unknown"), None, None, long, true),
            (Some("Unknown"), None, Some(On), long, true),
            (Some("Unknown"), Some(599), Some(On), long, false),
            (Some("Unknown"), Some(600), Some(On), long, true),
            (Some("Unknown"), Some(-5), Some(On), long, false),
            (Some("False"), Some(10), Some(On), long, false),
        ] {
            let live = node(ready);
            let signs = NodeSigns {
                node: &NodeMatch::Found(&live),
                lease: lease.map(ago),
                power,
                unreachable: unreachable.map(Duration::from_secs),
                limit: Duration::from_secs(limit),
                now: ago(0),
            };
            let told = signs.judge();
            assert_eq!(told.is_ok(), expected, "{ready:?} {lease:?} {power:?} {unreachable:?}: {told:?}");
            if let Ok(gone) = told {
                assert_eq!(gone.is_off, power == Some(Off));
                assert!(gone.evidence.starts_with("Node host-5 "), "{gone:?}");
            }
        }
    }

    #[test]
    fn a_node_that_is_not_found_is_gone_only_with_the_same_proof() {
        let missing = NodeLost::Missing {
            name: "10.0.0.5".to_owned(),
            address: "10.0.0.5".parse().expect("an address"),
            serial: Some("s5".to_owned()),
        };
        let ambiguous = NodeLost::Ambiguous { names: vec!["a".to_owned(), "b".to_owned()] };
        for (lost, power, expected) in [
            (&missing, None, false),
            (&missing, Some(PowerState::On), false),
            (&missing, Some(PowerState::Off), true),
            (&ambiguous, Some(PowerState::Off), false),
        ] {
            let node = NodeMatch::Lost(lost.clone());
            let signs =
                NodeSigns { node: &node, lease: None, power, unreachable: None, limit: LEASE_FRESH, now: ago(0) };
            let told = signs.judge();
            assert_eq!(told.is_ok(), expected, "{told:?}");
            let text = told.map_or_else(|reason| reason, |gone| gone.evidence);
            assert!(text.contains(&lost.to_string()), "{text}");
        }
    }

    #[test]
    fn the_mark_comes_once_and_goes_when_the_node_is_back() {
        let other =
            LiveTaint { key: "x".to_owned(), value: String::new(), effect: "NoExecute".to_owned(), time_added: None };
        let bare = LiveNode { taints: vec![other.clone()], ..node(Some("Unknown")) };
        let Some(Step::OutOfService { list, is_on: true }) = out_of_service(&bare) else { panic!("a step") };
        assert_eq!((list.len(), &list[0], list[1].key.as_str()), (2, &other, OUT_OF_SERVICE_TAINT));
        let by_others = LiveNode { taints: list, ..bare };
        assert_eq!(out_of_service(&by_others), None);
        let ready = |node: &LiveNode| LiveNode { ready: super::tests::node(Some("True")).ready, ..node.clone() };
        assert_eq!(back_in_service(&ready(&by_others), Some(PowerState::On)), None, "somebody else set it");
        let annotations = [(OUT_OF_SERVICE_ANNOTATION.to_owned(), "true".to_owned())].into();
        let ours = LiveNode { annotations, ..by_others };
        assert_eq!(back_in_service(&ours, Some(PowerState::On)), None, "its kubelet is silent");
        assert_eq!(back_in_service(&ready(&ours), Some(PowerState::Off)), None, "it cannot be");
        for power in [None, Some(PowerState::On)] {
            let step = back_in_service(&ready(&ours), power);
            assert_eq!(step, Some(Step::OutOfService { list: vec![other.clone()], is_on: false }));
        }
    }
}
