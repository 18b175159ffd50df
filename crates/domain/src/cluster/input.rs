//! What a plan is made from.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
};

use jiff::Timestamp;

use super::{caution::Cautions, config::Configuration, constraints::Constraints, template::Template};
use crate::{
    lifecycle::HealthState,
    machine::{Labels, Machine, Rack},
    time::Moment,
    words::{Role, Serial},
};

/// A machine as the registry lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedMachine {
    /// Who it is.
    pub serial: Serial,
    /// Its labels.
    pub labels: Labels,
    /// Where it is.
    pub rack: Rack,
    /// Its place there.
    pub index_in_rack: u32,
    /// What it is for.
    pub role: Role,
    /// Its BMC type, which says how it is repaired.
    pub machine_type: String,
    /// Its first address, which becomes its identity in the cluster; `None`: it cannot be a node.
    pub address: Option<Ipv4Addr>,
    /// When it was registered.
    pub register_date: Moment,
    /// When it should go.
    pub retire_date: Moment,
    /// Its lifecycle state.
    pub state: HealthState,
    /// How long it has been in it, in seconds, as the registry counted.
    pub seconds_in_state: f64,
}

impl ListedMachine {
    /// A machine of our own registry.
    pub fn of(machine: &Machine, now: Timestamp) -> ListedMachine {
        ListedMachine {
            serial: machine.serial.clone(),
            labels: machine.labels.clone(),
            rack: machine.rack,
            index_in_rack: machine.index_in_rack,
            role: machine.role.clone(),
            machine_type: machine.bmc.kind.as_str().to_owned(),
            address: machine.ipv4().next(),
            register_date: Moment::from(machine.register_date),
            retire_date: machine.retire_date,
            state: machine.status.state,
            seconds_in_state: machine.seconds_in_state(now),
        }
    }

    /// Whether it may be newly chosen.
    pub fn is_healthy(&self) -> bool {
        self.state == HealthState::Healthy
    }
}

/// Keys of the taints that nodes carry in Kubernetes now. A node that is not there is untainted.
pub type LiveTaints = BTreeMap<IpAddr, BTreeSet<String>>;

/// Everything a plan depends on.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The machines that may be used, in any order.
    pub machines: &'a [ListedMachine],
    /// What the cluster shall look like.
    pub template: &'a Template,
    /// The present configuration was made from another template.
    pub template_changed: bool,
    /// What it must keep to.
    pub constraints: &'a Constraints,
    /// The present configuration; `None`: there is no cluster yet.
    pub current: Option<&'a Configuration>,
    /// Taints in Kubernetes.
    pub taints: &'a LiveTaints,
    /// Machines that are chosen only when nobody else fits; empty: the score alone decides.
    pub cautions: &'a Cautions,
    /// Now.
    pub now: Timestamp,
}
