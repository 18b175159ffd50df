//! A server with simulated machines behind it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sabakan::provisioning::ProvisioningConfig;
use sabakan_domain::{
    audit::Actor,
    ipam::OutsidePool,
    provision::{states::State, verbs::Verb},
    words::Serial,
};
use sabakan_drivers::{
    Driver,
    simulated::{Fleet, FleetConfig, SimulatedDriver},
};
use sabakan_service::{
    Asked, Foundation, ServiceError, Shown, Vault,
    hardware::Hardware,
    seal::{KeyRing, SharedRing},
    tasks::conductor::{Conductor, ConductorOptions},
};
use sabakan_store::keys::Keys;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::{Backend, TestServer, crash::CrashStore, fixtures, wait_for};

/// How long a test waits for work on simulated machines, on a machine that is busy with other tests.
pub const WORK_MAX: Duration = Duration::from_secs(60);

/// A server and its simulated machines.
pub struct Rack {
    /// The server.
    pub server: TestServer,
    /// The machines.
    pub fleet: Fleet,
}

impl Rack {
    /// Starts a server on an empty store, with an IPAM configuration and no machine yet.
    pub fn start(backend: Backend) -> Rack {
        Rack::start_with(backend, FleetConfig::instant(), |_| {})
    }

    /// The same with another fleet and another configuration.
    pub fn start_with(backend: Backend, fleet: FleetConfig, adjust: impl FnOnce(&mut ProvisioningConfig)) -> Rack {
        let fleet = Fleet::new(fleet);
        let mut provisioning = provisioning("conductor-1", &fleet);
        adjust(&mut provisioning);
        let server = TestServer::start_with(backend, |config| config.provisioning = provisioning);
        server.client().put_ipam(&fixtures::ipam()).expect("an IPAM configuration");
        Rack { server, fleet }
    }

    /// Registers machines with simulated controllers, rack by rack from `first_rack` on.
    pub fn register_from<S: AsRef<str>>(&self, first_rack: u32, serials: &[S]) {
        for (rack, serials) in (first_rack..).zip(serials.chunks(28)) {
            let machine = |serial: &S| {
                let mut machine = fixtures::machine(serial.as_ref(), rack, "worker");
                machine.bmc = Some(sabakan_wire::rest::BmcInput { kind: Some("simulated".into()) });
                machine
            };
            let machines: Vec<_> = serials.iter().map(machine).collect();
            self.server.client().create_machines(&machines).expect("registered");
        }
    }

    /// Registers machines with simulated controllers.
    pub fn register<S: AsRef<str>>(&self, serials: &[S]) {
        self.register_from(0, serials);
    }

    /// Starts a conductor of its own, on a store it can be killed with. It belongs to no server: start the rack without one.
    pub fn conductor(&self, name: &str, adjust: impl FnOnce(&mut ConductorOptions)) -> LoneConductor {
        let store = CrashStore::new(self.server.store());
        let mut options = provisioning(name, &self.fleet).conductor.expect("the rack's own options");
        adjust(&mut options);
        let key_file = self.server.config().key_file.clone();
        let ring = KeyRing::open_file(&key_file).expect("the server made the key file");
        let vault = Vault::new(Arc::new(SharedRing::new(ring, key_file)));
        let driver: Arc<dyn Driver> = Arc::new(SimulatedDriver { fleet: self.fleet.clone() });
        let hardware = Arc::new(Hardware::new(vec![driver], Vec::new(), vault));
        let rules = Arc::new(self.server.config().provisioning.rules.clone());
        let (config, clock) = (self.server.config(), self.server.clock.clone());
        let stop = CancellationToken::new();
        let running = self.server.block_on(async {
            let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
            let on = Foundation::open(store.clone(), keys, clock, OutsidePool::Refuse, name.to_owned()).await;
            let conductor = Conductor::new(Arc::new(on.expect("the store opens")), hardware, rules, options);
            let running = tokio::spawn(Arc::new(conductor).run(Some(self.fleet.callbacks()), stop.clone()));
            running.abort_handle()
        });
        LoneConductor { store, stop, running }
    }

    /// Takes away what is wrong with a machine. A ramdisk that was silent calls again.
    pub fn clear_faults(&self, serial: &str) {
        self.server.block_on(async { self.fleet.clear_faults(serial) });
    }

    /// Asks a verb without steps.
    pub fn ask(&self, serial: &str, verb: Verb) -> Result<(), ServiceError> {
        let asked = Asked { verb, steps: Vec::new(), disable_ramdisk: false };
        self.ask_with(serial, &asked)
    }

    /// Asks a verb.
    pub fn ask_with(&self, serial: &str, asked: &Asked) -> Result<(), ServiceError> {
        let nodes = self.server.nodes();
        let name = Serial::new(serial).expect("a serial");
        self.server.block_on(nodes.ask(&operator(), &name, asked)).map(drop)
    }

    /// The node as it is now.
    pub fn node(&self, serial: &str) -> Shown {
        let nodes = self.server.nodes();
        self.server.block_on(nodes.get(serial)).expect("the node")
    }

    /// Waits until a node is in a state with no work left; panics with what it is stuck in otherwise.
    pub fn wait_for(&self, serial: &str, state: State) -> Shown {
        let begun = Instant::now();
        wait_for(&format!("{serial} to become {state}"), WORK_MAX * 2, || {
            let shown = self.node(serial);
            let (node, waiting) = (&shown.node, &shown.waiting);
            assert!(
                begun.elapsed() < WORK_MAX,
                "{serial} is {}, not {state}: {:?}, {waiting:?}",
                node.state,
                node.last_error
            );
            (node.state == state && shown.lock.is_none()).then_some(shown)
        })
    }

    /// Asks a verb and waits for the state it leads to.
    pub fn bring(&self, serial: &str, verb: Verb, state: State) -> Shown {
        self.ask(serial, verb).unwrap_or_else(|error| panic!("{serial}: {verb}: {error}"));
        self.wait_for(serial, state)
    }
}

/// A conductor without a server.
pub struct LoneConductor {
    /// What it works on.
    pub store: Arc<CrashStore>,
    stop: CancellationToken,
    running: AbortHandle,
}

impl LoneConductor {
    /// Tells it to stop; whether it has.
    pub fn stop(&self) -> bool {
        self.stop.cancel();
        self.running.is_finished()
    }
}

/// Provisioning with a fleet and a conductor that waits for nothing longer than a test can.
pub fn provisioning(conductor: &str, fleet: &Fleet) -> ProvisioningConfig {
    let options = ConductorOptions {
        name: conductor.to_owned(),
        power_sync: Duration::ZERO,
        task_poll: Duration::from_millis(50),
        lease: Duration::from_secs(2),
        ..ConductorOptions::default()
    };
    ProvisioningConfig {
        ironic: vec!["127.0.0.1:0".parse().expect("an address")],
        conductor: Some(options),
        fleet: Some(fleet.clone()),
        ..ProvisioningConfig::default()
    }
}

/// Who asks in tests.
pub fn operator() -> Actor {
    Actor::internal("operator")
}
