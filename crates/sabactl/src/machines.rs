//! `sabactl machines`: registered machines. Registration, the long part, is in `machines/create.rs`, removal in
//! `machines/remove.rs`.

mod create;
mod remove;

use std::{
    ffi::OsStr,
    io::{self, IsTerminal},
};

use clap::{
    Arg, Subcommand,
    builder::{PossibleValue, TypedValueParser},
    error::ErrorKind,
};
use jiff::civil::Date;
use sabakan_client::{Client, Error};
use sabakan_domain::lifecycle::HealthState;

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
    /// batches, each of them all or nothing; the whole file is checked before the first is sent. Without --batch-size, a server
    /// that takes fewer machines at once is sent as many as it says.
    #[command(after_help = create::EXAMPLE)]
    Create(create::Create),
    /// Show the machines that match all conditions
    #[command(after_help = "Examples:
  sabactl machines get                                   all machines
  sabactl machines get --rack 1,2 --without-role boot    racks 1 and 2, but no boot machines
  sabactl machines get --labels product=R630 -o simple   columns for scripts
  sabactl machines get --state unreachable,unhealthy     what needs attention")]
    Get(Get),
    /// Remove a machine, or all retired ones; only retired machines can be removed
    #[command(after_help = remove::EXAMPLES)]
    Remove(remove::Remove),
    /// Show the state of a machine
    #[command(after_help = "Example:\n  sabactl machines get-state 1234abcd")]
    GetState {
        /// Its serial
        serial: String,
    },
    /// Move a machine along its lifecycle
    ///
    /// The state retired is entered only by a retiring machine without disk keys; deleting the keys does it as well.
    #[command(after_help = "Examples:
  sabactl machines set-state 1234abcd retiring
  sabactl machines set-state --force 1234abcd healthy   undo it; audited as forced")]
    SetState {
        /// Also against the lifecycle, but never into retired
        #[arg(long)]
        force: bool,
        /// Its serial
        serial: String,
        #[arg(help = format!("One of {}", HealthState::ALL.map(HealthState::as_str).join(", ")))]
        state: String,
    },
    /// Set a label of a machine
    #[command(after_help = "Example:\n  sabactl machines set-label 1234abcd datacenter ty3")]
    SetLabel {
        /// Its serial
        serial: String,
        /// Name of the label
        name: String,
        /// Its value
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Take a label of a machine away
    #[command(after_help = "Example:\n  sabactl machines remove-label 1234abcd datacenter")]
    RemoveLabel {
        /// Its serial
        serial: String,
        /// Name of the label
        name: String,
    },
    /// Say when a machine should go
    #[command(after_help = "Example:\n  sabactl machines set-retire-date 1234abcd 2030-12-31")]
    SetRetireDate {
        /// Its serial
        serial: String,
        /// The day, which begins in UTC
        #[arg(value_name = "YYYY-MM-DD", value_parser = parse_date)]
        date: Date,
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
        Command::Remove(remove) => remove::run(client, remove),
        Command::GetState { serial } => render::print_text(&format!("{}\n", client.get_state(serial)?)),
        Command::SetState { force, serial, state } => {
            Ok(client.put_state(serial, &state.to_ascii_lowercase(), *force)?)
        }
        Command::SetLabel { serial, name, value } => Ok(client.put_label(serial, name, value)?),
        Command::RemoveLabel { serial, name } => Ok(client.remove_label(serial, name)?),
        Command::SetRetireDate { serial, date } => Ok(client.put_retire_date(serial, &format!("{date}T00:00:00Z"))?),
    }
}

/// Only this one form: the parser would take others that mean another day to some people.
fn parse_date(text: &str) -> Result<Date, String> {
    let date = if text.len() == 10 { Date::strptime("%Y-%m-%d", text).ok() } else { None };
    date.ok_or_else(|| "a day such as 2030-12-31 is expected".to_owned())
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
