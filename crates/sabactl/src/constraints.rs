//! `sabactl constraints`: how large the cluster may be, and how much may be repaired at once.

use clap::{Subcommand, builder::PossibleValuesParser};
use sabakan_client::Client;
use sabakan_domain::cluster::constraints::Constraints;

use crate::{
    cluster::{Output, warn},
    exit::Failure,
    render,
};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Change one constraint
    #[command(after_help = "Examples:
  sabactl constraints set control-plane-count 3
  sabactl constraints set maximum-workers 0       no bound")]
    Set {
        /// Which
        #[arg(value_parser = PossibleValuesParser::new(Constraints::NAMES))]
        name: String,
        /// A number, 0 or more
        #[arg(value_parser = clap::value_parser!(u32).range(..=i64::from(i32::MAX)))]
        value: u32,
        #[command(flatten)]
        output: Output,
    },
    /// Show all constraints; defaults where nobody said otherwise
    #[command(after_help = "Examples:
  sabactl constraints show
  sabactl constraints show --json | jq '.\"minimum-workers\"'")]
    Show(Output),
}

/// Does what the command says.
pub fn run(client: &Client, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Set { name, value, output } => warn(output.json, &client.set_constraint(name, *value)?),
        Command::Show(output) => {
            let sent = client.constraints()?;
            if output.json {
                return render::print_json_text(&sent.text);
            }
            let shown = serde_json::to_value(&sent.value).unwrap_or_default();
            let rows = Constraints::NAMES.map(|name| [name.to_owned(), shown[name].to_string()]);
            render::print_columns(["Constraint", "Value"], rows)
        }
    }
}
