//! The audit log, for reading. Entries are written by the repositories, together with what they tell of.

use std::sync::Arc;

use sabakan_store::repo::audit;
pub use sabakan_store::repo::audit::{Logged, Reading};

use crate::{Foundation, ServiceError};

/// Reads the audit log.
pub struct Audit {
    on: Arc<Foundation>,
}

impl Audit {
    /// Works on a foundation.
    pub fn new(on: Arc<Foundation>) -> Audit {
        Audit { on }
    }

    /// The next entries of a reading, oldest first, and how to go on if there are more.
    pub async fn page(&self, reading: Reading) -> Result<(Vec<Logged>, Option<Reading>), ServiceError> {
        Ok(audit::page(&*self.on.store, &self.on.keys, reading).await?)
    }
}
