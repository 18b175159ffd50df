//! Settings of repair: whether this server repairs, and how often it looks.

use super::{defaults, limits, raw::help, sources::Sources, values};
use crate::repair::RepairConfig;

/// The flags of repair.
#[derive(Clone, Default, clap::Args)]
#[command(next_help_heading = "Repair")]
pub struct RepairFlags {
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help = help("Repair machines and reboot nodes, on one server among several; off, this server leaves it to others",
            defaults::YES))]
    pub repairer: Option<String>,
    #[arg(long, value_name = "TIME",
        help = help("How often broken machines and both queues are looked at when nothing changes, and how often a machine in the \
            queue is asked whether it is healthy", defaults::REPAIR_PERIOD))]
    pub repair_period: Option<String>,
}

/// Everything about repair.
pub fn repair(from: &mut Sources<'_>) -> RepairConfig {
    let default = RepairConfig::default();
    let flag = from.flags.repair.repairer.take();
    let line = vec![("repairer", from.file.repairer.take())];
    let repairer = from.pick("repairer", flag, line);
    let flag = from.flags.repair.repair_period.take();
    let line = vec![("repair-period", from.file.repair_period.take())];
    let period = from.pick("repair-period", flag, line);
    RepairConfig {
        repairer: from.check(&repairer, values::boolean).unwrap_or(default.repairer),
        period: from.check(&period, |text| values::time_within(text, limits::REPAIR_PERIOD)).unwrap_or(default.period),
    }
}
