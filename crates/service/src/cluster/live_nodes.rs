//! The Nodes of Kubernetes as they are now: listed once, then followed by a watch. Whoever plans, applies or repairs reads them here and
//! is woken when one changes.
//!
//! Readers are told when Kubernetes does not answer, not what was so before: at once where it refuses or a connection breaks, and after
//! `limits::WATCH_SILENCE_MAX` where a connection is only silent. So nothing is done to a Node on this alone: whoever is about to reads
//! it once more ([`LiveNodes::find`]) and compares the UID.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use sabakan_domain::cluster::live_node::LiveNode;
use sabakan_drivers::kubernetes::{Kubernetes, KubernetesError, NodeEvent, NodeList};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::limits;

/// Follows the Nodes of one Kubernetes.
pub struct LiveNodes {
    kubernetes: Arc<dyn Kubernetes>,
    kept: Mutex<KeptNodes>,
    changes: watch::Sender<u64>,
    leases: tokio::sync::Mutex<Option<(Instant, Option<Leases>)>>,
}

/// When kubelets renewed their leases, by the name of their Nodes.
pub type Leases = Arc<BTreeMap<String, Timestamp>>;

struct KeptNodes {
    nodes: BTreeMap<String, Arc<LiveNode>>,
    sync: InSync,
}

/// Whether what is kept is what Kubernetes has.
enum InSync {
    /// Nobody has read anything yet.
    Begins,
    /// It is.
    Known,
    /// It may not be; why, for people.
    Lost(String),
}

impl LiveNodes {
    /// Follows nothing before [`LiveNodes::run`].
    pub fn new(kubernetes: Arc<dyn Kubernetes>) -> LiveNodes {
        LiveNodes {
            kubernetes,
            kept: Mutex::new(KeptNodes { nodes: BTreeMap::new(), sync: InSync::Begins }),
            changes: watch::Sender::new(0),
            leases: tokio::sync::Mutex::default(),
        }
    }

    /// Changes whenever a Node does, or whether they are known.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// All Nodes, by name. `Err` says, for people, why they are not known. Waits for the first list.
    pub async fn read(&self) -> Result<Vec<Arc<LiveNode>>, String> {
        let mut changes = self.changes();
        let first = async {
            loop {
                changes.mark_unchanged();
                if let Some(known) = self.known() {
                    return known;
                }
                if changes.changed().await.is_err() {
                    return Err("nobody follows the Nodes of Kubernetes any more".to_owned());
                }
            }
        };
        let late = || Err("Kubernetes has not listed its Nodes in time".to_owned());
        tokio::time::timeout(limits::REGISTRY_TIME_MAX, first).await.unwrap_or_else(|_| late())
    }

    /// All Nodes, by name, if they are known now.
    pub fn glance(&self) -> Option<Vec<Arc<LiveNode>>> {
        self.known()?.ok()
    }

    /// One Node, read now; `None`: there is none with this name.
    pub async fn find(&self, name: &str) -> Result<Option<LiveNode>, String> {
        self.kubernetes.find(name).await.map_err(|error| error.to_string())
    }

    fn known(&self) -> Option<Result<Vec<Arc<LiveNode>>, String>> {
        let kept = self.kept();
        match &kept.sync {
            InSync::Begins => None,
            InSync::Known => Some(Ok(kept.nodes.values().cloned().collect())),
            InSync::Lost(reason) => Some(Err(reason.clone())),
        }
    }

    /// When kubelets renewed their leases, as read a short while ago; `None`: that is not known, such as for want of the right to read
    /// them. Nobody who asks for it may rely on it alone.
    pub async fn leases(&self) -> Option<Leases> {
        let mut kept = self.leases.lock().await;
        if let Some((at, leases)) = kept.as_ref()
            && at.elapsed() < limits::LEASES_EVERY
        {
            return leases.clone();
        }
        let read = match tokio::time::timeout(limits::LEASES_TIME_MAX, self.kubernetes.leases()).await {
            Ok(Ok(leases)) => Some(Arc::new(leases)),
            Ok(Err(error)) => {
                tracing::debug!(%error, "leases of kubelets not read");
                None
            }
            Err(_) => None,
        };
        // Also that they are not known: whoever asks next must not wait for the same silence.
        *kept = Some((Instant::now(), read.clone()));
        read
    }

    /// Follows Nodes until told to stop.
    pub async fn run(self: Arc<LiveNodes>, stop: CancellationToken) {
        let mut pause = limits::WATCH_PAUSE;
        loop {
            let follow = async {
                match self.kubernetes.list().await {
                    Ok(list) => {
                        let moment = self.replace(list);
                        self.follow(moment).await
                    }
                    Err(error) => {
                        self.lose(error.to_string());
                        false
                    }
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                // A server that only answers lists must not be asked for all Nodes as fast as it answers.
                has_followed = follow => {
                    pause = if has_followed { limits::WATCH_PAUSE } else { (pause * 2).min(limits::WATCH_PAUSE_MAX) };
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// Follows events after a moment, one watch after another, until everything has to be listed anew. Whether there was any watch.
    async fn follow(&self, mut moment: String) -> bool {
        let mut has_followed = false;
        loop {
            let mut events = match self.kubernetes.watch(&moment).await {
                Ok(events) => events,
                Err(error) => {
                    self.cannot_watch(&error).await;
                    return has_followed;
                }
            };
            has_followed = true;
            let began = Instant::now();
            loop {
                let event = match tokio::time::timeout(limits::WATCH_SILENCE_MAX, events.next()).await {
                    Ok(Ok(Some(event))) => event,
                    Ok(Ok(None)) => break,
                    // Whether Kubernetes is there is found out by listing anew, at once.
                    Ok(Err(_)) => return true,
                    Err(_) => {
                        self.lose("Kubernetes has not said anything about its Nodes for too long".to_owned());
                        return true;
                    }
                };
                moment = self.apply(event);
            }
            // A server that ends every watch at once must not be asked as fast as it answers.
            tokio::time::sleep_until(began + limits::WATCH_PAUSE).await;
        }
    }

    /// Without the right to watch, Nodes are listed from time to time instead.
    async fn cannot_watch(&self, error: &KubernetesError) {
        if matches!(error, KubernetesError::Forbidden { .. } | KubernetesError::Rejected { .. }) {
            tracing::warn!(%error, every = ?limits::NODES_EVERY, "nodes are listed from time to time instead of watched");
            tokio::time::sleep(limits::NODES_EVERY).await;
        }
    }

    /// Keeps what was listed, and gives the moment it is of.
    fn replace(&self, list: NodeList) -> String {
        let NodeList { nodes, moment } = list;
        let nodes: BTreeMap<String, Arc<LiveNode>> =
            nodes.into_iter().map(|node| (node.name.clone(), Arc::new(node))).collect();
        let mut kept = self.kept();
        let was_known = matches!(kept.sync, InSync::Known);
        let is_same = was_known
            && kept.nodes.len() == nodes.len()
            && kept.nodes.values().zip(nodes.values()).all(|(old, new)| !old.differs_from(new));
        (kept.nodes, kept.sync) = (nodes, InSync::Known);
        drop(kept);
        if !is_same {
            self.tell();
        }
        moment
    }

    /// Keeps what became of a Node, and gives the moment of it.
    fn apply(&self, event: NodeEvent) -> String {
        let mut kept = self.kept();
        let (moment, is_news) = match event {
            NodeEvent::Nothing { moment } => (moment, false),
            NodeEvent::Gone { name, moment } => (moment, kept.nodes.remove(&name).is_some()),
            NodeEvent::Present(node) => {
                let moment = node.resource_version.clone();
                let is_news = kept.nodes.get(&node.name).is_none_or(|old| old.differs_from(&node));
                kept.nodes.insert(node.name.clone(), Arc::new(*node));
                (moment, is_news)
            }
        };
        drop(kept);
        if is_news {
            self.tell();
        }
        moment
    }

    fn lose(&self, reason: String) {
        let mut kept = self.kept();
        let is_news = !matches!(&kept.sync, InSync::Lost(known) if *known == reason);
        if is_news {
            tracing::warn!(reason, "the nodes of kubernetes are not known");
        }
        kept.sync = InSync::Lost(reason);
        drop(kept);
        if is_news {
            self.tell();
        }
    }

    fn tell(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn kept(&self) -> MutexGuard<'_, KeptNodes> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for a change of Nodes, for ever where nobody follows them.
pub(crate) async fn changed(changes: &mut Option<watch::Receiver<u64>>) {
    match changes {
        Some(changes) => {
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        None => std::future::pending().await,
    }
}
