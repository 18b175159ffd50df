//! Every bound of the IPMI driver, with its reason.

use std::time::Duration;

/// Least time between two commands to one controller. Small controllers lose sessions, some even restart, when asked faster.
pub const GAP: Duration = Duration::from_secs(5);

/// Longest time of one call, waiting for a turn and every command of it included.
pub const CALL_MAX: Duration = Duration::from_secs(60);

/// How often ipmitool sends a packet again: datagrams get lost. With three, a controller that is not there costs 12 s.
pub const RESENDS: u32 = 3;

/// How often a command is run again because the controller said that it is busy.
pub const BUSY_RETRIES: usize = 2;

/// Processes at the same time for all controllers together. Each takes 50 ms of processor and 5 MB; more would only queue elsewhere.
pub const PROCESSES_MAX: usize = 64;

/// Longest output of one command, each of the two streams. The sensors of a large machine print 100 KB.
pub const OUTPUT_MAX: usize = 1 << 20;

/// Controllers remembered before idle ones are forgotten: more than one server looks after.
pub const LANES_MAX: usize = 16_384;

/// What people see of an answer nobody understands.
pub const QUOTE_MAX: usize = 300;

/// Longest user name (IPMI 2.0 section 22.28).
pub const USER_BYTES_MAX: usize = 16;

/// Longest password and longest Kg key (IPMI 2.0 sections 22.30 and 13.31).
pub const KEY_BYTES_MAX: usize = 20;

/// Longest name of a host.
pub const HOST_BYTES_MAX: usize = 253;
