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

/// One week may be lucky.
const SEEDS: [u64; 3] = [1, 2, 3];

/// The same weeks with little and with much room, without the guard and with it.
struct Weeks {
    tight: Vec<Ledger>,
    tight_guard: Vec<Ledger>,
    roomy: Vec<Ledger>,
    roomy_guard: Vec<Ledger>,
}

fn weeks() -> Weeks {
    let [tight, roomy] = BUDGETS;
    std::thread::scope(|scope| {
        let lived = |max, guard| scope.spawn(move || SEEDS.map(|seed| live(seed, 7, max, guard)).into());
        let [tight, tight_guard, roomy, roomy_guard] =
            [lived(tight, false), lived(tight, true), lived(roomy, false), lived(roomy, true)]
                .map(|weeks| weeks.join().expect("the weeks pass"));
        Weeks { tight, tight_guard, roomy, roomy_guard }
    })
}

#[test]
fn a_week_with_the_guard_and_without() {
    let Weeks { tight, tight_guard, roomy, roomy_guard } = weeks();
    let columns = [
        ("10 entries, plain", &tight),
        ("10, guard", &tight_guard),
        ("100 entries, plain", &roomy),
        ("100, guard", &roomy_guard),
    ];
    println!("{}", ledger::table(&columns.map(|(title, weeks)| (title.to_owned(), weeks.iter().collect()))));
    for guard in tight_guard.iter().chain(&roomy_guard) {
        // What the guard is for: nothing is begun where nothing can be repaired.
        for (place, found) in [
            ("let in", guard.let_in),
            ("rack without power", guard.in_cut),
            ("switch", guard.in_switch),
            ("blind", guard.while_blind),
        ] {
            assert_eq!(found, 0, "repairs begun, {place}");
        }
        let opened = |kind: &str| guard.incidents.iter().any(|incident| incident.starts_with(kind));
        assert!(opened("rack 17") && opened("rack 42") && opened("the whole fleet"), "{:?}", guard.incidents);
        assert!(opened("machine-type t2") || opened("version v3"), "the firmware: {:?}", guard.incidents);
        assert!(guard.incidents.len() <= 7, "{:?}", guard.incidents);
    }
    let sum = |weeks: &[Ledger], count: fn(&Ledger) -> usize| weeks.iter().map(count).sum::<usize>();
    let useful: fn(&Ledger) -> usize = |week| week.useful;
    let in_vain: fn(&Ledger) -> usize = |week| week.useless + week.harmful;
    // What it must not cost: machines that broke alone are repaired as before, but for a few of the group that is held.
    assert!(sum(&roomy_guard, useful) * 10 >= sum(&roomy, useful) * 9);
    // With little room all or nothing is mostly nothing; with much room it repairs whatever is reported.
    assert!(sum(&tight_guard, useful) >= 3 * sum(&tight, useful));
    assert!(3 * sum(&roomy_guard, in_vain) <= 2 * sum(&roomy, in_vain));
    assert!(roomy.iter().all(|week| week.in_cut > 0 && week.in_switch > 0), "the plain limits are put to the test");
    assert!(3 * sum(&roomy_guard, |week| week.of_batch) <= sum(&roomy, |week| week.of_batch));
}

#[test]
fn the_same_week_comes_out_the_same() {
    assert_eq!(format!("{:?}", live(2, 2, 10, true)), format!("{:?}", live(2, 2, 10, true)));
}
