//! `sabactl ipam`: how addresses are assigned.

use clap::Subcommand;
use sabakan_client::Client;
use sabakan_wire::rest::IpamConfigJson;

use crate::{
    exit::Failure,
    file::{self, Input},
    render,
};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Set how addresses are assigned; refused once a machine is registered
    #[command(after_help = "Example:
  sabactl ipam set -f ipam.json

  where ipam.json is
  {
    \"max-nodes-in-rack\": 28,
    \"node-ipv4-pool\": \"10.69.0.0/16\", \"node-ipv4-range-size\": 6, \"node-ipv4-range-mask\": 26,
    \"node-ip-per-node\": 3, \"node-index-offset\": 3,
    \"bmc-ipv4-pool\": \"10.72.16.0/20\", \"bmc-ipv4-range-size\": 5, \"bmc-ipv4-range-mask\": 20
  }")]
    Set(Input),
    /// Show how addresses are assigned
    #[command(after_help = "Example:\n  sabactl ipam get > ipam.json")]
    Get,
}

/// Does what the command says.
pub fn run(client: &Client, command: &Command) -> Result<(), Failure> {
    match command {
        Command::Set(Input { file }) => Ok(client.put_ipam(&file::read::<IpamConfigJson>(file)?)?),
        Command::Get => {
            let config = client.get_ipam().map_err(|error| Failure::from(error).if_not_found(NEVER_SET))?;
            render::print_json(&config)
        }
    }
}

const NEVER_SET: &str = "It was never set. Set it with: sabactl ipam set -f FILE";
