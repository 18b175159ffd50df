//! What the next rounds would do if nothing but time changed.

use std::time::Duration;

use jiff::SignedDuration;

use super::{
    config::Configuration,
    input::{Input, ListedMachine},
    plan::{Outcome, Plan, RETIRED_WAIT_SECONDS, plan},
};
use crate::{lifecycle::HealthState, limits};

/// Plans up to `rounds` rounds, `period` apart, each from what the one before made. Ends early once waiting changes nothing more.
/// Cautions stay as they are: when an incident ends, nobody knows.
/// `show` says what is kept of each: a plan has the whole configuration in it, and hundreds of those do not fit into memory.
pub fn simulate<T>(input: Input<'_>, rounds: usize, period: Duration, show: impl Fn(&Plan) -> T) -> Vec<T> {
    let mut shown = Vec::new();
    let mut machines = input.machines.to_vec();
    let mut current: Option<Configuration> = input.current.cloned();
    let mut template_changed = input.template_changed;
    let mut now = input.now;
    for _ in 0..rounds.min(limits::SIMULATED_ROUNDS_MAX) {
        let round = plan(Input { machines: &machines, current: current.as_ref(), template_changed, now, ..input });
        let settled = round.outcome.made().is_none() && !machines.iter().any(waits);
        shown.push(show(&round));
        if let Outcome::Change(made) = round.outcome {
            current = Some(made.configuration);
            template_changed = false;
        }
        if settled {
            break;
        }
        now = SignedDuration::try_from(period).ok().and_then(|period| now.checked_add(period).ok()).unwrap_or(now);
        for machine in &mut machines {
            machine.seconds_in_state += period.as_secs_f64();
        }
    }
    shown
}

/// Whether time alone will change what is done with a machine.
fn waits(machine: &ListedMachine) -> bool {
    machine.state == HealthState::Retired && machine.seconds_in_state <= RETIRED_WAIT_SECONDS
}
