//! The queue's cases of the specification, and the decisions that depart from the service it follows.

use serde_json::json;

use super::*;
use crate::repair::entry::Backoff;

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

fn entry(index: u64, node: u8) -> Entry {
    Entry {
        index,
        address: n(node),
        serial: None,
        machine_type: "type1".into(),
        operation: "op1".into(),
        status: Status::Queued,
        step: 0,
        step_status: StepStatus::Waiting,
        deleted: false,
        changed_at: None,
        backoff: Backoff::default(),
        created_at: ago(10_000),
        asked_by: String::new(),
        note: String::new(),
    }
}

fn processing(index: u64, node: u8, step_status: StepStatus, seconds: i64) -> Entry {
    Entry { status: Status::Processing, step_status, changed_at: Some(ago(seconds)), ..entry(index, node) }
}

fn reboot(node: u8, status: RebootStatus) -> RebootEntry {
    RebootEntry { index: 1, node: n(node), status, changed_at: None, backoff: Backoff::default(), note: String::new() }
}

struct World {
    entries: Vec<Entry>,
    enabled: bool,
    concurrent: u64,
    need_drain: bool,
    watch: u64,
    healthy: BTreeSet<Ipv4Addr>,
    unchecked: BTreeSet<u64>,
    hands_off: BTreeMap<Serial, HandsOff>,
    drained: BTreeSet<Ipv4Addr>,
    gone: BTreeMap<Ipv4Addr, String>,
    lost: BTreeMap<Ipv4Addr, String>,
    cordoned: BTreeSet<Ipv4Addr>,
    reboots: Vec<RebootEntry>,
    judgement: Judgement,
    powered: BTreeSet<Ipv4Addr>,
    running: BTreeSet<u64>,
    blocked: Option<&'static str>,
    configured: bool,
}

impl World {
    fn new(entries: impl IntoIterator<Item = Entry>) -> World {
        World {
            entries: entries.into_iter().collect(),
            enabled: true,
            concurrent: 1,
            need_drain: false,
            watch: 0,
            healthy: BTreeSet::new(),
            unchecked: BTreeSet::new(),
            hands_off: BTreeMap::new(),
            drained: BTreeSet::new(),
            gone: BTreeMap::new(),
            lost: BTreeMap::new(),
            cordoned: BTreeSet::new(),
            reboots: Vec::new(),
            judgement: Judgement::default(),
            powered: BTreeSet::new(),
            running: BTreeSet::new(),
            blocked: None,
            configured: true,
        }
    }

    fn next(&self) -> Next {
        self.see(next)
    }

    fn see<T>(&self, of: impl Fn(&Around<'_>) -> T) -> T {
        let step = json!({ "repair_command": ["fix"], "need_drain": self.need_drain, "watch_seconds": self.watch });
        let operation = json!({ "operation": "op1", "health_check_command": ["check"], "repair_steps": [step, step] });
        let document = json!({ "repair": {
            "max_concurrent_repairs": self.concurrent,
            "repair_procedures": [{ "machine_types": ["type1"], "repair_operations": [operation] }],
        } });
        let empty = serde_json::Map::new();
        let rest = if self.configured { document.as_object().expect("an object") } else { &empty };
        let nodes = (0..7).map(|number| (n(number), number < 3)).collect();
        of(&Around {
            entries: &self.entries,
            enabled: self.enabled,
            procedures: &Procedures::of(rest),
            nodes: &nodes,
            healthy: &self.healthy,
            unchecked: &self.unchecked,
            hands_off: &self.hands_off,
            drained: &self.drained,
            gone: &self.gone,
            lost: &self.lost,
            cordoned: &self.cordoned,
            reboots: &self.reboots,
            judgement: &self.judgement,
            powered: &self.powered,
            running: &self.running,
            blocked: self.blocked,
            now: now(),
        })
    }
}

/// What is done, in short; `active` says whether reboots wait.
fn check(world: &World, acts: &[&str], active: bool) {
    let next = world.next();
    let shown: Vec<String> = next
        .acts
        .iter()
        .map(|(index, act)| match act {
            Act::Remove => format!("{index} remove"),
            Act::Finish { healthy: true, .. } => format!("{index} succeeded"),
            Act::Finish { healthy: false, .. } => format!("{index} failed"),
            Act::StartDrain { step } => format!("{index} drain {step}"),
            Act::GiveUpDrain { .. } => format!("{index} give up"),
            Act::WatchAgain => format!("{index} watch again"),
            Act::Execute { step } => format!("{index} execute {step}"),
        })
        .collect();
    assert_eq!((shown, next.active), (acts.iter().map(ToString::to_string).collect(), active));
    // Every entry is acted on or says why not.
    for entry in &world.entries {
        let acted = next.acts.iter().any(|(index, _)| *index == entry.index);
        assert_eq!(acted, !next.waits.contains_key(&entry.index), "{}", entry.index);
    }
}

#[test]
fn who_is_worked_on() {
    check(&World::new([entry(1, 4)]), &["1 execute 0"], true);
    let stranger = Entry { address: Ipv4Addr::new(10, 9, 9, 9), ..entry(1, 4) };
    check(&World { need_drain: true, ..World::new([stranger]) }, &["1 execute 0"], true);
    let three = || [entry(1, 0), entry(2, 4), entry(3, 5)];
    check(&World { concurrent: 2, ..World::new(three()) }, &["1 execute 0", "2 execute 0"], true);
    check(&World { concurrent: 2, ..World::new([entry(1, 0), entry(2, 0)]) }, &["1 execute 0"], true);
    check(&World { concurrent: 2, ..World::new([entry(1, 0), entry(2, 1)]) }, &["1 execute 0"], true);
    // Control planes come first; who is worked on already comes before all others.
    check(&World::new([entry(1, 4), entry(2, 0)]), &["2 execute 0"], true);
    let begun = processing(3, 5, StepStatus::Waiting, 10);
    check(&World::new([entry(1, 0), begun]), &["3 execute 0"], true);
    // One machine is never worked on twice at once.
    check(&World { concurrent: 2, ..World::new([entry(1, 4), entry(2, 4)]) }, &["1 execute 0"], true);
}

#[test]
fn what_nobody_knows_how_to_repair_fails_and_takes_no_place() {
    let strange = Entry { operation: "op9".into(), ..entry(1, 4) };
    check(&World::new([strange.clone()]), &["1 failed"], false);
    check(&World::new([strange.clone(), entry(2, 5)]), &["1 failed", "2 execute 0"], true);
    check(&World::new([strange, entry(2, 0)]), &["2 execute 0"], true);
    check(&World { configured: false, ..World::new([entry(1, 4)]) }, &["1 failed"], false);
}

#[test]
fn control_planes_are_not_repaired_beside_a_reboot_of_another() {
    let world = |node, status| World { reboots: vec![reboot(node, status)], ..World::new([entry(1, 0)]) };
    check(&world(1, RebootStatus::Rebooting), &[], false);
    check(&world(1, RebootStatus::Draining), &[], false);
    check(&world(1, RebootStatus::Queued), &["1 execute 0"], true);
    check(&world(0, RebootStatus::Rebooting), &["1 execute 0"], true);
    check(&world(4, RebootStatus::Rebooting), &["1 execute 0"], true);
    let two = vec![reboot(0, RebootStatus::Rebooting), RebootEntry { index: 2, ..reboot(1, RebootStatus::Rebooting) }];
    check(&World { reboots: two, ..World::new([entry(1, 0)]) }, &[], false);
}

#[test]
fn a_pause_that_ends_puts_no_machine_beside_the_one_that_is_worked_on() {
    let paused =
        Entry { backoff: Backoff { count: 1, until: Some(ago(1)) }, ..processing(1, 4, StepStatus::Waiting, 900) };
    let watched = processing(2, 5, StepStatus::Watching, 60);
    check(&World { watch: 600, need_drain: true, ..World::new([paused.clone(), watched]) }, &[], true);
    // The same for two repairs of one machine, and for two control planes.
    let again = processing(2, 4, StepStatus::Watching, 60);
    check(&World { watch: 600, concurrent: 2, ..World::new([paused.clone(), again]) }, &[], true);
    let planes = [Entry { address: n(0), ..paused }, processing(2, 1, StepStatus::Watching, 60)];
    check(&World { watch: 600, concurrent: 2, ..World::new(planes) }, &[], true);
}

#[test]
fn nothing_is_begun_for_who_is_held() {
    let serial = crate::words::Serial::new("m4").expect("a serial");
    let group = super::super::guard::Group { kind: super::super::guard::GroupKind::Rack, value: "7".to_owned() };
    let held = super::super::incident::Held { incident: Some(3), group };
    let judgement = Judgement { held: [(serial.clone(), held)].into(), ..Judgement::default() };
    let world = |entries: Vec<Entry>| World { judgement: judgement.clone(), need_drain: true, ..World::new(entries) };
    let of_it = |entry: Entry| Entry { serial: Some(serial.clone()), ..entry };
    check(&world(vec![of_it(entry(1, 4))]), &[], false);
    assert!(world(vec![of_it(entry(1, 4))]).next().waits[&1].contains("incident 3"));
    check(&world(vec![of_it(entry(1, 4)), entry(2, 5)]), &["2 drain 0"], true);
    check(&world(vec![of_it(processing(1, 4, StepStatus::Watching, 60))]), &[], false);
    let draining = of_it(processing(1, 4, StepStatus::Draining, 60));
    check(&World { drained: [n(4)].into(), ..world(vec![draining]) }, &["1 give up"], true);
    check(&World { healthy: [n(4)].into(), ..world(vec![of_it(entry(1, 4))]) }, &["1 succeeded"], false);
    // A repair asked for by hand is nobody else's business.
    check(&world(vec![entry(1, 4)]), &["1 drain 0"], true);
}

#[test]
fn a_control_plane_is_away_until_its_repair_ends() {
    let serial = Serial::new("m0").expect("a serial");
    let first = |status| Entry { serial: Some(serial.clone()), ..processing(1, 0, status, 9_000) };
    let world = |first: Entry| World { concurrent: 3, ..World::new([first, entry(2, 1), entry(3, 4)]) };
    // Its next step is not begun, because somebody works on it; the others wait for it all the same.
    let held = |first| World {
        hands_off: [(serial.clone(), HandsOff::Maintenance("disk swap".to_owned()))].into(),
        ..world(first)
    };
    check(&held(first(StepStatus::Watching)), &["3 execute 0"], true);
    assert_eq!(held(first(StepStatus::Watching)).next().waits[&2], "another control plane is worked on");
    // It was given back, or nothing was begun.
    check(&held(first(StepStatus::Waiting)), &["2 execute 0", "3 execute 0"], true);
    // It is given back before the next one is begun with.
    let healthy = World { healthy: [n(0)].into(), ..world(first(StepStatus::Watching)) };
    check(&healthy, &["1 succeeded", "3 execute 0"], true);
    // Two that were begun with wait for each other no longer than for one step.
    let both = [processing(1, 0, StepStatus::Watching, 9_000), processing(2, 1, StepStatus::Watching, 9_000)];
    check(&World { concurrent: 3, ..World::new(both) }, &["1 execute 1"], true);
    let nodes = BTreeMap::from([(n(0), true), (n(4), false)]);
    let entries = [first(StepStatus::Draining), processing(2, 4, StepStatus::Draining, 1), entry(3, 1)];
    assert_eq!(control_planes_away(&entries, &nodes), BTreeSet::from([n(0)]));
}

#[test]
fn while_its_command_runs_nothing_else_is_done_with_a_machine() {
    let running = |entry: Entry| World { running: [1].into(), ..World::new([entry, self::entry(2, 5)]) };
    check(&running(processing(1, 4, StepStatus::Watching, 9_000)), &[], true);
    let waits = |step_status| running(processing(1, 4, step_status, 9_000)).next().waits[&1].clone();
    assert_eq!(waits(StepStatus::Watching), "the command of step 0 is running");
    assert_eq!(waits(StepStatus::Draining), "pods are asked to leave its node");
    check(&running(Entry { deleted: true, ..processing(1, 4, StepStatus::Watching, 9_000) }), &[], true);
    let healthy = World { healthy: [n(4)].into(), ..running(processing(1, 4, StepStatus::Watching, 9_000)) };
    check(&healthy, &[], true);
}

#[test]
fn a_clock_that_was_set_back_makes_nobody_wait_for_it() {
    let ahead = -400 * 86_400;
    let watching = World { watch: 600, ..World::new([processing(1, 4, StepStatus::Watching, ahead)]) };
    check(&watching, &["1 watch again"], true);
    check(&World { blocked: Some("etcd is not in order"), ..watching }, &["1 watch again"], true);
    let a_little = World { watch: 600, ..World::new([processing(1, 4, StepStatus::Watching, -500)]) };
    check(&a_little, &[], true);
    let draining = World { need_drain: true, ..World::new([processing(1, 4, StepStatus::Draining, ahead)]) };
    check(&draining, &["1 give up"], true);
    let paused =
        Entry { backoff: Backoff { count: 1, until: Some(ago(ahead)) }, ..processing(1, 4, StepStatus::Waiting, 1) };
    check(&World::new([paused]), &["1 execute 0"], true);
}

#[test]
fn drains() {
    let drain = |entry: Entry| World { need_drain: true, ..World::new([entry]) };
    check(&drain(entry(1, 4)), &["1 drain 0"], true);
    check(&drain(processing(1, 4, StepStatus::Draining, 300)), &[], true);
    check(&drain(processing(1, 4, StepStatus::Draining, 1_200)), &["1 give up"], true);
    let drained = World { drained: [n(4)].into(), ..drain(processing(1, 4, StepStatus::Draining, 300)) };
    check(&drained, &["1 execute 0"], true);
    check(&World { unchecked: [1].into(), ..drained }, &[], true);
    let backoff = |seconds| Backoff { count: 1, until: Some(ago(seconds)) };
    let waiting = |seconds| Entry { backoff: backoff(seconds), ..processing(1, 4, StepStatus::Waiting, 10) };
    check(&drain(waiting(-60)), &[], false);
    check(&drain(waiting(60)), &["1 drain 0"], true);
}

/// A Node that is not found may be full of pods: nothing is begun before it is, unless the machine is known to be gone.
#[test]
fn a_node_that_is_gone_or_lost() {
    let lost = BTreeMap::from([(n(4), "Kubernetes has no Node".to_owned())]);
    let gone = BTreeMap::from([(n(4), "the power is off".to_owned())]);
    let world = |entry: Entry| World { need_drain: true, lost: lost.clone(), ..World::new([entry]) };
    check(&world(entry(1, 4)), &[], false);
    assert_eq!(world(entry(1, 4)).next().waits[&1], "its node cannot be drained: Kubernetes has no Node");
    check(&world(processing(1, 4, StepStatus::Draining, 300)), &[], true);
    check(&world(processing(1, 4, StepStatus::Draining, 1_200)), &["1 give up"], true);
    check(&World { need_drain: false, ..world(entry(1, 4)) }, &["1 execute 0"], true);
    for entry in
        [entry(1, 4), processing(1, 4, StepStatus::Draining, 300), processing(1, 4, StepStatus::Draining, 1_200)]
    {
        check(&World { gone: gone.clone(), ..world(entry.clone()) }, &["1 execute 0"], true);
        check(&World { gone: gone.clone(), lost: BTreeMap::new(), ..world(entry.clone()) }, &["1 execute 0"], true);
        check(&World { gone: gone.clone(), unchecked: [1].into(), ..world(entry) }, &[], true);
    }
    // What keeps everybody's hands off keeps them off this one too.
    let barred = World { gone, blocked: Some("etcd is not in order"), ..world(entry(1, 4)) };
    check(&barred, &[], true);
}

#[test]
fn watching() {
    let watch = |seconds| World { watch: 600, ..World::new([processing(1, 4, StepStatus::Watching, seconds)]) };
    check(&watch(300), &[], true);
    check(&watch(601), &["1 execute 1"], true);
    check(&World::new([processing(1, 4, StepStatus::Watching, 1)]), &["1 execute 1"], true);
    let last = Entry { step: 1, ..processing(1, 4, StepStatus::Watching, 1) };
    check(&World::new([last]), &["1 failed"], false);
    let beyond = Entry { step: 2, ..processing(1, 4, StepStatus::Waiting, 1) };
    check(&World::new([beyond]), &["1 failed"], false);
    check(&World { healthy: [n(4)].into(), ..watch(300) }, &["1 succeeded"], false);
    check(&World { healthy: [n(4)].into(), ..World::new([entry(1, 4)]) }, &["1 succeeded"], false);
    check(&World { need_drain: true, ..watch(601) }, &["1 drain 1"], true);
}

#[test]
fn ends() {
    let done = |status| Entry { status, ..entry(1, 4) };
    for status in [Status::Succeeded, Status::Failed] {
        check(&World::new([done(status)]), &[], false);
        let cordoned = World { cordoned: [n(4)].into(), ..World::new([done(status)]) };
        assert_eq!(cordoned.next().uncordon, [n(4)]);
    }
    let deleted = Entry { deleted: true, ..processing(1, 4, StepStatus::Watching, 1) };
    let world = World { cordoned: [n(4)].into(), ..World::new([deleted]) };
    check(&world, &["1 remove"], false);
    assert_eq!(world.next().uncordon, [n(4)]);
}

#[test]
fn nobody_gets_a_machine_back_whose_power_is_about_to_change() {
    let watching = || processing(1, 4, StepStatus::Watching, 1);
    let deleted = || Entry { deleted: true, ..watching() };
    let world = |entry| World { cordoned: [n(4)].into(), powered: [n(4)].into(), watch: 60, ..World::new([entry]) };
    let check = |world: &World, unwanted: bool, active: bool| {
        check(world, &[], active);
        assert!(world.next().uncordon.is_empty());
        assert_eq!(world.see(unwanted_power).contains(&n(4)), unwanted);
    };
    check(&world(watching()), false, true);
    check(&world(deleted()), true, false);
    check(&World { running: [1].into(), ..world(deleted()) }, false, true);
    check(&World { healthy: [n(4)].into(), ..world(watching()) }, true, false);
    check(&world(Entry { status: Status::Failed, ..watching() }), true, false);
    check(&World { entries: vec![], ..world(watching()) }, true, false);
}

#[test]
fn who_stays_cordoned() {
    let uncordoned = |entries: Vec<Entry>, reboots: Vec<RebootEntry>| {
        let world = World { cordoned: [n(4)].into(), reboots, ..World::new(entries) };
        !world.next().uncordon.is_empty()
    };
    assert!(!uncordoned(vec![processing(1, 4, StepStatus::Draining, 1)], vec![]));
    assert!(!uncordoned(vec![processing(1, 4, StepStatus::Watching, 1)], vec![]));
    assert!(uncordoned(vec![processing(1, 4, StepStatus::Waiting, 1)], vec![]), "during a pause it works");
    assert!(uncordoned(vec![], vec![]));
    assert!(!uncordoned(vec![], vec![reboot(4, RebootStatus::Draining)]));
    assert!(!uncordoned(vec![], vec![reboot(4, RebootStatus::Rebooting)]));
    assert!(uncordoned(vec![], vec![reboot(4, RebootStatus::Queued)]));
}

#[test]
fn a_disabled_queue_begins_nothing_and_does_not_block_reboots() {
    let disabled = |entry: Entry| World { enabled: false, need_drain: true, ..World::new([entry]) };
    check(&disabled(entry(1, 4)), &[], false);
    check(&disabled(processing(1, 4, StepStatus::Draining, 1)), &["1 give up"], true);
    let paused =
        Entry { backoff: Backoff { count: 1, until: Some(ago(-60)) }, ..processing(1, 4, StepStatus::Waiting, 10) };
    check(&disabled(paused), &[], false);
    check(&World { healthy: [n(4)].into(), ..disabled(entry(1, 4)) }, &["1 succeeded"], false);
    check(&disabled(Entry { deleted: true, ..entry(1, 4) }), &["1 remove"], false);
    // What is not begun keeps no place: every drain is given up.
    let over = processing(1, 4, StepStatus::Watching, 60);
    let both = World { enabled: false, ..World::new([over, processing(2, 5, StepStatus::Draining, 1)]) };
    check(&both, &["2 give up"], true);
}

#[test]
fn nothing_is_taken_away_while_something_speaks_against_it() {
    let blocked = |entry: Entry| World { blocked: Some("etcd is not in order"), ..World::new([entry]) };
    check(&blocked(entry(1, 4)), &[], true);
    assert!(blocked(entry(1, 4)).next().waits[&1].contains("etcd is not in order"));
    let timed_out = processing(1, 4, StepStatus::Draining, 1_200);
    check(&World { need_drain: true, ..blocked(timed_out) }, &["1 give up"], true);
}

#[test]
fn nothing_is_begun_before_the_machine_was_asked() {
    for step_status in [StepStatus::Waiting, StepStatus::Watching] {
        for step in [0, 1] {
            let entry = Entry { step, ..processing(1, 4, step_status, 100_000) };
            let asked = World::new([entry]);
            assert_ne!(asked.next().acts, [], "{step_status:?} {step}");
            let unasked = World { unchecked: [1].into(), ..asked };
            assert_eq!(unasked.next().acts, [], "{step_status:?} {step}");
            assert!(unasked.next().waits[&1].contains("is being checked"));
        }
    }
}

#[test]
fn what_a_person_works_on_is_left_alone() {
    let serial = Serial::new("m1").expect("a serial");
    let named = |entry: Entry| Entry { serial: Some(serial.clone()), ..entry };
    let hands_off = || BTreeMap::from([(serial.clone(), HandsOff::Maintenance("disk swap".to_owned()))]);
    let queued = World { hands_off: hands_off(), ..World::new([named(entry(1, 4)), entry(2, 5)]) };
    check(&queued, &["2 execute 0"], true);
    assert!(queued.next().waits[&1].contains("disk swap"));
    let draining = named(processing(1, 4, StepStatus::Draining, 10));
    check(&World { hands_off: hands_off(), need_drain: true, ..World::new([draining]) }, &["1 give up"], true);
}

#[test]
fn a_step_waits_for_provisioning() {
    use crate::provision::states::State;
    let serial = Serial::new("m1").expect("a serial");
    let world = |entry: Entry| World {
        hands_off: BTreeMap::from([(serial.clone(), HandsOff::Provisioning(State::Deploying))]),
        ..World::new([Entry { serial: Some(serial.clone()), ..entry }, self::entry(2, 5)])
    };
    // Somebody cleans or rescues it: others are repaired meanwhile.
    let queued = world(entry(1, 4));
    check(&queued, &["2 execute 0"], true);
    assert!(queued.next().waits[&1].contains("deploying"));
    check(&world(processing(1, 4, StepStatus::Draining, 10)), &["1 give up"], true);
    // The step before may have asked for it: its machine is worked on.
    check(&world(processing(1, 4, StepStatus::Watching, 9_000)), &[], true);
}
