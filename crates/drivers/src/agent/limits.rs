//! Bounds on talking to agents. An agent runs on a machine nobody has checked yet: nothing it sends or withholds may cost more.

use std::time::Duration;

/// The largest answer that is read. Every command an agent ran since its start is in it, each with the node it was given.
pub const BODY_BYTES_MAX: usize = 8 << 20;

/// The largest certificate that is kept for an agent. A bundle of a few is smaller.
pub const CERTIFICATE_BYTES_MAX: usize = 64 << 10;

/// Steps one agent may offer. Real ones have a few dozen.
pub const STEPS_MAX: usize = 500;

/// Parts of an agent that run steps, and whose versions are kept with the node. Real ones have a handful.
pub const MANAGERS_MAX: usize = 64;

/// An agent's own name for a command, which is kept with the node. Real ones are UUIDs.
pub const COMMAND_ID_BYTES_MAX: usize = 128;

/// What is kept of an agent's explanation.
pub const REASON_CHARS_MAX: usize = 400;

/// Tries of one call, while it certainly did not arrive.
pub const TRIES: u32 = 3;

/// How long is waited. One set for real agents ([`Pace::default`]); tests use a shorter one.
#[derive(Debug, Clone)]
pub struct Pace {
    /// For a connection.
    pub connect: Duration,
    /// For one whole exchange.
    pub total: Duration,
    /// Between two tries.
    pub pause: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { connect: Duration::from_secs(10), total: Duration::from_secs(60), pause: Duration::from_secs(2) }
    }
}
