//! The command line of `sabakan`.

#[cfg(test)]
mod tests;

use std::{ffi::OsString, path::PathBuf, process::ExitCode, sync::Arc};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use sabakan_service::{Clock as _, SystemClock};
use sabakan_wire::flags::double_dashes;

use crate::{
    config::{self, Flags, ServerConfig},
    demo, http, keys, logging, maintenance, reference, run,
};

/// Looks after every physical server of a data centre, from racking to scrapping.
///
/// Without a command the server starts. It keeps its data in one file under --data-dir unless --etcd-endpoints names an etcd
/// cluster.
#[derive(Parser)]
#[command(
    name = "sabakan",
    version,
    after_help = "Examples:\n  sabakan demo                                  try it with two racks of simulated machines\n  sabakan --data-dir /var/lib/sabakan           run it on this machine alone\n  sabakan --etcd-endpoints http://10.0.0.1:2379 run it highly available\n  sabakan config check --config-file sabakan.yml"
)]
struct Cli {
    #[command(flatten)]
    flags: Flags,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Run the server on a temporary store with two racks of machines, to look around
    Demo,
    /// Work with the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Check, copy and move stored data; the server must not be running on an embedded store
    #[command(subcommand)]
    Store(StoreCommand),
    /// The keys that disk keys are sealed under; an embedded store must not be in use by a server
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Print a generated page of the documentation
    #[command(hide = true)]
    Reference {
        /// Which page
        page: reference::Page,
    },
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Validate flags and file, and print what they mean
    Check,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// Show the ids of the keys in the key file
    List,
    /// Make a new key and seal every stored disk key under it
    Rotate,
    /// Drop a key that no stored disk key needs any more
    Forget {
        /// Its id
        id: String,
    },
}

#[derive(Subcommand)]
enum StoreCommand {
    /// Look for damage and contradictions; changes nothing. Exit code 1 when something was found
    Check,
    /// Write everything as JSON lines
    #[command(
        after_help = "Example, moving to etcd:\n  sabakan store export --out all.jsonl\n  sabakan store import --etcd-endpoints http://10.0.0.1:2379 --in all.jsonl"
    )]
    Export {
        /// The file to write; `-` is the standard output
        #[arg(long, default_value = "-")]
        out: PathBuf,
        /// Of a damaged data file, write what is readable and list the rest, also in `<FILE>.salvage.json`. Exit code 3 when
        /// something is lost
        #[arg(long)]
        salvage: bool,
    },
    /// Read what `export` wrote into an empty store
    Import {
        /// The file to read
        #[arg(long = "in", value_name = "FILE")]
        input: PathBuf,
    },
}

/// Runs the program.
pub fn main() -> ExitCode {
    let outcome = match parse(std::env::args_os()) {
        Ok(cli) => dispatch(cli),
        Err(error) => error.exit(),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("Error: {error:#}");
        ExitCode::FAILURE
    })
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let command = command();
    let args = double_dashes(args, &long_flags(&command));
    command.try_get_matches_from(args).and_then(|matches| Cli::from_arg_matches(&matches))
}

/// The flags of the server may stand before or after a command.
fn command() -> clap::Command {
    Cli::command().mut_args(|arg| arg.global(true))
}

/// Every long flag, hidden spellings included.
fn long_flags(command: &clap::Command) -> Vec<String> {
    let names = |arg: &clap::Arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long().into_iter().chain(aliases).map(str::to_owned).collect::<Vec<_>>()
    };
    command.get_arguments().flat_map(names).collect()
}

fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        None => serve(cli.flags),
        Some(Command::Demo) => demo::run(cli.flags),
        Some(Command::Config(ConfigCommand::Check)) => {
            print!("{}", config::describe(&load(cli.flags)?));
            Ok(ExitCode::SUCCESS)
        }
        Some(Command::Store(command)) => {
            let config = load(cli.flags)?;
            match command {
                StoreCommand::Check => maintenance::check(&config),
                StoreCommand::Export { out, salvage: true } => maintenance::salvage(&config, &out),
                StoreCommand::Export { out, salvage: false } => maintenance::export(&config, &out),
                StoreCommand::Import { input } => maintenance::import(&config, &input),
            }
        }
        Some(Command::Keys(command)) => {
            let config = load(cli.flags)?;
            match command {
                KeysCommand::List => keys::list(&config),
                KeysCommand::Rotate => keys::rotate(&config),
                KeysCommand::Forget { id } => keys::forget(&config, &id),
            }
        }
        Some(Command::Reference { page }) => {
            print!("{}", reference::page(page));
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn serve(flags: Flags) -> anyhow::Result<ExitCode> {
    let config = load(flags)?;
    prepare(&config)?;
    run::block_on(async {
        let mut signals = run::StopSignals::listen()?;
        let server = tokio::select! {
            server = run::Server::start(&config, Arc::new(SystemClock)) => server?,
            signal = signals.received() => {
                tracing::info!(signal, "stopped before it served");
                return Ok(ExitCode::SUCCESS);
            }
        };
        let signal = signals.received().await;
        tracing::info!(signal, "stopping");
        server.stop().await;
        Ok(ExitCode::SUCCESS)
    })
}

/// Reads and validates the configuration. The environment is read here and nowhere else.
pub(crate) fn load(flags: Flags) -> anyhow::Result<ServerConfig> {
    Ok(ServerConfig::load(flags, &|name| std::env::var(name).ok())?)
}

/// What has to be set once in a process that serves: where logs go, how many files may be open, and which cryptography TLS uses.
pub(crate) fn prepare(config: &ServerConfig) -> anyhow::Result<()> {
    logging::init(&config.log, || SystemClock.now())?;
    http::raise_open_files();
    // Fails only when it was set before, which is as good.
    let _already_set = rustls::crypto::ring::default_provider().install_default();
    Ok(())
}
