//! `sabactl machines remove`: one machine, or all that are retired.

use sabakan_client::Client;
use sabakan_domain::lifecycle::HealthState;
use sabakan_wire::rest::QueryParams;

use crate::{
    exit::{self, Failure},
    render,
};

pub const EXAMPLES: &str = "Examples:
  sabactl machines remove 1234abcd
  sabactl machines remove --state retired   all that are retired, naming each";

#[derive(Debug, clap::Args)]
pub struct Remove {
    /// Its serial
    #[arg(required_unless_present = "state", conflicts_with = "state")]
    serial: Option<String>,
    /// Remove every machine in this state
    #[arg(long, value_parser = [HealthState::Retired.as_str()])]
    state: Option<String>,
}

/// Does what the command says.
pub fn run(client: &Client, remove: &Remove) -> Result<(), Failure> {
    match (&remove.serial, &remove.state) {
        (Some(serial), _) => Ok(client.remove_machine(serial)?),
        (None, state) => remove_all(client, state.as_deref().unwrap_or_default()),
    }
}

/// One that cannot be removed, because somebody brought it back meanwhile, does not keep the others.
fn remove_all(client: &Client, state: &str) -> Result<(), Failure> {
    let mut query = QueryParams::default();
    query.push("state", state);
    let machines = match client.list_machines(&query) {
        Ok(machines) => machines,
        Err(error) if error.status() == Some(404) && error.json().is_some() => {
            exit::note(&format!("No machine is {state}.\n"));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let mut failed: Option<Failure> = None;
    let mut left = 0;
    for machine in &machines {
        let serial = &machine.spec.serial;
        match client.remove_machine(serial) {
            Ok(()) => render::print_text(&format!("removed {serial}\n"))?,
            Err(error) => {
                exit::note(&format!("{serial} is not removed: {error}\n"));
                left += 1;
                failed.get_or_insert(error.into());
            }
        }
    }
    let Some(first) = failed else { return Ok(()) };
    Err(Failure { text: format!("{left} of {} machines are not removed", machines.len()), ..first })
}
