//! Moving data: one text file with every key, written from one store and read into another, of either kind.
//!
//! The file is JSON lines: a header, one line per key in byte order, an end line with the number of keys and the SHA-256 of
//! everything before it. [`export`] shows one revision. [`import`] reads the file twice: it writes nothing before the whole
//! file has proved good. A marker key stands in the target from the first write to the last, so that a server can tell an
//! import that was interrupted ([`interrupted_import`]) and running the import again finishes it.
//!
//! Keys under a lease are not exported: they say that some process is alive, and it is not alive in the copy. Revisions are
//! not carried over either; the target counts its own.
//!
//! Reading and writing the file blocks; call this from a command, not from a server that answers requests.

mod export;
mod file;
mod import;

pub use self::{
    export::{ExportError, Exported, export},
    file::{Contents, FileError, verify},
    import::{ImportError, Imported, import},
};
use crate::{Store, StoreError};

/// How far a transfer has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What it is doing.
    pub stage: Stage,
    /// Keys done in this stage.
    pub keys: u64,
    /// Keys there are, where known.
    pub total: Option<u64>,
}

/// Parts of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Reading the store and writing the file.
    Export,
    /// Reading the file for the first time.
    Verify,
    /// Writing into the store.
    Import,
}

/// Whether an import into this store began and did not finish. Such a store is neither empty nor whole: a server must not
/// start on it. `prefix` is the first of the prefixes given to [`import`].
pub async fn interrupted_import(store: &dyn Store, prefix: &str) -> Result<bool, StoreError> {
    let snapshot = store.get_many(vec![marker(prefix)]).await?;
    Ok(snapshot.values.iter().any(Option::is_some))
}

/// The key that stands in a store while data is imported.
pub(crate) fn marker(prefix: &str) -> String {
    format!("{prefix}importing")
}

/// Prefixes in byte order, without those that another one covers, so that no key comes twice.
fn normalize(prefixes: &[String]) -> Vec<String> {
    let mut sorted = prefixes.to_vec();
    sorted.sort();
    let mut kept: Vec<String> = Vec::new();
    for prefix in sorted {
        if !kept.last().is_some_and(|last| prefix.starts_with(last)) {
            kept.push(prefix);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn covered_prefixes_are_left_out() {
        let check = |given: &[&str], expected: &[&str]| {
            let given: Vec<_> = given.iter().map(|prefix| (*prefix).to_owned()).collect();
            assert_eq!(normalize(&given), expected, "{given:?}");
        };
        check(&["/states/", "/sabakan/"], &["/sabakan/", "/states/"]);
        check(&["/a/b/", "/a/", "/a/c/", "/a0/"], &["/a/", "/a0/"]);
        check(&["/a/", "/a/"], &["/a/"]);
        check(&["/a/", ""], &[""]);
    }
}
