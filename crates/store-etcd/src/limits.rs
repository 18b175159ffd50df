//! Every bound of the etcd client, named, with its reason.

use std::time::Duration;

/// How long a call that certainly had no effect is tried again, member after member, until the caller is told. Longer than an
/// election (etcd's default timeout is 1 s, twice that after a split vote). With one request that hangs at its end it stays
/// below the five seconds in which every caller of the server is answered.
pub const FAILOVER_MAX: Duration = Duration::from_millis(2_500);

/// Pause after every member failed once, so that a dead cluster is not hammered.
pub const ROUND_PAUSE: Duration = Duration::from_millis(100);

/// Default for one dial: TCP, then TLS. Each is bounded by it on its own.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Default for one request to one member. A healthy etcd answers within milliseconds.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// etcd's default `--max-txn-ops`.
pub const TXN_OPS_MAX: usize = 128;

/// etcd's default `--max-request-bytes`.
pub const REQUEST_BYTES_MAX: usize = 1536 * 1024;

/// Most compares, and most writes, of one transaction, however they are nested. No request of etcd's default size holds as many.
pub const WIDE_TXN_OPS_MAX: usize = 50_000;

/// Operations of a wide transaction whose overhead is kept free of the bytes it may hold: those of one transaction of an import.
pub const USUAL_TXN_OPS: usize = 1_000;

/// How old the last acknowledged write may be for the cluster to count as writable without a try.
pub const WRITE_PROOF_AGE_MAX: Duration = Duration::from_secs(5);

/// Of each transaction, kept free for the head key.
pub const HEAD_OPS: usize = 1;

/// What one compare and one write may take on the wire beside key and value: tags, lengths, revision, lease.
pub const OVERHEAD_PER_OP: usize = 128;

/// etcd counts its own envelope (request id, user name) towards `--max-request-bytes`.
pub const ENVELOPE_BYTES: usize = 512;

/// Largest answer we accept, unless requests may be larger still. Pages that do not fit are asked for in halves.
pub const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// What etcd adds to `--max-request-bytes` when it cuts the events of a watch into messages, with room to spare.
pub const FRAGMENT_OVERHEAD: usize = 1024 * 1024;

/// How often an open connection with calls on it is probed. etcd ends connections that probe more often than every 5 s.
pub const PROBE_INTERVAL: Duration = Duration::from_secs(6);

/// How long a probe may stay unanswered. With the interval: after 10 s a watch leaves a member that vanished silently.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(4);

/// Pause of a watch after its first failed round; doubles from there.
pub const WATCH_PAUSE_MIN: Duration = Duration::from_millis(100);

/// Longest pause of a watch between two rounds.
pub const WATCH_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Bytes of answers in flight on one connection. Not for speed: the HTTP/2 library gives up a connection when small answers that
/// nobody has read yet exceed half of this, each counted as the 256 bytes it costs to keep. This is some twenty watches that
/// are not read at all, and thousands of calls beside them.
pub const CONNECTION_WINDOW: u32 = 16 * 1024 * 1024;

/// Bytes of answers in flight for one call or watch: how much of the above one watch can take when it is not read.
pub const STREAM_WINDOW: u32 = 256 * 1024;
