//! The benchmarks of the product, as a table: `cargo xtask bench [store] [fleet] [scrape]`. Programs, not timed tests: the machines they run on
//! are shared and noisy, so what depends on the disk is given as a ratio to what the same disk did in the same minute.
//!
//! Exits with an error when something could not be measured. A missed target is marked in the table and is no error: whether the
//! machine or the program is to blame is for people to judge.

mod fleet;
mod machine;
mod scrape;
mod store;
mod table;

use anyhow::bail;
use table::Row;

fn main() -> anyhow::Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|name| !["store", "fleet", "scrape"].contains(&name.as_str())) {
        bail!("unknown benchmark {unknown:?}; there are: store, fleet, scrape; none means all");
    }
    let chosen = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    let mut rows: Vec<Row> = Vec::new();
    if chosen("store") {
        rows.extend(store::run()?);
    }
    if chosen("fleet") {
        rows.extend(fleet::run()?);
    }
    if chosen("scrape") {
        rows.extend(scrape::run()?);
    }
    println!("{}\n", machine::description()?);
    print!("{}", table::render(&rows));
    Ok(())
}
