//! Random walks through provisioning: requests, outcomes, crashes, calls, clock jumps. Nothing gets stuck, nothing runs twice, and the
//! record is consistent after every single change.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use sabakan_domain::{
    lifecycle::{self, Facts, Force, Granted, HealthState},
    provision::{
        accept::{self, Offered, Options, Request},
        builtin,
        edges::{self, EDGES},
        engine::{self, Changed, Learned, Next, Outcome, World},
        guards,
        hardware::Aspect,
        node::{HeldReport, Maintenance, Node, NodeId, Phase, WaitOn},
        power::PowerTarget,
        promises::CleaningExtent,
        states::{Kind, State},
        steps::{Flow, Interface, Place, StepRequest, StepSpec},
        verbs::Verb,
    },
    words::Serial,
};

/// What happens next to the node. Whatever does not fit where it is has no effect, and must have none.
#[derive(Debug, Clone)]
enum Happening {
    /// Somebody asks for one of the verbs that are accepted here.
    Ask(usize, usize),
    /// Somebody asks for any verb.
    AskAnything(usize),
    /// A worker does what is next.
    Work(Fortune),
    /// The ramdisk calls.
    Call,
    /// A task ends, perhaps another one.
    TaskEnds(bool),
    /// Time passes.
    Pass(i64),
    /// Somebody sets or clears maintenance.
    Maintain(bool),
    /// Somebody declares the machine retiring, or changes their mind.
    Retire(bool),
    /// A monitor reports.
    Report(bool),
    /// Somebody brings the machine back or initialises it.
    Lifecycle(usize),
    /// The machine stores a disk key.
    Encrypt,
    /// Somebody asks for a power change; it is done.
    Power,
}

/// How a step goes.
#[derive(Debug, Clone, Copy)]
enum Fortune {
    Well,
    Badly,
    /// The worker dies after it wrote that it begins.
    Crash,
    WaitsForCall,
    WaitsForTask,
    WaitsForTime,
}

const fn spec(name: &'static str, place: Place, flows: &'static [Flow], priority: u32) -> StepSpec {
    StepSpec {
        interface: Interface::Raid,
        name,
        place,
        flows,
        priority,
        abortable: false,
        idempotent: false,
        disturbs: &[],
        args: &[],
        text: "for tests",
    }
}

const EVERY: &[Flow] = &[Flow::Clean, Flow::Deploy, Flow::Service];

const OUT_OF_BAND: &[StepSpec] = &[
    StepSpec { disturbs: &[Aspect::Raid], ..spec("tear_down", Place::OutOfBand, &[Flow::Clean], 50) },
    StepSpec { idempotent: true, ..spec("read", Place::OutOfBand, EVERY, 20) },
];

const RAMDISK: &[StepSpec] = &[
    spec("erase_members", Place::InBand, EVERY, 80),
    StepSpec { abortable: true, idempotent: true, ..spec("burn_in", Place::InBand, EVERY, 60) },
];

/// What callers ask for, where a verb takes steps.
const WANTED: [&[&str]; 4] =
    [&["erase_members"], &["hold"], &["read", "hold", "burn_in", "wait"], &["reboot", "tear_down"]];

/// One node, its machine, and everything that was seen of them.
struct Walk {
    node: Node,
    machine: HealthState,
    has_keys: bool,
    out_of_band: &'static [StepSpec],
    ramdisk: &'static [StepSpec],
    options: Options,
    now: Timestamp,
    asked: usize,
    /// Steps that must not be run twice, by operation, work and index.
    begun: BTreeSet<(String, &'static str, usize)>,
    /// How far each operation and work has come.
    index: BTreeMap<(String, &'static str), usize>,
    seen: BTreeSet<State>,
}

impl Walk {
    fn new(start: State, driver: usize, site: usize) -> Walk {
        let now = Timestamp::from_second(1_000_000).expect("valid");
        let node = Node::implied(NodeId(1), Serial::new("1234abcd").expect("valid"), now);
        Walk {
            node: Node { state: start, ..node },
            machine: HealthState::Uninitialized,
            has_keys: false,
            out_of_band: if driver >= 1 { OUT_OF_BAND } else { &[] },
            ramdisk: if driver >= 2 { RAMDISK } else { &[] },
            options: Options {
                no_automated_clean: site == 1,
                power_off_after_verify: site == 2,
                no_provide_in_maintenance: site == 3,
                // Without a key and a ramdisk nothing would be cleaned at all.
                cleaning: if driver >= 2 { CleaningExtent::Full } else { CleaningExtent::KeysOnly },
                ..Options::default()
            },
            now,
            asked: 0,
            begun: BTreeSet::new(),
            index: BTreeMap::new(),
            seen: BTreeSet::from([start]),
        }
    }

    fn offered(&self) -> Offered<'static> {
        Offered { out_of_band: self.out_of_band, ramdisk: self.ramdisk, inspects_in_band: false, driver: None }
    }

    fn world<'a>(&self, options: &'a Options) -> World<'a> {
        World { machine: Some(self.machine), has_keys: self.has_keys, offered: self.offered(), options }
    }

    /// Writes a change after checking that it may be written.
    fn write(&mut self, changed: Changed) {
        let Changed { node, machine, rows } = changed;
        // The history is a path of the table, without gaps.
        let mut at = self.node.state;
        for row in &rows {
            let arrow = EDGES.iter().any(|edge| edge.from == row.from && edge.destinations().contains(&row.to))
                || edges::takes_back(row.from, row.to);
            assert!(row.from == at && (row.from == row.to || arrow), "{at}: {row:?}");
            assert!(!row.text.is_empty() && row.lasted_ms >= 0, "{row:?}");
            at = row.to;
            self.seen.insert(at);
        }
        assert_eq!(at, node.state, "the history does not lead where the node is: {rows:?}");
        if let Some(to) = machine {
            // Also by two arrows at once, when nothing had to be erased.
            let direct = |from| lifecycle::EDGES.iter().any(|edge| edge.from == from && edge.to == to);
            assert!(
                direct(self.machine) || lifecycle::erased(self.machine).is_some_and(direct),
                "{} to {to}",
                self.machine
            );
            self.machine = to;
        }
        if node.state == State::Available && self.node.state != State::Available {
            assert!(!self.has_keys && !node.retire_declared, "available with keys, or although it is to retire");
        }
        self.node = node;
        self.check();
    }

    /// What holds at every point.
    fn check(&mut self) {
        let Node { state, target, operation, .. } = &self.node;
        let nowhere = state.kind() == Kind::Stable || matches!(state, State::Error | State::VerifyFailed);
        assert_eq!(target.is_none(), nowhere, "{state} heads for {target:?}");
        assert!(target.is_none_or(|target| target.kind() == Kind::Stable), "{state} heads for {target:?}");
        assert!(self.machine != HealthState::Retired || !self.has_keys, "a retired machine has keys");
        if state.kind() == Kind::Failed {
            assert!(self.node.last_error.is_some(), "{state} and nobody says why");
        }
        let Some(operation) = operation else {
            // `next` fails such a node at once; it is never written by these rules.
            assert!(!state.may_restart(), "{state} without an operation");
            return;
        };
        let rests = matches!(state.kind(), Kind::Stable | Kind::Failed);
        assert_eq!(operation.work.clears_up(), rests, "{} in {state}", operation.work);
        assert_eq!(operation.deadline.is_none(), state.kind() == Kind::Holding, "{state}: {:?}", operation.deadline);
        let waits = matches!(operation.phase, Phase::Waiting(_));
        assert!(waits || !matches!(state.kind(), Kind::Waiting | Kind::Holding), "{state} waits for nothing");
        assert!(operation.index <= operation.steps.len());
        let key = (operation.id.clone(), operation.work.as_str());
        let before = self.index.insert(key, operation.index).unwrap_or(0);
        assert!(before <= operation.index, "{} goes back from step {before} to {}", operation.work, operation.index);
    }

    fn ask(&mut self, verb: Verb, steps: usize) {
        self.asked += 1;
        let interface = Interface::Raid;
        let priority = Some(70);
        let steps = match verb {
            Verb::Clean | Verb::Service | Verb::Active => WANTED[steps % WANTED.len()],
            _ => &[],
        };
        let steps = steps.iter().map(|name| {
            let (name, args) = ((*name).to_owned(), BTreeMap::new());
            StepRequest { interface, name, args, priority }
        });
        let request = Request {
            verb,
            steps: steps.collect(),
            disable_ramdisk: false,
            operation: format!("operation-{}", self.asked),
            by: "someone".to_owned(),
            at: self.now,
        };
        let taken_back = verb == Verb::Abort && accept::can_take_back(&self.node);
        let known = taken_back || edges::accepts(self.node.state, verb);
        match accept::accept(&self.node, &request, Some(self.machine), self.has_keys, self.offered(), &self.options) {
            Ok(changed) => {
                assert!(known, "{verb} in {} is no arrow", self.node.state);
                assert!(taken_back || self.node.power.action.is_none());
                self.write(changed);
            }
            Err(refusal) => assert!(!refusal.to_string().is_empty()),
        }
    }

    /// A worker does what is next once. `false`: nothing.
    fn work(&mut self, fortune: Fortune) -> bool {
        let options = self.options.clone();
        let world = self.world(&options);
        match engine::next(&self.node, self.now) {
            Next::Leave => return false,
            Next::Finish => self.write(engine::finish(&self.node, world, "worker", self.now)),
            Next::Fail(reason) => self.write(engine::give_up(&self.node, &reason, world, "worker", self.now)),
            Next::Expire => self.write(engine::expire(&self.node, world, "worker", self.now)),
            Next::Run { attempt, resume } => {
                self.begin(attempt, resume);
                if let Some(outcome) = self.outcome(fortune) {
                    let world = self.world(&options);
                    self.write(engine::record(&self.node, outcome, world, "worker", self.now));
                }
            }
        }
        true
    }

    fn begin(&mut self, attempt: u32, resume: bool) {
        let operation = self.node.operation.as_ref().expect("something is run");
        let step = self.node.current_step().expect("something is run");
        let key = (operation.id.clone(), operation.work.as_str(), operation.index);
        if !resume {
            let first = self.begun.insert(key);
            assert!(first || step.idempotent, "{} runs twice in one {}", step.key(), operation.work);
        }
        self.write(engine::begin(&self.node, attempt, resume, "worker", self.now));
        assert_eq!(self.node.wait(), None, "a step under way waits for nothing");
        assert!(!matches!(self.node.state.kind(), Kind::Waiting | Kind::Holding), "run while {}", self.node.state);
    }

    /// What the step answers; `None`: its worker died.
    fn outcome(&mut self, fortune: Fortune) -> Option<Outcome> {
        let step = self.node.current_step().expect("one is under way");
        let wait = |on| Some(Outcome::Wait(on, "it takes a while".to_owned()));
        let phase = self.node.operation.as_ref().map(|operation| &operation.phase);
        match fortune {
            Fortune::Well if builtin::is(step, builtin::HOLD) && matches!(phase, Some(Phase::Started { .. })) => {
                wait(WaitOn::Hold)
            }
            Fortune::Well => {
                if builtin::is(step, builtin::ERASE_KEYS) {
                    self.has_keys = false;
                    let retiring = lifecycle::torn_down(self.machine).unwrap_or(self.machine);
                    self.machine = lifecycle::erased(retiring).unwrap_or(retiring);
                }
                Some(Outcome::Done(Learned::default()))
            }
            Fortune::Badly => Some(Outcome::Failed("no".to_owned())),
            Fortune::Crash => None,
            Fortune::WaitsForCall => wait(WaitOn::Heartbeat { called: false }),
            Fortune::WaitsForTask => wait(WaitOn::Task { id: "task".to_owned(), ended: false }),
            Fortune::WaitsForTime => {
                wait(WaitOn::Time(self.now.checked_add(SignedDuration::from_secs(30)).expect("valid")))
            }
        }
    }

    fn happen(&mut self, happening: &Happening) {
        match *happening {
            Happening::Ask(verb, steps) => {
                let verbs: Vec<Verb> = edges::accepted(self.node.state).collect();
                if !verbs.is_empty() {
                    self.ask(verbs[verb % verbs.len()], steps);
                }
            }
            Happening::AskAnything(verb) => self.ask(Verb::ALL[verb % Verb::ALL.len()], verb),
            Happening::Work(fortune) => drop(self.work(fortune)),
            Happening::Call => self.call(),
            Happening::TaskEnds(own) => {
                let changed = engine::task_ended(&self.node, if own { "task" } else { "another" });
                assert!(own || changed.is_none(), "another task ends the wait");
                changed.into_iter().for_each(|changed| self.write(changed));
            }
            Happening::Pass(seconds) => self.pass(seconds),
            Happening::Maintain(on) => {
                self.node.maintenance = on.then_some(Maintenance { reason: None, fault: None });
            }
            // Also of one that tear-down has made retiring already.
            Happening::Retire(declared) => {
                self.request(if declared { HealthState::Retiring } else { HealthState::Uninitialized });
                self.node.retire_declared |= declared && self.machine == HealthState::Retiring;
            }
            Happening::Report(unhealthy) => {
                let state = if unhealthy { HealthState::Unhealthy } else { HealthState::Unreachable };
                self.request(state);
            }
            Happening::Lifecycle(to) => self.request(HealthState::ALL[to % HealthState::ALL.len()]),
            Happening::Encrypt => {
                let leaves = matches!(self.machine, HealthState::Retiring | HealthState::Retired);
                self.has_keys |= !leaves && self.node.state == State::Active;
            }
            Happening::Power => {
                let limit = SignedDuration::from_secs(60);
                let found = accept::accept_power(&self.node, PowerTarget::Reboot, "someone", self.now, limit);
                if let Ok(changed) = found {
                    assert!(!self.node.state.may_restart());
                    self.write(changed);
                    self.ask(Verb::Abort, 0);
                    self.node.power.action = None;
                }
            }
        }
    }

    /// Somebody asks for a lifecycle state; both sides decide.
    fn request(&mut self, to: HealthState) {
        let facts = Facts { has_keys: self.has_keys };
        let Ok(Granted::Move(to)) = lifecycle::request(self.machine, to, facts, Force::No) else { return };
        match guards::check_lifecycle(&self.node, self.machine, to, false) {
            Ok(guards::LifecycleVerdict::Make) => {
                self.machine = to;
                self.node.retire_declared = matches!(to, HealthState::Retiring | HealthState::Retired);
            }
            Ok(guards::LifecycleVerdict::Hold) => {
                assert!(self.node.state.may_restart());
                self.node.held_report = Some(HeldReport { state: to, at: self.now, by: "monitor".to_owned() });
            }
            Err(refusal) => assert!(!refusal.to_string().is_empty()),
        }
    }

    fn call(&mut self) {
        let changed = engine::heartbeat(&self.node, "http://10.0.0.9:9999", self.now);
        changed.into_iter().for_each(|changed| self.write(changed));
    }

    fn pass(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).expect("valid");
    }

    /// From here on the world is fair: workers live, steps end, time passes; the ramdisk calls only if it is `kind`. Nobody asks for
    /// anything, but whoever set maintenance clears it. Ends where only a person goes on, within a bound.
    fn continue_fairly(&mut self, kind: bool, fortunes: &[bool]) {
        self.node.maintenance = None;
        // Every step is begun, perhaps thrice after crashes before, waited for and looked at; clearing up follows, cleaning too.
        let bound = 200;
        for turn in 0..bound {
            let well = fortunes.is_empty() || fortunes[turn % fortunes.len()];
            if self.work(if well { Fortune::Well } else { Fortune::Badly }) {
                continue;
            }
            let Some(wait) = self.node.wait().cloned() else { break };
            match wait.on {
                WaitOn::Hold => break,
                WaitOn::Heartbeat { .. } if kind && self.listens() => self.call(),
                WaitOn::Task { .. } if kind => self.happen(&Happening::TaskEnds(true)),
                // Fault maintenance was set meanwhile, or nobody calls: the clock decides.
                _ => {
                    self.node.maintenance = None;
                    self.pass(60 * 60);
                }
            }
        }
        let state = self.node.state;
        assert!(!matches!(state.kind(), Kind::Busy | Kind::Waiting), "stuck: {:?}", self.node);
        assert!(state.kind() == Kind::Holding || self.node.operation.is_none(), "nobody would run: {:?}", self.node);
        assert_eq!(engine::next(&self.node, Timestamp::MAX), Next::Leave);
        assert!(
            state.kind() == Kind::Holding || self.node.held_report.is_none(),
            "a report was never judged in {state}"
        );
        assert!(edges::accepted(state).next().is_some(), "no verb leads out of {state}");
    }

    fn listens(&self) -> bool {
        self.node.state.kind() == Kind::Waiting
            && self.node.operation.as_ref().is_some_and(|operation| operation.ramdisk.is_some())
            && self.node.maintenance.is_none()
    }
}

fn fortunes() -> impl Strategy<Value = Fortune> {
    prop_oneof![
        8 => Just(Fortune::Well),
        1 => Just(Fortune::Badly),
        1 => Just(Fortune::Crash),
        2 => Just(Fortune::WaitsForCall),
        2 => Just(Fortune::WaitsForTask),
        1 => Just(Fortune::WaitsForTime),
    ]
}

fn happenings() -> impl Strategy<Value = Happening> {
    prop_oneof![
        16 => fortunes().prop_map(Happening::Work),
        8 => (0usize..60, 0usize..4).prop_map(|(verb, steps)| Happening::Ask(verb, steps)),
        1 => (0usize..13).prop_map(Happening::AskAnything),
        3 => Just(Happening::Call),
        3 => prop::bool::weighted(0.8).prop_map(Happening::TaskEnds),
        2 => prop_oneof![4 => 1i64..120, 1 => 600i64..20_000].prop_map(Happening::Pass),
        2 => prop::bool::weighted(0.1).prop_map(Happening::Maintain),
        1 => prop::bool::weighted(0.2).prop_map(Happening::Retire),
        1 => any::<bool>().prop_map(Happening::Report),
        3 => (0usize..7).prop_map(Happening::Lifecycle),
        1 => Just(Happening::Encrypt),
        1 => Just(Happening::Power),
    ]
}

#[derive(Debug, Clone)]
struct Story {
    start: State,
    driver: usize,
    site: usize,
    happenings: Vec<Happening>,
    kind: bool,
    fortunes: Vec<bool>,
}

fn stories() -> impl Strategy<Value = Story> {
    let fair = (any::<bool>(), prop::collection::vec(prop::bool::weighted(0.9), 0..8));
    let stable: Vec<State> = State::ALL.into_iter().filter(|state| state.kind() == Kind::Stable).collect();
    let happenings = prop::collection::vec(happenings(), 0..80);
    (prop::sample::select(stable), 0usize..4, 0usize..4, happenings, fair).prop_map(
        |(start, driver, site, happenings, (kind, fortunes))| Story { start, driver, site, happenings, kind, fortunes },
    )
}

/// Walks, and continues fairly at the end. Returns every state that was seen.
fn tell(story: &Story) -> BTreeSet<State> {
    let mut walk = Walk::new(story.start, story.driver, story.site);
    for happening in &story.happenings {
        walk.happen(happening);
    }
    walk.continue_fairly(story.kind, &story.fortunes);
    walk.seen
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn nothing_gets_stuck_and_nothing_runs_twice(story in stories()) {
        tell(&story);
    }
}

/// The walks above would prove little if they stayed near the beginning.
#[test]
fn the_walks_reach_every_state() {
    let config = Config { failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let strategy = stories();
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        let story = strategy.new_tree(&mut runner).expect("a story").current();
        seen.extend(tell(&story));
    }
    let missing: Vec<State> = State::ALL.into_iter().filter(|state| !seen.contains(state)).collect();
    assert!(missing.is_empty(), "never seen: {missing:?}");
}

/// A worker is lost at every boundary of every operation: what was recorded is all that the next one has.
#[test]
fn a_crash_at_any_point_ends_visibly() {
    let verbs = [
        (State::Enroll, Verb::Manage),
        (State::Manageable, Verb::Inspect),
        (State::Manageable, Verb::Provide),
        (State::Manageable, Verb::Clean),
        (State::Manageable, Verb::Adopt),
        (State::Available, Verb::Active),
        (State::Active, Verb::Deleted),
        (State::Active, Verb::Rescue),
        (State::Active, Verb::Service),
        (State::Rescue, Verb::Unrescue),
    ];
    for (from, verb) in verbs {
        let mut ends = BTreeSet::new();
        for crash in 0..60 {
            let mut walk = Walk::new(from, 2, 0);
            walk.ask(verb, 0);
            for turn in 0..=crash {
                let fortune = if turn == crash { Fortune::Crash } else { Fortune::Well };
                if !walk.work(fortune) {
                    break;
                }
            }
            // The operation completes, or fails and says in which step the worker was lost.
            walk.continue_fairly(true, &[]);
            let failed = walk.node.state.kind() == Kind::Failed;
            let said =
                walk.node.last_error.as_deref().is_some_and(|error| error.contains("the worker was lost in step"));
            assert_eq!(failed, said, "{verb}, crash {crash}: {:?}", walk.node.last_error);
            ends.insert(failed);
        }
        // Steps that must not be run twice are the only ones a lost worker fails.
        let careful = matches!(verb, Verb::Provide | Verb::Clean | Verb::Deleted | Verb::Active | Verb::Service);
        assert_eq!(ends.contains(&true), careful, "{verb}");
        assert!(ends.contains(&false), "{verb}");
    }
}
