//! An ordered set of (key, slot) pairs that is cheap to clone: a list of sorted chunks, each shared between clones until one of them
//! changes it. A clone costs one reference count; a change copies one chunk and the list of chunks.
//!
//! Flat chunks instead of a balanced tree: an entry costs its own size and nothing more, and building from a sorted load is a
//! series of appends. ADR 0003 has the measurements.

mod runs;

use std::sync::Arc;

/// A place in the table of machines.
pub(super) type Slot = u32;

/// Entries of one chunk. A change copies at most this many; a list of 100,000 entries has about 400 chunks.
const CHUNK: usize = 512;

/// A run of entries, shared until one of its owners changes it.
type Chunk<K> = Arc<Vec<(K, Slot)>>;

#[derive(Debug, Clone)]
pub(super) struct Index<K> {
    /// No chunk is empty; entries ascend within and across chunks.
    chunks: Arc<Vec<Chunk<K>>>,
}

impl<K> Default for Index<K> {
    fn default() -> Index<K> {
        Index { chunks: Arc::default() }
    }
}

impl<K: Ord + Clone> Index<K> {
    /// Adds a pair; nothing happens when it is there.
    pub(super) fn insert(&mut self, key: K, slot: Slot) {
        let chunks = Arc::make_mut(&mut self.chunks);
        let entry = (key, slot);
        // The first chunk that ends at or after the entry; past the end, the last chunk grows.
        let place = chunks.partition_point(|chunk| chunk.last().is_some_and(|last| *last < entry));
        let Some(last) = chunks.len().checked_sub(1) else {
            chunks.push(Arc::new(vec![entry]));
            return;
        };
        let place = place.min(last);
        let chunk = Arc::make_mut(&mut chunks[place]);
        if let Err(at) = chunk.binary_search(&entry) {
            chunk.insert(at, entry);
        }
        if chunk.len() > CHUNK {
            // An append splits off almost nothing, so that a sorted load leaves full chunks behind.
            let at = if place == last { CHUNK } else { CHUNK / 2 };
            let tail = chunk.split_off(at);
            chunks.insert(place + 1, Arc::new(tail));
        }
    }

    /// Takes a pair away; nothing happens when it is absent.
    pub(super) fn remove(&mut self, key: K, slot: Slot) {
        let entry = (key, slot);
        let place = self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| *last < entry));
        let found = self.chunks.get(place).and_then(|chunk| chunk.binary_search(&entry).ok());
        let Some(at) = found else { return };
        let chunks = Arc::make_mut(&mut self.chunks);
        if chunks[place].len() == 1 {
            chunks.remove(place);
        } else {
            Arc::make_mut(&mut chunks[place]).remove(at);
        }
    }

    /// Slots under a key, ascending.
    pub(super) fn find<'a>(&'a self, key: &'a K) -> impl Iterator<Item = Slot> + 'a {
        let start = self.chunks.partition_point(|chunk| chunk.last().is_some_and(|(k, _)| k < key));
        let skip = self.chunks.get(start).map_or(0, |chunk| chunk.partition_point(|(k, _)| k < key));
        let entries = self.chunks[start..].iter().flat_map(|chunk| chunk.iter()).skip(skip);
        entries.take_while(move |(k, _)| k == key).map(|(_, slot)| *slot)
    }

    /// How many slots are under a key, found without visiting them.
    pub(super) fn count(&self, key: &K) -> usize {
        let start = self.chunks.partition_point(|chunk| chunk.last().is_some_and(|(k, _)| k < key));
        let of_key =
            |chunk: &Chunk<K>| chunk.partition_point(|(k, _)| k <= key) - chunk.partition_point(|(k, _)| k < key);
        let touched = self.chunks[start..].iter().take_while(|chunk| chunk.first().is_some_and(|(k, _)| k <= key));
        touched.map(of_key).sum()
    }

    /// How many pairs there are.
    pub(super) fn len(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.len()).sum()
    }

    /// Every slot, by key.
    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.chunks.iter().flat_map(|chunk| chunk.iter()).map(|(_, slot)| *slot)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn entries(index: &Index<u16>) -> Vec<(u16, Slot)> {
        index.chunks.iter().flat_map(|chunk| chunk.iter().copied()).collect()
    }

    proptest! {
        #[test]
        fn behaves_like_an_ordered_set(steps in prop::collection::vec((any::<bool>(), 0u16..40, 0u32..60), 0..3000)) {
            let (mut index, mut model) = (Index::default(), BTreeSet::new());
            let mut kept = None;
            for (n, (add, key, slot)) in steps.iter().copied().enumerate() {
                if add { index.insert(key, slot); model.insert((key, slot)); }
                else { index.remove(key, slot); model.remove(&(key, slot)); }
                if n == steps.len() / 2 { kept = Some((index.clone(), model.clone())); }
            }
            for (index, model) in kept.into_iter().chain([(index, model)]) {
                prop_assert_eq!(entries(&index), model.iter().copied().collect::<Vec<_>>());
                prop_assert!(index.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK));
                for key in 0..41 {
                    let expected: Vec<_> = model.iter().filter(|(k, _)| *k == key).map(|(_, s)| *s).collect();
                    prop_assert_eq!(index.count(&key), expected.len());
                    prop_assert_eq!(index.find(&key).collect::<Vec<_>>(), expected);
                }
            }
        }
    }

    #[test]
    fn a_sorted_load_fills_its_chunks() {
        let mut index = Index::default();
        for n in 0..10_000u32 {
            index.insert(n, n);
        }
        assert_eq!(index.chunks.len(), 10_000_usize.div_ceil(CHUNK));
        assert!(index.slots().eq(0..10_000));
    }
}
