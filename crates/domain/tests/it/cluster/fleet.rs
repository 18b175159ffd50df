//! Random worlds: few racks and few roles so that machines compete, all states, clusters that were written by hand, and the edges of
//! every number that a rule compares with.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
};

use jiff::{SignedDuration, Timestamp};
use proptest::{prelude::*, sample::select};
use sabakan_domain::{
    cluster::{
        config::Configuration,
        constraints::Constraints,
        input::{ListedMachine, LiveTaints},
        template::Template,
    },
    lifecycle::HealthState,
    machine::{Labels, Rack},
    time::Moment,
};
use serde_json::{Value, json};

use super::world::{World, state_taint, stored_node, template};

pub const ROLES: [&str; 3] = ["cs", "ss", "gpu"];
pub const TAINTS: [&str; 6] = [
    "example.com/broken",
    "example.com/tolerated",
    "example.com/of-template",
    "node.kubernetes.io/not-ready",
    "cke.cybozu.com/state",
    "cke.cybozu.com/master",
];
/// Days until a machine should go, on both sides of every edge.
const DAYS: [i64; 18] = [-1001, -1000, -501, -500, -251, -250, -1, 0, 0, 0, 1, 250, 251, 500, 501, 1000, 1001, 2000];

pub fn now() -> Timestamp {
    "2024-01-01T00:00:00Z".parse().expect("a time")
}

/// The address of the nth machine. Not in the order of anything else.
pub fn address(n: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, u8::try_from(n * 7 % 101).expect("small") + 1)
}

pub fn states() -> impl Strategy<Value = HealthState> {
    prop_oneof![
        6 => Just(HealthState::Healthy),
        1 => Just(HealthState::Uninitialized),
        1 => Just(HealthState::Unhealthy),
        1 => Just(HealthState::Unreachable),
        1 => Just(HealthState::Updating),
        1 => Just(HealthState::Retiring),
        2 => Just(HealthState::Retired),
    ]
}

fn machine() -> impl Strategy<Value = ListedMachine> {
    let place = (0u32..4, 0u32..4, select(&ROLES[..]));
    let life = (select(&DAYS[..]), -7_200i64..7_200, states(), select(vec![0.0, 299.5, 300.0, 300.5, 4_000.0]));
    let label = prop::option::of((select(vec!["datacenter", "product"]), select(vec!["", "a", "b"])));
    // Most have an address of their own; a few have none or somebody else's.
    let address = prop_oneof![30 => Just(Some(0usize)), 1 => Just(None), 1 => Just(Some(1usize))];
    (place, life, label, address).prop_map(|((rack, index, role), (days, seconds, state, since), label, shift)| {
        let retire = now() + SignedDuration::from_secs(days * 86_400 + seconds);
        ListedMachine {
            serial: "later".parse().expect("a serial"),
            labels: Labels::new(label).expect("labels"),
            rack: Rack(rack),
            index_in_rack: index,
            role: role.parse().expect("a role"),
            address: shift.map(|shift| Ipv4Addr::new(0, 0, 0, u8::try_from(shift).expect("small"))),
            register_date: "2020-05-31T23:30:00.5+09:00".parse().expect("a date"),
            retire_date: Moment::from(retire),
            state,
            machine_type: String::new(),
            seconds_in_state: since,
        }
    })
}

pub fn machines(most: usize) -> impl Strategy<Value = Vec<ListedMachine>> {
    prop::collection::vec(machine(), 1..=most).prop_map(|mut machines| {
        for (n, machine) in machines.iter_mut().enumerate() {
            machine.serial = format!("m{:02}", n * 37 % 89).parse().expect("a serial");
            machine.address = machine.address.map(|shift| address(n.saturating_sub(usize::from(shift.octets()[3]))));
        }
        machines
    })
}

/// Any machine, healthy and with its own address, for fleets in which little goes wrong.
pub fn healthy_machines(most: usize) -> impl Strategy<Value = Vec<ListedMachine>> {
    machines(most).prop_map(|mut machines| {
        for (n, machine) in machines.iter_mut().enumerate() {
            machine.state = HealthState::Healthy;
            machine.address = Some(address(n));
        }
        machines
    })
}

fn node_template(role: Option<&str>, weight: Option<&str>, taint: Option<&str>, control_plane: bool) -> Value {
    let mut labels = BTreeMap::new();
    labels.extend(role.map(|role| ("cke.cybozu.com/role", role)));
    labels.extend(weight.map(|weight| ("cke.cybozu.com/weight", weight)));
    labels.insert("cke.cybozu.com/rack", "overwritten");
    labels.insert("sabakan.cke.cybozu.com/product", "of-template");
    let taints: Vec<Value> =
        taint.into_iter().map(|key| json!({"key": key, "value": "x", "effect": "PreferNoSchedule"})).collect();
    json!({"user": "cybozu", "control_plane": control_plane, "labels": labels, "taints": taints})
}

pub fn templates() -> impl Strategy<Value = Template> {
    let roles = prop_oneof![
        2 => Just(vec![None]),
        2 => select(&ROLES[..]).prop_map(|role| vec![Some(role)]),
        6 => (Just(ROLES.to_vec()).prop_shuffle(), 2usize..=3).prop_map(|(mut roles, count)| {
            roles.truncate(count);
            roles.into_iter().map(Some).collect()
        }),
    ];
    let weights = prop::collection::vec(prop::option::of(select(vec!["0.1", "0.3", "1", "2", "3.0", "18"])), 3);
    let control_plane = prop_oneof![1 => Just(None), 2 => select(&ROLES[..2]).prop_map(Some)];
    let taint = prop::option::of(Just(TAINTS[2]));
    (control_plane, taint, roles, weights).prop_map(|(control_plane, taint, roles, weights)| {
        let mut nodes = vec![node_template(control_plane, None, taint, true)];
        for (role, weight) in roles.into_iter().zip(weights) {
            nodes.push(node_template(role, weight, None, false));
        }
        // With the taint, so that recorded cases stay the ones they are.
        if taint.is_some() {
            nodes.iter_mut().for_each(|node| node["hostname"] = json!("{role}-{address-dashed}.{serial}"));
        }
        template(&nodes, &[TAINTS[1]])
    })
}

pub fn constraints() -> impl Strategy<Value = Constraints> {
    (1u32..=6, 0u32..=10, prop::option::of(0u32..=4)).prop_map(|(control_plane_count, minimum_workers, room)| {
        let maximum_workers = room.map_or(0, |room| (minimum_workers + room).max(1));
        Constraints { control_plane_count, minimum_workers, maximum_workers, ..Constraints::default() }
    })
}

pub fn taints(most: usize) -> impl Strategy<Value = LiveTaints> {
    prop::collection::vec((0..most, select(&TAINTS[..])), 0..8).prop_map(|list| {
        let mut taints = LiveTaints::new();
        for (n, key) in list {
            let keys: &mut BTreeSet<String> = taints.entry(IpAddr::V4(address(n))).or_default();
            keys.insert(key.to_owned());
        }
        taints
    })
}

/// A node of a cluster: which machine, whether it is a control plane, whether its stored taint is wrong.
type StoredNode = (usize, bool, bool);

/// Nodes of a cluster in any order. Written by hand, so control planes need not come first.
fn clusters(most: usize) -> impl Strategy<Value = Option<Vec<StoredNode>>> {
    let place = prop_oneof![12 => 0..most, 1 => most..most + 3];
    let node = (place, prop::bool::weighted(0.3), prop::bool::weighted(0.04));
    prop::option::weighted(0.9, prop::collection::vec(node, 1..24))
}

pub fn worlds(most: usize) -> impl Strategy<Value = World> {
    (machines(most), templates(), any::<bool>(), constraints(), clusters(most), taints(most)).prop_map(
        move |(machines, template, template_changed, constraints, cluster, taints)| {
            let mut world =
                World { machines, template, template_changed, constraints, current: None, taints, now: now() };
            world.current = cluster.map(|nodes| world.stored(nodes, most));
            world
        },
    )
}

impl World {
    /// The cluster that an earlier round stored. Numbers of `most` and above stand for machines that are not listed.
    fn stored(&self, nodes: Vec<StoredNode>, most: usize) -> Configuration {
        let mut seen = BTreeSet::new();
        let mut stored = Vec::new();
        for (n, control_plane, wrong) in nodes {
            let address = address(if n < most { n % self.machines.len() } else { n });
            if seen.insert(address) {
                let state = self.machine_at(IpAddr::V4(address)).map(|machine| machine.state);
                let mut node = stored_node(address, control_plane, state);
                if wrong {
                    node.taints = vec![state_taint(if node.taints.is_empty() { "retiring" } else { "other" })];
                }
                stored.push(node);
            }
        }
        Configuration { nodes: stored, rest: serde_json::Map::new() }
    }
}
