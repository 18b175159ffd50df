//! Whom an agent may be, what it may say, and where it may be called.

use serde_json::json;

use super::{super::fixtures::Desk, *};
use crate::provision::verbs::Verb;

fn chosen(slot: Slot, name: &str) -> BTreeMap<Slot, String> {
    BTreeMap::from([(slot, name.to_owned())])
}

#[test]
fn only_nodes_that_chose_an_agent_have_one() {
    for driver in ["fake-hardware", "redfish", "ipmi"] {
        assert!(!works(&BTreeMap::new(), Some(driver)), "{driver}");
        assert!(!inspects(&BTreeMap::new(), Some(driver)), "{driver}");
        assert!(works(&chosen(Slot::Deploy, "direct"), Some(driver)));
        assert!(inspects(&chosen(Slot::Inspect, "agent"), Some(driver)));
    }
    assert!(works(&chosen(Slot::Deploy, "custom-agent"), None));
    assert!(!works(&chosen(Slot::Deploy, "ramdisk"), Some("redfish")));
}

#[test]
fn where_an_agent_may_be_called_back() {
    let there: Option<IpAddr> = Some("127.0.0.1".parse().expect("an address"));
    for (url, fits) in [
        ("http://192.0.2.50:9999", true),
        ("https://192.0.2.50:9999/", true),
        ("https://[2001:db8::1]:9999", true),
        ("https://[2001:db8::1]", true),
        ("http://192.0.2.50", true),
        ("http://127.0.0.1:19999", true),
        ("http://[::ffff:127.0.0.1]:1", true),
        ("http://127.0.0.2:19999", false),
        ("http://169.254.169.254", false),
        ("http://[fe80::1]:9999", false),
        ("http://[::1]:9999", false),
        ("http://0.0.0.0:9999", false),
        ("http://224.0.0.1:9999", false),
        ("http://metadata.example:9999", false),
        ("http://192.0.2.50:9999/v1", false),
        ("http://192.0.2.50:9999?x", false),
        ("http://u:p@192.0.2.50:9999", false),
        ("http://192.0.2.50:+1", false),
        ("http://192.0.2.50:0", false),
        ("http://192.0.2.50:99999", false),
        ("http://2001:db8::1", false),
        ("file:///etc/passwd", false),
        ("HTTP://192.0.2.50", false),
        ("", false),
        (&format!("http://{}", "1".repeat(200)), false),
    ] {
        assert_eq!(check_callback(url, there).is_ok(), fits, "{url}");
    }
    assert!(check_callback("http://127.0.0.1:1", None).is_err());
}

/// A node whose ramdisk boots.
fn booting() -> Desk {
    let mut desk = Desk::full(State::Manageable);
    desk.ask(Verb::Provide, &[]).expect("accepted");
    while expected(&desk.node).is_none() {
        assert!(desk.turn(), "no ramdisk is booted: {:?}", desk.node.operation);
    }
    desk
}

#[test]
fn the_first_lookup_gets_the_token_and_calls_need_it() {
    let mut desk = booting();
    let call = AgentCall { url: "http://192.0.2.9:9999".to_owned(), version: "13".to_owned(), verify_ca: None };
    assert_eq!(called(&desk.node, &call, "sealed", desk.now), Err(CallRefusal::Token));
    let changed = introduce(&desk.node, "sealed", "192.0.2.9", desk.now).expect("the first");
    desk.write(changed);
    assert_eq!(introduce(&desk.node, "other", "192.0.2.10", desk.now), None);
    assert_eq!(called(&desk.node, &call, "other", desk.now), Err(CallRefusal::Token));
    let changed = called(&desk.node, &call, "sealed", desk.now).expect("counts").expect("new");
    desk.write(changed);
    let contact = expected(&desk.node).expect("still there").clone();
    assert_eq!((contact.url.as_deref(), contact.version.as_deref()), (Some("http://192.0.2.9:9999"), Some("13")));
    assert_eq!(contact.token.as_deref(), Some("sealed"));
    assert_eq!(called(&desk.node, &call, "sealed", desk.now), Ok(None), "nothing new");
    let moved = AgentCall { url: "http://192.0.2.66:9999".to_owned(), ..call };
    assert_eq!(called(&desk.node, &moved, "sealed", desk.now), Err(CallRefusal::Moved));
}

#[test]
fn nobody_learns_anything_about_a_node_without_a_booted_ramdisk() {
    for state in State::ALL {
        let mut node = Desk::at(state).node;
        assert_eq!(introduce(&node, "s", "x", node.since), None, "{state}");
        if let Some(operation) = booting().node.operation {
            node.operation = Some(operation);
        }
        assert_eq!(introduce(&node, "s", "x", node.since).is_some(), may_look_up(state), "{state}");
    }
}

#[test]
fn whoever_tells_what_it_found_has_introduced_itself() {
    let mut node = booting().node;
    let told = Object::from([("cpus".to_owned(), json!(4))]);
    assert!(!awaits_inventory(&node) && inspected(&node, &told, "sealed", "x", node.since).is_none(), "it is cleaned");
    node.state = State::InspectWait;
    let wait = Wait { on: WaitOn::Inventory { arrived: false }, reason: String::new(), since: node.since };
    node.operation.as_mut().expect("work").phase = Phase::Waiting(wait);
    assert!(awaits_inventory(&node));
    let first = inspected(&node, &told, "sealed", "x", node.since).expect("somebody waits").node;
    assert_eq!(expected(&first).and_then(|contact| contact.token.as_deref()), Some("sealed"));
    assert_eq!(first.properties.get("cpus"), Some(&json!(4)));
    assert!(!awaits_inventory(&first) && inspected(&first, &told, "other", "x", node.since).is_none(), "only once");
    // One that looked its node up before keeps the token it was given.
    let known = introduce(&node, "known", "x", node.since).expect("the first").node;
    let later = inspected(&known, &told, "sealed", "x", node.since).expect("somebody waits").node;
    assert_eq!(expected(&later).and_then(|contact| contact.token.as_deref()), Some("known"));
}

fn step(name: &str, place: Place, priority: u32) -> Step {
    let offered = OfferedStep { interface: Interface::Deploy, name: name.to_owned(), priority, abortable: true };
    Step { place, idempotent: true, ..unknown(&offered) }
}

fn operation(work: Work, steps: Vec<Step>) -> Operation {
    Operation { work, steps, index: 0, ..booting().node.operation.expect("work") }
}

fn offer(steps: &[(&str, u32)]) -> Offer {
    let step = |(name, priority): &(&str, u32)| OfferedStep {
        interface: Interface::Deploy,
        name: (*name).to_owned(),
        priority: *priority,
        abortable: false,
    };
    Offer { steps: steps.iter().map(step).collect(), managers: Object::from([("m".to_owned(), json!("1"))]) }
}

#[test]
fn automated_cleaning_runs_what_the_agent_offers() {
    let steps = vec![
        builtin::step(builtin::BOOT_RAMDISK),
        step("erase", Place::InBand, 99),
        step("other", Place::OutOfBand, 50),
        step("gone", Place::InBand, 10),
        builtin::step(builtin::END_RAMDISK),
        step("last", Place::OutOfBand, 5),
    ];
    let work = operation(Work::AutomatedClean, steps);
    let overrides = BTreeMap::from([("deploy.off".to_owned(), 0), ("deploy.late".to_owned(), 3)]);
    let offer = offer(&[("late", 80), ("erase", 90), ("erase", 90), ("off", 7), ("manual", 0), ("site", 60)]);
    let planned = replan(&work, &offer, &overrides).expect("a plan");
    let names: Vec<&str> = planned.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["boot_ramdisk", "erase", "site", "other", "late", "tear_down_agent", "last"]);
    assert!(planned[1].idempotent && !planned[2].idempotent, "what is not known is not run twice");
}

#[test]
fn what_was_asked_for_by_name_must_be_offered() {
    let steps = vec![
        builtin::step(builtin::BOOT_RAMDISK),
        step("burnin", Place::InBand, 0),
        step("write_image", Place::InBand, 80),
        builtin::step(builtin::END_RAMDISK),
    ];
    let work = operation(Work::ManualClean, steps);
    assert_eq!(replan(&work, &offer(&[("burnin", 0)]), &BTreeMap::new()).as_ref(), Ok(&work.steps));
    let refusal = replan(&work, &offer(&[("erase", 10)]), &BTreeMap::new()).expect_err("not offered");
    assert_eq!(refusal, "the ramdisk does not offer deploy.burnin; it offers: deploy.erase");
}
