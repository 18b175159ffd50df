//! Whether this server can do its work.

use std::sync::Arc;

use sabakan_store::repo::schema;

use crate::{Foundation, ServiceError};

/// Looks at the parts every request needs.
pub struct Health {
    on: Arc<Foundation>,
}

impl Health {
    /// Looks at a foundation.
    pub fn new(on: Arc<Foundation>) -> Health {
        Health { on }
    }

    /// The store answers a read, and the view keeps up with it.
    pub async fn check(&self) -> Result<(), ServiceError> {
        schema::probe(&*self.on.store, &self.on.keys).await?;
        self.on.view.read().await?;
        Ok(())
    }
}
