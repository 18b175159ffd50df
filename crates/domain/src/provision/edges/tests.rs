//! Every cell of state and verb, the founding table row by row, wire names, and self-checks over the table of arrows.

use std::collections::{BTreeSet, HashSet};

use super::*;
use crate::provision::states::Kind;

/// Which verbs each state accepts, as specified. Written by hand: nothing here is derived from [`EDGES`].
const ACCEPTED: [(&str, &str); 31] = [
    ("enroll", "manage"),
    ("verifying", ""),
    ("verify failed", "manage"),
    ("manageable", "provide clean inspect adopt"),
    ("inspecting", ""),
    ("inspect wait", "abort"),
    ("inspect failed", "inspect manage"),
    ("cleaning", ""),
    ("clean wait", "abort"),
    ("clean hold", "abort unhold"),
    ("clean failed", "manage"),
    ("available", "active manage"),
    ("deploying", ""),
    ("wait call-back", "deleted abort"),
    ("deploy hold", "unhold abort"),
    ("deploy failed", "active rebuild deleted"),
    ("active", "rebuild deleted rescue service"),
    ("deleting", ""),
    ("error", "rebuild deleted"),
    ("rescuing", ""),
    ("rescue wait", "abort deleted"),
    ("rescue", "rescue unrescue deleted"),
    ("rescue failed", "rescue unrescue deleted"),
    ("unrescuing", ""),
    ("unrescue failed", "rescue unrescue deleted"),
    ("adopting", ""),
    ("adopt failed", "adopt manage"),
    ("servicing", ""),
    ("service wait", "abort deleted"),
    ("service hold", "service unhold abort"),
    ("service failed", "service rescue abort deleted"),
];

/// Where an accepted verb leads and what the node heads for then; `-`: nothing; `=`: what it headed for before.
const LEADS: &[(&str, &str, &str, &str)] = &[
    ("enroll", "manage", "verifying", "manageable"),
    ("verify failed", "manage", "verifying", "manageable"),
    ("manageable", "inspect", "inspecting", "manageable"),
    ("manageable", "clean", "cleaning", "manageable"),
    ("manageable", "provide", "cleaning", "available"),
    ("manageable", "adopt", "adopting", "active"),
    ("inspect wait", "abort", "inspect failed", "="),
    ("inspect failed", "inspect", "inspecting", "manageable"),
    ("inspect failed", "manage", "manageable", "-"),
    ("clean wait", "abort", "clean failed", "="),
    ("clean hold", "abort", "clean failed", "="),
    ("clean hold", "unhold", "clean wait", "="),
    ("clean failed", "manage", "manageable", "-"),
    ("available", "active", "deploying", "active"),
    ("available", "manage", "manageable", "-"),
    ("wait call-back", "deleted", "deleting", "available"),
    ("wait call-back", "abort", "deploy failed", "="),
    ("deploy hold", "unhold", "wait call-back", "="),
    ("deploy hold", "abort", "deploy failed", "="),
    ("deploy failed", "active", "deploying", "active"),
    ("deploy failed", "rebuild", "deploying", "active"),
    ("deploy failed", "deleted", "deleting", "available"),
    ("active", "rebuild", "deploying", "active"),
    ("active", "deleted", "deleting", "available"),
    ("active", "rescue", "rescuing", "rescue"),
    ("active", "service", "servicing", "active"),
    ("error", "rebuild", "deploying", "active"),
    ("error", "deleted", "deleting", "available"),
    ("rescue wait", "abort", "rescue failed", "="),
    ("rescue wait", "deleted", "deleting", "available"),
    ("rescue", "rescue", "rescuing", "rescue"),
    ("rescue", "unrescue", "unrescuing", "active"),
    ("rescue", "deleted", "deleting", "available"),
    ("rescue failed", "rescue", "rescuing", "rescue"),
    ("rescue failed", "unrescue", "unrescuing", "active"),
    ("rescue failed", "deleted", "deleting", "available"),
    ("unrescue failed", "rescue", "rescuing", "rescue"),
    ("unrescue failed", "unrescue", "unrescuing", "active"),
    ("unrescue failed", "deleted", "deleting", "available"),
    ("adopt failed", "adopt", "adopting", "active"),
    ("adopt failed", "manage", "manageable", "-"),
    ("service wait", "abort", "service failed", "="),
    ("service wait", "deleted", "deleting", "available"),
    ("service hold", "unhold", "service wait", "="),
    ("service hold", "service", "servicing", "active"),
    ("service hold", "abort", "service failed", "="),
    ("service failed", "service", "servicing", "active"),
    ("service failed", "rescue", "rescuing", "rescue"),
    ("service failed", "abort", "active", "-"),
    ("service failed", "deleted", "deleting", "available"),
];

/// Where an event leads; a name in brackets is passed through. `(target)`: where the node was heading.
const EVENTS: &[(&str, &str, &str)] = &[
    ("verifying", "done", "(verified) manageable"),
    ("verifying", "fail", "verify failed"),
    ("verifying", "deadline", "verify failed"),
    ("inspecting", "done", "(inspected) manageable"),
    ("inspecting", "wait", "inspect wait"),
    ("inspecting", "fail", "inspect failed"),
    ("inspecting", "deadline", "inspect failed"),
    ("inspect wait", "resume", "inspecting"),
    ("inspect wait", "done", "(inspected) manageable"),
    ("inspect wait", "fail", "inspect failed"),
    ("inspect wait", "deadline", "inspect failed"),
    ("cleaning", "wait", "clean wait"),
    ("cleaning", "hold", "clean hold"),
    ("cleaning", "done", "(cleaned) TARGET"),
    ("cleaning", "fail", "clean failed"),
    ("cleaning", "deadline", "clean failed"),
    ("clean wait", "resume", "cleaning"),
    ("clean wait", "hold", "clean hold"),
    ("clean wait", "fail", "clean failed"),
    ("clean wait", "deadline", "clean failed"),
    ("deploying", "wait", "wait call-back"),
    ("deploying", "hold", "deploy hold"),
    ("deploying", "done", "(deployed) active"),
    ("deploying", "fail", "deploy failed"),
    ("deploying", "deadline", "deploy failed"),
    ("wait call-back", "resume", "deploying"),
    ("wait call-back", "hold", "deploy hold"),
    ("wait call-back", "fail", "deploy failed"),
    ("wait call-back", "deadline", "deploy failed"),
    ("deleting", "torn down", "(deleted) cleaning"),
    ("deleting", "done", "(deleted) TARGET"),
    ("deleting", "fail", "error"),
    ("deleting", "deadline", "error"),
    ("rescuing", "wait", "rescue wait"),
    ("rescuing", "done", "(rescued) rescue"),
    ("rescuing", "fail", "rescue failed"),
    ("rescuing", "deadline", "rescue failed"),
    ("rescue wait", "resume", "rescuing"),
    ("rescue wait", "fail", "rescue failed"),
    ("rescue wait", "deadline", "rescue failed"),
    ("unrescuing", "done", "(unrescued) active"),
    ("unrescuing", "fail", "unrescue failed"),
    ("unrescuing", "deadline", "unrescue failed"),
    ("adopting", "done", "active"),
    ("adopting", "fail", "adopt failed"),
    ("adopting", "deadline", "adopt failed"),
    ("servicing", "wait", "service wait"),
    ("servicing", "hold", "service hold"),
    ("servicing", "done", "active"),
    ("servicing", "fail", "service failed"),
    ("servicing", "deadline", "service failed"),
    ("service wait", "resume", "servicing"),
    ("service wait", "hold", "service hold"),
    ("service wait", "fail", "service failed"),
    ("service wait", "deadline", "service failed"),
    ("service hold", "fail", "service failed"),
    ("service failed", "wait", "service wait"),
    ("service failed", "hold", "service hold"),
    ("service failed", "restored", "active"),
];

fn state(word: &str) -> State {
    word.parse().expect(word)
}

#[test]
fn every_cell_of_state_and_verb() {
    let (mut yes, mut no) = (0, 0);
    for (from, words) in ACCEPTED {
        let from = state(from);
        let expected: BTreeSet<Verb> = words.split_whitespace().map(|word| word.parse().expect(word)).collect();
        for verb in Verb::ALL {
            assert_eq!(accepts(from, verb), expected.contains(&verb), "{verb} in {from}");
            match transition(from, Trigger::Verb(verb)) {
                Ok(edge) => {
                    assert!(expected.contains(&verb), "{from} accepts {verb}");
                    assert_eq!((edge.from, edge.on), (from, Trigger::Verb(verb)));
                    yes += 1;
                }
                Err(refusal) => {
                    assert!(!expected.contains(&verb), "{from} refuses {verb}");
                    assert_eq!(refusal, NoEdge::Verb { from, verb });
                    no += 1;
                }
            }
        }
        let listed: BTreeSet<Verb> = accepted(from).collect();
        assert_eq!(listed, expected, "{from}");
    }
    assert_eq!((yes, no), (LEADS.len(), 31 * 13 - LEADS.len()));
}

#[test]
fn every_accepted_verb_leads_where_it_is_specified_to() {
    for (from, verb, to, target) in LEADS {
        let edge = transition(state(from), Trigger::Verb(verb.parse().expect(verb))).expect(from);
        let expected = match *target {
            "-" => Target::Clear,
            "=" => Target::Keep,
            set => Target::Set(state(set)),
        };
        let found = (edge.to, edge.target, edge.via);
        assert_eq!(found, (Destination::To(state(to)), expected, None), "{from} {verb}");
    }
}

#[test]
fn every_cell_of_state_and_event() {
    let mut found = 0;
    for from in State::ALL {
        for event in Event::ALL {
            let row = EVENTS.iter().find(|(f, e, _)| state(f) == from && *e == event.as_str());
            let text = match transition(from, Trigger::Event(event)) {
                Ok(edge) => {
                    let to = match edge.to {
                        Destination::To(to) => to.as_str(),
                        Destination::Target => "TARGET",
                    };
                    Some(edge.via.map_or_else(|| to.to_owned(), |via| format!("({}) {to}", via.as_str())))
                }
                Err(refusal) => {
                    assert_eq!(refusal, NoEdge::Event { from, event });
                    None
                }
            };
            assert_eq!(text.as_deref(), row.map(|row| row.2), "{from} {event:?}");
            found += usize::from(text.is_some());
        }
    }
    assert_eq!(found, EVENTS.len());
    assert_eq!(EDGES.len(), EVENTS.len() + LEADS.len());
}

#[test]
fn a_refusal_names_the_verbs_that_are_accepted() {
    let text = |from, verb| transition(from, Trigger::Verb(verb)).expect_err("refused").to_string();
    assert_eq!(
        text(State::DeployFailed, Verb::Manage),
        "the verb \"manage\" is not accepted in the state \"deploy failed\"; accepted: active, rebuild, deleted"
    );
    assert_eq!(
        text(State::Cleaning, Verb::Abort),
        "the verb \"abort\" is not accepted in the state \"cleaning\"; accepted: none while work goes on"
    );
    let event = transition(State::Active, Trigger::Event(Event::Done)).expect_err("refused");
    assert_eq!(event.to_string(), "the event \"done\" cannot happen in the state \"active\"");
}

/// One row of the founding table: the verb, where it begins, what is passed, where it ends.
fn walk(verb: &str, from: State, through: &[&str], end: State) {
    let (mut at, mut target, mut passed) = (from, None, Vec::new());
    let mut follow = |at: State, on: Trigger| {
        let edge = transition(at, on).unwrap_or_else(|refusal| panic!("{verb} from {from}: {refusal}"));
        passed.extend(edge.via.map(Momentary::as_str));
        match edge.target {
            Target::Set(set) => target = Some(set),
            Target::Keep => {}
            Target::Clear if edge.to != Destination::Target => target = None,
            Target::Clear => {}
        }
        let to = match edge.to {
            Destination::To(to) => to,
            Destination::Target => target.take().expect("it heads somewhere"),
        };
        if to.kind() == Kind::Busy {
            assert!(target.is_some_and(|target| target.kind() == Kind::Stable), "{verb}: {to} heads for {target:?}");
            passed.push(to.as_str());
        }
        to
    };
    at = follow(at, Trigger::Verb(verb.parse().expect(verb)));
    while at.kind() == Kind::Busy {
        let event = if at == State::Deleting { Event::TornDown } else { Event::Done };
        at = follow(at, Trigger::Event(event));
    }
    assert_eq!((passed.as_slice(), at, target), (through, end, None), "{verb} from {from}");
}

#[test]
fn the_founding_table_row_by_row() {
    const DELETED: &[&str] = &["deleting", "deleted", "cleaning", "cleaned"];
    walk("manage", State::Enroll, &["verifying", "verified"], State::Manageable);
    walk("clean", State::Manageable, &["cleaning", "cleaned"], State::Manageable);
    walk("inspect", State::Manageable, &["inspecting", "inspected"], State::Manageable);
    walk("provide", State::Manageable, &["cleaning", "cleaned"], State::Available);
    walk("manage", State::Available, &[], State::Manageable);
    walk("active", State::Available, &["deploying", "deployed"], State::Active);
    walk("rebuild", State::Active, &["deploying", "deployed"], State::Active);
    walk("rescue", State::Active, &["rescuing", "rescued"], State::Rescue);
    walk("unrescue", State::Rescue, &["unrescuing", "unrescued"], State::Active);
    walk("deleted", State::Active, DELETED, State::Available);
    walk("deleted", State::Rescue, DELETED, State::Available);
    walk("deleted", State::DeployWait, DELETED, State::Available);
    walk("abort", State::CleanWait, &[], State::CleanFailed);
}

/// The words API clients compare with, one by one.
#[test]
fn names_on_the_wire() {
    use State::*;
    let names: [(State, &str); 31] = [
        (Enroll, "enroll"),
        (Verifying, "verifying"),
        (VerifyFailed, "enroll"),
        (Manageable, "manageable"),
        (Inspecting, "inspecting"),
        (InspectWait, "inspect wait"),
        (InspectFailed, "inspect failed"),
        (Cleaning, "cleaning"),
        (CleanWait, "clean wait"),
        (CleanFailed, "clean failed"),
        (CleanHold, "clean hold"),
        (Available, "available"),
        (Deploying, "deploying"),
        (DeployWait, "wait call-back"),
        (DeployFailed, "deploy failed"),
        (DeployHold, "deploy hold"),
        (Active, "active"),
        (Deleting, "deleting"),
        (Error, "error"),
        (Rescuing, "rescuing"),
        (RescueWait, "rescue wait"),
        (Rescue, "rescue"),
        (RescueFailed, "rescue failed"),
        (Unrescuing, "unrescuing"),
        (UnrescueFailed, "unrescue failed"),
        (Adopting, "adopting"),
        (AdoptFailed, "adopt failed"),
        (Servicing, "servicing"),
        (ServiceWait, "service wait"),
        (ServiceFailed, "service failed"),
        (ServiceHold, "service hold"),
    ];
    assert_eq!(names.iter().map(|(state, _)| *state).collect::<HashSet<_>>().len(), 31);
    for (state, wire) in names {
        assert_eq!(state.wire(), wire, "{state:?}");
        assert_eq!(state.as_str().parse(), Ok(state), "each state has a word of its own");
        // Momentary names are never shown: no client knows them.
        assert!(!["verified", "inspected", "cleaned", "deployed", "rescued", "unrescued", "deleted"].contains(&wire));
    }
    for verb in Verb::ALL {
        assert_eq!(verb.as_str().parse(), Ok(verb));
    }
    assert_eq!(("deploy".parse(), "undeploy".parse()), (Ok(Verb::Active), Ok(Verb::Deleted)));
    for bad in ["", "Manage", "done", "delete", "no such"] {
        assert!(bad.parse::<Verb>().is_err() && bad.parse::<State>().is_err(), "{bad:?}");
    }
}

#[test]
fn no_arrow_stands_twice_and_every_target_is_stable() {
    let mut seen = HashSet::new();
    for edge in EDGES {
        assert!(seen.insert((edge.from, edge.on)), "{edge:?} stands twice");
        assert!(!edge.text.is_empty(), "{edge:?}");
        if let Target::Set(target) = edge.target {
            assert_eq!(target.kind(), Kind::Stable, "{edge:?}");
        }
        for to in edge.destinations() {
            // Where a node was heading is only dropped or reached, never reached and kept.
            assert!(edge.to == Destination::To(to) || (to.kind() == Kind::Stable && edge.target == Target::Clear));
        }
    }
}

#[test]
fn a_stable_state_is_left_only_because_somebody_asks() {
    for edge in EDGES.iter().filter(|edge| edge.from.kind() == Kind::Stable) {
        assert!(matches!(edge.on, Trigger::Verb(_)), "{edge:?}");
    }
}

#[test]
fn busy_and_waiting_states_succeed_fail_and_end_in_time() {
    for from in State::ALL {
        let has = |event| transition(from, Trigger::Event(event)).is_ok();
        let limited = matches!(from.kind(), Kind::Busy | Kind::Waiting);
        assert_eq!(from.time_limit().is_some(), limited, "{from}");
        assert_eq!(has(Event::Deadline), limited, "{from}");
        match from.kind() {
            Kind::Busy => assert!(has(Event::Done) && has(Event::Fail), "{from}"),
            Kind::Waiting => assert!(has(Event::Resume) && has(Event::Fail), "{from}"),
            Kind::Stable => assert!(Event::ALL.into_iter().all(|event| !has(event)), "{from}"),
            Kind::Holding | Kind::Failed => assert!(!has(Event::Done), "{from}"),
        }
        for event in [Event::Fail, Event::Deadline].into_iter().filter(|event| has(*event)) {
            let to = transition(from, Trigger::Event(event)).expect("there is one").destinations();
            assert!(to.iter().all(|to| to.kind() == Kind::Failed), "{from} {event:?} leads to {to:?}");
        }
    }
}

/// G6: a person leads out at once, or the state ends in time by itself.
#[test]
fn no_state_without_a_way_out() {
    for from in State::ALL {
        let by_verb = accepted(from).next().is_some();
        let in_time = from.time_limit().is_some() && transition(from, Trigger::Event(Event::Deadline)).is_ok();
        assert!(by_verb || in_time, "{from}");
        assert!(by_verb || from.kind() == Kind::Busy, "{from} lasts and no verb leads out");
    }
    for waiting in State::ALL.into_iter().filter(|state| matches!(state.kind(), Kind::Waiting | Kind::Holding)) {
        assert!(accepted(waiting).any(|verb| verb == Verb::Abort), "{waiting} cannot be aborted");
    }
}

#[test]
fn every_state_is_reached_from_enroll_and_reaches_every_stable_one() {
    for start in State::ALL {
        let mut reached = BTreeSet::from([start]);
        loop {
            let next: BTreeSet<State> =
                EDGES.iter().filter(|edge| reached.contains(&edge.from)).flat_map(Edge::destinations).collect();
            if next.is_subset(&reached) {
                break;
            }
            reached.extend(next);
        }
        for stable in State::ALL.into_iter().filter(|state| state.kind() == Kind::Stable) {
            // Nothing leads back to knowing nothing.
            assert!(reached.contains(&stable) || stable == State::Enroll, "{start} cannot reach {stable}");
        }
        assert!(start != State::Enroll || reached.len() == State::ALL.len(), "unreachable from enroll: {reached:?}");
    }
}

/// Whether the node heads somewhere, for every state and by whatever way it is reached.
#[test]
fn the_target_is_absent_exactly_where_it_should_be() {
    let without = |state: State| state.kind() == Kind::Stable || matches!(state, State::Error | State::VerifyFailed);
    let mut seen = BTreeSet::from([(State::Enroll, None)]);
    let mut todo: Vec<(State, Option<State>)> = seen.iter().copied().collect();
    while let Some((at, target)) = todo.pop() {
        assert_eq!(target.is_none(), without(at), "{at} heads for {target:?}");
        assert!(target.is_none_or(|target| target.kind() == Kind::Stable), "{at} heads for {target:?}");
        for edge in EDGES.iter().filter(|edge| edge.from == at) {
            let to = match edge.to {
                Destination::To(to) => to,
                Destination::Target => target.expect("only states with a target have such an arrow"),
            };
            let target = match edge.target {
                Target::Set(set) => Some(set),
                Target::Keep => target,
                Target::Clear => None,
            };
            if seen.insert((to, target)) {
                todo.push((to, target));
            }
        }
    }
    let reached: BTreeSet<State> = seen.iter().map(|(state, _)| *state).collect();
    assert_eq!(reached.len(), State::ALL.len());
}

/// The sets of states that callers and clients rely on.
#[test]
fn kinds_of_states() {
    let of = |kind| State::ALL.into_iter().filter(|state| state.kind() == kind).map(State::as_str).collect::<Vec<_>>();
    assert_eq!(of(Kind::Stable), ["enroll", "manageable", "available", "active", "rescue"]);
    assert_eq!(of(Kind::Waiting), ["inspect wait", "clean wait", "wait call-back", "rescue wait", "service wait"]);
    assert_eq!(of(Kind::Holding), ["clean hold", "deploy hold", "service hold"]);
    let busy = [
        "verifying",
        "inspecting",
        "cleaning",
        "deploying",
        "deleting",
        "rescuing",
        "unrescuing",
        "adopting",
        "servicing",
    ];
    assert_eq!(of(Kind::Busy), busy);
    assert_eq!(of(Kind::Failed).len(), 31 - 5 - 5 - 3 - 9);
}
