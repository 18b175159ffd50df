//! `sabactl crypts`: keys of encrypted disks. They are deleted here and never shown.

use clap::Subcommand;
use sabakan_client::Client;

use crate::exit::Failure;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Delete all disk keys of a retiring machine, which makes it retired; what is on its disks is gone for good
    #[command(after_help = "Example:\n  sabactl crypts delete --force 1234abcd")]
    Delete {
        /// Say that it is meant
        #[arg(long)]
        force: bool,
        /// Serial of the machine
        serial: String,
    },
}

/// Does what the command says.
pub fn run(client: &Client, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Delete { force: false, .. } => Err(Failure::general("use --force explicitly")),
        Command::Delete { force: true, serial } => {
            client.delete_keys(serial).map(drop).map_err(|error| Failure::of_secrets(client, error))
        }
    }
}
