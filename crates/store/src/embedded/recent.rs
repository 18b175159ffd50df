//! The most recent changes, in memory, for watchers that keep up. Bounded in bytes; whoever needs more reads the file.

use std::{collections::VecDeque, sync::Arc};

use crate::{Event, Revision, limits};

/// Everything one revision changed.
#[derive(Debug)]
pub(super) struct Change {
    pub revision: Revision,
    pub events: Vec<Event>,
    bytes: usize,
}

impl Change {
    pub fn new(revision: Revision, events: Vec<Event>) -> Change {
        let bytes = events
            .iter()
            .map(|event| {
                let value = if let Event::Put(kv) = event { kv.value.len() } else { 0 };
                size_of::<Event>() + event.key().len() + value
            })
            .sum();
        Change { revision, events, bytes }
    }
}

/// A window that ends at the newest revision. Every revision changes something, so it has no gaps.
#[derive(Debug, Default)]
pub(super) struct Recent {
    changes: VecDeque<Arc<Change>>,
    bytes: usize,
}

impl Recent {
    /// Adds what was just committed and forgets what no longer fits.
    pub fn push(&mut self, change: Change) {
        self.bytes += change.bytes;
        self.changes.push_back(Arc::new(change));
        while self.bytes > limits::RECENT_BYTES_MAX
            && let Some(oldest) = self.changes.pop_front()
        {
            self.bytes -= oldest.bytes;
        }
    }

    /// Changes from `from` on, whole revisions, about `limits::HISTORY_ROWS` of them; `None` if the window does not reach
    /// back that far.
    pub fn since(&self, from: Revision) -> Option<Vec<Arc<Change>>> {
        let first = self.changes.front()?.revision;
        let skip = usize::try_from(from.0.checked_sub(first.0)?).ok()?;
        let mut events = 0;
        let taken: Vec<_> = self
            .changes
            .iter()
            .skip(skip)
            .take_while(|change| {
                let fits = events < limits::HISTORY_ROWS;
                events += change.events.len();
                fits
            })
            .cloned()
            .collect();
        (!taken.is_empty()).then_some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(revision: u64, bytes: usize) -> Change {
        let kv = crate::KeyValue {
            key: format!("k{revision}"),
            value: vec![0; bytes].into(),
            create_revision: Revision(revision),
            mod_revision: Revision(revision),
            lease: None,
        };
        Change::new(Revision(revision), vec![Event::Put(kv)])
    }

    fn revisions(recent: &Recent, from: u64) -> Option<Vec<u64>> {
        recent.since(Revision(from)).map(|changes| changes.iter().map(|change| change.revision.0).collect())
    }

    #[test]
    fn answers_only_what_it_holds_without_a_gap() {
        let mut recent = Recent::default();
        assert_eq!(revisions(&recent, 1), None);
        for revision in 5..=8 {
            recent.push(change(revision, 10));
        }
        assert_eq!(revisions(&recent, 4), None);
        assert_eq!(revisions(&recent, 5), Some(vec![5, 6, 7, 8]));
        assert_eq!(revisions(&recent, 8), Some(vec![8]));
        assert_eq!(revisions(&recent, 9), None);
    }

    #[test]
    fn forgets_the_oldest_when_full_even_if_that_is_everything() {
        let mut recent = Recent::default();
        recent.push(change(1, limits::RECENT_BYTES_MAX / 2));
        recent.push(change(2, limits::RECENT_BYTES_MAX / 2));
        assert_eq!(revisions(&recent, 1), None);
        assert_eq!(revisions(&recent, 2), Some(vec![2]));
        recent.push(change(3, limits::RECENT_BYTES_MAX));
        assert_eq!(revisions(&recent, 3), None);
        assert_eq!(recent.bytes, 0);
    }
}
