//! Verbs: asks for one, and waits for what it leads to.

use std::path::PathBuf;

use sabakan_client::{Error, NodesClient, Order};
use sabakan_domain::provision::states::State;

use super::{
    Patience, Targets,
    many::{self, Done},
    steps,
    wait::{self, Goal},
};
use crate::{events, exit::Failure, file, limits};

/// A verb without parameters.
#[derive(Debug, clap::Args)]
pub struct Plain {
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    targets: Targets,
}

/// A verb that takes steps.
#[derive(Debug, clap::Args)]
pub struct WithSteps {
    #[command(flatten)]
    steps: steps::Steps,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    targets: Targets,
}

#[derive(Debug, clap::Args)]
pub struct Rescue {
    /// File with the password for the temporary system; `-` is standard input
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    password_file: PathBuf,
    #[command(flatten)]
    patience: Patience,
    #[command(flatten)]
    targets: Targets,
}

/// Asks for a verb without parameters.
pub fn run(client: &NodesClient, verb: &str, plain: &Plain) -> Result<(), Failure> {
    let order = Order { target: verb.to_owned(), ..Order::default() };
    give(client, &order, &plain.targets, &plain.patience)
}

/// Asks for a verb with steps.
pub fn run_with_steps(client: &NodesClient, verb: &str, asked: &WithSteps) -> Result<(), Failure> {
    let order = asked.steps.order(verb)?;
    give(client, &order, &asked.targets, &asked.patience)
}

/// Asks for a rescue.
pub fn run_rescue(client: &NodesClient, rescue: &Rescue) -> Result<(), Failure> {
    let password = file::read_secret(&rescue.password_file)?;
    let order = Order { target: "rescue".to_owned(), rescue_password: Some(password), ..Order::default() };
    give(client, &order, &rescue.targets, &rescue.patience)
}

fn give(client: &NodesClient, order: &Order, targets: &Targets, patience: &Patience) -> Result<(), Failure> {
    many::each(targets, |id, board| {
        repeated(|| client.order(id, order))?;
        if !patience.wait {
            return Ok(Done::of(&client.get(id).map_err(Failure::from_node)?));
        }
        let node = wait::until(client, id, goal(&order.target), patience.limit(), board)?;
        Ok(Done::of(&node))
    })
}

/// Where a verb leads when all goes well.
pub fn goal(verb: &str) -> Goal {
    match verb {
        "manage" | "inspect" | "clean" => Goal::State(State::Manageable),
        "provide" | "deleted" => Goal::State(State::Available),
        "active" | "rebuild" | "unrescue" | "adopt" | "service" => Goal::State(State::Active),
        "rescue" => Goal::State(State::Rescue),
        "abort" => Goal::End,
        _ => Goal::Rest,
    }
}

/// Sends a wish, and again if somebody works on the node at this moment: such a refusal changed nothing and is over soon.
pub fn repeated(send: impl Fn() -> Result<(), Error>) -> Result<(), Failure> {
    for _ in 1..limits::BUSY_ATTEMPTS {
        match send() {
            Err(error) if matches!(error.status(), Some(409 | 503)) => events::wait(limits::BUSY_PAUSE),
            other => return other.map_err(Failure::from_node),
        }
    }
    send().map_err(Failure::from_node)
}
