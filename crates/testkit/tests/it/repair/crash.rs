//! Repairers die: in front of and behind every commit they make. However often, there are never more repairs than allowed, never two
//! of one machine at work, and no step is begun twice (G8).

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    thread,
    time::Instant,
};

use sabakan_service::repair::Repairs;
use sabakan_store::{Compare, TxnOutcome};
use sabakan_testkit::{
    Backend, TestServer,
    client::{RepairSweep, RepairSwitch},
    crash::{Death, REPAIR},
    etcd::Etcd,
    lone::{self, Lone},
    wait_for,
};
use sabakan_wire::rest::repair::RepairEntryJson;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{LONG, Site, entries, lines, procedure};

on_both_stores!(
    die_at_every_commit,
    a_repairer_that_lost_the_lead_cannot_write,
    what_is_on_its_way_when_a_switch_is_turned_off_is_not_written,
    what_a_step_does_by_itself_cannot_arrive_late,
);

/// How many repairs there may be.
const ALLOWED: usize = 3;

/// How many machines are broken: more than may be repaired, and fewer, so that there is room for a second repair of one.
const MANY: usize = 5;
const FEW: usize = 2;

/// One site for each death, on stores of their own; on etcd each has keys of its own.
fn die_at_every_commit(backend: Backend) {
    let etcd = (backend == Backend::Etcd).then(|| Arc::new(Etcd::start()));
    let probe = broken(etcd.clone(), 0, MANY);
    let whole = lone::repairer(&probe.server, "whole", |store| store.arm(REPAIR, 0, Death::Before));
    settle(&probe, &whole);
    let commits = whole.store.commits(REPAIR);
    // One to let them in; two steps, each begun and ended, and the end, of three.
    assert!(commits > ALLOWED * 5, "so much is written, not {commits} commits");
    wait_for("it to stop", LONG, || whole.stop().then_some(()));

    let with_many = (1..=commits).flat_map(|nth| [(MANY, nth, Death::Before), (MANY, nth, Death::After)]);
    let with_few = (1..=1 + FEW * 5).map(|nth| (FEW, nth, Death::After));
    let deaths: Vec<_> = with_many.chain(with_few).collect();
    thread::scope(|scope| {
        let dying = deaths.iter().zip(1..).map(|((machines, nth, death), number)| {
            let etcd = etcd.clone();
            scope.spawn(move || die_once(&broken(etcd, number, *machines), *nth, *death))
        });
        let dying: Vec<_> = dying.collect();
        let died: Vec<bool> = dying.into_iter().map(|died| died.join().expect("no promise is broken")).collect();
        assert!(died.iter().all(|died| *died), "there was a commit to die at for each: {died:?}");
    });
}

/// A server that does not repair, with broken machines. Each step writes a line.
fn broken(etcd: Option<Arc<Etcd>>, number: usize, machines: usize) -> Broken {
    broken_with(etcd, number, machines, |site| {
        json!([
            { "repair_command": site.command("reset", "true") },
            { "repair_command": site.command("discharge", "true") },
        ])
    })
}

/// The same with other steps.
fn broken_with(etcd: Option<Arc<Etcd>>, number: usize, machines: usize, steps: impl FnOnce(&Site) -> Value) -> Broken {
    let files = Arc::new(tempfile::tempdir().expect("a directory"));
    let server = TestServer::start_on(etcd, |config| {
        config.etcd_prefix = format!("/sabakan{number}/");
        config.states_prefix = format!("/states{number}/");
    });
    let double =
        Arc::new(sabakan_testkit::kubernetes::KubernetesDouble::start(sabakan_testkit::kubernetes::Entry::Open));
    let mut site = Site::around(server, double, Arc::clone(&files));
    let serials: Vec<String> = (0..machines).map(|n| format!("m{n}")).collect();
    site.register(0, &serials);
    site.constrain("maximum-repair-queue-entries", u32::try_from(ALLOWED).expect("few"));
    let mut repair = procedure("unhealthy", &steps(&site), &json!({}));
    repair["max_concurrent_repairs"] = json!(2);
    site.configure(&serials, &repair, &json!({}));
    // All of them broke together; nobody holds them, and nobody waits.
    site.set("group-least", "1000");
    site.set("observe-seconds", "0");
    serials.iter().for_each(|serial| site.report(serial, "unhealthy"));
    let log = site.log();
    Broken { server: site.server, log, repairs: machines.min(ALLOWED), _files: files }
}

struct Broken {
    server: TestServer,
    log: PathBuf,
    /// How many repairs there will be.
    repairs: usize,
    _files: Arc<TempDir>,
}

/// What must hold at any time, whoever died.
fn check(queue: &[RepairEntryJson]) {
    assert!(queue.len() <= ALLOWED, "{} repairs: {queue:#?}", queue.len());
    let indexes: BTreeSet<&str> = queue.iter().map(|entry| entry.index.as_str()).collect();
    assert_eq!(indexes.len(), queue.len(), "{queue:#?}");
    let active: Vec<&str> = queue.iter().filter(|e| !e.is_finished()).map(|e| e.address.as_str()).collect();
    assert_eq!(active.iter().collect::<BTreeSet<_>>().len(), active.len(), "{queue:#?}");
}

/// Waits until every repair that may be has ended, and looks at the queue all the while.
fn settle(site: &Broken, repairer: &Lone<Repairs>) {
    let begun = Instant::now();
    wait_for("every repair to end", LONG * 2, || {
        let queue = entries(&site.server);
        check(&queue);
        assert!(begun.elapsed() < LONG, "{queue:#?}");
        let over = queue.len() == site.repairs && queue.iter().all(RepairEntryJson::is_finished);
        (over || repairer.store.is_frozen(REPAIR)).then_some(())
    });
}

/// One repairer dies, another goes on. Whether the first came to its death.
fn die_once(site: &Broken, nth: usize, death: Death) -> bool {
    let first = lone::repairer(&site.server, "first", |store| store.arm(REPAIR, nth, death));
    settle(site, &first);
    let died = first.store.is_frozen(REPAIR);
    first.kill();
    let second = lone::repairer(&site.server, "second", |_| {});
    settle(site, &second);
    // What had ended makes room when somebody says so, and the others come in.
    let deleted = site.server.client().sweep_repairs(RepairSweep::DeleteFinished).expect("deleted").value.indexes;
    assert_eq!(deleted.len(), site.repairs);
    wait_for("others to come in", LONG, || {
        let queue = entries(&site.server);
        check(&queue);
        queue.iter().all(|entry| !deleted.contains(&entry.index)).then_some(())
    });
    settle(site, &second);
    let queue = entries(&site.server);
    let number = |index: &String| index.parse::<u64>().expect("a number");
    let oldest = deleted.iter().map(number).max();
    assert!(queue.iter().all(|entry| Some(number(&entry.index)) > oldest), "numbers are never used twice: {queue:#?}");
    check_commands(site, &queue);
    // Packets of the dead that arrive only now.
    for txn in first.store.late() {
        let outcome = site.server.block_on(site.server.store().commit(txn));
        assert_eq!(outcome.expect("the store answers"), TxnOutcome::Conflicted, "a dead repairer wrote");
    }
    wait_for("the second to stop", LONG, || second.stop().then_some(()));
    died
}

/// No step was begun more often than a machine had repairs, by what was logged.
fn check_commands(site: &Broken, queue: &[RepairEntryJson]) {
    let log = site.server.client().list_logs(None, None).expect("a log");
    let mut repairs: BTreeMap<String, usize> = BTreeMap::new();
    for entry in log.iter().filter(|entry| entry.category == "repair" && entry.action == "enqueue") {
        *repairs.entry(entry.instance.clone()).or_default() += 1;
    }
    let enqueued: usize = repairs.values().sum();
    assert_eq!(enqueued, 2 * site.repairs, "{repairs:?}");
    let serial_of: BTreeMap<String, String> = site
        .server
        .client()
        .list_machines(&sabakan_wire::rest::QueryParams::default())
        .expect("machines")
        .into_iter()
        .map(|machine| (machine.spec.ipv4[0].clone(), machine.spec.serial))
        .collect();
    let mut ran: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines(&site.log) {
        *ran.entry(line).or_default() += 1;
    }
    assert!(!ran.is_empty());
    for (line, times) in &ran {
        let address = line.split(' ').nth(1).expect("an address");
        let repairs = repairs.get(&serial_of[address]).copied().unwrap_or(0);
        assert!(*times <= repairs, "{line} ran {times} times in {repairs} repairs: {queue:#?}");
    }
}

/// What a repairer was about to write when it died must not arrive under another one, whether it lets machines in or begins a step.
fn a_repairer_that_lost_the_lead_cannot_write(backend: Backend) {
    let etcd = (backend == Backend::Etcd).then(|| Arc::new(Etcd::start()));
    for nth in 1..=4 {
        let site = broken(etcd.clone(), nth, FEW);
        let first = lone::repairer(&site.server, "first", |store| store.arm(REPAIR, nth, Death::Before));
        wait_for("the first to come to its commit", LONG, || first.store.is_frozen(REPAIR).then_some(()));
        first.kill();
        // The second leads and writes nothing either: only the lead has changed.
        let second = lone::repairer(&site.server, "second", |store| store.arm(REPAIR, 1, Death::Before));
        wait_for("the second to come to its commit", LONG, || second.store.is_frozen(REPAIR).then_some(()));
        let commit = |txn| site.server.block_on(site.server.store().commit(txn)).expect("the store answers");
        assert_eq!(commit(first.store.late()[0].clone()), TxnOutcome::Conflicted, "commit {nth} of the first");
        assert!(matches!(commit(second.store.late()[0].clone()), TxnOutcome::Committed(_)), "the second leads");
        second.kill();
    }
}

/// Somebody who was told that it is off must see nothing come into the queue, and no step begin, after that.
fn what_is_on_its_way_when_a_switch_is_turned_off_is_not_written(backend: Backend) {
    let etcd = (backend == Backend::Etcd).then(|| Arc::new(Etcd::start()));
    let switches =
        [(1, RepairSwitch::Automatic, "auto-repair/disabled"), (2, RepairSwitch::RepairQueue, "repairs/disabled")];
    for (nth, switch, key) in switches {
        let site = broken(etcd.clone(), nth, FEW);
        let repairer = lone::repairer(&site.server, "one", |store| store.arm(REPAIR, nth, Death::Before));
        wait_for("it to come to its commit", LONG, || repairer.store.is_frozen(REPAIR).then_some(()));
        let before: Vec<RepairEntryJson> = entries(&site.server);
        assert!(before.iter().all(|entry| entry.status == "queued"), "{before:#?}");
        site.server.client().set_repair_enabled(switch, false).expect("switched");
        let late = repairer.store.late()[0].clone();
        let compares = |compare: &Compare| {
            let (Compare::ModRevision(compared, _) | Compare::Missing(compared)) = compare else { return false };
            compared.ends_with(key)
        };
        assert!(late.when.iter().any(compares), "commit {nth} is made whether it is off or not");
        let outcome = site.server.block_on(site.server.store().commit(late)).expect("the store answers");
        assert_eq!(outcome, TxnOutcome::Conflicted, "commit {nth}");
        assert_eq!(entries(&site.server), before);
        repairer.kill();
    }
}

/// A step was written down as begun, and its server slept before it acted. When it wakes up another one leads.
fn what_a_step_does_by_itself_cannot_arrive_late(backend: Backend) {
    let etcd = (backend == Backend::Etcd).then(|| Arc::new(Etcd::start()));
    for (number, action) in [(1, "power-cycle"), (2, "retire")] {
        let site = broken_with(etcd.clone(), number, FEW, |_| json!([{ "action": action, "watch_seconds": 600 }]));
        let first = lone::repairer(&site.server, "first", |store| store.arm("m0", 1, Death::Before));
        wait_for("the first to come to its commit", LONG, || first.store.is_frozen("m0").then_some(()));
        let is_begun = |entry: &RepairEntryJson| entry.step_status == "watching";
        assert!(entries(&site.server).iter().any(is_begun), "it is written down");
        first.kill();
        let second = lone::repairer(&site.server, "second", |store| store.arm(REPAIR, 0, Death::Before));
        wait_for("the second to lead", LONG, || {
            let status = site.server.client().repair_status(1).expect("a status").value;
            (status.leader.as_deref() == Some("second")).then_some(())
        });
        let commit = |txn| site.server.block_on(site.server.store().commit(txn)).expect("the store answers");
        assert_eq!(commit(first.store.late()[0].clone()), TxnOutcome::Conflicted, "{action}");
        second.kill();
    }
}
