//! What a simulated machine was asked, so that tests can prove what was done, how often, and that nothing was.

use std::collections::VecDeque;

use sabakan_domain::provision::{boot::BootDevice, power::PowerTarget};

use super::limits::COMMANDS_KEPT;

/// Something that changes a machine, as it arrived there. Whether it then failed is not part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A power command.
    Power(PowerTarget),
    /// The boot device, and whether for every start.
    Boot(BootDevice, bool),
    /// A step of the controller, written `interface.step`.
    Step(String),
    /// A step of the ramdisk, written `interface.step`.
    RamdiskStep(String),
    /// The configuration was to be put back.
    Restore,
    /// The controller was to restart.
    ResetBmc,
}

/// What a machine was asked since it exists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calls {
    /// Calls that arrived, reads and commands, to the controller and to the ramdisk.
    pub total: u64,
    /// The last commands, oldest first.
    pub commands: Vec<Command>,
    /// Commands before those. Whoever counts commands asserts that this is 0.
    pub forgotten: u64,
}

impl Calls {
    /// How often a command arrived, among those remembered.
    pub fn count(&self, command: &Command) -> usize {
        self.commands.iter().filter(|seen| *seen == command).count()
    }

    /// How often a step was started, by the controller or in the ramdisk; written `interface.step`.
    pub fn steps(&self, key: &str) -> usize {
        let is_it = |seen: &&Command| matches!(seen, Command::Step(step) | Command::RamdiskStep(step) if step == key);
        self.commands.iter().filter(is_it).count()
    }
}

#[derive(Debug, Default)]
pub(super) struct CallLog {
    pub(super) total: u64,
    commands: VecDeque<Command>,
    forgotten: u64,
}

impl CallLog {
    pub(super) fn record(&mut self, command: Command) {
        if self.commands.len() == COMMANDS_KEPT {
            self.commands.pop_front();
            self.forgotten += 1;
        }
        self.commands.push_back(command);
    }

    pub(super) fn read(&self) -> Calls {
        let CallLog { total, commands, forgotten } = self;
        Calls { total: *total, commands: commands.iter().cloned().collect(), forgotten: *forgotten }
    }
}
