//! `/metrics` of the real program with 1,000, 10,000 and 100,000 machines, with and without series for each of them.

use std::{
    io::{Read as _, Write as _},
    time::Instant,
};

use anyhow::{Context as _, ensure};
use sabakan_testkit::raw;

use crate::{
    backend::Backend,
    fleet::{machines, program, resident},
    table::{Row, median, quantile},
};

/// Fleets, and how often each is scraped with and without single machines.
const FLEETS: [(usize, usize, usize); 3] = [(1_000, 200, 500), (10_000, 50, 500), (LARGEST, 20, 300)];
const LARGEST: usize = 100_000;

/// The longest a scrape of the largest fleet may take without single machines.
const SECONDS_MAX: f64 = 0.050;

pub fn run() -> anyhow::Result<Vec<Row>> {
    let program = program()?;
    let dir = tempfile::tempdir_in(".").context("a directory on the disk under test")?;
    let mut backend = Backend::embedded(&program, dir.path());
    let fleet = machines(LARGEST);
    let mut rows = Vec::new();
    for (machines, times_with, times_without) in FLEETS {
        eprintln!("scrape: {machines} machines");
        backend.grow(&fleet[..machines])?;
        let without = measure(&backend, "--metrics-machines=false", times_without)?;
        let what = format!("scrape of {machines} machines without their own series, p50 / p99, size");
        let met = (machines == LARGEST).then_some(without.p99 <= SECONDS_MAX);
        let row = Row::figure(what, without.to_string());
        rows.push(Row { target: met.map_or(String::new(), |_| "p99 ≤ 50 ms".to_owned()), met, ..row });
        let with = measure(&backend, "--metrics-machines=true", times_with)?;
        ensure!(with.lines >= 7 * machines, "{} lines for {machines} machines", with.lines);
        rows.push(Row::figure(format!("scrape of {machines} machines, seven series each"), with.to_string()));
        let (before, after) = with.memory;
        let memory = format!("{before:.0} / {after:.0} MB");
        rows.push(Row::figure(
            format!("memory before / after scraping {machines} machines, seven series each"),
            memory,
        ));
    }
    Ok(rows)
}

/// What scraping came to.
struct Measured {
    p50: f64,
    p99: f64,
    bytes: usize,
    lines: usize,
    /// In MB, before and after.
    memory: (f64, f64),
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Measured { p50, p99, bytes, .. } = self;
        #[allow(clippy::cast_precision_loss, reason = "a size for people")]
        let kilobytes = *bytes as f64 / 1024.0;
        write!(f, "{:.1} / {:.1} ms, {kilobytes:.0} KB", p50 * 1e3, p99 * 1e3)
    }
}

fn measure(backend: &Backend, flag: &str, times: usize) -> anyhow::Result<Measured> {
    let process = backend.start(&[flag]);
    let url = process.url();
    let before = resident(&process)?;
    let answer = raw::request(&url, "GET", "/metrics", &[], b"");
    ensure!(answer.status == 200, "{}", answer.status);
    let (lines, mut bytes) = (answer.body.lines().count(), answer.body.len());
    drop(answer);
    let mut seconds = Vec::with_capacity(times);
    let mut buffer = vec![0; 256 * 1024];
    for _ in 0..times {
        let begun = Instant::now();
        bytes = scrape(&url, &mut buffer)?;
        seconds.push(begun.elapsed().as_secs_f64());
    }
    let after = resident(&process)?;
    ensure!(process.terminate().success(), "the server did not stop cleanly");
    let (p50, p99) = (median(seconds.clone()), quantile(seconds, 0.99));
    Ok(Measured { p50, p99, bytes, lines, memory: (before, after) })
}

/// One scrape on a connection of its own, to its last byte, which is not looked at: the time is the server's, not the reader's.
fn scrape(url: &str, buffer: &mut [u8]) -> anyhow::Result<usize> {
    let mut stream = raw::connect(url);
    stream.write_all(b"GET /metrics HTTP/1.0\r\nhost: bench\r\n\r\n")?;
    let mut bytes = 0;
    loop {
        match stream.read(buffer)? {
            0 => return Ok(bytes),
            read => bytes += read,
        }
    }
}
