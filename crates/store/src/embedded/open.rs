//! Opening the file: who may use it, whether it is ours, whether we understand it. Nothing is changed in a file that is not.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, config::DbConfig};

use super::{
    length,
    rows::{self, APPLICATION_ID, SCHEMA, SCHEMA_VERSION},
    structure::{self, Depth},
};
use crate::{LeaseId, limits};

/// Why the data file could not be opened, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Another process has it.
    #[error("{} is in use by {}; stop that one first, or choose another data directory", path.display(), holder(*pid))]
    Locked {
        /// The data file.
        path: PathBuf,
        /// The process that holds the lock, if it told.
        pid: Option<u32>,
    },
    /// A newer program wrote it.
    #[error(
        "{} has format {found}, this program understands formats up to {supported}; start the version that wrote it, or a later one",
        path.display()
    )]
    NewerVersion {
        /// The data file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format this program reads.
        supported: i64,
    },
    /// It is something else. It was not touched.
    #[error("{} is not a store of sabakan ({reason}); nothing was changed in it; choose another data directory", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// How we know.
        reason: String,
    },
    /// It was ours and is broken.
    #[error(
        "{} is damaged ({reason}); run `sabakan store check`, then restore a backup, or save what is readable with \
         `sabakan store export --salvage`",
        path.display()
    )]
    Damaged {
        /// The data file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The file system refused.
    #[error("cannot use {}; check that its directory exists, may be written by this user and has space left", path.display())]
    Io {
        /// The file in question.
        path: PathBuf,
        /// What it said.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

fn holder(pid: Option<u32>) -> String {
    pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// An opened file with everything the writer needs to start.
pub(super) struct Opened {
    pub db: Connection,
    /// Held as long as the store is open; closing the file releases the lock.
    pub lock: File,
    pub extent: rows::Extent,
    /// The row id up to which compaction has worked.
    pub swept: i64,
    pub leases: Vec<(LeaseId, Duration)>,
}

/// A file that is locked for us.
pub(super) enum FileStart {
    /// It can be used.
    Sound(Opened),
    /// It must not be written to.
    Damaged { lock: File, reason: String },
}

/// Locks and opens the file, or makes a new one.
pub(super) fn open(path: &Path) -> Result<FileStart, OpenError> {
    let lock = lock(path)?;
    match open_locked(path) {
        Ok((db, (extent, swept, leases))) => Ok(FileStart::Sound(Opened { db, lock, extent, swept, leases })),
        Err(OpenError::Damaged { reason, .. }) => Ok(FileStart::Damaged { lock, reason }),
        Err(error) => Err(error),
    }
}

/// Locks a file that is there and is not to be written to.
pub(super) fn lock_existing(path: &Path) -> Result<File, OpenError> {
    std::fs::metadata(path).map_err(|error| OpenError::Io { path: path.to_owned(), source: error.into() })?;
    lock(path)
}

fn open_locked(path: &Path) -> Result<(Connection, State), OpenError> {
    let io = |error: std::io::Error| OpenError::Io { path: path.to_owned(), source: error.into() };
    let is_new = !path.exists();
    // The store holds disk keys: nobody else may read it. SQLite gives its companion files the mode of this one.
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path).map_err(io)?;
    // Before SQLite opens it: what is missing at its end would be read as zeros, and the next page written behind them.
    if let Some(finding) = length::check(path).map_err(io)? {
        return Err(OpenError::Damaged { path: path.to_owned(), reason: finding.to_string() });
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags).map_err(|error| classify(path, error))?;
    prepare(&db).map_err(|error| classify(path, error))?;
    keep_log(&db, true).map_err(|error| classify(path, error))?;
    let is_empty = identify(path, &db)?;
    configure(&db).map_err(|error| classify(path, error))?;
    if is_empty {
        create(&mut db).map_err(|error| classify(path, error))?;
    } else if file.metadata().map_err(io)?.len() <= limits::START_CHECK_BYTES_MAX {
        let findings = structure::examine(&db, Depth::Pages).map_err(|error| classify(path, error))?;
        if let Some(finding) = findings.first() {
            return Err(OpenError::Damaged { path: path.to_owned(), reason: finding.to_string() });
        }
    }
    if is_new {
        sync_directory(path).map_err(io)?;
    }
    let state = read_state(&db).map_err(|error| classify(path, error))?;
    keep_log(&db, false).map_err(|error| classify(path, error))?;
    Ok((db, state))
}

/// Whether closing leaves the write-ahead log as it is. Otherwise SQLite copies it into the file, which must not happen to a file
/// that is damaged.
pub(super) fn keep_log(db: &Connection, keep: bool) -> rusqlite::Result<()> {
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep).map(drop)
}

/// Opens a file for reading that may be damaged, also if pages are missing at its end.
pub(super) fn open_damaged(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    prepare(&db)?;
    // Before anything is read: with it SQLite goes by the length of the file instead of refusing one that is too short.
    db.pragma_update(None, "writable_schema", true)?;
    Ok(db)
}

/// Opens the file for reading only, as `check` and the readers do.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    prepare(&db)?;
    // A negative size is in KiB.
    db.pragma_update(None, "cache_size", -limits::READER_CACHE_KIB)?;
    Ok(db)
}

/// Whether the file is empty, that is, to be filled; an error if it is neither empty nor a store we understand. Reads only.
pub(super) fn identify(path: &Path, db: &Connection) -> Result<bool, OpenError> {
    let number = |name| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let read = || {
        let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        Ok((tables, number("application_id")?, number("user_version")?))
    };
    let (tables, application, found) = read().map_err(|error| classify(path, error))?;
    // A start that was cut short may leave a file that has a header and nothing else.
    if tables == 0 && application == 0 && found == 0 {
        return Ok(true);
    }
    if application != APPLICATION_ID {
        let reason = format!("it is an SQLite file of another program, application id {application}");
        return Err(OpenError::NotOurs { path: path.to_owned(), reason });
    }
    if found > SCHEMA_VERSION {
        return Err(OpenError::NewerVersion { path: path.to_owned(), found, supported: SCHEMA_VERSION });
    }
    if found < SCHEMA_VERSION || tables == 0 {
        let reason = format!("format {found} with {tables} tables and indexes never existed");
        return Err(OpenError::Damaged { path: path.to_owned(), reason });
    }
    Ok(false)
}

/// Sorts an error of SQLite while opening.
pub(super) fn classify(path: &Path, error: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotOurs { path, reason: "it is not an SQLite file".to_owned() },
        Some(ErrorCode::DatabaseBusy) => OpenError::Locked { path, pid: None },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::TypeMismatch | ErrorCode::Unknown) | None => {
            OpenError::Damaged { path, reason: error.to_string() }
        }
        Some(_) => OpenError::Io { path, source: error.into() },
    }
}

/// Takes the lock beside the data file. The lock is a file of its own, because SQLite's own locks on the data file come and
/// go with every transaction.
fn lock(path: &Path) -> Result<File, OpenError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock_path = PathBuf::from(name);
    let refused = |error: std::io::Error| OpenError::Io { path: lock_path.clone(), source: error.into() };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&lock_path)
        .map_err(refused)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            // Only to tell the operator; whatever is in the file, the lock itself is what counts.
            let mut text = String::new();
            let _ = file.take(32).read_to_string(&mut text);
            return Err(OpenError::Locked { path: path.to_owned(), pid: text.trim().parse().ok() });
        }
        Err(TryLockError::Error(error)) => return Err(refused(error)),
    }
    file.set_len(0).and_then(|()| file.rewind()).map_err(refused)?;
    writeln!(file, "{}", std::process::id()).map_err(refused)?;
    Ok(file)
}

/// What every connection needs.
fn prepare(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(limits::BUSY_WAIT)?;
    // Plans that do not depend on the values bound. Otherwise SQLite would compile statements again for every other value.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

fn configure(db: &Connection) -> rusqlite::Result<()> {
    let mode: String = db.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))?;
    if mode != "wal" {
        // A file system without shared memory; every promise about durability was made for this mode only.
        let message = format!("the file system does not support the write-ahead log (journal mode is {mode})");
        return Err(rusqlite::Error::SqliteFailure(
            rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN),
            Some(message),
        ));
    }
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "wal_autocheckpoint", limits::WAL_PAGES_MAX)?;
    db.pragma_update_and_check(None, "journal_size_limit", limits::WAL_BYTES_KEPT, |_| Ok(()))?;
    db.pragma_update(None, "cache_size", -limits::WRITER_CACHE_KIB)
}

/// Fills an empty file, all of it or nothing.
fn create(db: &mut Connection) -> rusqlite::Result<()> {
    let transaction = db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    transaction.execute_batch(SCHEMA)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", SCHEMA_VERSION)?;
    transaction.commit()
}

/// Without this, a power failure could take the name of a new file away although its content was flushed.
fn sync_directory(path: &Path) -> std::io::Result<()> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(directory)?.sync_all()
}

type State = (rows::Extent, i64, Vec<(LeaseId, Duration)>);

fn read_state(db: &Connection) -> rusqlite::Result<State> {
    let extent = rows::extent(db)?;
    let swept = db.query_row("SELECT value FROM meta WHERE name = 'swept'", [], |row| row.get(0)).optional()?;
    let mut statement = db.prepare("SELECT id, ttl_seconds FROM lease ORDER BY id")?;
    let leases = statement.query_map([], |row| {
        let ttl_seconds: u32 = row.get(1)?;
        Ok((LeaseId(row.get(0)?), Duration::from_secs(ttl_seconds.into())))
    })?;
    Ok((extent, swept.unwrap_or(0), leases.collect::<rusqlite::Result<_>>()?))
}
