//! The audit log, for reading. Entries are written by the repositories, together with what they tell of.

use std::sync::Arc;

use jiff::civil::Date;
use sabakan_store::repo::audit::{self, Logged};

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

    /// Entries of the UTC days from `since` to before `until`, oldest first, handed over page by page.
    pub async fn list(
        &self,
        since: Option<Date>,
        until: Option<Date>,
        visit: impl FnMut(Vec<Logged>) + Send,
    ) -> Result<(), ServiceError> {
        Ok(audit::list(&*self.on.store, &self.on.keys, since, until, visit).await?)
    }
}
