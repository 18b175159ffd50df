//! Which leases live, and until when. That a lease exists is stored; its deadline is not: after a restart every lease gets its
//! full time again, because its holder could not keep it alive while nobody was listening.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::LeaseId;

#[derive(Debug)]
struct Term {
    ttl: Duration,
    deadline: Instant,
}

/// The live leases, owned by the writer thread.
#[derive(Debug, Default)]
pub(super) struct Leases {
    live: HashMap<LeaseId, Term>,
}

impl Leases {
    /// Leases found in the file, each with its full time from `now`.
    pub fn restored(stored: Vec<(LeaseId, Duration)>, now: Instant) -> Leases {
        let mut leases = Leases::default();
        for (id, ttl) in stored {
            leases.add(id, ttl, now);
        }
        leases
    }

    pub fn add(&mut self, id: LeaseId, ttl: Duration, now: Instant) {
        self.live.insert(id, Term { ttl, deadline: now + ttl });
    }

    pub fn remove(&mut self, id: LeaseId) {
        self.live.remove(&id);
    }

    pub fn contains(&self, id: LeaseId) -> bool {
        self.live.contains_key(&id)
    }

    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Gives a lease its full time again; `false` if it does not live.
    pub fn extend(&mut self, id: LeaseId, now: Instant) -> bool {
        let Some(term) = self.live.get_mut(&id) else { return false };
        term.deadline = now + term.ttl;
        true
    }

    /// Leases whose time is over, the longest overdue first.
    pub fn expired(&self, now: Instant) -> Vec<LeaseId> {
        let mut over: Vec<_> =
            self.live.iter().filter(|(_, term)| term.deadline <= now).map(|(id, term)| (term.deadline, *id)).collect();
        over.sort_unstable();
        over.into_iter().map(|(_, id)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_at_its_deadline_unless_extended() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut leases = Leases::restored(vec![(LeaseId(1), 2 * second), (LeaseId(2), second)], start);
        assert!(leases.expired(start).is_empty());
        assert_eq!(leases.expired(start + second), [LeaseId(2)]);
        assert_eq!(leases.expired(start + 2 * second), [LeaseId(2), LeaseId(1)]);
        assert!(leases.extend(LeaseId(2), start + second));
        assert_eq!(leases.expired(start + second), []);
        assert!(!leases.extend(LeaseId(3), start));
        leases.remove(LeaseId(2));
        assert!(!leases.contains(LeaseId(2)));
    }
}
