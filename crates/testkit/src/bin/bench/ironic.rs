//! The provisioning API of the real program with ten thousand nodes: making them, and listing them page by page as clients do.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, ensure};
use sabakan_testkit::process::Process;

use crate::{
    client::{Connection, Load, load},
    fleet::program,
    store::raw_fsync,
    table::{Row, median},
};

const NODES: usize = 10_000;

/// As many as a page holds at most.
const PAGE: usize = 1_000;

/// Clients that make nodes.
const CLIENTS: usize = 8;

/// Clients that make the rest of them, which is not measured.
const FILLING_CLIENTS: usize = 64;

/// How long one measurement of making nodes lasts.
const SPAN: Duration = Duration::from_secs(2);

/// How often each is repeated.
const ROUNDS: usize = 3;

/// How often a list is read.
const LISTS: usize = 5;

/// Lists: what they are called here, and the query; and what the product promises of a walk and of a page, in seconds.
const QUERIES: [(&str, &str); 3] = [
    ("as a table shows them", "/v1/nodes?limit=1000"),
    ("with all their fields", "/v1/nodes?detail=true&limit=1000"),
    ("with three fields", "/v1/nodes?fields=uuid,name,provision_state&limit=1000"),
];
const WALK_MAX: f64 = 2.0;
const PAGE_MAX: f64 = 0.1;
const RATE_MIN: f64 = 500.0;

pub fn run() -> anyhow::Result<Vec<Row>> {
    let dir = tempfile::tempdir_in(".").context("a directory on the disk under test")?;
    let process = Process::start(program()?, &dir.path().join("data"), ["--log-level", "error"]);
    let url = format!("http://{}", process.address("ironic"));
    let mut rows = make(&url, dir.path())?;
    for (what, query) in QUERIES {
        eprintln!("ironic: list {what}");
        let walks = (0..LISTS).map(|_| walk(&url, query)).collect::<anyhow::Result<Vec<Walk>>>()?;
        let all = median(walks.iter().map(|walk| walk.seconds).collect());
        let page = median(walks.iter().map(|walk| walk.slowest).collect());
        let bytes = walks.iter().map(|walk| walk.bytes).max().unwrap_or(0) as f64 / 1e6;
        let result = format!("{:.0} ms, {bytes:.1} MB", all * 1e3);
        rows.push(Row::target(format!("list 10,000 nodes {what}, all pages"), result, "≤ 2 s", all <= WALK_MAX));
        let result = format!("{:.0} ms", page * 1e3);
        rows.push(Row::target(format!("the slowest page of 1,000 {what}"), result, "≤ 100 ms", page <= PAGE_MAX));
    }
    ensure!(process.terminate().success(), "the server did not stop cleanly");
    Ok(rows)
}

/// Makes as many nodes as are listed, measuring how fast.
fn make(url: &str, dir: &Path) -> anyhow::Result<Vec<Row>> {
    let (mut raw, mut rates, mut made) = (Vec::new(), Vec::new(), 0);
    for round in 0..ROUNDS {
        eprintln!("ironic: make nodes, round {} of {ROUNDS}", round + 1);
        raw.push(raw_fsync(dir, SPAN)?);
        let load = post(url, CLIENTS, &round.to_string())?;
        rates.push(load.rate);
        made += load.latencies.len();
    }
    for fill in 0.. {
        if made >= NODES {
            break;
        }
        made += post(url, FILLING_CLIENTS, &format!("fill{fill}"))?.latencies.len();
    }
    // The walks count exactly as many as the product promises something about.
    trim(url, made)?;
    let ratio = median(rates.iter().zip(&raw).map(|(rate, raw)| rate / raw).collect());
    let rate = median(rates);
    Ok(vec![
        Row::figure("raw append + fdatasync beside it", format!("{:.0}/s", median(raw))),
        Row::target(
            "nodes made over HTTP, 8 clients",
            format!("{rate:.0}/s, {ratio:.2} × raw"),
            "> 500/s",
            rate > RATE_MIN,
        ),
    ])
}

fn post(url: &str, clients: usize, round: &str) -> anyhow::Result<Load> {
    let made = load(url, clients, SPAN, |client, number| {
        request("POST", "/v1/nodes", &node(&format!("r{round}-c{client}-{number}")))
    })?;
    ensure!(made.unavailable == 0, "{} nodes were not made", made.unavailable);
    Ok(made)
}

/// Deletes nodes until as many are left as are listed.
fn trim(url: &str, made: usize) -> anyhow::Result<()> {
    let mut connection = Connection::open(url)?;
    let mut left = made;
    while left > NODES {
        let page = connection.fetch(&request("GET", "/v1/nodes?fields=uuid&limit=1000", ""))?;
        let page = String::from_utf8(page)?;
        let ids: Vec<&str> = page.split("\"uuid\":\"").skip(1).filter_map(|rest| rest.get(..36)).collect();
        ensure!(!ids.is_empty(), "{left} nodes, and a page without any");
        for id in ids.into_iter().take(left - NODES) {
            connection.ask(&request("DELETE", &format!("/v1/nodes/{id}"), ""))?;
            left -= 1;
        }
    }
    Ok(())
}

struct Walk {
    seconds: f64,
    slowest: f64,
    bytes: usize,
}

/// Reads a list from its first page to its last, following the links.
fn walk(url: &str, query: &str) -> anyhow::Result<Walk> {
    let mut connection = Connection::open(url)?;
    let (mut seen, mut walk) = (0, Walk { seconds: 0.0, slowest: 0.0, bytes: 0 });
    let mut next = Some(query.to_owned());
    while let Some(path) = next {
        let begun = std::time::Instant::now();
        let body = connection.fetch(&request("GET", &path, ""))?;
        let seconds = begun.elapsed().as_secs_f64();
        let body = String::from_utf8(body)?;
        seen += body.matches("\"uuid\":\"").count();
        walk.seconds += seconds;
        walk.slowest = walk.slowest.max(seconds);
        walk.bytes += body.len();
        next = body.split_once("\"next\":\"").and_then(|(_, rest)| {
            let link = rest.split_once('"')?.0;
            link.find("/v1/").map(|at| link[at..].to_owned())
        });
    }
    ensure!(seen == NODES, "{seen} nodes instead of {NODES} in {query}, by pages of {PAGE}");
    Ok(walk)
}

/// A node as somebody describes it who means to use it.
fn node(name: &str) -> String {
    serde_json::json!({
        "name": name,
        "driver": "redfish",
        "driver_info": {
            "redfish_address": "https://192.0.2.1",
            "redfish_system_id": "/redfish/v1/Systems/1",
            "redfish_username": "admin",
            "redfish_password": "open sesame",
        },
        "properties": { "cpu_arch": "x86_64", "cpus": 64, "memory_mb": 524_288, "local_gb": 3_840 },
        "extra": { "room": "a", "row": 12 },
        "resource_class": "general",
    })
    .to_string()
}

fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         x-openstack-ironic-api-version: 1.115\r\n\r\n"
    );
    [head.as_bytes(), body.as_bytes()].concat()
}
