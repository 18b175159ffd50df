//! Values by slot, cheap to clone: parts are shared between clones until one of them changes.

use std::sync::Arc;

use super::index::Slot;

/// Places in one part of the table: the part is what a change copies.
const PART: usize = 256;

/// Some values, shared until one of its owners changes one.
type Part<T> = Arc<Vec<Option<Arc<T>>>>;

/// Values by slot. Slots of removed ones are used again.
#[derive(Debug, Clone)]
pub(super) struct Table<T> {
    parts: Arc<Vec<Part<T>>>,
    free: Arc<Vec<Slot>>,
    used: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Table<T> {
        Table { parts: Arc::default(), free: Arc::default(), used: 0 }
    }
}

impl<T> Table<T> {
    pub(super) fn len(&self) -> usize {
        self.used
    }

    /// One more than the highest slot ever used, rounded up.
    pub(super) fn room(&self) -> usize {
        self.parts.len() * PART
    }

    /// Values from a slot on, each with its slot, in the order they lie in memory.
    pub(super) fn walk(&self, from: usize) -> impl Iterator<Item = (usize, &Arc<T>)> {
        let parts = self.parts.iter().enumerate().skip(from / PART);
        let slots = parts.flat_map(|(number, part)| {
            part.iter().enumerate().map(move |(n, value)| (number * PART + n, value.as_ref()))
        });
        slots.skip(from % PART).filter_map(|(slot, value)| Some((slot, value?)))
    }

    pub(super) fn get(&self, slot: Slot) -> Option<&Arc<T>> {
        let slot = slot as usize;
        self.parts.get(slot / PART)?.get(slot % PART)?.as_ref()
    }

    pub(super) fn add(&mut self, value: Arc<T>) -> Slot {
        self.used += 1;
        if !self.free.is_empty()
            && let Some(slot) = Arc::make_mut(&mut self.free).pop()
        {
            *self.entry(slot) = Some(value);
            return slot;
        }
        let parts = Arc::make_mut(&mut self.parts);
        if parts.last().is_none_or(|part| part.len() == PART) {
            parts.push(Arc::new(Vec::with_capacity(PART)));
        }
        let number = parts.len() - 1;
        let part = Arc::make_mut(&mut parts[number]);
        part.push(Some(value));
        Slot::try_from(number * PART + part.len() - 1).expect("far fewer than 2^32 values fit into memory")
    }

    pub(super) fn replace(&mut self, slot: Slot, value: Option<Arc<T>>) -> Option<Arc<T>> {
        let emptied = value.is_none();
        let before = std::mem::replace(self.entry(slot), value);
        if emptied && before.is_some() {
            self.used -= 1;
            Arc::make_mut(&mut self.free).push(slot);
        }
        before
    }

    fn entry(&mut self, slot: Slot) -> &mut Option<Arc<T>> {
        let slot = slot as usize;
        let parts = Arc::make_mut(&mut self.parts);
        &mut Arc::make_mut(&mut parts[slot / PART])[slot % PART]
    }
}
