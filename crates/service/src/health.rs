//! Whether this server can do its work.

use std::sync::Arc;

use sabakan_store::{Store, keys::Keys, repo::schema, view::View};

use crate::{Foundation, ServiceError};

/// Looks at the parts every request needs.
pub struct Health {
    store: Arc<dyn Store>,
    keys: Keys,
    view: Arc<View>,
}

impl Health {
    /// Looks at a foundation.
    pub fn new(on: &Foundation) -> Health {
        Health { store: Arc::clone(&on.store), keys: on.keys.clone(), view: Arc::clone(&on.view) }
    }

    /// The store answers a read, and the view keeps up with it.
    pub async fn check(&self) -> Result<(), ServiceError> {
        schema::probe(&*self.store, &self.keys).await?;
        self.view.read().await?;
        Ok(())
    }
}
