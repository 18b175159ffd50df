//! The way to one controller: one command at a time, with a pause between two, and the cipher suite that worked last.
//!
//! Lanes belong to the driver, not to a connection: two connections to one controller take turns, and a new connection knows what an
//! older one found out.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Mutex as AsyncMutex, MutexGuard, Semaphore},
    time::{Instant, sleep_until, timeout_at},
};

use super::{
    failure::{Failure, classify},
    limits,
    process::{self, Output, RunError},
    settings::Target,
};
use crate::DriverError;

/// What can be set about the driver; the defaults are for real controllers.
#[derive(Debug, Clone)]
pub struct IpmiOptions {
    /// Least time between two commands to one controller.
    pub gap: Duration,
    /// Longest time of one call.
    pub call_max: Duration,
    /// How often ipmitool sends a packet again.
    pub resends: u32,
    /// Processes at the same time.
    pub processes: usize,
}

impl Default for IpmiOptions {
    fn default() -> IpmiOptions {
        IpmiOptions {
            gap: limits::GAP,
            call_max: limits::CALL_MAX,
            resends: limits::RESENDS,
            processes: limits::PROCESSES_MAX,
        }
    }
}

/// What all lanes share.
pub struct Yard {
    /// The program.
    pub tool: PathBuf,
    /// Bounds.
    pub options: IpmiOptions,
    processes: Semaphore,
    lanes: Mutex<HashMap<(String, u16), Arc<Lane>>>,
}

/// One controller's turn.
pub struct Lane {
    state: AsyncMutex<State>,
}

#[derive(Default)]
struct State {
    free_at: Option<Instant>,
    cipher_suite: Option<u8>,
}

/// A command that did not succeed: the error for the caller, and the reason where ipmitool gave one.
pub struct Problem {
    /// The error.
    pub error: DriverError,
    /// The reason.
    pub failure: Option<Failure>,
}

impl From<DriverError> for Problem {
    fn from(error: DriverError) -> Problem {
        Problem { error, failure: None }
    }
}

impl Yard {
    /// No lane yet.
    pub fn new(tool: PathBuf, options: IpmiOptions) -> Yard {
        let processes = Semaphore::new(options.processes);
        Yard { tool, options, processes, lanes: Mutex::default() }
    }

    /// The lane to this controller.
    pub fn lane(&self, target: &Target) -> Arc<Lane> {
        // Whoever panicked meanwhile left at most one lane more or less.
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if lanes.len() >= limits::LANES_MAX {
            lanes.retain(|_, lane| Arc::strong_count(lane) > 1);
        }
        let lane = lanes.entry((target.address.clone(), target.port)).or_insert_with(|| Lane::new().into());
        Arc::clone(lane)
    }

    /// Runs a command when it is the controller's turn. Cipher suites are tried in order until the controller has one; one that says
    /// it is busy is asked again. A lost packet is ipmitool's own affair, because it alone knows whether the command was answered.
    pub async fn run(
        &self,
        lane: &Lane,
        target: &Target,
        what: &str,
        command: &[String],
        deadline: Instant,
    ) -> Result<Output, Problem> {
        let late = || not_sent(what, "earlier commands to it took all the time");
        let mut state = timeout_at(deadline, lane.state.lock()).await.map_err(|_| late())?;
        let mut problem = Problem::from(late());
        for suite in suites(target, state.cipher_suite) {
            let mut arguments = process::arguments(target, suite, self.options.resends);
            arguments.extend_from_slice(command);
            for _attempt in 0..=limits::BUSY_RETRIES {
                let output = self.run_once(&mut state, target, what, &arguments, deadline).await?;
                let failure = if output.success { None } else { Some(classify(&output.stderr)) };
                if matches!(failure, None | Some(Failure::Code(_))) {
                    state.cipher_suite = Some(suite);
                }
                let Some(failure) = failure else { return Ok(output) };
                problem = Problem { error: failure.explain(what, &output.stderr), failure: Some(failure) };
                if !failure.is_busy() {
                    break;
                }
            }
            // Above all a wrong password is not tried twice: that is how accounts get locked.
            if !problem.failure.is_some_and(Failure::is_about_cipher_suite) {
                break;
            }
        }
        Err(problem)
    }

    async fn run_once(
        &self,
        state: &mut MutexGuard<'_, State>,
        target: &Target,
        what: &str,
        arguments: &[String],
        deadline: Instant,
    ) -> Result<Output, DriverError> {
        if let Some(free_at) = state.free_at {
            let slept = timeout_at(deadline, sleep_until(free_at)).await;
            slept.map_err(|_| not_sent(what, "earlier commands to it took all the time"))?;
        }
        let permit = timeout_at(deadline, self.processes.acquire()).await;
        let permit = permit.map_err(|_| not_sent(what, "too many commands to other BMCs are running"))?;
        // Counted from the start too, for the case that nobody waits for the end.
        state.free_at = Some(Instant::now() + self.options.gap);
        let result = process::run(&self.tool, target, arguments, deadline).await;
        state.free_at = Some(Instant::now() + self.options.gap);
        drop(permit);
        result.map_err(|error| match error {
            RunError::Late => DriverError::Unreachable(format!("no answer to the command to {what} in time")),
            RunError::Missing => process::missing(&self.tool),
            RunError::Io(error) => {
                DriverError::Failed { what: what.to_owned(), reason: format!("cannot run ipmitool: {error}") }
            }
            RunError::TooLong => {
                let reason = format!("ipmitool printed more than {} bytes", limits::OUTPUT_MAX);
                DriverError::Protocol { what: format!("the command to {what}"), reason }
            }
        })
    }
}

impl Lane {
    fn new() -> Lane {
        Lane { state: AsyncMutex::default() }
    }
}

fn not_sent(what: &str, reason: &str) -> DriverError {
    DriverError::Unreachable(format!("the command to {what} was not sent in time: {reason}"))
}

/// The suite that worked last comes first; the others follow, because a controller may have been replaced or updated.
fn suites(target: &Target, remembered: Option<u8>) -> Vec<u8> {
    let mut list = target.cipher_suites.clone();
    list.sort_by_key(|suite| Some(*suite) != remembered);
    list
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Settings;

    #[test]
    fn suite_that_worked_is_tried_first() {
        let mut settings = Settings::default();
        settings.values.insert("ipmi_address".to_owned(), json!("bmc.example"));
        let target = Target::new(&settings).unwrap();
        assert_eq!(suites(&target, None), [17, 3]);
        assert_eq!(suites(&target, Some(3)), [3, 17]);
        assert_eq!(suites(&target, Some(8)), [17, 3]);
        settings.values.insert("ipmi_cipher_suite".to_owned(), json!(3));
        assert_eq!(suites(&Target::new(&settings).unwrap(), Some(17)), [3]);
    }

    #[test]
    fn idle_lanes_are_forgotten_when_there_are_too_many() {
        let yard = Yard::new("/none".into(), IpmiOptions::default());
        let mut settings = Settings::default();
        let mut target = |address: String| {
            settings.values.insert("ipmi_address".to_owned(), json!(address));
            Target::new(&settings).unwrap()
        };
        let used = yard.lane(&target("used".to_owned()));
        for n in 0..limits::LANES_MAX {
            yard.lane(&target(format!("n{n}")));
        }
        assert!(yard.lanes.lock().unwrap().len() < limits::LANES_MAX);
        assert!(Arc::ptr_eq(&used, &yard.lane(&target("used".to_owned()))));
    }
}
