//! The provisioning API: the shapes OpenStack's bare metal clients send and read, version by version.
//!
//! Which member exists since when stands in [`NodeField`]; answers and requests both ask it. [`Version`] is the minor number of the
//! version a request speaks.

mod error;
mod input;
mod listing;
mod node;
mod other;
mod ours;
mod patch;
mod states;
mod version;

pub use error::{Refused, error_text, framework_text};
pub use input::{NodeInput, parse_bool};
pub use listing::{NodeListing, Page, drop_query, parse_pairs};
pub use node::{NodeAnswer, NodeField, NodeParts};
pub use other::{
    ConductorJson, DriverJson, HistoryJson, LinkJson, ValidationJson, collection_links, links, root, root_v1,
};
pub use ours::{NodeStatusJson, OperationJson, StepJson, WaitingJson};
pub use patch::{Operation, PatchOp, apply as apply_patch, parse as parse_patch};
pub use states::{
    BootDeviceJson, MaintenanceRequest, PowerRequest, ProvisionRequest, StatesJson, TraitsJson, verb_since,
};
pub use version::{
    API_VERSION, MAX_VERSION_HEADER, MIN_VERSION_HEADER, REQUEST_ID, VERSION_HEADER, Version, VersionError,
};

/// A moment, as this API writes it.
pub fn time(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string()
}
