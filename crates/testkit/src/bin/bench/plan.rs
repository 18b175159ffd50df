//! How long one plan of the cluster takes, in process: the first cluster of a fleet and one update of it. The planner waits for
//! nobody, so the time it spends on the processor is measured, which does not count others on the same machine; of several runs the
//! one least disturbed by them counts.

use std::{fs, net::Ipv4Addr};

use anyhow::{Context as _, anyhow, bail, ensure};
use jiff::{SignedDuration, Timestamp};
use sabakan_domain::{
    cluster::{
        caution::{Cautions, PlannerCaution},
        constraints::Constraints,
        input::{Input, ListedMachine, LiveTaints},
        plan::{Made, Outcome, plan},
        report::Operation,
        template::Template,
    },
    lifecycle::HealthState,
    machine::{Labels, Rack},
    repair::guard::{Group, GroupKind},
    time::Moment,
};
use serde_json::json;

use crate::table::{Row, count};

const FLEETS: [usize; 3] = [1_000, 10_000, 100_000];
/// The fleet whose time is promised, and what is promised, in seconds.
const PROMISED: (usize, f64) = (10_000, 0.1);
/// How much longer ten times as many machines may take: n log n and some room for caches.
const GROWTH_MAX: f64 = 15.0;

const RACK: usize = 28;
/// Measurements, and plans in each: together they take long enough for the clock of the kernel, which counts in milliseconds.
const MEASUREMENTS: usize = 3;
const MACHINES_PLANNED: usize = 50_000;

pub fn run() -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut before: Option<[f64; 3]> = None;
    for machines in FLEETS {
        let times = measure(machines)?;
        for (n, what) in ["first plan", "one update", "one update beside an incident"].into_iter().enumerate() {
            let what = format!("{what} of a cluster, {} machines", count(machines));
            let result = format!("{:.1} ms", times[n] * 1e3);
            rows.push(match before {
                _ if machines == PROMISED.0 => Row::target(what, result, "≤ 100 ms", times[n] <= PROMISED.1),
                Some(before) if machines > PROMISED.0 => {
                    let growth = times[n] / before[n];
                    let result = format!("{result}, {growth:.1} × the time for {}", count(PROMISED.0));
                    Row::target(what, result, format!("≤ {GROWTH_MAX} ×"), growth <= GROWTH_MAX)
                }
                _ => Row::figure(what, result),
            });
        }
        before = Some(times);
    }
    Ok(rows)
}

/// Seconds for the first plan; for one update, in which a rack has failed, its worth of workers is replaced, and all the rest stays; and
/// for the same with half of the racks cautioned.
fn measure(count: usize) -> anyhow::Result<[f64; 3]> {
    let now: Timestamp = "2024-01-01T00:00:00Z".parse()?;
    let machines = fleet(count, now)?;
    let template = template()?;
    let workers = u32::try_from(count / 10 * 8)?;
    let constraints = Constraints { control_plane_count: 5, minimum_workers: workers, ..Constraints::default() };
    let (taints, nobody) = (LiveTaints::new(), Cautions::new());
    let input = Input {
        machines: &machines,
        template: &template,
        template_changed: false,
        constraints: &constraints,
        current: None,
        taints: &taints,
        cautions: &nobody,
        now,
    };
    let (first, made) = best(input, Operation::New)?;
    let first_cluster = made.configuration;
    ensure!(first_cluster.nodes.len() == 5 + workers as usize, "{} nodes", first_cluster.nodes.len());

    let mut failed = machines.clone();
    for machine in failed.iter_mut().filter(|machine| machine.rack == Rack(7)) {
        machine.state = HealthState::Unreachable;
    }
    let input = Input { machines: &failed, current: Some(&first_cluster), ..input };
    let (update, made) = best(input, Operation::IncreaseWorker)?;
    ensure!(made.changes.len() > RACK / 2, "{} nodes changed", made.changes.len());

    let caution = |machine: &ListedMachine| {
        let group = Group { kind: GroupKind::PowerDomain, value: "odd".to_owned() };
        (machine.serial.clone(), PlannerCaution::GroupFailed { incident: 1, group })
    };
    let cautions: Cautions = failed.iter().filter(|machine| machine.rack.0 % 2 == 1).map(caution).collect();
    let (careful, made) = best(Input { cautions: &cautions, ..input }, Operation::IncreaseWorker)?;
    ensure!(made.changes.len() > RACK / 2, "{} nodes changed", made.changes.len());
    Ok([first, update, careful])
}

fn best(input: Input<'_>, expected: Operation) -> anyhow::Result<(f64, Made)> {
    let plans = (MACHINES_PLANNED / input.machines.len()).max(1);
    let mut seconds = Vec::new();
    let mut last = None;
    for _ in 0..MEASUREMENTS {
        let begun = on_processor()?;
        for _ in 0..plans {
            last = Some(plan(input).outcome);
        }
        seconds.push((on_processor()? - begun) / plans as f64);
    }
    match last {
        Some(Outcome::Change(made)) if made.operation == expected => {
            Ok((seconds.into_iter().fold(f64::INFINITY, f64::min), made))
        }
        other => bail!("{expected} was expected: {other:?}"),
    }
}

/// Seconds this thread has been on a processor.
fn on_processor() -> anyhow::Result<f64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").context("the kernel does not tell processor times")?;
    let nanoseconds: f64 = text.split_whitespace().next().context("an empty schedstat")?.parse()?;
    Ok(nanoseconds / 1e9)
}

/// Racks of 28 with three roles, of every age. Not in the order in which they will be chosen.
fn fleet(count: usize, now: Timestamp) -> anyhow::Result<Vec<ListedMachine>> {
    let machine = |n: usize| -> anyhow::Result<ListedMachine> {
        // A step that has no divisor in common with the fleet visits every place once.
        let place = n * 7_919 % count;
        let role = match place % 10 {
            0..=5 => "compute",
            6..=8 => "storage",
            _ => "gpu",
        };
        let days = i64::try_from(place * 31 % 2_600)? - 1_300;
        Ok(ListedMachine {
            serial: format!("s{place:06}").parse()?,
            labels: Labels::new([("product", "r6525"), ("datacenter", "tokyo")])?,
            rack: Rack(u32::try_from(place / RACK)?),
            index_in_rack: u32::try_from(place % RACK)?,
            role: role.parse()?,
            address: Some(Ipv4Addr::from(0x0a00_0000 + u32::try_from(place)?)),
            register_date: Moment::from(now),
            retire_date: Moment::from(now + SignedDuration::from_hours(24 * days)),
            state: HealthState::Healthy,
            machine_type: String::new(),
            seconds_in_state: 1e6,
        })
    };
    (0..count).map(machine).collect()
}

fn template() -> anyhow::Result<Template> {
    let worker = |role: &str, weight: &str| json!({"user": "cybozu", "labels": {"cke.cybozu.com/role": role, "cke.cybozu.com/weight": weight}});
    let document = json!({
        "name": "cluster",
        "service_subnet": "10.68.0.0/16",
        "nodes": [
            {"user": "cybozu", "control_plane": true, "labels": {"cke.cybozu.com/role": "compute"}},
            worker("compute", "6"), worker("storage", "3"), worker("gpu", "1"),
        ],
    });
    Template::parse(document).map_err(|problems| anyhow!("{problems:?}"))
}
