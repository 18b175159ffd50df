//! The Kubernetes cluster: what people ask of it, its configuration, and the plans that made it. A plan is written together with the
//! configuration it made, and only if nothing it was made from has changed, no matter by whom.

use std::convert::Infallible;

use sabakan_domain::{
    audit::Category,
    cluster::{
        config::Configuration,
        constraints::Constraints,
        history::{KeptPlan, KeptResult, Room},
        template::Template,
    },
};
use serde_json::Value;

use super::{
    ChangeError, all,
    audit::{Act, By},
    change, get_one,
    leaders::Lead,
    mirror, revision_of, write,
};
use crate::{
    Compare, KeyValue, Op, Revision, Store, StoreError, Txn, TxnOutcome,
    keys::Keys,
    limits,
    records::{self, ConfigurationRecord, ConstraintsRecord, PlanNumbersRecord, PlanRecord},
};

/// As much of a plan as one value holds. `keep` says what is kept with so much room.
pub fn fit(keep: impl Fn(Room) -> KeptPlan) -> KeptPlan {
    let mut room = limits::PLAN_ROOM;
    loop {
        let plan = keep(room);
        let fits = records::encode(&PlanRecord::from(&plan)).len() <= limits::PLAN_BYTES_MAX;
        match room.half() {
            Some(half) if !fits => room = half,
            _ => return plan,
        }
    }
}

/// Everything about the cluster at one revision.
#[derive(Debug, Clone, Default)]
pub struct ClusterState {
    /// What it shall look like, and since which revision.
    pub template: Option<(Template, Revision)>,
    /// What it looks like.
    pub configuration: Option<Configured>,
    /// Which machines may be used, as somebody wrote it; `None`: the defaults.
    pub variables: Option<String>,
    /// What it must keep to; `None`: the defaults.
    pub constraints: Option<Constraints>,
    /// The planner does nothing.
    pub disabled: bool,
    /// Numbers of the first plan that is kept and of the next one.
    pub plans: (u64, u64),
    /// How many keys hold the nodes of the configuration.
    parts: usize,
    compares: Vec<Compare>,
}

/// A configuration, and what it was made from.
#[derive(Debug, Clone)]
pub struct Configured {
    /// The configuration.
    pub configuration: Configuration,
    /// The revision of its template; `Revision::NONE`: none.
    pub template_revision: Revision,
    /// The plan that made it; `None`: somebody wrote it by hand.
    pub plan: Option<u64>,
    /// When it was written.
    pub revision: Revision,
}

impl ClusterState {
    /// What must still be so when something is written that was decided with it.
    pub(super) fn compares(&self) -> &[Compare] {
        &self.compares
    }

    /// Whether the template is another one than the configuration was made from.
    pub fn template_changed(&self) -> bool {
        let made_from = self.configuration.as_ref().map_or(Revision::NONE, |configured| configured.template_revision);
        self.template.as_ref().is_some_and(|(_, revision)| *revision != made_from)
    }
}

/// Reads everything about the cluster, as of one moment.
pub async fn read(store: &dyn Store, keys: &Keys) -> Result<ClusterState, StoreError> {
    let (items, _) = all(store, keys.cluster(), None).await?;
    let find = |key: String| items.iter().find(|kv| kv.key == key);
    let (template, constraints) = (find(keys.cluster_template()), find(keys.cluster_constraints()));
    let (variables, disabled) = (find(keys.cluster_variables()), find(keys.cluster_disabled()));
    let (configuration, numbers) = (find(keys.cluster_configuration()), find(keys.cluster_plan_numbers()));
    let numbers = numbers.map(parse::<PlanNumbersRecord>).transpose()?;
    let mut state = ClusterState {
        template: template.map(template_of).transpose()?,
        configuration: None,
        variables: variables.map(|kv| String::from_utf8_lossy(&kv.value).into_owned()),
        constraints: constraints.map(records::decode::<ConstraintsRecord, _>).transpose()?,
        disabled: disabled.is_some(),
        plans: numbers.map_or((1, 1), |numbers| (numbers.first, numbers.next)),
        parts: 0,
        compares: vec![
            Compare::ModRevision(keys.cluster_template(), revision_of(template)),
            Compare::ModRevision(keys.cluster_constraints(), revision_of(constraints)),
            Compare::ModRevision(keys.cluster_variables(), revision_of(variables)),
            Compare::ModRevision(keys.cluster_disabled(), revision_of(disabled)),
            Compare::ModRevision(keys.cluster_configuration(), revision_of(configuration)),
        ],
    };
    if let Some(kv) = configuration {
        let record: ConfigurationRecord = parse(kv)?;
        state.parts = record.parts;
        state.configuration = Some(assemble(keys, kv, record, find)?);
    }
    Ok(state)
}

/// When the configuration was written last; `Revision::NONE`: there is none. Cheap, unlike reading thousands of nodes.
pub async fn configuration_revision(store: &dyn Store, keys: &Keys) -> Result<Revision, StoreError> {
    let found = store.get_many(vec![keys.cluster_configuration()]).await?.values;
    Ok(revision_of(found.iter().flatten().next()))
}

fn template_of(kv: &KeyValue) -> Result<(Template, Revision), StoreError> {
    let template = Template::stored(parse(kv)?).map_err(|problems| {
        let reason = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        corrupt(kv, reason)
    })?;
    Ok((template, kv.mod_revision))
}

fn assemble<'a>(
    keys: &Keys,
    kv: &KeyValue,
    record: ConfigurationRecord,
    find: impl Fn(String) -> Option<&'a KeyValue>,
) -> Result<Configured, StoreError> {
    let ConfigurationRecord { template_revision, plan, parts, mut rest } = record;
    let mut nodes = Vec::new();
    for part in 0..parts {
        let key = keys.cluster_nodes(part);
        let part = find(key.clone()).ok_or_else(|| corrupt(kv, format!("{key} is missing")))?;
        nodes.extend(parse::<Vec<Value>>(part)?);
    }
    rest.insert("nodes".to_owned(), Value::Array(nodes));
    let configuration = Configuration::parse(Value::Object(rest)).map_err(|problems| {
        let reason = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        corrupt(kv, reason)
    })?;
    let template_revision = Revision(template_revision);
    Ok(Configured { configuration, template_revision, plan, revision: kv.mod_revision })
}

fn parse<T: serde::de::DeserializeOwned>(kv: &KeyValue) -> Result<T, StoreError> {
    serde_json::from_slice(&kv.value).map_err(|error| corrupt(kv, error.to_string()))
}

fn corrupt(kv: &KeyValue, reason: String) -> StoreError {
    StoreError::Corrupt { place: kv.key.clone(), reason }
}

/// Stores a template.
pub async fn put_template(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    template: &Template,
) -> Result<(), ChangeError<Infallible>> {
    let op = Op::put(keys.cluster_template(), records::encode(&template.document));
    let detail = format!("{} worker templates", template.workers.len());
    write(store, keys, by, op, act("put-template", detail)).await
}

/// Says which machines may be used; `None`: the defaults.
pub async fn put_variables(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    text: Option<&str>,
) -> Result<(), ChangeError<Infallible>> {
    let key = keys.cluster_variables();
    let (op, act) = match text {
        Some(text) => (Op::put(key, text.to_owned()), act("put-variables", text.to_owned())),
        None => (Op::Delete(key), act("delete-variables", String::new())),
    };
    write(store, keys, by, op, act).await
}

/// Has the planner work, or not.
pub async fn set_enabled(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    enabled: bool,
) -> Result<(), ChangeError<Infallible>> {
    let key = keys.cluster_disabled();
    let (op, action) = if enabled { (Op::Delete(key), "enable") } else { (Op::put(key, ""), "disable") };
    write(store, keys, by, op, act(action, String::new())).await
}

/// Changes the constraints. `decide` gets what is there.
pub async fn edit_constraints<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    decide: impl Fn(Constraints) -> Result<Constraints, R>,
) -> Result<Constraints, ChangeError<R>> {
    let plan = || async {
        let key = keys.cluster_constraints();
        let found = get_one(store, key.clone()).await?;
        let before = found.as_ref().map(records::decode::<ConstraintsRecord, Constraints>).transpose()?;
        let after = decide(before.unwrap_or_default()).map_err(ChangeError::Refused)?;
        let value = records::encode(&ConstraintsRecord::from(&after));
        let mut txn = Txn {
            when: vec![Compare::ModRevision(key.clone(), revision_of(found.as_ref()))],
            then: vec![Op::put(key, value)],
        };
        txn.then.extend(mirror::puts(keys, None, Some(&after)));
        let changed = |((name, old), (_, new)): ((&str, u32), (&str, u32))| {
            (old != new).then(|| format!("{name} {old} -> {new}"))
        };
        let detail: Vec<String> =
            before.unwrap_or_default().entries().into_iter().zip(after.entries()).filter_map(changed).collect();
        by.log(&mut txn, keys, act("put-constraints", detail.join(", ")));
        Ok((txn, after))
    };
    change(store, plan).await
}

/// Stores a configuration that somebody wrote. The template it was last made from stays noted.
pub async fn put_configuration<R: std::error::Error + 'static>(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    configuration: &Configuration,
    check: impl Fn(&ClusterState) -> Result<(), R>,
) -> Result<(), ChangeError<R>> {
    let plan = || async {
        let state = read(store, keys).await?;
        check(&state).map_err(ChangeError::Refused)?;
        let mut txn = Txn { when: state.compares.clone(), then: vec![] };
        let made_from = state.configuration.as_ref().map_or(Revision::NONE, |before| before.template_revision);
        put(&mut txn, keys, &state, configuration, made_from, None);
        by.log(&mut txn, keys, act("put-configuration", format!("{} nodes, by hand", configuration.nodes.len())));
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// Stores a plan and the configuration it made. `false`: something it was made from has changed, or the lead is lost; nothing was
/// written.
pub async fn put_plan(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    lead: &Lead,
    state: &ClusterState,
    plan: &KeptPlan,
    made: Option<&Configuration>,
) -> Result<bool, StoreError> {
    let (first, next) = state.plans;
    let numbers_key = keys.cluster_plan_numbers();
    let mut txn = Txn { when: state.compares.clone(), then: vec![] };
    txn.when.push(lead.compare());
    txn.when.push(Compare::Missing(keys.cluster_plan(plan.number)));
    if let Some(configuration) = made {
        let made_from = state.template.as_ref().map_or(Revision::NONE, |(_, revision)| *revision);
        put(&mut txn, keys, state, configuration, made_from, Some(plan.number));
    }
    txn.then.push(Op::put(keys.cluster_plan(plan.number), records::encode(&PlanRecord::from(plan))));
    // One comes, one goes.
    let kept_from = first.max((next + 1).saturating_sub(limits::PLANS_KEPT));
    txn.then.extend((first..kept_from).map(|number| Op::Delete(keys.cluster_plan(number))));
    let numbers = PlanNumbersRecord { first: kept_from, next: next + 1 };
    txn.then.push(Op::put(numbers_key, records::encode(&numbers)));
    by.log(&mut txn, keys, act("plan", summary(plan)));
    Ok(matches!(store.commit(txn).await?, TxnOutcome::Committed(_)))
}

/// The plan with a number.
pub async fn find_plan(store: &dyn Store, keys: &Keys, number: u64) -> Result<Option<KeptPlan>, StoreError> {
    let found = get_one(store, keys.cluster_plan(number)).await?;
    found.map(|kv| records::decode::<PlanRecord, _>(&kv)).transpose()
}

/// Plans that are kept, the newest first, at most so many, those before a number if one is given.
pub async fn plans(
    store: &dyn Store,
    keys: &Keys,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<KeptPlan>, StoreError> {
    let Some(kv) = get_one(store, keys.cluster_plan_numbers()).await? else { return Ok(Vec::new()) };
    let PlanNumbersRecord { first, next } = parse(&kv)?;
    let end = before.unwrap_or(next).min(next);
    let begin = first.max(end.saturating_sub(u64::try_from(limit).unwrap_or(u64::MAX)));
    let wanted: Vec<String> = (begin..end).rev().map(|number| keys.cluster_plan(number)).collect();
    let found = store.get_many(wanted).await?.values;
    found.into_iter().flatten().map(|kv| records::decode::<PlanRecord, _>(&kv)).collect()
}

/// Replaces the configuration, its nodes and its copies.
fn put(
    txn: &mut Txn,
    keys: &Keys,
    state: &ClusterState,
    configuration: &Configuration,
    made_from: Revision,
    plan: Option<u64>,
) {
    let document = configuration.document();
    let nodes = document["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let parts: Vec<&[Value]> = nodes.chunks(limits::NODES_IN_PART).collect();
    let record = ConfigurationRecord {
        template_revision: made_from.0,
        plan,
        parts: parts.len(),
        rest: configuration.rest.clone(),
    };
    txn.then.push(Op::put(keys.cluster_configuration(), records::encode(&record)));
    for (number, part) in parts.iter().enumerate() {
        txn.then.push(Op::put(keys.cluster_nodes(number), records::encode(part)));
    }
    txn.then.extend((parts.len()..state.parts).map(|number| Op::Delete(keys.cluster_nodes(number))));
    txn.then.extend(mirror::puts(keys, Some((configuration, made_from)), state.constraints.as_ref()));
}

fn summary(plan: &KeptPlan) -> String {
    let number = plan.number;
    match &plan.result {
        KeptResult::Changed { operation, changes, left_out } => {
            format!("plan {number}: {operation}, {} changes", changes.len() + left_out)
        }
        KeptResult::Blocked { reason, .. } => format!("plan {number}: blocked: {reason}"),
        KeptResult::Settled => format!("plan {number}: nothing left to do"),
    }
}

pub(super) fn act(action: &'static str, detail: String) -> Act {
    Act { category: Category::Cluster, instance: "cluster".to_owned(), action, detail }
}
