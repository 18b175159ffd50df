//! Every bound of the server, named, with its reason.

use std::time::Duration;

/// Connections at once, over all listeners. Past that, new ones wait in the kernel's queue.
pub const CONNECTIONS_MAX: usize = 4_096;

/// How long a client may take to send its request headers, or stay silent between requests.
pub const HEADER_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a TLS handshake may take.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may pause while sending a body. Not the whole body: slow links are fine, silence is not.
pub const BODY_PAUSE_MAX: Duration = Duration::from_secs(30);

/// How long a client may take nothing of an answer. Slow links are fine, a client that does not read is not.
pub const WRITE_STALL_MAX: Duration = Duration::from_secs(30);

/// Bytes of request bodies held at once, over all connections. Past that, large requests wait for each other.
pub const BODIES_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A body larger than this is decoded away from the threads that serve connections.
pub const DECODE_INLINE_MAX: usize = 256 * 1024;

/// How long the work for one request may take once its body is here.
pub const WORK_TIME_MAX: Duration = Duration::from_secs(30);

/// How long requests under way may go on after the server was told to stop.
pub const DRAIN_TIME_MAX: Duration = Duration::from_secs(30);

/// Body of a configuration: a hundred times the largest sensible one.
pub const CONFIG_BYTES_MAX: usize = 64 * 1024;

/// Body of a registration: about 100,000 machines.
pub const MACHINES_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Longest request id taken over from a caller. Longer ones are replaced.
pub const REQUEST_ID_BYTES_MAX: usize = 128;

/// Machines serialised at once while a list is sent: about 100 KB.
pub const MACHINES_PER_CHUNK: usize = 64;

/// How long `/health` waits for the store.
pub const HEALTH_TIME_MAX: Duration = Duration::from_secs(1);
