//! The whole chain through a real Redfish implementation: a server, the Redfish driver over TLS with a password, sushy-emulator. That
//! the power really changes is read from the emulator by another program.

use std::time::Duration;

use sabakan::provisioning::ProvisioningConfig;
use sabakan_domain::provision::{
    promises::CleaningExtent,
    states::{Kind, State},
    verbs::Verb,
};
use sabakan_drivers::simulated::FleetConfig;
use sabakan_service::hardware::BmcTypeRule;
use sabakan_testkit::{
    Backend, fixtures,
    rack::Rack,
    sushy::{Sushy, System},
    wait_for,
};

/// The emulator takes some seconds for each change of power.
const CHAIN_MAX: Duration = Duration::from_secs(180);

fn bring(rack: &Rack, verb: Verb, state: State) {
    rack.ask("r1", verb).unwrap_or_else(|error| panic!("{verb}: {error}"));
    wait_for(&format!("{verb} to end in {state}"), CHAIN_MAX, || {
        let shown = rack.node("r1");
        let node = &shown.node;
        assert!(node.state.kind() != Kind::Failed, "{verb}: {} ({:?})", node.state, node.last_error);
        (node.state == state && shown.lock.is_none()).then_some(())
    });
}

#[test]
fn the_whole_chain_through_a_redfish_emulator() {
    let system = System::numbered(1);
    let sushy = Sushy::start(std::slice::from_ref(&system));
    let settings = sushy.settings(&system);
    let rule = BmcTypeRule {
        bmc_type: "iDRAC-9".into(),
        driver: "redfish".into(),
        settings: settings.values.clone(),
        secrets: settings.secrets.clone(),
    };
    let adjust = |config: &mut ProvisioningConfig| {
        config.bmc_types = vec![rule];
        // No agent runs on the emulator's machine that could erase its disks.
        config.rules.cleaning = CleaningExtent::KeysOnly;
    };
    let rack = Rack::start_with(Backend::Embedded, FleetConfig::instant(), adjust);
    rack.server.client().create_machines(&[fixtures::machine("r1", 0, "worker")]).expect("registered");
    let power = || sushy.look(&system.path())["PowerState"].as_str().map(str::to_owned);

    bring(&rack, Verb::Manage, State::Manageable);
    bring(&rack, Verb::Inspect, State::Manageable);
    assert!(rack.node("r1").node.inspected_at.is_some());
    bring(&rack, Verb::Provide, State::Available);
    bring(&rack, Verb::Active, State::Active);
    assert_eq!(power().as_deref(), Some("On"), "the emulator's machine runs");
    let boot = sushy.look(&system.path())["Boot"]["BootSourceOverrideTarget"].clone();
    assert!(["Pxe", "UefiHttp"].contains(&boot.as_str().unwrap_or_default()), "it boots from the network: {boot}");
    bring(&rack, Verb::Deleted, State::Available);
    assert_eq!(power().as_deref(), Some("Off"), "the emulator's machine is off");
    assert_eq!(rack.server.client().get_state("r1").expect("a state"), "uninitialized");
    // The password is in no row and no record.
    let secret = settings.secrets.values().next().expect("a password").expose().to_owned();
    for (key, value) in rack.server.dump() {
        assert!(!String::from_utf8_lossy(&value).contains(&secret), "the password is stored in {key}");
    }
}
