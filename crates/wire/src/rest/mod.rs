//! JSON shapes of the REST API under `/api/v1/`.

mod config;
mod error;
mod machine;
mod query;

pub use config::{DhcpConfigJson, IpamConfigJson};
pub use error::{ErrorJson, ErrorKind};
pub use machine::{
    BmcInfoJson, BmcInput, BmcJson, FlatBmcJson, FlatNodeJson, InfoJson, InputError, MachineInput, MachineJson,
    NetworkJson, NicJson, SpecJson, StatusJson, machines_from_input,
};
pub use query::{QueryError, QueryParams};

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
