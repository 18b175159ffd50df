//! Breadth first through everything two clients can do, with every claim checked at every step.
//!
//! A state is what the store holds and how far each client has come with its request. An idle client may begin any request; one
//! under way may make its next operation on the store, or die. That is all of it:
//!
//! - A client that began and has read nothing is as good as idle, so beginning and the first read are one step.
//! - A call that lost its race starts over with nothing in mind but how often it tried. So it becomes idle: beginning the same
//!   request again is its next attempt, anything else is giving up.
//! - Dying after the commit and before the answer leaves what the commit left: an idle client.
//!
//! No program is given to the clients and none of them ever ends, so what is explored holds for requests in any number and order.

use std::{
    collections::{HashMap, HashSet},
    fmt::{self, Write as _},
    hash::{BuildHasherDefault, Hasher},
};

use sabakan_domain::lifecycle::HealthState;

use super::{
    replay::{Asked, Reached, Reply, Request, run},
    world::{Broken, Done, Model, World, alone, commit, disk_keys, machine_key, published_key, read, state},
};

/// What there was to see.
#[derive(Debug)]
pub struct Explored {
    pub states: usize,
    pub steps: u64,
    pub worlds: usize,
    pub commits: usize,
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

/// Explores to the end, or to the first claim that does not hold.
pub fn explore(model: &Model, broken: Broken) -> Result<Explored, Violation> {
    let mut explorer = Explorer::new(*model, broken);
    let start = State { world: explorer.worlds.id(&model.start()), clients: [IDLE; CLIENTS] };
    let (mut seen, mut order, mut next) = (Set::default(), vec![(start, 0)], Vec::new());
    seen.insert(start.packed());
    let (mut steps, mut at) = (0, 0);
    // What was found and not looked at yet is the rest of `order`: breadth first.
    while let Some((state, _)) = order.get(at).copied() {
        let violated = |what: String, explorer: &Explorer| Violation { what, path: explorer.describe_path(&order, at) };
        if let Err(what) = explorer.check_ways_out(state.world) {
            return Err(violated(what, &explorer));
        }
        if let Err(what) = explorer.next_states(state, &mut next) {
            return Err(violated(what, &explorer));
        }
        steps += next.len() as u64;
        for found in next.drain(..) {
            if found != state && seen.insert(found.packed()) {
                order.push((found, at));
            }
        }
        at += 1;
    }
    let commits = explorer.steps.values().filter(|step| step.touched.is_some()).count();
    Ok(Explored { states: order.len(), steps, worlds: explorer.worlds.values.len(), commits })
}

const CLIENTS: usize = 2;

/// A client that does nothing.
const IDLE: u32 = u32::MAX;

/// Everything is a number here; what it stands for is in the tables of the explorer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    world: u32,
    /// Calls under way. Clients are alike, so the order does not matter and is kept sorted.
    clients: [u32; CLIENTS],
}

impl State {
    /// The same in one number, which is quick to look up.
    fn packed(self) -> u64 {
        let [first, second] = self.clients.map(|call| if call == IDLE { CALLS_MAX } else { u64::from(call) });
        (u64::from(self.world) << 48) | (first << 24) | second
    }
}

/// So that two calls and a world fit into 64 bits.
const CALLS_MAX: u64 = (1 << 24) - 1;

/// A request and the answers it got so far.
type Call = (Request, Vec<Reply>);

/// What one operation of a call does.
#[derive(Debug, Clone, Copy)]
struct Step {
    world: u32,
    call: u32,
    /// Which keys have a new revision: a number of the table, if a transaction was committed.
    touched: Option<u32>,
}

struct Explorer {
    model: Model,
    broken: Broken,
    /// Calls that have read nothing, one per request.
    begins: Vec<u32>,
    worlds: Table<World>,
    calls: Table<Call>,
    touches: Table<Vec<String>>,
    steps: Map<Step>,
    aged: Map<u32>,
    left: HashSet<u32>,
}

impl Explorer {
    fn new(model: Model, broken: Broken) -> Explorer {
        let mut calls = Table::default();
        let begins = model.requests().into_iter().map(|request| calls.id(&(request, Vec::new()))).collect();
        Explorer {
            model,
            broken,
            begins,
            worlds: Table::default(),
            calls,
            touches: Table::default(),
            steps: Map::default(),
            aged: Map::default(),
            left: HashSet::new(),
        }
    }

    /// Everything that can happen next.
    fn next_states(&mut self, state: State, next: &mut Vec<State>) -> Result<(), String> {
        for client in 0..CLIENTS {
            let call = state.clients[client];
            // Two idle clients are alike: it is enough that the first begins.
            if call == IDLE && client > 0 && state.clients[client - 1] == IDLE {
                continue;
            }
            if call != IDLE {
                next.push(self.step(state, client, call)?);
                let mut died = state.clients;
                died[client] = IDLE;
                next.push(sorted(State { clients: died, ..state }));
                continue;
            }
            for begin in 0..self.begins.len() {
                next.push(self.step(state, client, self.begins[begin])?);
            }
        }
        Ok(())
    }

    /// A client makes its next operation.
    fn step(&mut self, state: State, client: usize, call: u32) -> Result<State, String> {
        let step = match self.steps.get(&pair(call, state.world)) {
            Some(step) => *step,
            None => {
                let step = self.operate(call, state.world)?;
                self.steps.insert(pair(call, state.world), step);
                step
            }
        };
        let mut clients = state.clients;
        clients[client] = step.call;
        if let Some(touched) = step.touched {
            clients = clients.map(|call| self.age(call, touched));
        }
        Ok(sorted(State { world: step.world, clients }))
    }

    /// Runs one operation of a call and checks what it did. Depends on the call and the store alone.
    fn operate(&mut self, id: u32, world_id: u32) -> Result<Step, String> {
        let (request, mut replies) = self.calls.values[id as usize].clone();
        let world = self.worlds.values[world_id as usize].clone();
        let Reached::Asks(asked) = run(request, &replies) else { panic!("calls that ended are not kept") };
        let mut step = Step { world: world_id, call: IDLE, touched: None };
        let mut did = None;
        let mut reply = match asked {
            Asked::Commit(mut txn) => {
                self.broken.send(request, &mut txn);
                let done = commit(&world, &txn);
                let committed = done.is_some();
                if let Some(done) = done {
                    self.check_commit(request, &world, &done)?;
                    step.world = self.worlds.id(&done.world);
                    step.touched = Some(self.touches.id(&done.touched));
                    did = Some(done);
                }
                Reply::Outcome { committed }
            }
            asked => read(&world, &asked),
        };
        self.broken.show(request, &mut reply);
        if reply == (Reply::Outcome { committed: false }) && request != Request::Reseal {
            return Ok(step);
        }
        replies.push(reply);
        match run(request, &replies) {
            Reached::Ends { acknowledged } => check_end(request, acknowledged, did.as_ref(), &replies)?,
            Reached::Asks(_) => step.call = self.calls.id(&(request, replies)),
        }
        Ok(step)
    }

    /// What a call read is no longer fresh when somebody wrote it.
    fn age(&mut self, call: u32, touched: u32) -> u32 {
        if call == IDLE {
            return IDLE;
        }
        if let Some(aged) = self.aged.get(&pair(call, touched)) {
            return *aged;
        }
        let keys = &self.touches.values[touched as usize];
        let (request, mut replies) = self.calls.values[call as usize].clone();
        for reply in &mut replies {
            let items: Box<dyn Iterator<Item = _>> = match reply {
                Reply::Values(values) => Box::new(values.iter_mut().flatten()),
                Reply::Items { items, .. } => Box::new(items.iter_mut()),
                Reply::Outcome { .. } => Box::new(std::iter::empty()),
            };
            for item in items {
                item.fresh = item.fresh && !keys.contains(&item.key);
            }
        }
        let aged = self.calls.id(&(request, replies));
        self.aged.insert(pair(call, touched), aged);
        aged
    }

    /// Checks what a transaction did.
    fn check_commit(&self, request: Request, before: &World, done: &Done) -> Result<(), String> {
        let after = &done.world;
        for machine in 0..self.model.machines {
            let (was, is) = (state(before, machine), state(after, machine));
            let (had, has) = (disk_keys(before, machine), disk_keys(after, machine));
            let added = has.iter().any(|key| !had.contains(key));
            let called = |state: Option<HealthState>| state.map_or("not registered", HealthState::as_str);
            if added && matches!(is, None | Some(HealthState::Retiring | HealthState::Retired)) {
                return Err(format!("G1: {request:?}: a key was added to m{machine}, which is {}", called(is)));
            }
            if !has.is_empty() && matches!(is, None | Some(HealthState::Retired)) {
                return Err(format!("G1: {request:?}: m{machine} is {} and has a key", called(is)));
            }
            if was.is_some() && is.is_none() && was != Some(HealthState::Retired) {
                return Err(format!("G1: {request:?}: m{machine} was removed while it was {}", called(was)));
            }
            if after.get(&machine_key(machine)) != after.get(&published_key(machine)) {
                return Err(format!("{request:?}: the published m{machine} is another than the stored"));
            }
        }
        // Sealing anew is no change of what is stored for whom: the program that does all of it says so once.
        let audited = usize::from(done.writes && request != Request::Reseal);
        if done.audited != audited {
            return Err(format!("G9: {request:?}: {} audit entries instead of {audited}", done.audited));
        }
        if alone(before, request, Broken::Nothing).as_ref() != Some(after) {
            return Err(format!("G4: what {request:?} did is not what it does alone at that moment"));
        }
        Ok(())
    }

    /// Every machine can be moved to another state, without force.
    fn check_ways_out(&mut self, world: u32) -> Result<(), String> {
        if !self.left.insert(world) {
            return Ok(());
        }
        let before = &self.worlds.values[world as usize];
        for machine in 0..self.model.machines {
            let is = state(before, machine);
            let leaves = |request: Request| {
                let forced = matches!(request, Request::SetState { force: true, .. });
                let after = (!forced).then(|| alone(before, request, self.broken)).flatten();
                after.and_then(|after| state(&after, machine)).is_some_and(|after| is != Some(after))
            };
            if !self.model.requests().into_iter().any(leaves) {
                return Err(format!("m{machine} cannot be left: {is:?}"));
            }
        }
        Ok(())
    }

    fn describe_path(&self, order: &[(State, usize)], mut at: usize) -> String {
        let mut lines = Vec::new();
        loop {
            let (state, parent) = order[at];
            lines.push(self.describe(state));
            if at == 0 {
                break;
            }
            at = parent;
        }
        lines.reverse();
        lines.join("\n")
    }

    fn describe(&self, state: State) -> String {
        let world = &self.worlds.values[state.world as usize];
        let mut text = String::new();
        for machine in 0..self.model.machines {
            let keys = disk_keys(world, machine).len();
            let _infallible = write!(text, "m{machine}: {:?}, {keys} keys; ", self::state(world, machine));
        }
        for call in state.clients.iter().filter(|call| **call != IDLE) {
            let (request, replies) = &self.calls.values[*call as usize];
            let _infallible = write!(text, "{request:?} after {} answers; ", replies.len());
        }
        text
    }
}

/// An acknowledged change was committed, a refused one was not.
fn check_end(request: Request, acknowledged: bool, did: Option<&Done>, replies: &[Reply]) -> Result<(), String> {
    // It goes through any number of keys, each by itself.
    if request == Request::Reseal {
        return Ok(());
    }
    let commits = replies.iter().filter(|reply| matches!(reply, Reply::Outcome { .. })).count();
    match (acknowledged, did) {
        (true, Some(_)) if commits == 1 => Ok(()),
        (false, None) if commits == 0 => Ok(()),
        (true, _) => Err(format!("G4: {request:?} was acknowledged and not done")),
        (false, _) => Err(format!("G4: {request:?} was refused and committed something")),
    }
}

fn sorted(state: State) -> State {
    let [first, second] = state.clients;
    State { clients: if first > second { [second, first] } else { [first, second] }, ..state }
}

fn pair(first: u32, second: u32) -> u64 {
    (u64::from(first) << 32) | u64::from(second)
}

type Set = HashSet<u64, BuildHasherDefault<Mixed>>;
type Map<T> = HashMap<u64, T, BuildHasherDefault<Mixed>>;

/// A hash of one number that costs next to nothing; nobody chooses these numbers to make them collide.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed");
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Numbers for values.
struct Table<T> {
    values: Vec<T>,
    ids: HashMap<T, u32>,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { values: Vec::new(), ids: HashMap::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Table<T> {
    fn id(&mut self, value: &T) -> u32 {
        if let Some(id) = self.ids.get(value) {
            return *id;
        }
        let id = u32::try_from(self.values.len()).expect("few values");
        assert!(u64::from(id) < CALLS_MAX, "too many to be told apart");
        self.values.push(value.clone());
        self.ids.insert(value.clone(), id);
        id
    }
}
