//! The registry in memory: loaded once, then fed by a watch. It answers every read, so that a search costs the store nothing.
//!
//! A read through [`View::read`] first asks the store for its latest commit and waits until the view has reached it: it never
//! misses a write that was acknowledged before it began, whichever server took the write.

mod allocations;
mod chassis;
mod index;
mod nodes;
mod ports;
mod recipes;
mod snapshot;
mod table;

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::{sync::watch, task::JoinHandle, time::timeout};

pub use allocations::Allocations;
pub use chassis::ChassisTable;
pub(crate) use nodes::implied;
pub use nodes::{Lock, Nodes, implied_id};
pub use ports::Ports;
pub use recipes::Recipes;
use sabakan_domain::{
    machine::Machine,
    provision::{allocation::Allocation, chassis::Chassis, node::Node, node_ports::NodePorts, recipe::Kind},
};
pub use snapshot::{ByState, Counts, Plan, Snapshot};

use crate::{
    Event, KeyValue, Range, Revision, Store, StoreError, Watch, WatchBatch,
    keys::{Keys, Known},
    limits,
    records::{self, AllocationRecord, ChassisRecord, DhcpRecord, IpamRecord, LockRecord, NodePortsRecord, NodeRecord},
};

/// The registry in memory. Dropping it ends the task that feeds it.
pub struct View {
    store: Arc<dyn Store>,
    current: Arc<ArcSwap<Snapshot>>,
    reached: watch::Receiver<Revision>,
    task: JoinHandle<()>,
}

impl View {
    /// Loads the registry and follows it from there on.
    pub async fn spawn(store: Arc<dyn Store>, keys: Keys) -> Result<View, StoreError> {
        let snapshot = load(&*store, &keys).await?;
        let watch = store.watch(keys.prefix().to_owned(), snapshot.revision.next()).await?;
        let (reached_tx, reached) = watch::channel(snapshot.revision);
        let current = Arc::new(ArcSwap::from_pointee(snapshot));
        let follower = Follower { store: Arc::clone(&store), keys, current: Arc::clone(&current), reached: reached_tx };
        let task = tokio::spawn(follower.run(watch));
        Ok(View { store, current, reached, task })
    }

    /// The registry, including every change acknowledged before this call.
    pub async fn read(&self) -> Result<Arc<Snapshot>, StoreError> {
        let target = self.store.latest_commit().await?;
        let mut reached = self.reached.clone();
        let waited = timeout(limits::VIEW_WAIT_MAX, reached.wait_for(|revision| *revision >= target)).await;
        match waited {
            Ok(Ok(_)) => Ok(self.current.load_full()),
            Ok(Err(_)) => Err(unavailable("the view of the registry has stopped".to_owned())),
            Err(_) => Err(unavailable(format!(
                "the view of the registry is at revision {} and did not reach {target} within {} s",
                *self.reached.borrow(),
                limits::VIEW_WAIT_MAX.as_secs()
            ))),
        }
    }

    /// Tells when the view has moved: whoever waits on it looks again at what it needs.
    pub fn moved(&self) -> watch::Receiver<Revision> {
        self.reached.clone()
    }

    /// The registry as far as it is known here, without asking the store. For figures and diagnosis, not for answers.
    pub fn latest_known(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn unavailable(reason: String) -> StoreError {
    StoreError::Unavailable { reason }
}

/// The task that keeps the view up to date.
struct Follower {
    store: Arc<dyn Store>,
    keys: Keys,
    current: Arc<ArcSwap<Snapshot>>,
    reached: watch::Sender<Revision>,
}

impl Follower {
    /// Follows the store for ever. Every failure ends in another try; only then does a view recover without a restart.
    async fn run(self, mut watch: Watch) {
        loop {
            match watch.next().await {
                Ok(batch) => self.apply(batch),
                Err(error @ StoreError::Unavailable { .. }) => {
                    tracing::warn!(error = %error, "the view cannot follow the store, trying again");
                    tokio::time::sleep(limits::VIEW_RETRY).await;
                }
                Err(error) => {
                    tracing::warn!(error = %error, "the view lost its place, loading the registry again");
                    watch = self.reload().await;
                }
            }
        }
    }

    async fn reload(&self) -> Watch {
        loop {
            match self.try_reload().await {
                Ok(watch) => return watch,
                Err(error) => {
                    tracing::warn!(error = %error, "the registry cannot be loaded, trying again");
                    tokio::time::sleep(limits::VIEW_RETRY).await;
                }
            }
        }
    }

    async fn try_reload(&self) -> Result<Watch, StoreError> {
        let snapshot = load(&*self.store, &self.keys).await?;
        let watch = self.store.watch(self.keys.prefix().to_owned(), snapshot.revision.next()).await?;
        self.publish(snapshot);
        Ok(watch)
    }

    fn apply(&self, batch: WatchBatch) {
        let mut next = Snapshot::clone(&self.current.load());
        next.revision = batch.revision;
        for event in batch.events {
            match event {
                Event::Put(kv) => apply_put(&mut next, &self.keys, &kv),
                Event::Delete { key, .. } => apply_delete(&mut next, &self.keys, &key),
            }
        }
        self.publish(next);
    }

    fn publish(&self, snapshot: Snapshot) {
        let revision = snapshot.revision;
        self.current.store(Arc::new(snapshot));
        self.reached.send_replace(revision);
    }
}

fn apply_put(snapshot: &mut Snapshot, keys: &Keys, kv: &KeyValue) {
    let decoded = match keys.recognise(&kv.key) {
        Some(Known::Machine(name)) => decode_named(name, kv).map(|machine| snapshot.put_machine(machine)),
        Some(Known::Ipam) => records::decode::<IpamRecord, _>(kv).map(|config| snapshot.ipam = Some(Arc::new(config))),
        Some(Known::Dhcp) => records::decode::<DhcpRecord, _>(kv).map(|config| snapshot.dhcp = Some(Arc::new(config))),
        Some(Known::Token(id)) => {
            Arc::make_mut(&mut snapshot.tokens).insert(id.to_owned(), kv.value.clone());
            Ok(())
        }
        Some(Known::Node(_)) => records::decode::<NodeRecord, Node>(kv).map(|node| snapshot.put_node(node)),
        Some(Known::Allocation(_)) => {
            records::decode::<AllocationRecord, Allocation>(kv).map(|allocation| snapshot.put_allocation(allocation))
        }
        Some(Known::Ports(_)) => records::decode::<NodePortsRecord, NodePorts>(kv).map(|all| snapshot.put_ports(all)),
        Some(Known::Chassis(_)) => {
            records::decode::<ChassisRecord, Chassis>(kv).map(|chassis| snapshot.put_chassis(chassis))
        }
        Some(Known::Recipe(kind, _)) => records::decode_recipe(kind, kv).map(|recipe| snapshot.put_recipe(recipe)),
        Some(Known::Lock(name)) => decode_lock(kv).map(|lock| snapshot.put_lock(name, lock)),
        Some(Known::Conductor(name)) => {
            Arc::make_mut(&mut snapshot.conductors).insert(name.to_owned());
            Ok(())
        }
        Some(Known::Crypt(name)) => {
            snapshot.note_key(name, records::is_sealed_key(&kv.value));
            Ok(())
        }
        None => Ok(()),
    };
    match decoded {
        Ok(()) => snapshot.note_readable(&kv.key),
        // One damaged record must not take the other machines away, and what it replaced is no longer true. A view that loads
        // it later comes to the same. It is named in the health of the server until somebody mends it.
        Err(error) => {
            tracing::error!(error = %error, "a stored record cannot be read and is left out");
            apply_delete(snapshot, keys, &kv.key);
            Arc::make_mut(&mut snapshot.unreadable).insert(kv.key.clone(), error.to_string());
        }
    }
}

/// A machine that is where its serial says; elsewhere no change would find it.
fn decode_named(name: &str, kv: &KeyValue) -> Result<Machine, StoreError> {
    let machine = records::decode_machine(kv)?;
    if machine.serial.as_str() != name {
        let reason = format!("it holds the machine {:?}", machine.serial.as_str());
        return Err(StoreError::Corrupt { place: kv.key.clone(), reason });
    }
    Ok(machine)
}

fn apply_delete(snapshot: &mut Snapshot, keys: &Keys, key: &str) {
    snapshot.note_readable(key);
    match keys.recognise(key) {
        Some(Known::Machine(serial)) => snapshot.remove_machine(serial),
        Some(Known::Ipam) => snapshot.ipam = None,
        Some(Known::Dhcp) => snapshot.dhcp = None,
        Some(Known::Token(id)) => drop(Arc::make_mut(&mut snapshot.tokens).remove(id)),
        Some(Known::Node(name)) => snapshot.remove_node(name),
        Some(Known::Allocation(id)) => snapshot.remove_allocation(id),
        Some(Known::Ports(node)) => snapshot.remove_ports(node),
        Some(Known::Chassis(id)) => snapshot.remove_chassis(id),
        Some(Known::Recipe(kind, id)) => snapshot.remove_recipe(kind, id),
        Some(Known::Lock(name)) => snapshot.remove_lock(name),
        Some(Known::Conductor(name)) => drop(Arc::make_mut(&mut snapshot.conductors).remove(name)),
        Some(Known::Crypt(name)) => snapshot.note_key(name, true),
        None => {}
    }
}

fn decode_lock(kv: &KeyValue) -> Result<Lock, StoreError> {
    let record: LockRecord = serde_json::from_slice(&kv.value)
        .map_err(|error| StoreError::Corrupt { place: kv.key.clone(), reason: error.to_string() })?;
    Ok(Lock { record, revision: kv.mod_revision })
}

/// Reads the registry at one revision.
async fn load(store: &dyn Store, keys: &Keys) -> Result<Snapshot, StoreError> {
    let mut snapshot = Snapshot::default();
    let mut at = None;
    let prefixes = [
        keys.machines(),
        keys.ipam(),
        keys.dhcp(),
        keys.tokens(),
        keys.nodes(),
        keys.allocations(),
        keys.recipes(Kind::Template),
        keys.recipes(Kind::Runbook),
        keys.all_node_ports(),
        keys.all_chassis(),
        keys.locks(),
        keys.conductors(),
        keys.all_crypts(),
    ];
    for prefix in prefixes {
        let mut range = Range { at, ..Range::first(prefix) };
        let mut page = store.list(range.clone()).await?;
        loop {
            at = Some(page.revision);
            snapshot.revision = page.revision;
            let last = page.items.last().filter(|_| page.more).map(|kv| kv.key.clone());
            let decode = async { page.items.iter().for_each(|kv| apply_put(&mut snapshot, keys, kv)) };
            let Some(last) = last else {
                decode.await;
                break;
            };
            // The next page is on its way while this one is decoded: a start with many machines takes the longer of the two.
            range = Range { at, after: Some(last), ..range };
            let (next, ()) = tokio::join!(biased; store.list(range.clone()), decode);
            page = next?;
        }
    }
    Ok(snapshot)
}

#[cfg(test)]
mod tests;
