//! Which driver talks to which machine, with which settings: by the node's own choice, otherwise by the BMC type of its machine.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use sabakan_domain::{
    machine::Machine,
    provision::{
        self,
        accept::Offered,
        interfaces::{self, Slot},
        node::{Node, Work},
    },
};
use sabakan_drivers::{Bmc, Driver, DriverError, Secret, Settings, agent};
use serde_json::Value;

use crate::{ServiceError, vault::Vault};

/// Machines of one BMC type.
#[derive(Debug, Clone)]
pub struct BmcTypeRule {
    /// The type; a trailing `*` stands for anything.
    pub bmc_type: String,
    /// The driver for it.
    pub driver: String,
    /// Settings every such machine has unless its node says otherwise.
    pub settings: BTreeMap<String, Value>,
    /// Secret ones.
    pub secrets: BTreeMap<String, Secret>,
}

/// All drivers and the table that chooses among them.
pub struct Hardware {
    drivers: BTreeMap<&'static str, Arc<dyn Driver>>,
    rules: Vec<BmcTypeRule>,
    secret_settings: BTreeSet<&'static str>,
    vault: Vault,
}

/// Types every site may have. Rules of the configuration come first.
pub const BUILT_IN_TYPES: &[(&str, &str)] = &[
    ("iDRAC*", "redfish"),
    ("iLO*", "redfish"),
    ("Redfish*", "redfish"),
    ("XCC*", "redfish"),
    ("IPMI*", "ipmi"),
    ("simulated", "fake-hardware"),
    ("fake-hardware", "fake-hardware"),
];

/// A driver and what it needs to reach one machine.
pub struct Chosen {
    /// The driver.
    pub driver: Arc<dyn Driver>,
    /// Its settings for this machine.
    pub settings: Settings,
}

impl Chosen {
    /// Prepares to talk to the controller.
    pub fn connect(&self) -> Result<Arc<dyn Bmc>, DriverError> {
        self.driver.connect(&self.settings)
    }
}

impl Hardware {
    /// Chooses among `drivers` by `rules` first, then by the built-in table.
    pub fn new(drivers: Vec<Arc<dyn Driver>>, rules: Vec<BmcTypeRule>, vault: Vault) -> Hardware {
        let secret_settings = drivers.iter().flat_map(|driver| driver.secret_settings()).copied().collect();
        let drivers = drivers.into_iter().map(|driver| (driver.name(), driver)).collect();
        Hardware { drivers, rules, secret_settings, vault }
    }

    /// Every driver, by name.
    pub fn drivers(&self) -> impl Iterator<Item = &Arc<dyn Driver>> {
        self.drivers.values()
    }

    /// Settings that some driver calls secret. A setting stays secret whatever driver its node has at the moment.
    pub fn secret_settings(&self) -> &BTreeSet<&'static str> {
        &self.secret_settings
    }

    /// Seals and opens credentials.
    pub fn vault(&self) -> &Vault {
        &self.vault
    }

    /// The driver of a node.
    pub fn driver_of(&self, node: &Node, machine: Option<&Machine>) -> Result<&Arc<dyn Driver>, ServiceError> {
        let by_type = machine.map(|machine| machine.bmc.kind.as_str());
        let name = match (&node.driver, by_type) {
            (Some(name), _) => name.as_str(),
            (None, Some(kind)) => self.driver_of_type(kind).ok_or_else(|| no_driver(kind))?,
            (None, None) => {
                return Err(ServiceError::Invalid(format!("node {} has no driver and no machine", node.name)));
            }
        };
        let known = || self.drivers.keys().copied().collect::<Vec<_>>().join(", ");
        let driver = self.drivers.get(name);
        driver.ok_or_else(|| ServiceError::Invalid(format!("there is no driver {name:?}; known: {}", known())))
    }

    /// What the driver of a node offers.
    pub fn offered(&self, node: &Node, machine: Option<&Machine>) -> Result<Offered<'static>, ServiceError> {
        let driver = self.driver_of(node, machine)?;
        let chosen = &node.details.interfaces;
        let ramdisk = match interfaces::effective(chosen, Some(driver.name()), Slot::Deploy) {
            _ if !provision::agent::works(chosen, Some(driver.name())) => driver.ramdisk_steps(),
            Some("custom-agent") => agent::WITHOUT_IMAGE,
            _ => agent::WITH_IMAGE,
        };
        let inspects_in_band = provision::agent::inspects(chosen, Some(driver.name()));
        Ok(Offered { out_of_band: driver.steps(), ramdisk, inspects_in_band, driver: Some(driver.name()) })
    }

    /// Whether the ramdisk of a node is an agent that calls and is called over HTTP.
    pub fn has_agent(&self, node: &Node, machine: Option<&Machine>) -> bool {
        let Ok(driver) = self.driver_of(node, machine) else { return false };
        let chosen = &node.details.interfaces;
        let inspection = node.operation.as_ref().is_some_and(|operation| operation.work == Work::Inspect);
        if inspection {
            provision::agent::inspects(chosen, Some(driver.name()))
        } else {
            provision::agent::works(chosen, Some(driver.name()))
        }
    }

    /// The driver of a node with everything it needs. The node's own settings come first, then those of its BMC type, then the
    /// address in the registry.
    pub async fn choose(&self, node: &Node, machine: Option<&Machine>) -> Result<Chosen, ServiceError> {
        let driver = Arc::clone(self.driver_of(node, machine)?);
        let mut settings = Settings { machine: node.name.to_string(), ..Settings::default() };
        let rule = machine.and_then(|machine| self.rule_of(machine.bmc.kind.as_str()));
        if let Some(machine) = machine {
            // 0.0.0.0 would be this server itself.
            let address = machine.bmc.address().map(|address| Value::String(address.to_string()));
            let key = match driver.name() {
                "redfish" => Some("redfish_address"),
                "ipmi" => Some("ipmi_address"),
                _ => None,
            };
            settings.values.extend(key.map(str::to_owned).zip(address));
        }
        if let Some(rule) = rule.filter(|rule| rule.driver == driver.name()) {
            settings.values.extend(rule.settings.clone());
            settings.secrets.extend(rule.secrets.clone());
        }
        settings.values.extend(node.driver_info.clone());
        for (setting, sealed) in &node.driver_secrets {
            let secret = self.vault.open(&node.name, setting, sealed).await?;
            settings.secrets.insert(setting.clone(), secret);
        }
        Ok(Chosen { driver, settings })
    }

    fn rule_of(&self, kind: &str) -> Option<&BmcTypeRule> {
        self.rules.iter().find(|rule| matches(&rule.bmc_type, kind))
    }

    fn driver_of_type(&self, kind: &str) -> Option<&str> {
        let built_in = || BUILT_IN_TYPES.iter().find(|(pattern, _)| matches(pattern, kind)).map(|(_, driver)| *driver);
        self.rule_of(kind).map(|rule| rule.driver.as_str()).or_else(built_in)
    }
}

fn matches(pattern: &str, kind: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => kind.starts_with(start),
        None => kind == pattern,
    }
}

fn no_driver(kind: &str) -> ServiceError {
    ServiceError::Invalid(format!(
        "no driver is known for the BMC type {kind:?}; add it to `bmc-types` of the configuration, or set the node's driver"
    ))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn types_are_matched_whole_or_by_their_beginning() {
        for (pattern, kind, expected) in [
            ("iDRAC*", "iDRAC-9", true),
            ("iDRAC*", "idrac", false),
            ("x", "x", true),
            ("x", "xy", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, kind), expected, "{pattern} {kind}");
        }
    }
}
