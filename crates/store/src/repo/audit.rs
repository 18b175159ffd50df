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

use crate::{
    Compare, KeyValue, Op, Range, Revision, Store, StoreError, Txn,
    keys::Keys,
    limits,
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
            detail: bounded(detail),
        };
        let key = format!("{}{}/{:016x}", keys.audit(), day_text(day_of(self.now)), next_id(self.now));
        txn.when.push(Compare::Missing(key.clone()));
        txn.then.push(Op::put(key, records::encode(&AuditRecord::from(&entry))));
    }
}

/// Which entries a reader wants, and how far it has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reading {
    /// From this day on.
    pub since: Option<Date>,
    /// Before this day.
    pub until: Option<Date>,
    /// Key of the last entry read.
    after: Option<String>,
}

impl Reading {
    /// Entries of the UTC days from `since` to before `until`, from the first.
    pub fn new(since: Option<Date>, until: Option<Date>) -> Reading {
        Reading { since, until, after: None }
    }
}

/// The next entries, oldest first, and how to go on if there are more. Pages are not read at one revision: entries are never
/// changed, and a reader that takes its time would otherwise fail when that revision is compacted.
pub async fn page(
    store: &dyn Store,
    keys: &Keys,
    reading: Reading,
) -> Result<(Vec<Logged>, Option<Reading>), StoreError> {
    let prefix = keys.audit();
    // Keys sort by day, and the bare day sorts before all of its keys.
    let bound = |day: Date| format!("{prefix}{}", day_text(day));
    let after = reading.after.clone().or(reading.since.map(bound));
    let end = reading.until.map(bound);
    let page = store.list(Range { after, ..Range::first(prefix.clone()) }).await?;
    let wanted = |kv: &&KeyValue| end.as_ref().is_none_or(|end| kv.key < *end);
    let kept: Vec<&KeyValue> = page.items.iter().take_while(wanted).collect();
    let whole = kept.len() == page.items.len();
    let entries = kept.into_iter().filter_map(|kv| readable(decode(kv))).collect();
    let last = page.items.last().filter(|_| page.more && whole);
    Ok((entries, last.map(|kv| Reading { after: Some(kv.key.clone()), ..reading })))
}

/// One entry that cannot be read, such as a kind only the older service knows, does not take the others away.
fn readable(entry: Result<Logged, StoreError>) -> Option<Logged> {
    entry.inspect_err(|error| tracing::warn!(%error, "an audit entry cannot be read and is left out")).ok()
}

/// Cuts a detail that no value could hold, and says so: the serials of tens of thousands of machines at once.
fn bounded(mut detail: String) -> String {
    if detail.len() > limits::AUDIT_DETAIL_BYTES_MAX {
        let lines = detail.lines().count();
        let mut end = limits::AUDIT_DETAIL_BYTES_MAX;
        while !detail.is_char_boundary(end) {
            end -= 1;
        }
        detail.truncate(end);
        detail.push_str(&format!("\n(cut; {lines} lines in all)"));
    }
    detail
}

/// Reads an entry.
pub(crate) fn decode(kv: &KeyValue) -> Result<Logged, StoreError> {
    Ok(Logged { revision: kv.create_revision, entry: records::decode::<AuditRecord, _>(kv)? })
}

/// Forgets entries of days before `oldest`, a bounded number at a time; how many are gone. Records of erased keys stay: they are
/// what proves, years later, that data is gone.
pub async fn forget_before(store: &dyn Store, keys: &Keys, oldest: Date) -> Result<usize, StoreError> {
    let end = format!("{}{}", keys.audit(), day_text(oldest));
    let (mut gone, mut after) = (0, None);
    loop {
        let page = store.list(Range { limit: FORGET_AT_ONCE, after, ..Range::first(keys.audit()) }).await?;
        let old: Vec<&KeyValue> = page.items.iter().filter(|kv| kv.key < end).collect();
        let Some(last) = old.last() else { return Ok(gone) };
        after = Some(last.key.clone());
        let proves_erasure = |kv: &&&KeyValue| {
            decode(kv).is_ok_and(|logged| logged.entry.category == Category::Crypts && logged.entry.action == "delete")
        };
        let forgotten: Vec<Op> =
            old.iter().filter(|kv| !proves_erasure(kv)).map(|kv| Op::Delete(kv.key.clone())).collect();
        gone += forgotten.len();
        // Deletions compare nothing, so that they conflict with nothing.
        let _never_conflicts = store.commit(Txn { when: vec![], then: forgotten }).await?;
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
