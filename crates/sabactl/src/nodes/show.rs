//! `sabactl nodes show`.

use sabakan_client::{Error, NodeJson, NodesClient};
use sabakan_wire::ironic::NodeStatusJson;
use serde::Serialize;

use super::{Targets, many, words};
use crate::{
    exit::{self, Failure},
    render,
};

#[derive(Debug, clap::Args)]
pub struct Show {
    #[command(flatten)]
    targets: Targets,
}

/// A node with all its fields, and what it does.
#[derive(Debug, Serialize)]
struct Shown {
    #[serde(flatten)]
    node: NodeJson,
    progress: Option<NodeStatusJson>,
}

/// Does what the command says.
pub fn run(client: &NodesClient, show: &Show) -> Result<(), Failure> {
    let ids: Vec<&str> = show.targets.nodes.iter().map(String::as_str).collect();
    let results = many::in_parallel(&ids, |id| -> Result<Shown, Error> {
        let node = client.get(id)?;
        let progress = client.status(id).ok();
        Ok(Shown { node, progress })
    });
    let mut shown = Vec::new();
    let mut failures: Vec<Failure> = Vec::new();
    for (id, result) in ids.iter().zip(results) {
        match result {
            Ok(one) => shown.push(one),
            Err(error) => {
                let failure = Failure::from_node(error);
                if ids.len() > 1 {
                    exit::note(&format!("{id}: {}\n", failure.text));
                }
                failures.push(failure);
            }
        }
    }
    print(&shown, ids.len() > 1, show.targets.json)?;
    let count = failures.len();
    match failures.into_iter().next() {
        None => Ok(()),
        Some(first) if ids.len() == 1 => Err(first),
        Some(first) => Err(Failure { text: format!("{count} of {} nodes are not shown", ids.len()), ..first }),
    }
}

fn print(shown: &[Shown], several: bool, json: bool) -> Result<(), Failure> {
    if json {
        return match shown {
            [only] if !several => render::print_json(only),
            all => render::print_json(&all),
        };
    }
    let now = words::now();
    let texts = shown.iter().map(|one| words::explain(&one.node, one.progress.as_ref(), now));
    render::print_text(&texts.collect::<Vec<_>>().join("\n"))
}
