//! A watch pulls: it remembers only where it is, takes recent changes from memory and older ones from the file, and waits on
//! one shared signal. A slow watcher costs nothing and holds nobody up.

use std::sync::{Arc, PoisonError};

use tokio::sync::watch;

use super::{Shared, fault::stopped, read};
use crate::{Revision, StoreError, StoreFuture, WatchBatch, WatchSource};

pub(super) struct EmbeddedWatch {
    pub shared: Arc<Shared>,
    pub published: watch::Receiver<Revision>,
    pub prefix: String,
    /// The first revision not delivered yet.
    pub from: Revision,
}

impl WatchSource for EmbeddedWatch {
    fn next(&mut self) -> StoreFuture<'_, WatchBatch> {
        Box::pin(async {
            // Nothing is taken before it is returned, so the caller may give up waiting at any point.
            while *self.published.borrow_and_update() < self.from {
                self.published.changed().await.map_err(|_| stopped())?;
            }
            let batch = match self.recent() {
                Some(batch) => batch,
                None => self.history().await?,
            };
            self.from = batch.revision.next();
            Ok(batch)
        })
    }
}

impl EmbeddedWatch {
    fn recent(&self) -> Option<WatchBatch> {
        let changes = self.shared.recent.lock().unwrap_or_else(PoisonError::into_inner).since(self.from)?;
        let events = changes.iter().flat_map(|change| &change.events);
        let events = events.filter(|event| event.key().starts_with(&self.prefix)).cloned().collect();
        Some(WatchBatch { revision: changes.last()?.revision, events })
    }

    async fn history(&self) -> Result<WatchBatch, StoreError> {
        let (prefix, from) = (self.prefix.clone(), self.from);
        let (events, revision) = self.shared.readers.run(move |db, _| read::history(db, &prefix, from)).await?;
        Ok(WatchBatch { revision, events })
    }
}
