//! One scrape: asks the store how far it is, counts the machines, and hands out the answer piece by piece. Works on a snapshot, so
//! nobody who writes ever waits for it; answers from what is known when the store does not.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use sabakan_store::{Revision, StoreError, view::Snapshot};
use tokio::time::timeout;

use super::{Metrics, catalogue, cluster, counts, machine_status::MachineStatus, process, repair, text::Text};
use crate::{
    Foundation, ServiceError,
    cluster::{Cluster, Figures, kubernetes::Progress},
    limits,
    repair::{self as repairs, Repairs},
};

/// Answers scrapes.
pub struct Scrapes {
    on: Arc<Foundation>,
    metrics: Arc<Metrics>,
    cluster: Option<Arc<Cluster>>,
    repairs: Option<Arc<Repairs>>,
}

/// An answer under way.
pub struct Scrape {
    /// Everything but the lines of single machines and nodes.
    summary: Option<Vec<u8>>,
    nodes: Option<repair::NodeStatus>,
    machines: Option<MachineStatus>,
}

/// What was found out for one scrape.
struct Facts {
    snapshot: Arc<Snapshot>,
    store_up: bool,
    store_damaged: bool,
    lag: u64,
    stuck: Duration,
    cluster: Option<Figures>,
    applying: Option<Progress>,
    repairs: Option<repairs::Figures>,
}

impl Scrapes {
    /// Answers from a foundation and what was counted.
    pub fn new(on: Arc<Foundation>, metrics: Arc<Metrics>) -> Scrapes {
        Scrapes { on, metrics, cluster: None, repairs: None }
    }

    /// The same, with the figures of a planner.
    pub fn with_cluster(self, cluster: Arc<Cluster>) -> Scrapes {
        Scrapes { cluster: Some(cluster), ..self }
    }

    /// The same, with the figures of repair.
    pub fn with_repairs(self, repairs: Arc<Repairs>) -> Scrapes {
        Scrapes { repairs: Some(repairs), ..self }
    }

    /// Collects the figures.
    pub async fn begin(&self) -> Result<Scrape, ServiceError> {
        let facts = self.facts().await;
        let metrics = Arc::clone(&self.metrics);
        // Looks at every machine and at `/proc`: not on a thread that serves connections.
        let made = tokio::task::spawn_blocking(move || {
            let summary = Some(metrics.summary(&facts));
            let single = metrics.options.machines;
            let present = facts.repairs.as_ref().and_then(|figures| figures.now.as_ref()).filter(|_| single);
            Scrape {
                summary,
                nodes: present.map(repair::NodeStatus::new),
                machines: single.then(|| MachineStatus::new(facts.snapshot)),
            }
        });
        let stopped = |_| StoreError::Unavailable { reason: "the server is stopping".to_owned() };
        Ok(made.await.map_err(stopped)?)
    }

    /// Waits for the view as any read does, but not for long: figures of a server in trouble are wanted most.
    async fn facts(&self) -> Facts {
        let view = &self.on.view;
        // The first tells how far the store is, the second whether it still takes anything.
        let asked = timeout(limits::SCRAPE_STORE_TIME_MAX, async {
            let (newest, writable) = tokio::join!(self.on.store.latest_commit(), self.on.store.check_writable());
            newest.and(writable)
        });
        let asked = asked.await;
        let newest = self.metrics.store.newest();
        let behind = |snapshot: &Snapshot| newest.0.saturating_sub(snapshot.revision().0);
        let mut snapshot = view.latest_known();
        let lag = behind(&snapshot);
        if lag > 0 {
            let waited = timeout(limits::SCRAPE_STORE_TIME_MAX, view.read()).await;
            snapshot = waited.ok().and_then(Result::ok).unwrap_or_else(|| view.latest_known());
        }
        let stuck = self.metrics.stuck_for(snapshot.revision(), newest);
        let cluster = self.cluster.as_ref().map(|cluster| cluster.figures());
        let applying = self.cluster.as_ref().and_then(|cluster| cluster.applying());
        let repairs = self.repairs.as_ref().map(|repairs| repairs.figures());
        let store_damaged = self.on.store.damage().is_some();
        Facts { store_up: matches!(asked, Ok(Ok(_))), store_damaged, snapshot, lag, stuck, cluster, applying, repairs }
    }
}

impl Scrape {
    /// The next piece of the answer; `None`: that was all.
    pub fn next_chunk(&mut self) -> Option<Vec<u8>> {
        if let Some(summary) = self.summary.take() {
            return Some(summary);
        }
        if let Some(chunk) = self.nodes.as_mut().and_then(repair::NodeStatus::next_chunk) {
            return Some(chunk);
        }
        self.nodes = None;
        let chunk = self.machines.as_mut()?.next_chunk();
        if chunk.is_none() {
            self.machines = None;
        }
        chunk
    }
}

impl Metrics {
    fn summary(&self, facts: &Facts) -> Vec<u8> {
        let mut text = Text::default();
        self.write_requests(&mut text);
        text.single(&catalogue::CONNECTIONS, self.connections.get());
        text.single(&catalogue::CONNECTIONS_MAX, self.connections_max.get());
        text.single(&catalogue::CONNECTIONS_SHED, self.shed.load(Ordering::Relaxed));
        text.single(&catalogue::BODY_BYTES, self.body_bytes.get());
        self.write_refusals(&mut text);
        text.single(&catalogue::FEEDS, self.feeds.get());
        text.single(&catalogue::STORE_UP, u8::from(facts.store_up));
        text.single(&catalogue::STORE_DAMAGED, u8::from(facts.store_damaged));
        self.store.write(&mut text);
        let Revision(revision) = facts.snapshot.revision();
        text.single(&catalogue::VIEW_REVISION, revision);
        text.single(&catalogue::VIEW_LAG, facts.lag);
        text.single(&catalogue::VIEW_STUCK, facts.stuck.as_secs_f64());
        counts::write(&mut text, &facts.snapshot);
        // There are none in this version, which is what 0 says.
        for metric in
            [catalogue::ASSETS_BYTES, catalogue::ASSETS_ITEMS, catalogue::IMAGES_BYTES, catalogue::IMAGES_ITEMS]
        {
            text.single(&metric, 0);
        }
        if let Some(figures) = &facts.cluster {
            cluster::write(&mut text, figures);
        }
        if let Some(progress) = &facts.applying {
            cluster::write_applying(&mut text, progress);
        }
        if let Some(figures) = &facts.repairs {
            repair::write(&mut text, figures);
        }
        text.head(&catalogue::TASKS);
        for (task, at) in &self.last_success {
            match at.load(Ordering::Relaxed) {
                0 => {}
                at => text.sample(&catalogue::TASKS, &[task], at),
            }
        }
        text.head(&catalogue::BUILD);
        text.sample(&catalogue::BUILD, &[self.version], 1);
        process::write(&mut text);
        text.0
    }
}
