//! Copies for a CKE that carries the configuration out, under a prefix of their own. They are written in the transaction of what
//! they are copies of; whoever begins to lead compares them with what they should be, because an earlier version, a `ckecli` or
//! a server without the mirror may have left others.

use std::convert::Infallible;

use bytes::Bytes;
use sabakan_domain::cluster::{config::Configuration, constraints::Constraints};

use super::{
    ChangeError,
    audit::By,
    change,
    cluster::{self, act},
    leaders::Lead,
    revision_of,
};
use crate::{
    Compare, Op, Revision, Store, Txn,
    keys::{Keys, MirroredKey},
    records::{self, ConstraintsRecord},
};

/// CKE compares with this very text; anything else means that the thing is on.
const DISABLED: &str = "true";

/// One copy: which, its key and what it should be.
type Copy = (MirroredKey, String, Bytes);

/// Every copy of what is given, and the switches, which go with any of them. None without a mirror, or of nothing: a CKE that we
/// give nothing is left alone.
fn copies(keys: &Keys, cluster: Option<(&Configuration, Revision)>, constraints: Option<&Constraints>) -> Vec<Copy> {
    let mut values: Vec<(MirroredKey, Bytes)> = Vec::new();
    if let Some((configuration, made_from)) = cluster {
        values.push((MirroredKey::Cluster, records::encode(&configuration.for_cke())));
        values.push((MirroredKey::ClusterRevision, made_from.to_string().into()));
    }
    if let Some(constraints) = constraints {
        let record = ConstraintsRecord::from(&constraints.for_cke());
        values.push((MirroredKey::Constraints, records::encode(&record)));
    }
    if !values.is_empty() {
        values.extend(MirroredKey::SWITCHES.map(|switch| (switch, DISABLED.into())));
    }
    values.into_iter().filter_map(|(key, value)| Some((key, keys.mirrored(key)?, value))).collect()
}

/// What writes the copies of what is given, to go into the transaction that writes it.
pub(super) fn puts(
    keys: &Keys,
    cluster: Option<(&Configuration, Revision)>,
    constraints: Option<&Constraints>,
) -> impl Iterator<Item = Op> + use<> {
    copies(keys, cluster, constraints).into_iter().map(|(_, key, value)| Op::put(key, value))
}

/// Rewrites the copies that are not as they should be, in one transaction that compares the lead, the cluster and the copies; which
/// they were. Nothing is written where they are right, nor while the planner is disabled: whoever goes back to CKE's own generator
/// disables it first.
pub async fn correct(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    lead: &Lead,
) -> Result<Vec<MirroredKey>, ChangeError<Infallible>> {
    let plan = || async {
        let state = cluster::read(store, keys).await?;
        if state.disabled {
            return Ok((Txn::default(), Vec::new()));
        }
        let configured = state.configuration.as_ref();
        let configured = configured.map(|configured| (&configured.configuration, configured.template_revision));
        let wanted = copies(keys, configured, state.constraints.as_ref());
        let found = store.get_many(wanted.iter().map(|(_, key, _)| key.clone()).collect()).await?.values;
        let (mut txn, mut wrong) = (Txn::default(), Vec::new());
        for ((copy, key, value), found) in wanted.into_iter().zip(&found) {
            if found.as_ref().is_some_and(|found| found.value == value) {
                continue;
            }
            txn.when.push(Compare::ModRevision(key.clone(), revision_of(found.as_ref())));
            txn.then.push(Op::put(key, value));
            wrong.push(copy);
        }
        if !wrong.is_empty() {
            txn.when.push(lead.compare());
            txn.when.extend_from_slice(state.compares());
            let names: Vec<&str> = wrong.iter().map(|copy| copy.doc().pattern).collect();
            by.log(&mut txn, keys, act("correct-mirror", names.join(", ")));
        }
        Ok((txn, wrong))
    };
    change(store, plan).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn any_copy_turns_off_what_cke_would_do_besides() {
        let without = Keys::new("/sabakan/", "/states/");
        let keys = without.clone().with_mirror("/cke/");
        let document = json!({ "name": "c", "service_subnet": "10.68.0.0/16", "nodes": [] });
        let configuration = Configuration::parse(document).expect("a configuration");
        let cluster = Some((&configuration, Revision(7)));
        let constraints = Some(&Constraints { maximum_repair_queue_entries: 3, ..Constraints::default() });
        let names = |copies: Vec<Copy>| copies.into_iter().map(|(_, key, _)| key).collect::<Vec<_>>();
        let switches = ["/cke/sabakan/disabled", "/cke/auto-repair/disabled", "/cke/repairs/disabled"];
        for (cluster, constraints, expected) in [
            (None, None, vec![]),
            (None, constraints, vec!["/cke/constraints"]),
            (cluster, None, vec!["/cke/cluster", "/cke/cluster-revision"]),
            (cluster, constraints, vec!["/cke/cluster", "/cke/cluster-revision", "/cke/constraints"]),
        ] {
            let all = if expected.is_empty() { vec![] } else { [expected, switches.to_vec()].concat() };
            assert_eq!(names(copies(&keys, cluster, constraints)), all);
            assert_eq!(names(copies(&without, cluster, constraints)), Vec::<String>::new());
        }
        let all = copies(&keys, cluster, constraints);
        assert_eq!(all.iter().map(|(copy, ..)| *copy).collect::<Vec<_>>(), MirroredKey::ALL, "the documented keys");
        for (copy, _, value) in all.iter().filter(|(copy, ..)| MirroredKey::SWITCHES.contains(copy)) {
            assert_eq!(value, "true", "{copy:?}");
        }
    }
}
