//! From a file into an empty store.

use std::io::{BufRead, BufReader, Read, Seek};

use bytes::Bytes;

use super::{
    Progress, Stage,
    file::{Contents, Entry, FileError, Reader},
    marker, normalize,
};
use crate::{Compare, Op, Range, Revision, Store, StoreError, Txn, TxnLimits, TxnOutcome, limits};

/// Keys between two reports of progress while the file is verified.
const VERIFY_STEP: u64 = 10_000;

/// Why the import did not happen, or did not finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The file is not good. Nothing was written.
    #[error(transparent)]
    File(FileError),
    /// The file covers other prefixes than this server uses. Nothing was written.
    #[error(
        "the export covers {found:?}, this store uses {expected:?}; set the same prefixes as where it was exported"
    )]
    OtherPrefixes {
        /// Prefixes of the file.
        found: Vec<String>,
        /// Prefixes asked for.
        expected: Vec<String>,
    },
    /// The target refuses values of this size. Nothing was written.
    #[error("line {line} of the export, key {key}, has {size} bytes, this store accepts {limit}")]
    TooLarge {
        /// Line in the file.
        line: u64,
        /// The key.
        key: String,
        /// Bytes of key and value.
        size: usize,
        /// What the target accepts.
        limit: usize,
    },
    /// The target is in use. Nothing was written.
    #[error("the store is not empty, it has for example {key}; import into an empty one")]
    NotEmpty {
        /// A key that is there.
        key: String,
    },
    /// Half of another file is in the target. Nothing was written.
    #[error(
        "an import of another export (sum {other}) into this store was interrupted; run that one again, or start with an empty store"
    )]
    OtherImport {
        /// Sum of the file whose import was interrupted.
        other: String,
    },
    /// Somebody else imports into the target too, or removed the marker.
    #[error("somebody else writes to the store while it is imported; stop that, then run the import again")]
    Disturbed,
    /// The file changed between its two readings.
    #[error("the export was changed while it was imported; restore it, then run the import again")]
    FileChanged,
    /// The store failed. If writing had begun, running the import again finishes it.
    #[error("writing to the store failed; run the import again to finish it")]
    Store(#[source] StoreError),
}

/// What was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Keys written.
    pub keys: u64,
    /// Transactions they took.
    pub transactions: u64,
    /// The revision of the store the export came from.
    pub exported_revision: Revision,
    /// Whether this finished an import that had been interrupted.
    pub resumed: bool,
}

/// Verifies the file from its start, then writes every key of it into the store, which must hold nothing under `prefixes`
/// (the same that were exported) but the beginning of an import of this same file.
pub async fn import<S: Read + Seek + Send>(
    store: &dyn Store,
    prefixes: &[String],
    source: &mut S,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Imported, ImportError> {
    let expected = normalize(prefixes);
    let marker = marker(prefixes.first().map_or("", String::as_str));
    let accepted = Accepted::new(store.limits(), &marker);
    source.rewind().map_err(read_error)?;
    let contents = verify(&mut BufReader::new(&mut *source), &expected, &accepted, &marker, progress)?;
    let (at, resumed) = begin(store, &expected, &marker, &contents.sha256).await?;
    source.rewind().map_err(read_error)?;
    let mut target = Target { store, marker, at, accepted, batch: Vec::new(), bytes: 0, keys: 0, transactions: 0 };
    let mut source = BufReader::new(source);
    let mut reader = Reader::open(&mut source).map_err(|_| ImportError::FileChanged)?;
    // The second reading checks the sum again: what is written is what was verified.
    while let Some(entry) = reader.next().map_err(|_| ImportError::FileChanged)? {
        if target.add(entry).await? {
            progress(Progress { stage: Stage::Import, keys: target.keys, total: Some(contents.keys) });
        }
    }
    if reader.contents() != contents {
        return Err(ImportError::FileChanged);
    }
    target.finish().await?;
    progress(Progress { stage: Stage::Import, keys: target.keys, total: Some(contents.keys) });
    let Target { keys, transactions, .. } = target;
    Ok(Imported { keys, transactions, exported_revision: contents.revision, resumed })
}

fn read_error(error: std::io::Error) -> ImportError {
    ImportError::File(FileError::Read(error))
}

/// What one transaction of the import may hold.
struct Accepted {
    ops: usize,
    /// What a transaction aims at.
    bytes: usize,
    /// What the store accepts at most.
    bytes_max: usize,
    value_max: usize,
}

impl Accepted {
    fn new(limits: TxnLimits, marker: &str) -> Accepted {
        // Every transaction also compares the marker.
        let bytes_max = limits.bytes_max.saturating_sub(marker.len());
        Accepted {
            ops: limits.ops_max.min(limits::IMPORT_TXN_OPS),
            bytes: bytes_max.min(limits::IMPORT_TXN_BYTES),
            bytes_max,
            value_max: limits.value_bytes_max,
        }
    }

    fn check(&self, entry: &Entry) -> Result<(), ImportError> {
        let whole = entry.key.len() + entry.value.len();
        let (size, limit) = match entry.value.len() > self.value_max {
            true => (entry.value.len(), self.value_max),
            false => (whole, self.bytes_max),
        };
        if size > limit {
            return Err(ImportError::TooLarge { line: entry.line, key: entry.key.clone(), size, limit });
        }
        Ok(())
    }
}

fn verify(
    source: &mut (dyn BufRead + Send),
    expected: &[String],
    accepted: &Accepted,
    marker: &str,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Contents, ImportError> {
    let mut reader = Reader::open(source).map_err(ImportError::File)?;
    if reader.header.prefixes != expected {
        let found = reader.header.prefixes;
        return Err(ImportError::OtherPrefixes { found, expected: expected.to_vec() });
    }
    let mut keys = 0;
    while let Some(entry) = reader.next().map_err(ImportError::File)? {
        accepted.check(&entry)?;
        if entry.key == marker {
            let reason = format!("{marker} is the mark of an import and no data");
            return Err(ImportError::File(FileError::Line { line: entry.line, reason }));
        }
        keys += 1;
        if keys % VERIFY_STEP == 0 {
            progress(Progress { stage: Stage::Verify, keys, total: None });
        }
    }
    progress(Progress { stage: Stage::Verify, keys, total: Some(keys) });
    Ok(reader.contents())
}

/// Puts the marker into an empty store, or takes over the one an interrupted import of the same file left. Answers the
/// marker's revision, which every later transaction compares, and whether it was taken over.
async fn begin(
    store: &dyn Store,
    prefixes: &[String],
    marker: &str,
    sum: &str,
) -> Result<(Revision, bool), ImportError> {
    let put = || vec![Op::put(marker, Bytes::from(sum.to_owned()))];
    let when = prefixes.iter().cloned().map(Compare::NoneWithPrefix).collect();
    if let TxnOutcome::Committed(at) = commit(store, when, put()).await? {
        return Ok((at, false));
    }
    let found = store.get_many(vec![marker.to_owned()]).await.map_err(ImportError::Store)?;
    let Some(found) = found.values.into_iter().flatten().next() else {
        return Err(ImportError::NotEmpty { key: some_key(store, prefixes).await? });
    };
    if found.value != sum.as_bytes() {
        return Err(ImportError::OtherImport { other: String::from_utf8_lossy(&found.value).into_owned() });
    }
    // A new revision of the marker also stops the other import, should it still be running.
    match commit(store, vec![Compare::ModRevision(marker.to_owned(), found.mod_revision)], put()).await? {
        TxnOutcome::Committed(at) => Ok((at, true)),
        TxnOutcome::Conflicted => Err(ImportError::Disturbed),
    }
}

async fn commit(store: &dyn Store, when: Vec<Compare>, then: Vec<Op>) -> Result<TxnOutcome, ImportError> {
    store.commit(Txn { when, then }).await.map_err(ImportError::Store)
}

async fn some_key(store: &dyn Store, prefixes: &[String]) -> Result<String, ImportError> {
    for prefix in prefixes {
        let range = Range { limit: 1, ..Range::first(prefix) };
        if let Some(kv) = store.list(range).await.map_err(ImportError::Store)?.items.into_iter().next() {
            return Ok(kv.key);
        }
    }
    // There was one a moment ago.
    Err(ImportError::Disturbed)
}

/// Collects keys into transactions.
struct Target<'a> {
    store: &'a dyn Store,
    marker: String,
    at: Revision,
    accepted: Accepted,
    batch: Vec<Op>,
    bytes: usize,
    keys: u64,
    transactions: u64,
}

impl Target<'_> {
    /// Takes one more key; `true` if that wrote a transaction.
    async fn add(&mut self, entry: Entry) -> Result<bool, ImportError> {
        let size = entry.key.len() + entry.value.len();
        let is_full = self.batch.len() >= self.accepted.ops || self.bytes + size > self.accepted.bytes;
        let writes = is_full && !self.batch.is_empty();
        if writes {
            self.write().await?;
        }
        self.bytes += size;
        self.batch.push(Op::put(entry.key, entry.value));
        Ok(writes)
    }

    async fn write(&mut self) -> Result<(), ImportError> {
        let keys = self.batch.len() as u64;
        let then = std::mem::take(&mut self.batch);
        self.bytes = 0;
        self.commit(then).await?;
        self.keys += keys;
        Ok(())
    }

    /// Writes what is left, then removes the marker: from then on the store is whole.
    async fn finish(&mut self) -> Result<(), ImportError> {
        if !self.batch.is_empty() {
            self.write().await?;
        }
        self.commit(vec![Op::Delete(self.marker.clone())]).await
    }

    async fn commit(&mut self, then: Vec<Op>) -> Result<(), ImportError> {
        let when = vec![Compare::ModRevision(self.marker.clone(), self.at)];
        self.transactions += 1;
        match commit(self.store, when, then).await? {
            TxnOutcome::Committed(_) => Ok(()),
            TxnOutcome::Conflicted => Err(ImportError::Disturbed),
        }
    }
}
