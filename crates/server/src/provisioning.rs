//! Wires provisioning: drivers, the table that chooses among them, the services that take wishes and the task that carries them out.

use std::{
    fs, io,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
};

use anyhow::Context as _;
use sabakan_domain::provision::accept::Options;
use sabakan_drivers::{
    Driver,
    ipmi::IpmiDriver,
    redfish::Redfish,
    simulated::{Fleet, SimulatedDriver},
};
use sabakan_service::{
    Allocations, ChassisService, Foundation, Nodes, Ports, Recipes, Vault,
    hardware::{BmcTypeRule, Hardware},
    seal::SharedRing,
    tasks::{
        allocator::Allocator,
        conductor::{Conductor, ConductorOptions},
    },
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

use crate::config::ListenAddress;

/// What provisioning has to know before it starts.
#[derive(Clone, Default)]
pub struct ProvisioningConfig {
    /// Addresses for the provisioning API; none if it is off.
    pub ironic: Vec<ListenAddress>,
    /// Which of these speak TLS.
    pub ironic_tls: IronicTls,
    /// Which driver talks to which BMC type, before the built-in table.
    pub bmc_types: Vec<BmcTypeRule>,
    /// What the site wants of the rules.
    pub rules: Options,
    /// How this server does the work; `None`: it leaves the work to others.
    pub conductor: Option<ConductorOptions>,
    /// The program that speaks IPMI.
    pub ipmitool: PathBuf,
    /// Simulated machines; `None`: there are none.
    pub fleet: Option<Fleet>,
}

/// Which addresses of the provisioning API speak TLS. Tokens and BMC passwords travel there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum IronicTls {
    /// Those that other hosts can reach.
    #[default]
    Auto,
    /// All.
    On,
    /// None.
    Off,
}

/// A word that names no such choice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none of auto, on, off")]
pub struct UnknownIronicTls(String);

impl IronicTls {
    /// Whether an address speaks TLS.
    pub fn is_on(self, address: &ListenAddress) -> bool {
        match self {
            IronicTls::Auto => !address.is_loopback(),
            IronicTls::On => true,
            IronicTls::Off => false,
        }
    }

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            IronicTls::Auto => "auto",
            IronicTls::On => "on",
            IronicTls::Off => "off",
        }
    }
}

impl FromStr for IronicTls {
    type Err = UnknownIronicTls;

    fn from_str(text: &str) -> Result<IronicTls, UnknownIronicTls> {
        match text {
            "auto" => Ok(IronicTls::Auto),
            // YAML has other words for these two.
            "on" | "true" | "yes" => Ok(IronicTls::On),
            "off" | "false" | "no" => Ok(IronicTls::Off),
            _ => Err(UnknownIronicTls(text.to_owned())),
        }
    }
}

/// The file in the data directory that tells servers apart which are called the same, as containers often are.
const SERVER_ID_FILE: &str = "server-id";

impl ProvisioningConfig {
    /// The same with a name for this server, if it does work and nobody named it: its host's name and a part of an id that is made
    /// once. Two servers on one etcd must not share a name, or histories would not tell them apart.
    pub fn named(&self, data_dir: &Path, host: &str) -> anyhow::Result<ProvisioningConfig> {
        let mut config = self.clone();
        if let Some(options) = config.conductor.as_mut().filter(|options| options.name.is_empty()) {
            options.name = server_name(data_dir, host)?;
        }
        Ok(config)
    }
}

/// The name of a server that nobody named.
pub fn server_name(data_dir: &Path, host: &str) -> anyhow::Result<String> {
    let id = server_id(data_dir)?;
    Ok(format!("{}-{id}", if host.is_empty() { "sabakan" } else { host }))
}

/// Reads the id, or makes it. Eight digits: servers that share a store can be counted on two hands.
fn server_id(data_dir: &Path) -> anyhow::Result<String> {
    let path = data_dir.join(SERVER_ID_FILE);
    let read = || fs::read_to_string(&path).map(|text| text.trim().to_owned());
    let is_id = |text: &String| text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match read() {
        Ok(id) if is_id(&id) => return Ok(id),
        Ok(_) => anyhow::bail!("{} is damaged; remove it, and another one is made", path.display()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot read {}", path.display()));
        }
        Err(_) => {}
    }
    let id: String = Uuid::new_v4().simple().to_string().chars().take(8).collect();
    // Whole or not at all: half an id would stop every later start.
    let draft = path.with_extension("new");
    let written = fs::write(&draft, format!("{id}\n")).and_then(|()| fs::rename(&draft, &path));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(id)
}

/// The parts of provisioning that requests need.
#[derive(Clone)]
pub struct Provisioning {
    /// Takes wishes about nodes.
    pub nodes: Arc<Nodes>,
    /// Takes wishes for nodes.
    pub allocations: Arc<Allocations>,
    /// Keeps lists of steps.
    pub recipes: Arc<Recipes>,
    /// Describes the ports of nodes.
    pub ports: Arc<Ports>,
    /// Describes the boxes nodes are in.
    pub chassis: Arc<ChassisService>,
}

/// Starts provisioning: from here on, stored wishes are carried out.
pub fn start(
    config: &ProvisioningConfig,
    foundation: &Arc<Foundation>,
    ring: &Arc<SharedRing>,
    tracker: &TaskTracker,
    stop: &CancellationToken,
) -> Provisioning {
    let hardware = Arc::new(Hardware::new(drivers(config), config.bmc_types.clone(), Vault::new(Arc::clone(ring))));
    let rules = Arc::new(config.rules.clone());
    if let Some(options) = &config.conductor {
        let (on, hardware) = (Arc::clone(foundation), Arc::clone(&hardware));
        let conductor = Arc::new(Conductor::new(on, hardware, Arc::clone(&rules), options.clone()));
        let callbacks = config.fleet.as_ref().map(Fleet::callbacks);
        tracker.spawn(conductor.run(callbacks, stop.clone()));
        let allocator = Allocator::new(Arc::clone(foundation), Arc::clone(&rules), &options.name);
        tracker.spawn(allocator.run(stop.clone()));
    }
    Provisioning {
        nodes: Arc::new(Nodes::new(Arc::clone(foundation), hardware, rules)),
        allocations: Arc::new(Allocations::new(Arc::clone(foundation))),
        recipes: Arc::new(Recipes::new(Arc::clone(foundation))),
        ports: Arc::new(Ports::new(Arc::clone(foundation))),
        chassis: Arc::new(ChassisService::new(Arc::clone(foundation))),
    }
}

fn drivers(config: &ProvisioningConfig) -> Vec<Arc<dyn Driver>> {
    let mut drivers: Vec<Arc<dyn Driver>> = vec![Arc::new(Redfish::new())];
    drivers.push(Arc::new(IpmiDriver::new(config.ipmitool.clone())));
    if let Some(fleet) = &config.fleet {
        drivers.push(Arc::new(SimulatedDriver { fleet: fleet.clone() }));
    }
    drivers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_one_host_have_different_names_that_stay() {
        let (first, second) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
        let config = ProvisioningConfig {
            conductor: Some(ConductorOptions { name: String::new(), ..ConductorOptions::default() }),
            ..ProvisioningConfig::default()
        };
        let name = |dir: &Path| config.named(dir, "boot-0").map(|config| config.conductor.expect("kept").name);
        let named = name(first.path()).expect("a name");
        assert!(named.starts_with("boot-0-") && named.len() == 15, "{named}");
        assert_eq!(name(first.path()).expect("a name"), named);
        assert_ne!(name(second.path()).expect("a name"), named);
        fs::write(first.path().join(SERVER_ID_FILE), "x").expect("written");
        assert!(name(first.path()).expect_err("damaged").to_string().contains("is damaged"));
        let given =
            ProvisioningConfig { conductor: Some(ConductorOptions::default()), ..ProvisioningConfig::default() };
        let kept = given.named(first.path(), "boot-0").expect("no id is needed").conductor.expect("kept").name;
        assert_eq!(kept, ConductorOptions::default().name);
    }
}
