//! The audit log: written inside the transactions of other repositories, read by day.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use sabakan_domain::audit::{Actor, AuditEntry, Category};

use super::{ChangeError, change};
use crate::{
    Compare, KeyValue, Op, Range, Revision, Store, StoreError, Txn,
    keys::Keys,
    records::{self, AuditRecord},
};

/// Who makes a change, when, on which server: what every change carries besides itself.
#[derive(Debug, Clone)]
pub struct By {
    /// Who asks.
    pub actor: Actor,
    /// This server.
    pub host: String,
    /// Now.
    pub now: Timestamp,
}

/// What a change is called in the log.
#[derive(Debug, Clone)]
pub struct Act {
    /// About what.
    pub category: Category,
    /// Which one of it.
    pub instance: String,
    /// What is done.
    pub action: &'static str,
    /// With which values.
    pub detail: String,
}

/// An entry and the revision it was written at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Logged {
    /// When, in the store's counting.
    pub revision: Revision,
    /// What.
    pub entry: AuditEntry,
}

impl By {
    /// Adds the entry to a transaction, so that the change and its entry happen together or not at all.
    pub(super) fn log(&self, txn: &mut Txn, keys: &Keys, act: Act) {
        let Act { category, instance, action, detail } = act;
        let entry = AuditEntry {
            at: self.now,
            actor: self.actor.clone(),
            host: self.host.clone(),
            category,
            instance,
            action: action.to_owned(),
            detail,
        };
        let key = format!("{}{}/{:016x}", keys.audit(), day_text(day_of(self.now)), next_id(self.now));
        txn.when.push(Compare::Missing(key.clone()));
        txn.then.push(Op::put(key, records::encode(&AuditRecord::from(&entry))));
    }
}

/// Entries of the days from `since` to before `until`, page by page: `visit` gets each page in order.
pub async fn list(
    store: &dyn Store,
    keys: &Keys,
    since: Option<Date>,
    until: Option<Date>,
    mut visit: impl FnMut(Vec<Logged>),
) -> Result<(), StoreError> {
    let prefix = keys.audit();
    // Keys sort by day: everything after the last possible key of the day before.
    let mut range = Range::first(prefix.clone());
    range.after = since.map(|day| format!("{prefix}{}", day_text(day)));
    let end = until.map(|day| format!("{prefix}{}", day_text(day)));
    loop {
        let page = store.list(range.clone()).await?;
        let done = |kv: &KeyValue| end.as_ref().is_some_and(|end| kv.key >= *end);
        let reached = page.items.iter().any(done);
        let wanted = page.items.iter().filter(|kv| !done(kv));
        visit(wanted.map(decode).collect::<Result<_, _>>()?);
        match page.items.last() {
            Some(last) if page.more && !reached => {
                range = Range { after: Some(last.key.clone()), at: Some(page.revision), ..range };
            }
            _ => return Ok(()),
        }
    }
}

/// Reads an entry.
pub(crate) fn decode(kv: &KeyValue) -> Result<Logged, StoreError> {
    Ok(Logged { revision: kv.create_revision, entry: records::decode::<AuditRecord, _>(kv)? })
}

/// Forgets entries of days before `oldest`, a bounded number at a time; how many are gone.
pub async fn forget_before(store: &dyn Store, keys: &Keys, oldest: Date) -> Result<usize, StoreError> {
    let end = format!("{}{}", keys.audit(), day_text(oldest));
    let mut gone = 0;
    loop {
        let page = store.list(Range { limit: FORGET_AT_ONCE, ..Range::first(keys.audit()) }).await?;
        let old: Vec<String> = page.items.into_iter().map(|kv| kv.key).filter(|key| *key < end).collect();
        if old.is_empty() {
            return Ok(gone);
        }
        gone += old.len();
        let forget = || async { Ok((Txn { when: vec![], then: old.iter().cloned().map(Op::Delete).collect() }, ())) };
        match change::<(), std::convert::Infallible, _>(store, forget).await {
            Ok(()) => {}
            Err(ChangeError::Store(error)) => return Err(error),
            Err(ChangeError::NotFound | ChangeError::Refused(_)) => return Ok(gone),
        }
    }
}

/// Below the smallest limit a store has for one transaction.
const FORGET_AT_ONCE: usize = 100;

/// The day of an instant, in UTC.
pub fn day_of(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
}

/// The day `days` before an instant.
pub fn days_before(at: Timestamp, days: u32) -> Date {
    let day = day_of(at);
    day.checked_sub(i64::from(days).days()).unwrap_or(Date::MIN)
}

fn day_text(day: Date) -> String {
    format!("{:04}{:02}{:02}", day.year(), day.month(), day.day())
}

/// Milliseconds, then a number that differs between entries of one millisecond: it counts in this process from a random start,
/// and where two processes meet all the same, the transaction conflicts and takes the next one.
fn next_id(now: Timestamp) -> u64 {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| AtomicU64::new(RandomState::new().build_hasher().finish()));
    let milliseconds = u64::try_from(now.as_millisecond()).unwrap_or(0);
    (milliseconds << 20) | (NEXT.fetch_add(1, Ordering::Relaxed) & 0xf_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_utc_and_sort() {
        let at: Timestamp = "2026-03-01T00:30:00+09:00".parse().expect("time");
        assert_eq!(day_text(day_of(at)), "20260228");
        assert_eq!(day_text(days_before(at, 60)), "20251230");
    }

    #[test]
    fn ids_sort_by_time_and_differ() {
        let at: Timestamp = "2026-03-01T00:30:00Z".parse().expect("time");
        let later: Timestamp = "2026-03-01T00:30:00.001Z".parse().expect("time");
        let ids: std::collections::HashSet<u64> = (0..1_000).map(|_| next_id(at)).collect();
        assert_eq!(ids.len(), 1_000);
        assert!(ids.iter().all(|id| *id < next_id(later)));
    }
}
