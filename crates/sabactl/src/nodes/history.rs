//! `sabactl nodes history` and `sabactl nodes inventory`.

use jiff::Timestamp;
use sabakan_client::{HistoryRow, NodesClient};

use super::words;
use crate::{
    exit::Failure,
    render::{self, human_duration},
};

#[derive(Debug, clap::Args)]
pub struct History {
    /// Serial or UUID
    node: String,
    /// Print everything the server says as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub struct Inventory {
    /// Serial or UUID
    node: String,
}

/// Does what the command says. Oldest first: one reads it as a story.
pub fn run(client: &NodesClient, history: &History) -> Result<(), Failure> {
    let mut rows = client.history(&history.node).map_err(Failure::from_node)?;
    rows.sort_by_key(|row| row.created_at.parse::<Timestamp>().unwrap_or(Timestamp::MIN));
    if history.json {
        return render::print_json(&rows);
    }
    render::print_columns(["Time", "", "State", "Lasted", "By", "What"], rows.iter().map(columns))
}

fn columns(row: &HistoryRow) -> [String; 6] {
    let time = row.created_at.parse::<Timestamp>().map(|at| at.strftime("%F %T").to_string());
    let mark = if row.severity == "ERROR" { "!" } else { "" };
    let by = row.user.as_deref().or(row.conductor.as_deref()).unwrap_or("-");
    [
        time.unwrap_or_else(|_| row.created_at.clone()),
        mark.to_owned(),
        row.state.as_deref().unwrap_or("-").replace(' ', "-"),
        row.duration_seconds.map_or_else(|| "-".to_owned(), human_duration),
        by.replace(' ', "-"),
        words::one_line(&row.event),
    ]
}

/// Does what the command says.
pub fn run_inventory(client: &NodesClient, inventory: &Inventory) -> Result<(), Failure> {
    let missing = "There is no such node, or it was never inspected: sabactl nodes inspect NODE --wait";
    let found = client.inventory(&inventory.node).map_err(|error| Failure::from(error).if_not_found(missing))?;
    render::print_json(&found)
}
