//! `sabactl tokens`: access tokens.

use clap::{
    Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use sabakan_client::{Client, Error};
use sabakan_domain::access::TokenRole;
use sabakan_wire::rest::TokenRequest;

use crate::{exit::Failure, render};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a token and print it; it is shown this once
    #[command(after_help = "Examples:
  sabactl tokens create --role operator alice > alice.token
  sabactl tokens create --role machine --serial 1234abcd 1234abcd > 1234abcd.token")]
    Create {
        /// What it may do: admin everything, operator all but tokens, machine what a machine does for itself, read only look
        #[arg(long, value_parser = roles())]
        role: TokenRole,
        /// With --role machine: the machine it is for. It opens the disk keys of that machine, from any address
        #[arg(long)]
        serial: Option<String>,
        /// Who will use it; the name in the audit log
        name: String,
    },
    /// Show all tokens, without their secrets
    #[command(after_help = "Example:\n  sabactl tokens list")]
    List,
    /// Take a token away; it opens nothing from then on
    #[command(after_help = "Example:\n  sabactl tokens revoke 0123456789abcdef")]
    Revoke {
        /// Its id, as list shows it
        id: String,
    },
}

fn roles() -> impl TypedValueParser<Value = TokenRole> {
    PossibleValuesParser::new(TokenRole::ALL.map(TokenRole::as_str)).try_map(|word| word.parse::<TokenRole>())
}

/// Does what the command says.
pub fn run(client: &Client, command: &Command) -> Result<(), Failure> {
    let explain = |error: Error| Failure::of_secrets(client, error);
    match command {
        Command::Create { role, serial, name } => {
            let request = TokenRequest { name: name.clone(), role: role.as_str().to_owned(), serial: serial.clone() };
            let created = client.make_token(&request).map_err(explain)?;
            render::print_text(&format!("{}\n", created.token))
        }
        Command::List => {
            let tokens = client.list_tokens().map_err(explain)?;
            let rows = tokens.into_iter().map(|token| {
                [token.id, token.role, token.serial.unwrap_or_else(|| "-".to_owned()), token.created, token.name]
            });
            render::print_columns(["ID", "Role", "Serial", "Created", "Name"], rows)
        }
        Command::Revoke { id } => client.revoke_token(id).map_err(explain),
    }
}
