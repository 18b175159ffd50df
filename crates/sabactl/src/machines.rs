//! `sabactl machines`: registered machines. Registration, the long part, is in `machines/create.rs`.

mod create;

use std::{
    ffi::OsStr,
    io::{self, IsTerminal},
};

use clap::{
    Arg, Subcommand,
    builder::{PossibleValue, TypedValueParser},
    error::ErrorKind,
};
use sabakan_client::{Client, Error};

use crate::{
    exit::Failure,
    filters::Filters,
    render::{self, Format},
};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Register machines
    ///
    /// A file of up to --batch-size machines is one request: all of them are registered or none. Larger files are sent in
    /// batches, each of them all or nothing; the whole file is checked before the first is sent.
    #[command(after_help = create::EXAMPLE)]
    Create(create::Create),
    /// Show the machines that match all conditions
    #[command(after_help = "Examples:
  sabactl machines get                                   all machines
  sabactl machines get --rack 1,2 --without-role boot    racks 1 and 2, but no boot machines
  sabactl machines get --labels product=R630 -o simple   columns for scripts
  sabactl machines get --state unreachable,unhealthy     what needs attention")]
    Get(Get),
    /// Remove a machine; only a retired one can be removed
    #[command(after_help = "Example:\n  sabactl machines remove 1234abcd")]
    Remove {
        /// Its serial
        serial: String,
    },
}

#[derive(Debug, clap::Args)]
pub struct Get {
    #[command(flatten)]
    filters: Filters,
    /// How to show them; without it a table on a terminal, JSON otherwise
    #[arg(short, long, value_name = "FORMAT", value_parser = FormatParser)]
    output: Option<Format>,
}

/// Does what the command says.
pub fn run(client: &Client, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Create(create) => create::run(client, create),
        Command::Get(get) => show(client, get),
        Command::Remove { serial } => Ok(client.remove_machine(serial)?),
    }
}

fn show(client: &Client, get: &Get) -> Result<(), Failure> {
    let Get { filters: Filters(query), output } = get;
    let explain = |error: Error| Failure::from(error).if_not_found("No machine matches.");
    match Format::choose(*output, io::stdout().is_terminal()) {
        Format::Json => render::print_json_text(&client.list_machines_text(query).map_err(explain)?),
        Format::Simple => render::print_simple(&client.list_machines(query).map_err(explain)?),
        Format::Table => render::print_table(&client.list_machines(query).map_err(explain)?),
    }
}

/// Knows the formats for help and completion, and refuses others in the words older scripts look for.
#[derive(Debug, Clone)]
struct FormatParser;

impl TypedValueParser for FormatParser {
    type Value = Format;

    fn parse_ref(&self, command: &clap::Command, _arg: Option<&Arg>, value: &OsStr) -> Result<Format, clap::Error> {
        let name = value.to_string_lossy();
        Format::find(&name).ok_or_else(|| {
            let names: Vec<&str> = Format::names().collect();
            let text = format!("unknown output format {name:?}\n\n  [possible values: {}]", names.join(", "));
            clap::Error::raw(ErrorKind::InvalidValue, text).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Format::names().map(PossibleValue::new)))
    }
}
