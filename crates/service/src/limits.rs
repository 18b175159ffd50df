//! Every bound of the services, named, with its reason.

use std::time::Duration;

/// How long a registration waits for those before it. Longer than a healthy store takes for a hundred of them, and short enough
/// that its caller is answered within five seconds when the store stops answering meanwhile.
pub const TURN_WAIT_MAX: Duration = Duration::from_secs(2);

/// How often the history of the embedded store is looked at.
pub const COMPACTION_TICK: Duration = Duration::from_secs(5 * 60);

/// How many ticks of history stay: an hour, for a reader that resumes after a restart or a long pause.
pub const COMPACTION_TICKS_KEPT: usize = 12;

/// A search that looks at more machines than this leaves the thread that serves connections.
pub const SEARCH_INLINE_MAX: usize = 2_000;
