//! `sabactl`, the command line of sabakan. Reads arguments and environment here and nowhere else, then hands over to one file per
//! noun. Exit codes are in `exit.rs`, everything printed in `render.rs`.

mod args;
mod auto_repair;
mod cluster;
mod completion;
mod constraints;
mod crypts;
mod dhcp;
mod events;
mod exit;
mod file;
mod filters;
mod incidents;
mod ipam;
mod limits;
mod logs;
mod machines;
mod nodes;
mod output;
mod reboot_queue;
mod reference;
mod render;
mod repair_queue;
mod tokens;

use std::{env, path::Path, process::ExitCode};

use args::{Cli, Command, Parsed};
use exit::Failure;
use sabakan_client::{BearerToken, Client, ClientOptions, Trust};

fn main() -> ExitCode {
    exit::end(run())
}

fn run() -> Result<(), Failure> {
    match args::parse(env::args_os())? {
        Parsed::Text(text) => render::print_text(&text),
        Parsed::Cli(cli) => dispatch(*cli),
    }
}

fn dispatch(mut cli: Cli) -> Result<(), Failure> {
    let command = cli.command.take();
    let connect = || connect(&cli, &cli.server);
    match command {
        None => render::print_text(&args::help(&[], None)),
        Some(Command::Ipam { command: None }) => render::print_text(&args::help(&["ipam"], None)),
        Some(Command::Ipam { command: Some(command) }) => ipam::run(&connect()?, &command),
        Some(Command::Dhcp { command: None }) => render::print_text(&args::help(&["dhcp"], None)),
        Some(Command::Dhcp { command: Some(command) }) => dhcp::run(&connect()?, &command),
        Some(Command::Machines { command: None }) => render::print_text(&args::help(&["machines"], None)),
        Some(Command::Machines { command: Some(command) }) => machines::run(&connect()?, &command),
        Some(Command::Nodes(nodes)) if nodes.command.is_none() => render::print_text(&args::help(&["nodes"], None)),
        Some(Command::Nodes(nodes)) => nodes::run(self::connect(&cli, &nodes.server(&cli.server))?, nodes),
        Some(Command::Crypts { command: None }) => render::print_text(&args::help(&["crypts"], None)),
        Some(Command::Crypts { command: Some(command) }) => {
            let server = cli.older.tls_server.as_ref().unwrap_or(&cli.server);
            crypts::run(&self::connect(&cli, server)?, &command)
        }
        Some(Command::Cluster { command: None }) => render::print_text(&args::help(&["cluster"], None)),
        Some(Command::Cluster { command: Some(command) }) => {
            cluster::run(&connect()?, &command, env::var_os("NO_COLOR").is_none())
        }
        Some(Command::Constraints { command: None }) => render::print_text(&args::help(&["constraints"], None)),
        Some(Command::Constraints { command: Some(command) }) => constraints::run(&connect()?, &command),
        Some(Command::AutoRepair { command: None }) => render::print_text(&args::help(&["auto-repair"], None)),
        Some(Command::AutoRepair { command: Some(command) }) => auto_repair::run(&connect()?, &command),
        Some(Command::RepairQueue { command: None }) => render::print_text(&args::help(&["repair-queue"], None)),
        Some(Command::RepairQueue { command: Some(command) }) => repair_queue::run(&connect()?, &command),
        Some(Command::RebootQueue { command: None }) => render::print_text(&args::help(&["reboot-queue"], None)),
        Some(Command::RebootQueue { command: Some(command) }) => reboot_queue::run(&connect()?, &command),
        Some(Command::Incidents { command: None }) => render::print_text(&args::help(&["incidents"], None)),
        Some(Command::Incidents { command: Some(command) }) => incidents::run(&connect()?, &command),
        Some(Command::Events(events)) => events::run(&connect()?, &events),
        Some(Command::Logs(logs)) => logs::run(&connect()?, &logs),
        Some(Command::Tokens { command: None }) => render::print_text(&args::help(&["tokens"], None)),
        Some(Command::Tokens { command: Some(command) }) => tokens::run(&connect()?, &command),
        Some(Command::Completion { shell }) => render::print_text(&completion::script(shell)),
        Some(Command::Version) => render::print_text(&args::version()),
        Some(Command::Reference) => render::print_text(&reference::page()),
    }
}

fn connect(cli: &Cli, server: &str) -> Result<Client, Failure> {
    if cli.older.insecure && server.starts_with("https://") {
        exit::note("--insecure has no effect: servers are always verified. Name their certificates with --ca-file.\n");
    }
    let named = |variable| env::var(variable).ok().filter(|name| !name.is_empty());
    let token = match &cli.token_file {
        Some(path) => Some(read_token(path)?),
        None => named("SABAKAN_TOKEN").map(|text| BearerToken::new(&text)),
    };
    let user = named("USER").or_else(|| named("LOGNAME"));
    let trust = cli.ca_file.clone().map_or(Trust::System, Trust::File);
    Ok(Client::with_options(server, &ClientOptions { user, token, trust, ..ClientOptions::default() })?)
}

/// There is no flag for the token itself: everybody on this machine can read a command line.
fn read_token(path: &Path) -> Result<BearerToken, Failure> {
    let bytes = file::read_bytes(path, limits::TOKEN_FILE_BYTES_MAX)?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::file(&file::name(path), "it is not text"))?;
    Ok(BearerToken::new(&text))
}
