//! The real program with 100,000 machines: loading them, starting with them, listing, searching, memory and file size.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Context as _, ensure};
use sabakan_client::Client;
use sabakan_testkit::{fixtures, process::Process};
use sabakan_wire::rest::{MachineInput, QueryParams};

use crate::{
    machine::kilobytes,
    table::{Row, median, quantile},
};

const MACHINES: usize = 100_000;
/// Machines registered at once.
pub const BATCH: usize = 1_000;

pub fn run() -> anyhow::Result<Vec<Row>> {
    let program = program()?;
    let dir = tempfile::tempdir_in(".").context("a directory on the disk under test")?;
    let data_dir = dir.path().join("data");
    let quiet = ["--log-level", "error"];

    let process = Process::start(&program, &data_dir, quiet);
    let client = Client::new(&process.url())?;
    client.put_ipam(&fixtures::wide_ipam())?;
    let machines = machines(MACHINES);
    let begun = Instant::now();
    for (number, batch) in machines.chunks(BATCH).enumerate() {
        client.create_machines(batch).with_context(|| format!("batch {number}"))?;
    }
    let load = begun.elapsed().as_secs_f64();
    let after_load = resident(&process)?;
    ensure!(process.terminate().success(), "the server did not stop cleanly");
    let file = fs::metadata(data_dir.join("sabakan.db"))?.len();

    let mut starts = Vec::new();
    for _ in 0..3 {
        let begun = Instant::now();
        let process = Process::start(&program, &data_dir, quiet);
        starts.push(begun.elapsed().as_secs_f64());
        ensure!(process.terminate().success(), "the server did not stop cleanly");
    }
    let process = Process::start(&program, &data_dir, quiet);
    let client = Client::new(&process.url())?;
    let after_start = resident(&process)?;

    let list = median(timed(&client, 5, &[("labels", "tenth=yes")], MACHINES / 10)?);
    let rack = timed(&client, 500, &[("rack", "1777")], 28)?;
    let label = timed(&client, 500, &[("labels", "asset=a050000")], 1)?;
    let all = median(timed(&client, 3, &[], MACHINES)?);
    let start = median(starts);
    let memory_max = 40.0 + MACHINES as f64 * 2.0 / 1024.0;
    let per_machine = file as f64 / MACHINES as f64 / 1024.0;
    let (rack, label) = (quantile(rack, 0.99) * 1e3, quantile(label, 0.99) * 1e3);
    Ok(vec![
        Row::target(
            "load 100,000 machines over HTTP, batches of 1,000",
            format!("{load:.1} s"),
            "≤ 20 s",
            load <= 20.0,
        ),
        Row::target(
            "memory after loading / after a start",
            format!("{after_load:.0} / {after_start:.0} MB"),
            format!("≤ {memory_max:.0} MB"),
            after_load <= memory_max && after_start <= memory_max,
        ),
        Row::target("file per machine", format!("{per_machine:.2} KB"), "≤ 3 KB", per_machine <= 3.0),
        Row::target("start with 100,000 machines to serving", format!("{start:.2} s"), "≤ 1 s", start <= 1.0),
        Row::target("list 10,000 of 100,000 machines", format!("{:.0} ms", list * 1e3), "≤ 100 ms", list <= 0.1),
        Row::figure("list all 100,000 machines", format!("{:.0} ms", all * 1e3)),
        Row::target("search one rack among 100,000 over HTTP, p99", format!("{rack:.2} ms"), "≤ 5 ms", rack <= 5.0),
        Row::target("search one label among 100,000 over HTTP, p99", format!("{label:.2} ms"), "≤ 5 ms", label <= 5.0),
    ])
}

/// Machines in racks of 28, one in ten with a common label, each with one of its own.
pub fn machines(count: usize) -> Vec<MachineInput> {
    let mut machines = fixtures::workers(count, 0);
    for (n, machine) in machines.iter_mut().enumerate() {
        let labels = machine.labels.get_or_insert_default();
        labels.insert("asset".into(), asset(n));
        if n % 10 == 0 {
            labels.insert("tenth".into(), "yes".into());
        }
    }
    machines
}

/// Seconds of `times` searches, each of which must find as many machines as expected.
fn timed(client: &Client, times: usize, filters: &[(&str, &str)], expected: usize) -> anyhow::Result<Vec<f64>> {
    let params: QueryParams = filters.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let one = |_| {
        let begun = Instant::now();
        let body = client.list_machines_text(&params)?;
        let seconds = begun.elapsed().as_secs_f64();
        let found = body.matches("\"spec\":{").count();
        ensure!(found == expected, "{found} machines instead of {expected} for {filters:?}");
        Ok(seconds)
    };
    (0..times).map(one).collect()
}

/// The serial of a machine of the fleet.
pub fn serial(n: usize) -> String {
    format!("w00000-{n:06}")
}

/// The label value that only this machine has.
pub fn asset(n: usize) -> String {
    format!("a{n:06}")
}

/// Resident memory in MB.
pub fn resident(process: &Process) -> anyhow::Result<f64> {
    memory(process, "VmRSS:")
}

/// The most memory that was ever resident, in MB.
pub fn resident_max(process: &Process) -> anyhow::Result<f64> {
    memory(process, "VmHWM:")
}

fn memory(process: &Process, field: &'static str) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id()))?;
    let kilobytes = kilobytes(&status, field).context(field)?;
    Ok(kilobytes as f64 / 1024.0)
}

/// The server's program, built beside this one.
pub fn program() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let program = own.parent().unwrap_or(Path::new(".")).join("sabakan");
    ensure!(program.exists(), "{} is missing: run `cargo xtask bench`, which builds it", program.display());
    Ok(program)
}
