//! Settings of provisioning.

use sabakan_domain::provision::{promises::CleaningExtent, schedule::Class};

use super::*;

#[test]
fn the_server_does_the_work_unless_told_otherwise() {
    let case = Case::new();
    let config = case.load(&[]).expect("valid").provisioning;
    let options = config.conductor.expect("on");
    let default = sabakan_service::tasks::conductor::ConductorOptions::default();
    assert_eq!(options.capacity, default.capacity, "the defaults in the help are those of the program");
    assert_eq!((options.lease, options.power_sync), (default.lease, default.power_sync));
    assert!(options.name.is_empty() && config.fleet.is_none() && !config.rules.no_automated_clean);

    let args =
        ["--conductor-name", "c.1", "--deploy-concurrency", "7", "--group-concurrency=3", "--power-sync-interval", "0"];
    let options = case.load(&args).expect("valid").provisioning.conductor.expect("on");
    assert_eq!((options.name.as_str(), options.capacity.per_group, options.power_sync.as_secs()), ("c.1", 3, 0));
    assert_eq!(options.capacity.per_class.get(&Class::Deploy), Some(&7));
    let yaml = "conductor: false\nsimulated-hardware: true\nautomated-clean: false\nrequire-healthy: true\nironic: none\n\
                power-off-after-verify: true\nprovide-in-maintenance: false\ncleaning: keys-only\nipmitool: /opt/ipmitool\n";
    let config = case.load_file(yaml, &[]).expect("valid").provisioning;
    assert!(config.conductor.is_none() && config.fleet.is_some() && config.ironic.is_empty());
    assert!(config.rules.no_automated_clean && config.rules.strictness.require_healthy);
    assert!(config.rules.power_off_after_verify && config.rules.no_provide_in_maintenance);
    assert_eq!(config.rules.cleaning, CleaningExtent::KeysOnly);
    assert_eq!(config.ipmitool, Path::new("/opt/ipmitool"));
}

#[test]
fn what_is_wrong_with_them_is_said_with_its_place() {
    let case = Case::new();
    let yaml = "conductor: maybe\nwork-lease: 1s\npower-sync-interval: 1s\nclean-concurrency: 0\nconductor-name: a/b\n\
                clean-priorities:\n  deploy.erase_devices: high\n  disk.erase: 1\n  erase: 1\ncleaning: some\n";
    let expected = [
        "c.yml:9: clean-priorities.erase: \"erase\" is not interface.step, such as deploy.erase_devices",
        "c.yml:7: clean-priorities.deploy.erase_devices: \"high\" is not a number from 0 to 1000000",
        "c.yml:8: clean-priorities.disk.erase: invalid interface \"disk\"; one of: network, vendor, power, management, firmware, deploy, bios, raid",
        "c.yml:10: cleaning: is \"some\"; one of: full, keys-only",
        "c.yml:1: conductor: \"maybe\" is neither true nor false",
        "c.yml:5: conductor-name: \"a/b\" is not a name of at most 128 letters, digits, dots, dashes and underscores",
        "c.yml:3: power-sync-interval: \"1s\" is not between 10s and 86400s",
        "c.yml:2: work-lease: \"1s\" is not between 3s and 300s",
        "c.yml:4: clean-concurrency: \"0\" is not between 1 and 10000",
    ];
    let mut lines = case.lines(case.load_file(yaml, &[]));
    let mut expected = expected.map(str::to_owned).to_vec();
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

#[test]
fn credentials_of_a_type_come_from_files_and_are_not_shown() {
    let case = Case::new();
    let (password, key) = (case.write("password", "hunter2\n"), case.write("key", "00ff"));
    let yaml = format!(
        "simulated-hardware: true\nbmc-types:\n- type: iDRAC-9\n  driver: redfish\n  username: root\n  password-file: {password}\n  \
         settings: {{redfish_verify_ca: false}}\n- {{type: Rome*, driver: ipmi, secret-files: {{ipmi_hex_kg_key: {key}}}}}\n\
         - {{type: demo, driver: fake-hardware, settings: {{fake_wrong_password: true}}}}\nclean-priorities: {{deploy.x: 5}}\n"
    );
    let config = case.load_file(&yaml, &[]).unwrap_or_else(|errors| panic!("{errors}"));
    let [idrac, rome, demo] = config.provisioning.bmc_types.as_slice() else { panic!("three types") };
    assert_eq!((idrac.bmc_type.as_str(), idrac.driver.as_str()), ("iDRAC-9", "redfish"));
    assert_eq!(idrac.settings["redfish_username"], "root");
    assert_eq!(idrac.settings["redfish_verify_ca"], false);
    assert_eq!(idrac.secrets["redfish_password"].expose(), "hunter2");
    assert_eq!(rome.secrets["ipmi_hex_kg_key"].expose(), "00ff");
    assert_eq!(demo.settings["fake_wrong_password"], true);
    assert_eq!(config.provisioning.rules.clean_priorities["deploy.x"], 5);
    let shown = describe(&config);
    assert!(!shown.contains("hunter2") && !shown.contains("00ff"), "{shown}");
    assert!(shown.contains("redfish_password: (set)"), "{shown}");
}

#[test]
fn types_that_cannot_be_used_are_refused() {
    let case = Case::new();
    let password = case.write("password", "two\nlines\n");
    let check = |entry: &str, expected: &[&str]| {
        let lines = case.lines(case.load_file(&format!("bmc-types:\n{entry}\n"), &[]));
        assert_eq!(lines, expected, "{entry}");
    };
    check("- {driver: redfish}", &["c.yml:2: bmc-types: bmc-types[0] has no type"]);
    check("- {type: a}", &["c.yml:2: bmc-types: bmc-types[0] has no driver"]);
    let drivers = "one of: redfish, ipmi, fake-hardware";
    let unknown = format!("c.yml:2: bmc-types[0].driver: there is no driver \"x\"; {drivers}");
    check("- {type: a, driver: x}", &[&unknown]);
    check("- {type: a, driver: fake-hardware}", &["c.yml:2: bmc-types[0].driver: needs --simulated-hardware"]);
    let pattern = "c.yml:2: bmc-types[0].type: \"a*b\" is neither a BMC type nor the beginning of one followed by *";
    check("- {type: a*b, driver: ipmi}", &[pattern]);
    let twice = "c.yml:2: bmc-types: bmc-types[1]: the type \"a\" is there twice";
    check("- {type: a, driver: ipmi}\n- {type: a, driver: redfish}", &[twice]);
    let open = "c.yml:2: bmc-types[0].settings: \"ipmi_password\" is a secret; put it into a file and name that under secret-files";
    check("- {type: a, driver: ipmi, settings: {ipmi_password: hunter2}}", &[open]);
    let other =
        "c.yml:2: bmc-types[0].settings: \"redfish_address\" is not a setting of this driver; they start with ipmi_";
    check("- {type: a, driver: ipmi, settings: {redfish_address: x}}", &[other]);
    let lines = "c.yml:2: bmc-types[0].password-file: password must hold one line of at most 1024 bytes";
    check(&format!("- {{type: a, driver: ipmi, password-file: {password}}}"), &[lines]);
    check("- {type: a, driver: ipmi, password: hunter2}", &["c.yml:2: there is no setting called \"password\""]);
}

#[test]
fn the_example_of_the_documentation_is_valid_but_for_its_files() {
    let case = Case::new();
    let lines = case.lines(case.load_file(reference::TABLES_EXAMPLE, &[]));
    assert!(lines.iter().all(|line| line.contains("cannot read /etc/sabakan/")), "{lines:?}");
    assert_eq!(lines.len(), 2);
}
