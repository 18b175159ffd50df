//! Taking over the etcd of the older service: records as it writes them go straight into etcd, and a server started on them shows and
//! serves every one, marks what input would refuse, and has all of it mended through its API.

use std::sync::Arc;

use sabakan_client::Client;
use sabakan_testkit::{TestServer, etcd::Etcd, fixtures, raw::request, wait_for};
use sabakan_wire::rest::{IpamConfigJson, MachineJson, QueryParams};
use serde_json::{Value, json};

const RAW_KEY: &str = "sixty-four bytes that the older service stored just as they were";

/// A machine as the older service writes it.
fn stored(serial: &str, index: u32, change: impl FnOnce(&mut Value)) -> (String, String) {
    let node = format!("10.69.0.{index}");
    let bmc = format!("10.72.17.{index}");
    let nic = |address: &str, gateway: &str| json!({"address": address, "netmask": "255.255.255.192", "maskbits": 26, "gateway": gateway});
    let mut machine = json!({
        "spec": {"serial": serial, "labels": null, "rack": 0, "index-in-rack": index, "role": "worker", "ipv4": [node], "ipv6": null,
            "register-date": "2020-11-15T19:36:21.214789506Z", "retire-date": "2030-01-02T03:04:05Z",
            "bmc": {"ipv4": bmc, "ipv6": "", "type": "iDRAC-9"}},
        "status": {"timestamp": "2020-11-15T19:36:21.214790467Z", "duration": 0, "state": "healthy"},
        "info": {"network": {"ipv4": [nic(&node, "10.69.0.1")]}, "bmc": {"ipv4": nic(&bmc, "10.72.17.1")}},
    });
    change(&mut machine);
    (format!("machines/{serial}"), machine.to_string())
}

/// Both pools are one network: the older service checks nothing between fields.
fn refused_ipam() -> IpamConfigJson {
    IpamConfigJson {
        node_ip_per_node: Some(1),
        node_ipv4_pool: Some("10.0.0.0/8".to_owned()),
        node_ipv4_offset: Some("0.69.0.0".to_owned()),
        bmc_ipv4_pool: Some("10.0.0.0/8".to_owned()),
        bmc_ipv4_offset: Some("0.72.17.0".to_owned()),
        ..fixtures::ipam()
    }
}

fn labels(count: usize) -> Value {
    (0..count).map(|n| (format!("label-{n:03}"), json!("v"))).collect::<serde_json::Map<_, _>>().into()
}

/// Odd in one way each: serial, and how its remark begins.
const ODD: [(&str, &str); 5] = [
    ("a/b,c", "serial: invalid serial"),
    ("many-labels", "labels: too many labels: 300"),
    ("long-bmc", "bmc.type: BMC type is too long: 1000 bytes"),
    ("no-address", "ipv4: no address"),
    (" padded", "serial: invalid serial"),
];

fn installation() -> Vec<(String, String)> {
    let audit = |category: &str| {
        json!({"ts": "2026-11-14T01:02:03.4Z", "rev": "77", "user": "op", "ip": "10.0.0.1", "host": "boot-0", "category": category,
            "instance": "coreos", "action": "upload", "detail": "id=1234"})
    };
    let mut all = vec![
        ("version".to_owned(), "3".to_owned()),
        ("ipam".to_owned(), serde_json::to_string(&refused_ipam()).expect("JSON")),
        ("node-indices/0".to_owned(), "[4,5,6,7,8,9,10]".to_owned()),
        stored("plain", 4, |_| {}),
        stored("forever", 5, |machine| machine["spec"]["retire-date"] = json!("9999-12-31T00:00:00Z")),
        stored("a/b,c", 6, |_| {}),
        stored("many-labels", 7, |machine| machine["spec"]["labels"] = labels(300)),
        stored("long-bmc", 8, |machine| machine["spec"]["bmc"]["type"] = json!("x".repeat(1_000))),
        stored("no-address", 9, |machine| {
            machine["spec"]["ipv4"] = json!(["<nil>"]);
            machine["info"]["network"]["ipv4"][0]["address"] = json!("<nil>");
        }),
        stored(" padded", 10, |_| {}),
        ("machines/broken".to_owned(), "this is not JSON".to_owned()),
        ("crypts/plain/disk-0".to_owned(), RAW_KEY.to_owned()),
        ("crypts/a/b,c/disk-0".to_owned(), RAW_KEY.to_owned()),
    ];
    for (n, category) in ["image", "assets", "ignition", "machines"].into_iter().enumerate() {
        all.push((format!("audit/20261114/{n:016x}"), audit(category).to_string()));
    }
    all
}

fn taken_over() -> TestServer {
    let etcd = Arc::new(Etcd::start());
    for (key, value) in installation() {
        etcd.etcdctl(&["put", &format!("/sabakan/{key}"), &value]);
    }
    TestServer::start_on(Some(etcd), |_| {})
}

fn find(client: &Client, serial: &str) -> MachineJson {
    let all = client.list_machines(&QueryParams::default()).expect("the machines");
    all.into_iter().find(|machine| machine.spec.serial == serial).unwrap_or_else(|| panic!("{serial:?} is not listed"))
}

/// The reason of a part of the health; the server is healthy whatever is taken over.
fn health(server: &TestServer, part: &str) -> Option<String> {
    let answer = request(&server.url(), "GET", "/health", &[], b"");
    assert_eq!(answer.status, 200, "{}", answer.body);
    let answer = answer.json();
    let found =
        answer["parts"].as_array().expect("parts").iter().find(|found| found["name"] == part).expect(part).clone();
    assert_eq!(found["needed"], false);
    found["reason"].as_str().map(str::to_owned)
}

fn metric(server: &TestServer, name: &str) -> String {
    let text = request(&server.url(), "GET", "/metrics", &[], b"").body;
    let line = text
        .lines()
        .find(|line| line.starts_with(&format!("{name} ")))
        .unwrap_or_else(|| panic!("{name} is not there"));
    line.rsplit(' ').next().expect("a value").to_owned()
}

#[test]
fn every_machine_of_the_older_service_is_listed_and_what_is_odd_is_marked() {
    let server = taken_over();
    let client = server.client();
    let mut serials: Vec<String> =
        client.list_machines(&QueryParams::default()).expect("machines").into_iter().map(|m| m.spec.serial).collect();
    serials.sort();
    assert_eq!(serials, [" padded", "a/b,c", "forever", "long-bmc", "many-labels", "no-address", "plain"]);
    for (serial, remark) in ODD {
        let remarks = find(&client, serial).takeover;
        assert!(remarks.len() == 1 && remarks[0].starts_with(remark), "{serial}: {remarks:?}");
    }
    assert_eq!(find(&client, "plain").takeover, [""; 0]);
    let forever = find(&client, "forever");
    assert_eq!((forever.takeover.len(), forever.spec.retire_date.as_str()), (0, "9999-12-31T00:00:00Z"));
    let query = br#"{"query":"{searchMachines(having:null,notHaving:null){spec{serial}}}"}"#;
    let found = request(&server.url(), "POST", "/graphql", &[("Content-Type", "application/json")], query).json();
    assert_eq!(found["data"]["searchMachines"].as_array().map(Vec::len), Some(7), "{found}");

    let marked = health(&server, "takeover").expect("marked");
    assert!(
        marked.contains("5 machines have values that input would refuse") && marked.contains("\"a/b,c\""),
        "{marked}"
    );
    assert!(marked.contains("the IPAM configuration cannot be used: bmc-ipv4-pool 10.0.0.0/8 overlaps"), "{marked}");
    let unreadable = health(&server, "records").expect("one is not JSON");
    assert!(unreadable.contains("1 stored records") && unreadable.contains("\"machines/broken\""), "{unreadable}");
    assert_eq!(metric(&server, "sabakan_takeover_machines"), "5");
    assert_eq!(metric(&server, "sabakan_unreadable_records"), "1");
    assert_eq!(metric(&server, "sabakan_takeover_raw_keys"), "2");
    // Whoever mends the record where it is has it back without a restart.
    let store = server.store();
    let (key, value) = stored("broken", 11, |_| {});
    let put = sabakan_store::Op::put(format!("/sabakan/{key}"), value);
    let _committed =
        server.block_on(store.commit(sabakan_store::Txn { when: vec![], then: vec![put] })).expect("written");
    wait_for("the mended record", std::time::Duration::from_secs(60), || {
        health(&server, "records").is_none().then_some(())
    });
    assert_eq!(find(&client, "broken").spec.serial, "broken");
}

#[test]
fn every_machine_of_the_older_service_is_mended_and_removed_through_the_api() {
    let server = taken_over();
    let client = server.client();
    for n in 0..44 {
        client.remove_label("many-labels", &format!("label-{n:03}")).expect("a label less");
    }
    assert_eq!(find(&client, "many-labels").takeover, [""; 0], "256 are allowed");
    client.put_retire_date("forever", "2031-01-01T00:00:00Z").expect("a date");
    client.put_retire_date("plain", "9999-12-31T00:00:00Z").expect("the last day there is");
    assert_eq!(find(&client, "plain").spec.retire_date, "9999-12-31T00:00:00Z");
    let leap = client.put_retire_date("plain", "2016-12-31T23:59:60Z").expect_err("a leap second");
    assert!(leap.status() == Some(400) && leap.to_string().contains("leap second"), "{leap}");
    for (serial, path) in
        [("a/b,c", "a%2Fb%2Cc"), (" padded", "%20padded"), ("long-bmc", "long-bmc"), ("no-address", "no-address")]
    {
        let step = |method: &str, what: &str, body: &[u8]| {
            let answer = request(&server.url(), method, &format!("/api/v1/{what}"), &[], body);
            assert_eq!(answer.status, 200, "{method} {what}: {}", answer.body);
        };
        step("PUT", &format!("labels/{path}/note"), b"mended");
        assert_eq!(find(&client, serial).spec.labels.expect("labels")["note"], "mended");
        step("PUT", &format!("retire-date/{path}"), b"2031-01-01T00:00:00Z");
        step("PUT", &format!("state/{path}"), b"unhealthy");
        step("PUT", &format!("state/{path}"), b"retiring");
        // Whether it has raw keys or none.
        step("DELETE", &format!("crypts/{path}"), b"");
        step("GET", &format!("state/{path}"), b"");
        step("DELETE", &format!("machines/{path}"), b"");
    }
    assert_eq!(metric(&server, "sabakan_takeover_machines"), "0");
    let left: Vec<String> = server.dump().into_keys().filter(|key| key.contains("/crypts/")).collect();
    assert_eq!(left, ["/sabakan/crypts/plain/disk-0"], "the raw key of a retired machine is gone");
}

#[test]
fn an_ipam_configuration_that_input_refuses_is_shown_and_can_be_replaced() {
    let server = taken_over();
    let client = server.client();
    assert_eq!(client.get_ipam().expect("as it is stored"), refused_ipam());
    let new = fixtures::machine("new", 0, "worker");
    let refused = client.create_machines(std::slice::from_ref(&new)).expect_err("no addresses can be computed");
    assert!(refused.status() == Some(500) && refused.to_string().contains("overlaps"), "{refused}");
    assert_eq!(client.put_ipam(&refused_ipam()).expect_err("still refused as input").status(), Some(400));
    // Under this one the first free index has an address that a machine of the older service has.
    let other =
        IpamConfigJson { node_ipv4_offset: Some("0.0.0.1".to_owned()), node_ip_per_node: Some(1), ..fixtures::ipam() };
    client.put_ipam(&other).expect("replaced");
    let exists = client.put_ipam(&fixtures::ipam()).expect_err("from now on the ordinary rule holds");
    assert!(exists.status() == Some(500) && exists.to_string().contains("machines already exists"), "{exists}");
    let taken = client.create_machines(std::slice::from_ref(&new));
    let occupied = taken.as_ref().err().map(|error| (error.status(), error.to_string().contains("which")));
    assert!(taken.is_ok() || occupied == Some((Some(409), true)), "{taken:?}");
    let all = client.list_machines(&QueryParams::default()).expect("machines");
    let mut addresses: Vec<String> = all.iter().flat_map(|machine| machine.spec.ipv4.clone()).collect();
    addresses.extend(all.iter().map(|machine| machine.spec.bmc.ipv4.clone()));
    addresses.sort();
    let count = addresses.len();
    addresses.dedup();
    assert_eq!(addresses.len(), count, "no two machines share an address (G2)");
}

#[test]
fn a_raw_key_is_never_not_found() {
    let server = taken_over();
    let client = server.client();
    let raw = health(&server, "raw-keys").expect("raw keys");
    assert!(raw.starts_with("2 raw keys to import: \"a/b,c/disk-0\", \"plain/disk-0\""), "{raw}");
    let answer = request(&server.url(), "GET", "/api/v1/crypts/plain/disk-0", &[], b"");
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.error().contains("raw") && answer.error().contains("do not format the disk"), "{}", answer.error());
    assert!(!answer.body.contains("sixty-four"), "the key is in no answer");
    assert_eq!(request(&server.url(), "GET", "/api/v1/crypts/plain/disk-1", &[], b"").status, 404);
    // A disk without a key is new, whatever the serial is; a serial that no machine has and none can get is a mistake.
    assert_eq!(request(&server.url(), "GET", "/api/v1/crypts/a%2Fb%2Cc/disk-1", &[], b"").status, 404);
    assert_eq!(request(&server.url(), "GET", "/api/v1/crypts/x%2Fy/disk-1", &[], b"").status, 400);
    assert_eq!(client.put_key("plain", "disk-0", b"another").expect_err("there is one").status(), Some(409));
    client.put_key("plain", "disk-1", b"a new one").expect("stored");
    assert_eq!(client.get_key("plain", "disk-1").expect("sealed and opened"), b"a new one");
    // What the guide says about the way back: from the first key on that we store, the older service would serve JSON as a key.
    let dump = server.dump();
    assert_eq!(dump["/sabakan/version"], b"3");
    assert_eq!(dump["/sabakan/crypts/plain/disk-0"], RAW_KEY.as_bytes());
    assert!(dump["/sabakan/crypts/plain/disk-1"].starts_with(br#"{"v":"#));
    client.put_state("plain", "retiring", false).expect("retiring");
    assert_eq!(client.put_state("plain", "retired", false).expect_err("it has keys (G1)").status(), Some(400));
    assert_eq!(client.delete_keys("plain").expect("both"), ["disk-0", "disk-1"]);
    assert_eq!(client.get_state("plain").expect("a state"), "retired");
    assert_eq!(metric(&server, "sabakan_takeover_raw_keys"), "1");
    let log = client.list_logs(None, None).expect("the log");
    let erased = log.iter().find(|entry| entry.category == "crypts" && entry.action == "delete").expect("recorded");
    assert!(
        erased.detail.lines().next().is_some_and(|line| line.starts_with("disk-0 sha256:") && line.ends_with(" raw"))
    );
}

#[test]
fn audit_entries_of_the_older_service_are_shown_as_they_are() {
    let server = taken_over();
    let log = server.client().list_logs(Some("20261114"), Some("20261115")).expect("the log");
    let shown: Vec<&str> = log.iter().map(|entry| entry.category.as_str()).collect();
    assert_eq!(shown, ["image", "assets", "ignition", "machines"]);
    assert_eq!(
        (log[0].instance.as_str(), log[0].action.as_str(), log[0].detail.as_str()),
        ("coreos", "upload", "id=1234")
    );
}
