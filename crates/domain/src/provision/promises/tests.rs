//! What is asked, by whom it would be done, and what is said.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::provision::{
    accept::VerbRefusal,
    fixtures::{Desk, RAMDISK},
    states::State,
    steps::{StepRequest, StepSpec},
};

/// A desk whose driver writes no image and erases no disk.
fn plain(state: State) -> Desk {
    Desk { has_keys: false, ..Desk::at(state) }
}

/// One that does both, through its ramdisk.
fn able(state: State) -> Desk {
    Desk { ramdisk: RAMDISK, ..plain(state) }
}

/// One whose ramdisk is an agent.
fn with_agent(state: State) -> Desk {
    let mut desk = able(state);
    desk.node.details.interfaces.insert(Slot::Deploy, "direct".to_owned());
    desk
}

/// What a verb is refused with, and what validation says; both or neither.
fn check(desk: &Desk, verb: Verb, slot: Slot, expected: Option<&str>) {
    let (node, options) = (desk.node.clone(), desk.options.clone());
    let (rows, ran) = (Vec::new(), Vec::new());
    let mut tried = Desk { node, options, rows, ran, ..*desk };
    let before = tried.node.clone();
    let refused = match tried.ask(verb, &[]) {
        Ok(()) => None,
        Err(VerbRefusal::Unmet(wish)) => Some(wish),
        Err(other) => panic!("{other}"),
    };
    assert!(refused.is_none() || tried.node == before, "a refusal changes nothing");
    let found = check_all(&desk.node, desk.offered(), desk.has_keys, &desk.options);
    match (refused, expected) {
        (None, None) => assert!(!found.iter().any(|wish| wish.slot == slot), "{found:?}"),
        (Some(wish), Some(text)) => {
            assert_eq!(wish.slot, slot, "{wish}");
            let said = wish.to_string();
            assert!(said.contains(text) && said.contains(slot.field()), "{said}");
            assert!(found.contains(&wish), "{found:?}");
        }
        (refused, expected) => panic!("{refused:?}, expected {expected:?}"),
    }
}

fn instance(mut desk: Desk, info: Value) -> Desk {
    desk.node.instance_info = serde_json::from_value(info).expect("an object");
    desk
}

fn properties(mut desk: Desk, info: Value) -> Desk {
    desk.node.properties = serde_json::from_value(info).expect("an object");
    desk
}

#[test]
fn an_image_needs_somebody_who_writes_it() {
    let text = Some("instance_info.image_source cannot be written");
    for verb in [Verb::Active, Verb::Rebuild] {
        let state = if verb == Verb::Active { State::Available } else { State::Active };
        check(&instance(plain(state), json!({ "image_source": "http://i/x.raw" })), verb, Slot::Deploy, text);
        check(&instance(able(state), json!({ "image_source": "http://i/x.raw" })), verb, Slot::Deploy, None);
        for nothing in [json!({}), json!({ "image_source": "" }), json!({ "image_source": null })] {
            // With keys, so that validation has nothing to say about its cleaning.
            let desk = Desk { has_keys: true, ..plain(state) };
            check(&instance(desk, nothing), verb, Slot::Deploy, None);
        }
    }
    check(
        &instance(plain(State::Available), json!({ "image_url": "http://i/x" })),
        Verb::Active,
        Slot::Deploy,
        Some("image_url"),
    );
    // Whoever takes the step away that writes it takes the image away.
    let mut desk = instance(able(State::Available), json!({ "image_source": "http://i/x.raw" }));
    let mut request = desk.request(Verb::Active, &["deploy.write_image"]);
    request.steps.iter_mut().for_each(|step: &mut StepRequest| step.priority = Some(0));
    assert!(
        matches!(desk.submit(&request), Err(VerbRefusal::Unmet(wish)) if wish.field == "instance_info.image_source")
    );
}

#[test]
fn a_config_drive_is_what_an_agent_can_read() {
    let object = json!({ "configdrive": { "meta_data": {} } });
    let unread = Some("instance_info.configdrive cannot be read by the agent");
    for (desk, info, expected) in [
        (with_agent(State::Available), object.clone(), unread),
        (with_agent(State::Available), json!({ "configdrive": ["a"] }), unread),
        (with_agent(State::Available), json!({ "configdrive": "{\"meta_data\": {}}" }), unread),
        (with_agent(State::Available), json!({ "configdrive": "H4sIAAAA+/8=\n" }), None),
        (with_agent(State::Available), json!({ "configdrive": "https://d/x?y=1" }), None),
        (with_agent(State::Available), json!({ "configdrive": null }), None),
        // The simulated ramdisk takes whatever it is given.
        (able(State::Available), object.clone(), None),
        (plain(State::Available), object, Some("instance_info.configdrive cannot be written")),
    ] {
        check(&instance(desk, info), Verb::Active, Slot::Deploy, expected);
    }
}

#[test]
fn ways_to_boot_that_deploying_does_not_choose_are_refused() {
    let secure = Some(".capabilities.secure_boot cannot be granted");
    let legacy = Some(".capabilities.boot_mode cannot be granted");
    for (capabilities, expected) in [
        (json!("secure_boot:true"), secure),
        (json!("cpu_vt:true, secure_boot:True"), secure),
        (json!({ "secure_boot": true }), secure),
        (json!({ "secure_boot": "true" }), secure),
        (json!("{\"secure_boot\": \"true\"}"), secure),
        (json!("secure_boot:false"), None),
        (json!("boot_mode:bios"), legacy),
        (json!({ "boot_mode": "bios" }), legacy),
        (json!("boot_mode:uefi,secure_boot:false"), None),
        (json!("insecure_boot:true"), None),
        (json!(7), None),
        (json!(""), None),
    ] {
        let asked = json!({ "capabilities": capabilities });
        check(&instance(plain(State::Available), asked.clone()), Verb::Active, Slot::Boot, expected);
        check(&properties(plain(State::Available), asked), Verb::Active, Slot::Boot, expected);
    }
}

#[test]
fn interfaces_nobody_has_built_are_refused_whenever_they_would_be_used() {
    for (slot, name) in [(Slot::Boot, "redfish-virtual-media"), (Slot::Boot, "redfish-https"), (Slot::Raid, "agent")] {
        for (state, verb, steps) in [
            (State::Available, Verb::Active, &[][..]),
            (State::Active, Verb::Rebuild, &[]),
            (State::Manageable, Verb::Provide, &[]),
            (State::Manageable, Verb::Clean, &["deploy.burn_in"]),
            (State::Active, Verb::Service, &["deploy.burn_in"]),
            (State::Active, Verb::Rescue, &[]),
        ] {
            let mut desk = able(state);
            desk.node.details.interfaces.insert(slot, name.to_owned());
            let refused = desk.ask(verb, steps);
            let Err(VerbRefusal::Unmet(wish)) = refused else { panic!("{slot} {name} {verb}: {refused:?}") };
            assert_eq!((wish.slot, wish.chosen.as_str(), wish.field.as_str()), (slot, name, slot.field()));
            assert!(check_all(&desk.node, desk.offered(), false, &desk.options).contains(&wish));
        }
        // What gets it out of trouble is accepted.
        let mut desk = able(State::Active);
        desk.node.details.interfaces.insert(slot, name.to_owned());
        desk.ask(Verb::Deleted, &[]).expect("accepted");
    }
}

#[test]
fn cleaning_erases_something_or_is_told_not_to() {
    let text = Some("would erase neither disks nor keys");
    let keys_only = |mut desk: Desk| {
        desk.node.driver_info.insert("cleaning".to_owned(), json!("keys-only"));
        desk
    };
    let site = |mut desk: Desk| {
        desk.options.cleaning = CleaningExtent::KeysOnly;
        desk
    };
    let skipped = |mut desk: Desk| {
        desk.options.clean_priorities = ERASING.iter().map(|key| ((*key).to_owned(), 0)).collect::<BTreeMap<_, _>>();
        desk
    };
    for (verb, state) in [(Verb::Provide, State::Manageable), (Verb::Deleted, State::Active)] {
        for (desk, expected) in [
            (plain(state), text),
            (able(state), None),
            (skipped(able(state)), text),
            (Desk { has_keys: true, ..plain(state) }, None),
            (keys_only(plain(state)), None),
            (site(plain(state)), None),
            (properties(plain(state), json!({ "local_gb": 0 })), None),
            (properties(plain(state), json!({ "local_gb": 9 })), text),
        ] {
            check(&desk, verb, Slot::Deploy, expected);
        }
        let mut off = plain(state);
        off.node.automated_clean = Some(false);
        check(&off, verb, Slot::Deploy, None);
        let mut own = site(plain(state));
        own.node.driver_info.insert("cleaning".to_owned(), json!("full"));
        check(&own, verb, Slot::Deploy, text);
        own.node.driver_info.insert("cleaning".to_owned(), json!("keys"));
        check(&own, verb, Slot::Deploy, Some("driver_info.cleaning is \"keys\"; one of: full, keys-only"));
    }
}

#[test]
fn keys_only_leaves_the_disks_alone() {
    let mut desk = Desk::full(State::Manageable);
    desk.node.driver_info.insert("cleaning".to_owned(), json!("keys-only"));
    desk.ask(Verb::Provide, &[]).expect("accepted");
    let steps = desk.steps();
    assert!(
        steps.contains(&"deploy.erase_disk_keys".to_owned())
            && !steps.iter().any(|key| ERASING.contains(&key.as_str()))
    );
    assert!(!steps.contains(&"deploy.boot_ramdisk".to_owned()), "{steps:?}");
    desk.settle();
    assert_eq!(desk.node.state, State::Available);
}

#[test]
fn a_cleaning_whose_keys_vanished_does_not_go_on() {
    let mut desk = Desk { has_keys: true, ..plain(State::Manageable) };
    desk.ask(Verb::Provide, &[]).expect("accepted");
    let operation = desk.node.operation.clone().expect("work");
    let said = erases_nothing(&desk.node, &operation, &desk.options).expect("nothing is erased");
    assert!(said.contains("neither disks nor keys"), "{said}");
    desk.options.cleaning = CleaningExtent::KeysOnly;
    assert_eq!(erases_nothing(&desk.node, &operation, &desk.options), None);
    let manual = Operation { work: Work::ManualClean, ..operation };
    assert_eq!(erases_nothing(&desk.node, &manual, &Options::default()), None, "the caller said what to do");
}

#[test]
fn every_extent_has_a_word() {
    for extent in CleaningExtent::ALL {
        assert_eq!(extent.as_str().parse(), Ok(extent));
    }
    let step: &StepSpec = &RAMDISK[0];
    assert!(erases(&step.step(BTreeMap::new(), 1)));
}
