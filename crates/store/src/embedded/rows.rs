//! What a row means: the schema, how a revision becomes a row id, the checksum, and how to find rows.
//!
//! One table is the whole history. A row is one change of one key; its id is the revision with the position inside the
//! transaction below it, so the history from a revision on is one range of row ids, and the present value of a key is its row
//! with the greatest id. Rows are never updated; only compaction removes them.

use std::ops::ControlFlow;

use bytes::Bytes;
use rusqlite::{Connection, params, types::ValueRef};

use super::fault::Fault;
use crate::{Event, KeyValue, LeaseId, Revision, StoreError};

/// "SABA": tells our file from anybody else's SQLite file (`PRAGMA application_id`).
pub(super) const APPLICATION_ID: i64 = 0x5341_4241;

/// Version of the schema below (`PRAGMA user_version`).
pub(super) const SCHEMA_VERSION: i64 = 1;

/// The index holds all a transaction asks about a key, so that compares and puts do not touch the table, whose pages are many
/// more and rarely cached. A tombstone has create revision 0 and no value. `meta.swept` is the row id up to which compaction
/// has removed what it may; it lags behind `meta.compacted` while compaction works.
pub(super) const SCHEMA: &str = "
CREATE TABLE entry (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    create_revision INTEGER NOT NULL,
    lease INTEGER,
    checksum INTEGER NOT NULL,
    value BLOB
) STRICT;
CREATE INDEX entry_by_key ON entry (key, id, create_revision);
CREATE INDEX entry_by_lease ON entry (lease) WHERE lease IS NOT NULL;
CREATE TABLE lease (id INTEGER PRIMARY KEY AUTOINCREMENT, ttl_seconds INTEGER NOT NULL) STRICT;
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT INTO meta VALUES ('compacted', 0), ('swept', 0);
";

/// Bits of a row id below the revision.
const SEQUENCE_BITS: u32 = 20;

/// One row by its id.
const FETCH: &str = "SELECT id, key, create_revision, lease, checksum, value FROM entry WHERE id = ?1";

/// Rows from one id up to before another, oldest first; the same columns.
pub(super) const HISTORY: &str =
    "SELECT id, key, create_revision, lease, checksum, value FROM entry WHERE id >= ?1 AND id < ?2 ORDER BY id";

/// Most rows of one transaction.
pub(super) const SEQUENCE_MAX: usize = 1 << SEQUENCE_BITS;

/// The row id of the `sequence`-th change at `revision`.
pub(super) fn row_id(revision: Revision, sequence: u32) -> i64 {
    ((revision.0 << SEQUENCE_BITS) | u64::from(sequence)).cast_signed()
}

/// The first row id after everything at or before `revision`.
pub(super) fn end_of(revision: Revision) -> i64 {
    row_id(revision.next(), 0)
}

/// The revision a row belongs to.
pub(super) fn revision_of(id: i64) -> Revision {
    Revision(id.cast_unsigned() >> SEQUENCE_BITS)
}

/// The position of a row inside its transaction.
pub(super) fn sequence_of(id: i64) -> u64 {
    id.cast_unsigned() & ((1 << SEQUENCE_BITS) - 1)
}

/// One row as it is stored. A tombstone has no value.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub id: i64,
    pub key: String,
    pub create_revision: Revision,
    pub lease: Option<LeaseId>,
    pub value: Option<Bytes>,
}

impl Row {
    /// Reads a row, selected with the columns of `FETCH`, and verifies its checksum.
    pub fn decode(row: &rusqlite::Row<'_>) -> Result<Row, Fault> {
        let id: i64 = row.get(0)?;
        let damaged = |place: String, reason: &str| StoreError::Corrupt { place, reason: reason.to_owned() };
        let Ok(key) = row.get_ref(1)?.as_str() else {
            return Err(damaged(format!("row {id}"), "its key is not text").into());
        };
        let create_revision: i64 = row.get(2)?;
        let lease: Option<i64> = row.get(3)?;
        let stored: i64 = row.get(4)?;
        let value = match row.get_ref(5)? {
            ValueRef::Null => None,
            ValueRef::Blob(bytes) => Some(bytes),
            _ => return Err(damaged(format!("key {key}"), "its value is not a sequence of bytes").into()),
        };
        if i64::from(checksum(id, key, create_revision, lease, value)) != stored {
            return Err(damaged(
                format!("key {key}"),
                "its checksum is wrong: the file was changed or the disk is failing; run `sabakan store check`",
            )
            .into());
        }
        Ok(Row {
            id,
            key: key.to_owned(),
            create_revision: Revision(create_revision.cast_unsigned()),
            lease: lease.map(LeaseId),
            value: value.map(Bytes::copy_from_slice),
        })
    }

    /// The row as a present key; `None` for a tombstone.
    pub fn into_key_value(self) -> Option<KeyValue> {
        let mod_revision = revision_of(self.id);
        let Row { id: _, key, create_revision, lease, value } = self;
        value.map(|value| KeyValue { key, value, create_revision, mod_revision, lease })
    }

    /// The row as a change.
    pub fn into_event(self) -> Event {
        let mod_revision = revision_of(self.id);
        let Row { id: _, key, create_revision, lease, value } = self;
        match value {
            Some(value) => Event::Put(KeyValue { key, value, create_revision, mod_revision, lease }),
            None => Event::Delete { key, mod_revision },
        }
    }
}

/// Covers everything the row says, so that neither a damaged value nor one that ended up in another row goes unnoticed.
fn checksum(id: i64, key: &str, create_revision: i64, lease: Option<i64>, value: Option<&[u8]>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&id.to_le_bytes());
    hasher.update(&create_revision.to_le_bytes());
    hasher.update(&lease.unwrap_or(0).to_le_bytes());
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key.as_bytes());
    hasher.update(&[u8::from(value.is_some())]);
    hasher.update(value.unwrap_or_default());
    hasher.finalize()
}

/// Appends a row: a value, or `None` for a tombstone.
pub(super) fn append(
    db: &Connection,
    id: i64,
    key: &str,
    create_revision: Revision,
    lease: Option<LeaseId>,
    value: Option<&[u8]>,
) -> rusqlite::Result<()> {
    let create_revision = create_revision.0.cast_signed();
    let lease = lease.map(|lease| lease.0);
    let checksum = checksum(id, key, create_revision, lease, value);
    db.prepare_cached(
        "INSERT INTO entry (id, key, create_revision, lease, checksum, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![id, key, create_revision, lease, checksum, value])?;
    Ok(())
}

/// What a transaction needs to know about a key that exists.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub id: i64,
    pub create_revision: Revision,
}

const HEAD: &str = "SELECT id, create_revision FROM entry WHERE key = ?1 ORDER BY id DESC LIMIT 1";

/// The present row of a key, `None` if the key does not exist. Reads only the index.
pub(super) fn head(db: &Connection, key: &str) -> rusqlite::Result<Option<Head>> {
    let mut statement = db.prepare_cached(HEAD)?;
    let mut rows = statement.query([key])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let head = Head { id: row.get(0)?, create_revision: Revision(row.get::<_, i64>(1)?.cast_unsigned()) };
    Ok((head.create_revision != Revision::NONE).then_some(head))
}

/// The first text after every text that starts with `prefix`; `None` when there is none. Byte order of UTF-8 is the order of
/// code points, so the last character that has a successor is replaced by it.
fn prefix_end(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        let next = match last {
            // The surrogates are no characters; the range goes on behind them.
            '\u{D7FF}' => Some('\u{E000}'),
            _ => char::from_u32(u32::from(last) + 1),
        };
        if let Some(next) = next {
            end.push(next);
            return Some(end);
        }
    }
    None
}

const KEYS: &str = "SELECT key, id, create_revision FROM entry WHERE key >= ?1 AND key < ?2 ORDER BY key, id";

/// Calls `visit` with each key that starts with `prefix` and comes after `after`, in byte order, and the id of its last row
/// before `before`, unless that row is a tombstone. Reads only the index.
pub(super) fn each_key<E: From<rusqlite::Error>>(
    db: &Connection,
    prefix: &str,
    after: Option<&str>,
    before: i64,
    mut visit: impl FnMut(&str, i64) -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    // The first text greater than `after` is `after` with a zero byte behind it.
    let from = match after {
        Some(after) if after >= prefix => format!("{after}\0"),
        _ => prefix.to_owned(),
    };
    let end = prefix_end(prefix);
    // SQLite sorts every blob after every text: an empty one is a bound that no key reaches.
    let until = end.as_deref().map_or(ValueRef::Blob(&[]), |end| ValueRef::Text(end.as_bytes()));
    let mut statement = db.prepare_cached(KEYS)?;
    let mut rows = statement.query(params![from, rusqlite::types::ToSqlOutput::Borrowed(until)])?;
    // The last row seen of the key the walk is at; its id is `None` after a tombstone.
    let (mut key, mut last) = (String::new(), None);
    while let Some(row) = rows.next()? {
        let next = row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?;
        let id: i64 = row.get(1)?;
        if id >= before {
            continue;
        }
        if next != key {
            if let Some(last) = last
                && visit(&key, last)?.is_break()
            {
                return Ok(());
            }
            key.clear();
            key.push_str(next);
        }
        last = (row.get::<_, i64>(2)? != 0).then_some(id);
    }
    if let Some(last) = last {
        let _ = visit(&key, last)?;
    }
    Ok(())
}

/// The row with this id, verified.
pub(super) fn fetch(db: &Connection, id: i64) -> Result<Row, Fault> {
    let mut statement = db.prepare_cached(FETCH)?;
    let mut rows = statement.query([id])?;
    match rows.next()? {
        Some(row) => Row::decode(row),
        None => Err(StoreError::Corrupt {
            place: format!("row {id}"),
            reason: "the index knows it, the table does not".to_owned(),
        }
        .into()),
    }
}

/// Where a snapshot stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// The newest revision.
    pub revision: Revision,
    /// History up to here is gone.
    pub compacted: Revision,
}

/// Where the data stands as this connection sees it now. Compaction may have removed the rows of the newest revision, but then
/// it reached that revision: the greater of the two is right.
pub(super) fn extent(db: &Connection) -> rusqlite::Result<Extent> {
    db.prepare_cached("SELECT (SELECT max(id) FROM entry), (SELECT value FROM meta WHERE name = 'compacted')")?
        .query_row([], |row| {
            let newest: Option<i64> = row.get(0)?;
            let compacted: i64 = row.get(1)?;
            let compacted = Revision(compacted.cast_unsigned());
            Ok(Extent { revision: newest.map_or(compacted, revision_of).max(compacted), compacted })
        })
}

/// Changes a number in `meta`.
pub(super) fn set_meta(db: &Connection, name: &str, value: i64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE meta SET value = ?2 WHERE name = ?1")?.execute(params![name, value])?;
    Ok(())
}

/// Counts up a number of `meta` that nobody reads: the smallest change there is. It must be another number each time, because SQLite
/// writes nothing where a row stays as it is.
pub(super) fn touch(db: &Connection) -> rusqlite::Result<()> {
    let count =
        "INSERT INTO meta (name, value) VALUES ('probes', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1";
    db.prepare_cached(count)?.execute([])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_ids_sort_by_revision_then_position() {
        let last = u32::try_from(SEQUENCE_MAX - 1).unwrap();
        assert!(row_id(Revision(7), last) < row_id(Revision(8), 0));
        assert_eq!(end_of(Revision(7)), row_id(Revision(7), last) + 1);
        assert_eq!(revision_of(row_id(Revision(7), last)), Revision(7));
        assert_eq!(sequence_of(row_id(Revision(7), 5)), 5);
    }

    #[test]
    fn prefix_end_is_the_first_text_after_the_prefix() {
        let check =
            |prefix: &str, expected: Option<&str>| assert_eq!(prefix_end(prefix).as_deref(), expected, "{prefix:?}");
        check("a/", Some("a0"));
        check("", None);
        check("a\u{10FFFF}", Some("b"));
        check("\u{10FFFF}\u{10FFFF}", None);
        check("\u{D7FF}", Some("\u{E000}"));
        check("\u{7F}", Some("\u{80}"));
    }

    #[test]
    fn the_queries_use_the_indexes_and_sort_nothing() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(SCHEMA).unwrap();
        let check = |sql: &str, expected: &str| {
            let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let parameters = statement.parameter_count();
            let rows =
                statement.query_map(rusqlite::params_from_iter(vec![1; parameters]), |row| row.get::<_, String>(3));
            let plan: Vec<String> = rows.unwrap().map(Result::unwrap).collect();
            assert_eq!(plan, [expected], "{sql}");
        };
        check(HEAD, "SEARCH entry USING COVERING INDEX entry_by_key (key=?)");
        check(KEYS, "SEARCH entry USING COVERING INDEX entry_by_key (key>? AND key<?)");
        check("DELETE FROM entry WHERE key = ?1 AND id < ?2", "SEARCH entry USING INDEX entry_by_key (key=? AND id<?)");
        check(HISTORY, "SEARCH entry USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)");
    }
}
