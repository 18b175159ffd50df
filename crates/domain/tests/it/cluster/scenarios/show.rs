//! What a plan looks like in a scenario.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};

use sabakan_domain::cluster::{
    attributes,
    config::Configuration,
    plan::{Outcome, Plan},
    remedy::remedies,
    report::{Purpose, Selection, Totals},
};

use super::story::Story;
use crate::cluster::{slow::Choice, world::World};

/// What a node is called in the story.
fn name(story: &Story, address: IpAddr) -> String {
    let found = story.addresses.iter().find(|(_, own)| IpAddr::V4(**own) == address);
    found.map_or_else(|| address.to_string(), |(name, _)| name.clone())
}

fn nodes(story: &Story, configuration: &Configuration, control_plane: bool) -> String {
    let nodes = configuration.nodes.iter().filter(|node| node.control_plane == control_plane);
    nodes.map(|node| name(story, node.address)).collect::<Vec<_>>().join(",")
}

/// The operation, the cluster after it, every change with its reason; or why nothing is done.
pub fn plan(story: &Story, world: &World, plan: &Plan) -> Vec<String> {
    let mut said =
        match &plan.outcome {
            Outcome::Nothing => vec!["nothing to do".to_owned()],
            Outcome::Blocked(blocked) => {
                let mut said = vec![format!("blocked: {}", blocked.kind()), blocked.to_string()];
                said.extend(remedies(world.input(), blocked).iter().map(|remedy| format!("would help: {remedy}")));
                said
            }
            Outcome::Change(made) => {
                let after = &made.configuration;
                let mut said = vec![
                    made.operation.to_string(),
                    format!("control planes {}; workers {}", nodes(story, after, true), nodes(story, after, false)),
                ];
                said.extend(made.changes.iter().map(|change| {
                    format!("{}: {} ({})", change.kind.as_str(), name(story, change.address), change.why)
                }));
                said
            }
        };
    said.extend(plan.report.warnings.iter().map(|warning| format!("warning: {warning}")));
    said
}

/// Every choice with the score of everybody who could have been chosen.
pub fn choices(plan: &Plan, choices: &[Choice]) -> Vec<String> {
    let made = plan.report.selections.iter().filter(|selection| selection.chosen.is_some());
    made.zip(choices)
        .map(|(selection, choice)| {
            let ranking: Vec<String> =
                choice.ranking.iter().map(|(serial, score)| format!("{serial} {score}")).collect();
            format!("{}: {}", head(selection), ranking.join(", "))
        })
        .collect()
}

fn head(selection: &Selection) -> String {
    let role = selection.role.as_ref().map(|role| format!(" of role {role}")).unwrap_or_default();
    let ratio = |ratio: &sabakan_domain::cluster::report::Ratio| {
        let role = ratio.role.as_deref().unwrap_or("any");
        format!("{role} {}/{} = {:.2}", ratio.count, ratio.weight, ratio.value())
    };
    let ratios: Vec<String> = selection.ratios.iter().map(ratio).collect();
    let ratios = if ratios.is_empty() { String::new() } else { format!(" ({})", ratios.join(", ")) };
    match selection.purpose {
        Purpose::LeaveControlPlane => "leaves the control planes".to_owned(),
        purpose => format!("{}{role}{ratios} from {}", purpose.as_str(), selection.source.as_str()),
    }
}

/// What became of every rule.
pub fn rules(plan: &Plan) -> Vec<String> {
    let checked = plan.report.checked.iter();
    checked.map(|it| format!("{}: {}: {}", it.operation, it.verdict.as_str(), it.because)).collect()
}

/// How many workers of each role are in each rack.
pub fn racks(world: &World, after: &Configuration) -> Vec<String> {
    let mut racks: BTreeMap<u32, BTreeMap<String, usize>> = BTreeMap::new();
    for node in after.nodes.iter().filter(|node| !node.control_plane) {
        let machine = world.machine_at(node.address).expect("every node has a machine");
        *racks.entry(machine.rack.0).or_default().entry(machine.role.to_string()).or_default() += 1;
    }
    let rack = |(rack, roles): (&u32, &BTreeMap<String, usize>)| {
        let roles: Vec<String> = roles.iter().map(|(role, count)| format!("{count} {role}")).collect();
        format!("rack {rack}: {}", roles.join(" + "))
    };
    racks.iter().map(rack).collect()
}

/// How many machines are where.
pub fn totals(totals: &Totals) -> String {
    let Totals { machines, control_planes, workers, healthy_workers, unused } = totals;
    let workers: usize = workers.values().sum();
    format!(
        "{machines} machines: {control_planes} control planes, {workers} workers ({healthy_workers} healthy), {unused} unused"
    )
}

/// What is said about one machine.
pub fn standing(plan: &Plan, name: &str) -> Result<Vec<String>, String> {
    let serial = name.parse().map_err(|error| format!("{name}: {error}"))?;
    let standing = plan.report.standing(&serial).ok_or("it is not listed")?;
    let mut said = vec![standing.place.as_str().to_owned()];
    said.extend(standing.not_control_plane.iter().map(|why| format!("no control plane: {why}")));
    said.extend(standing.not_worker.iter().map(|why| format!("no worker: {why}")));
    Ok(said)
}

/// A node as it is written.
pub fn node(after: &Configuration, address: Ipv4Addr) -> Result<Vec<String>, String> {
    let node = after.nodes.iter().find(|node| node.address == IpAddr::V4(address)).ok_or("it is no node")?;
    let kind = if node.control_plane { "control plane" } else { "worker" };
    let mut said = vec![format!("{kind} {} of {}", node.address, node.user)];
    said.push(format!("called {}", attributes::name(node)));
    said.extend(node.annotations.iter().map(|(key, value)| format!("annotation {key}: {value}")));
    said.extend(node.labels.iter().map(|(key, value)| format!("label {key}: {value}")));
    said.extend(
        node.taints.iter().map(|taint| format!("taint {}={}:{}", taint.key, taint.value, taint.effect.as_str())),
    );
    Ok(said)
}
