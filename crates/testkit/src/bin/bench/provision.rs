//! Ten thousand simulated machines from registration to their workload on one server in this process: how fast, in how much memory
//! and with how much processor time. The machines answer at once, so that what is measured is the engine; the figures hold the
//! simulation and this program too, because all of them share one process.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use sabakan_domain::{
    provision::{states::State, verbs::Verb},
    words::Serial,
};
use sabakan_drivers::simulated::{FleetConfig, Latencies};
use sabakan_service::{Asked, Nodes, Shown};
use sabakan_testkit::{
    Backend, fixtures,
    rack::{Rack, operator},
    wait_for,
};
use tokio::task::JoinSet;

use crate::{machine::kilobytes, table::Row};

const MACHINES: usize = 10_000;
const TIME_MAX: Duration = Duration::from_secs(60 * 60);

/// Wishes under way at once.
const ASKED_AT_ONCE: usize = 64;

pub fn run() -> anyhow::Result<Vec<Row>> {
    let latencies = Latencies { heartbeat: Duration::from_secs(5), ..Latencies::none() };
    let fleet = FleetConfig { latencies, ..FleetConfig::default() };
    let rack = Rack::start_with(Backend::Embedded, fleet, |config| {
        if let Some(options) = &mut config.conductor {
            options.lease = Duration::from_secs(15);
            options.task_poll = Duration::from_secs(10);
        }
    });
    rack.server.client().put_ipam(&fixtures::wide_ipam())?;
    let (begun, before) = (Instant::now(), processor_seconds()?);
    let serials: Vec<String> = (0..MACHINES).map(|n| format!("m{n:05}")).collect();
    rack.register(&serials);
    drive(&rack, &serials)?;
    let seconds = begun.elapsed().as_secs_f64();
    let status = fs::read_to_string("/proc/self/status")?;
    let most = kilobytes(&status, "VmHWM:").context("VmHWM")? as f64 / 1024.0;
    let processor = processor_seconds()? - before;
    let commits = rack.server.block_on(rack.server.store().latest_commit())?.0;
    Ok(vec![
        Row::target(
            "10,000 simulated machines from nothing to active",
            format!("{:.1} min", seconds / 60.0),
            "≤ 10 min",
            seconds <= 600.0,
        ),
        Row::target(
            "memory for it at most, simulation included",
            format!("{most:.0} MB"),
            "≤ 1,024 MB",
            most <= 1024.0,
        ),
        Row::figure("machines per minute", format!("{:.0}", MACHINES as f64 / seconds * 60.0)),
        Row::figure("processor time for it, simulation included", format!("{processor:.0} s")),
        Row::figure("durable commits for it, per machine", format!("{:.1}", commits as f64 / MACHINES as f64)),
    ])
}

/// Asks of each machine what comes next for it, until all are active.
fn drive(rack: &Rack, serials: &[String]) -> anyhow::Result<()> {
    let nodes = rack.server.nodes();
    ask(rack, &nodes, serials.iter().map(|serial| (serial.clone(), Verb::Manage)).collect())?;
    let (mut asked, mut looks) = (0, 0_u32);
    let mut failure = None;
    wait_for("every machine to be active", TIME_MAX, || {
        // A look at ten thousand machines is not free; two a second keep them busy.
        looks += 1;
        if !looks.is_multiple_of(50) {
            return None;
        }
        let shown = rack.server.block_on(nodes.list()).expect("the nodes");
        failure = shown.iter().find_map(|shown| shown.node.last_error.clone());
        let active = shown.iter().filter(|shown| shown.node.state == State::Active).count();
        let next: Vec<(String, Verb)> = shown.iter().filter_map(next).collect();
        asked += next.len();
        let refused = ask(rack, &nodes, next).err().map(|error| error.to_string());
        failure = failure.take().or(refused);
        (active == serials.len() || failure.is_some()).then_some(())
    });
    ensure!(failure.is_none(), "a machine failed: {}", failure.unwrap_or_default());
    ensure!(asked == 2 * serials.len(), "{asked} wishes after the first one of each machine");
    Ok(())
}

fn next(shown: &Shown) -> Option<(String, Verb)> {
    let idle = shown.node.operation.is_none() && shown.lock.is_none();
    let verb = match shown.node.state {
        State::Manageable if idle => Verb::Provide,
        State::Available if idle => Verb::Active,
        _ => return None,
    };
    Some((shown.node.name.to_string(), verb))
}

fn ask(rack: &Rack, nodes: &Arc<Nodes>, wishes: Vec<(String, Verb)>) -> anyhow::Result<()> {
    rack.server.block_on(async {
        let mut asking = JoinSet::new();
        for (serial, verb) in wishes {
            if asking.len() >= ASKED_AT_ONCE {
                asking.join_next().await.context("one of them")???;
            }
            let (nodes, name) = (Arc::clone(nodes), Serial::new(&serial)?);
            asking.spawn(async move {
                let asked = Asked { verb, steps: Vec::new(), disable_ramdisk: false };
                nodes.ask(&operator(), &name, &asked).await.map(drop).context("accepted")
            });
        }
        while let Some(asked) = asking.join_next().await {
            asked??;
        }
        Ok(())
    })
}

/// Processor time of this process so far.
fn processor_seconds() -> anyhow::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("the name of the program")?;
    let ticks = |n: usize| fields.split_whitespace().nth(n).and_then(|text| text.parse::<u64>().ok());
    let (user, system) = (ticks(11).context("user time")?, ticks(12).context("system time")?);
    // Linux counts in hundredths for every program, whatever the kernel does inside.
    Ok((user + system) as f64 / 100.0)
}
