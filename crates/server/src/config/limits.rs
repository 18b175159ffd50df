//! Every bound of the configuration, named, with its reason.

use std::time::Duration;

/// Largest file we read as configuration, certificate or key. A hundred times the longest sensible one; it keeps a wrong path,
/// say to a disk image, from filling the memory.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Longest password in bytes.
pub const PASSWORD_BYTES_MAX: usize = 1024;

/// Longest wait for etcd. Whoever waits longer wants to find out why, not to wait.
pub const ETCD_TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// Fewest operations of one transaction. A change is its record, its published copy and its audit entry, each with a compare.
pub const ETCD_TXN_OPS_MIN: u64 = 16;

/// Most operations of one transaction. etcd itself becomes unusable long before.
pub const ETCD_TXN_OPS_MAX: u64 = 100_000;

/// Smallest request etcd may be limited to: one record with all its labels must fit.
pub const ETCD_REQUEST_BYTES_MIN: u64 = 256 * 1024;

/// Largest request. etcd's own protocol ends here.
pub const ETCD_REQUEST_BYTES_MAX: u64 = 512 * 1024 * 1024;

/// Longest name of a server: a host name with room for more.
pub const NAME_BYTES_MAX: usize = 128;

/// How often power states may be read. Faster, and BMCs do little else; slower, and nobody would call it watching.
pub const POWER_SYNC: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(24 * 60 * 60));

/// How long a server's work may stay with it after its death. Shorter, and a slow store looks like a death; longer, and machines
/// stand still for no reason.
pub const WORK_LEASE: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(300));

/// Most nodes worked on at once: more than the largest fleet we measure.
pub const CONCURRENCY_MAX: u64 = 10_000;

/// Highest priority of a step.
pub const PRIORITY_MAX: u32 = 1_000_000;

/// How often the cluster may be planned when nothing changes. Faster, and servers do little else; slower, and machines that retired
/// stay in it for no reason.
pub const CLUSTER_PERIOD: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60 * 60));

/// How often repair may look when nothing changes. Slower, and what it decides with is old.
pub const REPAIR_PERIOD: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10 * 60));

/// How long a change of the cluster may be left to take effect.
pub const CLUSTER_SETTLE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_secs(60 * 60));

/// How long another registry may take to answer: less than a request that waits for it.
pub const CLUSTER_REGISTRY_TIMEOUT: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(25));

/// Largest share of one address: more than a server ever accepts, which turns the share off.
pub const CONNECTIONS_PER_ADDRESS_MAX: u64 = 1_000_000;
