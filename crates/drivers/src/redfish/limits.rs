//! Every bound of the Redfish driver, named, with its reason. A controller is a small computer that may be broken or hostile: nothing
//! it sends or withholds may cost more than what stands here.

use std::time::Duration;

/// The largest answer that is read. Boards with thousands of firmware settings answer with a few hundred kilobytes.
pub const BODY_BYTES_MAX: usize = 4 << 20;

/// Members of one collection that are looked at. The largest real ones are sensors, a few hundred.
pub const MEMBERS_MAX: usize = 1000;

/// Pages of one collection that are followed, so that a page that links to itself ends.
pub const PAGES_MAX: usize = 50;

/// Redirects that are followed, all on the controller itself: a missing slash, an alias of a system.
pub const REDIRECTS_MAX: usize = 3;

/// What is kept of a controller's explanation. Longer ones are stack traces.
pub const REASON_CHARS_MAX: usize = 400;

/// Reads of one controller at a time. Many of them answer slowly or not at all beyond a handful.
pub const READS_AT_ONCE: usize = 4;

/// Controllers whose session is kept. Beyond that the one unused for longest is logged out; its next use logs in again.
pub const SESSIONS_MAX: usize = 4096;

/// Different ways of trusting certificates that have a client ready. A fleet has one or two.
pub const TRUSTS_MAX: usize = 64;

/// A file or directory of certificates is read up to here. The bundle of a distribution has a quarter of a megabyte.
pub const CA_BYTES_MAX: u64 = 8 << 20;

/// Files of a directory of certificates that are read.
pub const CA_FILES_MAX: usize = 1000;

/// Settings of the firmware that are kept.
pub const BIOS_SETTINGS_MAX: usize = 5000;

/// How long the driver waits, and how often it tries again. One set for real controllers ([`Pace::default`]); tests use a shorter one.
#[derive(Debug, Clone)]
pub struct Pace {
    /// For a connection, TLS included.
    pub connect: Duration,
    /// Between two pieces of an answer.
    pub read: Duration,
    /// For one whole exchange. Some actions answer after a minute.
    pub total: Duration,
    /// Attempts to connect; nothing was sent before the last of them succeeded. None begins later than `connect` after the first.
    pub connect_attempts: u32,
    /// Between two of them.
    pub connect_pause: Duration,
    /// Attempts of a change that the controller refuses for the moment: during power-on self-test, or right after a power command.
    pub busy_attempts: u32,
    /// Between two of them.
    pub busy_pause: Duration,
    /// A session that worked within this time is not suspected when something is not found.
    pub session_trusted: Duration,
    /// Until a controller that could not open a session is asked for one again.
    pub session_retry: Duration,
    /// Controllers whose session is kept.
    pub sessions_max: usize,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            connect: Duration::from_secs(30),
            read: Duration::from_secs(60),
            total: Duration::from_secs(120),
            connect_attempts: 5,
            connect_pause: Duration::from_secs(4),
            busy_attempts: 6,
            busy_pause: Duration::from_secs(10),
            session_trusted: Duration::from_secs(30),
            session_retry: Duration::from_secs(600),
            sessions_max: SESSIONS_MAX,
        }
    }
}
