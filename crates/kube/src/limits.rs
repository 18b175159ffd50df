//! Every bound of talking to Kubernetes, named, with its reason.

use std::time::Duration;

/// How long a connection may take.
pub const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long one request may take. An API server answers in milliseconds, and in seconds when it has just started.
pub const CALL_MAX: Duration = Duration::from_secs(15);

/// How long reading a list may take. Ten thousand Nodes are twenty pages.
pub const LIST_MAX: Duration = Duration::from_secs(60);

/// Objects of one page, as many as other tools ask for.
pub const PAGE_ITEMS: u32 = 500;

/// How often a list begins anew because the API server has forgotten the moment it began at. It remembers five minutes.
pub const LIST_ATTEMPTS: usize = 2;

/// Bytes of one answer. A page of Nodes that each list fifty images is 20 MB.
pub const ANSWER_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Nodes we look at. Kubernetes itself is made for five thousand.
pub const NODES_MAX: usize = 100_000;

/// Leases of kubelets we look at, one for each Node.
pub const LEASES_MAX: usize = NODES_MAX;

/// How long one watch lasts before another goes on where it ended. The API server ends them after five to ten minutes by itself.
pub const WATCH_SECONDS: u32 = 240;

/// Bytes of one event of a watch. A Node that lists fifty images is 40 KB; the API server takes no object above 3 MB.
pub const EVENT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Pods of one Node. A kubelet takes 110 unless told otherwise; finished ones that nobody removed come on top.
pub const NODE_PODS_MAX: usize = 20_000;

/// Namespaces we look at. Kubernetes itself is made for ten thousand.
pub const NAMESPACES_MAX: usize = 100_000;

/// Characters of an answer that an error repeats. Some refusals list every field of the object.
pub const REASON_CHARS_MAX: usize = 500;
