//! What programs ask the registry, over HTTP on either store, with one client and with sixteen, while machines change their state.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, anyhow, ensure};
use sabakan_client::Client;
use sabakan_testkit::{process::Process, raw};
use serde_json::json;

use crate::{
    backend::Backend,
    client::{Connection, Load, Outcome, load, request},
    fleet::{self, program, resident, resident_max},
    table::{Table, count, median, milliseconds, quantile},
};

/// Sizes of fleets. Upstream's figures are of 5,000.
const FLEETS: [usize; 4] = [1_000, 5_000, 10_000, 100_000];
const LARGEST: usize = 100_000;

/// How long one question is asked.
const SPAN: Duration = Duration::from_millis(1_200);

const CLIENTS: usize = 16;

/// A fleet has two Prometheus servers, not sixteen. The server refuses scrapes while four are under way, and a place becomes free a moment
/// after its answer has arrived.
const SCRAPERS: usize = 2;

/// State changes per second beside the questions.
const CHANGES_PER_SECOND: u32 = 50;

/// Machines that change, one after the other: as many as one large row of racks.
const CHANGING: usize = 500;

/// Machines in the state that is searched for, and in one rack.
const RACK: usize = 28;

/// What CKE asks.
const CKE: &str = r#"query ckeSearch($having: MachineParams = null, $notHaving: MachineParams = {roles: ["boot"] states: [RETIRED]}) {
  searchMachines(having: $having, notHaving: $notHaving) {
    spec{serial labels{name value} rack indexInRack role ipv4 registerDate retireDate bmc{bmcType}}
    status{state duration}
  }
}"#;

const ONE: &str = "query one($serial: ID!) {
  machine(serial: $serial) {
    spec{serial labels{name value} rack indexInRack role ipv4 registerDate retireDate bmc{bmcType}}
    status{state duration}
  }
}";

const COLUMNS: [&str; 9] = [
    "what",
    "answer",
    "1 client, p50 / p99",
    "per second",
    "16 clients, p50 / p99",
    "per second",
    "least asked",
    "target",
    "met",
];

pub fn run() -> anyhow::Result<Vec<Table>> {
    let program = program()?;
    let dir = tempfile::tempdir_in(".").context("a directory on the disk under test")?;
    let fleet = fleet::machines(LARGEST);
    let mut tables = Vec::new();
    for mut backend in [Backend::embedded(&program, dir.path()), Backend::etcd(&program, dir.path())] {
        let mut changed = 0;
        for machines in FLEETS {
            let begun = Instant::now();
            backend.grow(&fleet[..machines])?;
            let seconds = begun.elapsed().as_secs_f64();
            eprintln!("search: {machines} machines, {}, loaded in {seconds:.1} s", backend.name());
            tables.push(measure(&backend, machines, &mut changed)?);
        }
    }
    Ok(tables)
}

/// A question, and how to tell that it was answered.
struct Question {
    what: &'static str,
    method: &'static str,
    path: String,
    body: String,
    /// Stands in the answer as often as it should.
    mark: &'static str,
    marks: usize,
    /// Clients that ask at once, after one alone did.
    clients: usize,
    /// What must hold for one client.
    target: Option<Target>,
}

enum Target {
    P50(f64),
    P99(f64),
}

fn questions(machines: usize) -> Vec<Question> {
    let graphql = |what, query: &str, variables: serde_json::Value, marks| Question {
        what,
        method: "POST",
        path: "/graphql".to_owned(),
        body: json!({ "query": query, "variables": variables }).to_string(),
        mark: "\"serial\":",
        marks,
        clients: CLIENTS,
        target: (machines == LARGEST && marks < machines).then_some(Target::P99(0.005)),
    };
    let get = |what, path: &str, mark, marks, target| Question {
        what,
        method: "GET",
        path: path.to_owned(),
        body: String::new(),
        mark,
        marks,
        clients: CLIENTS,
        target,
    };
    let middle = machines / 2;
    let (asset, serial) = (fleet::asset(middle), fleet::serial(middle));
    let rack = middle / RACK;
    let list_target = (machines == 10_000).then_some(Target::P50(0.1));
    let scrape_target = (machines == LARGEST).then_some(Target::P99(0.05));
    let scrape = get("scrape, without single machines", "/metrics", "\nsabakan_machines{", 7, scrape_target);
    vec![
        graphql("one rack, GraphQL", CKE, json!({ "having": { "racks": [rack] } }), RACK),
        graphql("one label, GraphQL", CKE, json!({ "having": { "labels": [{ "name": "asset", "value": asset }] } }), 1),
        graphql("one state, GraphQL", CKE, json!({ "having": { "states": ["retiring"] } }), RACK),
        graphql("one machine by serial, GraphQL", ONE, json!({ "serial": serial }), 1),
        graphql("CKE's query, all machines", CKE, json!({}), machines),
        get("list of all machines, REST", "/api/v1/machines", "\"spec\":{", machines, list_target),
        Question { clients: SCRAPERS, ..scrape },
    ]
}

fn measure(backend: &Backend, machines: usize, changed: &mut usize) -> anyhow::Result<Table> {
    let process = backend.start(&["--metrics-machines=false"]);
    let memory = resident(&process)?;
    let url = process.url();
    retire_a_few(&url)?;
    let (first, stop) = (*changed, AtomicBool::new(false));
    let (rows, changes) = thread::scope(|scope| {
        let changing = scope.spawn(|| change(&url, first, &stop));
        let rows: anyhow::Result<Vec<_>> = questions(machines).iter().map(|question| row(&url, question)).collect();
        stop.store(true, Ordering::Relaxed);
        (rows, changing.join())
    });
    let changes = changes.map_err(|_| anyhow!("the changes panicked"))??;
    let mut rows = rows.with_context(|| process.log())?;
    *changed += changes.latencies.len() + changes.unavailable;
    rows.push(changes_row(changes));
    rows.push(memory_row(&process, memory)?);
    ensure!(process.terminate().success(), "the server did not stop cleanly");
    Ok(Table { title: format!("{} machines, {}", count(machines), backend.name()), columns: &COLUMNS, rows })
}

/// Asks one question with few and with many clients.
fn row(url: &str, question: &Question) -> anyhow::Result<Vec<String>> {
    let Question { what, method, path, body, mark, marks, clients, target } = question;
    let json = ("content-type", "application/json");
    let answer = raw::request(url, method, path, &[json], body.as_bytes());
    let found = answer.body.matches(mark).count();
    ensure!(answer.status == 200 && found == *marks, "{what}: {}, {found} instead of {marks}", answer.status);
    #[allow(clippy::cast_precision_loss, reason = "a size for people")]
    let kilobytes = answer.body.len() as f64 / 1024.0;
    drop(answer);
    let bytes = request(method, path, json.1, body);
    let mut cells = vec![(*what).to_owned(), format!("{kilobytes:.1} KB")];
    let (mut met, mut least) = (None, usize::MAX);
    for clients in [1, *clients] {
        let Load { latencies, unavailable, rate } =
            load(url, clients, SPAN, |_, _| bytes.clone()).with_context(|| *what)?;
        least = least.min(latencies.len());
        let (p50, p99) = (median(latencies.clone()), quantile(latencies, 0.99));
        let fewer = if [1, CLIENTS].contains(&clients) { String::new() } else { format!(" ({clients} clients)") };
        cells.push(milliseconds(p50, p99) + &fewer + &failed(unavailable));
        cells.push(if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") });
        met = met.or(target.as_ref().map(|target| match target {
            Target::P50(max) => p50 <= *max,
            Target::P99(max) => p99 <= *max,
        }));
    }
    cells.push(format!("{least} ×"));
    cells.push(target.as_ref().map_or_else(String::new, |target| match target {
        Target::P50(max) => format!("p50 ≤ {:.0} ms", max * 1e3),
        Target::P99(max) => format!("p99 ≤ {:.0} ms", max * 1e3),
    }));
    cells.push(Table::met(met));
    Ok(cells)
}

/// Puts as many machines as a rack has into a state that no other has.
fn retire_a_few(url: &str) -> anyhow::Result<()> {
    let client = Client::new(url)?;
    for n in CHANGING..CHANGING + RACK {
        client.put_state(&fleet::serial(n), "retiring", false)?;
    }
    Ok(())
}

/// Changes states until told to stop, going on where `first` changes before have ended. Seconds of each, counted from when it was due:
/// a server that falls behind must not look fast because it was asked less. And how many a second there were.
fn change(url: &str, first: usize, stop: &AtomicBool) -> anyhow::Result<Load> {
    let mut connection = Connection::open(url)?;
    let begun = Instant::now();
    let (mut latencies, mut unavailable) = (Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        let done = latencies.len() + unavailable;
        let due = begun + Duration::from_secs(1) * u32::try_from(done)? / CHANGES_PER_SECOND;
        #[allow(
            clippy::disallowed_methods,
            reason = "a benchmark sends at a fixed rate; there is no level to wait for"
        )]
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let (round, machine) = ((first + done) / CHANGING, (first + done) % CHANGING);
        // The way from uninitialized leads over healthy, so that is what the first round asks for.
        let state = if round % 2 == 0 { "healthy" } else { "unhealthy" };
        let path = format!("/api/v1/state/{}", fleet::serial(machine));
        let asked = connection.ask(&request("PUT", &path, "text/plain", state));
        let outcome = asked.with_context(|| format!("{path}: {state}"))?;
        match outcome {
            Outcome::Answered => latencies.push(due.elapsed().as_secs_f64()),
            Outcome::Unavailable => unavailable += 1,
        }
    }
    ensure!(!latencies.is_empty(), "not one state was changed");
    let rate = latencies.len() as f64 / begun.elapsed().as_secs_f64();
    Ok(Load { latencies, unavailable, rate })
}

fn changes_row(Load { latencies, unavailable, rate }: Load) -> Vec<String> {
    let times = format!("{} ×", latencies.len());
    let (p50, p99) = (median(latencies.clone()), quantile(latencies, 0.99));
    let what = "state changes beside all this".to_owned();
    let latency = milliseconds(p50, p99) + &failed(unavailable);
    cells([what, String::new(), latency, format!("{rate:.0}"), String::new(), String::new(), times])
}

fn memory_row(process: &Process, before: f64) -> anyhow::Result<Vec<String>> {
    let (after, most) = (resident(process)?, resident_max(process)?);
    let what = "memory after the start / at the end / at most".to_owned();
    Ok(cells([what, format!("{before:.0} / {after:.0} / {most:.0} MB")]))
}

/// What is said about requests the server could not serve.
fn failed(unavailable: usize) -> String {
    if unavailable == 0 { String::new() } else { format!(", **{unavailable} unavailable**") }
}

/// A row, filled up.
fn cells<const N: usize>(first: [String; N]) -> Vec<String> {
    first.into_iter().chain(std::iter::repeat_n(String::new(), COLUMNS.len() - N)).collect()
}
