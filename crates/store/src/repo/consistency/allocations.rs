//! Workloads, allocations, templates and runbooks: whoever names another is named by it, and what is claimed is in use.

use std::collections::{HashMap, HashSet};

use sabakan_domain::provision::{
    allocation::Allocation,
    ids::{AllocationId, NodeId},
    node::Node,
    recipe::Kind,
};

use super::{differences, read_all};
use crate::{
    Revision, Store, StoreError,
    keys::Keys,
    records::{self, AllocationRecord, NodeRecord},
};

/// An allocation and its node name each other, and names and workloads are claimed by those who have them.
pub(super) async fn check(store: &dyn Store, keys: &Keys, at: Revision) -> Result<Vec<String>, StoreError> {
    let mut problems = Vec::new();
    let (mut workloads, mut given) = (HashSet::new(), HashMap::<AllocationId, NodeId>::new());
    for kv in read_all(store, keys.nodes(), Some(at)).await?.0 {
        // Those that cannot be read are told of elsewhere.
        let Ok(node) = records::decode::<NodeRecord, Node>(&kv) else { continue };
        workloads.extend(node.details.instance_uuid.as_deref().map(|uuid| keys.instance(uuid)));
        given.extend(node.details.allocation.map(|allocation| (allocation, node.id)));
    }
    differences(&mut problems, workloads, read_all(store, keys.instances(), Some(at)).await?.0);
    let mut names = HashSet::new();
    for kv in read_all(store, keys.allocations(), Some(at)).await?.0 {
        match records::decode::<AllocationRecord, Allocation>(&kv) {
            Ok(allocation) => {
                if given.remove(&allocation.id) != allocation.node() {
                    problems.push(format!("{} and its node do not name each other", kv.key));
                }
                names.extend(allocation.name.as_deref().map(|name| keys.allocation_name(name)));
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    problems.extend(given.values().map(|node| format!("node {node} names an allocation that is not there")));
    differences(&mut problems, names, read_all(store, keys.allocation_names(), Some(at)).await?.0);
    for kind in [Kind::Template, Kind::Runbook] {
        problems.extend(check_recipes(store, keys, kind, at).await?);
    }
    Ok(problems)
}

async fn check_recipes(store: &dyn Store, keys: &Keys, kind: Kind, at: Revision) -> Result<Vec<String>, StoreError> {
    let (mut problems, mut names) = (Vec::new(), HashSet::new());
    for kv in read_all(store, keys.recipes(kind), Some(at)).await?.0 {
        match records::decode_recipe(kind, &kv) {
            Ok(recipe) => drop(names.insert(keys.recipe_name(kind, &recipe.about.name))),
            Err(error) => problems.push(error.to_string()),
        }
    }
    // The prefix of all names is the key of an empty one.
    differences(&mut problems, names, read_all(store, keys.recipe_name(kind, ""), Some(at)).await?.0);
    Ok(problems)
}
