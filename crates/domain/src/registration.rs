//! Registering machines: which index each one gets, hence which addresses, or why none of them is registered (G3).

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    net::Ipv4Addr,
};

use jiff::Timestamp;

use crate::{
    ipam::{AddressError, IpamConfig, IpamError, OutsidePool},
    lifecycle::HealthState,
    machine::{Bmc, Machine, NewMachine, Rack, Status},
    time::Moment,
    words::Serial,
};

/// What the rule has to know. All of it is compared again in the transaction that writes the result.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    /// The address configuration, if it was ever set.
    pub ipam: Option<&'a IpamConfig>,
    /// Indices in use, in order of assignment; a rack that is not there is empty.
    pub indices: &'a BTreeMap<Rack, Vec<u32>>,
    /// Which of the serials asked for are registered already.
    pub registered: &'a HashSet<Serial>,
}

/// What is to be written, all of it or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registration {
    /// The machines, in the order asked for.
    pub machines: Vec<Machine>,
    /// The new index lists of every rack that gets a machine.
    pub indices: BTreeMap<Rack, Vec<u32>>,
    /// Racks with addresses outside of their pool, where that is allowed.
    pub outside_pool: BTreeSet<Rack>,
}

/// Why nothing is registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistrationRefusal {
    /// One request names a machine twice.
    #[error("serial {0} is given twice in one request")]
    DuplicateSerial(Serial),
    /// There is nothing to compute addresses from.
    #[error("IPAMConfig is not set")]
    IpamNotSet,
    /// An older service stored it, and addresses computed from it could belong to two machines.
    #[error(
        "the stored IPAM configuration cannot be used: {0}; put one that can (sabactl ipam set), machines that are registered \
         keep their addresses"
    )]
    IpamUnusable(IpamError),
    /// A machine that was registered under another configuration has the address (G2).
    #[error("{serial} would get the address {address}, which {holder} has; remove {holder} first, or use another rack")]
    AddressTaken {
        /// Who would get it.
        serial: Serial,
        /// The address.
        address: Ipv4Addr,
        /// Who has it.
        holder: Serial,
    },
    /// A rack has one boot machine.
    #[error("rack {rack} already has a boot machine; {serial} cannot be another")]
    BootTaken {
        /// The rack.
        rack: Rack,
        /// Who came second.
        serial: Serial,
    },
    /// The machine is known.
    #[error("serial {0} is already registered")]
    AlreadyRegistered(Serial),
    /// Every index of the rack is taken.
    #[error(
        "no node index is available for new machine: rack {rack} is full with {max} machines; {serial} does not fit"
    )]
    RackFull {
        /// The rack.
        rack: Rack,
        /// `max-nodes-in-rack`.
        max: u32,
        /// The first one that found no place.
        serial: Serial,
    },
    /// The rack has no addresses.
    #[error(transparent)]
    Address(#[from] AddressError),
}

/// Assigns an index and addresses to every machine, in the order given: the lowest free index of its rack, or for role `boot` the
/// one index reserved for it.
pub fn plan_registration(
    new: &[NewMachine],
    facts: Facts<'_>,
    outside: OutsidePool,
    now: Timestamp,
) -> Result<Registration, RegistrationRefusal> {
    let mut seen = HashSet::with_capacity(new.len());
    if let Some(twice) = new.iter().find(|m| !seen.insert(&m.serial)) {
        return Err(RegistrationRefusal::DuplicateSerial(twice.serial.clone()));
    }
    if new.is_empty() {
        // Nothing needs no address, so it needs no configuration either.
        return Ok(Registration { machines: Vec::new(), indices: BTreeMap::new(), outside_pool: BTreeSet::new() });
    }
    let ipam = facts.ipam.ok_or(RegistrationRefusal::IpamNotSet)?;
    let mut racks: BTreeMap<Rack, RackIndices> = BTreeMap::new();
    for machine in new {
        racks.entry(machine.rack).or_insert_with(|| RackIndices::new(ipam, facts.indices.get(&machine.rack)));
    }
    // Boot machines and known serials before full racks: registering the same machines again says that they are known, not that
    // there is no room for them a second time.
    for machine in new.iter().filter(|m| m.role.is_boot()) {
        let rack = racks.get_mut(&machine.rack).expect("every rack of the request was entered above");
        if !rack.take(ipam.boot_index()) {
            return Err(RegistrationRefusal::BootTaken { rack: machine.rack, serial: machine.serial.clone() });
        }
    }
    if let Some(known) = new.iter().find(|m| facts.registered.contains(&m.serial)) {
        return Err(RegistrationRefusal::AlreadyRegistered(known.serial.clone()));
    }
    let mut machines = Vec::with_capacity(new.len());
    for machine in new {
        let rack = racks.get_mut(&machine.rack).expect("every rack of the request was entered above");
        let index = if machine.role.is_boot() { Some(ipam.boot_index()) } else { rack.take_lowest(ipam) };
        let index = index.ok_or_else(|| RegistrationRefusal::RackFull {
            rack: machine.rack,
            max: ipam.max_nodes_in_rack(),
            serial: machine.serial.clone(),
        })?;
        rack.order.push(index);
        machines.push(place(machine, ipam, index, outside, now)?);
    }
    let leaves_pool = |machine: &&Machine| {
        !machine.ipv4().all(|address| ipam.node_pool().net.contains(&address))
            || !ipam.bmc_pool().net.contains(&machine.bmc.nic.address)
    };
    let outside_pool = machines.iter().filter(leaves_pool).map(|machine| machine.rack).collect();
    let indices = racks.into_iter().map(|(rack, indices)| (rack, indices.order)).collect();
    Ok(Registration { machines, indices, outside_pool })
}

/// Refuses machines whose addresses somebody has. Under one valid configuration that cannot happen; it can where the machines of an older
/// service were given theirs by a configuration that had to be replaced.
pub fn check_addresses(
    registration: &Registration,
    holder: impl Fn(Ipv4Addr) -> Option<Serial>,
) -> Result<(), RegistrationRefusal> {
    for machine in &registration.machines {
        for address in machine.ipv4().chain(machine.bmc.address()) {
            if let Some(holder) = holder(address) {
                let serial = machine.serial.clone();
                return Err(RegistrationRefusal::AddressTaken { serial, address, holder });
            }
        }
    }
    Ok(())
}

/// The index list of a rack after a machine left it.
pub fn release_index(indices: &[u32], index: u32) -> Vec<u32> {
    indices.iter().copied().filter(|i| *i != index).collect()
}

fn place(
    new: &NewMachine,
    ipam: &IpamConfig,
    index: u32,
    outside: OutsidePool,
    now: Timestamp,
) -> Result<Machine, AddressError> {
    Ok(Machine {
        serial: new.serial.clone(),
        labels: new.labels.clone(),
        rack: new.rack,
        index_in_rack: index,
        role: new.role.clone(),
        nics: ipam.node_nics(new.rack, index, outside)?,
        bmc: Bmc { kind: new.bmc_type.clone(), nic: ipam.bmc_nic(new.rack, index, outside)? },
        register_date: now,
        retire_date: new.retire_date.unwrap_or(Moment::from(now)),
        status: Status { state: HealthState::Uninitialized, since: now },
    })
}

/// The indices of one rack while a request is being planned.
struct RackIndices {
    order: Vec<u32>,
    used: BTreeSet<u32>,
    /// Everything below is taken: indices are only taken while planning, so the search never has to look back.
    next: u32,
}

impl RackIndices {
    fn new(ipam: &IpamConfig, used: Option<&Vec<u32>>) -> RackIndices {
        let order = used.cloned().unwrap_or_default();
        RackIndices { used: order.iter().copied().collect(), order, next: ipam.boot_index() + 1 }
    }

    fn take(&mut self, index: u32) -> bool {
        self.used.insert(index)
    }

    fn take_lowest(&mut self, ipam: &IpamConfig) -> Option<u32> {
        while self.next <= ipam.last_index() {
            let candidate = self.next;
            self.next += 1;
            if self.take(candidate) {
                return Some(candidate);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
