//! What the store of the model holds. What only ever grows, or only people read, is checked when it is written and then left out
//! or made equal, so that there are finitely many contents: history, audit log, epochs, moments, texts.

use std::{
    collections::BTreeMap,
    ops::{BitAnd, BitOrAssign},
    rc::Rc,
};

use bytes::Bytes;
use jiff::{SignedDuration, Timestamp};
use sabakan_domain::{
    lifecycle::HealthState,
    provision::node::{HeldReport, Maintenance, Node, NodeId, Phase, Row, Wait, WaitOn},
    words::Serial,
};
use sabakan_store::{
    Compare, Op, Txn,
    records::{LockRecord, NodeRecord, RowRecord},
};

use crate::model::{NOW, PREFIX, PUBLISHED, empty};

/// After every deadline.
pub fn late() -> Timestamp {
    NOW.checked_add(SignedDuration::from_hours(1_000)).unwrap()
}

fn deadline() -> Timestamp {
    NOW.checked_add(SignedDuration::from_hours(1)).unwrap()
}

pub fn serial() -> Serial {
    Serial::new("m0").unwrap()
}

/// Everything stored, and what the worker that holds the lock does with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub stored: BTreeMap<String, Bytes>,
    pub hand: Hand,
}

/// What the worker that holds the lock does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hand {
    /// There is none.
    Nobody,
    /// Run the step that is recorded as begun, and write what came of it.
    Run,
    /// Write what follows from what is recorded.
    Record,
    /// Write that the keys are erased.
    Erased,
}

/// A set of kinds of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Keys(u8);

impl Keys {
    pub const NONE: Keys = Keys(0);
    pub const MACHINE: Keys = Keys(1);
    pub const NODE: Keys = Keys(2);
    pub const LOCK: Keys = Keys(4);
    pub const CRYPTS: Keys = Keys(8);
    const REST: Keys = Keys(16);

    pub fn of(key: &str) -> Keys {
        match key.strip_prefix(PREFIX).and_then(|key| key.split('/').next()) {
            Some("machines") => Keys::MACHINE,
            Some("nodes") => Keys::NODE,
            Some("node-locks") => Keys::LOCK,
            Some("crypts") => Keys::CRYPTS,
            // Each entry has a key of its own, which nobody else writes.
            Some("audit") => Keys::NONE,
            _ => Keys::REST,
        }
    }

    /// What a transaction compares.
    pub fn compared(txn: &Txn) -> Keys {
        let mut all = Keys::NONE;
        for compare in &txn.when {
            all |= match compare {
                Compare::ModRevision(key, _)
                | Compare::Missing(key)
                | Compare::Exists(key)
                | Compare::NoneWithPrefix(key) => Keys::of(key),
            };
        }
        all
    }

    pub fn any(self) -> bool {
        self != Keys::NONE
    }
}

impl BitOrAssign for Keys {
    fn bitor_assign(&mut self, other: Keys) {
        self.0 |= other.0;
    }
}

impl BitAnd for Keys {
    type Output = Keys;

    fn bitand(self, other: Keys) -> Keys {
        Keys(self.0 & other.0)
    }
}

/// What a content says, for the claims.
#[derive(Debug, Clone)]
pub struct Seen {
    pub machine: Option<HealthState>,
    pub keys: bool,
    pub node: Rc<Node>,
    pub locked: bool,
}

/// What a committed transaction did.
#[derive(Debug)]
pub struct Done {
    pub stored: BTreeMap<String, Bytes>,
    pub touched: Keys,
    /// The node as written, before anything is made equal.
    pub node: Option<Node>,
    equal: Option<Rc<Node>>,
    pub lock: Option<LockRecord>,
    pub rows: Vec<Row>,
    pub audited: usize,
}

impl World {
    /// An empty site that knows its addresses.
    pub fn empty() -> World {
        World { stored: empty(), hand: Hand::Nobody }
    }

    pub fn published(&self) -> bool {
        self.stored.get(&format!("{PREFIX}machines/m0")) == self.stored.get(&format!("{PUBLISHED}m0"))
    }

    pub fn see(&self) -> Seen {
        let node = self.stored.get(&format!("{PREFIX}nodes/m0")).map(|value| decode_node(value));
        let node = Rc::new(node.unwrap_or_else(|| Node::implied(NodeId(0), serial(), NOW)));
        Seen { machine: self.machine(), keys: self.has(Keys::CRYPTS), node, locked: self.has(Keys::LOCK) }
    }

    /// What is seen after a change of what was seen before; only what was written is read again.
    pub fn see_after(&self, before: &Seen, done: &Done) -> Seen {
        let Some(node) = done.equal.clone().or_else(|| {
            let kept = !(done.touched & Keys::NODE).any();
            kept.then(|| Rc::clone(&before.node))
        }) else {
            return self.see();
        };
        let machine = if (done.touched & Keys::MACHINE).any() { self.machine() } else { before.machine };
        Seen { machine, keys: self.has(Keys::CRYPTS), node, locked: self.has(Keys::LOCK) }
    }

    fn machine(&self) -> Option<HealthState> {
        self.stored.get(&format!("{PREFIX}machines/m0")).map(|value| {
            let json: serde_json::Value = serde_json::from_slice(value).unwrap();
            json["status"]["state"].as_str().unwrap().parse().unwrap()
        })
    }

    fn has(&self, keys: Keys) -> bool {
        self.stored.keys().any(|key| Keys::of(key) == keys)
    }

    /// The worker's lease ends: it crashed, or was cut off and goes on without knowing.
    pub fn without_lease(&self) -> World {
        let mut stored = self.stored.clone();
        stored.retain(|key, _| Keys::of(key) != Keys::LOCK);
        World { stored, hand: Hand::Nobody }
    }

    /// Carries a transaction out. Whether its compares hold was asked before.
    pub fn commit(&self, txn: &Txn) -> Done {
        let mut done = Done {
            stored: self.stored.clone(),
            touched: Keys::NONE,
            node: None,
            equal: None,
            lock: None,
            rows: Vec::new(),
            audited: 0,
        };
        for op in &txn.then {
            match op {
                Op::Put { key, value, .. } => done.put(key, value),
                Op::Delete(key) => done.delete(|found| found == key),
                Op::DeletePrefix(prefix) => done.delete(|found| found.starts_with(prefix.as_str())),
            }
        }
        done
    }
}

impl Done {
    fn put(&mut self, key: &str, value: &Bytes) {
        let mut value = value.clone();
        match key.strip_prefix(PREFIX).and_then(|key| key.split('/').next()) {
            Some("audit") => {
                self.audited += 1;
                return;
            }
            Some("node-history") => {
                let record: RowRecord = serde_json::from_slice(&value).unwrap();
                self.rows.push(Row::try_from(record).unwrap());
                return;
            }
            Some("nodes") => {
                let mut node = decode_node(&value);
                self.node = Some(node.clone());
                make_equal(&mut node);
                value = serde_json::to_vec(&NodeRecord::from(&node)).unwrap().into();
                self.equal = Some(Rc::new(node));
            }
            Some("node-locks") => {
                self.lock = Some(serde_json::from_slice(&value).unwrap());
                value = Bytes::from_static(
                    br#"{"holder":"worker","epoch":0,"class":"other","since":"1970-01-01T00:00:00Z"}"#,
                );
            }
            _ => {}
        }
        self.touched |= Keys::of(key);
        self.stored.insert(key.to_owned(), value);
    }

    fn delete(&mut self, named: impl Fn(&String) -> bool) {
        let gone: Vec<String> = self.stored.keys().filter(|key| named(key)).cloned().collect();
        for key in gone {
            self.touched |= Keys::of(&key);
            self.stored.remove(&key);
        }
    }
}

fn decode_node(value: &[u8]) -> Node {
    Node::try_from(serde_json::from_slice::<NodeRecord>(value).unwrap()).unwrap()
}

/// Makes equal what no rule tells apart. Whether a deadline has passed is chosen when somebody looks at the clock.
fn make_equal(node: &mut Node) {
    node.since = NOW;
    node.created_at = NOW;
    node.epoch = 0;
    node.history = (0, 0);
    node.last_error = None;
    node.verified_at = None;
    node.inspected_at = None;
    node.details.edited_at = None;
    if let Some(HeldReport { at, .. }) = &mut node.held_report {
        *at = NOW;
    }
    if let Some(Maintenance { reason, fault }) = &mut node.maintenance {
        (*reason, *fault) = (None, None);
    }
    let Some(operation) = &mut node.operation else { return };
    operation.id = "known".to_owned();
    operation.asked_at = NOW;
    operation.deadline = operation.deadline.map(|_| deadline());
    if let Some(contact) = &mut operation.ramdisk {
        contact.heard_at = contact.heard_at.map(|_| NOW);
    }
    if let Phase::Waiting(Wait { on, reason, since }) = &mut operation.phase {
        reason.clear();
        *since = NOW;
        if let WaitOn::Time(until) = on {
            *until = NOW;
        }
    }
}
