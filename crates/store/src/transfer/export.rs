//! From a store into a file.

use std::io::Write;

use super::{
    Progress, Stage,
    file::{self, FORMAT, Header, Sum, VERSION},
    interrupted_import, normalize,
};
use crate::{Page, Range, Revision, Store, StoreError, limits};

/// Why nothing useful was exported. The file, if any, has no end line and cannot be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The caller named no prefix.
    #[error("no prefix to export was given")]
    NoPrefix,
    /// The store holds half of an import.
    #[error("an import into this store was interrupted; run that import again before exporting")]
    Interrupted,
    /// History moved on under a long export.
    #[error("the store was compacted while it was exported; export again")]
    Compacted,
    /// The store failed.
    #[error("reading the store failed")]
    Store(#[source] StoreError),
    /// The file could not be written.
    #[error("writing the export failed")]
    Write(#[source] std::io::Error),
}

/// What was exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exported {
    /// The revision the file shows.
    pub revision: Revision,
    /// Keys in the file.
    pub keys: u64,
    /// Keys left out because they live under a lease.
    pub leased: u64,
}

/// Writes every key under the prefixes, as of one revision. The caller flushes and syncs `out`.
pub async fn export(
    store: &dyn Store,
    prefixes: &[String],
    out: &mut (dyn Write + Send),
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Exported, ExportError> {
    let first = prefixes.first().ok_or(ExportError::NoPrefix)?;
    if interrupted_import(store, first).await.map_err(ExportError::Store)? {
        return Err(ExportError::Interrupted);
    }
    let prefixes = normalize(prefixes);
    let revision = present(store, &prefixes[0]).await?;
    let mut sink = Sink { out, sum: Sum::default(), buffer: Vec::new() };
    let header =
        Header { format: FORMAT.to_owned(), version: VERSION, revision: revision.0, prefixes: prefixes.clone() };
    file::write_line(&mut sink.buffer, &header).map_err(|error| ExportError::Write(error.into()))?;
    let mut exported = Exported { revision, keys: 0, leased: 0 };
    for prefix in prefixes {
        let mut range = Range { at: Some(revision), ..Range::first(prefix) };
        loop {
            let page = list(store, range.clone()).await?;
            range.after = page.items.last().map(|kv| kv.key.clone());
            sink.write_page(page.items, &mut exported)?;
            progress(Progress { stage: Stage::Export, keys: exported.keys, total: None });
            if !page.more {
                break;
            }
        }
    }
    sink.finish(exported.keys)?;
    Ok(exported)
}

/// The revision to export. A read of one key tells it; `latest_commit` may be ahead of what can be read.
async fn present(store: &dyn Store, prefix: &str) -> Result<Revision, ExportError> {
    let range = Range { limit: 1, ..Range::first(prefix) };
    Ok(list(store, range).await?.revision)
}

async fn list(store: &dyn Store, range: Range) -> Result<Page, ExportError> {
    store.list(range).await.map_err(|error| match error {
        StoreError::Compacted { .. } => ExportError::Compacted,
        error => ExportError::Store(error),
    })
}

struct Sink<'a> {
    out: &'a mut (dyn Write + Send),
    sum: Sum,
    buffer: Vec<u8>,
}

impl Sink<'_> {
    fn write_page(&mut self, items: Vec<crate::KeyValue>, exported: &mut Exported) -> Result<(), ExportError> {
        for kv in items {
            if kv.lease.is_some() {
                exported.leased += 1;
                continue;
            }
            file::write_entry(&mut self.buffer, kv.key, &kv.value).map_err(|error| ExportError::Write(error.into()))?;
            exported.keys += 1;
            // One large value must not wait in memory for a thousand others.
            if self.buffer.len() >= limits::VALUE_BYTES_MAX {
                self.write_out()?;
            }
        }
        self.write_out()
    }

    fn write_out(&mut self) -> Result<(), ExportError> {
        self.sum.add(&self.buffer);
        self.out.write_all(&self.buffer).map_err(ExportError::Write)?;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self, keys: u64) -> Result<(), ExportError> {
        self.write_out()?;
        let sum = self.sum.hex();
        file::write_end(&mut self.buffer, keys, sum).map_err(|error| ExportError::Write(error.into()))?;
        self.out.write_all(&self.buffer).map_err(ExportError::Write)
    }
}
