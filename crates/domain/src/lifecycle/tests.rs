//! Every cell of the transition table, force, keys, and self-checks of the table.

use std::collections::HashSet;

use super::*;

const WITHOUT_KEYS: Facts = Facts { has_keys: false };
const WITH_KEYS: Facts = Facts { has_keys: true };

/// The specified table: a row for each state, a column for each target, in the order of `ALL`.
const TABLE: [(&str, [&str; 7]); 7] = [
    ("uninitialized", ["same", "yes", "-", "-", "-", "yes", "-"]),
    ("healthy", ["-", "same", "yes", "yes", "yes", "yes", "-"]),
    ("unhealthy", ["-", "yes", "same", "yes", "yes", "yes", "-"]),
    ("unreachable", ["-", "yes", "yes", "same", "yes", "yes", "-"]),
    ("updating", ["yes", "-", "-", "-", "same", "-", "-"]),
    ("retiring", ["-", "-", "-", "-", "-", "same", "no keys"]),
    ("retired", ["yes", "yes", "-", "-", "-", "-", "same"]),
];

#[test]
fn every_cell_of_the_table() {
    for (from, row) in TABLE {
        let from: HealthState = from.parse().expect(from);
        for (to, cell) in HealthState::ALL.into_iter().zip(row) {
            let without = request(from, to, WITHOUT_KEYS, Force::No);
            let with = request(from, to, WITH_KEYS, Force::No);
            let refused = Err(TransitionRefusal::NoEdge { from, to });
            let (expected, expected_with_keys) = match cell {
                // Retired with keys cannot be, and asking for it again must not hide that it is.
                "same" if to == Retired => (Ok(Granted::Already), Err(TransitionRefusal::KeysExist)),
                "same" => (Ok(Granted::Already), Ok(Granted::Already)),
                "yes" => (Ok(Granted::Move(to)), Ok(Granted::Move(to))),
                "no keys" => (Ok(Granted::Move(to)), Err(TransitionRefusal::KeysExist)),
                _ => (refused, refused),
            };
            assert_eq!((without, with), (expected, expected_with_keys), "{from} to {to}");
        }
    }
    let text = TransitionRefusal::NoEdge { from: Updating, to: Retired }.to_string();
    assert_eq!(text, "transition from [ updating ] to [ retired ] is forbidden");
}

#[test]
fn force_opens_every_way_but_the_one_into_retired() {
    for from in HealthState::ALL {
        for to in HealthState::ALL {
            for facts in [WITHOUT_KEYS, WITH_KEYS] {
                let forced = request(from, to, facts, Force::Yes);
                if to == Retired {
                    assert_eq!(forced, request(from, to, facts, Force::No), "{from} to {to}");
                } else {
                    let expected = if from == to { Granted::Already } else { Granted::Move(to) };
                    assert_eq!(forced, Ok(expected), "{from} to {to}");
                }
            }
        }
    }
}

#[test]
fn nothing_enters_retired_but_a_retiring_machine_without_keys() {
    for from in HealthState::ALL {
        for facts in [WITHOUT_KEYS, WITH_KEYS] {
            for force in [Force::No, Force::Yes] {
                let moves = request(from, Retired, facts, force) == Ok(Granted::Move(Retired));
                assert_eq!(moves, from == Retiring && !facts.has_keys, "{from} {facts:?} {force:?}");
            }
        }
        assert_eq!(erased(from), (from == Retiring).then_some(Retired), "{from}");
    }
}

#[test]
fn the_table_has_no_double_row_and_no_dead_end() {
    let mut seen = HashSet::new();
    for edge in EDGES {
        assert!(seen.insert((edge.from, edge.to, edge.on)), "{edge:?} stands twice");
        assert_ne!(edge.from, edge.to, "{edge:?} leads nowhere");
        assert!(!edge.text.is_empty());
    }
    for state in HealthState::ALL {
        assert!(EDGES.iter().any(|e| e.from == state), "{state} cannot be left");
        assert!(state == Uninitialized || EDGES.iter().any(|e| e.to == state), "{state} cannot be reached");
    }
    // From the first state every other one can be reached, and from every one a machine can be retired and come back.
    for start in HealthState::ALL {
        let mut reached = HashSet::from([start]);
        while let Some(edge) = EDGES.iter().find(|e| reached.contains(&e.from) && !reached.contains(&e.to)) {
            reached.insert(edge.to);
        }
        assert_eq!(reached.len(), HealthState::ALL.len(), "from {start}");
    }
}

/// What provisioning moves by itself.
#[test]
fn provisioning_moves_machines_through_retiring_and_back() {
    let table = [
        (Uninitialized, Some(Retiring), None),
        (Healthy, Some(Retiring), None),
        (Unhealthy, Some(Retiring), None),
        (Unreachable, Some(Retiring), None),
        (Updating, Some(Retiring), None),
        // It is leaving already.
        (Retiring, None, None),
        // Only one that was erased begins anew.
        (Retired, None, Some(Uninitialized)),
    ];
    assert_eq!(table.map(|(from, ..)| from), HealthState::ALL);
    for (from, torn, again) in table {
        assert_eq!((torn_down(from), provided(from)), (torn, again), "{from}");
    }
    // Neither enters retired: only deleted keys, or a request without keys, do.
    for edge in EDGES.iter().filter(|edge| matches!(edge.on, Trigger::TornDown | Trigger::Provided)) {
        assert_ne!(edge.to, Retired, "{edge:?}");
    }
    // Arrows of provisioning are no way for a request: what is updating is not made retiring by one.
    assert!(request(Updating, Retiring, WITHOUT_KEYS, Force::No).is_err());
    assert_eq!(torn_down(Updating).and_then(erased).and_then(provided), Some(Uninitialized), "once around");
}

#[test]
fn words_round_trip() {
    for state in HealthState::ALL {
        assert_eq!(state.as_str().parse(), Ok(state));
    }
    assert_eq!("dead".parse(), Ok(Unreachable));
    for bad in ["", "HEALTHY", "healthy\n", "running"] {
        assert_eq!(bad.parse::<HealthState>(), Err(UnknownState(bad.to_owned())));
    }
}

#[test]
fn only_retired_machines_may_go() {
    for state in HealthState::ALL {
        assert_eq!(check_removal(state).is_ok(), state == Retired, "{state}");
    }
}
