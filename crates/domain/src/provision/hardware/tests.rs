//! What counts as a difference between the configuration before and after cleaning.

use super::*;

fn volume(name: &str, level: &str, boot: bool) -> Volume {
    let members = vec!["disk0".to_owned(), "disk1".to_owned()];
    Volume {
        controller: "RAID.1".to_owned(),
        name: name.to_owned(),
        level: level.to_owned(),
        size_gib: 100,
        members,
        boot,
    }
}

fn known() -> Configuration {
    Configuration {
        volumes: Some(vec![volume("os", "1", true)]),
        bios: Some(BTreeMap::from([("Hyperthreading".to_owned(), "Enabled".to_owned())])),
        boot_mode: Some(BootMode::Uefi),
        secure_boot: Some(true),
        boot_device: Some(BootDevice::Disk),
    }
}

fn check(before: &Configuration, after: &Configuration, allowed: &[Aspect], expected: &[&str]) {
    let found: Vec<String> = before.differences(after, allowed).iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

#[test]
fn what_differs_is_named() {
    check(&known(), &known(), &[], &[]);
    let gone = Configuration { volumes: Some(Vec::new()), ..known() };
    let lost = "missing os on RAID.1 (level 1, 100 GiB, members disk0 disk1, boot)";
    check(&known(), &gone, &[], &[&format!("raid: {lost}")]);
    let other = Configuration { volumes: Some(vec![volume("os", "0", false)]), ..known() };
    let new = "new os on RAID.1 (level 0, 100 GiB, members disk0 disk1)";
    check(&known(), &other, &[], &[&format!("raid: {lost}; {new}")]);
    let settings = BTreeMap::from([
        ("Hyperthreading".to_owned(), "Disabled".to_owned()),
        ("Turbo".to_owned(), "Enabled".to_owned()),
    ]);
    let changed = Configuration {
        bios: Some(settings),
        boot_mode: Some(BootMode::Bios),
        secure_boot: Some(false),
        boot_device: Some(BootDevice::Pxe),
        ..known()
    };
    let all = [
        "bios: Hyperthreading was \"Enabled\", is \"Disabled\"; Turbo was absent, is \"Enabled\"",
        "boot_mode: was uefi, is bios",
        "secure_boot: was true, is false",
        "boot_device: was disk, is pxe",
    ];
    check(&known(), &changed, &[], &all);
    // A manual step may change what it declares, and only that.
    check(&known(), &changed, &[Aspect::Bios, Aspect::BootDevice], &all[1..3]);
    check(&known(), &changed, &Aspect::ALL, &[]);
}

#[test]
fn what_was_unknown_is_not_compared_and_what_became_unknown_is() {
    let nothing = Configuration::default();
    check(&nothing, &known(), &[], &[]);
    check(&nothing, &nothing, &[], &[]);
    let blind = Configuration { volumes: None, ..known() };
    check(&known(), &blind, &[], &["raid: was known before and cannot be read any more"]);
    check(&known(), &blind, &[Aspect::Raid], &[]);
    assert_eq!(nothing.unknown(), Aspect::ALL);
    assert_eq!(blind.unknown(), [Aspect::Raid]);
    assert_eq!(known().unknown(), []);
}
