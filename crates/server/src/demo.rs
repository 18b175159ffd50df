//! `sabakan demo`: the real server on a temporary store, with an IPAM configuration, two racks of machines and a template for a
//! Kubernetes cluster, to look around.

use std::{net::SocketAddr, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context as _;
use jiff::SignedDuration;
use sabakan_domain::{
    audit::Actor,
    cluster::{constraints::Constraints, shape::Problem, template::Template},
    ipam::{IpamConfig, IpamInput, PoolInput},
    lifecycle::{Force, HealthState},
    machine::{NewMachine, NewMachineInput},
    repair::settings::RepairSettings,
    time::Moment,
    words::Serial,
};
use sabakan_drivers::simulated::{Fleet, FleetConfig, Latencies};
use sabakan_service::{Clock as _, SystemClock};
use sabakan_store::{
    embedded::EmbeddedStore,
    keys::Keys,
    repo::{self, audit::By, repairs::BadSetting},
};

use serde_json::{Value, json};

use crate::{
    cli,
    cluster::ClusterConfig,
    config::{Flags, ServerConfig},
    repair::RepairConfig,
    run::{self, STORE_FILE},
};

/// Machines of one rack, besides the boot machine.
const WORKERS: u32 = 12;

/// The first machine of a rack that is healthy. Those before it have just been racked.
const FIRST_HEALTHY: u32 = 5;

/// How long a broken machine is watched before it is repaired. Minutes are wise, and long to look at.
const OBSERVE_SECONDS: &str = "10";

/// Runs the demo until it is told to stop, then removes everything it made.
pub fn run(flags: Flags) -> anyhow::Result<ExitCode> {
    let dir =
        tempfile::Builder::new().prefix("sabakan-demo-").tempdir().context("cannot make a temporary directory")?;
    let mut config = cli::load(flags)?;
    config.data_dir = dir.path().to_owned();
    // A demo seals nothing under a key that anybody needs afterwards.
    config.key_file = dir.path().join("disk-keys.json");
    config.store = crate::config::StoreConfig::Embedded;
    // Its machines exist only here, and take as long as real ones for what they do.
    config
        .provisioning
        .fleet
        .get_or_insert_with(|| Fleet::new(FleetConfig { latencies: latencies(), ..FleetConfig::default() }));
    hurry(&mut config.cluster, &mut config.repair);
    take_free_ports(&mut config)?;
    cli::prepare(&config)?;
    run::block_on(async {
        let mut signals = run::StopSignals::listen()?;
        fill(&config).await?;
        let server = run::Server::start(&config, Arc::new(SystemClock)).await?;
        let address = *server.http.first().context("--http is empty; the demo needs one address")?;
        print!("{}", welcome(address, server.https.first().copied(), server.ironic_urls.first()));
        signals.received().await;
        server.stop().await;
        Ok(ExitCode::SUCCESS)
    })
}

/// Quick enough to be watched: a machine is available after half a minute instead of several.
fn latencies() -> Latencies {
    let seconds = Duration::from_secs;
    Latencies {
        power: seconds(1),
        boot: seconds(6),
        ramdisk_step: seconds(4),
        task: seconds(6),
        heartbeat: seconds(5),
        ..Latencies::realistic()
    }
}

/// Nobody watches a planner for minutes. What somebody said otherwise holds.
fn hurry(cluster: &mut ClusterConfig, repair: &mut RepairConfig) {
    let (usual, usual_repair) = (ClusterConfig::default(), RepairConfig::default());
    for (time, usual, here) in [
        (&mut cluster.period, usual.period, 10),
        (&mut cluster.settle, usual.settle, 10),
        (&mut repair.period, usual_repair.period, 2),
    ] {
        if *time == usual {
            *time = Duration::from_secs(here);
        }
    }
}

/// A port that is taken, by another demo perhaps, is replaced by a free one.
fn take_free_ports(config: &mut ServerConfig) -> anyhow::Result<()> {
    let provisioning = &mut config.provisioning.ironic;
    let listeners = config.http.iter_mut().chain(&mut config.https).chain(&mut config.metrics.listen);
    for address in listeners.chain(provisioning) {
        if !run::is_free(address) {
            *address = "127.0.0.1:0".parse()?;
        }
    }
    Ok(())
}

/// Puts the demo's data straight into the store, before a server opens it.
async fn fill(config: &ServerConfig) -> anyhow::Result<()> {
    let store = EmbeddedStore::open(&config.data_dir.join(STORE_FILE))?;
    let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
    let by = By { actor: Actor::internal("demo"), host: run::host_name(), now: SystemClock.now() };
    repo::schema::prepare(&store, &keys).await?;
    repo::config::put_ipam(&store, &keys, &by, &ipam()?).await?;
    repo::machines::register(&store, &keys, &by, &racks()?, config.outside_pool, |_| None).await?;
    for serial in (0..2).flat_map(|rack| (FIRST_HEALTHY..=WORKERS).map(move |n| format!("demo-{rack}-{n:02}"))) {
        let serial = Serial::new(serial)?;
        repo::machines::set_state(&store, &keys, &by, &serial, HealthState::Healthy, Force::No).await?;
    }
    let constraints = |before: Constraints| -> Result<Constraints, std::convert::Infallible> {
        Ok(Constraints { control_plane_count: 3, minimum_workers: 6, maximum_repair_queue_entries: 5, ..before })
    };
    repo::cluster::edit_constraints(&store, &keys, &by, constraints).await?;
    repo::cluster::put_template(&store, &keys, &by, &template()?).await?;
    let settings = |before: RepairSettings| before.with("observe-seconds", OBSERVE_SECONDS).map_err(BadSetting);
    repo::repairs::edit_settings(&store, &keys, &by, settings).await?;
    store.shutdown().await;
    Ok(())
}

fn ipam() -> anyhow::Result<IpamConfig> {
    let pool = |pool: &str, offset: Option<&str>, range_size, range_mask| PoolInput {
        pool: pool.to_owned(),
        offset: offset.map(str::to_owned),
        range_size,
        range_mask,
        gateway_offset: Some(1),
    };
    Ok(IpamConfig::new(&IpamInput {
        max_nodes_in_rack: 28,
        node: pool("10.69.0.0/16", None, 6, 26),
        node_ip_per_node: 3,
        node_index_offset: 3,
        bmc: pool("10.72.16.0/20", Some("0.0.1.0"), 5, 20),
    })?)
}

/// Three workers for each storage server, control planes on workers.
fn template() -> anyhow::Result<Template> {
    let node = |role: &str, weight: &str| json!({ "user": "core", "labels": { "cke.cybozu.com/role": role, "cke.cybozu.com/weight": weight } });
    let control_plane = json!({ "user": "core", "control_plane": true, "labels": { "cke.cybozu.com/role": "worker" } });
    let document = json!({
        "name": "demo",
        "service_subnet": "10.68.0.0/16",
        "nodes": [control_plane, node("worker", "3"), node("storage", "1")],
        "repair": repair(),
    });
    let told = |problems: Vec<Problem>| {
        anyhow::anyhow!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    };
    Template::parse(document).map_err(told)
}

/// The power of a broken machine is cycled, then its controller is restarted and the power cycled again; whether that helped is what
/// the registry says.
fn repair() -> Value {
    let cycle = json!({
        "action": "power-cycle",
        "command_timeout_seconds": 120,
        // A controller that was just restarted does not answer at once.
        "command_retries": 6,
        "command_interval": 10,
        "watch_seconds": 60,
    });
    let reset = json!({ "action": "bmc-reset", "command_timeout_seconds": 60, "watch_seconds": 10 });
    let operation = |trouble: &str| json!({ "operation": trouble, "health_check": "registry", "repair_steps": [cycle, reset, cycle] });
    let operations = ["unhealthy", "unreachable"].map(operation);
    json!({ "repair_procedures": [{ "machine_types": ["simulated"], "repair_operations": operations }] })
}

/// The later machines of a rack are the newer ones: some are to go soon, some in years.
fn racks() -> anyhow::Result<Vec<NewMachine>> {
    let now = SystemClock.now();
    let retires = |number: u32| now.checked_add(SignedDuration::from_hours(24 * 120 * i64::from(number))).ok();
    let machine = |rack: u32, number: u32, role: &str, product: &str| {
        NewMachine::new(NewMachineInput {
            serial: format!("demo-{rack}-{number:02}"),
            labels: vec![("product".into(), product.into()), ("datacenter".into(), "demo".into())],
            rack,
            role: role.into(),
            bmc_type: "simulated".into(),
            retire_date: retires(number).map(Moment::from),
        })
    };
    let rack = |rack| {
        let workers =
            (1..=WORKERS).map(move |n| machine(rack, n, if n % 4 == 0 { "storage" } else { "worker" }, "R640"));
        std::iter::once(machine(rack, 0, "boot", "R630")).chain(workers)
    };
    Ok((0..2).flat_map(rack).collect::<Result<_, _>>()?)
}

fn welcome(http: SocketAddr, https: Option<SocketAddr>, ironic: Option<&String>) -> String {
    let total = 2 * (WORKERS + 1);
    let server = if http.port() == 8888 { String::new() } else { format!(" --server http://{http}") };
    let https = https.map(|address| format!("  HTTPS     https://{address}  (self-signed)\n")).unwrap_or_default();
    let nodes = ironic.map(|url| nodes(url, &server)).unwrap_or_default();
    let ironic = ironic.map(|url| format!("  Ironic    {url}/v1/nodes\n")).unwrap_or_default();
    format!(
        "\nsabakan demo: {total} machines in 2 racks, on a temporary store that goes when you press Ctrl-C\n\n\
         \u{20} API       http://{http}/api/v1/machines\n\
         \u{20} OpenAPI   http://{http}/openapi.json\n{https}{ironic}\n\
         Commands to try in another terminal:\n\n\
         \u{20} cargo run --release -p sabactl --{server} machines get -o table\n\
         \u{20} cargo run --release -p sabactl --{server} machines get --rack 1 --role storage -o simple\n{nodes}\
         \u{20} cargo run --release -p sabactl --{server} cluster status\n\
         \u{20} cargo run --release -p sabactl --{server} cluster why-not demo-1-12\n\
         \u{20} cargo run --release -p sabactl --{server} machines set-state demo-1-05 unhealthy\n\
         \u{20} cargo run --release -p sabactl --{server} auto-repair explain demo-1-05\n\
         \u{20} cargo run --release -p sabactl --{server} repair-queue list\n\
         \u{20} curl 'http://{http}/api/v1/machines?ipv4=10.69.0.4'\n\n"
    )
}

/// Commands that show provisioning at work.
fn nodes(ironic: &str, server: &str) -> String {
    let is_usual = ironic.starts_with("http://") && ironic.ends_with(":6385");
    let at = if is_usual { server.to_owned() } else { format!(" --ironic-server {ironic}") };
    let command = |words: &str| format!("  cargo run --release -p sabactl -- nodes{at} {words}\n");
    let commands = ["manage demo-0-01 demo-0-02 demo-0-03 --wait", "provide demo-0-01 --wait", "list"];
    commands.map(command).concat()
}
