//! A week of a data centre, minute by minute: 100 racks of 28 machines, faults, flapping machines, planned reboots, a rack without
//! power, a dead switch, a bad firmware and a monitor that cannot see. The same week is lived through with the guard and with the
//! plain limits, and what repair did is counted.

mod chance;
mod ledger;
mod place;
mod run;

use ledger::Ledger;
use run::live;

/// What a person sets: how many entries there may be. Finished ones count until they are deleted, every morning.
const BUDGETS: [u32; 2] = [10, 100];

#[test]
fn a_week_with_the_guard_and_without() {
    let runs: Vec<(u32, Ledger, Ledger)> =
        BUDGETS.map(|max| (max, live(1, 7, max, false), live(1, 7, max, true))).into();
    println!("{}", ledger::table(&runs));
    for (max, plain, guard) in &runs {
        // What the guard is for: nothing is begun where nothing can be repaired.
        for (place, found) in [
            ("let in", guard.let_in),
            ("rack without power", guard.in_cut),
            ("switch", guard.in_switch),
            ("blind", guard.while_blind),
        ] {
            assert_eq!(found, 0, "budget {max}: repairs begun, {place}");
        }
        let opened = |kind: &str| guard.incidents.iter().any(|incident| incident.starts_with(kind));
        assert!(opened("rack 17") && opened("rack 42") && opened("the whole fleet"), "{:?}", guard.incidents);
        assert!(opened("machine-type t2") || opened("version v3"), "the firmware: {:?}", guard.incidents);
        assert!(guard.incidents.len() <= 6, "{:?}", guard.incidents);
        // What it must not cost: machines that broke alone are repaired as before, but for a few of the group that is held.
        assert!(guard.useful * 10 >= plain.useful * 9, "{} useful beside {}", guard.useful, plain.useful);
    }
    let [(_, tight, tight_guard), (_, roomy, roomy_guard)] = runs.as_slice() else { panic!("two budgets") };
    // With little room all or nothing is mostly nothing; with much room it repairs whatever is reported.
    assert!(tight_guard.useful >= 3 * tight.useful);
    assert!(3 * (roomy_guard.useless + roomy_guard.harmful) <= 2 * (roomy.useless + roomy.harmful));
    assert!(roomy.in_cut > 0 && roomy.in_switch > 0, "the plain limits are put to the test");
    assert!(roomy_guard.of_batch * 3 <= roomy.of_batch);
}

#[test]
fn the_same_week_comes_out_the_same() {
    assert_eq!(format!("{:?}", live(2, 2, 10, true)), format!("{:?}", live(2, 2, 10, true)));
}
