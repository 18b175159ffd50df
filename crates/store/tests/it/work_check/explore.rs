//! Breadth first through everything that can happen, with every claim checked at every change.
//!
//! A call reads, decides, and commits what it decided if nothing it compares was written meanwhile. So there are three cases, and
//! only the third needs a call under way in the state:
//!
//! - Nothing it read was written meanwhile: it is as if the call were made at the moment of its commit.
//! - Something it compares was written: it commits nothing, and starts over or gives up.
//! - Something it read was written that it does not compare: its commit, at any later moment, has to do what the call does alone at
//!   that moment. In the product there is no such call, and no such state; with a compare taken away there is.
//!
//! The same for workers. One that lost its lease holds a proof that is never again that of the lock. It is in no state either: in
//! every content of the store everything it could still try is tried, and must change nothing. So the worker in the state is the one
//! that holds the lock, and one that crashed is one whose lease ends.

mod progress;

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fmt::{self, Write as _},
    sync::Arc,
};

use sabakan_domain::{
    lifecycle::{self, Force, HealthState},
    provision::{builtin, edges::accepted, node::WaitOn, states::State as NodeState, verbs::Verb},
};
use sabakan_store::Txn;

use super::{
    broken::Broken,
    claims::{Change, at_rest, check_seen, current},
    clients::{Action, Clients, Went, ways},
    world::{Hand, Keys, Seen, World},
};

/// How much is explored.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// Lifecycle states that are asked for.
    pub states: &'static [HealthState],
    /// Those asked for with force.
    pub forced: &'static [HealthState],
    /// Verbs that were asked for and have gone well before anything else happens.
    pub begin: &'static [Verb],
    /// Verbs that are asked for.
    pub verbs: &'static [Verb],
    /// Whether operators set maintenance.
    pub maintenance: bool,
    /// More states than this, and the search fails rather than stops.
    pub states_max: usize,
}

/// What there was to see.
#[derive(Debug, Default)]
pub struct Explored {
    pub states: usize,
    pub steps: u64,
    pub calls: u64,
    /// Pairs of provision and lifecycle state.
    pub pairs: HashSet<(NodeState, Option<HealthState>)>,
}

/// A claim that does not hold, and the shortest way there.
#[derive(Debug)]
pub struct Violation {
    pub what: String,
    pub path: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.what, self.path)
    }
}

/// A content of the store, and a call whose reads are outdated in a way it does not compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    world: usize,
    overtaken: Option<usize>,
}

struct Overtaken {
    action: Action,
    txn: Txn,
}

/// A call at a content, run to its commit.
struct Ready {
    action: Action,
    reads: Keys,
    txn: Txn,
}

#[derive(Debug, Clone, Copy)]
struct Step {
    action: Action,
    world: usize,
    touched: Keys,
}

/// Everything that can happen at a content.
struct Looked {
    steps: Vec<Step>,
    /// Calls that what writes these keys overtakes without their noticing.
    overtakes: Vec<(Keys, usize)>,
}

struct Explorer {
    bound: Bound,
    clients: Clients,
    worlds: Vec<(Arc<World>, Seen)>,
    ids: HashMap<Arc<World>, usize>,
    overtaken: Vec<Overtaken>,
    overtaken_ids: HashMap<(usize, Action), usize>,
    /// By content; found once.
    looked: HashMap<usize, Looked>,
    /// Contents from which work comes to rest, whoever answers or not.
    settles: [HashSet<usize>; 2],
    explored: Explored,
}

/// Explores to the end, or to the first claim that does not hold.
pub fn explore(bound: Bound, broken: Broken) -> Result<Explored, Violation> {
    let (mut explorer, start) = Explorer::new(bound, broken);
    let start = State { world: start, overtaken: None };
    let (mut seen, mut order, mut at) = (HashSet::from([start]), vec![(start, 0, Action::Register)], 0);
    while let Some((state, ..)) = order.get(at).copied() {
        let next = match explorer.next_states(state) {
            Ok(next) => next,
            Err(what) => return Err(Violation { what, path: explorer.describe_path(&order, at) }),
        };
        explorer.explored.steps += next.len() as u64;
        order.extend(next.into_iter().filter(|(found, _)| seen.insert(*found)).map(|(found, on)| (found, at, on)));
        assert!(
            order.len() <= bound.states_max,
            "more than {} states: the search would be cut short",
            bound.states_max
        );
        at += 1;
    }
    explorer.explored.states = order.len();
    explorer.explored.pairs = explorer.worlds.iter().map(|(_, seen)| (seen.node.state, seen.machine)).collect();
    Ok(explorer.explored)
}

impl Explorer {
    fn new(bound: Bound, broken: Broken) -> (Explorer, usize) {
        let (clients, start) = Clients::new(broken);
        let mut explorer = Explorer {
            bound,
            clients,
            worlds: Vec::new(),
            ids: HashMap::new(),
            overtaken: Vec::new(),
            overtaken_ids: HashMap::new(),
            looked: HashMap::new(),
            settles: [HashSet::new(), HashSet::new()],
            explored: Explored::default(),
        };
        let seen = start.see();
        let mut at = explorer.id(start, seen);
        for verb in bound.begin {
            at = explorer.ask_and_settle(at, *verb);
        }
        (explorer, at)
    }

    /// Asks for a verb and lets all go well.
    fn ask_and_settle(&mut self, at: usize, verb: Verb) -> usize {
        let world = Arc::clone(&self.worlds[at].0);
        let txn = self.clients.run(&world, Action::Ask(verb), false).noted.txn.expect("accepted");
        let mut at = self.commit(at, Action::Ask(verb), &txn, None).expect("as it should be").world;
        while !at_rest(&self.worlds[at].1) {
            at = self.go_on(at, true).expect("as it should be").expect("not stuck");
        }
        at
    }

    fn id(&mut self, world: World, seen: Seen) -> usize {
        match self.ids.entry(Arc::new(world)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                self.worlds.push((Arc::clone(new.key()), seen));
                *new.insert(self.worlds.len() - 1)
            }
        }
    }

    fn next_states(&mut self, state: State) -> Result<Vec<(State, Action)>, String> {
        if !self.looked.contains_key(&state.world) {
            let found = self.look(state.world)?;
            self.looked.insert(state.world, found);
        }
        let Looked { steps, overtakes } = &self.looked[&state.world];
        let Some(overtaken) = state.overtaken else {
            let mut next: Vec<(State, Action)> =
                steps.iter().map(|step| (State { world: step.world, overtaken: None }, step.action)).collect();
            for step in steps {
                let made = overtakes.iter().filter(|(touched, _)| *touched == step.touched);
                next.extend(made.map(|(_, id)| (State { world: step.world, overtaken: Some(*id) }, step.action)));
            }
            return Ok(next);
        };
        let compared = Keys::compared(&self.overtaken[overtaken].txn);
        let goes_on = steps.iter().filter(|step| !(step.touched & compared).any());
        let mut next: Vec<(State, Action)> =
            goes_on.map(|step| (State { world: step.world, ..state }, step.action)).collect();
        let (action, world) = self.commit_late(state.world, overtaken)?;
        next.push((State { world, overtaken: None }, action));
        Ok(next)
    }

    /// Everything that can happen at a content, and the calls that what happens there overtakes without their noticing.
    fn look(&mut self, at: usize) -> Result<Looked, String> {
        let (world, seen) = self.worlds[at].clone();
        check_seen(&seen)?;
        self.check_lost_worker(&world)?;
        self.check_ways_out(at)?;
        let (mut steps, mut ready) = (Vec::new(), Vec::new());
        for action in self.actions(&world, &seen) {
            if action == Action::LoseLease {
                let next = self.lose_lease(at);
                steps.push(Step { action, world: next, touched: Keys::LOCK });
                continue;
            }
            self.explored.calls += 1;
            let ran = self.clients.run(&world, action, action.holds_lock());
            let Some(txn) = ran.noted.txn else {
                // There was nothing to erase.
                if action == Action::EraseStep {
                    self.write_erased(at, &mut steps, &mut ready)?;
                }
                continue;
            };
            let step = self.commit(at, action, &txn, ran.first)?;
            steps.push(step);
            ready.push(Ready { action, reads: ran.noted.reads, txn });
        }
        let overtakes = self.overtaken_by(at, &steps, ready);
        Ok(Looked { steps, overtakes })
    }

    fn write_erased(&mut self, at: usize, steps: &mut Vec<Step>, ready: &mut Vec<Ready>) -> Result<(), String> {
        let (action, world) = (Action::Write(Went::Well), self.worlds[at].0.clone());
        let ran = self.clients.run(&world, action, true);
        if let Some(txn) = ran.noted.txn {
            steps.push(self.commit(at, action, &txn, None)?);
            ready.push(Ready { action, reads: ran.noted.reads, txn });
        }
        Ok(())
    }

    fn lose_lease(&mut self, at: usize) -> usize {
        let (world, seen) = &self.worlds[at];
        let (world, seen) = (world.without_lease(), Seen { locked: false, ..seen.clone() });
        self.id(world, seen)
    }

    /// Commits a call and checks what it did.
    fn commit(&mut self, at: usize, action: Action, txn: &Txn, first: Option<Hand>) -> Result<Step, String> {
        let (world, before) = self.worlds[at].clone();
        let mut done = world.commit(txn);
        let mut next = World { stored: std::mem::take(&mut done.stored), hand: world.hand };
        let after = next.see_after(&before, &done);
        next.hand = action.hand_after(&world, &after, first);
        let change = Change { action, before: &before, after: &after, done: &done };
        change.check(&next).map_err(|what| format!("{action:?}: {what}"))?;
        let touched = done.touched;
        Ok(Step { action, world: self.id(next, after), touched })
    }

    fn overtaken_by(&mut self, at: usize, steps: &[Step], ready: Vec<Ready>) -> Vec<(Keys, usize)> {
        let mut overtakes = Vec::new();
        let touched: HashSet<Keys> = steps.iter().map(|step| step.touched).collect();
        for Ready { action, reads, txn } in ready {
            let compared = Keys::compared(&txn);
            let unnoticed = |keys: &&Keys| !(**keys & compared).any() && (**keys & reads).any();
            let by: Vec<Keys> = touched.iter().filter(unnoticed).copied().collect();
            if by.is_empty() {
                continue;
            }
            let id = *self.overtaken_ids.entry((at, action)).or_insert(self.overtaken.len());
            if id == self.overtaken.len() {
                self.overtaken.push(Overtaken { action, txn });
            }
            overtakes.extend(by.into_iter().map(|keys| (keys, id)));
        }
        overtakes
    }

    /// A call commits what it decided from reads that are outdated.
    fn commit_late(&mut self, at: usize, overtaken: usize) -> Result<(Action, usize), String> {
        let Overtaken { action, txn } = &self.overtaken[overtaken];
        let (action, txn) = (*action, txn.clone());
        let first = matches!(action, Action::Take { .. }).then_some(Hand::Run);
        let late = self.commit(at, action, &txn, first)?;
        let world = self.worlds[at].0.clone();
        let holder = action.holds_lock() && world.hand != Hand::Nobody;
        let alone = self.clients.run(&world, action, holder).noted.txn.map(|txn| world.commit(&txn).stored);
        if alone.as_ref() != Some(&self.worlds[late.world].0.stored) {
            return Err(format!("G4: what {action:?} did is not what it does alone at that moment"));
        }
        Ok((action, late.world))
    }

    /// G5: whatever a worker that lost its lease still tries changes nothing, whether the lock is free or another's.
    fn check_lost_worker(&self, world: &Arc<World>) -> Result<(), String> {
        let tries = [Action::Write(Went::Well), Action::EraseStep, Action::LetGo];
        match tries.into_iter().find(|action| self.clients.run(world, *action, false).noted.txn.is_some()) {
            Some(action) => Err(format!("G5: a worker that lost its lease did {action:?}")),
            None => Ok(()),
        }
    }

    fn actions(&self, world: &World, seen: &Seen) -> Vec<Action> {
        let Bound { states, forced, verbs, maintenance, .. } = self.bound;
        if seen.machine.is_none() {
            return vec![Action::Register];
        }
        // What the lifecycle alone refuses is the subject of `model_check`.
        let machine = seen.machine.unwrap_or(HealthState::Uninitialized);
        let leaving = matches!(machine, HealthState::Retiring | HealthState::Retired);
        let facts = lifecycle::Facts { has_keys: seen.keys };
        let granted = |to: HealthState, force| lifecycle::request(machine, to, facts, force).is_ok();
        let asked = states.iter().filter(|to| granted(**to, Force::No)).map(|to| (*to, false));
        let insisted = forced.iter().filter(|to| granted(**to, Force::Yes)).map(|to| (*to, true));
        let mut all: Vec<Action> = asked.chain(insisted).map(|(to, force)| Action::SetState { to, force }).collect();
        all.extend((!seen.keys).then_some(Action::PutKey));
        all.extend(leaving.then_some([Action::EraseByRequest, Action::Remove]).into_iter().flatten());
        all.push(Action::Forget);
        // Every other pair of state and verb is a refusal, cell by cell, in a test of its own.
        all.extend(accepted(seen.node.state).filter(|verb| verbs.contains(verb)).map(Action::Ask));
        all.extend(seen.node.maintenance.is_some().then_some(Action::Maintenance(false)));
        all.extend(maintenance.then_some(Action::Maintenance(true)));
        if seen.node.operation.as_ref().is_some_and(|operation| operation.ramdisk.is_some()) {
            all.push(Action::Called);
        }
        if seen.node.wait().is_some_and(|wait| matches!(wait.on, WaitOn::Task { .. })) {
            all.push(Action::TaskEnded);
        }
        // Also by a second worker, which must not get it.
        all.push(Action::Take { late: false });
        match world.hand {
            Hand::Nobody => {
                all.extend(seen.node.operation.is_some().then_some(Action::Take { late: true }));
                return all;
            }
            Hand::Record => all.extend([Went::NoStep, Went::NoStepTooLate].map(Action::Write)),
            Hand::Erased => all.extend([Went::Well, Went::WellTooLate, Went::WellAndStopping].map(Action::Write)),
            Hand::Run if current(&seen.node, builtin::ERASE_KEYS) => all.push(Action::EraseStep),
            Hand::Run => all.extend(ways(&seen.node).into_iter().map(Action::Write)),
        }
        all.extend([Action::LetGo, Action::LoseLease]);
        all
    }

    fn describe_path(&self, order: &[(State, usize, Action)], mut at: usize) -> String {
        let mut lines = Vec::new();
        loop {
            let (state, parent, action) = order[at];
            let mut line = format!("{action:?} -> {}", self.describe(state.world));
            if let Some(id) = state.overtaken {
                let _infallible = write!(line, "; {:?} read before and commits later", self.overtaken[id].action);
            }
            lines.push(line);
            if at == 0 {
                break;
            }
            at = parent;
        }
        lines.reverse();
        lines.join("\n")
    }

    fn describe(&self, at: usize) -> String {
        let (world, Seen { machine, keys, node, locked }) = &self.worlds[at];
        let work = node.operation.as_ref().map(|op| (op.work, op.index, &op.phase, op.ramdisk.is_some()));
        format!("{}, {machine:?}, keys {keys}, locked {locked} ({:?}), {work:?}", node.state, world.hand)
    }
}
