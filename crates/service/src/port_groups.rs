//! Port groups: ports of one node that act as one.

use sabakan_domain::{
    audit::Actor,
    provision::{
        ids::{NodeId, PortGroupId},
        paging::{self, Slice},
        port,
        port_group::{self, About, Placed, PortGroup, PortGroupFilter},
    },
};
use sabakan_store::repo::ports::Naming;

use crate::{Ports, ServiceError, nodes::AskRefusal};

/// A port group and the node it belongs to.
#[derive(Debug, Clone, PartialEq)]
pub struct ShownGroup {
    /// The node.
    pub node: NodeId,
    /// The group.
    pub group: PortGroup,
}

impl From<Placed<'_>> for ShownGroup {
    fn from(placed: Placed<'_>) -> ShownGroup {
        ShownGroup { node: placed.node, group: placed.group.clone() }
    }
}

impl Ports {
    /// One page of a list of groups.
    pub async fn page_groups(&self, filter: &PortGroupFilter, wanted: &Slice) -> Result<Vec<ShownGroup>, ServiceError> {
        let snapshot = self.snapshot().await?;
        let all = snapshot.ports();
        let after = wanted.after.map(|id| all.find_group(PortGroupId(id)).ok_or(ServiceError::NotFound)).transpose()?;
        let narrowed: Vec<_> = match filter {
            PortGroupFilter { address: Some(address), .. } => {
                all.find_group_by_address(*address).and_then(|placed| all.of_node(placed.node)).into_iter().collect()
            }
            PortGroupFilter { node: Some(node), .. } => all.of_node(*node).into_iter().collect(),
            PortGroupFilter { node: None, address: None } => all.all().collect(),
        };
        let placed = narrowed.into_iter().flat_map(|of_node| {
            let groups = of_node.groups.iter().map(|group| Placed { node: of_node.node, group });
            groups.filter(|placed| filter.matches(placed))
        });
        Ok(paging::page(placed, after.as_ref(), wanted).into_iter().map(ShownGroup::from).collect())
    }

    /// One group, by UUID or name.
    pub async fn get_group(&self, id: &str) -> Result<ShownGroup, ServiceError> {
        let snapshot = self.snapshot().await?;
        let found = match id.parse::<PortGroupId>() {
            Ok(id) => snapshot.ports().find_group(id),
            Err(_) => snapshot.ports().find_group_by_name(id),
        };
        found.map(ShownGroup::from).ok_or(ServiceError::NotFound)
    }

    /// Makes a group of a node. Without `id` it gets a new one.
    pub async fn create_group(
        &self,
        actor: &Actor,
        node: NodeId,
        id: Option<PortGroupId>,
        about: &About,
    ) -> Result<ShownGroup, ServiceError> {
        let id = id.unwrap_or_else(|| PortGroupId(uuid::Uuid::new_v4().as_u128()));
        let at = self.now();
        let naming = Naming { action: "create-port-group", detail: format!("uuid {id}") };
        let group = self
            .edit(actor, node, &naming, |facts| {
                let group = port_group::create(&facts.ports, id, about.clone(), at)?;
                Ok((Some(facts.ports.with_group(group.clone())), group))
            })
            .await?;
        tracing::info!(node = %node, group = %id, user = actor.name, "port group created");
        Ok(ShownGroup { node, group })
    }

    /// Changes what a group is described with. `write` may run more than once.
    pub async fn describe_group(
        &self,
        actor: &Actor,
        id: &str,
        write: impl Fn(Placed<'_>) -> Result<(NodeId, About), ServiceError>,
    ) -> Result<ShownGroup, ServiceError> {
        let ShownGroup { node, group: PortGroup { id, .. } } = self.get_group(id).await?;
        let at = self.now();
        let naming = Naming { action: "update-port-group", detail: format!("uuid {id}") };
        let group = self
            .edit(actor, node, &naming, |facts| {
                let group = facts.ports.group(id).ok_or(AskRefusal::Driver(ServiceError::NotFound))?;
                let (named, wanted) = write(Placed { node, group }).map_err(AskRefusal::Driver)?;
                port::check_stays(node, named)?;
                if wanted == group.about {
                    return Ok((None, group.clone()));
                }
                let group = port_group::change(&facts.node.node, group, wanted, at)?;
                Ok((Some(facts.ports.with_group(group.clone())), group))
            })
            .await?;
        Ok(ShownGroup { node, group })
    }

    /// Forgets a group without ports.
    pub async fn remove_group(&self, actor: &Actor, id: &str) -> Result<(), ServiceError> {
        let ShownGroup { node, group: PortGroup { id, .. } } = self.get_group(id).await?;
        let naming = Naming { action: "delete-port-group", detail: format!("uuid {id}") };
        self.edit(actor, node, &naming, |facts| {
            let group = facts.ports.group(id).ok_or(AskRefusal::Driver(ServiceError::NotFound))?;
            port_group::check_removal(&facts.ports, group)?;
            Ok((Some(facts.ports.without_group(id)), ()))
        })
        .await?;
        tracing::info!(node = %node, group = %id, user = actor.name, "port group forgotten");
        Ok(())
    }
}
