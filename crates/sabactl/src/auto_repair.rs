//! `sabactl auto-repair`: whether broken machines come into the repair queue by themselves, which, and why not.

mod explain;
mod status;

use std::path::PathBuf;

use clap::{Subcommand, builder::PossibleValuesParser};
use sabakan_client::{Client, Error, RepairSwitch, Sent};
use sabakan_domain::repair::settings::Setting;
use sabakan_wire::rest::repair::SettingJson;

use crate::{
    cluster::{print_variables, send_file, warn},
    exit::Failure,
    output::{Output, print_rows},
    render,
};

pub const EXAMPLES: &str = "Examples:
  sabactl auto-repair status                what stands in the way, and how much may be repaired
  sabactl auto-repair explain 1234abcd      why this machine is, or is not, being repaired
  sabactl constraints set maximum-repair-queue-entries 5
  sabactl auto-repair settings              what can be chosen, and what holds
  sabactl auto-repair disable               nothing comes into the repair queue by itself

Machines that failed together are held as one incident: sabactl incidents list.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Let broken machines come into the repair queue by themselves
    #[command(after_help = "Example:\n  sabactl auto-repair enable")]
    Enable(Output),
    /// Let nothing come into the repair queue by itself; what is in it goes on
    #[command(after_help = "Example:\n  sabactl auto-repair disable")]
    Disable(Output),
    /// Print whether broken machines come into the repair queue by themselves: true or false
    #[command(after_help = "Example:\n  sabactl auto-repair is-enabled")]
    IsEnabled(Output),
    /// Say which machines count as broken, in place of the defaults
    #[command(after_help = "Example:
  sabactl auto-repair set-variables variables.json

  where variables.json is
  {
    \"having\": {\"states\": [\"UNHEALTHY\", \"UNREACHABLE\"], \"racks\": [1, 2]},
    \"notHaving\": {\"roles\": [\"boot\"]}
  }

What is given replaces the defaults as a whole: without notHaving, boot servers are repaired too.")]
    SetVariables {
        /// File with the variables in JSON; `-` is standard input
        #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
        file: PathBuf,
        #[command(flatten)]
        output: Output,
    },
    /// Show which machines count as broken
    #[command(after_help = "Example:\n  sabactl auto-repair get-variables")]
    GetVariables(Output),
    /// Let those count as broken that do by default: unhealthy and unreachable ones that are no boot servers
    #[command(after_help = "Example:\n  sabactl auto-repair reset-variables")]
    ResetVariables(Output),
    /// Show what can be chosen about automatic repair, and what holds
    #[command(after_help = "Examples:
  sabactl auto-repair settings
  sabactl auto-repair settings set finished-count-hours 24
  sabactl auto-repair settings set windows-minutes 15,120")]
    Settings(Settings),
    /// Show how repair is doing: what stands in its way, what failed together, how much may still be repaired
    #[command(after_help = "Examples:
  sabactl auto-repair status
  sabactl auto-repair status -o json | jq '.broken[] | [.serial, .verdict.kind]'")]
    Status(status::Status),
    /// Explain why a machine is, or is not, being repaired, and what would change that
    #[command(after_help = "Examples:
  sabactl auto-repair explain 1234abcd
  sabactl auto-repair explain -o json 1234abcd | jq .broken.verdict")]
    Explain(explain::Explain),
}

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Settings {
    #[command(subcommand)]
    command: Option<SettingsCommand>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum SettingsCommand {
    /// Change one setting
    #[command(after_help = "Examples:
  sabactl auto-repair settings set observe-seconds 600
  sabactl auto-repair settings set guard false            nothing is held any more

What leaves machines without protection is warned about, and shown by sabactl auto-repair status.")]
    Set {
        /// Which
        #[arg(value_parser = PossibleValuesParser::new(Setting::ALL.map(Setting::as_str)))]
        name: String,
        /// What shall hold
        #[arg(allow_hyphen_values = true)]
        value: String,
        #[command(flatten)]
        output: Output,
    },
}

/// Does what the command says.
pub fn run(client: &Client, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Enable(output) => enable(client, RepairSwitch::Automatic, output, true),
        Command::Disable(output) => enable(client, RepairSwitch::Automatic, output, false),
        Command::IsEnabled(output) => is_enabled(client, RepairSwitch::Automatic, output),
        Command::SetVariables { file, output } => {
            warn(output.is_json(), &send_file(file, |bytes| client.put_repair_variables(bytes))?)
        }
        Command::GetVariables(output) => print_variables(output.is_json(), &client.repair_variables()?),
        Command::ResetVariables(output) => warn(output.is_json(), &client.reset_repair_variables()?),
        Command::Settings(Settings { command: None, output }) => show_settings(output, &client.repair_settings()?),
        Command::Settings(Settings { command: Some(SettingsCommand::Set { name, value, output }), .. }) => {
            warn(output.is_json(), &client.set_repair_setting(name, value)?)
        }
        Command::Status(status) => status::run(client, status),
        Command::Explain(explain) => explain::run(client, explain),
    }
}

/// Has a part of repair work, or not.
pub fn enable(client: &Client, switch: RepairSwitch, output: &Output, enabled: bool) -> Result<(), Failure> {
    output.print_done(&client.set_repair_enabled(switch, enabled)?)
}

/// Prints whether a part of repair works.
pub fn is_enabled(client: &Client, switch: RepairSwitch, output: &Output) -> Result<(), Failure> {
    let sent = client.repair_enabled(switch)?;
    output.print(&sent, |told| format!("{}\n", told.enabled))
}

/// What to look at when there is no such thing.
pub fn hinted(hint: &str) -> impl Fn(Error) -> Failure {
    move |error| Failure::from(error).if_not_found(hint)
}

fn show_settings(output: &Output, sent: &Sent<Vec<SettingJson>>) -> Result<(), Failure> {
    if output.is_json() {
        return render::print_json_text(&sent.text);
    }
    let row = |SettingJson { name, value, default, text }: &SettingJson| {
        [name.clone(), value.clone(), default.clone(), text.clone()]
    };
    print_rows(["Setting", "Value", "Default", "What it does"], sent.value.iter().map(row))
}
