//! Every bound of the server, named, with its reason.

use std::time::Duration;

/// Connections at once, over all listeners. Past that, new ones wait in the kernel's queue.
pub const CONNECTIONS_MAX: usize = 4_096;

/// How long a client may take to send its request headers, or stay silent between requests.
pub const HEADER_TIME_MAX: Duration = Duration::from_secs(30);

/// How long a TLS handshake may take.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// How often the files of the certificate are looked at. A new one is wanted days before the old one ends; SIGHUP is for the impatient.
pub const CERTIFICATE_LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long a client may pause while sending a body. Not the whole body: slow links are fine, silence is not.
pub const BODY_PAUSE_MAX: Duration = Duration::from_secs(30);

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

/// Body that names a state: several times the longest word.
pub const STATE_BYTES_MAX: usize = 128;

/// Body that is the value of a label. Values are shorter; this is where reading ends.
pub const LABEL_VALUE_BYTES_MAX: usize = 1_024;

/// Body that is a date, white space included.
pub const RETIRE_DATE_BYTES_MAX: usize = 1_024;

/// Body of a GraphQL request: the longest query allowed, and variables with the most values allowed.
pub const GRAPHQL_BYTES_MAX: usize = 256 * 1024;

/// Bytes of a GraphQL answer that are sent at once. Smaller answers have a length.
pub const GRAPHQL_CHUNK_BYTES: usize = 32 * 1024;

/// Longest request id taken over from a caller. Longer ones are replaced.
pub const REQUEST_ID_BYTES_MAX: usize = 128;

/// Longest URL in the access log. Ours are shorter; a GraphQL query in a URL may be as long as all headers together.
pub const LOGGED_URL_BYTES_MAX: usize = 2_048;

/// Longest name a caller may give itself. Longer ones count as none.
pub const USER_BYTES_MAX: usize = 255;

/// Machines serialised at once while a list is sent: about 100 KB.
pub const MACHINES_PER_CHUNK: usize = 64;

/// How long `/health` waits for the store.
pub const HEALTH_TIME_MAX: Duration = Duration::from_secs(1);

/// Event feeds at once. Each holds a watch on the store and, while it catches up, some megabytes.
pub const FEEDS_MAX: usize = 256;

/// How long an event feed may be silent. Below the 30 to 60 seconds after which proxies and firewalls give up on a connection.
pub const FEED_SILENCE_MAX: Duration = Duration::from_secs(15);

/// How long the reader of an event feed may take nothing.
pub const FEED_STALL_MAX: Duration = Duration::from_secs(30);

/// How long a client may take nothing of an answer before its connection is closed. Longer than [`FEED_STALL_MAX`], so that a
/// feed can still tell its reader why it ends.
pub const WRITE_PAUSE_MAX: Duration = Duration::from_secs(60);

/// The same once the server was told to stop: nobody waits for a reader that is not there.
pub const WRITE_PAUSE_STOPPING: Duration = Duration::from_secs(1);

/// Scrapes of `/metrics` that are collected at once: two Prometheus servers, a person, and one that is late.
pub const SCRAPES_MAX: usize = 4;

/// Answers to scrapes that are not read to their end. Each holds the figures by rack, up to a megabyte.
pub const SCRAPES_UNREAD_MAX: usize = 32;

/// How long one scrape may take, the sending included. Prometheus gives up after ten seconds as well.
pub const SCRAPE_TIME_MAX: Duration = Duration::from_secs(10);

/// Body of a request of the provisioning API, as the service whose API we speak takes.
pub const NODE_BYTES_MAX: usize = 1024 * 1024;

/// Body of a verb of the provisioning API. It may hold a configuration drive, which is stored with its node, and no store takes a
/// larger value.
pub const PROVISION_BYTES_MAX: usize = 1536 * 1024;

/// Body of a cluster template: more than a value of the store holds.
pub const TEMPLATE_BYTES_MAX: usize = 1024 * 1024;

/// Body of a cluster configuration: about 100,000 nodes.
pub const CONFIGURATION_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Values in a YAML document: a configuration has about fifty for each node.
pub const YAML_VALUES_MAX: usize = 5_000_000;

/// Aliases in a YAML document.
pub const YAML_ALIASES_MAX: usize = 1_000;

/// Body of the variables of a query, or of constraints.
pub const VARIABLES_BYTES_MAX: usize = 256 * 1024;

/// Body about one repair, an incident, or settings: a few names and a sentence.
pub const REPAIR_BYTES_MAX: usize = 16 * 1024;

/// Body that names nodes to reboot: more than the queue takes.
pub const REBOOTS_BYTES_MAX: usize = 256 * 1024;

/// Broken machines named in one answer, unless the request says otherwise, and at most. All are counted.
pub const BROKEN_LISTED: (usize, usize) = (1_000, 100_000);

/// Plans made for callers at once. For many machines each takes seconds of a core.
pub const PLANS_MAX: usize = 2;

/// Rounds that are planned ahead in one request, unless it says otherwise, and at most.
pub const ROUNDS: (usize, usize) = (10, 200);

/// Plans in one answer, unless the request says otherwise, and at most.
pub const PLANS_LISTED: (usize, usize) = (20, 1_000);

/// Lines of the difference between two configurations that are shown. A new cluster has thousands of nodes.
pub const DIFF_LINES_MAX: usize = 5_000;

/// Lines shown around a line that changed.
pub const DIFF_CONTEXT: usize = 3;

/// Comparisons of lines for one node or for the settings. More, and everything counts as changed.
pub const DIFF_WORK_MAX: usize = 4_000_000;

/// Values in one body of the provisioning API. Each takes up to a hundred times the room of its text, and bodies of ramdisks are large
/// and come from anybody. Real ones have some ten thousand.
pub const JSON_VALUES_MAX: usize = 100_000;

/// Body of what a ramdisk found in its machine. With the log of its boot it has some megabytes.
pub const INSPECTION_BYTES_MAX: usize = 16 << 20;
