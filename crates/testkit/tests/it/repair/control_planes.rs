//! Control planes go away one at a time, whoever takes them: repair, a reboot, or a repair that stands still in the middle.

use std::{collections::BTreeSet, fs};

use sabakan_testkit::{Backend, client::RepairSwitch, kubernetes::Pod, wait_for};
use serde_json::json;

use super::{
    LONG, Site,
    hindered::maintain,
    procedure,
    reboots::{reboot, reboots, wait_for_status},
};

on_both_stores!(
    two_broken_ones_are_repaired_one_after_the_other,
    none_is_repaired_beside_one_that_is_rebooted,
    one_whose_repair_stands_still_is_away_all_the_same,
);

const PLANES: [&str; 3] = ["m0", "m1", "m2"];

/// Three control planes and a worker, with room and places for all of them: only what they are keeps them apart.
fn site(backend: Backend) -> Site {
    let mut site = Site::start(backend);
    site.register(0, &["m0", "m1", "m2", "m3"].map(str::to_owned));
    site.constrain("maximum-repair-queue-entries", 4);
    site.constrain("control-plane-count", 3);
    let steps = json!([
        { "repair_command": site.command("reset", "true"), "need_drain": true, "watch_seconds": 600 },
        { "repair_command": site.command("shutdown", "true"), "need_drain": true, "watch_seconds": 600 },
    ]);
    let mut repair = procedure("unhealthy", &steps, &json!({}));
    repair["max_concurrent_repairs"] = json!(4);
    let booted = format!("test -e {} && echo true || echo false", site.file("booted").display());
    let reboot = json!({
        "reboot_command": site.command("reboot", "true"),
        "boot_check_command": ["/bin/sh", "-c", booted, "check"],
        "max_concurrent_reboots": 4,
    });
    site.configure_planes(PLANES.len(), &["m0", "m1", "m2", "m3"], &repair, &reboot);
    // They may break together; nobody holds them.
    site.set("guard", "false");
    for serial in ["m0", "m1", "m2", "m3"] {
        site.double.add_pod(Pod::new("dev", serial, site.address(serial)).lingering());
    }
    site
}

/// Several machines break between two looks.
fn break_together(site: &Site, serials: &[&str]) {
    site.server.client().set_repair_enabled(RepairSwitch::Automatic, false).expect("switched");
    serials.iter().for_each(|serial| site.report(serial, "unhealthy"));
    site.server.client().set_repair_enabled(RepairSwitch::Automatic, true).expect("switched");
}

/// Waits until the pods of a machine were told to leave, then lets them go.
fn empty(site: &Site, serial: &str) {
    let told = format!("evict dev/{serial}");
    wait_for(&told, LONG, || {
        check(site);
        site.double.state().drains.contains(&told).then_some(())
    });
    site.double.end_pod(&format!("dev/{serial}"));
}

/// Waits for a step of a machine to have been carried out.
fn wait_for_step(site: &Site, name: &str, serial: &str) {
    let line = format!("{name} {}", site.address(serial));
    wait_for(&line, LONG, || {
        check(site);
        site.ran().contains(&line).then_some(())
    });
    site.wait_for_entry(serial, name, |entry| entry.note.contains("exit status 0"));
}

/// Waits for the reason why nothing is done with the repair of a machine.
fn wait_for_reason(site: &Site, serial: &str, reason: &str) {
    let entry =
        site.wait_for_entry(serial, reason, |entry| entry.waits.as_deref().unwrap_or_default().contains(reason));
    assert_eq!(entry.status, "queued");
    check(site);
}

/// At no time was more than one control plane closed, and at this one no more than one is worked on by either queue.
fn check(site: &Site) {
    let planes: BTreeSet<&str> = PLANES.iter().map(|serial| site.address(serial)).collect();
    let drains = site.double.state().drains.clone();
    let mut closed: BTreeSet<&str> = BTreeSet::new();
    for line in &drains {
        match line.split_once(' ') {
            Some(("cordon", node)) if planes.contains(node) => drop(closed.insert(node)),
            Some(("uncordon", node)) => drop(closed.remove(node)),
            _ => {}
        }
        assert!(closed.len() <= 1, "{closed:?} are closed at {line}: {drains:#?}");
    }
    let queue = site.entries();
    let away = queue.iter().filter(|entry| entry.status == "processing" && entry.step_status != "waiting");
    let away: Vec<&str> = away.map(|entry| &*entry.address).filter(|address| planes.contains(address)).collect();
    assert!(away.len() <= 1, "{away:?}: {queue:#?}");
}

fn two_broken_ones_are_repaired_one_after_the_other(backend: Backend) {
    let site = site(backend);
    break_together(&site, &["m0", "m2", "m3"]);
    // The worker is repaired beside the first; the second waits although there is a place for it.
    empty(&site, "m3");
    wait_for_step(&site, "reset", "m3");
    empty(&site, "m0");
    wait_for_step(&site, "reset", "m0");
    wait_for_reason(&site, "m2", "another control plane is worked on");
    site.looked();
    check(&site);
    let reset = |serial: &str| format!("reset {}", site.address(serial));
    let ran: BTreeSet<String> = site.ran().into_iter().collect();
    assert_eq!(ran, BTreeSet::from([reset("m0"), reset("m3")]));
    assert_eq!(site.double.pods_on(site.address("m2")), ["dev/m2"], "nobody asked it to leave");
    // Also between the steps of the first.
    site.pass(601);
    wait_for_step(&site, "shutdown", "m0");
    wait_for_reason(&site, "m2", "another control plane is worked on");
    site.report("m0", "healthy");
    site.wait_for_end("m0", "succeeded");
    empty(&site, "m2");
    wait_for_step(&site, "reset", "m2");
    site.report("m2", "healthy");
    site.wait_for_end("m2", "succeeded");
    wait_for("its node to be given back", LONG, || (!site.double.is_cordoned(site.address("m2"))).then_some(()));
    check(&site);
    let of_planes: Vec<String> = site.ran().into_iter().filter(|line| !line.ends_with(site.address("m3"))).collect();
    assert_eq!(of_planes, [reset("m0"), format!("shutdown {}", site.address("m0")), reset("m2")]);
}

fn none_is_repaired_beside_one_that_is_rebooted(backend: Backend) {
    let site = site(backend);
    reboot(&site, "m1");
    empty(&site, "m1");
    wait_for_status(&site, "rebooting");
    break_together(&site, &["m0", "m2"]);
    wait_for_reason(&site, "m0", "another control plane is being rebooted");
    wait_for_reason(&site, "m2", "another control plane is being rebooted");
    site.looked();
    check(&site);
    assert_eq!(site.ran(), [format!("reboot {}", site.address("m1"))]);
    fs::write(site.file("booted"), "").expect("a file");
    wait_for("the reboot to be over", LONG, || reboots(&site).is_empty().then_some(()));
    // From now on it is the other way round.
    empty(&site, "m0");
    wait_for_step(&site, "reset", "m0");
    reboot(&site, "m1");
    let waiting = wait_for_status(&site, "queued");
    site.looked();
    wait_for("the reboot to say why it waits", LONG, || {
        let waits = reboots(&site).pop()?.waits.unwrap_or_default();
        waits.contains("machines are being repaired").then_some(())
    });
    assert_eq!((reboots(&site).len(), reboots(&site)[0].index.clone()), (1, waiting.index));
    check(&site);
    assert_eq!(site.ran().len(), 2, "{:?}", site.ran());
}

/// A person takes a control plane in hand while it is being repaired. It is empty and may be in pieces.
fn one_whose_repair_stands_still_is_away_all_the_same(backend: Backend) {
    let site = site(backend);
    break_together(&site, &["m0"]);
    empty(&site, "m0");
    wait_for_step(&site, "reset", "m0");
    maintain(&site, "m0", "PUT");
    site.pass(601);
    site.wait_for_entry("m0", "left alone", |entry| {
        entry.waits.as_deref().unwrap_or_default().contains("a disk is being replaced")
    });
    break_together(&site, &["m2"]);
    wait_for_reason(&site, "m2", "another control plane is worked on");
    reboot(&site, "m1");
    let alone = format!("a control plane goes alone, and {} is being repaired", site.address("m0"));
    wait_for(&alone, LONG, || (reboots(&site).pop()?.waits? == alone).then_some(()));
    // A worker is nobody's quorum.
    reboot(&site, "m3");
    empty(&site, "m3");
    let rebooted = format!("reboot {}", site.address("m3"));
    wait_for(&rebooted, LONG, || site.ran().contains(&rebooted).then_some(()));
    site.looked();
    check(&site);
    assert_eq!(site.ran(), [format!("reset {}", site.address("m0")), rebooted]);

    // It is given back, mended. Now the others have their turn, one by one.
    fs::write(site.file("booted"), "").expect("a file");
    maintain(&site, "m0", "DELETE");
    site.report("m0", "healthy");
    site.wait_for_end("m0", "succeeded");
    empty(&site, "m2");
    wait_for_step(&site, "reset", "m2");
    site.report("m2", "healthy");
    site.wait_for_end("m2", "succeeded");
    empty(&site, "m1");
    wait_for("every reboot to be over", LONG, || {
        check(&site);
        reboots(&site).is_empty().then_some(())
    });
    assert_eq!(site.ran().last(), Some(&format!("reboot {}", site.address("m1"))));
}
