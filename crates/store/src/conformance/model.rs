//! Random operations against a model that cannot be wrong: the whole history as a list of maps.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;

use super::support::{get, list_at, soon, try_commit, watch};
use crate::{Compare, Event, KeyValue, Op, Revision, Store, TxnOutcome};

/// Does `steps` random things with the store under `prefix`, which must be empty, and compares every answer with the model. The
/// same seed does the same things; it is part of every failure's text.
pub async fn random_operations(store: Arc<dyn Store>, prefix: &str, seed: u64, steps: usize) {
    let mut run = Run { store, prefix: prefix.to_owned(), seed, random: Random(seed), history: Vec::new() };
    run.history.push(Moment { at: super::support::latest(&*run.store).await, ..Moment::default() });
    for step in 0..steps {
        match run.random.below(10) {
            0..=5 => run.transaction(step).await,
            6 => run.read_keys(step).await,
            7 | 8 => run.read_past(step).await,
            _ => run.replay(step).await,
        }
    }
    run.replay(steps).await;
}

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("a small bound");
        usize::try_from(self.next() % bound).expect("smaller than a small bound")
    }
}

/// The model after one transaction.
#[derive(Clone, Default)]
struct Moment {
    at: Revision,
    keys: BTreeMap<String, KeyValue>,
    /// What changed: the key, and its value unless it was removed.
    changes: BTreeMap<String, Option<Bytes>>,
}

struct Run {
    store: Arc<dyn Store>,
    prefix: String,
    seed: u64,
    random: Random,
    /// Every moment so far, oldest first; never empty.
    history: Vec<Moment>,
}

impl Run {
    fn now(&self) -> &Moment {
        &self.history[self.history.len() - 1]
    }

    /// Few names, so that operations meet; some are prefixes of others.
    fn key(&mut self) -> String {
        const NAMES: [&str; 12] = ["a", "a/", "a/1", "a/1/x", "a/2", "a0", "b", "b/1", "b/\u{10FFFF}", "c c", "é", "z"];
        format!("{}{}", self.prefix, NAMES[self.random.below(NAMES.len())])
    }

    fn some_prefix(&mut self) -> String {
        const PREFIXES: [&str; 7] = ["a", "a/", "a/1", "b/", "b/\u{10FFFF}", "y", ""];
        format!("{}{}", self.prefix, PREFIXES[self.random.below(PREFIXES.len())])
    }

    fn compare(&mut self) -> Compare {
        let key = self.key();
        match self.random.below(6) {
            // Mostly right, so that most transactions happen.
            0 | 1 => {
                let at = self.now().keys.get(&key).map_or(Revision::NONE, |kv| kv.mod_revision);
                Compare::ModRevision(key, at)
            }
            2 => {
                let past = self.random.below(self.history.len());
                let at = self.history[past].keys.get(&key).map_or(Revision::NONE, |kv| kv.mod_revision);
                Compare::ModRevision(key, at)
            }
            3 => Compare::Missing(key),
            4 => Compare::Exists(key),
            _ => Compare::NoneWithPrefix(self.some_prefix()),
        }
    }

    fn operations(&mut self) -> Vec<Op> {
        let mut ops: Vec<Op> = Vec::new();
        for _ in 0..self.random.below(5) {
            let op = match self.random.below(8) {
                0..=4 => {
                    let size = self.random.below(200);
                    let byte = self.random.next().to_le_bytes()[0];
                    Op::put(self.key(), vec![byte; size])
                }
                5 | 6 => Op::Delete(self.key()),
                _ => Op::DeletePrefix(self.some_prefix()),
            };
            ops.push(op);
            // The same key twice is refused; that is another test.
            if crate::check_limits(&crate::Txn { when: Vec::new(), then: ops.clone() }, &self.store.limits()).is_err() {
                ops.pop();
            }
        }
        ops
    }

    fn holds(&self, compare: &Compare) -> bool {
        let keys = &self.now().keys;
        match compare {
            Compare::ModRevision(key, at) => keys.get(key).map_or(Revision::NONE, |kv| kv.mod_revision) == *at,
            Compare::Missing(key) => !keys.contains_key(key),
            Compare::Exists(key) => keys.contains_key(key),
            Compare::NoneWithPrefix(prefix) => !keys.keys().any(|key| key.starts_with(prefix)),
        }
    }

    /// What the operations do to the present.
    fn changes(&self, ops: &[Op]) -> BTreeMap<String, Option<Bytes>> {
        let mut changes = BTreeMap::new();
        for op in ops {
            match op {
                Op::Put { key, value, .. } => {
                    changes.insert(key.clone(), Some(value.clone()));
                }
                Op::Delete(gone) => {
                    changes.extend(self.now().keys.keys().filter(|key| *key == gone).map(|key| (key.clone(), None)));
                }
                Op::DeletePrefix(prefix) => {
                    let gone = self.now().keys.keys().filter(|key| key.starts_with(prefix));
                    changes.extend(gone.map(|key| (key.clone(), None)));
                }
            }
        }
        changes
    }

    async fn transaction(&mut self, step: usize) {
        let when: Vec<_> = (0..self.random.below(3)).map(|_| self.compare()).collect();
        let then = self.operations();
        let place = format!("seed {}, step {step}: {when:?} {then:?}", self.seed);
        let outcome = try_commit(&*self.store, when.clone(), then.clone()).await;
        let outcome = outcome.unwrap_or_else(|error| panic!("{place}: {error}"));
        let TxnOutcome::Committed(at) = outcome else {
            assert!(!when.iter().all(|compare| self.holds(compare)), "{place}: conflicted although all hold");
            return;
        };
        assert!(when.iter().all(|compare| self.holds(compare)), "{place}: committed although not all hold");
        let changes = self.changes(&then);
        if changes.is_empty() {
            assert!(at >= self.now().at, "{place}: went back to {at}");
            return;
        }
        assert!(at > self.now().at, "{place}: {at} after {}", self.now().at);
        let mut keys = self.now().keys.clone();
        for (key, value) in &changes {
            let created = keys.remove(key).map_or(at, |kv| kv.create_revision);
            if let Some(value) = value.clone() {
                let kv = KeyValue { key: key.clone(), value, create_revision: created, mod_revision: at, lease: None };
                keys.insert(key.clone(), kv);
            }
        }
        self.history.push(Moment { at, keys, changes });
    }

    async fn read_keys(&mut self, step: usize) {
        for _ in 0..3 {
            let key = self.key();
            let found = get(&*self.store, &key).await;
            assert_eq!(found.as_ref(), self.now().keys.get(&key), "seed {}, step {step}: {key}", self.seed);
        }
    }

    async fn read_past(&mut self, step: usize) {
        let past = self.random.below(self.history.len());
        let limit = 1 + self.random.below(8);
        let prefix = self.some_prefix();
        let Moment { at, keys, .. } = &self.history[past];
        let found = list_at(&*self.store, &prefix, Some(*at), limit).await;
        let expected: Vec<_> = keys.values().filter(|kv| kv.key.starts_with(&prefix)).cloned().collect();
        assert_eq!(found, expected, "seed {}, step {step}: {prefix:?} at {at} in pages of {limit}", self.seed);
    }

    /// Watches from a random moment to the present, dropping and resuming the watch now and then.
    async fn replay(&mut self, step: usize) {
        let start = self.random.below(self.history.len());
        let prefix = self.some_prefix();
        let present = self.now().at;
        let mut reached = self.history[start].at;
        let mut seen: BTreeMap<Revision, BTreeMap<String, Option<Bytes>>> = BTreeMap::new();
        let mut watcher = watch(&*self.store, &prefix, reached.next()).await;
        while reached < present {
            for event in watcher.next().await.events {
                let value = if let Event::Put(kv) = &event { Some(kv.value.clone()) } else { None };
                let twice = seen.entry(event.mod_revision()).or_default().insert(event.key().to_owned(), value);
                assert!(twice.is_none(), "seed {}, step {step}: {event:?} came twice", self.seed);
            }
            reached = watcher.reached;
            if self.random.below(3) == 0 {
                watcher = watch(&*self.store, &prefix, reached.next()).await;
            }
        }
        let mut expected = BTreeMap::new();
        for Moment { at, changes, .. } in &self.history[start + 1..] {
            let changes: BTreeMap<_, _> = changes
                .iter()
                .filter(|(key, _)| key.starts_with(&prefix))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            if !changes.is_empty() {
                expected.insert(*at, changes);
            }
        }
        assert_eq!(seen, expected, "seed {}, step {step}: watch of {prefix:?}", self.seed);
        soon("the latest commit", self.store.latest_commit()).await.expect("the latest commit");
    }
}
