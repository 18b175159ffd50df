//! Every bound of the command line, named, with its reason.

use std::time::Duration;

/// Machines registered by one request, unless the caller says otherwise: few enough that a refusal is about something a
/// person can overlook. A server on an etcd with default limits takes about sixty; its refusal says so.
pub const BATCH_MACHINES: u32 = 1000;

/// Most bytes of an input file. A million machines; more is a mistake, such as a device that never ends.
pub const FILE_BYTES_MAX: u64 = 512 << 20;

/// Most bytes of a file with a token: a token has about a hundred.
pub const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// Pause before `events --follow` asks again: a server that restarts is back within a second.
pub const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(200);

/// The same once it has failed often.
pub const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(5);
