//! `sabactl nodes`: machines on their way from enrolment to use and back. Talks to the provisioning API, which has an address of its
//! own. Every command takes one node or several; what one of them refuses does not stop the others.

mod history;
mod list;
mod many;
mod orders;
mod power;
mod set;
mod show;
mod steps;
#[cfg(test)]
mod tests;
mod wait;
mod watch;
mod words;

use std::{net::IpAddr, time::Duration};

use clap::Subcommand;
use jiff::SignedDuration;
use sabakan_client::{Client, NodesClient};

use crate::exit::Failure;

pub const EXAMPLES: &str = "Examples:
  sabactl nodes list --stuck                   what does not move, and why
  sabactl nodes show 1234abcd                  state, work, reason for waiting, what can be asked
  sabactl nodes manage 1234abcd --wait         prove address and credentials of its BMC
  sabactl nodes provide 1234abcd 5678efgh --wait
  sabactl nodes power reboot 1234abcd

Nodes are named by serial or UUID.

Exit codes beyond the usual ones:
  6  the work was accepted and failed
  7  the time ran out; the work goes on
With several nodes it is the code of the first one that did not succeed.";

#[derive(Debug, clap::Args)]
pub struct Nodes {
    /// URL of the provisioning API. Without it --server itself if that is https://, otherwise port 6385 of its host: https://,
    /// unless that is this host
    #[arg(long, global = true, value_name = "URL", env = "SABAKAN_IRONIC_SERVER", hide_env_values = true)]
    ironic_server: Option<String>,
    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show nodes, with what they wait for
    #[command(after_help = list::EXAMPLES)]
    List(list::List),
    /// Explain a node: what it does, why it waits, until when, who works on it, what can be asked of it
    #[command(
        after_help = "Examples:\n  sabactl nodes show 1234abcd\n  sabactl nodes show --json 1234abcd | jq .progress"
    )]
    Show(show::Show),
    /// Prove address and credentials of the BMC, or go back to being managed only
    #[command(
        after_help = "Examples:\n  sabactl nodes manage 1234abcd --wait\n  sabactl nodes manage 1234abcd --wait --timeout 5m"
    )]
    Manage(orders::Plain),
    /// Clean a node and make it available
    #[command(after_help = "Example:\n  sabactl nodes provide 1234abcd 5678efgh --wait")]
    Provide(orders::Plain),
    /// Read the hardware of a node
    #[command(after_help = "Example:\n  sabactl nodes inspect 1234abcd --wait && sabactl nodes inventory 1234abcd")]
    Inspect(orders::Plain),
    /// Run clean steps on a node
    #[command(after_help = steps::CLEAN_EXAMPLES)]
    Clean(orders::WithSteps),
    /// Let a workload run on a node
    #[command(after_help = steps::DEPLOY_EXAMPLES)]
    Deploy(orders::WithSteps),
    /// Put the workload of a node on it again
    #[command(after_help = "Example:\n  sabactl nodes rebuild 1234abcd --wait")]
    Rebuild(orders::WithSteps),
    /// Take the workload away, erase, and make the node available again
    #[command(after_help = "Example:\n  sabactl nodes undeploy 1234abcd --wait")]
    Undeploy(orders::Plain),
    /// Boot a temporary system instead of the workload
    #[command(
        after_help = "Examples:\n  sabactl nodes rescue --password-file password 1234abcd --wait\n  pwgen 20 1 | sabactl nodes rescue --password-file - 1234abcd"
    )]
    Rescue(orders::Rescue),
    /// Go back to the workload
    #[command(after_help = "Example:\n  sabactl nodes unrescue 1234abcd --wait")]
    Unrescue(orders::Plain),
    /// Take a node over as it runs, without writing to it
    #[command(after_help = "Example:\n  sabactl nodes adopt 1234abcd --wait")]
    Adopt(orders::Plain),
    /// Run service steps on a node that runs a workload
    #[command(after_help = steps::SERVICE_EXAMPLES)]
    Service(orders::WithSteps),
    /// Stop what a node waits for
    #[command(after_help = "Example:\n  sabactl nodes abort 1234abcd")]
    Abort(orders::Plain),
    /// Go on after a step that asked for a person
    #[command(after_help = "Example:\n  sabactl nodes unhold 1234abcd --wait")]
    Unhold(orders::Plain),
    /// Switch nodes on or off
    #[command(
        after_help = "Examples:\n  sabactl nodes power on 1234abcd --wait\n  sabactl nodes power soft-reboot 1234abcd 5678efgh"
    )]
    Power(power::Power),
    /// Keep automation off nodes, or let it back
    #[command(
        after_help = "Examples:\n  sabactl nodes maintenance set --reason 'fan replaced on Monday' 1234abcd\n  sabactl nodes maintenance clear 1234abcd"
    )]
    Maintenance {
        #[command(subcommand)]
        command: set::Maintenance,
    },
    /// Choose the driver of a node and say how to reach its BMC
    #[command(after_help = set::EXAMPLES)]
    Set(set::Set),
    /// Who did what with a node, when, and how long it took
    #[command(
        after_help = "Examples:\n  sabactl nodes history 1234abcd\n  sabactl nodes history --json 1234abcd | jq '.[] | select(.severity == \"ERROR\")'"
    )]
    History(history::History),
    /// What the last inspection found, as JSON
    #[command(after_help = "Example:\n  sabactl nodes inventory 1234abcd | jq .inventory.disks")]
    Inventory(history::Inventory),
    /// Wait until nodes have no work any more
    #[command(
        after_help = "Examples:\n  sabactl nodes wait 1234abcd\n  sabactl nodes wait --for available --timeout 30m 1234abcd 5678efgh"
    )]
    Wait(wait::Wait),
}

impl Nodes {
    /// Where the provisioning API is, given where the server is.
    pub fn server(&self, server: &str) -> String {
        self.ironic_server.clone().unwrap_or_else(|| derived(server))
    }
}

/// The usual address of the provisioning API of a server. Its own port speaks TLS where other hosts reach it.
fn derived(server: &str) -> String {
    let Some((scheme, rest)) = server.split_once("://") else { return server.to_owned() };
    if scheme == "https" {
        return server.to_owned();
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    // The last colon begins the port, unless it is inside the brackets of an IPv6 address.
    let host = match authority.rfind(':') {
        Some(colon) if !authority[colon..].contains(']') => &authority[..colon],
        _ => authority,
    };
    let scheme = if is_this_host(host) { "http" } else { "https" };
    format!("{scheme}://{host}:{DEFAULT_PORT}")
}

fn is_this_host(host: &str) -> bool {
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match address.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

const DEFAULT_PORT: u16 = 6385;

/// Does what the command says; without one there is nothing to do.
pub fn run(client: Client, nodes: Nodes) -> Result<(), Failure> {
    let Some(command) = nodes.command else { return Ok(()) };
    let client = &NodesClient::over(client);
    match command {
        Command::List(list) => list::run(client, &list),
        Command::Show(show) => show::run(client, &show),
        Command::Manage(plain) => orders::run(client, "manage", &plain),
        Command::Provide(plain) => orders::run(client, "provide", &plain),
        Command::Inspect(plain) => orders::run(client, "inspect", &plain),
        Command::Clean(order) => orders::run_with_steps(client, "clean", &order),
        Command::Deploy(order) => orders::run_with_steps(client, "active", &order),
        Command::Rebuild(order) => orders::run_with_steps(client, "rebuild", &order),
        Command::Undeploy(plain) => orders::run(client, "deleted", &plain),
        Command::Rescue(rescue) => orders::run_rescue(client, &rescue),
        Command::Unrescue(plain) => orders::run(client, "unrescue", &plain),
        Command::Adopt(plain) => orders::run(client, "adopt", &plain),
        Command::Service(order) => orders::run_with_steps(client, "service", &order),
        Command::Abort(plain) => orders::run(client, "abort", &plain),
        Command::Unhold(plain) => orders::run(client, "unhold", &plain),
        Command::Power(power) => power::run(client, &power),
        Command::Maintenance { command } => set::run_maintenance(client, &command),
        Command::Set(set) => set::run(client, &set),
        Command::History(history) => history::run(client, &history),
        Command::Inventory(inventory) => history::run_inventory(client, &inventory),
        Command::Wait(wait) => wait::run(client, &wait),
    }
}

/// The nodes a command is about.
#[derive(Debug, clap::Args)]
pub struct Targets {
    /// Serials or UUIDs
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
    /// Print the outcome for each node as JSON
    #[arg(long)]
    json: bool,
}

/// Whether and how long to wait for the end of the work.
#[derive(Debug, clap::Args)]
pub struct Patience {
    /// Wait for the end of the work
    #[arg(long)]
    wait: bool,
    /// Longest wait, such as 90s, 30m or 2h; 0 waits for ever [default: 2h]
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "wait")]
    timeout: Option<Duration>,
}

impl Patience {
    fn limit(&self) -> Option<Duration> {
        limit(self.timeout)
    }
}

fn limit(timeout: Option<Duration>) -> Option<Duration> {
    Some(timeout.unwrap_or(crate::limits::WORK_WAIT)).filter(|limit| !limit.is_zero())
}

/// A duration as people write it.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "a duration such as 90s, 30m or 2h is expected".to_owned();
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let duration: SignedDuration = text.parse().map_err(|_| wrong())?;
    Duration::try_from(duration).map_err(|_| wrong())
}
