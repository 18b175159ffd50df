//! JSON shapes of the REST API under `/api/v1/`.

mod audit;
mod config;
mod error;
mod event;
mod machine;
mod query;
mod token;

pub use audit::AuditLogJson;
pub use config::{DhcpConfigJson, IpamConfigJson};
pub use error::{ErrorJson, ErrorKind};
pub use event::{EventActorJson, EventHead, EventJson, EventMarkJson, event_kinds};
pub use machine::{
    BmcInfoJson, BmcInput, BmcJson, FlatBmcJson, FlatNodeJson, InfoJson, InputError, MachineInput, MachineJson,
    NetworkJson, NicJson, SpecJson, StatusJson, machines_from_input,
};
pub use query::{QueryError, QueryParams};
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
