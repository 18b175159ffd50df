//! What the store of the model holds, how it answers, and what may be broken on purpose.

use std::collections::BTreeMap;

use bytes::Bytes;
use sabakan_domain::lifecycle::HealthState;
use sabakan_store::{Compare, Op, Range, Revision, Txn};

use super::replay::{Asked, FRESH, Item, Reached, Reply, Request, run, serial};
use crate::model::{PREFIX, PUBLISHED, empty};

/// Everything stored but the audit log.
pub type World = BTreeMap<String, Bytes>;

/// How many machines and disks there are.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    pub machines: usize,
    disks: usize,
    /// States that are asked for with force.
    forced: &'static [HealthState],
}

/// A deliberate defect: a rule that is shown a wrong fact, a compare or a write that is missing, an answer that lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    PutComparesNoMachine,
    PutIgnoresState,
    RetiredIgnoresKeys,
    RetiredComparesNothing,
    StateComparesNoMachine,
    EraseIgnoresState,
    EraseLeavesKeys,
    EraseLeavesState,
    RemoveIgnoresState,
    RemoveComparesNoMachine,
    ResealComparesNothing,
    AcknowledgesConflicts,
    WritesNoAudit,
    PublishesNothing,
    RetiredForEver,
}

/// What a committed transaction did.
#[derive(Debug)]
pub struct Done {
    pub world: World,
    /// Keys that have a new revision or are gone.
    pub touched: Vec<String>,
    pub audited: usize,
    /// Whether it wrote anything.
    pub writes: bool,
}

impl Model {
    /// One machine, and everything that can be asked of it.
    pub fn one(disks: usize) -> Model {
        Model { machines: 1, disks, forced: &HealthState::ALL }
    }

    /// Two machines of one rack. With force to one state only: force is the same for all it reaches, one machine shows that, and
    /// with all of them this takes minutes.
    pub fn two() -> Model {
        Model { machines: 2, disks: 1, forced: &[HealthState::Healthy] }
    }

    /// Every request a client may make.
    pub fn requests(&self) -> Vec<Request> {
        let mut requests = vec![Request::Reseal];
        for machine in 0..self.machines {
            let set_state = |force| move |to| Request::SetState { machine, to, force };
            requests.extend(HealthState::ALL.map(set_state(false)));
            requests.extend(self.forced.iter().copied().map(set_state(true)));
            requests.extend((0..self.disks).map(|disk| Request::PutKey { machine, disk }));
            requests.extend([Request::Erase { machine }, Request::Remove { machine }, Request::Register { machine }]);
        }
        requests
    }

    /// All machines registered, by the product.
    pub fn start(&self) -> World {
        let mut world = empty();
        for machine in 0..self.machines {
            world = alone(&world, Request::Register { machine }, Broken::Nothing).expect("registered");
        }
        world
    }
}

/// What a request does when nobody else does anything; `None` when it is refused.
pub fn alone(world: &World, request: Request, broken: Broken) -> Option<World> {
    let (mut world, mut replies) = (world.clone(), Vec::new());
    loop {
        match run(request, &replies) {
            Reached::Ends { acknowledged } => return acknowledged.then_some(world),
            Reached::Asks(Asked::Commit(mut txn)) => {
                broken.send(request, &mut txn);
                world = commit(&world, &txn).expect("nobody else is there").world;
                replies.push(Reply::Outcome { committed: true });
            }
            Reached::Asks(asked) => {
                let mut reply = read(&world, &asked);
                broken.show(request, &mut reply);
                replies.push(reply);
            }
        }
    }
}

/// Answers a read.
pub fn read(world: &World, asked: &Asked) -> Reply {
    let item = |(key, value): (&String, &Bytes)| Item { key: key.clone(), value: value.clone(), fresh: true };
    match asked {
        Asked::Get(keys) => Reply::Values(keys.iter().map(|key| world.get_key_value(key).map(item)).collect()),
        Asked::List(Range { prefix, after: None, at: None, limit }) => {
            let found: Vec<Item> = world.iter().filter(|(key, _)| key.starts_with(prefix.as_str())).map(item).collect();
            let more = found.len() > *limit;
            Reply::Items { items: found.into_iter().take(*limit).collect(), more }
        }
        Asked::List(range) => panic!("the model has no second pages: {range:?}"),
        Asked::Commit(_) => panic!("a commit is no read"),
    }
}

/// Commits a transaction; `None`: a compare does not hold.
pub fn commit(world: &World, txn: &Txn) -> Option<Done> {
    let audit = format!("{PREFIX}audit/");
    let holds = |compare: &Compare| match compare {
        Compare::ModRevision(key, Revision::NONE) | Compare::Missing(key) => !world.contains_key(key),
        // What was read and not written since is at its present revision; what was written since is not, and never will be.
        Compare::ModRevision(key, revision) => *revision == FRESH && world.contains_key(key),
        Compare::Exists(key) => world.contains_key(key),
        Compare::NoneWithPrefix(prefix) => !world.keys().any(|key| key.starts_with(prefix.as_str())),
    };
    if !txn.when.iter().all(holds) {
        return None;
    }
    let mut done = Done { world: world.clone(), touched: Vec::new(), audited: 0, writes: !txn.then.is_empty() };
    for op in &txn.then {
        match op {
            Op::Put { key, .. } if key.starts_with(&audit) => done.audited += 1,
            Op::Put { key, value, .. } => {
                done.world.insert(key.clone(), value.clone());
                done.touched.push(key.clone());
            }
            Op::Delete(key) => done.touched.extend(done.world.remove(key).map(|_| key.clone())),
            Op::DeletePrefix(prefix) => {
                let gone = world.keys().filter(|key| key.starts_with(prefix.as_str())).cloned();
                done.touched.extend(gone);
                done.world.retain(|key, _| !key.starts_with(prefix.as_str()));
            }
        }
    }
    Some(done)
}

/// The state of a machine, if it is registered.
pub fn state(world: &World, machine: usize) -> Option<HealthState> {
    let value = world.get(&machine_key(machine))?;
    let json: serde_json::Value = serde_json::from_slice(value).unwrap();
    Some(json["status"]["state"].as_str().unwrap().parse().unwrap())
}

/// The keys of a machine.
pub fn disk_keys(world: &World, machine: usize) -> Vec<&String> {
    let prefix = format!("{PREFIX}crypts/{}/", serial(machine));
    world.keys().filter(|key| key.starts_with(&prefix)).collect()
}

pub fn machine_key(machine: usize) -> String {
    format!("{PREFIX}machines/{}", serial(machine))
}

pub fn published_key(machine: usize) -> String {
    format!("{PUBLISHED}{}", serial(machine))
}

impl Broken {
    /// Changes what a request gets to see: a rule that believes it is as good as one that does not look.
    pub fn show(self, request: Request, reply: &mut Reply) {
        use Request::{Erase, PutKey, Remove, SetState};
        let pretend = match (self, request) {
            (Broken::PutIgnoresState, PutKey { .. }) => HealthState::Healthy,
            (Broken::EraseIgnoresState, Erase { .. }) => HealthState::Retiring,
            (Broken::RemoveIgnoresState, Remove { .. }) => HealthState::Retired,
            // No arrow leads from retiring to where a retired machine may go.
            (Broken::RetiredForEver, SetState { .. }) => HealthState::Retiring,
            (Broken::RetiredIgnoresKeys, SetState { .. }) => {
                if let Reply::Items { items, .. } = reply {
                    items.clear();
                }
                return;
            }
            (Broken::AcknowledgesConflicts, SetState { .. } | PutKey { .. }) => {
                if let Reply::Outcome { committed } = reply {
                    *committed = true;
                }
                return;
            }
            _ => return,
        };
        let Reply::Values(values) = reply else { return };
        for item in values.iter_mut().flatten().filter(|item| item.key.contains("/machines/")) {
            let mut json: serde_json::Value = serde_json::from_slice(&item.value).unwrap();
            if self == Broken::RetiredForEver && json["status"]["state"] != HealthState::Retired.as_str() {
                continue;
            }
            json["status"]["state"] = pretend.as_str().into();
            item.value = serde_json::to_vec(&json).unwrap().into();
        }
    }

    /// Changes what a request commits.
    pub fn send(self, request: Request, txn: &mut Txn) {
        use Request::{Erase, PutKey, Remove, Reseal, SetState};
        let names_machine =
            |compare: &Compare| matches!(compare, Compare::ModRevision(key, _) if key.contains("/machines/"));
        match (self, request) {
            (Broken::PutComparesNoMachine, PutKey { .. })
            | (Broken::StateComparesNoMachine, SetState { .. })
            | (Broken::RemoveComparesNoMachine, Remove { .. }) => txn.when.retain(|compare| !names_machine(compare)),
            (Broken::RetiredIgnoresKeys, SetState { .. }) => {
                txn.when.retain(|compare| !matches!(compare, Compare::NoneWithPrefix(_)));
            }
            (Broken::RetiredComparesNothing, SetState { to: HealthState::Retired, .. })
            | (Broken::ResealComparesNothing, Reseal) => txn.when.clear(),
            (Broken::EraseLeavesKeys, Erase { .. }) => txn.then.retain(|op| !matches!(op, Op::DeletePrefix(_))),
            (Broken::EraseLeavesState, Erase { .. }) => {
                txn.then.retain(|op| !puts(op, "/machines/") && !puts(op, PUBLISHED));
            }
            (Broken::WritesNoAudit, PutKey { .. }) => txn.then.retain(|op| !puts(op, "/audit/")),
            (Broken::PublishesNothing, SetState { .. }) => txn.then.retain(|op| !puts(op, PUBLISHED)),
            _ => {}
        }
    }
}

fn puts(op: &Op, part: &str) -> bool {
    matches!(op, Op::Put { key, .. } if key.contains(part))
}
