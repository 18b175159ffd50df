//! `sabakan demo`: the real server on a temporary store, with an IPAM configuration and two racks of machines, to look around.

use std::{net::SocketAddr, process::ExitCode, sync::Arc, time::Duration};

use anyhow::Context as _;
use sabakan_domain::{
    audit::Actor,
    ipam::{IpamConfig, IpamInput, PoolInput},
    machine::{NewMachine, NewMachineInput},
};
use sabakan_drivers::simulated::{Fleet, FleetConfig, Latencies};
use sabakan_service::{Clock as _, SystemClock};
use sabakan_store::{
    embedded::EmbeddedStore,
    keys::Keys,
    repo::{self, audit::By},
};

use crate::{
    cli,
    config::{Flags, ServerConfig},
    run::{self, STORE_FILE},
};

/// Machines of one rack, besides the boot machine.
const WORKERS: u32 = 12;

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
    take_free_ports(&mut config)?;
    cli::prepare(&config)?;
    run::block_on(async {
        let mut signals = run::StopSignals::listen()?;
        fill(&config).await?;
        let server = run::Server::start(&config, Arc::new(SystemClock)).await?;
        let address = *server.http.first().context("--http is empty; the demo needs one address")?;
        print!("{}", welcome(address, server.https.first().copied(), server.ironic.first().copied()));
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
    repo::machines::register(&store, &keys, &by, &racks()?, config.outside_pool).await?;
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

fn racks() -> anyhow::Result<Vec<NewMachine>> {
    let machine = |rack: u32, number: u32, role: &str, product: &str| {
        NewMachine::new(NewMachineInput {
            serial: format!("demo-{rack}-{number:02}"),
            labels: vec![("product".into(), product.into()), ("datacenter".into(), "demo".into())],
            rack,
            role: role.into(),
            bmc_type: "simulated".into(),
            retire_date: None,
        })
    };
    let rack = |rack| {
        let workers =
            (1..=WORKERS).map(move |n| machine(rack, n, if n % 4 == 0 { "storage" } else { "worker" }, "R640"));
        std::iter::once(machine(rack, 0, "boot", "R630")).chain(workers)
    };
    Ok((0..2).flat_map(rack).collect::<Result<_, _>>()?)
}

fn welcome(http: SocketAddr, https: Option<SocketAddr>, ironic: Option<SocketAddr>) -> String {
    let total = 2 * (WORKERS + 1);
    let server = if http.port() == 8888 { String::new() } else { format!(" --server http://{http}") };
    let https = https.map(|address| format!("  HTTPS     https://{address}  (self-signed)\n")).unwrap_or_default();
    let nodes = ironic.map(|address| nodes(address, &server)).unwrap_or_default();
    let ironic = ironic.map(|address| format!("  Ironic    http://{address}/v1/nodes\n")).unwrap_or_default();
    format!(
        "\nsabakan demo: {total} machines in 2 racks, on a temporary store that goes when you press Ctrl-C\n\n\
         \u{20} API       http://{http}/api/v1/machines\n\
         \u{20} OpenAPI   http://{http}/openapi.json\n{https}{ironic}\n\
         Commands to try in another terminal:\n\n\
         \u{20} cargo run --release -p sabactl --{server} machines get -o table\n\
         \u{20} cargo run --release -p sabactl --{server} machines get --rack 1 --role storage -o simple\n{nodes}\
         \u{20} curl 'http://{http}/api/v1/machines?ipv4=10.69.0.4'\n\n"
    )
}

/// Commands that show provisioning at work.
fn nodes(ironic: SocketAddr, server: &str) -> String {
    let at = if ironic.port() == 6385 { server.to_owned() } else { format!(" --ironic-server http://{ironic}") };
    let command = |words: &str| format!("  cargo run --release -p sabactl -- nodes{at} {words}\n");
    let commands = ["manage demo-0-01 demo-0-02 demo-0-03 --wait", "provide demo-0-01 --wait", "list"];
    commands.map(command).concat()
}
