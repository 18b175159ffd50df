//! The benchmarks of the product, as a table:
//! `cargo xtask bench [store] [changes] [fleet] [memory] [scrape] [search] [provision] [plan] [ironic]`. Programs, not timed tests: the machines
//! they run on are shared and noisy, so what depends on the disk is given as a ratio to what the same disk did in the same minute.
//!
//! Exits with an error when something could not be measured. A missed target is marked in the table and is no error: whether the
//! machine or the program is to blame is for people to judge.

mod backend;
mod changes;
mod client;
mod fleet;
mod ironic;
mod machine;
mod memory;
mod plan;
mod provision;
mod scrape;
mod search;
mod store;
mod table;

use anyhow::bail;
use table::Row;

/// The benchmarks, in the order they run.
const NAMES: [&str; 9] = ["store", "changes", "fleet", "memory", "scrape", "search", "provision", "plan", "ironic"];

fn main() -> anyhow::Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|name| !NAMES.contains(&name.as_str())) {
        bail!("unknown benchmark {unknown:?}; there are: {}; none means all", NAMES.join(", "));
    }
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let mut rows: Vec<Row> = Vec::new();
    if chosen("store") {
        rows.extend(store::run()?);
    }
    if chosen("changes") {
        rows.extend(changes::run()?);
    }
    if chosen("fleet") {
        rows.extend(fleet::run()?);
    }
    if chosen("memory") {
        rows.extend(memory::run()?);
    }
    if chosen("scrape") {
        rows.extend(scrape::run()?);
    }
    if chosen("provision") {
        rows.extend(provision::run()?);
    }
    if chosen("plan") {
        rows.extend(plan::run()?);
    }
    if chosen("ironic") {
        rows.extend(ironic::run()?);
    }
    let tables = if chosen("search") { search::run()? } else { Vec::new() };
    println!("{}", machine::description()?);
    if !rows.is_empty() {
        print!("\n{}", table::render(&rows));
    }
    for table in tables {
        print!("\n{table}");
    }
    Ok(())
}
