//! What failed together is no place for new nodes: a rack goes dark with every control plane, and none of the new ones is put there.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use jiff::SignedDuration;
use sabakan::repair::RepairConfig;
use sabakan_domain::{
    audit::Actor,
    cluster::{history::KeptResult, report::Operation},
};
use sabakan_store::TxnOutcome;
use sabakan_testkit::{
    Backend, TestServer,
    crash::{CLUSTER, Death},
    fixtures, lone, wait_for,
};
use sabakan_wire::rest::{QueryParams, cluster::PlanJson};
use serde_json::{Value, json};

const LONG: Duration = Duration::from_secs(60);

on_both_stores!(
    control_planes_of_a_dark_rack_are_replaced_outside_of_it,
    a_plan_made_before_an_incident_was_opened_is_not_written_after,
);

fn serials(rack: u32) -> Vec<String> {
    (0..28).map(|n| format!("r{rack}-{n:02}")).collect()
}

/// A server that does not plan, with three racks of 28 healthy machines, and a cluster whose three control planes are all in rack 1.
fn server(backend: Backend, repairer: bool) -> (TestServer, BTreeMap<String, String>) {
    let server = TestServer::start_with(backend, |config| {
        config.cluster.planner = false;
        config.repair = RepairConfig { repairer, period: Duration::from_millis(200) };
    });
    let client = server.client();
    client.put_ipam(&fixtures::ipam()).expect("an IPAM configuration");
    for rack in 1..=3 {
        let machines: Vec<_> = serials(rack).into_iter().map(|it| fixtures::machine(it, rack, "worker")).collect();
        client.create_machines(&machines).expect("registered");
        serials(rack).iter().for_each(|serial| report(&server, serial, "healthy"));
    }
    let machines = client.list_machines(&QueryParams::default()).expect("machines");
    let addresses: BTreeMap<String, String> =
        machines.into_iter().map(|machine| (machine.spec.serial.clone(), machine.spec.ipv4[0].clone())).collect();
    let node = |serial: &str| json!({ "address": addresses[serial], "user": "cybozu", "control_plane": serial.starts_with("r1") });
    let nodes: Vec<Value> = ["r1-00", "r1-01", "r1-02", "r2-00", "r3-00"].into_iter().map(node).collect();
    let (cluster, operator) = (server.cluster(), Actor::internal("operator"));
    let document = |nodes: &Value| json!({ "name": "test", "nodes": nodes, "service_subnet": "10.68.0.0/16" });
    let template = document(&json!([{ "user": "cybozu", "control_plane": true }, { "user": "cybozu" }]));
    let constraints = [("control-plane-count".to_owned(), 3), ("minimum-workers".to_owned(), 2)];
    server.block_on(cluster.set_constraints(&operator, &constraints)).expect("constraints");
    server.block_on(cluster.set_template(&operator, template)).expect("a template");
    server.block_on(cluster.set_configuration(&operator, document(&json!(nodes)))).expect("a configuration");
    // Nobody has only just become healthy.
    server.clock.advance(SignedDuration::from_hours(1));
    (server, addresses)
}

fn report(server: &TestServer, serial: &str, state: &str) {
    server.client().put_state(serial, state, false).unwrap_or_else(|error| panic!("{serial}: {error}"));
}

/// All but the last few machines of rack 1 stop answering; those look like the emptiest rack there is.
fn cut_power(server: &TestServer) {
    serials(1)[..25].iter().for_each(|serial| report(server, serial, "unreachable"));
}

fn incident(server: &TestServer) -> u64 {
    let found = wait_for("the incident", LONG, || server.client().incidents(true).expect("incidents").value.pop());
    assert_eq!((&*found.group.kind, &*found.group.value), ("rack", "1"));
    found.number
}

fn serial_of(addresses: &BTreeMap<String, String>, address: &str) -> String {
    let found = addresses.iter().find(|(_, own)| *own == address);
    found.map(|(serial, _)| serial.clone()).expect("a machine")
}

/// Who would be newly chosen.
fn chosen(plan: &PlanJson) -> Vec<String> {
    plan.selections.iter().filter_map(|selection| Some(selection.chosen.as_ref()?.serial.clone())).collect()
}

fn control_planes_of_a_dark_rack_are_replaced_outside_of_it(backend: Backend) {
    let (server, addresses) = server(backend, true);
    let client = server.client();
    cut_power(&server);
    let number = incident(&server);
    server.clock.advance(SignedDuration::from_hours(1));

    let why = format!("rack 1 failed together (incident {number}, open)");
    let told = client.explain_cluster("r1-27").expect("an explanation").value.standing.expect("it is listed");
    let reason = told.not_control_plane.expect("it is none");
    assert_eq!((reason.kind.as_str(), reason.incident), ("cautioned", Some(number)));
    assert_eq!(reason.text, format!("not chosen: {why}"));
    assert_eq!(told.caution.map(|caution| caution.text), Some(why.clone()));
    let rounds = client.simulate_cluster(6).expect("rounds").value.rounds;
    let later: Vec<String> = rounds.iter().flat_map(chosen).collect();
    assert!(later.len() >= 3 && later.iter().all(|serial| !serial.starts_with("r1")), "{later:?}");
    // When the last dark control plane is replaced, its rack has none left and looks like the best.
    let passed_over = rounds[2].selections[0].passed_over.as_ref().expect("the dark rack is the emptiest");
    assert_eq!((passed_over.rack, passed_over.caution.as_deref()), (1, Some(why.as_str())));

    let planner = lone::planner(&server, "one", |_| {});
    let planes = wait_for("control planes outside the rack", LONG, || {
        let configuration = server.block_on(server.cluster().configuration()).expect("answers")?;
        let planes = configuration.control_planes();
        let planes: Vec<String> = planes.iter().map(|it: &IpAddr| serial_of(&addresses, &it.to_string())).collect();
        assert_eq!(planes.len(), 3, "{planes:?}");
        assert!(planes.iter().all(|serial| !serial.starts_with("r1-2")), "{planes:?} has a machine of the dark rack");
        planes.iter().all(|serial| !serial.starts_with("r1")).then_some(planes)
    });
    planner.kill();
    // One in each round; the last one kept whom it passed over.
    let mut kept = server.block_on(server.cluster().plans(None, usize::MAX)).expect("plans");
    kept.retain(|plan| matches!(&plan.result, KeptResult::Changed { operation: Operation::ReplaceControlPlane, .. }));
    assert_eq!(kept.len(), 3, "{planes:?}");
    let passed_over = kept[0].selections[0].passed_over.as_ref().expect("somebody of the rack");
    assert_eq!(passed_over.caution.as_ref(), Some(&why));
    // Without the guard nobody is cautioned.
    client.set_repair_setting("guard", "false").expect("set");
    let told = client.explain_cluster("r1-27").expect("an explanation").value.standing.expect("it is listed");
    assert_eq!(told.caution, None);
}

fn a_plan_made_before_an_incident_was_opened_is_not_written_after(backend: Backend) {
    let (server, _) = server(backend, false);
    report(&server, "r1-00", "unreachable");
    // The guard has let it go: it broke alone.
    server.clock.advance(SignedDuration::from_secs(301));
    let planner = lone::planner(&server, "one", |store| store.arm(CLUSTER, 1, Death::Before));
    wait_for("the planner to come to its commit", LONG, || planner.store.is_frozen(CLUSTER).then_some(()));
    cut_power(&server);
    let repairer = lone::repairer(&server, "two", |_| {});
    incident(&server);
    let late = planner.store.late();
    assert_eq!(late.len(), 1);
    let outcome = server.block_on(server.store().commit(late[0].clone())).expect("the store answers");
    assert_eq!(outcome, TxnOutcome::Conflicted);
    planner.kill();
    repairer.kill();
}
