//! Runs the scenario files of `tests/scenarios/repair`; the README there says how they are written.

use super::story::Story;
use crate::script;

#[test]
fn every_story_comes_out_as_it_is_written() {
    script::run_folder("repair", 90, Story::tell);
}

#[test]
fn a_story_that_is_wrong_fails() {
    let text = "machine A\nsteps type1 unreachable x\nreport A unreachable 10m\ncase c\nlook\n";
    for (expected, fine) in [
        ("  enqueued: A\n", true),
        ("  enqueued: ...\n  0 of 3 entries...\n", true),
        ("  nothing is enqueued\n", false),
        ("  enqueued: A\n  A: it is repaired\n", false),
        ("  0 of 3 entries...\n", false),
        ("", false),
        ("  enqueued: A\nmachine B colour=red\n", false),
        ("  enqueued: A\nmachine B\n  something\n", false),
    ] {
        let results = script::run("test", &format!("{text}{expected}"), Story::tell);
        assert_eq!(results.len(), 1);
        assert_eq!(results[0].is_ok(), fine, "{expected:?}: {results:?}");
    }
}
