//! Silence, and a server that lists and does not let anybody watch. Time passes as soon as everybody waits.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use sabakan_domain::{
    cluster::attributes::Step,
    repair::{drain::LivePod, selector::Selector},
};
use sabakan_drivers::kubernetes::{Evicted, KubernetesFuture, NodeEvents};

use super::*;

/// How a Kubernetes of these tests answers.
#[derive(Clone, Copy)]
enum Habit {
    /// Opens a watch and never says anything on it; lists once.
    FallsSilent,
    /// Lists, and is too busy for a watch.
    TooBusyToWatch,
}

struct Fake {
    habit: Habit,
    lists: AtomicUsize,
}

struct Silence;

impl NodeEvents for Silence {
    fn next(&mut self) -> KubernetesFuture<'_, Option<NodeEvent>> {
        Box::pin(std::future::pending())
    }
}

impl Kubernetes for Fake {
    fn list(&self) -> KubernetesFuture<'_, NodeList> {
        let before = self.lists.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move {
            match self.habit {
                Habit::FallsSilent if before > 0 => Err(KubernetesError::Unreachable("no answer in time".to_owned())),
                _ => Ok(NodeList::default()),
            }
        })
    }

    fn watch(&self, _after: &str) -> KubernetesFuture<'_, Box<dyn NodeEvents>> {
        Box::pin(async move {
            match self.habit {
                Habit::FallsSilent => Ok(Box::new(Silence) as Box<dyn NodeEvents>),
                Habit::TooBusyToWatch => Err(KubernetesError::Failed {
                    what: "watch nodes".to_owned(),
                    reason: "too many requests".to_owned(),
                }),
            }
        })
    }

    fn leases(&self) -> KubernetesFuture<'_, BTreeMap<String, Timestamp>> {
        not_asked_for("leases")
    }

    fn find(&self, _name: &str) -> KubernetesFuture<'_, Option<LiveNode>> {
        not_asked_for("find")
    }

    fn take(&self, _node: &LiveNode, _step: &Step) -> KubernetesFuture<'_, LiveNode> {
        not_asked_for("take")
    }

    fn cordon(&self, _name: &str) -> KubernetesFuture<'_, ()> {
        not_asked_for("cordon")
    }

    fn uncordon(&self, _name: &str) -> KubernetesFuture<'_, ()> {
        not_asked_for("uncordon")
    }

    fn pods(&self, _node: &str) -> KubernetesFuture<'_, Vec<LivePod>> {
        not_asked_for("pods")
    }

    fn namespaces(&self, _selector: &Selector) -> KubernetesFuture<'_, BTreeSet<String>> {
        not_asked_for("namespaces")
    }

    fn evict(&self, _pod: &LivePod, _dry_run: bool) -> KubernetesFuture<'_, Evicted> {
        not_asked_for("evict")
    }

    fn delete_pod(&self, _pod: &LivePod) -> KubernetesFuture<'_, ()> {
        not_asked_for("delete_pod")
    }
}

/// Whoever follows Nodes touches none.
fn not_asked_for<T>(call: &str) -> KubernetesFuture<'static, T> {
    panic!("whoever follows Nodes asked for {call}")
}

fn follow(habit: Habit) -> (Arc<Fake>, Arc<LiveNodes>) {
    let fake = Arc::new(Fake { habit, lists: AtomicUsize::new(0) });
    let nodes = Arc::new(LiveNodes::new(Arc::<Fake>::clone(&fake)));
    tokio::spawn(Arc::clone(&nodes).run(CancellationToken::new()));
    (fake, nodes)
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_says_nothing_is_not_believed_for_ever() {
    let (_fake, nodes) = follow(Habit::FallsSilent);
    assert_eq!(nodes.read().await, Ok(Vec::new()));
    let mut changes = nodes.changes();
    tokio::time::timeout(limits::WATCH_SILENCE_MAX + Duration::from_secs(1), changes.changed())
        .await
        .expect("it is noticed in time")
        .expect("it goes on");
    assert!(nodes.read().await.is_err(), "what was so before the silence is not told");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_too_busy_to_be_watched_is_not_asked_for_lists_instead() {
    let (fake, nodes) = follow(Habit::TooBusyToWatch);
    assert_eq!(nodes.read().await, Ok(Vec::new()));
    tokio::time::sleep(Duration::from_secs(100)).await;
    let lists = fake.lists.load(Ordering::SeqCst);
    assert!((10..=20).contains(&lists), "{lists} lists within 100 s");
    assert_eq!(nodes.read().await, Ok(Vec::new()), "each of them is new");
}
