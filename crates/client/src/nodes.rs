//! Nodes: the provisioning API, which has an address of its own. Its shapes are Ironic's; what this server says beyond them, above
//! all what a node waits for, is [`NodeStatusJson`].
//!
//! Reads leniently: fields of newer servers are kept as they are, absent ones are empty.

use sabakan_wire::ironic::{NodeStatusJson, VERSION_HEADER};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    client::{Client, encoded},
    error::Error,
    limits,
};

/// A server's provisioning API. Cheap to clone.
#[derive(Debug, Clone)]
pub struct NodesClient {
    client: Client,
}

/// A node as the API shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeJson {
    /// Its UUID.
    pub uuid: String,
    /// Its name: the serial of its machine.
    pub name: Option<String>,
    /// The driver that talks to its BMC.
    pub driver: Option<String>,
    /// Where it is.
    pub provision_state: Option<String>,
    /// Where it is heading.
    pub target_provision_state: Option<String>,
    /// Since when it is there.
    pub provision_updated_at: Option<String>,
    /// Power as last seen.
    pub power_state: Option<String>,
    /// A power change that is not done yet.
    pub target_power_state: Option<String>,
    /// Automation keeps its hands off.
    pub maintenance: bool,
    /// Why.
    pub maintenance_reason: Option<String>,
    /// Why the server itself set maintenance.
    pub fault: Option<String>,
    /// Why the last work failed.
    pub last_error: Option<String>,
    /// Who works on it.
    pub reservation: Option<String>,
    /// Everything else the server sent.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// One row of a node's history.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryRow {
    /// Identifies it.
    pub uuid: String,
    /// When.
    pub created_at: String,
    /// `INFO` or `ERROR`.
    pub severity: String,
    /// What happened.
    pub event: String,
    /// Who asked.
    pub user: Option<String>,
    /// Which server did it.
    pub conductor: Option<String>,
    /// The state it was in.
    pub state: Option<String>,
    /// How long it had been there.
    pub duration_seconds: Option<f64>,
    /// Everything else the server sent.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// Which nodes to list. The server answers each by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeFilter {
    /// In this state.
    pub state: Option<String>,
    /// With this driver.
    pub driver: Option<String>,
    /// In maintenance, or not.
    pub maintenance: Option<bool>,
}

/// A verb with its parameters.
#[derive(Clone, Default, PartialEq, Serialize)]
pub struct Order {
    /// The verb.
    pub target: String,
    /// What manual cleaning runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clean_steps: Option<Vec<StepJson>>,
    /// What deploying runs besides or instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deploy_steps: Option<Vec<StepJson>>,
    /// What servicing runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_steps: Option<Vec<StepJson>>,
    /// Run the steps without booting the ramdisk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_ramdisk: Option<bool>,
    /// For the temporary system of a rescue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rescue_password: Option<String>,
}

/// One step of an order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepJson {
    /// The interface that owns it.
    pub interface: String,
    /// Its name.
    pub step: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Map<String, Value>,
    /// Deploying only: where it goes among the others; 0 removes the default of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
}

/// One change of a node's description, as in JSON Patch.
#[derive(Clone, PartialEq, Serialize)]
pub struct Change {
    op: &'static str,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<Value>,
    #[serde(skip)]
    is_secret: bool,
}

impl Change {
    /// Sets a member, whether it was there or not.
    pub fn add(path: impl Into<String>, value: impl Into<Value>) -> Change {
        Change { op: "add", path: path.into(), value: Some(value.into()), is_secret: false }
    }

    /// Sets a member that nobody may read on the way.
    pub fn secret(path: impl Into<String>, value: String) -> Change {
        Change { is_secret: true, ..Change::add(path, value) }
    }

    /// Takes a member away.
    pub fn remove(path: impl Into<String>) -> Change {
        Change { op: "remove", path: path.into(), value: None, is_secret: false }
    }
}

const NODES: &str = "/v1/nodes";

/// The newest version both sides know: this client reads leniently and sends nothing an older one forbids.
const VERSION: &str = "latest";

impl NodesClient {
    /// Talks through a client whose URL is that of the provisioning API, such as `http://localhost:6385`.
    pub fn over(client: Client) -> NodesClient {
        NodesClient { client: client.with_header(VERSION_HEADER, VERSION) }
    }

    /// Its URL.
    pub fn base_url(&self) -> &str {
        self.client.base_url()
    }

    /// The nodes that match, with all their fields, in the server's order.
    pub fn list(&self, filter: &NodeFilter) -> Result<Vec<NodeJson>, Error> {
        let NodeFilter { state, driver, maintenance } = filter;
        let mut query = vec![("detail".to_owned(), "true".to_owned())];
        query.extend(state.iter().map(|state| ("provision_state".to_owned(), state.clone())));
        query.extend(driver.iter().map(|driver| ("driver".to_owned(), driver.clone())));
        query.extend(maintenance.map(|on| ("maintenance".to_owned(), on.to_string())));
        self.pages(NODES, "nodes", &query, |node: &NodeJson| &node.uuid)
    }

    /// One node, by name or UUID.
    pub fn get(&self, id: &str) -> Result<NodeJson, Error> {
        self.client.get_json(&below(id, ""))
    }

    /// What a node does and waits for, and who works on it.
    pub fn status(&self, id: &str) -> Result<NodeStatusJson, Error> {
        self.client.get_json(&below(id, "/sabakan"))
    }

    /// The same of every node that is not at rest, by name.
    pub fn statuses(&self) -> Result<Vec<NodeStatusJson>, Error> {
        self.pages("/v1/sabakan", "nodes", &[], |status: &NodeStatusJson| &status.name)
    }

    /// Asks for a verb. Once it is accepted, the node is on its way.
    pub fn order(&self, id: &str, order: &Order) -> Result<(), Error> {
        if order.rescue_password.is_some() {
            self.client.require_private("a password")?;
        }
        self.client.send_json("PUT", &below(id, "/states/provision"), order)
    }

    /// Asks for a power change, in the words of the API, such as `power on`.
    pub fn set_power(&self, id: &str, target: &str) -> Result<(), Error> {
        self.client.send_json("PUT", &below(id, "/states/power"), &serde_json::json!({ "target": target }))
    }

    /// Switches a machine off, also one whose ramdisk runs a command.
    pub fn force_power_off(&self, id: &str) -> Result<(), Error> {
        let body = serde_json::json!({ "target": "power off", "force": true });
        self.client.send_json("PUT", &below(id, "/states/power"), &body)
    }

    /// Keeps automation off a node.
    pub fn set_maintenance(&self, id: &str, reason: Option<&str>) -> Result<(), Error> {
        let body = reason.map_or_else(|| serde_json::json!({}), |reason| serde_json::json!({ "reason": reason }));
        self.client.send_json("PUT", &below(id, "/maintenance"), &body)
    }

    /// Lets automation back.
    pub fn clear_maintenance(&self, id: &str) -> Result<(), Error> {
        self.client.delete(&below(id, "/maintenance")).map(drop)
    }

    /// Changes what a node is described with: all of it or nothing.
    pub fn change(&self, id: &str, changes: &[Change]) -> Result<NodeJson, Error> {
        if changes.iter().any(|change| change.is_secret) {
            self.client.require_private("a secret of a BMC")?;
        }
        let path = below(id, "");
        self.client.decode(&path, &self.client.exchange_json("PATCH", &path, &changes)?)
    }

    /// The history of a node, in the server's order.
    pub fn history(&self, id: &str) -> Result<Vec<HistoryRow>, Error> {
        let query = [("detail".to_owned(), "true".to_owned())];
        self.pages(&below(id, "/history"), "history", &query, |row: &HistoryRow| &row.uuid)
    }

    /// What the last inspection of a node found. An error with status 404 if there was none.
    pub fn inventory(&self, id: &str) -> Result<Value, Error> {
        let path = below(id, "/inventory");
        self.client.decode(&path, &self.client.get(&path, &[], limits::INVENTORY_BYTES_MAX)?)
    }

    /// All pages of a list. The address of the next page is not followed but its meaning is: the server may be known to itself by
    /// another name than to us.
    fn pages<T: DeserializeOwned>(
        &self,
        path: &str,
        member: &'static str,
        query: &[(String, String)],
        id: impl Fn(&T) -> &String,
    ) -> Result<Vec<T>, Error> {
        let mut all: Vec<T> = Vec::new();
        for _ in 0..limits::PAGES_MAX {
            let mut page_query = query.to_vec();
            page_query.extend(all.last().map(|last| ("marker".to_owned(), id(last).clone())));
            let body = self.client.get(path, &page_query, limits::LIST_BYTES_MAX)?;
            let mut page: Map<String, Value> = self.client.decode(path, &body)?;
            let items = page.remove(member).unwrap_or_default();
            let items: Vec<T> = serde_json::from_value(items).map_err(|error| self.client.unexpected(path, &error))?;
            let is_last = items.is_empty() || page.get("next").is_none_or(Value::is_null);
            all.extend(items);
            if is_last {
                return Ok(all);
            }
        }
        Err(self.client.unexpected(path, &format!("it has more than {} pages", limits::PAGES_MAX)))
    }
}

fn below(id: &str, rest: &str) -> String {
    format!("{NODES}/{}{rest}", encoded(id))
}

/// The text of a refusal of this API: JSON in a text in JSON, or what is said to whom it does not know.
pub(crate) fn fault_text(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    if let Some(message) = body.pointer("/error/message") {
        return message.as_str().map(str::to_owned);
    }
    let fault = match body.get("error_message")? {
        Value::String(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone())),
        other => other.clone(),
    };
    fault.get("faultstring").unwrap_or(&fault).as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests;
