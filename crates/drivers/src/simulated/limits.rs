//! Bounds of the simulation.

/// Commands remembered per machine. A machine's way from enroll to active and back is about thirty; what is forgotten is counted.
pub const COMMANDS_KEPT: usize = 64;

/// Tasks a controller remembers. One runs at a time; the others are there for whoever asks late.
pub const TASKS_KEPT: usize = 8;

/// Calls of ramdisks that wait for whoever takes them. A ramdisk that finds no room waits in line, so this bounds memory, not loss.
pub const CALLBACKS_MAX: usize = 1024;

/// Faults of one machine: one of each kind, and some steps that fail or hang.
pub const FAULTS_MAX: usize = 16;
