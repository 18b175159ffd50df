//! Every bound of the services, named, with its reason.

use std::time::Duration;

/// How long a registration waits for those before it. Longer than a healthy store takes for a hundred of them, and short enough
/// that its caller is answered within five seconds when the store stops answering meanwhile.
pub const TURN_WAIT_MAX: Duration = Duration::from_secs(2);

/// How often the history of the embedded store is looked at.
pub const COMPACTION_TICK: Duration = Duration::from_secs(5 * 60);

/// How many ticks of history stay: an hour, for a reader that resumes after a restart or a long pause.
pub const COMPACTION_TICKS_KEPT: usize = 12;

/// A search that looks at more machines and values than this leaves the thread that serves connections.
pub const SEARCH_INLINE_MAX: usize = 2_000;

/// Searches at once that left the threads that serve connections. They keep processors busy and wait for nothing, so that more of
/// them at once are only slower.
pub const SCANS_MAX: usize = 4;

/// How long such a search waits for those before it. One takes some tens of milliseconds among 100,000 machines.
pub const SCAN_WAIT_MAX: Duration = Duration::from_secs(5);

/// Machines that answers not yet read hold, over all of them: forty complete lists of 100,000, and 32 MB of memory.
pub const HELD_MACHINES_MAX: usize = 4_000_000;

/// An answer with at most so many machines needs no room: it is smaller than the buffers of its connection, and must be given when
/// long answers that nobody reads have taken all the room.
pub const HELD_FREE_MAX: usize = 256;

/// Series of one metric about requests. All routes with all their answers are a few hundred; raw paths are as many as there are
/// serials, and what comes after this many is counted together.
pub const REQUEST_SERIES_MAX: usize = 5_000;

/// Longest path that is counted under its own name where raw paths are wanted: ours are shorter.
pub const RAW_PATH_BYTES_MAX: usize = 256;

/// Roles that are counted one by one. Sites have a dozen.
pub const ROLES_COUNTED_MAX: usize = 256;

/// Racks that are counted one by one: those of 100,000 machines in racks of 28, and some.
pub const RACKS_COUNTED_MAX: usize = 4_096;

/// How long a scrape waits for the store, and once more for the view to catch up, before it answers from what is known.
pub const SCRAPE_STORE_TIME_MAX: Duration = Duration::from_secs(1);

/// A piece of a scrape is sent when it is this long. With the machine that comes last it stays below the 128 KiB from which on the
/// allocator maps and unmaps every single one.
pub const SCRAPE_CHUNK_BYTES: usize = 96 * 1024;

/// Room in a piece for the lines of the machine that comes last.
pub const SCRAPE_CHUNK_SLACK_BYTES: usize = 8 * 1024;
