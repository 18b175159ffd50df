//! Runs the scenario files of `tests/scenarios/cluster`; the README there says how they are written.

mod show;
mod story;

use story::Story;

use crate::script;

#[test]
fn every_scenario_comes_out_as_it_is_written() {
    script::run_folder("cluster", 60, Story::tell);
}

#[test]
fn a_scenario_that_is_wrong_fails() {
    let text = "machine 1 rack=0 role=cs\nmachine 2 rack=0 role=cs\ncontrol-plane\nworker\n\ncase c\nplan\n";
    for (expected, fine) in [
        ("  new\n  control planes 1; workers 2\n", true),
        ("  new\n", true),
        ("  new\n  ...added: 2 ...\n", true),
        ("  new\n  control planes 2; workers 1\n", false),
        ("  control planes 1; workers 2\n", false),
        ("  nothing to do\n", false),
        ("  new\n  ...added: 2 ...\n  control planes 1; workers 2\n", false),
        ("", false),
        ("  new\nmachine 3 colour=red\n", false),
        ("  new\nmachine 3 rack=1\n  something\n", false),
    ] {
        let results = script::run("test", &format!("{text}{expected}"), Story::tell);
        assert_eq!(results.len(), 1);
        assert_eq!(results[0].is_ok(), fine, "{expected:?}: {results:?}");
    }
}
