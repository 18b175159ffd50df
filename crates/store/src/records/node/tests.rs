//! What is written is what is read.

use std::collections::BTreeMap;

use sabakan_domain::provision::{
    builtin,
    hardware::{Configuration, Volume},
    node::{Operation, Phase, RamdiskContact, Wait, WaitOn, WishOrigin, Work},
    states::State,
};
use serde_json::json;

use super::*;
use crate::{KeyValue, Revision, records};

fn stored(value: bytes::Bytes) -> KeyValue {
    let revision = Revision(1);
    KeyValue { key: "/sabakan/nodes/s1".into(), value, create_revision: revision, mod_revision: revision, lease: None }
}

fn time() -> Timestamp {
    "2026-11-15T19:36:21Z".parse().expect("time")
}

fn idle() -> Node {
    Node::implied(NodeId(1), Serial::new("s1").expect("serial"), time())
}

fn busy() -> Node {
    let mut node = idle();
    node.driver_info.insert("redfish_address".into(), json!("https://10.0.0.1"));
    node.driver_secrets.insert("redfish_password".into(), "sealed".into());
    node.details.resource_class = Some("gold".into());
    node.details.parent = Some(NodeId(2));
    node.details.interfaces.insert(sabakan_domain::provision::interfaces::Slot::Raid, "agent".into());
    node.details.traits.insert("CUSTOM_FAST".into());
    node.details.edited_at = Some(time());
    node.state = State::CleanWait;
    node.target = Some(State::Available);
    node.maintenance = Some(Maintenance { reason: Some("why".into()), fault: Some(Fault::Clean) });
    node.held_report = Some(HeldReport { state: HealthState::Unhealthy, at: time(), by: "monitor".into() });
    node.power.state = Some(PowerState::Off);
    node.controls = Controls { console_enabled: true, boot_mode: Some(BootMode::Uefi), secure_boot: Some(false) };
    node.power.silent = Some(Silent { since: time(), reason: "no answer".into(), times: 2 });
    node.power.action = Some(PowerAction {
        target: PowerTarget::SoftOff,
        asked_by: "me".into(),
        asked_at: time(),
        deadline: time(),
        started: true,
    });
    let volume = Volume {
        controller: "c".into(),
        name: "v".into(),
        level: "1".into(),
        size_gib: 100,
        members: vec!["d1".into(), "d2".into()],
        boot: true,
    };
    node.operation = Some(Operation {
        id: "op".into(),
        work: Work::AutomatedClean,
        asked_by: "me".into(),
        asked_at: time(),
        steps: builtin::ALL.iter().copied().map(builtin::step).collect(),
        index: 3,
        phase: Phase::Waiting(Wait {
            on: WaitOn::Task { id: "t".into(), ended: false },
            reason: "it runs".into(),
            since: time(),
        }),
        deadline: Some(time()),
        before: Some(Configuration {
            volumes: Some(vec![volume]),
            bios: Some(BTreeMap::from([("a".into(), "b".into())])),
            ..Configuration::default()
        }),
        ramdisk: Some(RamdiskContact {
            url: Some("http://r".into()),
            heard_at: Some(time()),
            token: Some("sealed".into()),
            version: Some("13.0.0".into()),
            verify_ca: Some("PEM".into()),
            managers: BTreeMap::from([("generic".into(), json!("1.2"))]),
            command: Some("ramdisk:deploy.erase_devices#1".into()),
        }),
        abort_by: Some("me".into()),
        power_forced_by: Some("me".into()),
        origin: None,
    });
    let left = node.operation.clone().map(Box::new);
    let origin = WishOrigin {
        state: State::CleanFailed,
        target: Some(State::Available),
        last_error: Some("it broke".into()),
        clear_up: left,
    };
    node.operation.as_mut().expect("work").origin = Some(origin);
    node
}

#[test]
fn a_node_is_read_as_it_was_written() {
    for node in [idle(), busy()] {
        let written = records::encode(&NodeRecord::from(&node));
        let read: Node = records::decode::<NodeRecord, _>(&stored(written)).expect("decodes");
        assert_eq!(read, node);
    }
    let phases = [
        Phase::Ready,
        Phase::Started { attempt: 2 },
        Phase::Resumed { attempt: 1, task: Some("t".into()) },
        Phase::Waiting(Wait { on: WaitOn::Heartbeat { called: true }, reason: String::new(), since: time() }),
        Phase::Waiting(Wait { on: WaitOn::Time(time()), reason: String::new(), since: time() }),
        Phase::Waiting(Wait { on: WaitOn::Inventory { arrived: true }, reason: String::new(), since: time() }),
        Phase::Waiting(Wait { on: WaitOn::Hold, reason: String::new(), since: time() }),
    ];
    for phase in phases {
        let mut node = busy();
        node.operation.as_mut().expect("operation").phase = phase;
        let read: Node =
            records::decode::<NodeRecord, _>(&stored(records::encode(&NodeRecord::from(&node)))).expect("decodes");
        assert_eq!(read, node);
    }
}

#[test]
fn an_idle_node_is_small() {
    let written = records::encode(&NodeRecord::from(&idle()));
    assert!(written.len() < 300, "{}", String::from_utf8_lossy(&written));
}

#[test]
fn what_cannot_be_ours_is_reported() {
    let text = String::from_utf8(records::encode(&NodeRecord::from(&busy())).to_vec()).expect("text");
    for (from, to, reason) in [
        (r#""state":"clean wait""#, r#""state":"fine""#, "invalid provision state"),
        (r#""work":"automated clean""#, r#""work":"x""#, "invalid work"),
        (r#""fault":"clean failure""#, r#""fault":"x""#, "invalid fault"),
        (r#""place":"engine""#, r#""place":"x""#, "invalid place"),
    ] {
        assert!(text.contains(from), "{from} not in {text}");
        let broken = stored(text.replacen(from, to, 1).into());
        let error = records::decode::<NodeRecord, Node>(&broken).expect_err(to).to_string();
        assert!(error.contains(reason) && error.contains("/sabakan/nodes/s1"), "{error}");
    }
}
