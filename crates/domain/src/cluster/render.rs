//! From a machine to a node: its name, annotations, labels and taints. Later entries overwrite earlier ones.

use std::net::IpAddr;

use super::{
    config::{Effect, Node, STATE_TAINT, Taint},
    input::ListedMachine,
    live_node::SERIAL_ANNOTATION,
    template::NodeTemplate,
};
use crate::lifecycle::HealthState;

/// The node that a machine becomes.
pub fn node(machine: &ListedMachine, address: IpAddr, template: &NodeTemplate, control_plane: bool) -> Node {
    let mut annotations = template.annotations.clone();
    annotations.extend([
        (SERIAL_ANNOTATION.to_owned(), machine.serial.to_string()),
        ("cke.cybozu.com/register-date".to_owned(), machine.register_date.whole_seconds()),
        ("cke.cybozu.com/retire-date".to_owned(), machine.retire_date.whole_seconds()),
    ]);
    let mut labels = std::collections::BTreeMap::new();
    for (name, value) in machine.labels.iter() {
        labels.insert(format!("sabakan.cke.cybozu.com/{name}"), value.to_string());
    }
    labels.extend(template.labels.clone());
    let zone = format!("rack{}", machine.rack);
    let of_machine = [
        ("cke.cybozu.com/rack", machine.rack.to_string()),
        ("cke.cybozu.com/index-in-rack", machine.index_in_rack.to_string()),
        ("cke.cybozu.com/role", machine.role.to_string()),
        ("cke.cybozu.com/register-month", machine.register_date.month()),
        ("cke.cybozu.com/retire-month", machine.retire_date.month()),
        ("topology.kubernetes.io/zone", zone.clone()),
        ("failure-domain.beta.kubernetes.io/zone", zone),
    ];
    labels.extend(of_machine.map(|(key, value)| (key.to_owned(), value)));
    labels.insert(format!("node-role.kubernetes.io/{}", machine.role), "true".to_owned());
    if control_plane {
        for role in ["master", "control-plane"] {
            labels.insert(format!("node-role.kubernetes.io/{role}"), "true".to_owned());
        }
    }
    let mut taints = template.taints.clone();
    taints.extend(state_taint(machine.state));
    let hostname = template.hostname.as_ref().map(|pattern| pattern.render(machine, address)).unwrap_or_default();
    Node { address, hostname, user: template.user.clone(), control_plane, annotations, labels, taints }
}

/// The taint that tells pods of a machine that is leaving.
pub fn state_taint(state: HealthState) -> Option<Taint> {
    match state {
        HealthState::Retiring | HealthState::Retired => {
            Some(Taint { key: STATE_TAINT.to_owned(), value: state.as_str().to_owned(), effect: Effect::NoExecute })
        }
        HealthState::Uninitialized
        | HealthState::Healthy
        | HealthState::Unhealthy
        | HealthState::Unreachable
        | HealthState::Updating => None,
    }
}
