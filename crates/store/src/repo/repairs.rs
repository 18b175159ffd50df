//! The repair queue, the reboot queue and incidents. What comes into the queue by itself is counted and added in one transaction that
//! compares everything it was decided with, so that no number of servers, restarts or repeated reports adds more than allowed (G8).

pub mod unreadable;

use std::{collections::BTreeMap, convert::Infallible, net::Ipv4Addr, sync::Arc};

use sabakan_domain::{
    audit::Category,
    cluster::shape::Problem,
    machine::Machine,
    repair::{
        enqueue::NewEntry,
        entry::{Backoff, Entry, Status},
        incident::{Incident, Phase},
        reboot::{RebootEntry, RebootStatus},
        round::Round,
        settings::{RepairSettings, Setting},
    },
    words::Serial,
};

use super::{
    ChangeError, all,
    audit::{Act, By},
    change, change_many,
    cluster::ClusterState,
    conditional::Conditional,
    get_one,
    leaders::Lead,
    revision_of, write,
};
use crate::{
    Compare, KeyValue, Op, Revision, Store, StoreError, Txn, TxnOutcome,
    keys::Keys,
    limits,
    records::{self, IncidentRecord, RebootRecord, RepairRecord, RepairSettingsRecord},
};

/// Everything about repair at one moment.
#[derive(Debug, Clone)]
pub struct RepairState {
    /// Entries of the repair queue, by index.
    pub entries: Vec<Entry>,
    /// Repairs may be begun.
    pub enabled: bool,
    /// Broken machines come into the queue by themselves.
    pub automatic: bool,
    /// Which machines count as broken, as somebody wrote it; `None`: the defaults.
    pub variables: Option<String>,
    /// What an operator chose.
    pub settings: RepairSettings,
    /// Entries of the reboot queue, by index.
    pub reboots: Vec<RebootEntry>,
    /// Reboots may be begun.
    pub reboots_enabled: bool,
    /// Incidents, by number.
    pub incidents: Vec<Incident>,
    next: u64,
    next_incident: u64,
    /// When each incident was written, by number.
    incident_revisions: BTreeMap<u64, Revision>,
    compares: Vec<Compare>,
}

/// Why an entry is not added or changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueueRefusal {
    /// The machine is being repaired already.
    #[error("repair {index} of {address} is {status}; a machine is repaired once at a time")]
    Active {
        /// Its entry.
        index: u64,
        /// The machine.
        address: Ipv4Addr,
        /// Where that is.
        status: Status,
    },
    /// There are too many.
    #[error("the queue has {max} entries, which is the most there may be; delete finished ones", max = limits::QUEUE_ENTRIES_MAX)]
    Full,
    /// More than one transaction takes.
    #[error("{0} nodes are more than {max}, which is the most that is taken at once; divide them", max = limits::REBOOTS_AT_ONCE)]
    TooMany(usize),
    /// The incident is over.
    #[error("incident {0} is over already")]
    Over(u64),
}

/// Reads everything about repair, as of one moment. All of it or nothing: an entry that cannot be read may be the repair of any machine,
/// so nothing must be decided without it.
pub async fn read(store: &dyn Store, keys: &Keys) -> Result<RepairState, StoreError> {
    let (repairs, at) = all(store, keys.repairs(), None).await?;
    let (automatic, _) = all(store, keys.auto_repair(), Some(at)).await?;
    let (reboots, _) = all(store, keys.reboots(), Some(at)).await?;
    let (incidents, _) = all(store, keys.incidents(), Some(at)).await?;
    let find = |items: &[KeyValue], key: String| items.iter().find(|kv| kv.key == key).cloned();
    let next = find(&repairs, keys.repairs_next());
    let next_incident = find(&incidents, keys.incidents_next());
    let settings = find(&automatic, keys.auto_repair_settings());
    let variables = find(&automatic, keys.auto_repair_variables());
    let automatic_off = find(&automatic, keys.auto_repair_disabled());
    let compare = |key: String, kv: &Option<KeyValue>| Compare::ModRevision(key, revision_of(kv.as_ref()));
    let data = |key: &str| key.contains("/data/");
    let decode = |items: &[KeyValue]| -> Vec<KeyValue> { items.iter().filter(|kv| data(&kv.key)).cloned().collect() };
    let stored = decode(&incidents);
    let incidents: Vec<Incident> = stored.iter().map(records::decode::<IncidentRecord, _>).collect::<Result<_, _>>()?;
    let incident_revisions = incidents.iter().zip(&stored).map(|(incident, kv)| (incident.number, kv.mod_revision));
    Ok(RepairState {
        incident_revisions: incident_revisions.collect(),
        entries: decode(&repairs).iter().map(records::decode::<RepairRecord, _>).collect::<Result<_, _>>()?,
        enabled: find(&repairs, keys.repairs_disabled()).is_none(),
        automatic: automatic_off.is_none(),
        variables: variables.as_ref().map(|kv| String::from_utf8_lossy(&kv.value).into_owned()),
        settings: settings.as_ref().map(records::decode::<RepairSettingsRecord, _>).transpose()?.unwrap_or_default(),
        reboots: decode(&reboots).iter().map(records::decode::<RebootRecord, _>).collect::<Result<_, _>>()?,
        reboots_enabled: find(&reboots, keys.reboots_disabled()).is_none(),
        incidents,
        next: number(next.as_ref())?,
        next_incident: number(next_incident.as_ref())?.max(1),
        compares: vec![
            compare(keys.repairs_next(), &next),
            compare(keys.incidents_next(), &next_incident),
            compare(keys.auto_repair_settings(), &settings),
            compare(keys.auto_repair_variables(), &variables),
            compare(keys.auto_repair_disabled(), &automatic_off),
        ],
    })
}

/// The entry of the repair queue with an index.
pub async fn find(store: &dyn Store, keys: &Keys, index: u64) -> Result<Option<Entry>, StoreError> {
    let found = get_one(store, keys.repair(index)).await?;
    found.map(|kv| records::decode::<RepairRecord, _>(&kv)).transpose()
}

fn number(kv: Option<&KeyValue>) -> Result<u64, StoreError> {
    let Some(kv) = kv else { return Ok(0) };
    let text = String::from_utf8_lossy(&kv.value);
    text.parse().map_err(|_| StoreError::Corrupt { place: kv.key.clone(), reason: format!("{text:?} is no number") })
}

/// Writes what a round decided, if nothing it was decided with has changed and the lead is not lost. `false`: nothing was written.
pub async fn put_round(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    lead: &Lead,
    state: &RepairState,
    cluster: &ClusterState,
    round: &Round,
) -> Result<bool, StoreError> {
    let mut txn = Txn { when: state.compares.clone(), then: vec![] };
    txn.when.extend_from_slice(cluster.compares());
    txn.when.push(lead.compare());
    for (index, new) in (state.next..).zip(&round.enqueue) {
        let entry = new.queued(index, by.actor.called(), by.now);
        put_entry(&mut txn, keys, &entry);
        let detail = format!("repair {index} of {}: {}", entry.address, entry.operation);
        by.log(&mut txn, keys, act(&instance(&entry), "enqueue", detail));
    }
    if !round.enqueue.is_empty() {
        let next = state.next + u64::try_from(round.enqueue.len()).unwrap_or(u64::MAX);
        txn.then.push(Op::put(keys.repairs_next(), next.to_string()));
    }
    for (number, opened) in (state.next_incident..).zip(&round.opened) {
        let incident = Incident { number, ..opened.clone() };
        txn.then.push(Op::put(keys.incident(number), records::encode(&IncidentRecord::from(&incident))));
        by.log(&mut txn, keys, about(number, "open-incident", incident.because.clone()));
    }
    if !round.opened.is_empty() {
        let next = state.next_incident + u64::try_from(round.opened.len()).unwrap_or(u64::MAX);
        txn.then.push(Op::put(keys.incidents_next(), next.to_string()));
        txn.then.extend(forgotten(state, round).map(|number| Op::Delete(keys.incident(number))));
    }
    for incident in &round.changed {
        // Somebody may have acknowledged it meanwhile.
        let read = state.incident_revisions.get(&incident.number).copied().unwrap_or(Revision::NONE);
        txn.when.push(Compare::ModRevision(keys.incident(incident.number), read));
        txn.then.push(Op::put(keys.incident(incident.number), records::encode(&IncidentRecord::from(incident))));
        let detail = format!("{}, {} machines", incident.phase.as_str(), incident.member_count);
        by.log(&mut txn, keys, about(incident.number, "change-incident", detail));
    }
    Ok(matches!(store.commit(txn).await?, TxnOutcome::Committed(_)))
}

/// Incidents that are over and no longer kept. One that changes now is not among them.
fn forgotten(state: &RepairState, round: &Round) -> impl Iterator<Item = u64> {
    let over = state.incidents.iter().filter(|incident| matches!(incident.phase, Phase::Recovered { .. }));
    let over = over.filter(|incident| round.changed.iter().all(|changed| changed.number != incident.number));
    let over: Vec<u64> = over.map(|incident| incident.number).collect();
    let surplus = over.len().saturating_sub(limits::INCIDENTS_KEPT);
    over.into_iter().take(surplus.min(limits::FORGOTTEN_AT_ONCE))
}

fn put_entry(txn: &mut Txn, keys: &Keys, entry: &Entry) {
    txn.then.push(Op::put(keys.repair(entry.index), records::encode(&RepairRecord::from(entry))));
}

/// Adds an entry by hand. The limits do not count it before, and count it from now on.
pub async fn add(store: &dyn Store, keys: &Keys, by: &By, new: &NewEntry) -> Result<Entry, ChangeError<QueueRefusal>> {
    let plan = || async {
        let state = read(store, keys).await?;
        let active = |entry: &&Entry| entry.address == new.address && !entry.is_finished();
        if let Some(entry) = state.entries.iter().find(active) {
            let Entry { index, address, status, .. } = *entry;
            return Err(ChangeError::Refused(QueueRefusal::Active { index, address, status }));
        }
        if state.entries.len() >= limits::QUEUE_ENTRIES_MAX {
            return Err(ChangeError::Refused(QueueRefusal::Full));
        }
        let entry = new.queued(state.next, by.actor.called(), by.now);
        let mut txn = Txn { when: vec![state.compares[0].clone()], then: vec![] };
        put_entry(&mut txn, keys, &entry);
        txn.then.push(Op::put(keys.repairs_next(), (state.next + 1).to_string()));
        let detail = format!("repair {} of {}: {}, by hand", entry.index, entry.address, entry.operation);
        by.log(&mut txn, keys, act(&instance(&entry), "enqueue", detail));
        Ok((txn, entry))
    };
    change(store, plan).await
}

/// Under what else a change is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct Under<'a> {
    /// Only while this lasts.
    pub lead: Option<&'a Lead>,
    /// Only while this is switched on: somebody who was told that it is off must see nothing begin after that.
    pub switch: Option<Switch>,
}

impl<'a> Under<'a> {
    /// Only while the lead lasts.
    pub fn lead(lead: &'a Lead) -> Under<'a> {
        Under { lead: Some(lead), switch: None }
    }

    /// Reads keys, and whether what the change depends on is switched off, as of one moment.
    async fn read(
        &self,
        store: &dyn Store,
        keys: &Keys,
        mut wanted: Vec<String>,
    ) -> Result<(Vec<Option<KeyValue>>, bool), StoreError> {
        let count = wanted.len();
        wanted.extend(self.switch.map(|switch| switch.key(keys)));
        let mut found = store.get_many(wanted).await?.values;
        let switch = found.split_off(count);
        Ok((found, switch.into_iter().flatten().next().is_some()))
    }

    /// A store in which everything that is written is written under this.
    pub fn conditional(&self, store: Arc<dyn Store>, keys: &Keys) -> Conditional {
        Conditional::new(store, self.compares(keys).collect())
    }

    /// Reads what is about to be begun once more, as of one moment at which all of this holds, or says what does not. `Ok` is as good as
    /// a transaction that compares it.
    async fn look(&self, store: &dyn Store, keys: &Keys, key: String) -> Result<Result<KeyValue, Bar>, StoreError> {
        let switch = self.switch.map(|switch| switch.key(keys));
        let mut wanted = vec![key];
        wanted.extend(self.lead.map(|lead| lead.key().to_owned()));
        wanted.extend(switch);
        let mut found = store.get_many(wanted).await?.values.into_iter();
        let kv = found.next().flatten();
        if let Some(lead) = self.lead
            && !lead.is_proved_by(found.next().flatten().as_ref())
        {
            return Ok(Err(Bar::Lead));
        }
        let is_off = found.next().flatten().is_some();
        Ok(if is_off { Err(Bar::Switch) } else { kv.ok_or(Bar::Gone) })
    }

    fn compares(&self, keys: &Keys) -> impl Iterator<Item = Compare> {
        let switch = self.switch.map(|switch| Compare::Missing(switch.key(keys)));
        self.lead.map(Lead::compare).into_iter().chain(switch)
    }
}

/// Why nothing may be begun for an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bar {
    /// Another server leads, or nobody.
    Lead,
    /// It is switched off.
    Switch,
    /// There is no such entry any more.
    Gone,
}

/// The entry of the repair queue with an index, if something may be begun for it now.
pub async fn find_under(
    store: &dyn Store,
    keys: &Keys,
    under: Under<'_>,
    index: u64,
) -> Result<Result<Entry, Bar>, StoreError> {
    match under.look(store, keys, keys.repair(index)).await? {
        Ok(kv) => Ok(Ok(records::decode::<RepairRecord, _>(&kv)?)),
        Err(bar) => Ok(Err(bar)),
    }
}

/// The same of the reboot queue.
pub async fn find_reboot_under(
    store: &dyn Store,
    keys: &Keys,
    under: Under<'_>,
    index: u64,
) -> Result<Result<RebootEntry, Bar>, StoreError> {
    match under.look(store, keys, keys.reboot(index)).await? {
        Ok(kv) => Ok(Ok(records::decode::<RebootRecord, _>(&kv)?)),
        Err(bar) => Ok(Err(bar)),
    }
}

/// Changes an entry, and says what it is then. `decide` gets it as it is; `None` from it writes nothing, and is what is said.
pub async fn update(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    under: Under<'_>,
    index: u64,
    action: &'static str,
    decide: impl Fn(&Entry) -> Option<Entry>,
) -> Result<Option<Entry>, ChangeError<Infallible>> {
    let begun = Begun { action, ..Begun::default() };
    begin(store, keys, by, under, index, begun, |entry, _| decide(entry)).await
}

/// Something that is begun for an entry.
#[derive(Debug, Clone, Copy, Default)]
pub struct Begun<'a> {
    /// What, for the audit log.
    pub action: &'static str,
    /// More about it, for the audit log.
    pub because: &'a str,
    /// The machine it is begun with. Nothing is written if its record changes until then: somebody may have just called it healthy.
    pub machine: Option<&'a Serial>,
}

/// The same, knowing the machine as it is at that moment; `None`: it is not registered, or none was named.
pub async fn begin(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    under: Under<'_>,
    index: u64,
    begun: Begun<'_>,
    decide: impl Fn(&Entry, Option<&Machine>) -> Option<Entry>,
) -> Result<Option<Entry>, ChangeError<Infallible>> {
    let plan = || async {
        let key = keys.repair(index);
        let machine_key = begun.machine.map(|serial| keys.machine(serial));
        let wanted = [key.clone()].into_iter().chain(machine_key.clone()).collect();
        let (found, is_off) = under.read(store, keys, wanted).await?;
        let mut found = found.into_iter();
        let kv = found.next().flatten().ok_or(ChangeError::NotFound)?;
        if is_off {
            return Ok((Txn::default(), None));
        }
        let before: Entry = records::decode::<RepairRecord, _>(&kv)?;
        let machine = found.next().flatten();
        let known = machine.as_ref().map(records::decode_machine).transpose()?;
        let Some(after) = decide(&before, known.as_ref()) else { return Ok((Txn::default(), None)) };
        let mut txn = Txn { when: vec![Compare::ModRevision(key, kv.mod_revision)], then: vec![] };
        txn.when.extend(under.compares(keys));
        txn.when.extend(machine_key.map(|key| Compare::ModRevision(key, revision_of(machine.as_ref()))));
        put_changed(&mut txn, keys, by, &begun, &after);
        Ok((txn, Some(after)))
    };
    change(store, plan).await
}

fn put_changed(txn: &mut Txn, keys: &Keys, by: &By, begun: &Begun<'_>, after: &Entry) {
    put_entry(txn, keys, after);
    let Entry { index, status, step, step_status, .. } = after;
    let mut detail = format!("repair {index}: {status}/{}, step {step}", step_status.as_str());
    if !begun.because.is_empty() {
        detail = format!("{detail}; {}", begun.because);
    }
    by.log(txn, keys, act(&instance(after), begun.action, detail));
}

/// Changes many entries, a bounded number of them in one transaction; which were changed. `decide` gets each as it is; `None` from it
/// leaves it so.
pub async fn update_many(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    indexes: &[u64],
    action: &'static str,
    decide: impl Fn(&Entry) -> Option<Entry>,
) -> Result<Vec<u64>, ChangeError<Infallible>> {
    let plan = |txn: &mut Txn, _, kv: &KeyValue| {
        let after = decide(&records::decode::<RepairRecord, _>(kv)?);
        if let Some(after) = &after {
            put_changed(txn, keys, by, &Begun { action, ..Begun::default() }, after);
        }
        Ok(after.is_some())
    };
    change_many(store, &[], indexes, |index| keys.repair(index), plan).await
}

/// Takes entries out of the queue, those of them that somebody wants gone; which.
pub async fn remove(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    lead: &Lead,
    indexes: &[u64],
) -> Result<Vec<u64>, ChangeError<Infallible>> {
    let plan = |txn: &mut Txn, index, kv: &KeyValue| {
        let entry: Entry = records::decode::<RepairRecord, _>(kv)?;
        if entry.deleted {
            txn.then.push(Op::Delete(kv.key.clone()));
            by.log(txn, keys, act(&instance(&entry), "dequeue", format!("repair {index}")));
        }
        Ok(entry.deleted)
    };
    change_many(store, &[lead.compare()], indexes, |index| keys.repair(index), plan).await
}

/// Says that a person has looked at an incident: its machines may be repaired.
pub async fn edit_incident(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    number: u64,
    decide: impl Fn(Incident) -> Result<Incident, QueueRefusal>,
) -> Result<Incident, ChangeError<QueueRefusal>> {
    let plan = || async {
        let key = keys.incident(number);
        let kv = get_one(store, key.clone()).await?.ok_or(ChangeError::NotFound)?;
        let after = decide(records::decode::<IncidentRecord, _>(&kv)?).map_err(ChangeError::Refused)?;
        let mut txn = Txn {
            when: vec![Compare::ModRevision(key.clone(), kv.mod_revision)],
            then: vec![Op::put(key, records::encode(&IncidentRecord::from(&after)))],
        };
        by.log(&mut txn, keys, about(number, "acknowledge-incident", acknowledgement(&after)));
        Ok((txn, after))
    };
    change(store, plan).await
}

/// What a person says about an incident, and about which group.
fn acknowledgement(incident: &Incident) -> String {
    match &incident.phase {
        Phase::Acknowledged { reason, .. } if !reason.is_empty() => format!("{}: {reason}", incident.group),
        _ => incident.group.to_string(),
    }
}

/// A switch of repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// Repairs are begun.
    Queue,
    /// Broken machines come into the queue by themselves.
    Automatic,
    /// Reboots are begun.
    Reboots,
}

impl Switch {
    /// Is there when it is off.
    fn key(self, keys: &Keys) -> String {
        match self {
            Switch::Queue => keys.repairs_disabled(),
            Switch::Automatic => keys.auto_repair_disabled(),
            Switch::Reboots => keys.reboots_disabled(),
        }
    }
}

/// Whether a switch is on. It is one key: who asks for it shall not wait for the queues, nor hear of what is damaged in them.
pub async fn is_enabled(store: &dyn Store, keys: &Keys, switch: Switch) -> Result<bool, StoreError> {
    Ok(get_one(store, switch.key(keys)).await?.is_none())
}

/// Turns a switch.
pub async fn set_enabled(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    switch: Switch,
    enabled: bool,
) -> Result<(), ChangeError<Infallible>> {
    let key = switch.key(keys);
    let name = match switch {
        Switch::Queue => "repair-queue",
        Switch::Automatic => "auto-repair",
        Switch::Reboots => "reboot-queue",
    };
    let (op, action) = if enabled { (Op::Delete(key), "enable") } else { (Op::put(key, ""), "disable") };
    write(store, keys, by, op, act(name, action, String::new())).await
}

/// Says which machines count as broken; `None`: the defaults.
pub async fn put_variables(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    text: Option<&str>,
) -> Result<(), ChangeError<Infallible>> {
    let key = keys.auto_repair_variables();
    let (op, detail) = match text {
        Some(text) => (Op::put(key, text.to_owned()), text.to_owned()),
        None => (Op::Delete(key), "defaults".to_owned()),
    };
    write(store, keys, by, op, act("auto-repair", "put-variables", detail)).await
}

/// What somebody wants set cannot be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadSetting(pub Problem);

/// Changes settings.
pub async fn edit_settings(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    decide: impl Fn(RepairSettings) -> Result<RepairSettings, BadSetting>,
) -> Result<RepairSettings, ChangeError<BadSetting>> {
    let plan = || async {
        let key = keys.auto_repair_settings();
        let found = get_one(store, key.clone()).await?;
        let before = found.as_ref().map(records::decode::<RepairSettingsRecord, RepairSettings>).transpose()?;
        let before = before.unwrap_or_default();
        let after = decide(before.clone()).map_err(ChangeError::Refused)?;
        if after == before {
            return Ok((Txn::default(), after));
        }
        let value = records::encode(&RepairSettingsRecord::from(&after));
        let mut txn = Txn {
            when: vec![Compare::ModRevision(key.clone(), revision_of(found.as_ref()))],
            then: vec![Op::put(key, value)],
        };
        let changed = |setting: Setting| {
            let (old, new) = (before.get(setting), after.get(setting));
            (old != new).then(|| format!("{setting} {old} -> {new}"))
        };
        let detail: Vec<String> = Setting::ALL.into_iter().filter_map(changed).collect();
        by.log(&mut txn, keys, act("auto-repair", "put-settings", detail.join(", ")));
        Ok((txn, after))
    };
    change(store, plan).await
}

/// Adds nodes to the reboot queue, all of them or none.
pub async fn add_reboots(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    nodes: &[Ipv4Addr],
) -> Result<Vec<u64>, ChangeError<QueueRefusal>> {
    if nodes.len() > limits::REBOOTS_AT_ONCE {
        return Err(ChangeError::Refused(QueueRefusal::TooMany(nodes.len())));
    }
    let plan = || async {
        let (items, _) = all(store, keys.reboots(), None).await?;
        let next = items.iter().find(|kv| kv.key == keys.reboots_next());
        if items.len() + nodes.len() > limits::QUEUE_ENTRIES_MAX {
            return Err(ChangeError::Refused(QueueRefusal::Full));
        }
        let first = number(next)?;
        let mut txn = Txn { when: vec![Compare::ModRevision(keys.reboots_next(), revision_of(next))], then: vec![] };
        let mut added = Vec::new();
        for (index, node) in (first..).zip(nodes) {
            let status = RebootStatus::Queued;
            let entry = RebootEntry {
                index,
                node: *node,
                status,
                changed_at: None,
                backoff: Backoff::default(),
                note: String::new(),
            };
            txn.then.push(Op::put(keys.reboot(index), records::encode(&RebootRecord::from(&entry))));
            added.push(index);
        }
        let next = first + u64::try_from(nodes.len()).unwrap_or(u64::MAX);
        txn.then.push(Op::put(keys.reboots_next(), next.to_string()));
        let which: Vec<String> =
            (first..).zip(nodes).map(|(index, node)| format!("reboot {index} of {node}")).collect();
        by.log(&mut txn, keys, act("reboot-queue", "add-reboots", which.join("\n")));
        Ok((txn, added))
    };
    change(store, plan).await
}

/// Changes an entry of the reboot queue, and says what it is then; `None` from `decide` takes it out.
pub async fn edit_reboot(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    under: Under<'_>,
    index: u64,
    decide: impl Fn(&RebootEntry) -> Option<RebootEntry>,
) -> Result<Option<RebootEntry>, ChangeError<Infallible>> {
    let plan = || async {
        let key = keys.reboot(index);
        let (found, is_off) = under.read(store, keys, vec![key.clone()]).await?;
        let kv = found.into_iter().flatten().next().ok_or(ChangeError::NotFound)?;
        let before: RebootEntry = records::decode::<RebootRecord, _>(&kv)?;
        if is_off {
            return Ok((Txn::default(), Some(before)));
        }
        let after = decide(&before);
        if after.as_ref() == Some(&before) {
            return Ok((Txn::default(), after));
        }
        let mut txn = Txn { when: vec![Compare::ModRevision(key.clone(), kv.mod_revision)], then: vec![] };
        txn.when.extend(under.compares(keys));
        match &after {
            Some(after) => put_reboot(&mut txn, keys, by, after),
            None => {
                txn.then.push(Op::Delete(key));
                let detail = format!("reboot {index} of {}: gone", before.node);
                by.log(&mut txn, keys, act("reboot-queue", "change-reboot", detail));
            }
        }
        Ok((txn, after))
    };
    change(store, plan).await
}

/// Changes many entries of the reboot queue, a bounded number of them in one transaction; which were changed. `decide` gets each as it
/// is and says what it is then.
pub async fn edit_reboots(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    indexes: &[u64],
    decide: impl Fn(&RebootEntry) -> RebootEntry,
) -> Result<Vec<u64>, ChangeError<Infallible>> {
    let plan = |txn: &mut Txn, _, kv: &KeyValue| {
        let before: RebootEntry = records::decode::<RebootRecord, _>(kv)?;
        let after = decide(&before);
        if after == before {
            return Ok(false);
        }
        put_reboot(txn, keys, by, &after);
        Ok(true)
    };
    change_many(store, &[], indexes, |index| keys.reboot(index), plan).await
}

fn put_reboot(txn: &mut Txn, keys: &Keys, by: &By, after: &RebootEntry) {
    txn.then.push(Op::put(keys.reboot(after.index), records::encode(&RebootRecord::from(after))));
    let detail = format!("reboot {} of {}: {}", after.index, after.node, after.status);
    by.log(txn, keys, act("reboot-queue", "change-reboot", detail));
}

fn instance(entry: &Entry) -> String {
    entry.serial.as_ref().map_or_else(|| entry.address.to_string(), Serial::to_string)
}

fn act(instance: &str, action: &'static str, detail: String) -> Act {
    Act { category: Category::Repair, instance: instance.to_owned(), action, detail }
}

fn about(incident: u64, action: &'static str, detail: String) -> Act {
    act(&format!("incident {incident}"), action, detail)
}
