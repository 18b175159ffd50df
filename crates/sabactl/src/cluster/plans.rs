//! `sabactl cluster plans`, `show-plan`, `simulate` and `status`.

use sabakan_client::{Client, Error};
use sabakan_wire::rest::cluster::{
    ClusterStatusJson, KeptPlanJson, PlanJson, PlanSummaryJson, RoundJson, SimulationJson,
};

use super::{Output, plan, text};
use crate::{exit::Failure, render};

#[derive(Debug, clap::Args)]
pub struct Plans {
    /// Only plans with a smaller number
    #[arg(long, value_name = "NUMBER")]
    before: Option<u64>,
    /// How many
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Print the JSON that the server sent
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub struct ShowPlan {
    /// Its number
    number: u64,
    /// Show all choices, however many lines that takes
    #[arg(long)]
    full: bool,
    /// Print the JSON that the server sent
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub struct Simulate {
    /// How many rounds; fewer are shown if waiting changes nothing more
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=200))]
    rounds: u16,
    /// Print the JSON that the server sent
    #[arg(long)]
    json: bool,
}

/// Plans that were made.
pub fn list(client: &Client, wish: &Plans) -> Result<(), Failure> {
    let sent = client.cluster_plans(wish.before, wish.limit.into())?;
    if wish.json {
        return render::print_json_text(&sent.text);
    }
    let row = |plan: PlanSummaryJson| {
        let PlanSummaryJson { number, parent: _, at, server, outcome, operation, changes, reason } = plan;
        let what = match (operation, reason) {
            (Some(operation), _) => format!("{operation}: {changes} nodes"),
            (None, reason) => reason.unwrap_or_default(),
        };
        [number.to_string(), at, server, outcome, text::visible(&what).replace('\n', " ")]
    };
    render::print_columns(["Plan", "At", "Server", "Outcome", "What"], sent.value.into_iter().map(row))
}

/// One of them.
pub fn show(client: &Client, wish: &ShowPlan) -> Result<(), Failure> {
    let gone =
        |error: Error| Failure::from(error).if_not_found("The last 1,000 are kept; sabactl cluster plans shows them.");
    let sent = client.cluster_plan(wish.number).map_err(gone)?;
    if wish.json {
        return render::print_json_text(&sent.text);
    }
    render::print_text(&text::visible(&kept(&sent.value, wish.full)))
}

fn kept(kept: &KeptPlanJson, full: bool) -> String {
    let what = match (&kept.operation, &kept.reason) {
        (Some(operation), _) => format!("changed the cluster: {operation}"),
        (None, Some(reason)) => format!("was blocked: {reason}"),
        (None, None) => "found nothing left to do".to_owned(),
    };
    let mut shown = format!("Plan {} {what}.\nMade at {} by {}", kept.number, kept.at, kept.server);
    shown.push_str(&kept.parent.map_or_else(|| ".\n".to_owned(), |parent| format!(", after plan {parent}.\n")));
    let mut changes = text::changes(&kept.changes);
    if kept.changes_left_out > 0 {
        changes.push(format!("and {} more that were not kept", kept.changes_left_out));
    }
    shown.push_str(&text::section("Changes", changes));
    let remedies = kept.remedies.iter().map(|remedy| format!("- {remedy}"));
    shown.push_str(&text::section("What would have unblocked it, each alone", remedies));
    shown.push_str(&plan::choices(&kept.selections, kept.selections_left_out, full));
    shown.push_str(&text::section("Rules looked at, in order", text::checked(&kept.checked)));
    shown.push_str(&text::section("Warnings", kept.warnings.iter().map(|warning| format!("- {warning}"))));
    shown.push_str(&text::section("After this round", [text::totals(&kept.totals)]));
    shown
}

/// What later rounds would do.
pub fn simulate(client: &Client, wish: &Simulate) -> Result<(), Failure> {
    let sent = client.simulate_cluster(wish.rounds.into())?;
    if wish.json {
        return render::print_json_text(&sent.text);
    }
    render::print_text(&text::visible(&rounds(&sent.value)))
}

fn rounds(simulation: &SimulationJson) -> String {
    let mut shown = String::new();
    for (n, plan) in simulation.rounds.iter().enumerate() {
        let PlanJson { operation, blocked, changes, totals, .. } = plan;
        let what = match (operation, blocked) {
            (Some(operation), _) => operation.clone(),
            (None, Some(blocked)) => format!("blocked: {}", blocked.reason),
            (None, None) => "nothing to do".to_owned(),
        };
        shown.push_str(&format!("Round {}: {what}\n", n + 1));
        for line in text::changes(changes) {
            shown.push_str(&format!("  {line}\n"));
        }
        if operation.is_some() {
            shown.push_str(&format!("  then {}\n", text::totals(totals)));
        }
    }
    shown.push_str(if simulation.settled {
        "Later rounds would do nothing more.\n"
    } else {
        "Later rounds may do more; --rounds shows more of them.\n"
    });
    shown
}

/// How the planner is doing.
pub fn status(client: &Client, output: &Output) -> Result<(), Failure> {
    let sent = client.cluster_status()?;
    if output.json {
        render::print_json_text(&sent.text)
    } else {
        render::print_text(&text::visible(&state(&sent.value)))
    }
}

fn state(status: &ClusterStatusJson) -> String {
    let ClusterStatusJson { enabled, leader, has_template, nodes, last_round, plan } = status;
    let yes = |truth: bool| if truth { "yes" } else { "no" }.to_owned();
    let round = |round: &RoundJson| {
        let RoundJson { at, end, reason, operation, plan } = round;
        let plan = plan.map(|number| format!("plan {number}"));
        let more: Vec<String> = [operation.clone(), plan, reason.clone()].into_iter().flatten().collect();
        let more = if more.is_empty() { String::new() } else { format!(": {}", more.join(", ")) };
        format!("{at}  {end}{more}")
    };
    let newest = |plan: &KeptPlanJson| {
        let what = plan.operation.as_ref().or(plan.reason.as_ref()).unwrap_or(&plan.outcome);
        format!("{} at {}: {what}", plan.number, plan.at)
    };
    let rows = [
        ["Enabled:".to_owned(), yes(*enabled)],
        ["Planned by:".to_owned(), leader.clone().unwrap_or_else(|| "nobody".to_owned())],
        ["Template:".to_owned(), yes(*has_template)],
        ["Nodes:".to_owned(), nodes.map_or_else(|| "no configuration yet".to_owned(), |nodes| nodes.to_string())],
        ["Last round here:".to_owned(), last_round.as_ref().map_or_else(|| "none".to_owned(), round)],
        ["Newest plan:".to_owned(), plan.as_ref().map_or_else(|| "none".to_owned(), newest)],
    ];
    text::aligned(&rows).into_iter().map(|line| line + "\n").collect()
}
