//! Address arithmetic. The configuration divides two pools into one block per rack; a machine's rack and index determine all
//! its addresses, so that nothing but the index has to be remembered.
//!
//! G2 (no two machines share an address) rests on three facts checked here: indices fit into a block, blocks of different racks
//! do not overlap, and the two pools do not overlap.

mod stored;

use std::net::Ipv4Addr;

use ipnet::Ipv4Net;

pub use stored::StoredIpam;

use crate::{
    limits,
    machine::{Nic, Rack, netmask},
};

/// What operators write. Every field is unchecked; `None` means it was not given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IpamInput {
    /// `max-nodes-in-rack`
    pub max_nodes_in_rack: u32,
    /// `node-ipv4-…`
    pub node: PoolInput,
    /// `node-ip-per-node`
    pub node_ip_per_node: u32,
    /// `node-index-offset`
    pub node_index_offset: u32,
    /// `bmc-ipv4-…`
    pub bmc: PoolInput,
}

/// The part of [`IpamInput`] that both pools have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolInput {
    /// A CIDR.
    pub pool: String,
    /// Added to the pool's first address; absent or empty: nothing.
    pub offset: Option<String>,
    /// Bits of one block.
    pub range_size: u32,
    /// Prefix length told to machines.
    pub range_mask: u32,
    /// Absent: 1. Zero is refused.
    pub gateway_offset: Option<u32>,
}

/// A checked configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpamConfig {
    max_nodes_in_rack: u32,
    node: Pool,
    node_ip_per_node: u32,
    node_index_offset: u32,
    bmc: Pool,
}

/// One pool of a checked configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// The network addresses come from.
    pub net: Ipv4Net,
    /// Added to the network's first address.
    pub offset: Option<Ipv4Addr>,
    /// Bits of one block, at most 31.
    pub range_size: u32,
    /// Prefix length told to machines, 8 to 32.
    pub range_mask: u8,
    /// Gateway = network address + this.
    pub gateway_offset: u32,
}

/// Which pool an error is about; its text is the beginning of the pool's configuration keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolName {
    /// Addresses of operating systems.
    Node,
    /// Addresses of management controllers.
    Bmc,
}

impl std::fmt::Display for PoolName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PoolName::Node => "node-ipv4",
            PoolName::Bmc => "bmc-ipv4",
        })
    }
}

/// Why a configuration was refused. The first wrong field in the documented order is reported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IpamError {
    /// A number that must not be zero.
    #[error("{0} must not be zero")]
    Zero(&'static str),
    /// Not an IPv4 CIDR.
    #[error("invalid {0}-pool: {1:?}; an IPv4 network such as 10.69.0.0/16 is expected")]
    Pool(PoolName, String),
    /// `10.69.0.1/16` instead of `10.69.0.0/16`.
    #[error("host part of {0}-pool must be cleared")]
    HostPart(PoolName),
    /// Not a dotted quad.
    #[error("invalid {0}-offset: {1:?}; an IPv4 address such as 0.0.1.0 is expected")]
    Offset(PoolName, String),
    /// A block larger than half of all addresses.
    #[error("invalid {0}-range-size: {1}; 1 to 31 bits are allowed")]
    RangeSize(PoolName, u32),
    /// Not a useful prefix length.
    #[error("invalid {0}-range-mask: {1}; 8 to 32 are allowed")]
    RangeMask(PoolName, u32),
    /// More than [`limits::IP_PER_NODE_MAX`].
    #[error("invalid node-ip-per-node: {0}; at most {max} are allowed", max = limits::IP_PER_NODE_MAX)]
    IpPerNode(u32),
    /// The highest index would reach into the next block, where it is another machine's address.
    #[error(
        "max-nodes-in-rack does not fit {pool}-range-size: the highest index is {highest}, a block of {bits} bits ends at {last}"
    )]
    BlockTooSmall {
        /// Which pool.
        pool: PoolName,
        /// `node-index-offset + max-nodes-in-rack`.
        highest: u64,
        /// The range size.
        bits: u32,
        /// The last position in a block.
        last: u64,
    },
    /// One address could belong to a machine and to a controller.
    #[error("bmc-ipv4-pool {bmc} overlaps node-ipv4-pool {node}")]
    Overlap {
        /// The node pool.
        node: Ipv4Net,
        /// The BMC pool.
        bmc: Ipv4Net,
    },
}

/// What to do with a rack whose addresses leave their pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OutsidePool {
    /// Refuse the machine.
    #[default]
    Refuse,
    /// Register it all the same: for registries taken over from a service that never checked.
    Allow,
}

/// Why a rack has no addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The arithmetic leaves IPv4.
    #[error("rack {rack} does not fit {pool}-pool: its addresses would be beyond 255.255.255.255")]
    Overflow {
        /// The rack.
        rack: Rack,
        /// Which pool.
        pool: PoolName,
    },
    /// The arithmetic reaches the other pool's first block, where addresses belong to other machines.
    #[error("rack {rack} does not fit {pool}-pool: {address} is beyond the begin of the other pool at {other}")]
    MeetsOther {
        /// The rack.
        rack: Rack,
        /// Which pool.
        pool: PoolName,
        /// The first address that is too far.
        address: Ipv4Addr,
        /// Where the other pool's addresses begin.
        other: Ipv4Addr,
    },
    /// The arithmetic leaves the pool.
    #[error("rack {rack} does not fit {pool}-pool: {address} is outside of {net}")]
    OutsidePool {
        /// The rack.
        rack: Rack,
        /// Which pool.
        pool: PoolName,
        /// The first address that is not in it.
        address: Ipv4Addr,
        /// The pool.
        net: Ipv4Net,
    },
}

/// Addresses for clients that are not registered yet, next to one interface of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseRange {
    /// The first address; it names the range.
    pub begin: Ipv4Addr,
    /// How many there are; may be zero.
    pub count: u32,
}

/// An interface address that belongs to no block.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid ifaddr: {0}")]
pub struct NoLeaseRange(pub Ipv4Addr);

impl IpamConfig {
    /// Checks the fields in the documented order, node fields first, then what only holds between fields.
    pub fn new(input: &IpamInput) -> Result<IpamConfig, IpamError> {
        let not_zero = |value: u32, field| if value == 0 { Err(IpamError::Zero(field)) } else { Ok(value) };
        let max_nodes_in_rack = not_zero(input.max_nodes_in_rack, "max-nodes-in-rack")?;
        let node = Pool::without_gateway(PoolName::Node, &input.node)?;
        let node_ip_per_node = not_zero(input.node_ip_per_node, "node-ip-per-node")?;
        if node_ip_per_node > limits::IP_PER_NODE_MAX {
            return Err(IpamError::IpPerNode(node_ip_per_node));
        }
        let node_index_offset = not_zero(input.node_index_offset, "node-index-offset")?;
        let node = node.with_gateway(&input.node, "node-gateway-offset")?;
        let bmc = Pool::without_gateway(PoolName::Bmc, &input.bmc)?;
        let bmc = bmc.with_gateway(&input.bmc, "bmc-ipv4-gateway-offset")?;

        let highest = u64::from(node_index_offset) + u64::from(max_nodes_in_rack);
        for (name, pool) in [(PoolName::Node, &node), (PoolName::Bmc, &bmc)] {
            let last = pool.unit() - 1;
            if highest > last {
                return Err(IpamError::BlockTooSmall { pool: name, highest, bits: pool.range_size, last });
            }
        }
        // Pools that do not overlap may still begin at the same address, by their offsets.
        if node.net.contains(&bmc.net) || bmc.net.contains(&node.net) || node.base() == bmc.base() {
            return Err(IpamError::Overlap { node: node.net, bmc: bmc.net });
        }
        Ok(IpamConfig { max_nodes_in_rack, node, node_ip_per_node, node_index_offset, bmc })
    }

    /// What somebody would write to get this configuration.
    pub fn input(&self) -> IpamInput {
        let pool = |Pool { net, offset, range_size, range_mask, gateway_offset }: &Pool| PoolInput {
            pool: net.to_string(),
            offset: offset.map(|offset| offset.to_string()),
            range_size: *range_size,
            range_mask: u32::from(*range_mask),
            gateway_offset: Some(*gateway_offset),
        };
        IpamInput {
            max_nodes_in_rack: self.max_nodes_in_rack,
            node: pool(&self.node),
            node_ip_per_node: self.node_ip_per_node,
            node_index_offset: self.node_index_offset,
            bmc: pool(&self.bmc),
        }
    }

    /// Most machines in a rack, not counting the boot machine.
    pub fn max_nodes_in_rack(&self) -> u32 {
        self.max_nodes_in_rack
    }

    /// Addresses of each machine.
    pub fn node_ip_per_node(&self) -> u32 {
        self.node_ip_per_node
    }

    /// The index of a rack's boot machine.
    pub fn boot_index(&self) -> u32 {
        self.node_index_offset
    }

    /// The highest index of a rack.
    pub fn last_index(&self) -> u32 {
        // Fits: `new` checked that it lies inside a block of at most 2^31 addresses.
        self.node_index_offset + self.max_nodes_in_rack
    }

    /// Where operating systems get their addresses.
    pub fn node_pool(&self) -> &Pool {
        &self.node
    }

    /// Where management controllers get their addresses.
    pub fn bmc_pool(&self) -> &Pool {
        &self.bmc
    }

    /// The interfaces of the machine at an index of a rack.
    pub fn node_nics(&self, rack: Rack, index: u32, outside: OutsidePool) -> Result<Box<[Nic]>, AddressError> {
        let per_rack = self.node.unit() * u64::from(self.node_ip_per_node);
        (0..u64::from(self.node_ip_per_node))
            .map(|i| {
                let distance = per_rack * u64::from(rack.0) + u64::from(index) + i * self.node.unit();
                self.nic(PoolName::Node, rack, distance, outside)
            })
            .collect()
    }

    /// The interface of the controller of the machine at an index of a rack.
    pub fn bmc_nic(&self, rack: Rack, index: u32, outside: OutsidePool) -> Result<Nic, AddressError> {
        let distance = self.bmc.unit() * u64::from(rack.0) + u64::from(index);
        self.nic(PoolName::Bmc, rack, distance, outside)
    }

    fn nic(&self, name: PoolName, rack: Rack, distance: u64, outside: OutsidePool) -> Result<Nic, AddressError> {
        let (pool, other) = match name {
            PoolName::Node => (&self.node, &self.bmc),
            PoolName::Bmc => (&self.bmc, &self.node),
        };
        let nic = pool.nic(name, rack, distance, outside)?;
        // Both sequences of addresses grow upwards. The lower one ends where the higher one begins, so that they never share an
        // address even where leaving the pool is allowed.
        let (address, begin) = (u64::from(u32::from(nic.address)), other.base());
        if pool.base() < begin && address >= begin {
            let other = u32::try_from(begin).unwrap_or(u32::MAX).into();
            return Err(AddressError::MeetsOther { rack, pool: name, address: nic.address, other });
        }
        Ok(nic)
    }

    /// The addresses that may be leased beside an interface: from after the highest static index of its block to the last but
    /// one address of the block.
    pub fn lease_range(&self, interface: Ipv4Addr) -> Result<LeaseRange, NoLeaseRange> {
        let none = NoLeaseRange(interface);
        if !self.node.net.contains(&interface) {
            return Err(none);
        }
        let base = self.node.base();
        let distance = u64::from(u32::from(interface)).checked_sub(base).filter(|d| *d > 0).ok_or(none.clone())?;
        let unit = self.node.unit();
        let first = u64::from(self.last_index()) + 1;
        let begin = base + distance / unit * unit + first;
        let begin = u32::try_from(begin).map_err(|_| none)?;
        let count = (unit - 1).saturating_sub(first);
        Ok(LeaseRange { begin: begin.into(), count: u32::try_from(count).unwrap_or(u32::MAX) })
    }
}

impl Pool {
    fn without_gateway(name: PoolName, input: &PoolInput) -> Result<Pool, IpamError> {
        let net: Ipv4Net = input.pool.parse().map_err(|_| IpamError::Pool(name, input.pool.clone()))?;
        if net.network() != net.addr() {
            return Err(IpamError::HostPart(name));
        }
        let offset = match input.offset.as_deref() {
            None | Some("") => None,
            Some(text) => Some(text.parse().map_err(|_| IpamError::Offset(name, text.to_owned()))?),
        };
        if input.range_size == 0 {
            return Err(IpamError::Zero(match name {
                PoolName::Node => "node-ipv4-range-size",
                PoolName::Bmc => "bmc-ipv4-range-size",
            }));
        }
        if input.range_size > 31 {
            return Err(IpamError::RangeSize(name, input.range_size));
        }
        let range_mask = u8::try_from(input.range_mask).ok().filter(|mask| (8..=32).contains(mask));
        let range_mask = range_mask.ok_or(IpamError::RangeMask(name, input.range_mask))?;
        Ok(Pool { net, offset, range_size: input.range_size, range_mask, gateway_offset: 1 })
    }

    fn with_gateway(self, input: &PoolInput, field: &'static str) -> Result<Pool, IpamError> {
        match input.gateway_offset {
            Some(0) => Err(IpamError::Zero(field)),
            given => Ok(Pool { gateway_offset: given.unwrap_or(1), ..self }),
        }
    }

    /// Addresses in a block.
    fn unit(&self) -> u64 {
        1 << self.range_size
    }

    /// The first address of rack 0's block.
    fn base(&self) -> u64 {
        u64::from(u32::from(self.net.addr())) + u64::from(self.offset.map_or(0, u32::from))
    }

    fn nic(&self, pool: PoolName, rack: Rack, distance: u64, outside: OutsidePool) -> Result<Nic, AddressError> {
        let overflow = || AddressError::Overflow { rack, pool };
        let value = self.base().checked_add(distance).and_then(|sum| u32::try_from(sum).ok()).ok_or_else(overflow)?;
        let address = Ipv4Addr::from(value);
        if outside == OutsidePool::Refuse && !self.net.contains(&address) {
            return Err(AddressError::OutsidePool { rack, pool, address, net: self.net });
        }
        let network = value & u32::from(netmask(self.range_mask));
        let gateway = network.checked_add(self.gateway_offset).ok_or_else(overflow)?;
        Ok(Nic { address, maskbits: self.range_mask, gateway: gateway.into() })
    }
}

#[cfg(test)]
mod tests;
