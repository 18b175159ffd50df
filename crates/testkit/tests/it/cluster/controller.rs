//! Several planners on one store: one of them leads, each can die at any commit, and nobody writes over what a person wrote.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use sabakan_domain::{
    audit::Actor,
    cluster::{
        history::{KeptPlan, KeptResult},
        report::Operation,
    },
};
use sabakan_service::cluster::Cluster;
use sabakan_store::TxnOutcome;
use sabakan_testkit::{
    Backend, TestServer,
    crash::{CLUSTER, Death, LEAD},
    fixtures, lone, wait_for,
};
use serde_json::{Value, json};

const LONG: Duration = Duration::from_secs(60);

on_both_stores!(
    a_planner_that_dies_at_any_commit_is_followed_by_another,
    a_change_made_by_hand_in_the_middle_of_a_round_stays,
    a_planner_that_lost_the_lead_cannot_write,
    a_claim_whose_answer_is_lost_leaves_nobody_without_a_leader,
);

/// A server that does not plan, with nine healthy machines in three racks, a template and constraints: 3 control planes, 3 workers.
fn server(backend: Backend) -> TestServer {
    let server = TestServer::start_with(backend, |config| config.cluster.planner = false);
    let client = server.client();
    client.put_ipam(&fixtures::ipam()).expect("an IPAM configuration");
    let machines: Vec<_> = (0..9).map(|n| fixtures::machine(format!("m{n}"), n % 3, "worker")).collect();
    client.create_machines(&machines).expect("registered");
    for n in 0..9 {
        set_state(&server, &format!("m{n}"), "healthy");
    }
    server
}

fn set_state(server: &TestServer, serial: &str, state: &str) {
    server.client().put_state(serial, state, false).expect("a state");
}

fn operator() -> Actor {
    Actor::internal("operator")
}

fn template() -> Value {
    json!({
        "name": "test",
        "nodes": [{ "user": "cybozu", "control_plane": true }, { "user": "cybozu" }],
        "service_subnet": "10.68.0.0/16",
    })
}

/// Says what the cluster shall be.
fn ask(server: &TestServer, cluster: &Cluster) {
    let constraints = [("control-plane-count".to_owned(), 3), ("minimum-workers".to_owned(), 3)];
    server.block_on(cluster.set_constraints(&operator(), &constraints)).expect("constraints");
    server.block_on(cluster.set_template(&operator(), template())).expect("a template");
}

/// Plans that were kept, oldest first. Each was made after the one before.
fn chain(server: &TestServer, cluster: &Cluster) -> Vec<KeptPlan> {
    let mut plans = server.block_on(cluster.plans(None, usize::MAX)).expect("plans");
    plans.reverse();
    for (place, plan) in plans.iter().enumerate() {
        assert_eq!(plan.number, u64::try_from(place).expect("few") + 1, "numbers have no gap");
        assert_eq!(plan.parent, plan.number.checked_sub(1).filter(|parent| *parent > 0));
    }
    plans
}

fn operations(plans: &[KeptPlan]) -> Vec<Operation> {
    let changed = |plan: &KeptPlan| match &plan.result {
        KeptResult::Changed { operation, .. } => Some(*operation),
        KeptResult::Blocked { .. } | KeptResult::Settled => None,
    };
    plans.iter().filter_map(changed).collect()
}

fn control_planes(server: &TestServer, cluster: &Cluster) -> BTreeSet<IpAddr> {
    let configuration = server.block_on(cluster.configuration()).expect("the store answers");
    configuration.map(|configuration| configuration.control_planes()).unwrap_or_default()
}

fn wait_for_leader(server: &TestServer, is_meant: impl Fn(&str) -> bool) {
    let cluster = server.cluster();
    wait_for("the lead to be taken", LONG, || {
        let status = server.block_on(cluster.status()).expect("a status");
        status.leader.as_deref().is_some_and(&is_meant).then_some(())
    });
}

/// Waits until the cluster has three control planes, all of them machines that are healthy.
fn wait_for_healthy(server: &TestServer, cluster: &Cluster, unhealthy: Option<IpAddr>) -> BTreeSet<IpAddr> {
    wait_for("three healthy control planes", LONG, || {
        let planes = control_planes(server, cluster);
        let good = planes.len() == 3 && unhealthy.is_none_or(|address| !planes.contains(&address));
        good.then_some(planes)
    })
}

fn serial_of(server: &TestServer, cluster: &Cluster, address: IpAddr) -> String {
    let configuration = server.block_on(cluster.configuration()).expect("the store answers").expect("a cluster");
    let node = configuration.nodes.iter().find(|node| node.address == address).expect("a node");
    node.annotations["cke.cybozu.com/serial"].clone()
}

fn a_planner_that_dies_at_any_commit_is_followed_by_another(backend: Backend) {
    for death in [Death::Before, Death::After] {
        // The first commit makes the cluster, the second replaces a control plane.
        for nth in 1..=2 {
            let server = server(backend);
            let first = lone::planner(&server, "one", |store| store.arm(CLUSTER, nth, death));
            wait_for_leader(&server, |leader| leader == "one");
            ask(&server, &first.service);
            // Those that wait for the lead look on meanwhile.
            let others = ["two", "three"].map(|name| lone::planner(&server, name, |_| {}));
            let watcher = &others[0].service;
            let broken = if nth == 2 {
                let planes = wait_for_healthy(&server, watcher, None);
                let broken = *planes.first().expect("three");
                set_state(&server, &serial_of(&server, watcher, broken), "unhealthy");
                Some(broken)
            } else {
                None
            };
            wait_for("the first to come to its commit", LONG, || first.store.is_frozen(CLUSTER).then_some(()));
            first.kill();
            wait_for_healthy(&server, watcher, broken);
            wait_for_leader(&server, |leader| ["two", "three"].contains(&leader));
            let plans = chain(&server, watcher);
            let mut expected = vec![Operation::New];
            expected.extend(broken.map(|_| Operation::ReplaceControlPlane));
            assert_eq!(operations(&plans), expected, "{death:?} commit {nth}: every change is made once");
            let by = |plan: &KeptPlan| plan.server == "one";
            let done_by_first = if death == Death::After { nth } else { nth - 1 };
            assert_eq!(plans.iter().filter(|plan| by(plan)).count(), done_by_first);
        }
    }
}

fn a_change_made_by_hand_in_the_middle_of_a_round_stays(backend: Backend) {
    let server = server(backend);
    let planner = lone::planner(&server, "one", |store| store.arm(CLUSTER, 2, Death::Before));
    ask(&server, &planner.service);
    let planes = wait_for_healthy(&server, &planner.service, None);
    let broken = *planes.first().expect("three");
    set_state(&server, &serial_of(&server, &planner.service, broken), "unhealthy");
    wait_for("the planner to come to its commit", LONG, || planner.store.is_frozen(CLUSTER).then_some(()));
    // Its plan is on the way; somebody is faster.
    let cluster = server.cluster();
    let current = server.block_on(cluster.configuration()).expect("answers").expect("a cluster");
    let mut by_hand = current.document();
    by_hand["name"] = json!("by-hand");
    server.block_on(cluster.set_configuration(&operator(), by_hand.clone())).expect("written");
    let late = planner.store.late();
    assert_eq!(late.len(), 1);
    let outcome = server.block_on(server.store().commit(late[0].clone())).expect("the store answers");
    assert_eq!(outcome, TxnOutcome::Conflicted);
    let kept = server.block_on(cluster.configuration()).expect("answers").expect("a cluster");
    assert_eq!(kept.document(), by_hand);
    // The next planner begins with what was written by hand.
    planner.kill();
    let next = lone::planner(&server, "two", |_| {});
    wait_for_healthy(&server, &next.service, Some(broken));
    assert_eq!(operations(&chain(&server, &next.service)), [Operation::New, Operation::ReplaceControlPlane]);
}

fn a_planner_that_lost_the_lead_cannot_write(backend: Backend) {
    let server = server(backend);
    let first = lone::planner(&server, "one", |store| store.arm(CLUSTER, 1, Death::Before));
    ask(&server, &first.service);
    wait_for("the first to come to its commit", LONG, || first.store.is_frozen(CLUSTER).then_some(()));
    first.kill();
    // The second leads and writes nothing either: only the lead has changed.
    let second = lone::planner(&server, "two", |store| store.arm(CLUSTER, 1, Death::Before));
    wait_for("the second to come to its commit", LONG, || second.store.is_frozen(CLUSTER).then_some(()));
    let commit = |txn| server.block_on(server.store().commit(txn)).expect("the store answers");
    assert_eq!(commit(first.store.late()[0].clone()), TxnOutcome::Conflicted, "the first no longer leads");
    assert!(matches!(commit(second.store.late()[0].clone()), TxnOutcome::Committed(_)), "the second does");
    second.kill();
}

/// The key of the lead is there, held by whoever does not know it. Were its lease kept alive, nobody would ever lead.
fn a_claim_whose_answer_is_lost_leaves_nobody_without_a_leader(backend: Backend) {
    let server = server(backend);
    let planner = lone::planner(&server, "one", |store| store.lose_answer(LEAD, 1));
    ask(&server, &planner.service);
    wait_for_healthy(&server, &planner.service, None);
    assert!(planner.store.commits(LEAD) > 1, "the first claim did not lead");
    planner.kill();
}
