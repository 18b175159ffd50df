//! For tests: a driver with steps of every kind, and a desk that plays worker, ramdisk and clock for one node.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::{
    accept::{self, Offered, Options, Request, VerbRefusal},
    agent, builtin,
    edges::EDGES,
    engine::{self, Changed, Learned, Next, Outcome, World},
    hardware::Aspect,
    node::{Node, NodeId, Object, Phase, Row, WaitOn},
    states::{Kind, State},
    steps::{ArgSpec, Flow, Interface, Place, Step, StepRequest, StepSpec},
    verbs::Verb,
};
use crate::{
    lifecycle::{self, HealthState},
    words::Serial,
};

const fn spec(
    interface: Interface,
    name: &'static str,
    place: Place,
    flows: &'static [Flow],
    priority: u32,
) -> StepSpec {
    StepSpec {
        interface,
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

const URL: ArgSpec = ArgSpec { name: "url", required: true, text: "where the firmware is" };

/// What the driver offers through the BMC.
pub const OUT_OF_BAND: &[StepSpec] = &[
    StepSpec {
        disturbs: &[Aspect::Raid],
        ..spec(Interface::Raid, "erase_members", Place::OutOfBand, &[Flow::Clean], 50)
    },
    StepSpec {
        args: &[URL],
        ..spec(Interface::Firmware, "update", Place::OutOfBand, &[Flow::Clean, Flow::Service], 0)
    },
    StepSpec {
        idempotent: true,
        disturbs: &[Aspect::Bios],
        ..spec(Interface::Bios, "apply", Place::OutOfBand, &[Flow::Clean, Flow::Deploy], 0)
    },
];

/// What its ramdisk offers.
pub const RAMDISK: &[StepSpec] = &[
    StepSpec {
        idempotent: true,
        abortable: true,
        ..spec(Interface::Deploy, "erase_devices_metadata", Place::InBand, &[Flow::Clean], 99)
    },
    spec(Interface::Deploy, "erase_devices", Place::InBand, &[Flow::Clean], 10),
    StepSpec { abortable: true, ..spec(Interface::Deploy, "burn_in", Place::InBand, &[Flow::Clean, Flow::Service], 0) },
    spec(Interface::Deploy, "write_image", Place::InBand, &[Flow::Deploy], 80),
];

/// A step as a caller asks for it.
pub fn wanted(key: &str) -> StepRequest {
    let (interface, name) = key.split_once('.').expect(key);
    let interface = interface.parse().expect(key);
    StepRequest { interface, name: name.to_owned(), args: BTreeMap::new(), priority: None }
}

/// One node, its machine, and whoever works on it.
pub struct Desk {
    pub node: Node,
    pub machine: Option<HealthState>,
    pub has_keys: bool,
    pub out_of_band: &'static [StepSpec],
    pub ramdisk: &'static [StepSpec],
    pub options: Options,
    pub now: Timestamp,
    pub rows: Vec<Row>,
    /// Steps that were begun, in order.
    pub ran: Vec<String>,
}

impl Desk {
    /// A healthy machine with a disk key whose node is in a state; a driver that only knows power.
    pub fn at(state: State) -> Desk {
        let now = Timestamp::from_second(1_000_000).expect("valid");
        let node = Node::implied(NodeId(1), Serial::new("1234abcd").expect("valid"), now);
        Desk {
            node: Node { state, ..node },
            machine: Some(HealthState::Healthy),
            has_keys: true,
            out_of_band: &[],
            ramdisk: &[],
            options: Options::default(),
            now,
            rows: Vec::new(),
            ran: Vec::new(),
        }
    }

    /// The same with a driver that offers everything.
    pub fn full(state: State) -> Desk {
        Desk { out_of_band: OUT_OF_BAND, ramdisk: RAMDISK, ..Desk::at(state) }
    }

    pub fn request(&self, verb: Verb, steps: &[&str]) -> Request {
        Request {
            verb,
            steps: steps.iter().map(|key| wanted(key)).collect(),
            disable_ramdisk: false,
            operation: format!("op-{}", self.rows.len()),
            by: "someone".to_owned(),
            at: self.now,
        }
    }

    pub fn offered(&self) -> Offered<'static> {
        Offered { out_of_band: self.out_of_band, ramdisk: self.ramdisk, inspects_in_band: false, driver: None }
    }

    /// Asks for a verb, with steps.
    pub fn ask(&mut self, verb: Verb, steps: &[&str]) -> Result<(), VerbRefusal> {
        self.submit(&self.request(verb, steps))
    }

    pub fn submit(&mut self, request: &Request) -> Result<(), VerbRefusal> {
        let (node, offered) = (&self.node, self.offered());
        let changed = accept::accept(node, request, self.machine, self.has_keys, offered, &self.options)?;
        self.write(changed);
        Ok(())
    }

    /// Writes a change, as the transaction would, and checks that the history is a path of the table.
    pub fn write(&mut self, changed: Changed) {
        let Changed { node, machine, rows } = changed;
        let mut at = self.node.state;
        for row in &rows {
            assert_eq!(row.from, at, "{rows:?}");
            let arrow = EDGES.iter().any(|edge| edge.from == row.from && edge.destinations().contains(&row.to));
            assert!(row.from == row.to || arrow, "no arrow: {row:?}");
            at = row.to;
        }
        assert_eq!(at, node.state, "{rows:?}");
        self.node = node;
        self.machine = machine.or(self.machine);
        self.rows.extend(rows);
    }

    pub fn pass(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).expect("valid");
    }

    pub fn next(&self) -> Next {
        engine::next(&self.node, self.now)
    }

    fn world<'a>(&self, options: &'a Options) -> World<'a> {
        World { machine: self.machine, has_keys: self.has_keys, offered: self.offered(), options }
    }

    /// Writes that the next step begins, and stops there, as a worker that dies in it would.
    pub fn begin(&mut self) {
        let Next::Run { attempt, resume } = self.next() else { panic!("nothing to run: {:?}", self.next()) };
        if !resume {
            self.ran.extend(self.node.current_step().map(Step::key));
        }
        self.write(engine::begin(&self.node, attempt, resume, "worker", self.now));
    }

    /// Writes how the step that was begun went.
    pub fn record(&mut self, outcome: Outcome) {
        let options = self.options.clone();
        self.write(engine::record(&self.node, outcome, self.world(&options), "worker", self.now));
    }

    /// Begins the next step and writes how it went.
    pub fn step(&mut self, outcome: Outcome) {
        self.begin();
        self.record(outcome);
    }

    /// As [`Desk::step`], done.
    pub fn done(&mut self) {
        self.step(Outcome::Done(Learned::default()));
    }

    /// Does what is next once, with every step going well. `false`: nothing is to be done.
    pub fn turn(&mut self) -> bool {
        let options = self.options.clone();
        let world = self.world(&options);
        match self.next() {
            Next::Leave => return false,
            Next::Finish => self.write(engine::finish(&self.node, world, "worker", self.now)),
            Next::Fail(reason) => self.write(engine::give_up(&self.node, &reason, world, "worker", self.now)),
            Next::Expire => self.write(engine::expire(&self.node, world, "worker", self.now)),
            Next::Run { resume, .. } => {
                self.begin();
                let outcome = self.go_well(resume);
                self.record(outcome);
            }
        }
        true
    }

    /// What a step that goes well answers; in-band ones and boots take a while first.
    fn go_well(&mut self, resume: bool) -> Outcome {
        let step = self.node.current_step().expect("one is running").clone();
        if builtin::is(&step, builtin::ERASE_KEYS) {
            self.has_keys = false;
            let retiring = self.machine.map(|machine| lifecycle::torn_down(machine).unwrap_or(machine));
            self.machine = retiring.map(|machine| lifecycle::erased(machine).unwrap_or(machine));
        }
        let boots = builtin::is(&step, builtin::BOOT_RAMDISK)
            || (builtin::is(&step, builtin::DEPLOY) && !self.ramdisk.is_empty());
        match step.place {
            _ if resume => Outcome::Done(Learned::default()),
            _ if boots => Outcome::Wait(WaitOn::Heartbeat { called: false }, "the ramdisk boots".to_owned()),
            _ if builtin::is(&step, builtin::HOLD) => Outcome::Wait(WaitOn::Hold, "asked to".to_owned()),
            Place::InBand => {
                let id = format!("task-{}", step.name);
                Outcome::Wait(WaitOn::Task { id, ended: false }, format!("{} runs", step.name))
            }
            Place::Engine | Place::OutOfBand => Outcome::Done(Learned::default()),
        }
    }

    /// Lets happen what the node waits for: the ramdisk calls, the task ends, time passes. `false`: only a person can go on.
    pub fn wake(&mut self) -> bool {
        match self.node.wait().map(|wait| wait.on.clone()) {
            Some(WaitOn::Heartbeat { .. }) => self.call(),
            Some(WaitOn::Inventory { .. }) => {
                let found = agent::inspected(&self.node, &Object::new(), "sealed", "ramdisk", self.now);
                self.write(found.expect("somebody waits for it"));
            }
            Some(WaitOn::Task { id, .. }) => {
                let changed = engine::task_ended(&self.node, &id).expect("it waits for that task");
                self.write(changed);
            }
            Some(WaitOn::Time(until)) => self.now = until,
            Some(WaitOn::Hold) | None => return false,
        }
        true
    }

    /// Goes on, with every step going well, until only a person can.
    pub fn settle(&mut self) {
        let mut left = 1_000;
        while self.turn() || self.wake() {
            left -= 1;
            assert!(left > 0, "it never settles: {:?}", self.node);
        }
    }

    /// Goes on, with every step going well, until this one is next.
    pub fn until(&mut self, key: &str) {
        let next = |desk: &Desk| {
            let ready = desk.node.operation.as_ref().is_some_and(|operation| operation.phase == Phase::Ready);
            ready && desk.node.current_step().is_some_and(|step| step.key() == key)
        };
        let mut left = 1_000;
        while !next(self) {
            left -= 1;
            assert!(left > 0 && (self.turn() || self.wake()), "{key} is not reached: {:?}", self.node);
        }
    }

    /// The ramdisk calls.
    pub fn call(&mut self) {
        let changed = engine::heartbeat(&self.node, "http://10.0.0.9:9999", self.now).expect("somebody listens");
        self.write(changed);
    }

    /// Steps of the operation, as `interface.name`.
    pub fn steps(&self) -> Vec<String> {
        self.node.operation.as_ref().map_or_else(Vec::new, |op| op.steps.iter().map(Step::key).collect())
    }

    /// Where it is, where it is heading.
    pub fn place(&self) -> (State, Option<State>) {
        (self.node.state, self.node.target)
    }

    pub fn deadline_in(&self) -> Option<i64> {
        let deadline = self.node.operation.as_ref()?.deadline?;
        Some(deadline.duration_since(self.now).as_secs())
    }

    /// Nothing is left that somebody would have to do.
    pub fn at_rest(&self) -> bool {
        self.node.operation.is_none() && matches!(self.node.state.kind(), Kind::Stable | Kind::Failed)
    }

    pub fn last_text(&self) -> &str {
        self.rows.last().map_or("", |row| &row.text)
    }
}
