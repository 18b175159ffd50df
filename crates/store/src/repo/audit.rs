//! The audit log: written inside the transactions of other repositories, read by day.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use jiff::{Timestamp, civil::Date, tz::TimeZone};
use sabakan_domain::{
    audit::{Actor, AuditEntry, Category},
    retention::AuditDay,
};

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

/// The days of the log, the oldest first: all before `oldest_kept`, and of the others as many as hold `floor` entries. More of a log
/// that may have millions of entries is not read each hour.
pub async fn days(
    store: &dyn Store,
    keys: &Keys,
    oldest_kept: Date,
    floor: usize,
) -> Result<Vec<AuditDay>, StoreError> {
    let (mut days, mut after, mut young): (Vec<AuditDay>, _, _) = (Vec::new(), None, 0);
    loop {
        let page = store.list(Range { after, ..Range::first(keys.audit()) }).await?;
        for kv in &page.items {
            // What is under no day was not written by us and is not touched.
            let Some(day) = day_of_key(&kv.key, keys) else { continue };
            young += usize::from(day >= oldest_kept);
            let deletable = usize::from(!proves_erasure(kv));
            match days.last_mut().filter(|last| last.day == day) {
                Some(last) => (last.entries, last.deletable) = (last.entries + 1, last.deletable + deletable),
                None => days.push(AuditDay { day, entries: 1, deletable }),
            }
        }
        after = page.items.last().map(|kv| kv.key.clone()).filter(|_| page.more && young < floor);
        if after.is_none() {
            return Ok(days);
        }
    }
}

/// The time of the newest entry. Days are skipped from one to the next, so that only the entries of the last are read.
pub async fn newest(store: &dyn Store, keys: &Keys) -> Result<Option<Timestamp>, StoreError> {
    let (mut last, mut after) = (None, None);
    while let Some(kv) =
        store.list(Range { limit: 1, after, ..Range::first(keys.audit()) }).await?.items.into_iter().next()
    {
        let day = day_of_key(&kv.key, keys);
        // A slash ends the day in a key; its successor in the alphabet comes after all entries of the day.
        after = Some(day.map_or(kv.key, |day| format!("{}{}0", keys.audit(), day_text(day))));
        last = day.or(last);
    }
    let Some(day) = last else { return Ok(None) };
    let (mut newest, mut reading) = (None, Some(Reading::new(Some(day), None)));
    while let Some(next) = reading {
        let (entries, more) = page(store, keys, next).await?;
        newest = newest.max(entries.iter().map(|logged| logged.entry.at).max());
        reading = more;
    }
    Ok(newest)
}

/// Deletes the entries of one day, a bounded number at a time; how many are gone. Records of erased keys stay: they are what proves,
/// years later, that data is gone.
pub async fn forget_day(store: &dyn Store, keys: &Keys, day: Date) -> Result<usize, StoreError> {
    let prefix = format!("{}{}/", keys.audit(), day_text(day));
    let (mut gone, mut after) = (0, None);
    loop {
        let page = store.list(Range { limit: FORGET_AT_ONCE, after, ..Range::first(prefix.clone()) }).await?;
        let Some(last) = page.items.last() else { return Ok(gone) };
        after = Some(last.key.clone());
        let forgotten: Vec<Op> =
            page.items.iter().filter(|kv| !proves_erasure(kv)).map(|kv| Op::Delete(kv.key.clone())).collect();
        gone += forgotten.len();
        // Deletions compare nothing, so that they conflict with nothing.
        let _never_conflicts = store.commit(Txn { when: vec![], then: forgotten }).await?;
    }
}

fn proves_erasure(kv: &KeyValue) -> bool {
    decode(kv).is_ok_and(|logged| logged.entry.category == Category::Crypts && logged.entry.action == "delete")
}

fn day_of_key(key: &str, keys: &Keys) -> Option<Date> {
    let (day, _) = key.strip_prefix(&keys.audit())?.split_once('/')?;
    Date::strptime("%Y%m%d", day).ok().filter(|date| day_text(*date) == day)
}

/// Below the smallest limit a store has for one transaction.
const FORGET_AT_ONCE: usize = 100;

/// The day of an instant, in UTC.
pub fn day_of(at: Timestamp) -> Date {
    at.to_zoned(TimeZone::UTC).date()
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
