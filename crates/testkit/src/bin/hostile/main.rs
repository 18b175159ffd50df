//! What an operator feels while strangers do their worst: `cargo xtask hostile`. Starts the real program, sends it crowds of hostile
//! clients from a network namespace of their own, and prints how long an operator's changes take before, during and after.
//!
//! Needs root for the namespace. Every crowd has a size and a time, so it stops by itself. Exits with an error when something could
//! not be measured; a missed target is marked in the table and is no error.

mod crowd;
mod namespace;

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use crowd::{Kind, Targets};
use namespace::Namespace;
use sabakan_testkit::{fixtures, hostile::Tally, process::Process, raw};

/// Changes that are timed in each phase, one each [`PACE`]: 45 seconds, longer than the server bears with anybody who is slow, so that
/// the crowd is thrown out and comes back meanwhile.
const CHANGES: usize = 450;
const PACE: Duration = Duration::from_millis(100);

/// What the product promises: the slowest change in a hundred takes at most this many times as long as in peace.
const RATIO_MAX: f64 = 5.0;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // The provider of cryptography is chosen once in a process; a second choice is refused and nothing is lost.
    let _already_set = rustls::crypto::ring::default_provider().install_default();
    match arguments.split_first() {
        None => measure(),
        Some((word, rest)) if word == "crowd" => crowd::run(rest),
        Some((word, _)) => bail!("takes no argument, got {word:?}"),
    }
}

fn measure() -> anyhow::Result<()> {
    let program = std::env::current_exe()?.with_file_name("sabakan");
    ensure!(program.exists(), "{} is missing; `cargo xtask hostile` builds it", program.display());
    let namespace = Namespace::create()?;
    let dir = tempfile::tempdir()?;
    let data = dir.path().join("data");
    let outside = format!("{}:0", namespace::SERVER);
    // Ramdisks that report in the clear are the cheapest way to be hostile.
    let listeners = ["--http", &outside, "--https", &outside, "--ironic", &outside, "--ironic-tls", "off"];
    let server = Process::start(&program, &data, listeners);
    let targets = targets(&data)?;
    let url = server.url();
    println!(
        "| hostile clients | before: p50 / p99 / max | during | after | p99 during / before | met | came / thrown out / there at the end |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    for kind in Kind::ALL {
        let before = timed(&url)?;
        let crowd = namespace.send(kind, &targets)?;
        let during = timed(&url)?;
        let Tally { open, came, thrown_out } = crowd.send_home()?;
        let after = timed(&url)?;
        let ratio = during.p99 / before.p99;
        let met = if ratio <= RATIO_MAX { "yes" } else { "**no**" };
        let crowd = format!("{came} / {thrown_out} / {open}");
        println!("| {} | {before} | {during} | {after} | {ratio:.1} × | {met} | {crowd} |", kind.text());
    }
    let status = server.terminate();
    ensure!(status.success(), "the server ended with {status}");
    Ok(())
}

/// Where strangers reach the server, and its certificate.
fn targets(data: &Path) -> anyhow::Result<Targets> {
    let text = fs::read_to_string(data.join("addresses.json"))?;
    let json: serde_json::Value = serde_json::from_str(&text)?;
    let address = |listener: &str| -> anyhow::Result<SocketAddr> {
        let all =
            json["all"][listener].as_array().into_iter().flatten().filter_map(|value| value.as_str()?.parse().ok());
        let mut outside = all.filter(|address: &SocketAddr| !address.ip().is_loopback());
        outside.next().with_context(|| format!("{listener} is not served outside: {text}"))
    };
    let certificate: PathBuf = data.join("server.crt");
    Ok(Targets { http: address("http")?, https: address("https")?, ironic: address("ironic")?, certificate })
}

/// How long changes took, in milliseconds.
struct Latency {
    p50: f64,
    p99: f64,
    max: f64,
}

impl std::fmt::Display for Latency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Latency { p50, p99, max } = self;
        write!(f, "{p50:.1} / {p99:.1} / {max:.1} ms")
    }
}

/// Changes at a steady pace, each on a connection of its own: getting in is part of it.
fn timed(url: &str) -> anyhow::Result<Latency> {
    let ipam = serde_json::to_vec(&fixtures::ipam())?;
    let mut times = Vec::with_capacity(CHANGES);
    let mut next = Instant::now();
    for _ in 0..CHANGES {
        pause_until(next);
        next += PACE;
        let begun = Instant::now();
        let answer = raw::request(url, "PUT", "/api/v1/config/ipam", &[], &ipam);
        ensure!(answer.status == 200, "a change was refused: {answer:?}");
        times.push(begun.elapsed());
    }
    times.sort();
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let at = |share: usize| milliseconds(times[(CHANGES * share / 100).min(CHANGES - 1)]);
    Ok(Latency { p50: at(50), p99: at(99), max: milliseconds(times[CHANGES - 1]) })
}

#[allow(clippy::disallowed_methods, reason = "a steady pace is what is measured")]
fn pause_until(instant: Instant) {
    std::thread::sleep(instant.saturating_duration_since(Instant::now()));
}
