//! What can happen: callers, monitors and a ramdisk that call functions of the product, and a worker that takes the node, runs steps
//! and writes. How a step goes is chosen by the explorer; so is the moment when a worker is cut off.

use std::sync::Arc;

use bytes::Bytes;
use sabakan_domain::{
    crypt::DiskPath,
    ipam::OutsidePool,
    lifecycle::{Force, HealthState},
    provision::{
        accept::{self, Offered, Options, Request},
        builtin, edit,
        engine::{self, Changed, Learned, Outcome},
        node::{Maintenance, Node, Phase, WaitOn},
        steps::{Args, Flow, Interface, Place, Step, StepRequest, StepSpec},
        turn::{self, First},
        verbs::Verb,
    },
};
use sabakan_store::repo::{
    crypts, machines,
    nodes::{self, Facts, Grip, Held},
};

use super::{
    broken::Broken,
    store::{Desk, LEASE, Noted},
    world::{Hand, Seen, World, late, serial},
};
use crate::model::{NOW, by, names, new_machine};

/// One thing that somebody does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    SetState {
        to: HealthState,
        force: bool,
    },
    PutKey,
    EraseByRequest,
    Remove,
    Register,
    Ask(Verb),
    Maintenance(bool),
    Forget,
    /// The ramdisk calls.
    Called,
    /// The task the node waits for has ended.
    TaskEnded,
    /// A worker takes the node; `late`: after every deadline.
    Take {
        late: bool,
    },
    /// The worker writes how the step went.
    Write(Went),
    /// The worker runs the step that erases the disk keys.
    EraseStep,
    LetGo,
    /// The worker's lease ends.
    LoseLease,
}

/// How a step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Went {
    /// None was run.
    NoStep,
    /// None was run, and the deadline has passed.
    NoStepTooLate,
    Well,
    /// Done, but after the deadline.
    WellTooLate,
    /// Done, and the server stops.
    WellAndStopping,
    WaitsForCall,
    WaitsForTask,
    Holds,
    Badly,
}

const fn spec(interface: Interface, name: &'static str, place: Place, priority: u32) -> StepSpec {
    StepSpec {
        interface,
        name,
        place,
        flows: &[Flow::Clean, Flow::Service],
        priority,
        abortable: false,
        idempotent: false,
        disturbs: &[],
        args: &[],
        text: "for tests",
    }
}

/// A step through the BMC that must not be run twice, and one of the ramdisk that may.
const OFFERED: Offered<'static> = Offered {
    out_of_band: &[StepSpec { abortable: true, ..spec(Interface::Raid, "erase", Place::OutOfBand, 50) }],
    ramdisk: &[StepSpec { idempotent: true, ..spec(Interface::Deploy, "wipe", Place::InBand, 99) }],
    inspects_in_band: false,
    driver: None,
};

const WORKER: &str = "worker";

impl Action {
    /// Whether only the worker that holds the lock does it.
    pub fn holds_lock(self) -> bool {
        matches!(self, Action::Write(_) | Action::EraseStep | Action::LetGo)
    }

    /// What the worker does after this was committed.
    pub fn hand_after(self, before: &World, after: &Seen, first: Option<Hand>) -> Hand {
        match self {
            _ if !after.locked => Hand::Nobody,
            Action::Take { .. } => first.unwrap_or(Hand::Record),
            Action::Write(_) => Hand::Run,
            Action::EraseStep if after.machine == Some(HealthState::Retired) => Hand::Erased,
            _ => before.hand,
        }
    }
}

/// A call that was run up to its commit.
pub struct Ran {
    pub noted: Noted,
    /// What a worker that took the node does first.
    pub first: Option<Hand>,
}

/// Everybody who may do something.
pub struct Clients {
    pub broken: Broken,
    options: Options,
    held: Held,
}

impl Clients {
    /// Everybody, and a content with the machine registered.
    pub fn new(broken: Broken) -> (Clients, World) {
        let empty = Arc::new(World::empty());
        let desk = Desk::new(&empty, false, Action::Register, Broken::Nothing);
        register(&desk);
        let txn = desk.noted().txn.expect("registered");
        let start = Arc::new(World { stored: empty.commit(&txn).stored, hand: Hand::Nobody });
        // Only taking a node gives the proof that one holds it; every worker's looks the same here.
        let desk = Desk::new(&start, false, Action::Take { late: false }, Broken::Nothing);
        let anything = |facts: &Facts| Some((Changed::new(&facts.node), ()));
        let taken = desk.result_of(nodes::take(&desk, &names(), LEASE, WORKER, &serial(), NOW, anything));
        let (held, ..) = taken.expect("it ends").unwrap().expect("nobody holds it");
        (Clients { broken, options: Options::default(), held }, World::clone(&start))
    }

    /// Runs a call up to its commit. `holder`: it is made by the worker that holds the lock.
    pub fn run(&self, world: &Arc<World>, action: Action, holder: bool) -> Ran {
        let desk = Desk::new(world, holder, action, self.broken);
        let first = self.call(&desk, action);
        Ran { noted: desk.noted(), first }
    }

    fn call(&self, desk: &Desk, action: Action) -> Option<Hand> {
        let (keys, by, name) = (names(), by(), serial());
        match action {
            Action::SetState { to, force } => {
                let force = if force { Force::Yes } else { Force::No };
                desk.run(machines::set_state(desk, &keys, &by, &name, to, force));
            }
            Action::PutKey => {
                let disk = DiskPath::new("d0").unwrap();
                desk.run(crypts::put(desk, &keys, &by, &name, &disk, &Bytes::from_static(b"key")));
            }
            Action::EraseByRequest => {
                desk.run(crypts::erase(desk, &keys, &by, &name, |_| String::new()));
            }
            Action::Remove => desk.run(machines::remove(desk, &keys, &by, &name)),
            Action::Register => register(desk),
            Action::Ask(verb) => self.ask(desk, verb),
            Action::Maintenance(on) => {
                let decide = |facts: &Facts| -> Result<Option<(Changed, String)>, Refused> {
                    check_unlocked(facts)?;
                    let mut changed = Changed::new(&facts.node);
                    changed.node.maintenance = on.then_some(Maintenance { reason: None, fault: None });
                    Ok((changed.node != facts.node).then_some((changed, String::new())))
                };
                desk.run(nodes::ask(desk, &keys, &by, &name, "maintenance", decide));
            }
            Action::Forget => {
                let decide = |facts: &Facts| -> Result<(), Refused> {
                    check_unlocked(facts)?;
                    edit::check_removal(&facts.node, machine_of(facts)).map_err(|_| Refused)
                };
                desk.run(nodes::remove(desk, &keys, &by, &name, decide));
            }
            Action::Called => {
                let decide = |facts: &Facts| engine::heartbeat(&facts.node, "http://ramdisk", NOW);
                desk.run(nodes::notice(desk, &keys, &name, decide));
            }
            Action::TaskEnded => {
                let decide = |facts: &Facts| engine::task_ended(&facts.node, "task");
                desk.run(nodes::notice(desk, &keys, &name, decide));
            }
            Action::Take { late } => return self.take(desk, late),
            Action::Write(went) => self.write(desk, went),
            Action::EraseStep => {
                desk.run(nodes::erase_keys(desk, &keys, &self.held, &by, |_| String::new()));
            }
            Action::LetGo => desk.run(nodes::let_go(desk, &keys, LEASE, &name)),
            Action::LoseLease => unreachable!("nobody calls anything"),
        }
        None
    }

    fn ask(&self, desk: &Desk, verb: Verb) {
        let wanted =
            |interface, name: &str| StepRequest { interface, name: name.to_owned(), args: Args::new(), priority: None };
        let hold = wanted(Interface::Deploy, builtin::HOLD.name);
        let steps = match verb {
            Verb::Clean => vec![wanted(Interface::Raid, "erase"), hold],
            Verb::Service => vec![wanted(Interface::Deploy, "wipe"), hold],
            _ => vec![],
        };
        let (operation, by_name) = ("new".to_owned(), "somebody".to_owned());
        let request = Request { verb, steps, disable_ramdisk: false, operation, by: by_name, at: NOW };
        let decide = |facts: &Facts| -> Result<Option<(Changed, String)>, Refused> {
            check_unlocked(facts)?;
            let changed = accept::accept(&facts.node, &request, machine_of(facts), true, OFFERED, &self.options);
            let mut changed = changed.map_err(|_| Refused)?;
            self.broken.accepts(verb, &mut changed);
            Ok(Some((changed, String::new())))
        };
        desk.run(nodes::ask(desk, &names(), &by(), &serial(), verb.as_str(), decide));
    }

    fn take(&self, desk: &Desk, is_late: bool) -> Option<Hand> {
        let now = if is_late { late() } else { NOW };
        let decide = |facts: &Facts| turn::first(&self.broken.finds(&facts.node), WORKER, now);
        let taken = desk.result_of(nodes::take(desk, &names(), LEASE, WORKER, &serial(), now, decide))?;
        taken.unwrap().map(|(_, _, first)| match first {
            First::Run => Hand::Run,
            First::Record => Hand::Record,
        })
    }

    fn write(&self, desk: &Desk, went: Went) {
        let now = if matches!(went, Went::WellTooLate | Went::NoStepTooLate) { late() } else { NOW };
        let stopping = went == Went::WellAndStopping;
        let decide = |facts: &Facts| {
            let world = engine::World {
                machine: machine_of(facts),
                has_keys: facts.has_keys && self.broken != Broken::ArrivesWithKeys,
                offered: OFFERED,
                options: &self.options,
            };
            let mut node = facts.node.clone();
            node.retire_declared &= self.broken != Broken::ArrivesDeclared;
            let mut changed = turn::advance(&node, outcome(went), world, WORKER, now, stopping);
            self.broken.writes(&facts.node, &mut changed);
            let grip = if turn::goes_on(&changed.node) { Grip::Keep } else { Grip::Release };
            (changed, self.broken.grip(grip))
        };
        desk.run(nodes::write(desk, &names(), &self.held, &by(), None, decide));
    }
}

fn register(desk: &Desk) {
    let new = new_machine(&serial());
    desk.run(machines::register(desk, &names(), &by(), &[new], OutsidePool::Refuse, |_| None));
}

fn outcome(went: Went) -> Option<Outcome> {
    let text = || "the step says so".to_owned();
    Some(match went {
        Went::NoStep | Went::NoStepTooLate => return None,
        Went::Well | Went::WellTooLate | Went::WellAndStopping => Outcome::Done(Learned::default()),
        Went::WaitsForCall => Outcome::Wait(WaitOn::Heartbeat { called: false }, text()),
        Went::WaitsForTask => Outcome::Wait(WaitOn::Task { id: "task".to_owned(), ended: false }, text()),
        Went::Holds => Outcome::Wait(WaitOn::Hold, text()),
        Went::Badly => Outcome::Failed(text()),
    })
}

/// How the step that is recorded as begun may go.
pub fn ways(node: &Node) -> Vec<Went> {
    let Some(step) = node.current_step() else { return vec![Went::NoStep] };
    let resumed = matches!(node.operation.as_ref().map(|op| &op.phase), Some(Phase::Resumed { .. }));
    let boots = builtin::is(step, builtin::BOOT_RAMDISK) || builtin::is(step, builtin::DEPLOY);
    let done = [Went::Well, Went::WellTooLate, Went::WellAndStopping, Went::Badly];
    match step {
        _ if boots && !resumed => vec![Went::WaitsForCall, Went::Badly],
        step if builtin::is(step, builtin::HOLD) && !resumed => vec![Went::Holds],
        Step { place: Place::InBand, .. } if !resumed => vec![Went::WaitsForTask, Went::Badly],
        Step { place: Place::InBand | Place::OutOfBand, .. } => [Went::WaitsForTask].into_iter().chain(done).collect(),
        _ => done.to_vec(),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("refused")]
struct Refused;

fn check_unlocked(facts: &Facts) -> Result<(), Refused> {
    if facts.lock.is_some() { Err(Refused) } else { Ok(()) }
}

fn machine_of(facts: &Facts) -> Option<HealthState> {
    facts.machine.as_ref().map(|machine| machine.status.state)
}
