//! The provisioning API: the shapes OpenStack's bare metal clients send and read, version by version.
//!
//! Which member exists since when stands in [`NodeField`]; answers and requests both ask it. [`Version`] is the minor number of the
//! version a request speaks.

mod agent;
mod allocation;
mod answer;
mod chassis;
mod control;
mod document;
mod error;
mod field;
mod input;
mod listing;
mod nesting;
mod node;
mod other;
mod ours;
mod patch;
mod port;
mod port_group;
mod recipe;
mod states;
mod version;
mod vif;

pub use agent::{HeartbeatRequest, LookupQuery, inspected_node, lookup_json};
pub use allocation::{AllocationEdit, AllocationField, AllocationInput, AllocationListing};
pub use answer::{Answer, Show};
pub use chassis::{ChassisField, ChassisInput, ChassisListing};
pub use control::{
    BootModeRequest, ConsoleJson, ConsoleRequest, EventsRequest, IndicatorJson, IndicatorRequest, RaidRequest,
    SecureBootRequest, VendorMethodJson, indicator_name, parameters,
};
pub use document::{Document, parse_bool, parse_uuid};
pub use error::{Refused, error_text, framework_text};
pub use field::{Field, check_since};
pub use input::NodeInput;
pub use listing::{Listing, NodeListing, Page, drop_query, parse_pairs, unexpected, unsortable};
pub use nesting::{NESTING_MAX, nesting};
pub use node::{NodeAnswer, NodeField, NodeParts};
pub use other::{
    ConductorJson, DriverJson, HistoryJson, LinkJson, ShardJson, ValidationJson, collection_links, links, root, root_v1,
};
pub use ours::{NodeStatusJson, NodeStatusesJson, OperationJson, StepJson, WaitingJson};
pub use patch::{Operation, PatchOp, parse as parse_patch};
pub use port::{PortField, PortInput, PortListing};
pub use port_group::{PortGroupField, PortGroupInput, PortGroupListing};
pub use recipe::{
    RecipeInput, RecipeListing, Runbook, RunbookField, RunbookInput, Template, TemplateField, TemplateInput,
};
pub use states::{BootDeviceJson, MaintenanceRequest, PowerRequest, ProvisionRequest, StatesJson, TraitsJson};
pub use version::{
    API_VERSION, MAX_VERSION_HEADER, MIN_VERSION_HEADER, REQUEST_ID, VERSION_HEADER, Version, VersionError,
};
pub use vif::{parse_vif, vifs_json};

/// A moment, as this API writes it.
pub fn time(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string()
}
