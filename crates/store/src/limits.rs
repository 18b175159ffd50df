//! Every bound of the store, named, with its reason.

use std::time::Duration;

/// How often a read-decide-write is tried. One lost race per server of the largest cluster we support (5), with room for a
/// burst of clients on one rack. More means a hot key; the caller is told.
pub const CAS_ATTEMPTS: usize = 32;

/// What the pause after a lost race grows by.
pub const CAS_PAUSE: Duration = Duration::from_millis(2);

/// The longest pause after a lost race: all attempts together stay below two seconds.
pub const CAS_PAUSE_MAX: Duration = Duration::from_millis(50);

/// Keys in one page of a range read: large enough that 100,000 machines take a hundred round trips, small enough that a page of
/// ordinary records stays near a megabyte.
pub const PAGE_KEYS: usize = 1_000;

/// Largest value. Below etcd's default request limit of 1.5 MiB, so that data can move between the two stores.
pub const VALUE_BYTES_MAX: usize = 1024 * 1024;

/// Most operations in one embedded transaction: a registration of 100,000 machines and what belongs to it.
pub const EMBEDDED_TXN_OPS_MAX: usize = 400_000;

/// Most bytes in one embedded transaction. It is held in memory once by the caller and once by the writer.
pub const EMBEDDED_TXN_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Requests that may wait for the writer thread. Past that, callers wait to enqueue.
pub const WRITER_QUEUE: usize = 1_024;

/// Operations that share one flush. Bounds how long the first of them waits for the last.
pub const GROUP_OPS_MAX: usize = 4_096;

/// Bytes of recent changes kept in memory for watchers; one that fell further behind reads them from the file.
pub const RECENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Changes a watcher takes at once when it reads history from the file.
pub const HISTORY_ROWS: usize = 2_000;

/// How often the writer looks for leases that ran out.
pub const LEASE_TICK: Duration = Duration::from_millis(200);

/// How long a read waits for the view to reach the present before it says so.
pub const VIEW_WAIT_MAX: Duration = Duration::from_secs(5);

/// Pause before the view tries again after its watch failed.
pub const VIEW_RETRY: Duration = Duration::from_millis(500);

/// Bytes of transactions that may wait for the writer thread together: one of the largest kind. Past that, callers wait to
/// enqueue, so that a burst of imports cannot take the memory of the machine.
pub const WRITER_QUEUE_BYTES_MAX: usize = EMBEDDED_TXN_BYTES_MAX;

/// Bytes of values in one page of a range read from the embedded store. The page ends early and says that more remains.
pub const PAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Connections that read the embedded file at the same time. Hot reads come from the view; these serve transactions that
/// re-read a few keys, starting servers and watchers that fell behind.
pub const READERS: usize = 4;

/// Page cache of the writing connection: holds the upper levels of the key index of some 100,000 machines.
pub const WRITER_CACHE_KIB: i64 = 16 * 1024;

/// Page cache of each reading connection.
pub const READER_CACHE_KIB: i64 = 2 * 1024;

/// Pages in the write-ahead log before they are copied into the main file, which holds up commits for some 40 ms: 64 MiB, so
/// that this is rare and a page changed many times is copied once, and opening after a crash still reads little.
pub const WAL_PAGES_MAX: i64 = 16_384;

/// Bytes the write-ahead log keeps after a burst; it is reused from the start, so a larger one would only occupy the disk.
pub const WAL_BYTES_KEPT: i64 = 64 * 1024 * 1024;

/// How long SQLite waits for somebody else's lock on the file, for example an operator's `sqlite3`.
pub const BUSY_WAIT: Duration = Duration::from_secs(5);

/// How long closing waits for readers before it leaves the write-ahead log to the next start.
pub const CLOSE_WAIT: Duration = Duration::from_millis(500);

/// Rows one step of compaction looks at. A step holds up commits for a few milliseconds.
pub const SWEEP_ROWS: usize = 256;

/// How many times as long as it took a step of compaction leaves the writer alone after it.
pub const SWEEP_PAUSE_FACTOR: u32 = 2;

/// Pause before compaction goes on after a step failed, for example on a full disk.
pub const SWEEP_RETRY: Duration = Duration::from_secs(1);

/// How old the last durable change may be for the store to count as writable without a try. A monitor that asks every few seconds
/// then costs one flush in so many, and none while there are changes.
pub const WRITE_PROOF_AGE_MAX: Duration = Duration::from_secs(5);

/// How often the writer tries by itself whether a file that could not be written can be written again.
pub const WRITE_RETRY: Duration = Duration::from_secs(1);

/// Live leases of the embedded store. One per server and worker; many more means that somebody forgets to end them.
pub const LEASES_MAX: usize = 10_000;

/// Largest data file whose pages are all looked at before a server starts on it: some 50 ms from memory. A larger one is looked at
/// right after the start, so that a server with 100,000 machines still starts within a second.
pub const START_CHECK_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// How long the look for damage in the background works at a time, and how long it then leaves processor and disk to others.
pub const INSPECTION_WORK: Duration = Duration::from_millis(5);

/// See `INSPECTION_WORK`: a quarter of one processor at most.
pub const INSPECTION_PAUSE: Duration = Duration::from_millis(15);

/// Steps of SQLite between two looks at the clock while it looks for damage: some 10 µs.
pub const INSPECTION_STEPS: i32 = 200;

/// Rows of which the look for damage verifies the checksum in one read transaction, so that none is open for long.
pub const INSPECTION_ROWS: usize = 500;

/// How long one look for damage may take. It reads 100 MB in a few seconds; while it looks at the structure the write-ahead log cannot be
/// emptied.
pub const INSPECTION_TIME_MAX: Duration = Duration::from_secs(600);

/// Unreadable places of the table that are jumped over when the rest is saved. More, and nothing is left that is worth it.
pub const SALVAGE_JUMPS_MAX: usize = 10_000;

/// Problems `store check` lists before it only counts.
pub const CHECK_PROBLEMS_MAX: usize = 100;

/// Keys one transaction of an import writes, where the store accepts that many.
pub const IMPORT_TXN_OPS: usize = 1_000;

/// Bytes one transaction of an import aims at, where the store accepts that many. One key larger than this gets its own.
pub const IMPORT_TXN_BYTES: usize = 4 * 1024 * 1024;

/// Longest line of an export file. JSON makes at most six bytes of one, and a key stands beside the value.
pub const EXPORT_LINE_BYTES_MAX: usize = 7 * VALUE_BYTES_MAX;

/// Machines a feed remembers as it saw them last, about 1.5 KB each. More change so rarely that reading them costs little.
pub const FEED_SEEN_MAX: usize = 256;

/// Longest detail of an audit entry. An entry stays a value the store takes, whatever the change was.
pub const AUDIT_DETAIL_BYTES_MAX: usize = 512 * 1024;

/// Rows of a node's history that are kept, as the service whose API we speak keeps.
pub const NODE_HISTORY_ROWS: usize = 300;

/// Rows of its history a node keeps when it is renamed: all of them are written in one transaction, and etcd takes 128 writes.
pub const RENAME_HISTORY_ROWS: usize = 100;

/// Nodes of a cluster's configuration under one key: about 1 KB each, far below the largest value.
pub const NODES_IN_PART: usize = 250;

/// Plans of the cluster that are kept.
pub const PLANS_KEPT: u64 = 1_000;

/// Bytes of one plan that is kept. The first plan of a large cluster has thousands of choices; what does not fit is left out.
pub const PLAN_BYTES_MAX: usize = VALUE_BYTES_MAX / 2;

/// What is kept of one plan if it fits.
pub const PLAN_ROOM: sabakan_domain::cluster::history::Room =
    sabakan_domain::cluster::history::Room { selections: 2_000, changes: 4_000, warnings: 200 };

/// Entries of the repair queue and of the reboot queue. More is a mistake: nobody repairs so many machines at once.
pub const QUEUE_ENTRIES_MAX: usize = 10_000;

/// Nodes that come into the reboot queue at once: etcd takes 128 writes in one transaction.
pub const REBOOTS_AT_ONCE: usize = 100;

/// Entries of a queue that are changed in one transaction, two writes for each, and etcd takes 128.
pub const CHANGED_AT_ONCE: usize = 50;

/// Incidents that are forgotten in one transaction. One is opened, one goes.
pub const FORGOTTEN_AT_ONCE: usize = 10;

/// Incidents that one transaction compares beside the rest it compares: etcd takes 128. So many at once are no longer told apart.
pub const INCIDENTS_COMPARED: usize = 64;

/// Incidents that are kept after they are over.
pub const INCIDENTS_KEPT: usize = 1_000;
