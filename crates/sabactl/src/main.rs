//! `sabactl`, the command line of sabakan. Reads arguments and environment here and nowhere else, then hands over to one file per
//! noun. Exit codes are in `exit.rs`, everything printed in `render.rs`.

mod args;
mod completion;
mod dhcp;
mod exit;
mod file;
mod filters;
mod ipam;
mod limits;
mod machines;
mod reference;
mod render;

use std::{env, process::ExitCode};

use args::{Cli, Command, Parsed};
use exit::Failure;
use sabakan_client::{Client, ClientOptions};

fn main() -> ExitCode {
    exit::end(run())
}

fn run() -> Result<(), Failure> {
    match args::parse(env::args_os())? {
        Parsed::Text(text) => render::print_text(&text),
        Parsed::Cli(cli) => dispatch(*cli),
    }
}

fn dispatch(cli: Cli) -> Result<(), Failure> {
    let connect = || connect(&cli.server);
    match cli.command {
        None => render::print_text(&args::help(&[], None)),
        Some(Command::Ipam { command: None }) => render::print_text(&args::help(&["ipam"], None)),
        Some(Command::Ipam { command: Some(command) }) => ipam::run(&connect()?, &command),
        Some(Command::Dhcp { command: None }) => render::print_text(&args::help(&["dhcp"], None)),
        Some(Command::Dhcp { command: Some(command) }) => dhcp::run(&connect()?, &command),
        Some(Command::Machines { command: None }) => render::print_text(&args::help(&["machines"], None)),
        Some(Command::Machines { command: Some(command) }) => machines::run(&connect()?, &command),
        Some(Command::Completion { shell }) => render::print_text(&completion::script(shell)),
        Some(Command::Version) => render::print_text(&args::version()),
        Some(Command::Reference) => render::print_text(&reference::page()),
    }
}

fn connect(server: &str) -> Result<Client, Failure> {
    let named = |variable| env::var(variable).ok().filter(|name| !name.is_empty());
    let options = ClientOptions { user: named("USER").or_else(|| named("LOGNAME")), ..ClientOptions::default() };
    Ok(Client::with_options(server, &options)?)
}
