//! Every key of the system, on one page. Nobody above this crate sees a key; [`KEYS`] is what the reference page is made of.

mod mirror;

pub use mirror::MirroredKey;
use sabakan_domain::{
    crypt::DiskPath,
    mac::Mac,
    machine::Rack,
    provision::{
        ids::{AllocationId, ChassisId, NodeId, PortGroupId, PortId, RecipeId},
        recipe::Kind,
    },
    words::Serial,
};

/// One kind of key, for people.
#[derive(Debug, Clone, Copy)]
pub struct KeyDoc {
    /// What follows the prefix.
    pub pattern: &'static str,
    /// What the value is.
    pub value: &'static str,
    /// What it is for.
    pub meaning: &'static str,
}

/// All kinds of keys, in the order of the reference page.
pub const KEYS: &[KeyDoc] = &[
    KeyDoc {
        pattern: "version",
        value: "text `3`",
        meaning: "Version of this schema. A server refuses to start on another one.",
    },
    KeyDoc {
        pattern: "ipam",
        value: "JSON",
        meaning: "IPAM configuration. Written only while no machine is registered, or in place of one that cannot be used.",
    },
    KeyDoc { pattern: "dhcp", value: "JSON", meaning: "DHCP configuration." },
    KeyDoc {
        pattern: "machines/<serial>",
        value: "JSON with `spec`, `status`, `info`",
        meaning: "One machine. `status.duration` is always 0 here; it is computed when read.",
    },
    KeyDoc {
        pattern: "node-indices/<rack>",
        value: "JSON list of numbers",
        meaning: "Indices in use in a rack, in order of assignment. Every registration in and removal from the rack compares it.",
    },
    KeyDoc {
        pattern: "crypts/<serial>/<disk>",
        value: "JSON, sealed",
        meaning: "One disk key, encrypted under a key that is not in the store. What does not begin with `{\"v\":` is a raw key of the \
                  older service, which waits to be imported.",
    },
    KeyDoc {
        pattern: "audit/<YYYYMMDD>/<16 hex digits>",
        value: "JSON",
        meaning: "One change: who, from where, what. Written in the transaction of the change; the digits sort by time.",
    },
    KeyDoc {
        pattern: "tokens/<id>",
        value: "JSON",
        meaning: "One access token: name, role and the hash of its secret.",
    },
    KeyDoc {
        pattern: "nodes/<serial>",
        value: "JSON",
        meaning: "What provisioning knows about a machine, with the work under way. Absent until somebody asks something of it: a machine without one is in `enroll`.",
    },
    KeyDoc {
        pattern: "node-ids/<uuid>",
        value: "text, the name of the node",
        meaning: "Claims the UUID of a node that was made through the provisioning API. Making one compares that it is absent.",
    },
    KeyDoc {
        pattern: "instances/<uuid>",
        value: "text, the name of a node",
        meaning: "Claims a workload for the node it is on: no two nodes say that they have the same. Written and deleted with the node.",
    },
    KeyDoc {
        pattern: "allocations/<uuid>",
        value: "JSON",
        meaning: "A wish for a node, and which one it got. Node and allocation are written in one transaction.",
    },
    KeyDoc {
        pattern: "allocation-names/<name>",
        value: "text, the UUID of the allocation",
        meaning: "Claims the name of an allocation.",
    },
    KeyDoc {
        pattern: "node-ports/<node uuid>",
        value: "JSON",
        meaning: "The ports and port groups of a node, all together. Deleted with the node.",
    },
    KeyDoc {
        pattern: "port-claims/<what>/<value>",
        value: "text, the UUID of the node",
        meaning: "Claims a UUID, an address or a name of a port (`port`, `address`, `name`) or of a port group (`group`, `group-address`, `group-name`). Written and deleted with the ports of the node.",
    },
    KeyDoc { pattern: "chassis/<uuid>", value: "JSON", meaning: "One chassis." },
    KeyDoc {
        pattern: "chassis-nodes/<uuid>/<node uuid>",
        value: "text, the name of the node when it was put in",
        meaning: "A node that is in a chassis. Written and deleted with the node; a chassis is deleted only while there are none.",
    },
    KeyDoc {
        pattern: "deploy-templates/<uuid>, runbooks/<uuid>",
        value: "JSON",
        meaning: "A list of steps under a name, for deployments or for cleaning and servicing.",
    },
    KeyDoc {
        pattern: "deploy-template-names/<name>, runbook-names/<name>",
        value: "text, the UUID of the template or runbook",
        meaning: "Claims its name.",
    },
    KeyDoc {
        pattern: "node-locks/<serial>",
        value: "JSON, under a lease",
        meaning: "Who works on a node. Every write of a worker compares it; it vanishes with its worker.",
    },
    KeyDoc {
        pattern: "node-history/<serial>/<16 digits>",
        value: "JSON",
        meaning: "What happened to a node, the last few hundred rows.",
    },
    KeyDoc { pattern: "inventories/<serial>", value: "JSON", meaning: "What the last inspection of a machine found." },
    KeyDoc {
        pattern: "conductors/<name>",
        value: "JSON, under a lease",
        meaning: "One server that does provisioning work.",
    },
    KeyDoc {
        pattern: "cluster/template",
        value: "JSON",
        meaning: "What the Kubernetes cluster shall look like, as somebody wrote it. Its revision tells whether a configuration was made from it.",
    },
    KeyDoc {
        pattern: "cluster/constraints",
        value: "JSON object of numbers",
        meaning: "How large the cluster may be, and how much may be repaired at once. Absent: the defaults.",
    },
    KeyDoc {
        pattern: "cluster/variables",
        value: "JSON text as given",
        meaning: "Which machines may be used. Absent: the defaults.",
    },
    KeyDoc { pattern: "cluster/disabled", value: "empty", meaning: "Present: the planner does nothing." },
    KeyDoc {
        pattern: "cluster/configuration",
        value: "JSON",
        meaning: "The configuration of the cluster without its nodes, and what it was made from. Every plan compares it.",
    },
    KeyDoc {
        pattern: "cluster/nodes/<4 digits>",
        value: "JSON list",
        meaning: "Nodes of the configuration, a few hundred under each key, because one value cannot hold a large cluster. Written together with `cluster/configuration`.",
    },
    KeyDoc {
        pattern: "cluster/plans",
        value: "JSON",
        meaning: "Numbers of the first plan that is kept and of the next one.",
    },
    KeyDoc {
        pattern: "cluster-plans/<16 digits>",
        value: "JSON",
        meaning: "One plan: what it changed or what blocked it, and why. The last 1,000.",
    },
    KeyDoc { pattern: "repairs/data/<16 hex digits>", value: "JSON", meaning: "One entry of the repair queue." },
    KeyDoc {
        pattern: "repairs/write-index",
        value: "number",
        meaning: "The index of the next entry. Adding compares it, so that entries are counted and added at once.",
    },
    KeyDoc { pattern: "repairs/disabled", value: "empty", meaning: "Present: no repair is begun." },
    KeyDoc {
        pattern: "auto-repair/disabled",
        value: "empty",
        meaning: "Present: no broken machine comes into the queue by itself.",
    },
    KeyDoc {
        pattern: "auto-repair/query-variables",
        value: "JSON text as given",
        meaning: "Which machines count as broken. Absent: the defaults.",
    },
    KeyDoc {
        pattern: "auto-repair/settings",
        value: "JSON",
        meaning: "When machines count as having failed together, and how long finished repairs count. Absent: the defaults.",
    },
    KeyDoc { pattern: "reboots/data/<16 hex digits>", value: "JSON", meaning: "One entry of the reboot queue." },
    KeyDoc { pattern: "reboots/write-index", value: "number", meaning: "The index of the next entry." },
    KeyDoc { pattern: "reboots/disabled", value: "empty", meaning: "Present: no reboot is begun." },
    KeyDoc {
        pattern: "incidents/data/<16 digits>",
        value: "JSON",
        meaning: "A group of machines that failed together. Those that are not over, and the last 1,000 that are.",
    },
    KeyDoc { pattern: "incidents/write-index", value: "number", meaning: "The number of the next incident." },
    KeyDoc {
        pattern: "leaders/<task>",
        value: "text, the name of a server, under a lease",
        meaning: "Which of several servers does a task. What it writes compares this key; it vanishes with its server.",
    },
    KeyDoc {
        pattern: "head",
        value: "empty",
        meaning: "etcd only. Rewritten by every transaction, so that its revision tells a reader what it must have seen.",
    },
    KeyDoc {
        pattern: "importing",
        value: "text",
        meaning: "Present only while an import runs; a server refuses to start when it finds it.",
    },
];

/// The version of the schema this program reads and writes.
pub const SCHEMA_VERSION: &str = "3";

/// Builds and recognises keys under one prefix.
#[derive(Debug, Clone)]
pub struct Keys {
    prefix: String,
    states_prefix: String,
    mirror_prefix: Option<String>,
}

/// A key this program gives a meaning to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known<'a> {
    Ipam,
    Dhcp,
    Machine(&'a str),
    Token(&'a str),
    Node(&'a str),
    Allocation(&'a str),
    Recipe(Kind, &'a str),
    Ports(&'a str),
    Chassis(&'a str),
    Lock(&'a str),
    Conductor(&'a str),
    /// What follows `crypts/`: machine and disk.
    Crypt(&'a str),
}

/// Something no two ports, or no two port groups, may share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PortClaim {
    /// The UUID of a port.
    Port(PortId),
    /// The address of a port.
    Address(Mac),
    /// The name of a port.
    Name(String),
    /// The UUID of a port group.
    Group(PortGroupId),
    /// The address of a port group.
    GroupAddress(Mac),
    /// The name of a port group.
    GroupName(String),
}

impl std::fmt::Display for PortClaim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PortClaim::Port(id) => write!(f, "port with UUID {id}"),
            PortClaim::Address(mac) => write!(f, "port with MAC address {mac}"),
            PortClaim::Name(name) => write!(f, "port with name {name}"),
            PortClaim::Group(id) => write!(f, "portgroup with UUID {id}"),
            PortClaim::GroupAddress(mac) => write!(f, "portgroup with MAC address {mac}"),
            PortClaim::GroupName(name) => write!(f, "portgroup with name {name}"),
        }
    }
}

impl Keys {
    /// Keys under `prefix`, which is put before every key as it is, and published states under a prefix of their own.
    pub fn new(prefix: impl Into<String>, states_prefix: impl Into<String>) -> Keys {
        Keys { prefix: prefix.into(), states_prefix: states_prefix.into(), mirror_prefix: None }
    }

    /// The same, with copies of the cluster's configuration for another program under a prefix of its own.
    pub fn with_mirror(self, prefix: impl Into<String>) -> Keys {
        Keys { mirror_prefix: Some(prefix.into()), ..self }
    }

    /// What all keys start with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn version(&self) -> String {
        self.key("version")
    }

    /// The address configuration.
    pub fn ipam(&self) -> String {
        self.key("ipam")
    }

    /// The DHCP configuration.
    pub fn dhcp(&self) -> String {
        self.key("dhcp")
    }

    pub(crate) fn machines(&self) -> String {
        self.key("machines/")
    }

    pub(crate) fn machine(&self, serial: &Serial) -> String {
        self.key(&format!("machines/{serial}"))
    }

    pub(crate) fn all_node_indices(&self) -> String {
        self.key("node-indices/")
    }

    pub(crate) fn node_indices(&self, rack: Rack) -> String {
        self.key(&format!("node-indices/{rack}"))
    }

    /// The copy of a machine for programs outside.
    pub(crate) fn published(&self, serial: &Serial) -> String {
        format!("{}{serial}", self.states_prefix)
    }

    pub(crate) fn all_published(&self) -> String {
        self.states_prefix.clone()
    }

    pub(crate) fn crypts(&self, serial: &Serial) -> String {
        self.key(&format!("crypts/{serial}/"))
    }

    pub(crate) fn crypt(&self, serial: &Serial, disk: &DiskPath) -> String {
        self.key(&format!("crypts/{serial}/{disk}"))
    }

    pub(crate) fn all_crypts(&self) -> String {
        self.key("crypts/")
    }

    pub(crate) fn audit(&self) -> String {
        self.key("audit/")
    }

    pub(crate) fn token(&self, id: &str) -> String {
        self.key(&format!("tokens/{id}"))
    }

    pub(crate) fn tokens(&self) -> String {
        self.key("tokens/")
    }

    pub(crate) fn nodes(&self) -> String {
        self.key("nodes/")
    }

    pub(crate) fn node(&self, name: &Serial) -> String {
        self.key(&format!("nodes/{name}"))
    }

    pub(crate) fn node_id(&self, id: NodeId) -> String {
        self.key(&format!("node-ids/{id}"))
    }

    pub(crate) fn instances(&self) -> String {
        self.key("instances/")
    }

    pub(crate) fn instance(&self, uuid: &str) -> String {
        self.key(&format!("instances/{uuid}"))
    }

    pub(crate) fn allocations(&self) -> String {
        self.key("allocations/")
    }

    pub(crate) fn allocation(&self, id: AllocationId) -> String {
        self.key(&format!("allocations/{id}"))
    }

    pub(crate) fn allocation_names(&self) -> String {
        self.key("allocation-names/")
    }

    pub(crate) fn allocation_name(&self, name: &str) -> String {
        self.key(&format!("allocation-names/{name}"))
    }

    pub(crate) fn all_node_ports(&self) -> String {
        self.key("node-ports/")
    }

    pub(crate) fn node_ports(&self, node: NodeId) -> String {
        self.key(&format!("node-ports/{node}"))
    }

    pub(crate) fn port_claims(&self) -> String {
        self.key("port-claims/")
    }

    pub(crate) fn port_claim(&self, claim: &PortClaim) -> String {
        self.key(&match claim {
            PortClaim::Port(id) => format!("port-claims/port/{id}"),
            PortClaim::Address(mac) => format!("port-claims/address/{mac}"),
            PortClaim::Name(name) => format!("port-claims/name/{name}"),
            PortClaim::Group(id) => format!("port-claims/group/{id}"),
            PortClaim::GroupAddress(mac) => format!("port-claims/group-address/{mac}"),
            PortClaim::GroupName(name) => format!("port-claims/group-name/{name}"),
        })
    }

    pub(crate) fn all_chassis(&self) -> String {
        self.key("chassis/")
    }

    pub(crate) fn chassis(&self, id: ChassisId) -> String {
        self.key(&format!("chassis/{id}"))
    }

    pub(crate) fn all_chassis_nodes(&self) -> String {
        self.key("chassis-nodes/")
    }

    pub(crate) fn chassis_nodes(&self, id: ChassisId) -> String {
        self.key(&format!("chassis-nodes/{id}/"))
    }

    pub(crate) fn chassis_node(&self, id: ChassisId, node: NodeId) -> String {
        self.key(&format!("chassis-nodes/{id}/{node}"))
    }

    pub(crate) fn recipes(&self, kind: Kind) -> String {
        match kind {
            Kind::Template => self.key("deploy-templates/"),
            Kind::Runbook => self.key("runbooks/"),
        }
    }

    pub(crate) fn recipe(&self, kind: Kind, id: RecipeId) -> String {
        format!("{}{id}", self.recipes(kind))
    }

    pub(crate) fn recipe_name(&self, kind: Kind, name: &str) -> String {
        match kind {
            Kind::Template => self.key(&format!("deploy-template-names/{name}")),
            Kind::Runbook => self.key(&format!("runbook-names/{name}")),
        }
    }

    pub(crate) fn locks(&self) -> String {
        self.key("node-locks/")
    }

    pub(crate) fn lock(&self, name: &Serial) -> String {
        self.key(&format!("node-locks/{name}"))
    }

    pub(crate) fn history(&self, name: &Serial) -> String {
        self.key(&format!("node-history/{name}/"))
    }

    /// Numbers sort as text: sixteen digits are more rows than a node can write.
    pub(crate) fn history_row(&self, name: &Serial, number: u64) -> String {
        self.key(&format!("node-history/{name}/{number:016}"))
    }

    pub(crate) fn inventory(&self, name: &Serial) -> String {
        self.key(&format!("inventories/{name}"))
    }

    pub(crate) fn conductors(&self) -> String {
        self.key("conductors/")
    }

    pub(crate) fn conductor(&self, name: &str) -> String {
        self.key(&format!("conductors/{name}"))
    }

    /// Everything a plan of the cluster depends on, apart from the machines.
    pub(crate) fn cluster(&self) -> String {
        self.key("cluster/")
    }

    pub(crate) fn cluster_template(&self) -> String {
        self.key("cluster/template")
    }

    pub(crate) fn cluster_constraints(&self) -> String {
        self.key("cluster/constraints")
    }

    pub(crate) fn cluster_variables(&self) -> String {
        self.key("cluster/variables")
    }

    pub(crate) fn cluster_disabled(&self) -> String {
        self.key("cluster/disabled")
    }

    pub(crate) fn cluster_configuration(&self) -> String {
        self.key("cluster/configuration")
    }

    pub(crate) fn cluster_nodes(&self, part: usize) -> String {
        self.key(&format!("cluster/nodes/{part:04}"))
    }

    pub(crate) fn cluster_plan_numbers(&self) -> String {
        self.key("cluster/plans")
    }

    pub(crate) fn cluster_plan(&self, number: u64) -> String {
        self.key(&format!("cluster-plans/{number:016}"))
    }

    pub(crate) fn repairs(&self) -> String {
        self.key("repairs/")
    }

    pub(crate) fn repair(&self, index: u64) -> String {
        self.key(&format!("repairs/data/{index:016x}"))
    }

    pub(crate) fn repairs_next(&self) -> String {
        self.key("repairs/write-index")
    }

    pub(crate) fn repairs_disabled(&self) -> String {
        self.key("repairs/disabled")
    }

    pub(crate) fn auto_repair(&self) -> String {
        self.key("auto-repair/")
    }

    pub(crate) fn auto_repair_disabled(&self) -> String {
        self.key("auto-repair/disabled")
    }

    pub(crate) fn auto_repair_variables(&self) -> String {
        self.key("auto-repair/query-variables")
    }

    pub(crate) fn auto_repair_settings(&self) -> String {
        self.key("auto-repair/settings")
    }

    pub(crate) fn reboots(&self) -> String {
        self.key("reboots/")
    }

    pub(crate) fn reboot(&self, index: u64) -> String {
        self.key(&format!("reboots/data/{index:016x}"))
    }

    pub(crate) fn reboots_next(&self) -> String {
        self.key("reboots/write-index")
    }

    pub(crate) fn reboots_disabled(&self) -> String {
        self.key("reboots/disabled")
    }

    pub(crate) fn incidents(&self) -> String {
        self.key("incidents/")
    }

    pub(crate) fn incident(&self, number: u64) -> String {
        self.key(&format!("incidents/data/{number:016}"))
    }

    pub(crate) fn incidents_next(&self) -> String {
        self.key("incidents/write-index")
    }

    pub(crate) fn leader(&self, task: &str) -> String {
        self.key(&format!("leaders/{task}"))
    }

    /// What a key is, if it is one of those the view keeps.
    pub(crate) fn recognise<'a>(&self, key: &'a str) -> Option<Known<'a>> {
        match key.strip_prefix(&self.prefix)? {
            "ipam" => Some(Known::Ipam),
            "dhcp" => Some(Known::Dhcp),
            rest => {
                let (kind, name) = rest.split_once('/')?;
                match kind {
                    "machines" => Some(Known::Machine(name)),
                    "nodes" => Some(Known::Node(name)),
                    "allocations" => Some(Known::Allocation(name)),
                    "deploy-templates" => Some(Known::Recipe(Kind::Template, name)),
                    "runbooks" => Some(Known::Recipe(Kind::Runbook, name)),
                    "node-ports" => Some(Known::Ports(name)),
                    "chassis" => Some(Known::Chassis(name)),
                    "node-locks" => Some(Known::Lock(name)),
                    "conductors" => Some(Known::Conductor(name)),
                    "tokens" => Some(Known::Token(name)),
                    "crypts" => Some(Known::Crypt(name)),
                    _ => None,
                }
            }
        }
    }

    fn key(&self, rest: &str) -> String {
        format!("{}{rest}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_as_documented() {
        let keys = Keys::new("/sabakan/", "/states/");
        let serial = Serial::new("1234abcd").expect("serial");
        assert_eq!(keys.machine(&serial), "/sabakan/machines/1234abcd");
        assert_eq!(keys.node_indices(Rack(3)), "/sabakan/node-indices/3");
        assert_eq!(keys.published(&serial), "/states/1234abcd");
        let disk = DiskPath::new("aaaaa").expect("disk");
        assert_eq!(keys.crypt(&serial, &disk), "/sabakan/crypts/1234abcd/aaaaa");
        assert_eq!(keys.recognise("/sabakan/machines/1234abcd"), Some(Known::Machine("1234abcd")));
        assert_eq!(keys.recognise("/sabakan/ipam"), Some(Known::Ipam));
        assert_eq!(keys.recognise("/sabakan/node-indices/3"), None);
        assert_eq!(keys.recognise("/other/ipam"), None);
        let documented: Vec<_> = KEYS.iter().map(|doc| doc.pattern).collect();
        for key in [keys.version(), keys.ipam(), keys.dhcp()] {
            assert!(documented.contains(&key.trim_start_matches("/sabakan/")), "{key} is not documented");
        }
    }
}
