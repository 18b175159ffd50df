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
