//! Two servers on one store: one of them repairs, and when it goes the other one takes over where it was.

use std::{collections::BTreeSet, fs, sync::Arc};

use sabakan_testkit::{
    etcd::Etcd,
    kubernetes::{Entry, KubernetesDouble, Pod},
    wait_for,
};
use serde_json::{Value, json};

use super::{LONG, Site, entries, procedure};

/// Two servers with the same machines. The first one repairs; both can be asked, and have the same time.
struct Pair {
    leading: Site,
    waiting: Site,
}

impl Pair {
    fn start(repair: impl Fn(&Site) -> Value) -> Pair {
        let etcd = Arc::new(Etcd::start());
        let double = Arc::new(KubernetesDouble::start(Entry::Token));
        let files = Arc::new(tempfile::tempdir().expect("a directory"));
        let leading = Site::start_on(Some(Arc::clone(&etcd)), Arc::clone(&double), Arc::clone(&files));
        let repair = repair(&leading);
        let leading = leading.with_machines(&repair);
        leading.looked();
        let mut waiting = Site::start_on(Some(etcd), double, files);
        waiting.addresses = leading.addresses.clone();
        waiting.pass(2);
        Pair { leading, waiting }
    }

    fn pass(&self, seconds: i64) {
        self.leading.pass(seconds);
        self.waiting.pass(seconds);
    }

    /// The first server goes; the second one is left.
    fn hand_over(self) -> Site {
        let Pair { leading, waiting } = self;
        assert_eq!(waiting.metric("sabakan_repair_timestamp_seconds"), None, "one of them repairs");
        drop(leading);
        waiting.looked();
        waiting
    }
}

/// At no time are there two repairs of a machine at work.
fn check(site: &Site) {
    let queue = entries(&site.server);
    let active: Vec<&String> = queue.iter().filter(|entry| !entry.is_finished()).map(|entry| &entry.address).collect();
    assert_eq!(active.iter().collect::<BTreeSet<_>>().len(), active.len(), "{queue:#?}");
}

#[test]
fn another_server_goes_on_in_the_middle_of_a_drain() {
    let pair = Pair::start(|site| {
        let steps =
            json!([{ "repair_command": site.command("reset", "true"), "need_drain": true, "watch_seconds": 600 }]);
        procedure("unhealthy", &steps, &json!({}))
    });
    let node = pair.leading.address("m1").to_owned();
    pair.leading.double.add_pod(Pod::new("dev", "web", &node).lingering());
    pair.leading.report("m1", "unhealthy");
    pair.pass(301);
    let terminating = |waits: &Option<String>| waits.as_deref().unwrap_or_default().contains("terminating");
    pair.leading.wait_for_entry("m1", "draining", |entry| terminating(&entry.waits));
    let site = pair.hand_over();
    // It waits for the same pod, on a node that stays closed.
    let entry = site.wait_for_entry("m1", "draining", |entry| terminating(&entry.waits));
    assert_eq!((&*entry.index, &*entry.step_status), ("0", "draining"));
    assert!(site.double.is_cordoned(&node) && site.ran().is_empty());
    site.double.end_pod("dev/web");
    wait_for("the step", LONG, || {
        check(&site);
        (!site.ran().is_empty()).then_some(())
    });
    site.wait_for_entry("m1", "reset", |entry| entry.note.contains("exit status 0"));
    site.report("m1", "healthy");
    site.wait_for_end("m1", "succeeded");
    wait_for("the node to be given back", LONG, || (!site.double.is_cordoned(&node)).then_some(()));
    assert_eq!(site.ran(), [format!("reset {node}")]);
    let requests = [format!("cordon {node}"), "evict dev/web".to_owned(), format!("uncordon {node}")];
    assert_eq!(site.double.take_drains(), requests);
    assert_eq!(site.audited("m1"), ["enqueue", "drain-start", "execute", "executed", "finish"]);
}

#[test]
fn another_server_goes_on_in_the_middle_of_a_command() {
    let pair = Pair::start(|site| {
        let endless = format!("touch {}; exec sleep 3600", site.file("runs").display());
        let steps = json!([
            { "repair_command": site.command("reset", &endless), "command_timeout_seconds": 0, "watch_seconds": 600 },
            { "repair_command": site.command("shutdown", "true"), "watch_seconds": 600 },
        ]);
        procedure("unhealthy", &steps, &json!({}))
    });
    pair.leading.report("m1", "unhealthy");
    pair.pass(301);
    wait_for("the command", LONG, || fs::exists(pair.leading.file("runs")).expect("a directory").then_some(()));
    let site = pair.hand_over();
    let address = site.address("m1").to_owned();
    assert_eq!(site.ran(), [format!("reset {address}")]);
    site.pass(590);
    site.looked();
    check(&site);
    assert_eq!(site.ran().len(), 1, "the time it is given goes on, and nothing is repeated");
    site.pass(20);
    wait_for("the next step", LONG, || (site.ran().len() == 2).then_some(()));
    check(&site);
    site.wait_for_entry("m1", "shut down", |entry| entry.step == 1 && entry.note.contains("exit status 0"));
    assert_eq!(site.ran(), [format!("reset {address}"), format!("shutdown {address}")]);
    assert_eq!(site.entries().len(), 1);
}
