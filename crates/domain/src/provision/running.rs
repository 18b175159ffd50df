//! A ramdisk that runs a command: how the command is named, and when the power of its machine may be cut. A disk whose erasure or whose
//! image is cut short is a disk nobody knows anything about, so that no failure, no abort and no verb cuts it; only a person who insists.

use jiff::{SignedDuration, Timestamp};

use super::node::{Node, Operation, Phase, RamdiskContact, Wait, WaitOn};
use crate::limits;

/// What is waited for at a ramdisk, by the name that stands in [`WaitOn::Task`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RamdiskTask {
    /// The end of a step.
    Step {
        /// Which, as `interface.name`.
        step: String,
        /// The ramdisk's own name for the command; `None`: it gave none, and the step alone names it.
        command: Option<String>,
    },
    /// The end of whatever keeps it from beginning a step.
    Turn {
        /// Which, as `interface.name`.
        step: String,
    },
    /// The end of whatever it runs, before its power is cut.
    Idle,
}

const STEP: &str = "ramdisk:";
const TURN: &str = "ramdisk turn:";
const IDLE: &str = "ramdisk idle";

impl RamdiskTask {
    /// Reads a name; `None`: it is a task of a controller.
    pub fn parse(name: &str) -> Option<RamdiskTask> {
        if name == IDLE {
            return Some(RamdiskTask::Idle);
        }
        if let Some(step) = name.strip_prefix(TURN) {
            return Some(RamdiskTask::Turn { step: step.to_owned() });
        }
        let name = name.strip_prefix(STEP)?;
        Some(match name.split_once('#') {
            Some((step, command)) => RamdiskTask::Step { step: step.to_owned(), command: Some(command.to_owned()) },
            // As records of earlier versions have it.
            None => RamdiskTask::Step { step: name.to_owned(), command: None },
        })
    }

    /// The name of it.
    pub fn name(&self) -> String {
        match self {
            RamdiskTask::Step { step, command: Some(command) } => format!("{STEP}{step}#{command}"),
            RamdiskTask::Step { step, command: None } => format!("{STEP}{step}"),
            RamdiskTask::Turn { step } => format!("{TURN}{step}"),
            RamdiskTask::Idle => IDLE.to_owned(),
        }
    }
}

/// What is known about the ramdisk of a machine that is about to lose its power.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RamdiskReport {
    /// None was booted, or it has never called.
    Absent,
    /// It runs no command.
    Idle,
    /// It runs this one.
    Running(String),
    /// It does not answer; why.
    Silent(String),
}

/// Why the power is not cut yet; `None`: it may be. `forced`: a person insists.
pub fn postpones(
    contact: Option<&RamdiskContact>,
    report: &RamdiskReport,
    forced: bool,
    now: Timestamp,
) -> Option<String> {
    if forced {
        return None;
    }
    match report {
        RamdiskReport::Absent | RamdiskReport::Idle => None,
        RamdiskReport::Running(command) => {
            Some(format!("the ramdisk still runs {command}; the machine is switched off when that has ended"))
        }
        RamdiskReport::Silent(reason) => {
            let contact = contact.filter(|contact| contact.command.is_some())?;
            let patience = SignedDuration::try_from(limits::SILENT_RAMDISK_MAX).unwrap_or(SignedDuration::ZERO);
            let heard = contact.heard_at.filter(|at| now.duration_since(*at) < patience)?;
            Some(format!(
                "the ramdisk ran a command when it called last, at {heard}, and does not answer now ({reason}); the machine is \
                 switched off when it answers that nothing runs, or is silent for {} s",
                patience.as_secs()
            ))
        }
    }
}

/// The wait for a ramdisk to end what it runs before its power goes.
pub fn until_idle(ended: bool) -> WaitOn {
    WaitOn::Task { id: IDLE.to_owned(), ended }
}

/// What a node waits for, if it is that.
pub fn postponed(node: &Node) -> Option<&Wait> {
    node.wait().filter(|wait| matches!(&wait.on, WaitOn::Task { id, .. } if id == IDLE))
}

/// Whether work waits for that, or somebody has just asked the ramdisk about it.
pub fn is_postponed(operation: &Operation) -> bool {
    match &operation.phase {
        Phase::Waiting(Wait { on: WaitOn::Task { id, .. }, .. }) | Phase::Resumed { task: Some(id), .. } => id == IDLE,
        Phase::Waiting(_) | Phase::Resumed { .. } | Phase::Ready | Phase::Started { .. } => false,
    }
}

#[cfg(test)]
mod tests;
