//! What went wrong below the store: an error of SQLite, translated in one place into the words of [`StoreError`].

use rusqlite::{Error, ErrorCode};

use crate::StoreError;

/// An error on the way up: of SQLite, or already in our words.
#[derive(Debug)]
pub(super) enum Fault {
    Sqlite(Error),
    Store(StoreError),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Sqlite(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::Store(error)
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> StoreError {
        match fault {
            Fault::Sqlite(error) => store_error(&error),
            Fault::Store(error) => error,
        }
    }
}

/// Whether the file itself is broken, so that trying again cannot help.
pub(super) fn is_corruption(error: &Error) -> bool {
    match error.sqlite_error_code() {
        Some(code) => matches!(code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::TypeMismatch),
        // Not an answer of SQLite: a column held something we never write.
        None => true,
    }
}

/// An error met before anything was made durable: nothing happened.
pub(super) fn store_error(error: &Error) -> StoreError {
    if is_corruption(error) {
        return StoreError::Corrupt { place: "the data file".to_owned(), reason: error.to_string() };
    }
    let reason = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "no space is left on the disk of the data directory".to_owned(),
        Some(ErrorCode::DatabaseBusy) => "another program keeps the data file locked".to_owned(),
        _ => format!("the data file cannot be used: {error}"),
    };
    StoreError::Unavailable { reason }
}

/// An error of the flush itself. What reached the disk before it failed may be found again after a crash, so only a full disk,
/// where the end of the transaction was never written, is a plain refusal.
pub(super) fn flush_error(error: &Error) -> StoreError {
    let nothing_written = matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy));
    if nothing_written || is_corruption(error) {
        return store_error(error);
    }
    StoreError::OutcomeUnknown { reason: format!("flushing the data file failed: {error}") }
}

/// The answer of a store that has been closed.
pub(super) fn stopped() -> StoreError {
    StoreError::Unavailable { reason: "it has been closed".to_owned() }
}
