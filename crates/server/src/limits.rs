//! Every bound of the server, named, with its reason.

use std::time::Duration;

/// Connections at once, over all listeners, however many files the process may open: with TLS each takes some ten kilobytes.
pub const CONNECTIONS_MAX: u64 = 8_192;

/// Files that are kept for everything but connections of clients: the store and its watches, the key file, the log, calls of BMCs and
/// of Kubernetes, and connections on their way out. Never more than half of what the process may open.
pub const FILES_KEPT: u64 = 1_024;

/// One of so many connections is kept for this machine and for addresses from which changes are accepted.
pub const CONNECTIONS_RESERVE: u64 = 8;

/// Connections of one address, unless the operator says otherwise. Never more than a quarter of all.
pub const CONNECTIONS_PER_ADDRESS: u64 = 256;

/// Connections that were closed to make room and are not gone yet. Past that nobody else is closed for a newcomer.
pub const CONNECTIONS_LEAVING_MAX: usize = 64;

/// How long a connection without a request is kept. Clients that poll come back every minute or two, and a client that is told to
/// keep its connection for less than this never finds it closed.
pub const IDLE_TIME_MAX: Duration = Duration::from_secs(190);

/// How much sooner clients are told to let go of an idle connection than it is closed: a request may be on its way by then.
pub const IDLE_TIME_SLACK: Duration = Duration::from_secs(10);

/// How long a connection that is to close may stay once no request is under way and nothing is taken of the last answer.
pub const LEAVE_TIME_MAX: Duration = Duration::from_secs(1);

/// The same if something is still taken: the end of an answer on a slow link, or pings of somebody who does not want to go.
pub const FAREWELL_TIME_MAX: Duration = Duration::from_secs(5);

/// How often refused connections are logged. The metric counts each.
pub const REFUSALS_LOG_EVERY: Duration = Duration::from_secs(60);

/// How long a client may take to send its request headers, from their first byte.
pub const HEADER_TIME_MAX: Duration = Duration::from_secs(30);

/// How often an HTTP/2 client is asked whether it is still there.
pub const PING_EVERY: Duration = Duration::from_secs(30);

/// How long a TLS handshake may take, or the answer to a ping.
pub const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// How often the files of the certificate are looked at. A new one is wanted days before the old one ends; SIGHUP is for the impatient.
pub const CERTIFICATE_LOOK_EVERY: Duration = Duration::from_secs(5);

/// How long a client may pause while sending a body. Not the whole body: slow links are fine, silence is not.
pub const BODY_PAUSE_MAX: Duration = Duration::from_secs(30);

/// How long a body may come as slowly as it likes. Most are one packet, and a lost one is sent again within seconds.
pub const BODY_GRACE: Duration = Duration::from_secs(20);

/// How fast a body must come on average after that: an eighth of a modem.
pub const BODY_BYTES_PER_SECOND_MIN: u64 = 1_024;

/// Bytes of request bodies held at once, over all connections. How it is shared out stands in `http::metered`; past a share, senders
/// are told to try again.
pub const BODIES_BYTES_MAX: u64 = 256 << 20;

/// In what steps room is taken for a body that is coming. Two hundred slow ones take thirteen megabytes.
pub const BODY_STEP_BYTES: u64 = 64 * 1024;

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

/// Event feeds at once. Each holds a watch on the store and, while it catches up, some megabytes.
pub const FEEDS_MAX: usize = 256;

/// One of so many feeds is kept for operators, and as many for callers with a token. One address without a token has half of that.
pub const FEEDS_RESERVE: usize = 8;

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

/// Body of a cluster configuration: about 25,000 nodes with their labels, five times what Kubernetes supports.
pub const CONFIGURATION_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Values in a cluster document in JSON: fifty for each of its nodes. Each takes up to a hundred bytes, whatever its text takes.
pub const DOCUMENT_VALUES_MAX: usize = 1_500_000;

/// A text of YAML: about 5,000 nodes with their labels. It is read at some megabytes a second, so that this also bounds the time; what
/// is larger was written by a program, which can write JSON.
pub const YAML_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Values in a YAML document: a configuration has about fifty for each node.
pub const YAML_VALUES_MAX: usize = 500_000;

/// Levels of a YAML document. Ours have ten; JSON has at most 128.
pub const YAML_DEPTH_MAX: usize = 64;

/// Aliases, anchors and merge keys in a YAML document, of each. They are for people, who write few.
pub const YAML_ALIASES_MAX: usize = 1_000;

/// What all aliases of a YAML document stand for together, in values. This is what makes a small text a large document.
pub const YAML_REPLAYED_MAX: usize = 50_000;

/// Cluster documents that are read at once. Each takes a core for up to some seconds, and memory of several times its size.
pub const DOCUMENTS_MAX: usize = 2;

/// How long a cluster document waits for its turn. Past that its sender is told to try again.
pub const DOCUMENT_WAIT_MAX: Duration = Duration::from_secs(5);

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
