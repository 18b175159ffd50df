//! Repair on top of a backend: whatever a change was decided with is compared when it is written (G8). In each case somebody else is
//! faster, between the read and the write.

mod rounds;
mod site;

use std::{net::Ipv4Addr, sync::Arc};

use sabakan_domain::{
    lifecycle::HealthState,
    machine::Machine,
    repair::{
        entry::{Entry, Status, StepStatus},
        incident::{Incident, Phase},
        reboot::{RebootEntry, RebootStatus},
        settings::RepairSettings,
    },
};

use self::site::Site;
use crate::{
    Store, StoreError, limits,
    repo::{
        ChangeError, audit,
        leaders::Lead,
        repairs::{self, BadSetting, Begun, QueueRefusal, Switch, Under},
    },
};

pub(super) async fn a_round_that_anything_changed_under_writes_nothing(store: Arc<dyn Store>, prefix: String) {
    rounds::whatever_changes_refuses_it(&Site::new(store, prefix).await).await;
}

pub(super) async fn a_round_under_a_lost_lead_writes_nothing(store: Arc<dyn Store>, prefix: String) {
    rounds::a_lost_lead_refuses_it(&Site::new(store, prefix).await).await;
}

pub(super) async fn a_round_does_not_overwrite_what_a_person_said(store: Arc<dyn Store>, prefix: String) {
    rounds::a_changed_incident_refuses_it(&Site::new(store, prefix).await).await;
}

/// What a step that begins writes.
fn begun(entry: &Entry) -> Option<Entry> {
    let (status, step_status) = (Status::Processing, StepStatus::Watching);
    (!entry.is_finished()).then(|| Entry { status, step_status, ..entry.clone() })
}

fn rebooting(entry: &RebootEntry) -> Option<RebootEntry> {
    Some(match entry.status {
        RebootStatus::Cancelled => entry.clone(),
        _ => RebootEntry { status: RebootStatus::Rebooting, ..entry.clone() },
    })
}

type Changed<T> = Result<Option<T>, ChangeError<std::convert::Infallible>>;

/// Begins a step, under the lead and while the queue works.
async fn begin(site: &Site, store: &dyn Store, lead: &Lead, index: u64) -> Changed<Entry> {
    let under = Under { lead: Some(lead), switch: Some(Switch::Queue) };
    repairs::update(store, &site.keys, &site.by, under, index, "execute", begun).await
}

/// Begins a reboot, under the lead and while the queue works.
async fn reboot(site: &Site, store: &dyn Store, lead: &Lead, index: u64) -> Changed<RebootEntry> {
    let under = Under { lead: Some(lead), switch: Some(Switch::Reboots) };
    repairs::edit_reboot(store, &site.keys, &site.by, under, index, rebooting).await
}

fn is_conflict<T: std::fmt::Debug>(changed: &Changed<T>) -> bool {
    matches!(changed, Err(ChangeError::Store(StoreError::Conflict { .. })))
}

pub(super) async fn nothing_begins_in_a_queue_that_was_disabled(store: Arc<dyn Store>, prefix: String) {
    let site = Site::new(store, prefix).await;
    let entry = site.add(1).await;
    let node = site.add_reboot(1).await;
    for early in [true, false] {
        for switch in [Switch::Queue, Switch::Reboots] {
            let off = site.clone().switch(switch, false);
            // Before the change is begun, or while it is.
            let faster = if early {
                off.await;
                site.faster(async {})
            } else {
                site.faster(off)
            };
            match switch {
                Switch::Queue => assert_eq!(begin(&site, &faster, &site.lead, entry.index).await.expect("no"), None),
                _ => {
                    let kept = reboot(&site, &faster, &site.lead, node).await.expect("no").expect("it stays");
                    assert_eq!(kept.status, RebootStatus::Queued);
                }
            }
            faster.happened();
            site.clone().switch(switch, true).await;
        }
    }
    let state = site.read().await;
    assert_eq!((&state.entries[0], state.reboots[0].status), (&entry, RebootStatus::Queued));
    let begun = begin(&site, &*site.store, &site.lead, entry.index).await.expect("a change").expect("it is begun");
    assert_eq!((begun.status, site.entries().await), (Status::Processing, vec![begun.clone()]));
    let rebooting = reboot(&site, &*site.store, &site.lead, node).await.expect("a change").expect("it is begun");
    assert_eq!((rebooting.status, site.read().await.reboots), (RebootStatus::Rebooting, vec![rebooting.clone()]));
}

/// Somebody calls the machine healthy in the moment between the decision and its write.
pub(super) async fn no_step_begins_for_a_machine_that_was_just_mended(store: Arc<dyn Store>, prefix: String) {
    let site = Site::new(store, prefix).await;
    let entry = site.add(1).await;
    let begin = |store: Arc<dyn Store>| {
        let (site, index) = (site.clone(), entry.index);
        async move {
            let under = Under { lead: Some(&site.lead), switch: Some(Switch::Queue) };
            let serial = site::machine(1).serial;
            let step = Begun { action: "execute", because: "not drained", machine: serial.as_ref() };
            let decide = |entry: &Entry, machine: Option<&Machine>| {
                let is_broken = machine.is_some_and(|machine| machine.status.state != HealthState::Healthy);
                begun(entry).filter(|_| is_broken)
            };
            repairs::begin(&*store, &site.keys, &site.by, under, index, step, decide).await.expect("an answer")
        }
    };
    assert_eq!(begin(Arc::clone(&site.store)).await, None, "nobody knows the machine");
    site.report(1, "unreachable").await;
    let monitor = site.clone();
    let faster = Arc::new(site.faster(async move { monitor.report(1, "healthy").await }));
    assert_eq!(begin(Arc::<site::Faster>::clone(&faster)).await, None);
    faster.happened();
    assert_eq!(site.entries().await, [entry.clone()]);
    // Another report of the same trouble is no reason to give up.
    site.report(1, "unreachable").await;
    let monitor = site.clone();
    let faster = Arc::new(site.faster(async move { monitor.report(1, "unreachable").await }));
    let after = begin(Arc::<site::Faster>::clone(&faster)).await.expect("it is begun");
    faster.happened();
    assert_eq!((after.status, site.entries().await), (Status::Processing, vec![after.clone()]));
}

pub(super) async fn nobody_begins_anything_under_a_lost_lead(store: Arc<dyn Store>, prefix: String) {
    let site = Site::new(store, prefix).await;
    let (entry, another) = (site.add(1).await, site.add(2).await);
    let node = site.add_reboot(1).await;
    site.delete(another.index).await;
    // It is lost while the first change is made; later ones know no better.
    let other = site.clone();
    let faster = site.faster(async move { drop(other.succeed().await) });
    assert!(is_conflict(&begin(&site, &faster, &site.lead, entry.index).await));
    faster.happened();
    assert!(is_conflict(&reboot(&site, &*site.store, &site.lead, node).await));
    let removed = repairs::remove(&*site.store, &site.keys, &site.by, &site.lead, &[another.index]).await;
    assert!(is_conflict(&removed.map(Some)));
    let state = site.read().await;
    assert_eq!(state.entries, [entry, Entry { deleted: true, ..another }]);
    assert_eq!(state.reboots[0].status, RebootStatus::Queued);
}

pub(super) async fn what_somebody_asked_for_meanwhile_stays(store: Arc<dyn Store>, prefix: String) {
    let site = Site::new(store, prefix).await;
    let entry = site.add(1).await;
    let node = site.add_reboot(1).await;
    // They want it gone.
    let deleter = site.clone();
    let faster = site.faster(async move { deleter.delete(entry.index).await });
    let after = begin(&site, &faster, &site.lead, entry.index).await.expect("a change").expect("it is begun");
    faster.happened();
    assert!(after.deleted && after.status == Status::Processing, "{after:?}");
    assert_eq!(site.entries().await, [after]);
    // They do not want it rebooted.
    let canceller = site.clone();
    let faster = site.faster(async move { canceller.cancel(node).await });
    let after = reboot(&site, &faster, &site.lead, node).await.expect("a change").expect("it stays");
    faster.happened();
    assert_eq!((after.status, site.read().await.reboots), (RebootStatus::Cancelled, vec![after.clone()]));
    // All of them at once: whoever was faster is not undone.
    let ended = Entry { status: Status::Failed, ..site.entries().await.remove(0) };
    let (ender, end) = (site.clone(), ended.clone());
    let faster = site.faster(async move { ender.put(&end).await });
    let undelete = |entry: &Entry| Some(Entry { deleted: false, ..entry.clone() });
    let changed = repairs::update_many(&faster, &site.keys, &site.by, &[entry.index], "delete", undelete).await;
    faster.happened();
    assert_eq!(changed.expect("a change"), [entry.index]);
    assert_eq!(site.entries().await, [Entry { deleted: false, ..ended }]);
    // What was taken back is not taken out.
    site.delete(entry.index).await;
    let taker = site.clone();
    let faster = site.faster(async move { taker.undelete(entry.index).await });
    let removed = repairs::remove(&faster, &site.keys, &site.by, &site.lead, &[entry.index]).await;
    faster.happened();
    assert_eq!((removed.expect("an answer"), site.entries().await.len()), (vec![], 1));
}

pub(super) async fn a_machine_is_repaired_once_at_a_time(store: Arc<dyn Store>, prefix: String) {
    let site = Site::new(store, prefix).await;
    let other = site.clone();
    let faster = site.faster(async move { drop(other.add(1).await) });
    let refused = repairs::add(&faster, &site.keys, &site.by, &site::machine(1)).await;
    faster.happened();
    let first = site.entries().await;
    let Entry { index, address, status, .. } = first[0];
    assert_eq!(first.len(), 1);
    let refusal = QueueRefusal::Active { index, address, status };
    assert!(matches!(&refused, Err(ChangeError::Refused(why)) if *why == refusal), "{refused:?}");
    // Another machine takes the next index, not the same one.
    let other = site.clone();
    let faster = site.faster(async move { drop(other.add(2).await) });
    repairs::add(&faster, &site.keys, &site.by, &site::machine(3)).await.expect("added");
    faster.happened();
    let addresses: Vec<Ipv4Addr> = site.entries().await.iter().map(|entry| entry.address).collect();
    assert_eq!(addresses, [1, 2, 3].map(site::address));
    // A machine whose repair has ended may be repaired again.
    site.put(&Entry { status: Status::Failed, ..first[0].clone() }).await;
    assert_eq!(site.add(1).await.index, first[0].index + 3);
}

pub(super) async fn the_last_place_is_taken_once(store: Arc<dyn Store>, prefix: String) {
    let site = Site::new(store, prefix).await;
    let entry = site.add(0).await;
    let fill: Vec<Entry> = (1..limits::QUEUE_ENTRIES_MAX as u64 - 1)
        .map(|more| Entry { index: entry.index + more, ..entry.clone() })
        .collect();
    site.fill(&fill).await;
    let other = site.clone();
    let faster = site.faster(async move { drop(other.add(1).await) });
    let refused = repairs::add(&faster, &site.keys, &site.by, &site::machine(2)).await;
    faster.happened();
    assert!(matches!(refused, Err(ChangeError::Refused(QueueRefusal::Full))), "{refused:?}");
    assert_eq!(site.entries().await.len(), limits::QUEUE_ENTRIES_MAX);
}

pub(super) async fn reboots_get_an_index_each(store: Arc<dyn Store>, prefix: String) {
    let site = Site::new(store, prefix).await;
    let other = site.clone();
    let faster = site.faster(async move {
        other.add_reboot(1).await;
    });
    let added = repairs::add_reboots(&faster, &site.keys, &site.by, &[2, 3].map(site::address)).await;
    faster.happened();
    assert_eq!(added.expect("added").len(), 2);
    let nodes: Vec<Ipv4Addr> = site.read().await.reboots.iter().map(|entry| entry.node).collect();
    assert_eq!(nodes, [1, 2, 3].map(site::address));
}

pub(super) async fn two_who_set_something_are_both_heard(store: Arc<dyn Store>, prefix: String) {
    let site = Site::new(store, prefix).await;
    let set = |name: &'static str, value: &'static str| {
        move |settings: RepairSettings| settings.with(name, value).map_err(BadSetting)
    };
    let other = site.clone();
    let faster = site.faster(async move {
        repairs::edit_settings(&*other.store, &other.keys, &other.by, set("group-least", "4")).await.expect("set");
    });
    repairs::edit_settings(&faster, &site.keys, &site.by, set("observe-seconds", "60")).await.expect("set");
    faster.happened();
    let both = set("observe-seconds", "60")(set("group-least", "4")(RepairSettings::default()).expect("one"));
    assert_eq!(site.read().await.settings, both.expect("both"));
    // An incident that is over by the time somebody says that they have looked.
    let open = site.open_incident().await;
    let over = Incident { phase: Phase::Recovered { at: site.by.now }, ..open.clone() };
    let (ender, end) = (site.clone(), over.clone());
    let faster = site.faster(async move { ender.change_incident(&end).await });
    let decide = |incident: Incident| match incident.phase {
        Phase::Recovered { .. } => Err(QueueRefusal::Over(incident.number)),
        _ => Ok(site::acknowledged(incident)),
    };
    let refused = repairs::edit_incident(&faster, &site.keys, &site.by, open.number, decide).await;
    faster.happened();
    assert!(matches!(refused, Err(ChangeError::Refused(QueueRefusal::Over(_)))), "{refused:?}");
    assert_eq!(site.read().await.incidents, [over]);
}

pub(super) async fn the_log_says_what_changed(store: Arc<dyn Store>, prefix: String) {
    let site = Site::new(store, prefix).await;
    let Site { store, keys, by, .. } = &site;
    for _ in 0..2 {
        // The second time everything is so already.
        let set = |settings: RepairSettings| {
            let settings = settings.with("group-least", "4").map_err(BadSetting)?;
            settings.with("version-label", "image").map_err(BadSetting)
        };
        repairs::edit_settings(&**store, keys, by, set).await.expect("set");
    }
    repairs::add_reboots(&**store, keys, by, &[1, 2].map(site::address)).await.expect("added");
    let open = site.open_incident().await;
    for reason in ["the switch was replaced", ""] {
        let say = |incident: Incident| {
            let phase = Phase::Acknowledged { by: "operator".to_owned(), at: by.now, reason: reason.to_owned() };
            Ok(Incident { phase, ..incident })
        };
        repairs::edit_incident(&**store, keys, by, open.number, say).await.expect("acknowledged");
    }
    let (entries, _) = audit::page(&**store, keys, audit::Reading::new(None, None)).await.expect("a page");
    let mut said: Vec<(&str, &str)> =
        entries.iter().map(|logged| (logged.entry.action.as_str(), logged.entry.detail.as_str())).collect();
    said.sort_unstable();
    let expected = [
        ("acknowledge-incident", "rack 1"),
        ("acknowledge-incident", "rack 1: the switch was replaced"),
        ("add-reboots", "reboot 0 of 10.0.0.1\nreboot 1 of 10.0.0.2"),
        ("open-incident", "3 of 3"),
        ("put-settings", "group-least 3 -> 4, version-label version -> image"),
    ];
    assert_eq!(said, expected);
}
