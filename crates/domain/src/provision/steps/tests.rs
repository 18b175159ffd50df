//! Order of automated cleaning, what may be asked by hand, and how a deployment is put together.

use serde_json::json;

use super::*;
use crate::provision::fixtures::{OUT_OF_BAND, RAMDISK, wanted};

fn all() -> Vec<StepSpec> {
    OUT_OF_BAND.iter().chain(RAMDISK).copied().collect()
}

fn spec(interface: Interface, name: &'static str, priority: u32, disturbs: &'static [Aspect]) -> StepSpec {
    let (place, flows) = (Place::OutOfBand, &[Flow::Clean][..]);
    StepSpec { interface, name, place, flows, priority, disturbs, ..OUT_OF_BAND[0] }
}

fn rebuilds(aspects: &[Aspect]) -> BTreeMap<Aspect, StepSpec> {
    aspects.iter().map(|aspect| (*aspect, spec(Interface::Management, "rebuild", 0, &[]))).collect()
}

fn names(steps: &[Step]) -> Vec<&str> {
    steps.iter().map(|step| step.name.as_str()).collect()
}

#[test]
fn automated_cleaning_takes_what_has_a_priority_high_first() {
    let check = |overrides: &[(&str, u32)], expected: &[&str]| {
        let overrides = overrides.iter().map(|(key, priority)| ((*key).to_owned(), *priority)).collect();
        let steps = automated_cleaning(&all(), &overrides, &rebuilds(&[Aspect::Raid, Aspect::Bios])).expect("possible");
        assert_eq!(names(&steps), expected, "{overrides:?}");
    };
    check(&[], &["erase_devices_metadata", "erase_members", "rebuild", "erase_devices"]);
    // The configuration of the site puts steps first, takes them away and adds them.
    check(&[("deploy.erase_devices", 100)], &["erase_devices", "erase_devices_metadata", "erase_members", "rebuild"]);
    check(&[("raid.erase_members", 0)], &["erase_devices_metadata", "erase_devices"]);
    check(
        &[("deploy.burn_in", 1), ("deploy.erase_devices_metadata", 0)],
        &["erase_members", "rebuild", "erase_devices", "burn_in"],
    );
    // Steps of other flows are not cleaning, whatever the configuration says.
    check(&[("deploy.write_image", 500)], &["erase_devices_metadata", "erase_members", "rebuild", "erase_devices"]);
}

#[test]
fn equal_priorities_run_in_the_order_of_their_interfaces() {
    use Interface::{Bios, Deploy, Firmware, Management, Power, Raid, Vendor};
    let offered: Vec<StepSpec> =
        [Raid, Bios, Deploy, Firmware, Management, Power, Vendor].map(|i| spec(i, i.as_str(), 7, &[])).into();
    let steps = automated_cleaning(&offered, &BTreeMap::new(), &BTreeMap::new()).expect("possible");
    assert_eq!(names(&steps), ["vendor", "power", "management", "firmware", "deploy", "bios", "raid"]);
    let twins = [spec(Raid, "b", 7, &[]), spec(Raid, "a", 7, &[])];
    let steps = automated_cleaning(&twins, &BTreeMap::new(), &BTreeMap::new()).expect("possible");
    assert_eq!(names(&steps), ["a", "b"]);
}

#[test]
fn what_is_torn_down_is_rebuilt_right_after_the_last_step_that_does() {
    let offered = [
        spec(Interface::Raid, "first", 9, &[Aspect::Raid]),
        spec(Interface::Raid, "second", 8, &[Aspect::Raid, Aspect::Bios]),
        spec(Interface::Raid, "other", 7, &[]),
    ];
    let steps = automated_cleaning(&offered, &BTreeMap::new(), &rebuilds(&[Aspect::Raid, Aspect::Bios]));
    assert_eq!(names(&steps.expect("possible")), ["first", "second", "rebuild", "other"], "once for both aspects");
    let refusal = automated_cleaning(&offered, &BTreeMap::new(), &rebuilds(&[Aspect::Raid])).expect_err("refused");
    assert_eq!(refusal, StepsRefusal::CannotRebuild { step: "raid.second".to_owned(), aspect: Aspect::Bios });
    // Switched off, it disturbs nothing.
    let off = BTreeMap::from([("raid.second".to_owned(), 0)]);
    let steps = automated_cleaning(&offered, &off, &rebuilds(&[Aspect::Raid])).expect("possible");
    assert_eq!(names(&steps), ["first", "rebuild", "other"]);
}

#[test]
fn by_hand_the_order_is_the_callers() {
    let given = |key: &str, args: serde_json::Value| {
        let args = args.as_object().expect("an object").clone().into_iter().collect();
        StepRequest { args, ..wanted(key) }
    };
    let check = |flow: Flow, wanted: &[StepRequest], ramdisk: bool, expected: Result<&[&str], StepsRefusal>| {
        let found = manual(&all(), flow, wanted, ramdisk);
        match (found, expected) {
            (Ok(steps), Ok(expected)) => assert_eq!(names(&steps), expected),
            (found, expected) => assert_eq!(found.map(drop), expected.map(drop), "{wanted:?}"),
        }
    };
    let update = given("firmware.update", json!({"url": "http://x"}));
    let (burn, erase) = (wanted("deploy.burn_in"), wanted("raid.erase_members"));
    check(
        Flow::Clean,
        &[burn.clone(), update.clone(), erase.clone()],
        true,
        Ok(&["burn_in", "update", "erase_members"]),
    );
    check(Flow::Clean, &[erase.clone(), erase.clone()], true, Ok(&["erase_members", "erase_members"]));
    check(Flow::Service, std::slice::from_ref(&update), false, Ok(&["update"]));
    check(Flow::Clean, &[], true, Err(StepsRefusal::Empty));
    check(Flow::Clean, &vec![erase.clone(); 101], true, Err(StepsRefusal::TooMany(101)));
    check(Flow::Clean, &[erase.clone(), burn], false, Err(StepsRefusal::NeedsRamdisk("deploy.burn_in".to_owned())));
    let missing =
        StepsRefusal::MissingArg { step: "firmware.update".to_owned(), arg: "url", text: "where the firmware is" };
    check(Flow::Clean, &[wanted("firmware.update")], true, Err(missing));
    let (step, arg) = ("raid.erase_members".to_owned(), "fast".to_owned());
    let unknown = StepsRefusal::UnknownArg { step, arg, takes: "none".to_owned() };
    check(Flow::Clean, &[given("raid.erase_members", json!({"fast": true}))], true, Err(unknown));
    // A step of another flow is as unknown as one nobody offers; the text names what is offered.
    let offered = "firmware.update, deploy.burn_in".to_owned();
    check(Flow::Service, &[erase], true, Err(StepsRefusal::Unknown("raid.erase_members".to_owned(), offered)));
}

#[test]
fn a_deployment_is_the_defaults_replaced_or_joined() {
    let core = StepSpec { priority: 100, ..spec(Interface::Deploy, "deploy", 100, &[]) };
    let core = StepSpec { flows: &[Flow::Deploy], ..core };
    let offered: Vec<StepSpec> = all().into_iter().chain([core]).collect();
    let at = |key: &str, priority: u32| StepRequest { priority: Some(priority), ..wanted(key) };
    let check = |wanted: &[StepRequest], expected: Result<&[&str], StepsRefusal>| {
        let found = deployment(&offered, "deploy.deploy", wanted);
        match (found, expected) {
            (Ok(steps), Ok(expected)) => assert_eq!(names(&steps), expected, "{wanted:?}"),
            (found, expected) => assert_eq!(found.map(drop), expected.map(drop), "{wanted:?}"),
        }
    };
    check(&[], Ok(&["deploy", "write_image"]));
    check(&[at("bios.apply", 90)], Ok(&["deploy", "apply", "write_image"]));
    check(&[at("deploy.write_image", 0)], Ok(&["deploy"]));
    check(&[at("deploy.write_image", 200)], Ok(&["write_image", "deploy"]));
    check(&[at("bios.apply", 1), at("bios.apply", 2)], Err(StepsRefusal::Twice("bios.apply".to_owned())));
    check(&[wanted("bios.apply")], Err(StepsRefusal::NoPriority("bios.apply".to_owned())));
    check(&[at("deploy.deploy", 5)], Err(StepsRefusal::Core("deploy.deploy".to_owned())));
    check(&vec![at("bios.apply", 1); 101], Err(StepsRefusal::TooMany(101)));
    let offers = "bios.apply, deploy.write_image, deploy.deploy".to_owned();
    check(&[at("raid.erase_members", 1)], Err(StepsRefusal::Unknown("raid.erase_members".to_owned(), offers)));
}

#[test]
fn interfaces_have_words() {
    for interface in Interface::ALL {
        assert_eq!(interface.as_str().parse(), Ok(interface));
    }
    let refusal = "disk".parse::<Interface>().expect_err("no such");
    assert!(refusal.starts_with("invalid interface \"disk\"; one of: network, vendor, power"), "{refusal}");
}
