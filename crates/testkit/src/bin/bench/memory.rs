//! What of its memory the program gives back: 100,000 machines, then sixteen clients that list all of them, sixty-four that change
//! labels and a large document of the cluster, then silence. The allocator decides this more than the program does, which is why
//! the rates are told beside it: one can be bought with the other.
//!
//! To compare allocators, preload another one: `LD_PRELOAD=libjemalloc.so.2 target/release/bench memory`, with a server that was
//! built without one of its own.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use sabakan_client::Client;
use sabakan_testkit::{fixtures, process::Process};

use crate::{
    client::{Connection, Outcome, load, request},
    fleet::{BATCH, machines, program, resident, resident_max, serial},
    table::{Row, median, quantile},
};

const MACHINES: usize = 100_000;
const LISTERS: usize = 16;
const WRITERS: usize = 64;
const SPAN: Duration = Duration::from_secs(5);
/// An allocator that gives memory back does so within this.
const SILENCE: Duration = Duration::from_secs(15);

pub fn run() -> anyhow::Result<Vec<Row>> {
    let program = program()?;
    let dir = tempfile::tempdir_in(".").context("a directory on the disk under test")?;
    let data_dir = dir.path().join("data");
    let quiet = ["--log-level", "error", "--metrics-machines=false"];
    let process = Process::start(&program, &data_dir, quiet);
    let client = Client::new(&process.url())?;
    client.put_ipam(&fixtures::wide_ipam())?;
    let begun = Instant::now();
    for batch in machines(MACHINES).chunks(BATCH) {
        client.create_machines(batch)?;
    }
    let loading = begun.elapsed().as_secs_f64();
    ensure!(process.terminate().success(), "the server did not stop cleanly");

    let process = Process::start(&program, &data_dir, quiet);
    let url = process.url();
    silence();
    let after_start = resident(&process)?;
    let list = request("GET", "/api/v1/machines", "text/plain", "");
    let lists = load(&url, LISTERS, SPAN, |_, _| list.clone())?;
    documents(&url)?;
    silence();
    let after_reading = resident(&process)?;
    let put = |client: usize, number: usize| {
        let path = format!("/api/v1/labels/{}/bench", serial(client * 1_000 + number % 1_000));
        request("PUT", &path, "text/plain", &number.to_string())
    };
    let changes = load(&url, WRITERS, SPAN, put)?;
    silence();
    let (after_load, most) = (resident(&process)?, resident_max(&process)?);
    ensure!(process.terminate().success(), "the server did not stop cleanly");
    // The machines have a label more than they had, so it is a second start that tells what they need.
    let process = Process::start(&program, &data_dir, quiet);
    silence();
    let after_restart = resident(&process)?;
    ensure!(process.terminate().success(), "the server did not stop cleanly");
    let (reading, all) = (after_reading / after_start, after_load / after_restart);
    Ok(vec![
        Row::figure("memory after the start / at most", format!("{after_start:.0} / {most:.0} MB")),
        Row::target(
            "memory after lists and documents, to that after the start",
            format!("{after_reading:.0} MB, {reading:.2} ×"),
            "≤ 1.3 ×",
            reading <= 1.3,
        ),
        Row::target(
            "memory after changes too, to that after another start",
            format!("{after_load:.0} MB, {all:.2} ×"),
            "≤ 1.3 ×",
            all <= 1.3,
        ),
        Row::figure("loading 100,000 machines", format!("{loading:.1} s")),
        Row::figure(
            "lists of 100,000 machines, 16 clients",
            format!("{:.2}/s, p50 {:.0} ms", lists.rate, median(lists.latencies) * 1e3),
        ),
        Row::figure(
            "changes of labels, 64 clients",
            format!(
                "{:.0}/s, p99 {:.1} ms, {} unavailable",
                changes.rate,
                quantile(changes.latencies, 0.99) * 1e3,
                changes.unavailable
            ),
        ),
    ])
}

/// Large documents of YAML, refused for what they say but parsed to the end.
fn documents(url: &str) -> anyhow::Result<()> {
    let line =
        |n: usize| format!("- {{address: 10.0.{}.{}, labels: {{a: b, c: d}}, user: cybozu}}\n", n / 250, n % 250);
    let nodes: String = (0..20_000).map(line).collect();
    let text = format!("name: bench\nunknown:\n{nodes}");
    for _ in 0..4 {
        let mut connection = Connection::open(url)?;
        // Whatever is said about it: what it leaves behind is the question.
        let asked = connection.ask(&request("PUT", "/api/v1/cluster/template", "text/plain", &text));
        ensure!(!matches!(asked, Ok(Outcome::Answered)), "a template that means nothing was accepted");
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "silence is what is measured; there is no level to wait for")]
fn silence() {
    std::thread::sleep(SILENCE);
}
