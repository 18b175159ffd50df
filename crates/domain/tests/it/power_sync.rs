//! Reading the power of machines: whose is read, how often, and what an answer or a silence makes of a node.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use sabakan_domain::{
    provision::{
        engine::Changed,
        node::{Fault, Maintenance, Node, NodeId, Operation, Phase, PowerAction, Severity, Silent, Work},
        power::{PowerState, PowerTarget},
        power_sync::{first_pause, observe, pause, wants_reading},
        states::State,
    },
    words::Serial,
};

const EVERY: Duration = Duration::from_secs(100);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000).expect("valid") + SignedDuration::from_secs(second)
}

fn node(name: &str, state: State) -> Node {
    Node { state, ..Node::implied(NodeId(1), Serial::new(name).expect("valid"), at(0)) }
}

fn active() -> Node {
    node("1234abcd", State::Active)
}

fn maintained(fault: Option<Fault>) -> Node {
    Node { maintenance: Some(Maintenance { reason: None, fault }), ..active() }
}

fn with_action() -> Node {
    let mut node = active();
    let (target, asked_by) = (PowerTarget::On, "someone".to_owned());
    node.power.action = Some(PowerAction { target, asked_by, asked_at: at(0), deadline: at(60), started: false });
    node
}

/// One whose clearing up after a failure is not over.
fn with_operation() -> Node {
    let operation = Operation {
        id: "operation".to_owned(),
        work: Work::ClearUp,
        asked_by: "someone".to_owned(),
        asked_at: at(0),
        steps: vec![],
        index: 0,
        phase: Phase::Ready,
        deadline: Some(at(60)),
        before: None,
        ramdisk: None,
        abort_by: None,
        power_forced_by: None,
        origin: None,
    };
    Node { operation: Some(operation), ..node("1234abcd", State::CleanFailed) }
}

fn answers(node: &Node, power: PowerState, second: i64) -> Option<Changed> {
    observe(node, &Ok(Some(power)), "worker", at(second))
}

fn misses(node: &Node, second: i64) -> Option<Changed> {
    observe(node, &Err("no answer".to_owned()), "worker", at(second))
}

/// A node whose controller did not answer so many times in a row, a second apart, beginning now.
fn silent(times: i64) -> Node {
    let mut node = active();
    node.power.state = Some(PowerState::On);
    for second in 0..times {
        node = misses(&node, second).expect("something new").node;
    }
    node
}

#[test]
fn whose_power_is_read() {
    use State::{
        Active, Available, CleanFailed, DeployFailed, Error, InspectFailed, Manageable, Rescue, RescueFailed,
        ServiceFailed, UnrescueFailed,
    };
    // Where nothing goes on and somebody has proved the credentials.
    let read = BTreeSet::from([
        Manageable,
        InspectFailed,
        CleanFailed,
        Available,
        DeployFailed,
        Active,
        Error,
        Rescue,
        RescueFailed,
        UnrescueFailed,
        ServiceFailed,
    ]);
    for state in State::ALL {
        assert_eq!(wants_reading(&node("1234abcd", state)), read.contains(&state), "{state}");
    }
    let cases = [
        ("work is left to do", with_operation(), false),
        ("a power change is asked for", with_action(), false),
        ("somebody looks at it", maintained(None), false),
        ("a cleaning failed", maintained(Some(Fault::Clean)), false),
        ("its controller was silent", maintained(Some(Fault::Power)), true),
    ];
    for (what, node, expected) in cases {
        assert_eq!(wants_reading(&node), expected, "{what}");
        // Also where that changed while the controller was asked.
        assert_eq!(answers(&node, PowerState::On, 1).is_some(), expected, "{what}");
        assert_eq!(misses(&node, 1).is_some(), expected, "{what}");
    }
}

#[test]
fn an_answer_is_written_only_if_it_differs() {
    use PowerState::{Off, On};
    let cases = [
        (None, Some(On), Some((Some(On), Some(at(7))))),
        (Some(On), Some(On), None),
        (Some(On), Some(Off), Some((Some(Off), Some(at(7))))),
        (Some(Off), Some(On), Some((Some(On), Some(at(7))))),
        // The controller does not know: what was read last stays.
        (Some(Off), None, None),
        (None, None, None),
    ];
    for (known, read, expected) in cases {
        let mut node = active();
        node.power.state = known;
        node.power.since = known.map(|_| at(0));
        let changed = observe(&node, &Ok(read), "worker", at(7));
        let written = changed.as_ref().map(|changed| (changed.node.power.state, changed.node.power.since));
        assert_eq!(written, expected, "{known:?}, {read:?}");
        // A machine that somebody switched by hand is no news of the history.
        assert!(changed.is_none_or(|changed| changed.rows.is_empty() && changed.machine.is_none()));
    }
}

#[test]
fn a_silent_controller_is_given_up_after_a_few_tries() {
    for times in 1..=2 {
        let node = silent(times);
        assert_eq!((&node.maintenance, node.power.state), (&None, Some(PowerState::On)), "{times}");
        let expected =
            Silent { since: at(0), reason: "no answer".to_owned(), times: u32::try_from(times).expect("few") };
        assert_eq!(node.power.silent, Some(expected));
    }
    let changed = misses(&silent(2), 2).expect("it is given up");
    let reason = "the BMC did not answer 3 times: no answer";
    let maintenance = Maintenance { reason: Some(reason.to_owned()), fault: Some(Fault::Power) };
    assert_eq!(changed.node.maintenance, Some(maintenance));
    assert_eq!(changed.node.power.state, None, "what was read last may long be untrue");
    let rows: Vec<_> = changed.rows.iter().map(|row| (row.severity, row.by.as_str(), row.text.clone())).collect();
    assert_eq!(rows, [(Severity::Error, "worker", format!("power: {reason}"))]);
}

#[test]
fn silence_that_lasts_is_not_written_for_ever() {
    let given_up = silent(5);
    assert_eq!(given_up.power.silent.as_ref().map(|silent| (silent.since, silent.times)), Some((at(0), 5)));
    // Said once, when it was given up.
    let fourth = misses(&silent(3), 3).expect("it is counted");
    assert_eq!((fourth.rows, fourth.node.maintenance), (vec![], silent(3).maintenance));
    assert_eq!(misses(&given_up, 9), None);
    let changed = observe(&given_up, &Err("refused".to_owned()), "worker", at(9)).expect("another reason is news");
    assert_eq!(changed.node.power.silent.map(|silent| silent.reason).as_deref(), Some("refused"));
    assert_eq!(changed.rows, []);
}

#[test]
fn an_answer_ends_the_fault_that_silence_set() {
    let changed = answers(&silent(4), PowerState::Off, 60).expect("it answers");
    let Node { maintenance, power, .. } = &changed.node;
    assert_eq!((maintenance, power.state, &power.silent), (&None, Some(PowerState::Off), &None));
    let rows: Vec<_> = changed.rows.iter().map(|row| (row.severity, row.text.clone())).collect();
    assert_eq!(rows, [(Severity::Info, format!("power: the BMC answers again, silent since {}", at(0)))]);
    // A controller that answers without knowing the power answers.
    let changed = observe(&silent(4), &Ok(None), "worker", at(60)).expect("it answers");
    assert_eq!((changed.node.maintenance, changed.node.power.state, changed.node.power.silent), (None, None, None));
    // One that was never given up is no news; counting begins anew.
    let changed = answers(&silent(2), PowerState::On, 60).expect("it answers");
    assert_eq!((changed.rows, &changed.node.power.silent), (vec![], &None));
    let again = misses(&changed.node, 61).expect("silent again").node;
    assert_eq!(again.power.silent.map(|silent| (silent.since, silent.times)), Some((at(61), 1)));
}

#[test]
fn readings_are_spread_and_a_silent_controller_is_asked_less_often() {
    let names: Vec<String> = (0..200).map(|n| format!("machine{n}")).collect();
    for (times, periods) in [(0, 1), (1, 2), (2, 3), (5, 6), (6, 6), (1_000, 6)] {
        let mut node = active();
        if times > 0 {
            node.power.silent = Some(Silent { since: at(0), reason: "no answer".to_owned(), times });
        }
        let mut all = BTreeSet::new();
        for name in &names {
            node.name = Serial::new(name).expect("valid");
            let pause = pause(EVERY, &node);
            assert!(pause >= EVERY * 8 / 10 * periods && pause <= EVERY * 12 / 10 * periods, "{times}: {pause:?}");
            all.insert(pause);
        }
        assert!(all.len() > 100, "{times}: only {} different pauses", all.len());
    }
    // The first ones fill the whole period: about as many in each quarter.
    let mut quarters = [0; 4];
    for name in &names {
        let pause = first_pause(EVERY, &Serial::new(name).expect("valid"));
        assert!(pause <= EVERY, "{pause:?}");
        quarters[usize::try_from(pause.as_secs() / 25).expect("few").min(3)] += 1;
    }
    assert!(quarters.iter().all(|count| (25..=75).contains(count)), "{quarters:?}");
}
