//! `sabactl nodes power`.

use clap::ValueEnum;
use sabakan_client::NodesClient;
use sabakan_domain::provision::power::PowerTarget;

use super::{
    Patience, Targets,
    many::{self, Done},
    orders,
    wait::{self, Goal},
};
use crate::exit::Failure;

#[derive(Debug, clap::Args)]
pub struct Power {
    /// What to do
    #[arg(value_enum)]
    action: Action,
    /// With `off`: cut the power although the ramdisk runs a command; its disks may be left half written
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    targets: Targets,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Action {
    /// Switch on
    On,
    /// Switch off at once
    Off,
    /// Off and on again
    Reboot,
    /// Ask the operating system to shut down
    SoftOff,
    /// Ask the operating system to restart
    SoftReboot,
}

impl Action {
    fn target(self) -> PowerTarget {
        match self {
            Action::On => PowerTarget::On,
            Action::Off => PowerTarget::Off,
            Action::Reboot => PowerTarget::Reboot,
            Action::SoftOff => PowerTarget::SoftOff,
            Action::SoftReboot => PowerTarget::SoftReboot,
        }
    }
}

/// Does what the command says.
pub fn run(client: &NodesClient, power: &Power) -> Result<(), Failure> {
    let target = power.action.target();
    if power.force && target != PowerTarget::Off {
        return Err(Failure::general("--force goes with `off` alone"));
    }
    many::each(&power.targets, |id, board| {
        if power.force {
            orders::repeated(|| client.force_power_off(id))?;
        } else {
            orders::repeated(|| client.set_power(id, target.as_str()))?;
        }
        if !power.patience.wait {
            return Ok(Done::of(&client.get(id).map_err(Failure::from_node)?).saying(format!("{target} is asked for")));
        }
        let node = wait::until(client, id, Goal::Power(target), power.patience.limit(), board)?;
        Ok(Done::of(&node).saying(node.power_state.clone().unwrap_or_default()))
    })
}
