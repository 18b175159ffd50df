//! Use cases of sabakan: gather facts, ask a rule of `sabakan-domain`, hand the change to a repository of `sabakan-store`. One file
//! per resource. Knows no HTTP; `server` turns [`ServiceError`] into answers.

mod clock;
mod config;
mod error;
mod health;
mod limits;
mod machines;
pub mod tasks;

use std::sync::Arc;

pub use clock::{Clock, FakeClock, SystemClock};
pub use config::Config;
pub use error::{ServiceError, error_chain};
pub use health::Health;
pub use machines::Machines;
use sabakan_domain::ipam::OutsidePool;
use sabakan_store::{
    Store,
    keys::Keys,
    repo::schema::{self, SchemaError},
    view::View,
};

/// What services work on. Each takes from it what it needs.
pub struct Foundation {
    /// Where changes go.
    pub store: Arc<dyn Store>,
    /// How keys are named.
    pub keys: Keys,
    /// What reads are answered from.
    pub view: Arc<View>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// What to do with racks that leave their pool.
    pub outside_pool: OutsidePool,
}

impl Foundation {
    /// Checks that the store is ours and loads the registry.
    pub async fn open(
        store: Arc<dyn Store>,
        keys: Keys,
        clock: Arc<dyn Clock>,
        outside_pool: OutsidePool,
    ) -> Result<Foundation, SchemaError> {
        schema::prepare(&*store, &keys).await?;
        let view = Arc::new(View::spawn(Arc::clone(&store), keys.clone()).await?);
        Ok(Foundation { store, keys, view, clock, outside_pool })
    }
}
