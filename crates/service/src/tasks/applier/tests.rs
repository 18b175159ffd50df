//! How a round ends when Kubernetes forgets, is busy, is down, or the lead is lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use jiff::Timestamp;
use sabakan_domain::{
    cluster::{attributes::Step, live_node::Applied},
    repair::{drain::LivePod, selector::Selector},
};
use sabakan_drivers::kubernetes::{Evicted, KubernetesFuture, NodeEvents, NodeList};

use super::*;

/// What a Kubernetes of these tests does with a step.
#[derive(Clone, Copy)]
enum Habit {
    /// Says yes and keeps nothing.
    Forgets,
    /// Somebody else was always faster.
    IsBusy,
    /// The Node was replaced by another of its name.
    Replaced,
    /// Does not answer.
    IsDown,
    /// Answers when everybody it waits for has asked.
    Gathers(usize),
}

struct Fake {
    habit: Habit,
    asked: Mutex<Vec<String>>,
    at_once: AtomicUsize,
    most: AtomicUsize,
}

impl Fake {
    fn new(habit: Habit) -> Arc<Fake> {
        Arc::new(Fake { habit, asked: Mutex::default(), at_once: AtomicUsize::new(0), most: AtomicUsize::new(0) })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn note(&self, what: &str, name: &str) {
        self.asked.lock().unwrap().push(format!("{what} {name}"));
    }
}

impl Kubernetes for Fake {
    fn list(&self) -> KubernetesFuture<'_, NodeList> {
        not_asked_for("list")
    }

    fn watch(&self, _after: &str) -> KubernetesFuture<'_, Box<dyn NodeEvents>> {
        not_asked_for("watch")
    }

    fn leases(&self) -> KubernetesFuture<'_, BTreeMap<String, Timestamp>> {
        not_asked_for("leases")
    }

    fn find(&self, name: &str) -> KubernetesFuture<'_, Option<LiveNode>> {
        self.note("find", name);
        let uid = if matches!(self.habit, Habit::Replaced) { "another" } else { "" };
        let node = LiveNode { uid: uid.to_owned(), ..live(name) };
        Box::pin(async move { Ok(Some(node)) })
    }

    fn take(&self, node: &LiveNode, _step: &Step) -> KubernetesFuture<'_, LiveNode> {
        self.note("take", &node.name);
        let node = node.clone();
        Box::pin(async move {
            match self.habit {
                Habit::Forgets => Ok(node),
                Habit::IsBusy | Habit::Replaced => Err(KubernetesError::Conflict("modified".to_owned())),
                Habit::IsDown => Err(KubernetesError::Unreachable("no answer in time".to_owned())),
                Habit::Gathers(enough) => {
                    let now = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
                    self.most.fetch_max(now, Ordering::SeqCst);
                    while self.most.load(Ordering::SeqCst) < enough {
                        tokio::task::yield_now().await;
                    }
                    self.at_once.fetch_sub(1, Ordering::SeqCst);
                    let keys: BTreeSet<String> = wanted().labels.into_keys().collect();
                    let applied = Applied { labels: keys, ..Applied::default() };
                    Ok(LiveNode { labels: wanted().labels, applied, ..node })
                }
            }
        })
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

/// Whoever applies attributes reads Nodes elsewhere and empties none.
fn not_asked_for<T>(call: &str) -> KubernetesFuture<'static, T> {
    panic!("an applier asked for {call}")
}

fn wanted() -> Attributes {
    let labels = [("tier".to_owned(), "gold".to_owned())].into();
    Attributes { labels, annotations: [].into(), taints: Vec::new() }
}

fn live(name: &str) -> LiveNode {
    LiveNode { name: name.to_owned(), ..LiveNode::default() }
}

async fn change_all(fake: &Arc<Fake>, nodes: usize, ends: &CancellationToken) -> Progress {
    let work = (0..nodes).map(|n| (wanted(), live(&format!("n{n}")))).collect();
    let kubernetes: Arc<dyn Kubernetes> = Arc::<Fake>::clone(fake);
    let mut progress = Progress::default();
    change(&kubernetes, work, &mut progress, ends).await;
    progress
}

#[tokio::test]
async fn what_does_not_stay_is_given_up() {
    let fake = Fake::new(Habit::Forgets);
    let error = bring(&*fake, &wanted(), live("n")).await.unwrap_err();
    assert!(error.to_string().contains("another program") && error.is_about_one_node(), "{error}");
    assert_eq!(fake.asked().len(), limits::APPLY_STEPS_MAX);
}

#[tokio::test]
async fn lost_races_are_bounded() {
    let fake = Fake::new(Habit::IsBusy);
    let error = bring(&*fake, &wanted(), live("n")).await.unwrap_err();
    assert_eq!(error, KubernetesError::Conflict("modified".to_owned()));
    assert_eq!(fake.asked().iter().filter(|asked| *asked == "take n").count(), limits::APPLY_ATTEMPTS);
}

#[tokio::test]
async fn a_node_that_took_the_name_waits_for_the_next_round() {
    let fake = Fake::new(Habit::Replaced);
    assert!(bring(&*fake, &wanted(), live("n")).await.is_err());
    assert_eq!(fake.asked(), ["take n", "find n"]);
}

#[tokio::test]
async fn what_is_not_about_one_node_ends_the_round() {
    let fake = Fake::new(Habit::IsDown);
    let progress = change_all(&fake, 100, &CancellationToken::new()).await;
    assert_eq!(progress.problem.as_deref(), Some("Kubernetes cannot be reached: no answer in time"));
    assert!(fake.asked().len() <= limits::APPLIED_AT_ONCE, "{:?}", fake.asked());
    assert_eq!((progress.as_wanted, progress.failed), (0, fake.asked().len()));
}

#[tokio::test]
async fn some_are_changed_at_once_and_no_more() {
    let fake = Fake::new(Habit::Gathers(limits::APPLIED_AT_ONCE));
    let progress = change_all(&fake, 50, &CancellationToken::new()).await;
    assert_eq!((progress.as_wanted, progress.changed, progress.failed), (50, 50, 0));
    assert_eq!(fake.most.load(Ordering::SeqCst), limits::APPLIED_AT_ONCE);
}

#[tokio::test]
async fn whoever_lost_the_lead_stops() {
    let fake = Fake::new(Habit::Gathers(usize::MAX));
    let ends = CancellationToken::new();
    let stopping = ends.clone();
    let (progress, ()) = tokio::join!(change_all(&fake, 50, &ends), async move {
        tokio::task::yield_now().await;
        stopping.cancel();
    });
    assert_eq!((progress.as_wanted, progress.failed), (0, 0));
    assert!(fake.asked().len() <= limits::APPLIED_AT_ONCE);
}

#[tokio::test]
async fn many_failures_are_counted_and_some_are_named() {
    let fake = Fake::new(Habit::Forgets);
    let progress = change_all(&fake, limits::NODES_NAMED_MAX + 20, &CancellationToken::new()).await;
    assert_eq!(progress.problem, None);
    assert_eq!((progress.failed, progress.failed_named.len()), (limits::NODES_NAMED_MAX + 20, limits::NODES_NAMED_MAX));
}
