//! `sabactl cluster`: which machines form the Kubernetes cluster, why, and what the planner does next.

mod explain;
mod plan;
mod plans;
pub mod text;

use std::{
    io::IsTerminal as _,
    path::{Path, PathBuf},
};

use clap::Subcommand;
use sabakan_client::{Client, DocumentFormat, Error, Sent};
use sabakan_wire::rest::cluster::{VariablesJson, WarningsJson};

use crate::{
    exit::{self, Failure},
    file, limits, render,
};

pub const EXAMPLES: &str = "Examples:
  sabactl cluster set-template cluster.yml    say what the cluster shall look like
  sabactl constraints set control-plane-count 3
  sabactl cluster plan                        what the next round would do, and why
  sabactl cluster why-not 1234abcd            why this machine was not chosen
  sabactl cluster simulate --rounds 5         what later rounds would do
  sabactl cluster get > present.yml           the configuration

The planner changes one thing at a time, and never more than a minority of the control planes.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what the next round would do, and why; changes nothing
    #[command(after_help = plan::EXAMPLES)]
    Plan(plan::Plan),
    /// Explain a machine: where it is, what the next round does with it, what was done with it
    #[command(after_help = "Examples:
  sabactl cluster explain 1234abcd
  sabactl cluster explain --json 1234abcd | jq .past")]
    Explain(explain::Machine),
    /// Say why a machine is no control plane, or not in the cluster
    #[command(after_help = "Examples:
  sabactl cluster why-not 1234abcd
  sabactl cluster why-not --json 1234abcd | jq '.standing.\"not-worker\"'")]
    WhyNot(explain::Machine),
    /// Show what the next rounds would do if nothing but time changed
    #[command(after_help = "Examples:
  sabactl cluster simulate
  sabactl cluster simulate --rounds 50 --json | jq '.rounds[].operation'")]
    Simulate(plans::Simulate),
    /// Set the template: what the cluster shall look like
    #[command(after_help = "Example:
  sabactl cluster set-template cluster.yml

  where cluster.yml is
  name: cluster
  service_subnet: 10.68.0.0/16
  nodes:
  - user: cybozu
    control_plane: true
    labels: {cke.cybozu.com/role: compute}
  - user: cybozu
    labels: {cke.cybozu.com/role: compute, cke.cybozu.com/weight: \"6\"}
  - user: cybozu
    labels: {cke.cybozu.com/role: storage, cke.cybozu.com/weight: \"3\"}")]
    SetTemplate(Document),
    /// Show the template
    #[command(after_help = "Example:\n  sabactl cluster get-template > cluster.yml")]
    GetTemplate(Output),
    /// Say which machines may be used, in place of the defaults
    #[command(after_help = "Example:
  sabactl cluster set-variables variables.json

  where variables.json is
  {
    \"having\": {\"labels\": [{\"name\": \"datacenter\", \"value\": \"ty3\"}]},
    \"notHaving\": {\"roles\": [\"boot\"], \"states\": [\"RETIRED\"]}
  }

What is given replaces the defaults as a whole: without notHaving, boot servers and retired machines are used too.")]
    SetVariables(Document),
    /// Show which machines may be used
    #[command(after_help = "Example:\n  sabactl cluster get-variables")]
    GetVariables(Output),
    /// Use what is used by default: everything but boot servers and retired machines
    #[command(after_help = "Example:\n  sabactl cluster reset-variables")]
    ResetVariables(Output),
    /// Let the planner work
    #[command(after_help = "Example:\n  sabactl cluster enable")]
    Enable(Output),
    /// Stop the planner; the cluster stays as it is
    #[command(after_help = "Example:\n  sabactl cluster disable")]
    Disable(Output),
    /// Print whether the planner works: true or false
    #[command(after_help = "Example:\n  sabactl cluster is-enabled")]
    IsEnabled(Output),
    /// Show the configuration of the cluster
    #[command(after_help = "Examples:
  sabactl cluster get
  sabactl cluster get --json | jq '.nodes[] | select(.control_plane) | .address'")]
    Get(Output),
    /// Store a configuration that was written by hand; the planner goes on from it
    #[command(after_help = "Example:\n  sabactl cluster get > c.yml && $EDITOR c.yml && sabactl cluster set c.yml")]
    Set(Document),
    /// Show plans that were made, the newest first
    #[command(after_help = "Examples:
  sabactl cluster plans
  sabactl cluster plans --limit 100 --before 940")]
    Plans(plans::Plans),
    /// Show one of them, with the reasons it had
    #[command(after_help = "Example:\n  sabactl cluster show-plan 17")]
    ShowPlan(plans::ShowPlan),
    /// Show how the planner is doing: who plans, what the last round came to
    #[command(after_help = "Example:\n  sabactl cluster status")]
    Status(Output),
}

/// A document to send.
#[derive(Debug, clap::Args)]
pub struct Document {
    /// File with the document; `-` is standard input
    #[arg(value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// How an answer is shown.
#[derive(Debug, clap::Args)]
pub struct Output {
    /// Print the JSON that the server sent
    #[arg(long)]
    pub json: bool,
}

/// Does what the command says. `colour`: the terminal, if there is one, wants it.
pub fn run(client: &Client, command: &Command, colour: bool) -> Result<(), Failure> {
    let colour = colour && std::io::stdout().is_terminal();
    match command {
        Command::Plan(plan) => plan::run(client, plan, colour),
        Command::Explain(machine) => explain::explain(client, machine),
        Command::WhyNot(machine) => explain::why_not(client, machine),
        Command::Simulate(simulate) => plans::simulate(client, simulate),
        Command::SetTemplate(document) => set(document, |bytes| client.put_cluster_template(bytes)),
        Command::GetTemplate(output) => get(
            output,
            |format| client.cluster_template(format),
            "There is none. Set one with: sabactl cluster set-template FILE",
        ),
        Command::SetVariables(document) => set(document, |bytes| client.put_cluster_variables(bytes)),
        Command::GetVariables(output) => print_variables(output.json, &client.cluster_variables()?),
        Command::ResetVariables(output) => warn(output.json, &client.reset_cluster_variables()?),
        Command::Enable(output) => enable(client, output, true),
        Command::Disable(output) => enable(client, output, false),
        Command::IsEnabled(output) => {
            let sent = client.cluster_enabled()?;
            if output.json {
                render::print_json_text(&sent.text)
            } else {
                render::print_text(&format!("{}\n", sent.value.enabled))
            }
        }
        Command::Get(output) => get(output, |format| client.cluster_configuration(format), NO_CLUSTER),
        Command::Set(document) => set(document, |bytes| client.put_cluster_configuration(bytes)),
        Command::Plans(plans) => plans::list(client, plans),
        Command::ShowPlan(show) => plans::show(client, show),
        Command::Status(output) => plans::status(client, output),
    }
}

const NO_CLUSTER: &str = "There is none yet. sabactl cluster status says why, sabactl cluster plan what would be made.";

fn set(document: &Document, send: impl FnOnce(&[u8]) -> Result<Sent<WarningsJson>, Error>) -> Result<(), Failure> {
    warn(document.output.json, &send_file(&document.file, send)?)
}

/// Sends what is in a file.
pub fn send_file<T>(file: &Path, send: impl FnOnce(&[u8]) -> Result<Sent<T>, Error>) -> Result<Sent<T>, Failure> {
    let bytes = file::read_bytes(file, limits::FILE_BYTES_MAX)?;
    send(&bytes).map_err(|error| {
        let is_invalid = error.status() == Some(400);
        let failure = Failure::from(error);
        // Whoever wrote a file wants to know which one is meant.
        let text = if is_invalid { format!("{}: {}", file::name(file), failure.text) } else { failure.text };
        Failure { text, ..failure }
    })
}

/// Prints what is allowed but doubtful, where it does not disturb programs.
pub fn warn(json: bool, sent: &Sent<WarningsJson>) -> Result<(), Failure> {
    if json {
        return render::print_json_text(&sent.text);
    }
    for warning in &sent.value.warnings {
        exit::note(&text::visible(&format!("Warning: {}: {}\n", warning.path, warning.reason)));
    }
    Ok(())
}

fn get(output: &Output, ask: impl FnOnce(DocumentFormat) -> Result<String, Error>, hint: &str) -> Result<(), Failure> {
    let format = if output.json { DocumentFormat::Json } else { DocumentFormat::Yaml };
    let text = ask(format).map_err(|error| Failure::from(error).if_not_found(hint))?;
    if output.json { render::print_json_text(&text) } else { render::print_text(&text) }
}

/// Prints which machines are meant, as somebody wrote it, or else the defaults.
pub fn print_variables(json: bool, sent: &Sent<VariablesJson>) -> Result<(), Failure> {
    if json {
        return render::print_json_text(&sent.text);
    }
    match &sent.value.given {
        Some(given) => render::print_text(&format!("{}\n", given.trim_end())),
        None => {
            exit::note("Nobody set any; these are the defaults.\n");
            render::print_json(&sent.value.effective)
        }
    }
}

fn enable(client: &Client, output: &Output, enabled: bool) -> Result<(), Failure> {
    let sent = client.set_cluster_enabled(enabled)?;
    if output.json { render::print_json_text(&sent.text) } else { Ok(()) }
}
