//! Labels put over HTTP: how many changes a second are durable and acknowledged, beside what the disk can do.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, ensure};

use crate::{
    backend::Backend,
    client::{load, request},
    fleet::{self, program},
    store::raw_fsync,
    table::{Row, median},
};

/// As many as upstream was measured with.
const MACHINES: usize = 5_000;

/// How long one measurement lasts.
const SPAN: Duration = Duration::from_secs(2);

/// How often each is repeated, alternating with the others.
const ROUNDS: usize = 3;

/// Clients, and what the product promises on the embedded store, as a ratio to the disk alone.
const CLIENTS: [(usize, Option<f64>); 3] = [(1, Some(0.25)), (16, None), (64, Some(1.5))];

pub fn run() -> anyhow::Result<Vec<Row>> {
    let program = program()?;
    let dir = tempfile::tempdir_in(".").context("a directory on the disk under test")?;
    let mut rows = measure(Backend::embedded(&program, dir.path()), dir.path())?;
    rows.extend(measure(Backend::etcd(&program, dir.path()), dir.path())?);
    Ok(rows)
}

fn measure(mut backend: Backend, dir: &Path) -> anyhow::Result<Vec<Row>> {
    let name = backend.name();
    backend.grow(&fleet::machines(MACHINES))?;
    let process = backend.start(&[]);
    let url = process.url();
    let mut raw = Vec::new();
    let mut rates = vec![Vec::new(); CLIENTS.len()];
    for round in 0..ROUNDS {
        eprintln!("changes: {name}, round {} of {ROUNDS}", round + 1);
        raw.push(raw_fsync(dir, SPAN)?);
        for ((clients, _), rates) in CLIENTS.iter().zip(&mut rates) {
            // Every client has a machine of its own, and no change is the one before.
            let put = |client, number| {
                let path = format!("/api/v1/labels/{}/bench", fleet::serial(client));
                request("PUT", &path, "text/plain", &format!("{round}-{number}"))
            };
            let load = load(&url, *clients, SPAN, put)?;
            ensure!(load.unavailable == 0, "{} changes were not made", load.unavailable);
            rates.push(load.rate);
        }
    }
    ensure!(process.terminate().success(), "the server did not stop cleanly");
    let mut rows = vec![Row::figure(format!("raw append + fdatasync beside {name}"), per_second(raw.clone()))];
    for ((clients, target), rates) in CLIENTS.into_iter().zip(rates) {
        let ratio = median(rates.iter().zip(&raw).map(|(rate, raw)| rate / raw).collect());
        let what = format!("PUT label over HTTP, {name}, {clients} client{}", if clients == 1 { "" } else { "s" });
        let result = format!("{}, {ratio:.2} × raw", per_second(rates));
        rows.push(match target.filter(|_| name == "embedded") {
            Some(least) => Row::target(what, result, format!("≥ {least} ×"), ratio >= least),
            None => Row::figure(what, result),
        });
    }
    Ok(rows)
}

fn per_second(rates: Vec<f64>) -> String {
    format!("{:.0}/s", median(rates))
}
