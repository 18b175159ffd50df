//! Which indices come out, and every refusal.

use super::*;
use crate::{
    ipam::{IpamInput, PoolInput},
    machine::NewMachineInput,
};

fn config() -> IpamConfig {
    let pool = |pool: &str, range_size, range_mask| PoolInput {
        pool: pool.into(),
        range_size,
        range_mask,
        ..PoolInput::default()
    };
    IpamConfig::new(&IpamInput {
        max_nodes_in_rack: 28,
        node: pool("10.69.0.0/16", 6, 26),
        node_ip_per_node: 3,
        node_index_offset: 3,
        bmc: pool("10.72.16.0/20", 5, 20),
    })
    .expect("valid")
}

fn new(serial: &str, rack: u32, role: &str) -> NewMachine {
    NewMachine::new(NewMachineInput {
        serial: serial.into(),
        rack,
        role: role.into(),
        bmc_type: "iDRAC-9".into(),
        ..NewMachineInput::default()
    })
    .expect("valid")
}

fn workers(count: usize) -> Vec<NewMachine> {
    (0..count).map(|n| new(&format!("w{n}"), 0, "worker")).collect()
}

/// Plans on top of racks in use and known serials; the answer is serials with indices, or the refusal's text.
fn plan(machines: &[NewMachine], used: &[(u32, &[u32])], known: &[&str]) -> Result<Vec<(String, u32)>, String> {
    let ipam = config();
    let indices = used.iter().map(|(rack, list)| (Rack(*rack), list.to_vec())).collect();
    let registered = known.iter().map(|s| Serial::new(s).expect("valid")).collect();
    let facts = Facts { ipam: Some(&ipam), indices: &indices, registered: &registered };
    match plan_registration(machines, facts, OutsidePool::Refuse, Timestamp::UNIX_EPOCH) {
        Ok(done) => Ok(done.machines.iter().map(|m| (m.serial.to_string(), m.index_in_rack)).collect()),
        Err(refusal) => Err(refusal.to_string()),
    }
}

fn pairs(list: &[(&str, u32)]) -> Result<Vec<(String, u32)>, String> {
    Ok(list.iter().map(|(s, i)| ((*s).to_owned(), *i)).collect())
}

#[test]
fn indices_of_an_empty_system() {
    let request = [new("b1", 0, "boot"), new("w1", 0, "worker"), new("w2", 1, "worker")];
    assert_eq!(plan(&request, &[], &[]), pairs(&[("b1", 3), ("w1", 4), ("w2", 4)]));
    // A boot machine gets its index wherever it stands in the request.
    let request = [new("w1", 0, "worker"), new("b1", 0, "boot")];
    assert_eq!(plan(&request, &[], &[]), pairs(&[("w1", 4), ("b1", 3)]));
    assert_eq!(plan(&[], &[], &[]), pairs(&[]));
}

#[test]
fn released_indices_are_used_again_lowest_first() {
    let request = [new("a", 0, "worker"), new("b", 0, "worker"), new("c", 0, "worker")];
    assert_eq!(plan(&request, &[(0, &[3, 4, 6, 8])], &[]), pairs(&[("a", 5), ("b", 7), ("c", 9)]));
    assert_eq!(release_index(&[3, 4, 5], 4), [3, 5]);
    assert_eq!(release_index(&[4], 4), Vec::<u32>::new());
    assert_eq!(release_index(&[4], 9), [4]);
}

#[test]
fn index_lists_keep_the_order_of_assignment() {
    let ipam = config();
    let indices = BTreeMap::from([(Rack(0), vec![5, 4])]);
    let facts = Facts { ipam: Some(&ipam), indices: &indices, registered: &HashSet::new() };
    let request = [new("w", 0, "worker"), new("b", 0, "boot"), new("x", 7, "worker")];
    let done = plan_registration(&request, facts, OutsidePool::Refuse, Timestamp::UNIX_EPOCH).expect("fits");
    assert_eq!(done.indices, BTreeMap::from([(Rack(0), vec![5, 4, 6, 3]), (Rack(7), vec![4])]));
}

#[test]
fn a_full_rack() {
    let mut rack = workers(28);
    rack.push(new("b", 0, "boot"));
    let planned = plan(&rack, &[], &[]).expect("28 workers and a boot machine fit");
    assert_eq!(planned.iter().map(|(_, i)| *i).collect::<BTreeSet<_>>(), (3..=31).collect());
    let refusal = plan(&workers(29), &[], &[]).expect_err("29 do not");
    assert!(refusal.starts_with("no node index is available for new machine"), "{refusal}");
    assert!(refusal.contains("rack 0 is full with 28 machines; w28 does not fit"), "{refusal}");
}

#[test]
fn refusals() {
    let twice = [new("a", 0, "worker"), new("a", 1, "worker")];
    assert_eq!(plan(&twice, &[], &[]), Err("serial a is given twice in one request".into()));
    let two_boots = [new("a", 2, "boot"), new("b", 2, "boot")];
    assert_eq!(plan(&two_boots, &[], &[]), Err("rack 2 already has a boot machine; b cannot be another".into()));
    let boot = [new("b", 0, "boot")];
    assert_eq!(plan(&boot, &[(0, &[3])], &[]), Err("rack 0 already has a boot machine; b cannot be another".into()));
    let known = Err("serial w1 is already registered".into());
    assert_eq!(plan(&workers(3), &[], &["w1"]), known);
    // Registering a full rack again says that its machines are known.
    let all: Vec<u32> = (4..=31).collect();
    assert_eq!(plan(&workers(3), &[(0, &all)], &["w1"]), known);
    let far = [new("a", 341, "worker")];
    let refusal = plan(&far, &[], &[]).expect_err("outside of the pool");
    assert!(refusal.starts_with("rack 341 does not fit node-ipv4-pool"), "{refusal}");
    let facts = Facts { ipam: None, indices: &BTreeMap::new(), registered: &HashSet::new() };
    let refusal = plan_registration(&boot, facts, OutsidePool::Refuse, Timestamp::UNIX_EPOCH);
    assert_eq!(refusal.expect_err("no configuration").to_string(), "IPAMConfig is not set");
    let nothing = plan_registration(&[], facts, OutsidePool::Refuse, Timestamp::UNIX_EPOCH).expect("nothing to refuse");
    assert!(nothing.machines.is_empty() && nothing.indices.is_empty());
}

#[test]
fn racks_that_leave_their_pool_are_told() {
    let ipam = config();
    let facts = Facts { ipam: Some(&ipam), indices: &BTreeMap::new(), registered: &HashSet::new() };
    let request = [new("in", 1, "worker"), new("bmc-out", 130, "worker"), new("both-out", 400, "worker")];
    let done = plan_registration(&request, facts, OutsidePool::Allow, Timestamp::UNIX_EPOCH).expect("allowed");
    assert_eq!(done.outside_pool, BTreeSet::from([Rack(130), Rack(400)]));
}

#[test]
fn dates_and_state() {
    let now: Timestamp = "2026-11-15T19:36:21Z".parse().expect("time");
    let ipam = config();
    let facts = Facts { ipam: Some(&ipam), indices: &BTreeMap::new(), registered: &HashSet::new() };
    let mut dated = new("a", 0, "worker");
    dated.retire_date = "2030-01-02T03:04:05+09:00".parse().ok();
    let done = plan_registration(&[dated, new("b", 0, "worker")], facts, OutsidePool::Refuse, now).expect("fits");
    let dates: Vec<_> = done.machines.iter().map(|m| m.retire_date.to_string()).collect();
    assert_eq!(dates, ["2030-01-02T03:04:05+09:00", "2026-11-15T19:36:21Z"]);
    assert!(done.machines.iter().all(|m| m.register_date == now));
    assert!(done.machines.iter().all(|m| m.status == Status { state: HealthState::Uninitialized, since: now }));
}
