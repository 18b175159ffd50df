//! The whole product of verbs, lifecycle states and provision states; lifecycle changes against provision states; maintenance and
//! protection.

use jiff::Timestamp;

use super::*;
use crate::{
    provision::node::{Maintenance, NodeId, Operation, Phase, PowerAction, Work},
    provision::power::PowerTarget,
    words::Serial,
};

const LOOSE: Strictness = Strictness { require_healthy: false };
const STRICT: Strictness = Strictness { require_healthy: true };

fn node(state: State) -> Node {
    let name = Serial::new("1234abcd").expect("valid");
    Node { state, ..Node::implied(NodeId(1), name, Timestamp::UNIX_EPOCH) }
}

fn in_maintenance(state: State) -> Node {
    Node { maintenance: Some(Maintenance { reason: None, fault: None }), ..node(state) }
}

/// In which lifecycle states a verb is let be, in the order uninitialized, healthy, unhealthy, unreachable, updating, retiring,
/// retired. Where strictness matters the verb stands twice.
const LET_BE: &[(&str, &str, &str)] = &[
    ("manage", "always", "y y y y y y -"),
    ("inspect", "always", "y y y y y y -"),
    ("deleted", "always", "y y y y y y -"),
    ("unrescue", "always", "y y y y y y -"),
    ("clean", "always", "y y y y y y -"),
    ("service", "always", "y y y y y y -"),
    ("rescue", "always", "y y y y y y -"),
    ("provide", "always", "y y y y y - -"),
    ("rebuild", "always", "y y y y y - -"),
    ("adopt", "always", "y y y y y - -"),
    ("active", "loose", "y y - - - - -"),
    ("active", "strict", "- y - - - - -"),
    // Getting out of trouble is always possible.
    ("abort", "always", "y y y y y y y"),
    ("unhold", "always", "y y y y y y y"),
];

#[test]
fn every_verb_in_every_lifecycle_state() {
    let mut cells = 0;
    for (verb, when, row) in LET_BE {
        let verb: Verb = verb.parse().expect(verb);
        for strictness in [LOOSE, STRICT] {
            let applies = match *when {
                "loose" => !strictness.require_healthy,
                "strict" => strictness.require_healthy,
                _ => true,
            };
            if !applies {
                continue;
            }
            for (machine, cell) in HealthState::ALL.into_iter().zip(row.split_whitespace()) {
                for state in State::ALL {
                    // A failure that leads straight back to manageable asks nothing of the machine.
                    let out = verb == Verb::Manage
                        && matches!(state, State::InspectFailed | State::CleanFailed | State::AdoptFailed);
                    let (failed_otherwise, managed) = (state.kind() == Kind::Failed, verb == Verb::Manage);
                    if managed && failed_otherwise && !out && state != State::VerifyFailed {
                        // The state machine has no such arrow; the guard is not asked.
                        continue;
                    }
                    let declared = matches!(machine, HealthState::Retiring | HealthState::Retired);
                    let node = Node { retire_declared: declared, ..node(state) };
                    let found = check_verb(&node, verb, Some(machine), strictness);
                    assert_eq!(found.is_ok(), cell == "y" || out, "{verb} in {state}, machine {machine}");
                    if let Err(refusal) = found {
                        assert!(matches!(refusal, GuardRefusal::Lifecycle { .. }), "{refusal:?}");
                        assert!(refusal.to_string().contains(machine.as_str()), "{refusal}");
                    }
                    cells += 1;
                }
            }
        }
    }
    // 13 verbs, two kinds of strictness, 7 lifecycle states, 31 provision states, without the five failures `manage` does not leave.
    let without = 2 * 7 * 5;
    assert_eq!(cells, 13 * 2 * 7 * 31 - without);
}

/// Tear-down makes a machine retiring and erasing makes it retired, without anybody declaring that it leaves. When the cleaning after
/// them fails, `manage` and `provide` lead on as they do for any other node; nothing else is opened by it.
#[test]
fn what_only_tear_down_made_retiring_can_be_provided_again() {
    for machine in [HealthState::Retiring, HealthState::Retired] {
        for (declared, verb, expected) in [
            (false, Verb::Provide, true),
            (true, Verb::Provide, false),
            (false, Verb::Active, false),
            (false, Verb::Rebuild, false),
            (false, Verb::Adopt, false),
        ] {
            let node = Node { retire_declared: declared, ..node(State::Manageable) };
            let found = check_verb(&node, verb, Some(machine), LOOSE);
            assert_eq!(found.is_ok(), expected, "{verb}, machine {machine}, declared {declared}");
        }
    }
}

#[test]
fn a_node_without_a_machine_has_no_lifecycle_to_mind() {
    for verb in Verb::ALL {
        for state in State::ALL {
            assert_eq!(check_verb(&node(state), verb, None, STRICT), Ok(()), "{verb} in {state}");
        }
    }
}

#[test]
fn maintenance_stops_what_would_change_the_machine() {
    let refused = [Verb::Active, Verb::Rebuild, Verb::Clean, Verb::Rescue, Verb::Unrescue, Verb::Service];
    for state in State::ALL {
        for verb in Verb::ALL {
            let found = check_verb(&in_maintenance(state), verb, Some(HealthState::Healthy), LOOSE);
            let expected = if refused.contains(&verb) {
                Err(GuardRefusal::Maintenance(verb))
            } else if verb == Verb::Abort && state == State::ServiceFailed {
                Err(GuardRefusal::MaintenanceConflict(verb))
            } else {
                Ok(())
            };
            assert_eq!(found, expected, "{verb} in {state}");
        }
    }
}

#[test]
fn a_protected_node_is_neither_deleted_nor_rebuilt() {
    let protected = Node { protected: Some("runs the database".to_owned()), ..node(State::Active) };
    for verb in Verb::ALL {
        let found = check_verb(&protected, verb, Some(HealthState::Healthy), LOOSE);
        assert_eq!(found.is_err(), matches!(verb, Verb::Deleted | Verb::Rebuild), "{verb}");
    }
    let refusal = check_verb(&protected, Verb::Deleted, None, LOOSE).expect_err("refused");
    assert_eq!(refusal.to_string(), "\"deleted\" is refused: the node is protected (runs the database)");
}

/// Every lifecycle change against every provision state.
#[test]
fn lifecycle_changes_against_provision_states() {
    use HealthState::{Healthy, Retired, Unhealthy, Uninitialized, Unreachable};
    for state in State::ALL {
        let at_rest = !matches!(state.kind(), Kind::Busy | Kind::Waiting | Kind::Holding);
        let idle = matches!(state, State::Enroll | State::VerifyFailed | State::Manageable);
        for from in HealthState::ALL {
            for to in HealthState::ALL {
                for forced in [false, true] {
                    let expected = match (from, to) {
                        // One nobody manages rests in enroll, as in a plain registry.
                        (Uninitialized, Healthy)
                            if !forced && matches!(state, State::Verifying | State::VerifyFailed) =>
                        {
                            Err(ProvisionRefusal::NotProved(state.as_str()))
                        }
                        (_, Retired) if idle => Ok(LifecycleVerdict::Make),
                        (_, Retired) => Err(ProvisionRefusal::InUse(state.as_str())),
                        (_, Unhealthy | Unreachable) if !forced && !at_rest => Ok(LifecycleVerdict::Hold),
                        _ => Ok(LifecycleVerdict::Make),
                    };
                    let found = check_lifecycle(&node(state), from, to, forced);
                    assert_eq!(found, expected, "{from} to {to} in {state}, forced: {forced}");
                }
            }
        }
    }
}

#[test]
fn nobody_is_retired_or_removed_under_a_worker() {
    let at = Timestamp::UNIX_EPOCH;
    for state in State::ALL {
        let idle = matches!(state, State::Enroll | State::VerifyFailed | State::Manageable);
        assert_eq!(check_idle(&node(state)).is_ok(), idle, "{state}");
        let mut powering = node(state);
        let (target, asked_by) = (PowerTarget::On, "someone".to_owned());
        powering.power.action = Some(PowerAction { target, asked_by, asked_at: at, deadline: at, started: false });
        assert_eq!(check_idle(&powering), Err(ProvisionRefusal::InUse(state.as_str())), "{state}");
        let clearing = Operation {
            id: "1".to_owned(),
            work: Work::ClearUp,
            asked_by: "someone".to_owned(),
            asked_at: at,
            steps: Vec::new(),
            index: 0,
            phase: Phase::Ready,
            deadline: None,
            before: None,
            ramdisk: None,
            abort_by: None,
            power_forced_by: None,
            origin: None,
        };
        let clearing = Node { operation: Some(clearing), ..node(state) };
        assert_eq!(check_idle(&clearing), Err(ProvisionRefusal::InUse(state.as_str())), "{state}");
    }
}

/// Whatever the machine became meanwhile, a node that failed or waits has a verb that leads on and is not refused, unless somebody
/// brings the machine back first, which is possible in every case.
#[test]
fn failures_of_cleaning_inspecting_and_adopting_are_left_whatever_the_machine_is() {
    for machine in HealthState::ALL {
        for state in [State::InspectFailed, State::CleanFailed, State::AdoptFailed] {
            for node in [node(state), in_maintenance(state)] {
                assert_eq!(check_verb(&node, Verb::Manage, Some(machine), STRICT), Ok(()), "{state} {machine}");
            }
        }
        for state in State::ALL.into_iter().filter(|state| matches!(state.kind(), Kind::Waiting | Kind::Holding)) {
            for node in [node(state), in_maintenance(state)] {
                assert_eq!(check_verb(&node, Verb::Abort, Some(machine), STRICT), Ok(()), "{state} {machine}");
                assert_eq!(check_verb(&node, Verb::Unhold, Some(machine), STRICT), Ok(()), "{state} {machine}");
            }
        }
    }
}
