//! Chassis: boxes that hold nodes.

use std::sync::Arc;

use sabakan_domain::{
    audit::Actor,
    provision::{
        chassis::{self, About, Chassis, ChassisRefusal},
        ids::ChassisId,
        paging::{self, Slice},
    },
};
use sabakan_store::repo;

use crate::{Foundation, ServiceError, error::Refusal as _, nodes::AskRefusal};

/// Describes the boxes nodes are in.
pub struct ChassisService {
    on: Arc<Foundation>,
}

impl ChassisService {
    /// Works on a foundation.
    pub fn new(on: Arc<Foundation>) -> ChassisService {
        ChassisService { on }
    }

    /// One page of a list.
    pub async fn page(&self, wanted: &Slice) -> Result<Vec<Chassis>, ServiceError> {
        let snapshot = self.on.view.read().await?;
        let all = snapshot.chassis();
        let after = wanted.after.map(|id| all.find(ChassisId(id)).ok_or(ServiceError::NotFound)).transpose()?;
        let after = after.map(Arc::as_ref);
        Ok(paging::page(all.list().map(Arc::as_ref), after.as_ref(), wanted).into_iter().cloned().collect())
    }

    /// One chassis.
    pub async fn get(&self, id: ChassisId) -> Result<Chassis, ServiceError> {
        let snapshot = self.on.view.read().await?;
        snapshot.chassis().find(id).map(|found| Chassis::clone(found)).ok_or(ServiceError::NotFound)
    }

    /// Makes a chassis. Without `id` it gets a new one.
    pub async fn create(&self, actor: &Actor, id: Option<ChassisId>, about: About) -> Result<Chassis, ServiceError> {
        let on = &self.on;
        let id = id.unwrap_or_else(|| ChassisId(uuid::Uuid::new_v4().as_u128()));
        let by = on.by(actor);
        let made = chassis::create(id, about, by.now).map_err(ChassisRefusal::kind)?;
        repo::chassis::create(&*on.store, &on.keys, &by, &made).await?;
        tracing::info!(chassis = %id, user = actor.name, "chassis created");
        Ok(made)
    }

    /// Changes what a chassis is described with. `write` may run more than once.
    pub async fn describe(
        &self,
        actor: &Actor,
        id: ChassisId,
        write: impl Fn(&About) -> Result<About, ServiceError>,
    ) -> Result<Chassis, ServiceError> {
        let on = &self.on;
        let by = on.by(actor);
        let decide = |found: &Chassis| -> Result<Option<Chassis>, AskRefusal> {
            let wanted = write(&found.about).map_err(AskRefusal::Driver)?;
            if wanted == found.about {
                return Ok(None);
            }
            let changed = chassis::change(found, wanted, by.now);
            changed.map(Some).map_err(|refusal| AskRefusal::Driver(refusal.kind()))
        };
        Ok(repo::chassis::edit(&*on.store, &on.keys, &by, id, decide).await?)
    }

    /// Forgets a chassis without nodes.
    pub async fn remove(&self, actor: &Actor, id: ChassisId) -> Result<(), ServiceError> {
        let on = &self.on;
        repo::chassis::remove(&*on.store, &on.keys, &on.by(actor), id).await?;
        tracing::info!(chassis = %id, user = actor.name, "chassis forgotten");
        Ok(())
    }
}
