//! Who is rebooted when, and why the others wait.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

/// n0, n1 and n2 are control planes, n3 to n6 workers.
fn n(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

fn entry(index: u64, node: u8, status: RebootStatus) -> RebootEntry {
    RebootEntry {
        index,
        node: n(node),
        status,
        changed_at: Some(ago(60)),
        backoff: Backoff::default(),
        note: String::new(),
    }
}

fn queued(index: u64, node: u8) -> RebootEntry {
    entry(index, node, RebootStatus::Queued)
}

fn draining(index: u64, node: u8) -> RebootEntry {
    entry(index, node, RebootStatus::Draining)
}

fn rebooting(index: u64, node: u8) -> RebootEntry {
    entry(index, node, RebootStatus::Rebooting)
}

fn rules(members: &Value) -> Option<RebootRules> {
    RebootRules::of(json!({ "reboot": members }).as_object().expect("an object"))
}

fn concurrent(max: u64) -> Option<RebootRules> {
    rules(&json!({ "reboot_command": ["r"], "boot_check_command": ["b"], "max_concurrent_reboots": max }))
}

struct World {
    entries: Vec<RebootEntry>,
    enabled: bool,
    rules: Option<RebootRules>,
    drained: BTreeSet<Ipv4Addr>,
    gone: BTreeMap<Ipv4Addr, String>,
    lost: BTreeMap<Ipv4Addr, String>,
    booted: BTreeSet<u64>,
    not_booted: BTreeSet<u64>,
    unreachable: usize,
    unreachable_max: u32,
    repair_active: bool,
    repaired: BTreeSet<Ipv4Addr>,
    running: BTreeSet<u64>,
    blocked: Option<&'static str>,
    held: BTreeMap<Ipv4Addr, String>,
}

impl World {
    fn new(entries: impl IntoIterator<Item = RebootEntry>) -> World {
        World {
            entries: entries.into_iter().collect(),
            enabled: true,
            rules: concurrent(2),
            drained: BTreeSet::new(),
            gone: BTreeMap::new(),
            lost: BTreeMap::new(),
            booted: BTreeSet::new(),
            not_booted: BTreeSet::new(),
            unreachable: 0,
            unreachable_max: 0,
            repair_active: false,
            repaired: BTreeSet::new(),
            running: BTreeSet::new(),
            blocked: None,
            held: BTreeMap::new(),
        }
    }

    fn next(&self) -> Next {
        let nodes = (0..7).map(|number| (n(number), number < 3)).collect();
        next(&Around {
            entries: &self.entries,
            enabled: self.enabled,
            rules: self.rules.as_ref(),
            nodes: &nodes,
            drained: &self.drained,
            gone: &self.gone,
            lost: &self.lost,
            booted: &self.booted,
            not_booted: &self.not_booted,
            unreachable: self.unreachable,
            unreachable_max: self.unreachable_max,
            repair_active: self.repair_active,
            repaired: &self.repaired,
            running: &self.running,
            blocked: self.blocked,
            held: &self.held,
            now: now(),
        })
    }
}

/// What is done, in short, and parts of the reasons of the others.
fn check(world: &World, acts: &[&str], waits: &[(u64, &str)]) {
    let next = world.next();
    let show = |(index, act): &(u64, Act)| match act {
        Act::Remove { because } => format!("{index} remove: {because}"),
        Act::StartDrain => format!("{index} drain"),
        Act::GiveUpDrain { because } => format!("{index} give up: {because}"),
        Act::Reboot => format!("{index} reboot"),
        Act::Check => format!("{index} check"),
    };
    assert_eq!(next.acts.iter().map(show).collect::<Vec<String>>(), acts);
    assert_eq!(next.waits.keys().copied().collect::<Vec<u64>>(), waits.iter().map(|wait| wait.0).collect::<Vec<u64>>());
    for (index, part) in waits {
        assert!(next.waits[index].contains(part), "{index}: {}", next.waits[index]);
    }
}

#[test]
fn workers_come_one_by_one_up_to_the_limit() {
    check(&World::new([queued(1, 3)]), &["1 drain"], &[]);
    let three = [queued(1, 3), queued(2, 4), queued(3, 5)];
    check(&World::new(three), &["1 drain"], &[(2, "10.0.0.3 is begun with"), (3, "one node at a time")]);
    let mut later = World::new([draining(1, 3), queued(2, 4), queued(3, 5)]);
    check(
        &later,
        &["2 drain"],
        &[(1, "pods leave"), (3, "under way: 10.0.0.3, 10.0.0.4; max_concurrent_reboots is 2")],
    );
    later.rules = concurrent(1);
    check(&later, &[], &[(1, "pods leave"), (2, "under way: 10.0.0.3;"), (3, "max_concurrent_reboots is 1")]);
    check(&World::new([rebooting(1, 3), rebooting(2, 4), queued(3, 5)]), &["1 check", "2 check"], &[(3, "is 2")]);
    // Index order, however they are handed over.
    check(&World::new([queued(9, 3), queued(2, 4)]), &["2 drain"], &[(9, "10.0.0.4 is begun with")]);
    // Lowering the limit takes nothing back.
    let over =
        World { rules: concurrent(1), drained: [n(3), n(4)].into(), ..World::new([draining(1, 3), draining(2, 4)]) };
    check(&over, &["1 reboot", "2 reboot"], &[]);
}

#[test]
fn control_planes_go_last_and_alone() {
    check(&World::new([queued(1, 0)]), &["1 drain"], &[]);
    check(&World::new([queued(1, 0), queued(2, 1)]), &["1 drain"], &[(2, "a control plane goes alone, and 10.0.0.0")]);
    check(&World::new([queued(1, 0), queued(2, 3)]), &["2 drain"], &[(1, "goes alone, and 10.0.0.3 is under way")]);
    check(&World::new([draining(1, 3), queued(2, 0)]), &[], &[(1, "pods leave"), (2, "goes alone")]);
    check(&World::new([draining(1, 0), queued(2, 3)]), &[], &[(1, "pods leave"), (2, "control plane 10.0.0.0")]);
    check(&World::new([rebooting(1, 0), queued(2, 1), queued(3, 3)]), &["1 check"], &[(2, "alone"), (3, "10.0.0.0")]);
    // Nor beside one that is being repaired, unless that is itself; workers may go.
    let repaired = |entries: Vec<RebootEntry>| World { repaired: [n(1)].into(), ..World::new(entries) };
    check(&repaired(vec![queued(1, 0)]), &[], &[(1, "goes alone, and 10.0.0.1 is being repaired")]);
    check(&repaired(vec![queued(1, 1)]), &["1 drain"], &[]);
    check(&repaired(vec![queued(1, 3)]), &["1 drain"], &[]);
    // Who cannot be begun with keeps no control plane from it.
    let pause = Backoff { count: 1, until: Some(ago(-60)) };
    check(
        &World::new([queued(1, 0), RebootEntry { backoff: pause, ..queued(2, 3) }]),
        &["1 drain"],
        &[(2, "failed 1")],
    );
    let held = World { held: [(n(3), "rack 7 failed".to_owned())].into(), ..World::new([queued(1, 0), queued(2, 3)]) };
    check(&held, &["1 drain"], &[(2, "rack 7 failed")]);
    // A worker became a control plane while it was drained: who has gone stays, then the first.
    let both = World { drained: [n(0), n(3)].into(), ..World::new([draining(1, 0), draining(2, 3)]) };
    check(&both, &["1 reboot", "2 give up: control plane 10.0.0.0 is under way, which goes alone"], &[]);
    let gone = World { drained: [n(0)].into(), ..World::new([draining(1, 0), rebooting(2, 3)]) };
    check(&gone, &["2 check", "1 give up: a control plane goes alone, and 10.0.0.3 is under way"], &[]);
}

#[test]
fn what_speaks_against_taking_a_node_away() {
    let all = || [queued(1, 3), draining(2, 4), rebooting(3, 5)];
    let world =
        |entries: [RebootEntry; 3]| World { rules: concurrent(9), drained: [n(4)].into(), ..World::new(entries) };
    check(&world(all()), &["3 check", "2 reboot", "1 drain"], &[]);
    let repair = World { repair_active: true, ..world(all()) };
    check(&repair, &["3 check"], &[(1, "machines are being repaired"), (2, "machines are being repaired")]);
    let blocked = World { blocked: Some("Kubernetes does not answer"), ..world(all()) };
    check(&blocked, &["3 check"], &[(1, "Kubernetes does not answer"), (2, "Kubernetes does not answer")]);
    let unreachable = World { unreachable: 3, unreachable_max: 2, ..world(all()) };
    check(
        &unreachable,
        &["3 check", "2 reboot"],
        &[(1, "3 nodes cannot be contacted; maximum-unreachable-nodes-for-reboot is 2")],
    );
    check(&World { unreachable: 2, unreachable_max: 2, ..world(all()) }, &["3 check", "2 reboot", "1 drain"], &[]);
    let held = (3..6).map(|number| (n(number), "rack 7 failed".to_owned())).collect();
    check(&World { held, ..world(all()) }, &["3 check", "2 give up: rack 7 failed"], &[(1, "rack 7 failed")]);
    let disabled = World { enabled: false, ..world(all()) };
    check(&disabled, &["3 check", "2 give up: the queue is disabled"], &[(1, "`sabactl reboot-queue enable`")]);
    let unruled = World { rules: None, ..world(all()) };
    let reason = "the cluster template has not both reboot.reboot_command and reboot.boot_check_command";
    check(&unruled, &[&format!("2 give up: {reason}")], &[(1, reason), (3, reason)]);
    let running = World { running: [1, 2, 3].into(), ..world(all()) };
    check(&running, &[], &[(1, "asked to leave"), (2, "asked to leave"), (3, "its command is running")]);
}

#[test]
fn what_goes() {
    let cancelled = entry(1, 3, RebootStatus::Cancelled);
    let stranger = |index| RebootEntry { node: Ipv4Addr::new(10, 9, 9, 9), ..rebooting(index, 3) };
    let gone = ["1 remove: it was cancelled", "2 remove: the node is no longer in the cluster"];
    let both = || World::new([cancelled.clone(), stranger(2)]);
    check(&both(), &gone, &[]);
    check(&World { enabled: false, repair_active: true, blocked: Some("x"), rules: None, ..both() }, &gone, &[]);
    check(&World { booted: [1].into(), ..World::new([rebooting(1, 3)]) }, &["1 remove: the node has booted"], &[]);
    check(&World { booted: [1].into(), ..World::new([queued(1, 3)]) }, &["1 drain"], &[]);
    // Not while its command runs; and its node counts as long.
    let busy = World { running: [1].into(), rules: concurrent(1), ..World::new([cancelled.clone(), queued(2, 4)]) };
    check(&busy, &[], &[(1, "its command is running"), (2, "under way: 10.0.0.3")]);
}

#[test]
fn the_first_entry_of_a_node_counts() {
    check(&World::new([queued(1, 3), queued(2, 3)]), &["1 drain"], &[(2, "entry 1 of the same node")]);
    let later = entry(2, 3, RebootStatus::Cancelled);
    check(&World::new([queued(1, 3), later]), &["2 remove: it was cancelled", "1 drain"], &[]);
    let first = entry(1, 3, RebootStatus::Cancelled);
    check(&World::new([first, queued(2, 3)]), &["1 remove: it was cancelled"], &[(2, "entry 1 of the same node")]);
}

/// A Node that is not found may be full of pods: its reboot waits, unless the machine is known to be gone.
#[test]
fn a_node_that_is_gone_or_lost() {
    let lost = BTreeMap::from([(n(3), "Kubernetes has no Node".to_owned())]);
    let gone = BTreeMap::from([(n(3), "the power is off".to_owned())]);
    let since = |seconds| RebootEntry { changed_at: Some(ago(seconds)), ..draining(1, 3) };
    let world = |entry: RebootEntry| World { lost: lost.clone(), ..World::new([entry]) };
    check(&world(queued(1, 3)), &[], &[(1, "cannot be drained: Kubernetes has no Node")]);
    check(&world(since(601)), &["1 give up: pods are left after 600 s"], &[]);
    check(&World { gone: gone.clone(), ..world(queued(1, 3)) }, &["1 drain"], &[]);
    check(&World { gone: gone.clone(), ..world(since(1)) }, &["1 reboot"], &[]);
    check(&World { gone, ..World::new([since(601)]) }, &["1 reboot"], &[]);
}

#[test]
fn drains_end() {
    let since = |seconds| RebootEntry { changed_at: Some(ago(seconds)), ..draining(1, 3) };
    check(&World::new([since(600)]), &[], &[(1, "pods leave its node")]);
    check(&World::new([since(601)]), &["1 give up: pods are left after 600 s"], &[]);
    check(&World { drained: [n(3)].into(), ..World::new([since(9_000)]) }, &["1 reboot"], &[]);
    // A node that is empty and may not go is given back in time as well.
    let late = World { repair_active: true, drained: [n(3)].into(), ..World::new([since(601)]) };
    let reason =
        "the node could not be rebooted within 600 s: machines are being repaired; `sabactl repair-queue list`";
    check(&late, &[&format!("1 give up: {reason}")], &[]);
    // By the present clock it has not begun; or nobody knows when it did.
    check(&World::new([since(-500)]), &[], &[(1, "pods leave its node")]);
    check(&World::new([since(-601)]), &["1 give up: it began at 2026-01-01T00:10:01Z, which is not yet"], &[]);
    let unknown = RebootEntry { changed_at: None, ..draining(1, 3) };
    check(&World::new([unknown]), &["1 give up: pods are left after 600 s"], &[]);
}

#[test]
fn the_pause_doubles_and_is_bounded() {
    let mut entry = queued(1, 3);
    for (count, least) in [(1, 300), (2, 600), (3, 1_200), (4, 1_200), (5, 1_200)] {
        let pause = |random| entry.backoff_after_failure(now(), random).until.expect("a time").duration_since(now());
        assert_eq!((pause(0).as_secs(), pause(299).as_secs(), pause(300).as_secs()), (least, least + 299, least));
        let backoff = entry.backoff_after_failure(now(), 299);
        assert_eq!(backoff.count, count);
        entry.backoff = backoff;
        let until = backoff.until.expect("a time");
        assert_eq!(entry.pauses_until(now()), Some(until));
        assert_eq!(entry.pauses_until(until), None);
        assert_eq!(entry.pauses_until(ago(3_600)), None, "a clock that was set back");
        check(
            &World::new([entry.clone()]),
            &[],
            &[(1, &format!("draining failed {count} times; tried again at {until}"))],
        );
    }
    entry.backoff.count = u32::MAX;
    let most = entry.backoff_after_failure(now(), u64::MAX).until.expect("a time");
    assert!(most.duration_since(now()) < SignedDuration::from_secs(1_500));
}

#[test]
fn what_is_written_is_meant() {
    let least = rules(&json!({ "reboot_command": ["r", "-f"], "boot_check_command": ["b"] })).expect("both");
    assert_eq!((least.reboot_command, least.boot_check_command), (vec!["r".into(), "-f".into()], vec!["b".into()]));
    assert_eq!((least.concurrent_max, least.timeout, least.retries, least.interval), (1, None, 0, Duration::ZERO));
    assert_eq!(least.drain.timeout, Duration::from_secs(600));
    let full = json!({
        "reboot_command": ["r"], "boot_check_command": ["b"], "max_concurrent_reboots": 3, "command_timeout_seconds": 20,
        "command_retries": 2, "command_interval": 5, "eviction_timeout_seconds": 60, "evict_retries": 4,
    });
    let full = rules(&full).expect("both");
    assert_eq!((full.concurrent_max, full.retries, full.drain.evict_retries), (3, 2, 4));
    assert_eq!((full.timeout, full.interval), (Some(Duration::from_secs(20)), Duration::from_secs(5)));
    assert_eq!(full.drain.timeout, Duration::from_secs(60));
    for one in [json!({ "reboot_command": ["r"] }), json!({ "boot_check_command": ["b"] }), json!({}), Value::Null] {
        assert_eq!(rules(&one), None);
    }
    assert_eq!(rules(&json!({ "reboot_command": ["r"], "boot_check_command": [] })), None);
    assert_eq!(RebootRules::of(&Map::new()), None);
}

#[test]
fn a_node_is_told_again_if_nobody_knows_whether_it_was_told() {
    let long_ago = RebootEntry { changed_at: Some(ago(900)), ..rebooting(1, 3) };
    let told = RebootEntry { note: "reboot: exit status 0".to_owned(), ..long_ago };
    for (entry, again) in [(long_ago, true), (told, false), (rebooting(1, 3), false)] {
        let world = World { not_booted: [1].into(), ..World::new([entry.clone()]) };
        check(&world, &[if again { "1 reboot" } else { "1 check" }], &[]);
        check(&World::new([entry.clone()]), &["1 check"], &[]);
        check(&World { enabled: false, ..world }, &["1 check"], &[]);
    }
}
