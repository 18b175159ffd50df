//! A round of the enqueuer is written only if nothing it was decided with has changed.

use std::convert::Infallible;

use sabakan_domain::{
    cluster::{config::Configuration, constraints::Constraints, template::Template},
    repair::{incident::Incident, round::Round, settings::RepairSettings},
};
use serde_json::{Value, json};

use super::site::{Site, acknowledged, incident, machine};
use crate::repo::{
    cluster::{self, ClusterState},
    repairs::{self, BadSetting, RepairState, Switch},
};

/// What somebody else changes.
#[derive(Debug, Clone, Copy)]
enum Change {
    Settings,
    Variables,
    Automatic,
    EntryByHand,
    AnotherIncident,
    Template,
    Constraints,
    ClusterVariables,
    Planner,
    Configuration,
}

impl Change {
    const ALL: [Change; 10] = [
        Change::Settings,
        Change::Variables,
        Change::Automatic,
        Change::EntryByHand,
        Change::AnotherIncident,
        Change::Template,
        Change::Constraints,
        Change::ClusterVariables,
        Change::Planner,
        Change::Configuration,
    ];

    /// Makes the change, for the `nth` time: what was not there is there after the first, and is another after the second.
    async fn make(self, site: &Site, nth: u8) {
        let Site { store, keys, by, .. } = site;
        let (store, on) = (&**store, nth > 1);
        let cluster = |more: Value| {
            let mut document = json!({ "name": format!("c{nth}"), "service_subnet": "10.68.0.0/16" });
            document["nodes"] = more;
            document
        };
        match self {
            Change::Settings => {
                let set = |settings: RepairSettings| settings.with("group-least", &(nth + 3).to_string());
                let set = |settings| set(settings).map_err(BadSetting);
                repairs::edit_settings(store, keys, by, set).await.map(drop).expect("set");
            }
            Change::Variables => {
                repairs::put_variables(store, keys, by, (!on).then_some("{}")).await.expect("put");
            }
            Change::Automatic => site.clone().switch(Switch::Automatic, on).await,
            Change::EntryByHand => drop(site.add(100 + nth).await),
            Change::AnotherIncident => drop(site.open_incident().await),
            Change::Template => {
                let nodes = json!([{ "user": "u", "control_plane": true }, { "user": "u" }]);
                let template = Template::parse(cluster(nodes)).expect("a template");
                cluster::put_template(store, keys, by, &template).await.expect("put");
            }
            Change::Constraints => {
                let set = |constraints: Constraints| {
                    Ok::<_, Infallible>(Constraints { maximum_repair_queue_entries: nth.into(), ..constraints })
                };
                cluster::edit_constraints(store, keys, by, set).await.map(drop).expect("set");
            }
            Change::ClusterVariables => {
                cluster::put_variables(store, keys, by, (!on).then_some("{}")).await.expect("put");
            }
            Change::Planner => cluster::set_enabled(store, keys, by, on).await.expect("switched"),
            Change::Configuration => {
                let nodes = json!([{ "address": "10.0.0.1", "user": "u", "control_plane": true }]);
                let configuration = Configuration::parse(cluster(nodes)).expect("a configuration");
                let fine = |_: &ClusterState| Ok::<_, Infallible>(());
                cluster::put_configuration(store, keys, by, &configuration, fine).await.expect("put");
            }
        }
    }
}

/// What a round is decided with.
async fn look(site: &Site) -> (RepairState, ClusterState) {
    (site.read().await, cluster::read(&*site.store, &site.keys).await.expect("readable"))
}

async fn put(site: &Site, looked: &(RepairState, ClusterState), round: &Round) -> bool {
    let Site { store, keys, by, lead, .. } = site;
    repairs::put_round(&**store, keys, by, lead, &looked.0, &looked.1, round).await.expect("an answer")
}

/// Expects that a round is refused and nothing is written, and that it is written once it is decided anew.
async fn is_refused(site: &Site, looked: &(RepairState, ClusterState), round: &Round, why: &str) {
    let before = site.dump().await;
    assert!(!put(site, looked, round).await, "{why} changed, and the round was written");
    assert_eq!(site.dump().await, before, "{why} changed, and something was written");
    let looked = look(site).await;
    assert!(put(site, &looked, round).await, "nothing changed after {why}, and the round was refused");
    let after = look(site).await.0;
    let count = |state: &RepairState| (state.entries.len(), state.incidents.len());
    let (entries, incidents) = count(&looked.0);
    assert_eq!(count(&after), (entries + round.enqueue.len(), incidents + round.opened.len()), "after {why}");
}

pub(super) async fn whatever_changes_refuses_it(site: &Site) {
    let mut machines = 1..100;
    for nth in 1..=2 {
        for change in Change::ALL {
            let enqueue = vec![machine(machines.next().expect("few changes"))];
            let round = Round { enqueue, ..Round::default() };
            let looked = look(site).await;
            change.make(site, nth).await;
            is_refused(site, &looked, &round, &format!("{change:?}")).await;
        }
    }
    // One round after another, decided with the same: the second is refused.
    let opens = Round { opened: vec![incident(site.by.now)], ..Round::default() };
    let enqueues = Round { enqueue: vec![machine(200)], ..Round::default() };
    for (first, second) in [(&enqueues, &enqueues), (&opens, &enqueues), (&opens, &opens), (&enqueues, &opens)] {
        let looked = look(site).await;
        assert!(put(site, &looked, first).await);
        assert!(!put(site, &looked, second).await, "{second:?} after {first:?}");
    }
}

pub(super) async fn a_lost_lead_refuses_it(site: &Site) {
    let round = Round { enqueue: vec![machine(1)], opened: vec![incident(site.by.now)], ..Round::default() };
    let looked = look(site).await;
    let successor = site.succeed().await;
    let before = site.dump().await;
    assert!(!put(site, &looked, &round).await, "whoever lost the lead wrote");
    assert_eq!(site.dump().await, before);
    assert!(put(&successor, &looked, &round).await, "whoever leads cannot write");
}

pub(super) async fn a_changed_incident_refuses_it(site: &Site) {
    let open = site.open_incident().await;
    let looked = look(site).await;
    let say = |incident: Incident| Ok(acknowledged(incident));
    repairs::edit_incident(&*site.store, &site.keys, &site.by, open.number, say).await.expect("acknowledged");
    let round = Round { changed: vec![Incident { member_count: 4, ..open }], ..Round::default() };
    is_refused(site, &looked, &round, "the incident").await;
}
