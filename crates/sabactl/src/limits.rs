//! Every bound of the command line, named, with its reason.

use std::time::Duration;

/// Machines registered by one request, unless the caller says otherwise: few enough that a refusal is about something a
/// person can overlook. A server whose store takes fewer says how many, and that many are sent then.
pub const BATCH_MACHINES: u32 = 1000;

/// Most bytes of an input file. A million machines; more is a mistake, such as a device that never ends.
pub const FILE_BYTES_MAX: u64 = 512 << 20;

/// Most bytes of a file with a token: a token has about a hundred.
pub const TOKEN_FILE_BYTES_MAX: u64 = 4096;

/// Pause before `events --follow` asks again: a server that restarts is back within a second.
pub const RECONNECT_PAUSE_MIN: Duration = Duration::from_millis(200);

/// The same once it has failed often.
pub const RECONNECT_PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long `--wait` waits unless told otherwise: longer than any single state of a node lasts without a person.
pub const WORK_WAIT: Duration = Duration::from_secs(2 * 60 * 60);

/// Pause between two looks at a node that was just asked something.
pub const POLL_PAUSE_MIN: Duration = Duration::from_millis(100);

/// The same once it takes longer: people watch, and a thousand of them cost the server little.
pub const POLL_PAUSE_MAX: Duration = Duration::from_secs(2);

/// How long a server may be away while a node is waited for: a restart, or the move of its address.
pub const OUTAGE_MAX: Duration = Duration::from_secs(60);

/// How often a wish is sent to a node that somebody works on at that moment.
pub const BUSY_ATTEMPTS: u32 = 5;

/// Pause before it is sent again: reading the power of a machine, the usual reason, takes about a second.
pub const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// Nodes one command talks about at once. More would only wait in the server.
pub const NODES_AT_ONCE: usize = 16;

/// Most bytes of a file with a password.
pub const SECRET_FILE_BYTES_MAX: u64 = 4096;

/// Choices of a plan shown to people unless they ask for all: a new cluster has one for each node.
pub const CHOICES_SHOWN: usize = 20;

/// Broken machines named to people unless they ask for more: a screen of them. All are counted.
pub const BROKEN_SHOWN: u32 = 40;

/// The same for programs. In a healthy fleet there are fewer.
pub const BROKEN_IN_JSON: u32 = 1_000;

/// Lines of a difference shown to people unless they ask for all.
pub const DIFF_LINES_SHOWN: usize = 120;
