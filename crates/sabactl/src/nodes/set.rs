//! `sabactl nodes set` and `sabactl nodes maintenance`: what people say about a node. Secrets come from files, because everybody on
//! this machine can read a command line.

use std::path::PathBuf;

use clap::Subcommand;
use sabakan_client::{Change, NodesClient};

use super::{
    Targets,
    many::{self, Done},
    orders, steps,
};
use crate::{exit::Failure, file};

pub const EXAMPLES: &str = "Examples:
  sabactl nodes set 1234abcd --driver redfish --driver-info redfish_username=root \\
      --driver-secret redfish_password=bmc.password
  sabactl nodes set 1234abcd --driver-info redfish_verify_ca=false
  sabactl nodes set 1234abcd --remove-driver-info redfish_username --remove-driver-info redfish_password
  sabactl nodes set 1234abcd --automated-clean false";

#[derive(Debug, clap::Args)]
pub struct Set {
    /// The driver that talks to its BMC, such as redfish, ipmi or fake-hardware
    #[arg(long, value_name = "NAME")]
    driver: Option<String>,
    /// How to reach its BMC, may be given repeatedly; values are JSON where they can be, otherwise text
    #[arg(long, value_name = "KEY=VALUE", value_parser = info)]
    driver_info: Vec<(String, String)>,
    /// A secret of its BMC, read from a file; `-` is standard input
    #[arg(long, value_name = "KEY=FILE", value_parser = pair)]
    driver_secret: Vec<(String, String)>,
    /// Forget what was said about its BMC
    #[arg(long, value_name = "KEY")]
    remove_driver_info: Vec<String>,
    /// Whether it is cleaned before it becomes available; default: as the server is configured
    #[arg(long, value_name = "CHOICE", value_parser = ["true", "false", "default"])]
    automated_clean: Option<String>,
    /// Refuse to take its workload away, for this reason
    #[arg(long, value_name = "REASON")]
    protect: Option<String>,
    /// Allow it again
    #[arg(long, conflicts_with = "protect")]
    unprotect: bool,
    #[command(flatten)]
    targets: Targets,
}

#[derive(Debug, Subcommand)]
pub enum Maintenance {
    /// Keep automation off nodes: no new work, no deadlines, no reading of their power
    #[command(after_help = "Example:\n  sabactl nodes maintenance set --reason 'fan replaced on Monday' 1234abcd")]
    Set {
        /// Why, for people
        #[arg(long)]
        reason: Option<String>,
        #[command(flatten)]
        targets: Targets,
    },
    /// Let automation back
    #[command(after_help = "Example:\n  sabactl nodes maintenance clear 1234abcd")]
    Clear {
        #[command(flatten)]
        targets: Targets,
    },
}

/// Does what the command says.
pub fn run(client: &NodesClient, set: &Set) -> Result<(), Failure> {
    let changes = set.changes()?;
    many::each(&set.targets, |id, _| {
        orders::repeated(|| client.change(id, &changes).map(drop))?;
        Ok(Done::of(&client.get(id).map_err(Failure::from_node)?).saying("set"))
    })
}

/// Does what the command says.
pub fn run_maintenance(client: &NodesClient, command: &Maintenance) -> Result<(), Failure> {
    match command {
        Maintenance::Set { reason, targets } => many::each(targets, |id, _| {
            orders::repeated(|| client.set_maintenance(id, reason.as_deref()))?;
            Ok(Done::of(&client.get(id).map_err(Failure::from_node)?).saying("in maintenance"))
        }),
        Maintenance::Clear { targets } => many::each(targets, |id, _| {
            orders::repeated(|| client.clear_maintenance(id))?;
            Ok(Done::of(&client.get(id).map_err(Failure::from_node)?).saying("not in maintenance"))
        }),
    }
}

impl Set {
    fn changes(&self) -> Result<Vec<Change>, Failure> {
        let mut changes = Vec::new();
        changes.extend(self.driver.iter().map(|driver| Change::add("/driver", driver.as_str())));
        let member = |key: &str| format!("/driver_info/{key}");
        changes.extend(self.driver_info.iter().map(|(key, value)| Change::add(member(key), steps::value_of(value))));
        for (key, path) in &self.driver_secret {
            changes.push(Change::secret(member(key), file::read_secret(&PathBuf::from(path))?));
        }
        changes.extend(self.remove_driver_info.iter().map(|key| Change::remove(member(key))));
        changes.extend(self.automated_clean.as_deref().map(|choice| match choice {
            "default" => Change::remove("/automated_clean"),
            choice => Change::add("/automated_clean", choice == "true"),
        }));
        if let Some(reason) = &self.protect {
            changes.extend([Change::add("/protected", true), Change::add("/protected_reason", reason.as_str())]);
        }
        if self.unprotect {
            changes.push(Change::add("/protected", false));
        }
        if changes.is_empty() {
            return Err(Failure::general("nothing is given to set; sabactl nodes set --help lists what can be"));
        }
        Ok(changes)
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("KEY=… is expected")?;
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if key.is_empty() || !key.chars().all(valid) {
        return Err("the key must be letters, digits, _ and -".to_owned());
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// Like [`pair`], but not for secrets.
fn info(text: &str) -> Result<(String, String), String> {
    let (key, value) = pair(text)?;
    if ["password", "secret", "token"].iter().any(|word| key.contains(word)) {
        return Err(format!("a secret must not stand on the command line; use --driver-secret {key}=FILE"));
    }
    Ok((key, value))
}
