//! JSON shapes of the REST API under `/api/v1/`.

mod audit;
pub mod cluster;
mod config;
mod error;
mod event;
mod machine;
mod query;
pub mod repair;
mod token;

pub use audit::AuditLogJson;
pub use config::{DhcpConfigJson, IpamConfigJson};
pub use error::{ErrorJson, ErrorKind};
pub use event::{EventActorJson, EventHead, EventJson, EventMarkJson, event_kinds};
pub use machine::{
    BmcInfoJson, BmcInput, BmcJson, FlatBmcJson, FlatNodeJson, InfoJson, InputError, MachineInput, MachineJson,
    NetworkJson, NicJson, SpecJson, StatusJson, machines_from_input,
};
pub use query::{QueryError, QueryParams, UnknownParameters};
pub use token::{NewTokenJson, StoredKeyJson, TokenJson, TokenRequest};

/// Paths of the API, once for server and client.
pub mod paths {
    /// IPAM configuration.
    pub const IPAM: &str = "/api/v1/config/ipam";
    /// The oldest document's name for [`IPAM`].
    pub const IPAM_ALIAS: &str = "/api/v1/config";
    /// DHCP configuration.
    pub const DHCP: &str = "/api/v1/config/dhcp";
    /// Machines.
    pub const MACHINES: &str = "/api/v1/machines";
    /// Lifecycle states.
    pub const STATE: &str = "/api/v1/state";
    /// Labels.
    pub const LABELS: &str = "/api/v1/labels";
    /// Retire dates.
    pub const RETIRE_DATE: &str = "/api/v1/retire-date";
    /// Disk keys.
    pub const CRYPTS: &str = "/api/v1/crypts";
    /// The audit log.
    pub const LOGS: &str = "/api/v1/logs";
    /// The event feed.
    pub const EVENTS: &str = "/api/v1/events";
    /// Access tokens.
    pub const TOKENS: &str = "/api/v1/tokens";
    /// What the Kubernetes cluster shall look like.
    pub const CLUSTER_TEMPLATE: &str = "/api/v1/cluster/template";
    /// Which machines it may use.
    pub const CLUSTER_VARIABLES: &str = "/api/v1/cluster/variables";
    /// Whether its planner works.
    pub const CLUSTER_ENABLED: &str = "/api/v1/cluster/enabled";
    /// What it looks like.
    pub const CLUSTER_CONFIGURATION: &str = "/api/v1/cluster/configuration";
    /// What the next round of its planner would do.
    pub const CLUSTER_PLAN: &str = "/api/v1/cluster/plan";
    /// What later rounds would do.
    pub const CLUSTER_SIMULATION: &str = "/api/v1/cluster/simulation";
    /// Why a machine is, or is not, in it.
    pub const CLUSTER_MACHINES: &str = "/api/v1/cluster/machines";
    /// Plans that were kept.
    pub const CLUSTER_PLANS: &str = "/api/v1/cluster/plans";
    /// How its planner is doing.
    pub const CLUSTER_STATUS: &str = "/api/v1/cluster/status";
    /// How large it may be.
    pub const CONSTRAINTS: &str = "/api/v1/constraints";
    /// Whether broken machines come into the repair queue by themselves.
    pub const AUTO_REPAIR_ENABLED: &str = "/api/v1/auto-repair/enabled";
    /// Which machines count as broken.
    pub const AUTO_REPAIR_VARIABLES: &str = "/api/v1/auto-repair/variables";
    /// What an operator chose about automatic repair.
    pub const AUTO_REPAIR_SETTINGS: &str = "/api/v1/auto-repair/settings";
    /// How repair is doing.
    pub const AUTO_REPAIR_STATUS: &str = "/api/v1/auto-repair/status";
    /// Why a machine is, or is not, being repaired.
    pub const AUTO_REPAIR_EXPLAIN: &str = "/api/v1/auto-repair/explain";
    /// Repairs.
    pub const REPAIR_QUEUE: &str = "/api/v1/repair-queue";
    /// Reboots.
    pub const REBOOT_QUEUE: &str = "/api/v1/reboot-queue";
    /// What failed together.
    pub const INCIDENTS: &str = "/api/v1/incidents";
    /// Version of the program.
    pub const VERSION: &str = "/version";
    /// Whether the server can do its work.
    pub const HEALTH: &str = "/health";
    /// This API as an OpenAPI document.
    pub const OPENAPI: &str = "/openapi.json";
}

/// The header that names who asks; recorded, never trusted.
pub const USER_HEADER: &str = "x-sabakan-user";

/// The header that carries a request's id through several services.
pub const REQUEST_ID_HEADER: &str = "x-cybozu-request-id";
