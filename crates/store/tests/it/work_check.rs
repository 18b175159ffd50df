//! Lifecycle and provisioning together, explored to the end: one machine, callers and monitors that ask for anything at any moment,
//! workers that crash, lose their lease and answer late, a ramdisk that calls or does not, deadlines that pass, operators that abort.
//! Proved of every state that can be reached, for requests in any number and order:
//!
//! - G1: a retired machine has no disk key and gets none, a removed one was retired; what becomes available has no key.
//! - G5: one worker at a time, each with an epoch of its own; one that lost its lease changes nothing.
//! - G6: everything that is busy or waits has a deadline and comes to rest by itself, with or without answers; what only a person
//!   can end, a person can.
//! - The couplings and guards between the two state machines; the history is a path of the table; what must not be run twice is not.
//!
//! What runs is the product: the functions of the repository with the rules of the domain, those of a worker's turn among them. The
//! store is a model, and so is how a step goes. `model_check` does the same for keys and lifecycle alone, with every single operation
//! of two callers interleaved.

mod broken;
mod claims;
mod clients;
mod explore;
mod store;
mod world;

use std::time::Instant;

use broken::Broken;
use explore::{Bound, Explored, Violation, explore};
use sabakan_domain::{lifecycle::HealthState, provision::verbs::Verb};

/// What continuous integration has time for, in two parts that can run side by side. The other lifecycle states differ from these in
/// no guard.
const USUAL: Bound = Bound {
    states: &[HealthState::Healthy, HealthState::Unhealthy, HealthState::Retiring, HealthState::Retired],
    forced: &[HealthState::Healthy],
    begin: &[],
    verbs: &[Verb::Manage, Verb::Provide, Verb::Clean, Verb::Active, Verb::Deleted, Verb::Abort, Verb::Unhold],
    maintenance: false,
    states_max: 100_000,
};

/// A machine that runs a workload, and what is done with it short of tearing it down.
const ACTIVE: Bound = Bound {
    states: &[HealthState::Healthy, HealthState::Unhealthy, HealthState::Retiring],
    forced: &[],
    begin: &[Verb::Manage, Verb::Provide, Verb::Active],
    verbs: &[Verb::Rescue, Verb::Unrescue, Verb::Service, Verb::Rebuild, Verb::Abort, Verb::Unhold],
    ..USUAL
};

/// Everything at once; takes minutes. Asked for by setting `SABAKAN_MODEL_CHECK_ALL`.
const ALL: Bound = Bound {
    states: &HealthState::ALL,
    forced: &HealthState::ALL,
    verbs: &Verb::ALL,
    maintenance: true,
    states_max: 10_000_000,
    ..USUAL
};

/// Explores the product as it is and prints how much there was to see.
fn check(what: &str, bound: Bound) -> Explored {
    let began = Instant::now();
    let explored = explore(bound, Broken::Nothing).unwrap_or_else(|violation| panic!("{violation}"));
    let Explored { states, steps, calls, pairs } = &explored;
    println!(
        "model check, {what}: {states} states, {steps} steps, {calls} calls, {} pairs of states, {:.1} s",
        pairs.len(),
        began.elapsed().as_secs_f64()
    );
    explored
}

#[test]
fn a_machine_from_enrolment_to_its_workload_and_back() {
    let everything = std::env::var_os("SABAKAN_MODEL_CHECK_ALL").is_some();
    let explored = check("from enrolment and back", if everything { ALL } else { USUAL });
    assert!(explored.states > 1_000, "{}", explored.states);
}

#[test]
fn a_machine_that_runs_a_workload() {
    let explored = check("with a workload", ACTIVE);
    assert!(explored.states > 1_000, "{}", explored.states);
}

/// Explores the product with one thing broken, from where the work before has gone well; it must be found, and be what is expected.
fn finds(broken: Broken, begin: &'static [Verb], verbs: &'static [Verb], expected: &str) {
    let Violation { what, path } = match explore(Bound { begin, verbs, ..USUAL }, broken) {
        Ok(Explored { states, .. }) => panic!("{broken:?} was not found among {states} states"),
        Err(violation) => violation,
    };
    println!("{broken:?}: {what}\n{path}");
    assert!(what.contains(expected), "{broken:?} was found as {what}, not as {expected}");
}

macro_rules! found {
    ($($test:ident: $broken:ident, [$($begin:ident)*], [$($verb:ident)*], $expected:literal;)*) => {
        mod found {
            use super::{Broken, Verb, finds};
            $(
                #[test]
                fn $test() {
                    finds(Broken::$broken, &[$(Verb::$begin),*], &[$(Verb::$verb),*], $expected);
                }
            )*
        }
    };
}

found! {
    a_write_that_does_not_compare_the_lock: WriteComparesNoLock, [], [Manage], "G5: a worker wrote without its lock";
    a_write_that_takes_any_lock_for_its_own: WriteTrustsAnyLock, [], [Manage], "G5: a worker that lost its lease did Write";
    a_node_taken_from_another_worker: TakeIgnoresLock, [], [Manage], "G5: taken while another worker holds it";
    an_epoch_that_does_not_grow: TakeKeepsEpoch, [], [Manage], "G5: the epoch";
    a_verb_that_does_not_compare_the_machine: AskComparesNoMachine, [], [Manage], "is not what it does alone";
    a_verb_that_does_not_compare_the_node: AskComparesNoNode, [], [Manage], "the history is no path";
    a_verb_that_ignores_the_worker: AskIgnoresLock, [Manage], [Provide Abort Manage], "G5: changed while a worker holds it";
    a_verb_that_ignores_the_lifecycle: AskIgnoresLifecycle, [], [Manage], "manage was accepted while the machine is retired";
    a_call_that_ignores_the_worker: NoticeIgnoresLock, [Manage], [Clean], "G5: changed while a worker holds it";
    a_retirement_in_the_middle_of_work: RetireIgnoresWork, [], [Manage], "retired while the node is";
    a_report_that_counts_in_the_middle_of_work: ReportIgnoresWork, [], [Manage], "a report was not kept";
    a_report_that_is_dropped: ReportIsDropped, [], [Manage], "a report is lost";
    a_kept_report_that_is_forgotten: ReportIsForgotten, [], [Manage], "a kept report is lost";
    an_erasure_without_retiring_first: EraseSkipsRetiring, [Manage], [Provide], "the lifecycle knows no arrow";
    an_erasure_that_does_not_compare_the_machine: EraseStepComparesNoMachine, [Manage], [Provide], "is not what it does alone";
    a_machine_provided_with_keys: ArrivesWithKeys, [Manage], [Provide], "available with a disk key";
    a_machine_provided_that_is_declared_retiring: ArrivesDeclared, [Manage], [Provide], "declared retiring";
    a_tear_down_that_leaves_the_machine: TearDownForgetsMachine, [Manage Provide Active], [Deleted], "torn down and still";
    an_abort_that_leaves_the_ramdisk_running: AbortForgetsRamdisk, [Manage], [Provide Abort], "the ramdisk is forgotten";
    a_step_that_must_not_be_run_twice: RunsTwice, [Manage], [Clean], "is begun twice";
    a_step_after_the_next: StepGoesBack, [Manage], [Clean], "again after step";
    a_wait_without_a_deadline: NoDeadline, [Manage], [Clean], "without a deadline";
    attempts_without_end: AttemptsForgotten, [], [Manage], "G6: it never comes to rest";
    a_worker_that_holds_on_to_a_node_that_waits: HoldsWhileWaiting, [], [Manage], "a worker holds on";
    a_history_with_a_gap: RowForgotten, [], [Manage], "the history";
    a_failure_without_a_reason: NoReason, [], [Manage], "without a reason";
    a_node_that_heads_nowhere: TargetForgotten, [], [Manage], "with the target None";
    a_busy_node_without_work: OperationForgotten, [Manage], [Provide], "G6: cleaning without an operation";
    a_move_without_an_audit_entry: AuditForgotten, [], [Manage], "G9";
}
