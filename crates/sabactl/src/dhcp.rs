//! `sabactl dhcp`: what DHCP clients are told.

use clap::Subcommand;
use sabakan_client::Client;
use sabakan_wire::rest::DhcpConfigJson;

use crate::{
    exit::Failure,
    file::{self, Input},
    render,
};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Set what DHCP clients are told; may be repeated at any time
    #[command(after_help = "Example:
  sabactl dhcp set -f dhcp.json

  where dhcp.json is
  {\"lease-minutes\": 60, \"dns-servers\": [\"10.0.0.53\"]}")]
    Set(Input),
    /// Show what DHCP clients are told
    #[command(after_help = "Example:\n  sabactl dhcp get > dhcp.json")]
    Get,
}

/// Does what the command says.
pub fn run(client: &Client, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Set(Input { file }) => Ok(client.put_dhcp(&file::read::<DhcpConfigJson>(file)?)?),
        Command::Get => {
            let config = client.get_dhcp().map_err(|error| Failure::from(error).if_not_found(NEVER_SET))?;
            render::print_json(&config)
        }
    }
}

const NEVER_SET: &str = "It was never set. Set it with: sabactl dhcp set -f FILE";
