//! Use cases of sabakan: gather facts, ask a rule of `sabakan-domain`, hand the change to a repository of `sabakan-store`. One file
//! per resource. Knows no HTTP; `server` turns [`ServiceError`] into answers.

mod agents;
mod allocations;
mod audit;
mod chassis;
mod clock;
pub mod cluster;
mod config;
mod crypts;
mod error;
mod feed;
pub mod hardware;
mod health;
mod inventory;
mod limits;
mod machines;
pub mod metrics;
mod nodes;
mod port_groups;
mod ports;
mod recipes;
pub mod repair;
pub mod seal;
mod search;
pub mod takeover;
pub mod tasks;
pub mod token;
mod tokens;
mod vault;
mod vifs;

use std::sync::Arc;

pub use allocations::{Allocations, Wish};
pub use audit::{Audit, Logged, Reading};
pub use chassis::ChassisService;
pub use clock::{Clock, FakeClock, SystemClock};
pub use config::Config;
pub use crypts::Crypts;
pub use error::{ServiceError, error_chain};
pub use feed::{Change, EventStream, FeedEvent, Feeds};
pub use health::{Health, HealthPart, HealthProbe, HealthProbeFuture, HealthProblem, HealthReport};
pub use machines::Machines;
pub use nodes::{AgentHeartbeat, Asked, BootChange, Edit, Introduced, Nodes, Shown, Verdict, Waiting, Wanted};
pub use port_groups::ShownGroup;
pub use ports::{Ports, ShownPort};
pub use recipes::Recipes;
use sabakan_domain::{audit::Actor, ipam::OutsidePool};
use sabakan_store::{
    Store,
    keys::Keys,
    repo::{
        audit::By,
        repairs::Under,
        schema::{self, SchemaError},
    },
    view::View,
};
pub use search::FoundMachines;
pub use tokens::{RecognisedToken, TokenInfo, Tokens};
pub use vault::Vault;

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
    /// The name of this server in the audit log.
    pub host: String,
}

impl Foundation {
    /// What a change of `actor` carries, now.
    pub(crate) fn by(&self, actor: &Actor) -> By {
        By { actor: actor.clone(), host: self.host.clone(), now: self.clock.now() }
    }

    /// The same with a store that is written to only as long as something holds.
    pub(crate) fn under(&self, under: Under<'_>) -> Foundation {
        Foundation {
            store: Arc::new(under.conditional(Arc::clone(&self.store), &self.keys)),
            keys: self.keys.clone(),
            view: Arc::clone(&self.view),
            clock: Arc::clone(&self.clock),
            outside_pool: self.outside_pool,
            host: self.host.clone(),
        }
    }

    /// Checks that the store is ours and loads the registry.
    pub async fn open(
        store: Arc<dyn Store>,
        keys: Keys,
        clock: Arc<dyn Clock>,
        outside_pool: OutsidePool,
        host: String,
    ) -> Result<Foundation, SchemaError> {
        schema::prepare(&*store, &keys).await?;
        let view = Arc::new(View::spawn(Arc::clone(&store), keys.clone()).await?);
        Ok(Foundation { store, keys, view, clock, outside_pool, host })
    }
}
