//! The ring of a running server: read from its file at start, and again whenever a newer key is met.

use std::{path::PathBuf, sync::Arc};

use arc_swap::ArcSwap;
use sabakan_store::StoreError;

use super::KeyRing;
use crate::ServiceError;

/// A ring and the file it comes from.
pub struct SharedRing {
    ring: ArcSwap<KeyRing>,
    file: PathBuf,
}

impl SharedRing {
    /// A ring that was read from a file.
    pub fn new(ring: KeyRing, file: PathBuf) -> SharedRing {
        SharedRing { ring: ArcSwap::from_pointee(ring), file }
    }

    /// The ring as it was read last.
    pub fn known(&self) -> Arc<KeyRing> {
        self.ring.load_full()
    }

    /// Reads the file again: a key that was rotated meanwhile is used at once, by every server.
    pub async fn read(&self) -> Result<Arc<KeyRing>, ServiceError> {
        let path = self.file.clone();
        let read = tokio::task::spawn_blocking(move || KeyRing::open_file(&path)).await;
        let stopped = |_| StoreError::Unavailable { reason: "the server is stopping".to_owned() };
        let ring = Arc::new(read.map_err(stopped)??);
        self.ring.store(Arc::clone(&ring));
        Ok(ring)
    }
}
