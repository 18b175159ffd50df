//! Does the work that nodes have: takes those nobody works on, runs their steps, lets go of those that wait.
//!
//! Level, not edge: a change in the view only wakes it; what there is to do follows from the records alone, so that the way after a
//! crash and the way after a change are the same. Several servers on one store share the work; the lock under a server's lease
//! decides who has a node (G5), and [`sabakan_domain::provision::schedule`] how many at once.

mod callbacks;
mod in_flight;
mod poll;
mod ramdisk;
mod steps;
mod sync;
mod worker;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
    time::Duration,
};

use sabakan_domain::{
    audit::Actor,
    provision::{
        accept::Options,
        schedule::{self, Capacity, Class, Queued, Running},
    },
    words::Serial,
};
use sabakan_drivers::simulated::Heartbeat;
use sabakan_store::{
    StoreError,
    repo::{self, audit::By},
    view::Snapshot,
};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::in_flight::InFlight;
use super::lease::{self, Lease};
use crate::{Foundation, error_chain, hardware::Hardware, limits, nodes};

/// How a server does provisioning work.
#[derive(Debug, Clone)]
pub struct ConductorOptions {
    /// Its name among several servers.
    pub name: String,
    /// Most nodes worked on at once, by all servers together. One server never exceeds it; several that look at the same moment may,
    /// by what each takes before it sees the others' locks.
    pub capacity: Capacity,
    /// How long a lease lives without its server.
    pub lease: Duration,
    /// How often the power state of each machine is read; zero: never.
    pub power_sync: Duration,
    /// How often a task that runs by itself is asked for.
    pub task_poll: Duration,
    /// How long a power change within a step may take.
    pub step_power: Duration,
}

impl Default for ConductorOptions {
    fn default() -> ConductorOptions {
        let per_class = BTreeMap::from([
            (Class::Power, 64),
            (Class::Verify, 64),
            (Class::Inspect, 64),
            (Class::Clean, 100),
            (Class::Deploy, 250),
        ]);
        ConductorOptions {
            name: "sabakan".to_owned(),
            capacity: Capacity { per_class, per_group: 300 },
            lease: limits::WORK_LEASE,
            power_sync: limits::POWER_SYNC_EVERY,
            task_poll: limits::TASK_POLL_EVERY,
            step_power: limits::STEP_POWER_MAX,
        }
    }
}

/// Does provisioning work until told to stop.
pub struct Conductor {
    on: Arc<Foundation>,
    hardware: Arc<Hardware>,
    rules: Arc<Options>,
    options: ConductorOptions,
    /// Nodes tasks of this process are busy with; the view learns of their locks a little later.
    taken: Mutex<HashMap<String, Running>>,
    /// Nodes whose task is being asked for.
    asking: InFlight,
}

impl Conductor {
    /// Works on a foundation with these drivers.
    pub fn new(
        on: Arc<Foundation>,
        hardware: Arc<Hardware>,
        rules: Arc<Options>,
        options: ConductorOptions,
    ) -> Conductor {
        Conductor { on, hardware, rules, options, taken: Mutex::default(), asking: InFlight::default() }
    }

    /// Works until told to stop, then lets every worker come to the end of its step.
    pub async fn run(self: Arc<Self>, callbacks: Option<mpsc::Receiver<Heartbeat>>, stop: CancellationToken) {
        let workers = TaskTracker::new();
        if let Some(callbacks) = callbacks {
            workers.spawn(callbacks::run(Arc::clone(&self), callbacks, stop.clone()));
        }
        if !self.options.power_sync.is_zero() {
            workers.spawn(sync::run(Arc::clone(&self), stop.clone()));
        }
        workers.spawn(poll::run(Arc::clone(&self), stop.clone()));
        while !stop.is_cancelled() {
            match self.announce().await {
                Ok(lease) => self.work_under(Arc::new(lease), &workers, &stop).await,
                Err(error) => {
                    tracing::warn!(error = error_chain(&error), task = "conductor", "no lease, trying again");
                    tokio::select! {
                        () = stop.cancelled() => break,
                        () = tokio::time::sleep(limits::CONDUCTOR_RETRY) => {}
                    }
                }
            }
        }
        workers.close();
        workers.wait().await;
    }

    /// Opens a lease and announces this server under it.
    async fn announce(&self) -> Result<Lease, StoreError> {
        let lease = Lease::obtain(&self.on, "conductor", self.options.lease).await?;
        repo::nodes::announce(&*self.on.store, &self.on.keys, lease.id, &self.options.name).await?;
        Ok(lease)
    }

    /// Hands out work as long as the lease lives.
    async fn work_under(self: &Arc<Self>, lease: Arc<Lease>, workers: &TaskTracker, stop: &CancellationToken) {
        let mut moved = self.on.view.moved();
        let keeping = tokio::spawn(lease::keep(Arc::clone(&self.on), Arc::clone(&lease)));
        while !stop.is_cancelled() && !lease.is_lost() {
            let began = Instant::now();
            self.hand_out(&lease, workers, stop);
            // Looking costs time in proportion to the work there is: at most a tenth of one core is spent on it.
            let pause = limits::CONDUCTOR_PAUSE.max(began.elapsed() * 10);
            tokio::select! {
                () = stop.cancelled() => {}
                () = lease.lost() => {}
                () = async {
                    tokio::time::sleep(pause).await;
                    // Nothing moved: time alone may end a wait.
                    let _woken_or_later = tokio::time::timeout(limits::CONDUCTOR_TICK, moved.changed()).await;
                } => {}
            }
        }
        if lease.is_lost() {
            tracing::warn!(task = "conductor", "the lease was lost; the nodes worked on are left to whoever is faster");
        } else {
            // Workers let go of their nodes at the end of their steps; the lease lives until the last one has. What takes longer is
            // dropped before the lease ends: whoever has the node next must not meet a command of ours.
            self.wait_for_workers(limits::WORKER_STOP_MAX).await;
            lease.give_up();
            self.wait_for_workers(limits::WORKER_STOP_MAX).await;
            lease.end(&self.on).await;
        }
        keeping.abort();
    }

    /// Starts a worker for every node that has work and may be taken now.
    fn hand_out(self: &Arc<Self>, lease: &Arc<Lease>, workers: &TaskTracker, stop: &CancellationToken) {
        let now = self.on.clock.now();
        let snapshot = self.on.view.latest_known();
        let taken = self.taken.lock().expect("no holder of this lock panics").clone();
        let mut queued = nodes::queue(&snapshot, now);
        queued.retain(|node| !taken.contains_key(&node.name));
        if queued.is_empty() {
            return;
        }
        let locks = snapshot.nodes().locks().filter(|(name, _)| !taken.contains_key(*name));
        let elsewhere = locks.map(|(_, lock)| Running { group: lock.record.group.clone(), class: lock.record.class() });
        let running: Vec<Running> = elsewhere.chain(taken.values().cloned()).collect();
        let picked = schedule::pick(&queued, &running, &self.options.capacity);
        let queued: HashMap<String, Queued> = queued.into_iter().map(|node| (node.name.clone(), node)).collect();
        for name in picked {
            let Some(Queued { group, class, .. }) = queued.get(&name) else { continue };
            let serial = Serial::stored(&name);
            let running = Running { group: group.clone(), class: *class };
            self.taken.lock().expect("no holder of this lock panics").insert(name, running);
            workers.spawn(attend(Arc::clone(self), Arc::clone(lease), serial, stop.clone()));
        }
    }

    async fn wait_for_workers(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        while !self.taken.lock().expect("no holder of this lock panics").is_empty() && Instant::now() < deadline {
            tokio::time::sleep(limits::CONDUCTOR_PAUSE).await;
        }
    }

    /// Whether this server reads what there is to read of a node.
    fn looks_after(&self, snapshot: &Snapshot, node: &Serial) -> bool {
        schedule::looks_after(&self.options.name, node.as_str(), snapshot.conductors())
    }

    /// What a change made by this conductor carries.
    fn by(&self) -> By {
        self.on.by(&Actor::internal(self.options.name.clone()))
    }
}

/// Has a node worked on and sees to it that it is let go of, whatever happens.
async fn attend(conductor: Arc<Conductor>, lease: Arc<Lease>, name: Serial, stop: CancellationToken) {
    let worker = {
        let (conductor, lease, name) = (Arc::clone(&conductor), Arc::clone(&lease), name.clone());
        async move { worker::run(&conductor, &lease, &name, &stop).await }
    };
    let mut worker = tokio::spawn(worker);
    let working = async {
        // It only ends early by a panic, which is a bug, and must not be a node that is held for ever besides.
        if let Err(error) = (&mut worker).await {
            tracing::error!(serial = %name, %error, "a worker ended without letting go of its node");
            worker::let_go(&conductor, &lease, &name).await;
        }
    };
    tokio::select! {
        () = working => {}
        // Whoever takes the node next must not meet a command of ours: what is under way is dropped at once.
        () = lease.lost() => {
            worker.abort();
            let _ended = worker.await;
            tracing::warn!(serial = %name, "work dropped: the lease is given up");
        }
    }
    conductor.taken.lock().expect("no holder of this lock panics").remove(name.as_str());
}
