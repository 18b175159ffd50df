//! Every interleaving of two clients on one and on two machines, each able to die between any two operations on the store,
//! explored to the end: no key on a retired machine, none added to a leaving one, none left by a removed one (G1); what is
//! acknowledged was done, whole, as the rule allows at that moment, and what is refused changed nothing (G4); every change has its
//! audit entry (G9); every state can be left.
//!
//! What runs is the product: the repository functions with the rules of the domain below them, against a store that shows each of
//! their operations to the explorer (`replay`). The store itself is a model (`world`); `conformance` compares the real ones.

mod explore;
mod replay;
mod world;

use std::time::Instant;

use explore::{Explored, Violation, explore};
use replay::Request;
use world::{Broken, Model};

/// Explores the product as it is and prints how much there was to see.
fn check(what: &str, model: &Model) -> Explored {
    let began = Instant::now();
    let explored = explore(model, Broken::Nothing).unwrap_or_else(|violation| panic!("{violation}"));
    let Explored { states, steps, worlds, commits, .. } = &explored;
    println!(
        "model check, {what}: {states} states, {steps} steps, {worlds} contents of the store, {commits} kinds of commits, {:.1} s",
        began.elapsed().as_secs_f64()
    );
    explored
}

/// Explores the product with one thing broken; it must be found, and be what is expected.
fn finds(broken: Broken, expected: &str) {
    let Violation { what, path } = match explore(&Model::one(1), broken) {
        Ok(Explored { states, .. }) => panic!("{broken:?} was not found among {states} states"),
        Err(violation) => violation,
    };
    println!("{broken:?}: {what}\n{path}");
    assert!(what.contains(expected), "{broken:?} was found as {what}, not as {expected}");
}

#[test]
fn one_machine_with_two_disks_and_two_clients() {
    let model = Model::one(2);
    let explored = check("one machine, two disks", &model);
    // Seven states with any set of two disks, but retired with none only; and no machine.
    assert_eq!(explored.worlds, 6 * 4 + 1 + 1);
    assert!(model.requests().contains(&Request::Reseal));
}

#[test]
fn two_machines_and_two_clients() {
    let explored = check("two machines of one rack", &Model::two());
    assert!(explored.worlds >= 13 * 13, "{}", explored.worlds);
}

mod broken {
    use super::{Broken::*, finds};

    #[test]
    fn a_key_put_that_does_not_compare_the_machine() {
        finds(PutComparesNoMachine, "a key was added to m0, which is retiring");
    }

    #[test]
    fn a_key_put_that_ignores_the_state() {
        finds(PutIgnoresState, "a key was added to m0, which is reti");
    }

    #[test]
    fn a_request_for_retired_that_ignores_keys() {
        finds(RetiredIgnoresKeys, "m0 is retired and has a key");
    }

    #[test]
    fn a_request_for_retired_that_compares_nothing() {
        // The shortest way to see it needs no key: the machine was brought back meanwhile.
        finds(RetiredComparesNothing, "is not what it does alone");
    }

    #[test]
    fn a_state_change_that_does_not_compare_the_machine() {
        finds(StateComparesNoMachine, "is not what it does alone");
    }

    #[test]
    fn an_erasure_that_ignores_the_state() {
        finds(EraseIgnoresState, "is not what it does alone");
    }

    #[test]
    fn an_erasure_that_leaves_the_keys() {
        finds(EraseLeavesKeys, "m0 is retired and has a key");
    }

    #[test]
    fn an_erasure_that_leaves_the_state() {
        finds(EraseLeavesState, "is not what it does alone");
    }

    #[test]
    fn a_removal_that_ignores_the_state() {
        finds(RemoveIgnoresState, "m0 was removed while it was");
    }

    #[test]
    fn a_removal_that_does_not_compare_the_machine() {
        finds(RemoveComparesNoMachine, "m0 was removed while it was");
    }

    #[test]
    fn a_resealing_that_does_not_compare_the_key() {
        finds(ResealComparesNothing, "a key was added to m0");
    }

    #[test]
    fn an_answer_before_the_commit() {
        finds(AcknowledgesConflicts, "was acknowledged and not done");
    }

    #[test]
    fn a_change_without_its_audit_entry() {
        finds(WritesNoAudit, "audit entries");
    }

    #[test]
    fn a_change_without_its_published_copy() {
        finds(PublishesNothing, "published");
    }

    #[test]
    fn a_state_without_a_way_out() {
        finds(RetiredForEver, "cannot be left");
    }
}
