//! The life of nodes through the API.

use std::sync::Barrier;

use sabakan_testkit::Backend;
use serde_json::{Value, json};

use super::{Api, fault, rack};

on_both_stores!(
    a_node_goes_from_enroll_to_active_and_back,
    secrets_are_sealed_masked_and_follow_their_node,
    a_name_and_a_uuid_belong_to_one_node,
);

fn a_node_goes_from_enroll_to_active_and_back(backend: Backend) {
    let (_rack, api) = rack(backend);
    let made = api.ask("POST", "/v1/nodes", &json!({ "driver": "fake-hardware", "name": "n1" }), 201);
    let uuid = made.json()["uuid"].as_str().expect("a UUID").to_owned();
    assert!(made.header("location").is_some_and(|place| place.ends_with(&format!("/v1/nodes/{uuid}"))));
    let node = api.get("/v1/nodes/n1");
    assert_eq!((node["provision_state"].as_str(), node["updated_at"].is_null()), (Some("enroll"), true));
    assert!(api.get("/v1/nodes/n1/validate")["power"]["result"] == json!(true));

    api.bring("n1", &json!({ "target": "manage" }), "manageable");
    api.ask("GET", "/v1/nodes/n1/inventory", &Value::Null, 404);
    api.bring(&uuid, &json!({ "target": "inspect" }), "manageable");
    assert!(api.get("/v1/nodes/n1/inventory")["inventory"]["cpu"]["frequency"].is_string());
    api.bring("n1", &json!({ "target": "provide" }), "available");
    let image = json!([{ "op": "add", "path": "/instance_info/image_source", "value": "http://192.0.2.1/i" }]);
    api.ask("PATCH", "/v1/nodes/n1", &image, 200);
    let active = api.bring("n1", &json!({ "target": "active", "configdrive": "H4sIAAAA" }), "active");
    assert_eq!(active["instance_info"]["configdrive"], json!("******"));
    assert_eq!(active["power_state"], json!("power on"));

    let asked = api.ask("PUT", "/v1/nodes/n1/states/power", &json!({ "target": "power off" }), 202);
    assert!(asked.header("location").is_some_and(|place| place.ends_with("/v1/nodes/n1/states")));
    sabakan_testkit::wait_for("power off", sabakan_testkit::rack::WORK_MAX, || {
        let states = api.get("/v1/nodes/n1/states");
        (states["power_state"] == "power off" && states["target_power_state"].is_null()).then_some(())
    });
    api.ask("PUT", "/v1/nodes/n1/management/boot_device", &json!({ "boot_device": "pxe" }), 204);
    assert_eq!(api.get("/v1/nodes/n1/management/boot_device")["boot_device"], json!("pxe"));
    api.ask("DELETE", "/v1/nodes/n1", &Value::Null, 409);
    let protect = json!([{ "op": "add", "path": "/protected", "value": true }]);
    api.ask("PATCH", "/v1/nodes/n1", &protect, 200);
    api.ask("PUT", "/v1/nodes/n1/states/provision", &json!({ "target": "deleted" }), 403);
    api.ask("PATCH", "/v1/nodes/n1", &json!([{ "op": "remove", "path": "/protected" }]), 200);
    let gone = api.bring("n1", &json!({ "target": "deleted" }), "available");
    assert_eq!(gone["instance_info"], json!({}));

    let history = api.get("/v1/nodes/n1/history?detail=true");
    let rows = history["history"].as_array().expect("rows").clone();
    assert!(rows.len() > 10 && rows[0]["conductor"].is_string(), "{history}");
    let row = rows[3]["uuid"].as_str().expect("a UUID");
    assert_eq!(api.get(&format!("/v1/nodes/n1/history/{row}"))["event"], rows[3]["event"]);
    let page = api.get(&format!("/v1/nodes/n1/history?limit=2&marker={row}"));
    assert_eq!(page["history"][0]["uuid"], rows[4]["uuid"]);
    assert!(page["next"].is_string());
    api.ask("DELETE", "/v1/nodes/n1", &Value::Null, 204);
    assert_eq!(fault(&api.ask("GET", "/v1/nodes/n1", &Value::Null, 404)), "Node n1 could not be found.");
}

fn secrets_are_sealed_masked_and_follow_their_node(backend: Backend) {
    let (rack, api) = rack(backend);
    let right = rack.fleet.config().password.expose().to_owned();
    let body = json!({ "driver": "fake-hardware", "name": "old", "driver_info": { "fake_password": "hunter2-wrong" } });
    let made = api.ask("POST", "/v1/nodes", &body, 201);
    assert_eq!(made.json()["driver_info"], json!({ "fake_password": "******" }));
    api.ask("PUT", "/v1/nodes/old/states/provision", &json!({ "target": "manage" }), 202);
    let failed = api.wait_for("old", "enroll");
    assert!(failed["last_error"].as_str().is_some_and(|text| text.contains("credentials")), "{failed}");

    let set = |value: &str| json!([{ "op": "add", "path": "/driver_info/fake_password", "value": value }]);
    api.ask("PATCH", "/v1/nodes/old", &set(&right), 200);
    // What an answer showed, written back, with a new name: a secret is bound to the name of its node.
    let back = json!([
        { "op": "replace", "path": "/driver_info", "value": { "fake_password": "******" } },
        { "op": "replace", "path": "/name", "value": "new" },
    ]);
    api.ask("PATCH", "/v1/nodes/old", &back, 200);
    api.ask("GET", "/v1/nodes/old", &Value::Null, 404);
    let managed = api.bring("new", &json!({ "target": "manage" }), "manageable");
    assert_eq!(managed["uuid"], made.json()["uuid"]);
    let rows = api.get("/v1/nodes/new/history")["history"].as_array().map(Vec::len);
    assert!(rows.is_some_and(|rows| rows > 4), "its history came along");
    for (key, value) in rack.server.dump() {
        let text = String::from_utf8_lossy(&value);
        assert!(!text.contains("hunter2-wrong") && !text.contains(&right), "{key} holds a secret");
        assert!(!key.contains("/old"), "{key} was left behind");
    }
}

fn a_name_and_a_uuid_belong_to_one_node(backend: Backend) {
    let (rack, api) = rack(backend);
    let barrier = Barrier::new(8);
    let race = |body: &(dyn Fn(usize) -> Value + Sync)| -> usize {
        std::thread::scope(|scope| {
            let racers: Vec<_> = (0..8)
                .map(|n| {
                    let (api, barrier) = (&api, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        let answer = api.send("POST", "/v1/nodes", &body(n).to_string());
                        assert!(matches!(answer.status, 201 | 409), "{} {}", answer.status, answer.body);
                        usize::from(answer.status == 201)
                    })
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().expect("answered")).sum()
        })
    };
    let uuid = "11111111-0014-4000-8000-000000000001";
    assert_eq!(race(&|n| json!({ "driver": "fake-hardware", "name": format!("n{n}"), "uuid": uuid })), 1);
    assert_eq!(race(&|_| json!({ "driver": "fake-hardware", "name": "same" })), 1);
    assert_eq!(api.get("/v1/nodes")["nodes"].as_array().map(Vec::len), Some(2));
    // A machine of that name has its node already, and one that is registered later gets this one.
    rack.register(&["same", "other"]);
    let taken = api.ask("POST", "/v1/nodes", &json!({ "driver": "fake-hardware", "name": "other" }), 409);
    assert!(fault(&taken).contains("other already exists"), "{}", fault(&taken));
    let renamed = json!([{ "op": "add", "path": "/name", "value": "elsewhere" }]);
    api.ask("PATCH", "/v1/nodes/same", &renamed, 400);
    let moved = json!([{ "op": "add", "path": "/name", "value": "other" }]);
    api.ask("PATCH", &format!("/v1/nodes/{uuid}"), &moved, 409);
    assert_eq!(api.get("/v1/nodes")["nodes"].as_array().map(Vec::len), Some(3));
}

#[test]
fn a_registered_machine_has_a_node_under_its_serial() {
    let (rack, api) = rack(Backend::Embedded);
    rack.register(&["s1"]);
    let node = api.get("/v1/nodes/s1");
    assert_eq!((node["name"].as_str(), node["driver"].as_str()), (Some("s1"), Some("fake-hardware")));
    let uuid = node["uuid"].as_str().expect("a UUID");
    assert_eq!(api.get(&format!("/v1/nodes/{uuid}"))["name"], json!("s1"));
    let note =
        json!([{ "op": "add", "path": "/extra/a", "value": 1 }, { "op": "add", "path": "/owner", "value": "me" }]);
    assert_eq!(api.ask("PATCH", "/v1/nodes/s1", &note, 200).json()["uuid"], json!(uuid));
    assert_eq!(api.get("/v1/nodes/s1")["extra"], json!({ "a": 1 }));
    // The two axes meet: a machine that is declared to leave is a node that is retired, and the other way round.
    api.ask("PATCH", "/v1/nodes/s1", &json!([{ "op": "add", "path": "/retired", "value": true }]), 200);
    assert_eq!(rack.server.client().get_state("s1").expect("a state"), "retiring");
    let nodes = api.get("/v1/nodes?retired=true");
    assert_eq!(nodes["nodes"][0]["name"], json!("s1"));
    // Taken back by name; its machine has to be prepared again.
    let back = json!([{ "op": "add", "path": "/retired", "value": false }]);
    assert_eq!(api.ask("PATCH", "/v1/nodes/s1", &back, 200).json()["retired"], false);
    assert_eq!(api.get("/v1/nodes?retired=true")["nodes"].as_array().map(Vec::len), Some(0));
    api.ask("PATCH", "/v1/nodes/s1", &json!([{ "op": "add", "path": "/retired", "value": true }]), 200);
    let status = api.get("/v1/nodes/s1/sabakan");
    assert_eq!((status["machine_state"].as_str(), status["accepted"][0].as_str()), (Some("retiring"), Some("manage")));
}

#[test]
fn what_a_node_waits_for_is_told() {
    let (_rack, api) = rack(Backend::Embedded);
    api.ask("POST", "/v1/nodes", &json!({ "driver": "fake-hardware", "name": "n1" }), 201);
    api.bring("n1", &json!({ "target": "manage" }), "manageable");
    let hold = json!({ "target": "clean", "clean_steps": [{ "interface": "deploy", "step": "hold" }] });
    api.ask("PUT", "/v1/nodes/n1/states/provision", &hold, 202);
    sabakan_testkit::wait_for("the hold", sabakan_testkit::rack::WORK_MAX, || {
        (api.get("/v1/nodes/n1")["provision_state"] == "clean hold").then_some(())
    });
    let status = api.get("/v1/nodes/n1/sabakan");
    assert!(status["waiting"]["reason"].is_string(), "{status}");
    assert_eq!(status["operation"]["work"], json!("manual clean"));
    let number = status["operation"]["step_number"].as_u64().expect("a step");
    assert!(number >= 1 && status["operation"]["steps"].as_array().is_some_and(|steps| steps.len() as u64 >= number));
    assert_eq!(status["accepted"], json!(["unhold", "abort"]));
    // Older versions call the hold what they know, and do not know the verb that ends it.
    let old = Api::at(api.url.clone(), "1.84");
    old.ask("PUT", "/v1/nodes/n1/states/provision", &json!({ "target": "unhold" }), 406);
    api.bring("n1", &json!({ "target": "unhold" }), "manageable");
}

#[test]
fn a_change_of_another_version_is_refused() {
    let (_rack, mut api) = rack(Backend::Embedded);
    let made = api.ask("POST", "/v1/nodes", &json!({ "driver": "fake-hardware", "name": "n1" }), 201);
    let tag = made.header("etag").expect("a tag").to_owned();
    let note = |n: u32| json!([{ "op": "add", "path": "/extra/n", "value": n }]);
    api.set("if-match", &tag);
    let changed = api.ask("PATCH", "/v1/nodes/n1", &note(1), 200);
    assert_ne!(changed.header("etag"), Some(tag.as_str()));
    api.ask("PATCH", "/v1/nodes/n1", &note(2), 412);
    api.ask("PUT", "/v1/nodes/n1/states/provision", &json!({ "target": "manage" }), 412);
    api.ask("DELETE", "/v1/nodes/n1", &Value::Null, 412);
    api.set("if-match", changed.header("etag").expect("a tag"));
    api.ask("DELETE", "/v1/nodes/n1", &Value::Null, 204);
}

#[test]
fn pages_hold_every_node_once() {
    let (rack, api) = rack(Backend::Embedded);
    let serials: Vec<String> = (0..60).map(|n| format!("s{n:03}")).collect();
    rack.register(&serials);
    for n in 0..25 {
        let class = if n % 2 == 0 { "gold" } else { "silver" };
        let body = json!({ "driver": "fake-hardware", "name": format!("n{n:02}"), "resource_class": class });
        api.ask("POST", "/v1/nodes", &body, 201);
    }
    let walk = |first: &str| {
        let (mut names, mut path, mut pages) = (Vec::new(), first.to_owned(), 0);
        loop {
            let page = api.get(&path);
            pages += 1;
            let nodes = page["nodes"].as_array().expect("nodes");
            names.extend(nodes.iter().map(|node| node["name"].as_str().expect("a name").to_owned()));
            match page["next"].as_str() {
                Some(next) => path = next[next.find("/v1").expect("a path")..].to_owned(),
                None => return (names, pages),
            }
        }
    };
    let (names, pages) = walk("/v1/nodes?limit=10");
    assert_eq!((names.len(), pages), (85, 9));
    let mut sorted = names;
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), 85, "none twice");
    let (descending, _) = walk("/v1/nodes?limit=7&sort_key=name&sort_dir=desc&fields=name");
    assert!(descending.is_sorted_by(|a, b| a > b) && descending.len() == 85);
    let (gold, _) = walk("/v1/nodes?limit=5&resource_class=gold&fields=name,resource_class");
    assert_eq!(gold.len(), 13);
    let unknown = "/v1/nodes?marker=11111111-0014-4000-8000-000000000009";
    api.ask("GET", unknown, &Value::Null, 404);
}
