//! What went wrong below the store: an error of SQLite, translated in one place into the words of [`StoreError`].

use rusqlite::{Error, ErrorCode};

use crate::StoreError;

/// An error on the way up: of SQLite, or already in our words.
#[derive(Debug)]
pub(super) enum Fault {
    Sqlite(Error),
    Store(StoreError),
}

impl Fault {
    /// What is wrong with the file, if that is why it failed.
    pub fn damage(&self) -> Option<String> {
        match self {
            Fault::Sqlite(error) => is_corruption(error).then(|| error.to_string()),
            Fault::Store(error @ StoreError::Corrupt { .. }) => Some(error.to_string()),
            Fault::Store(_) => None,
        }
    }
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

/// An error of a read: nothing was read.
pub(super) fn store_error(error: &Error) -> StoreError {
    if is_corruption(error) {
        return StoreError::Corrupt { place: "the data file".to_owned(), reason: error.to_string() };
    }
    StoreError::Unavailable { reason: reason(error) }
}

/// An error of a change, met before anything was made durable: nothing happened.
pub(super) fn write_error(error: &Error) -> StoreError {
    if is_corruption(error) {
        return store_error(error);
    }
    StoreError::CannotWrite { reason: reason(error) }
}

/// What SQLite met, in words that name no path: callers read them.
pub(super) fn reason(error: &Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "no space is left on the disk of the data directory".to_owned(),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "another program keeps the data file locked".to_owned()
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            "the data file, or the file system it is on, is read-only".to_owned()
        }
        _ => match error.sqlite_error() {
            Some(cause) => {
                let text = rusqlite::ffi::code_to_str(cause.extended_code);
                format!("the disk of the data directory does not take it ({text}, SQLite code {})", cause.extended_code)
            }
            None => "the data file cannot be used".to_owned(),
        },
    }
}

/// An error of the flush itself. What reached the disk before it failed may be found again after a crash, so only a full disk,
/// where the end of the transaction was never written, is a plain refusal.
pub(super) fn flush_error(error: &Error) -> StoreError {
    let code = error.sqlite_error_code();
    let nothing_written = matches!(code, Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::ReadOnly));
    if nothing_written || is_corruption(error) {
        return write_error(error);
    }
    StoreError::OutcomeUnknown { reason: format!("flushing the data file failed: {}", reason(error)) }
}

/// The answer of a store that has been closed.
pub(super) fn stopped() -> StoreError {
    StoreError::Unavailable { reason: "it has been closed".to_owned() }
}
