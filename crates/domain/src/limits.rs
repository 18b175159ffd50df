//! Every bound of the rules, named, with its reason.

/// Longest serial in bytes. SMBIOS strings are at most 64 in practice; store keys and URLs must stay reasonable.
pub const SERIAL_BYTES_MAX: usize = 255;

/// Longest role, label name and label value: Kubernetes' limit for label values.
pub const WORD_BYTES_MAX: usize = 63;

/// Longest BMC type in bytes. The pattern alone has no bound.
pub const BMC_TYPE_BYTES_MAX: usize = 255;

/// Most labels of one machine. Keeps one record far below the largest value the store takes.
pub const LABELS_MAX: usize = 256;

/// Characters of one remark about a value that was taken over. The value itself has no bound but that of a record.
pub const TAKEOVER_REMARK_CHARS_MAX: usize = 200;

/// Most addresses of one machine. A rack switch has no more ports for one server, and every address costs index memory.
pub const IP_PER_NODE_MAX: u32 = 64;

/// Most values of one search condition. More is a list that belongs into the caller's own program.
pub const QUERY_VALUES_MAX: usize = 10_000;

/// Labels in one condition of a search. Four times what a machine can have; each takes longer to look up than a number.
pub const QUERY_LABELS_MAX: usize = 1_000;

/// Most DNS servers in one DHCP answer: option 6 holds 63 addresses.
pub const DNS_SERVERS_MAX: usize = 63;

/// Longest DHCP lease, in minutes: its seconds have 32 bits in an answer. Longer ones may have been stored by an older service.
pub const LEASE_MINUTES_MAX: u32 = u32::MAX / 60;

/// Longest name of a disk in bytes: one segment of a URL and of a key.
pub const DISK_PATH_BYTES_MAX: usize = 255;

/// Most disk keys of one machine: more disks than a server holds. A machine asks for keys without showing who it is, so that
/// somebody has to count.
pub const DISK_KEYS_MAX: usize = 256;

/// Longest disk key in bytes. The shares in use have 64; the limit is that of the API.
pub const DISK_KEY_BYTES_MAX: usize = 4096;

/// Steps in one request. A cleaning of an unusual machine has a dozen; a hundred leaves room for per-disk steps.
pub const STEPS_MAX: usize = 100;

/// How often a step that may be repeated is begun before it counts as failed: a lost worker is rare, three in a row are the step's
/// doing.
pub const STEP_ATTEMPTS: u32 = 3;

/// Hops of one node in one transaction: an outcome, the end of the work, and the beginning of the next.
pub const HOPS_AT_ONCE: usize = 8;

/// Times a controller may be silent before it counts as such.
pub const POWER_TRIES: u32 = 3;

/// How far the pause between readings of a silent controller grows: to this many periods and one.
pub const POWER_BACKOFF_STEPS: u32 = 5;

/// How long clearing up after a failure may take before it is given up.
pub const CLEAR_UP_MAX: std::time::Duration = std::time::Duration::from_secs(10 * 60);

/// How long after its last call a silent ramdisk that had something to do is asked again before its machine loses its power. Longer than
/// a network that is being repaired by itself takes, and several calls of a ramdisk.
pub const SILENT_RAMDISK_MAX: std::time::Duration = std::time::Duration::from_secs(10 * 60);

/// A ramdisk calls every few seconds; its call is written down this often.
pub const HEARTBEAT_RECORD_EVERY: std::time::Duration = std::time::Duration::from_secs(60);

/// Bytes of an error text that is kept. Controllers answer with whole pages at times.
pub const ERROR_TEXT_BYTES_MAX: usize = 2_000;

/// Where an agent may be called back: scheme, address and port are shorter than this.
pub const CALLBACK_URL_BYTES_MAX: usize = 128;

/// Logical volumes somebody may want on one machine. Controllers take a few dozen.
pub const VOLUMES_MAX: usize = 256;

/// Traits of one node, as the service whose API we speak allows.
pub const TRAITS_MAX: usize = 50;

/// Nodes an allocation may name. A caller that knows more of them by name needs no matching.
pub const CANDIDATE_NODES_MAX: usize = 1_000;

/// Longest resource class of a node in bytes.
pub const RESOURCE_CLASS_BYTES_MAX: usize = 80;

/// Longest description of a node in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 4_096;

/// Longest other short text of a node, such as its owner, in bytes.
pub const NODE_TEXT_BYTES_MAX: usize = 255;

/// Machines shown behind the chosen one in the report of a plan. The runner-up answers most questions; a few more show the margin.
pub const RUNNERS_UP_SHOWN: usize = 3;

/// Names shown in a sentence before "and n more".
pub const NAMES_SHOWN: usize = 10;

/// Problems of one document that are told at once. More than a screen of them has one cause.
pub const PROBLEMS_SHOWN_MAX: usize = 100;

/// Longest pattern of host names in bytes: that of the longest name in Kubernetes, since a placeholder is hardly longer than its value.
pub const HOSTNAME_PATTERN_BYTES_MAX: usize = 253;

/// Characters of somebody's text that a problem repeats. Enough to recognise it; the rest is in their file.
pub const QUOTED_CHARS_MAX: usize = 80;

/// How deep free JSON in a cluster template may be. Kubernetes' own configuration files have about ten levels.
pub const TEMPLATE_DEPTH_MAX: usize = 32;

/// Node templates of one cluster template: one for every role. Every one is looked at whenever a worker is chosen.
pub const NODE_TEMPLATES_MAX: usize = 64;

/// Taints of one node template. Fewer than a node may have, so that the state of its machine always finds room.
pub const TEMPLATE_TAINTS_MAX: usize = 100;

/// Entries of any other list of a cluster template or configuration.
pub const TEMPLATE_ITEMS_MAX: usize = 1_000;

/// Nodes of one cluster configuration: ten times the largest registry that is measured.
pub const CLUSTER_NODES_MAX: usize = 1_000_000;

/// Names and values of the annotations of one node together, in bytes, as Kubernetes allows.
pub const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// Rounds that are planned ahead in one request.
pub const SIMULATED_ROUNDS_MAX: usize = 1_000;

/// Machines that are imagined to find out how many more would do. Whoever misses more has mistyped a constraint.
pub const REMEDY_MACHINES_MAX: usize = 1_000;

/// How many imagined machines are tried as control planes at once. Clusters have fewer.
pub const REMEDY_CONTROL_PLANES_MAX: usize = 16;

/// Ways out that are shown for a plan that is blocked. Each costs a plan to prove.
pub const REMEDIES_SHOWN: usize = 5;

/// How long a blocked plan stays the newest one of its kind, whatever numbers in its reason change. Six an hour leave room for a week.
pub const BLOCKED_NEWS_PAUSE: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);

/// Times over which failures are counted.
pub const REPAIR_WINDOWS_MAX: usize = 8;

/// Longest time of a setting of repair: a year.
pub const REPAIR_HOURS_MAX: u64 = 366 * 24;

/// Machines that come into the repair queue in one transaction; etcd takes 128 writes in one, and each has an entry in the audit log.
pub const ENQUEUED_AT_ONCE: usize = 32;

/// Incidents that are opened, and as many that are changed, in one transaction, which takes a megabyte and a half.
pub const INCIDENTS_AT_ONCE: usize = 2;

/// Machines that are kept by name with an incident, in bytes of their serials: four incidents are written in one transaction.
pub const INCIDENT_MEMBERS_BYTES_MAX: usize = 256 * 1024;

/// What an entry of the repair queue says about the last thing that was done.
pub const REPAIR_NOTE_CHARS_MAX: usize = 500;

/// Pods that are named to an operator where a node does not become empty. More are counted only.
pub const DRAIN_NAMED_PODS_MAX: usize = 5;

/// Characters of an image's name. It names a group of machines in messages, beside serials and labels.
pub const IMAGE_NAME_MAX: usize = 128;

/// Ports and port groups of one node, together. Servers have a dozen interfaces at most; forgetting a node gives back the address, the
/// name and the UUID of each in one transaction, and etcd takes 128 writes in one.
pub const NODE_PORTS_MAX: usize = 32;

/// Longest description of a port in bytes.
pub const PORT_DESCRIPTION_BYTES_MAX: usize = 255;

/// Longest name of who made a port, in bytes.
pub const PORT_VENDOR_BYTES_MAX: usize = 32;

/// Longest category of a port or a port group in bytes.
pub const PORT_CATEGORY_BYTES_MAX: usize = 80;

/// Longest name of a physical network in bytes.
pub const PHYSICAL_NETWORK_BYTES_MAX: usize = 64;

/// How often a command of a repair or a reboot that failed is run again. What fails a hundred times fails the next time too, and a person
/// should hear of it.
pub const COMMAND_RETRIES_MAX: u32 = 100;

/// Audit entries that always stay, however old: less than a megabyte, and enough to tell who did what last after every other guard
/// against a wrong clock has failed.
pub const AUDIT_ENTRIES_FLOOR: usize = 1_000;

/// How far the clock may be ahead of the audit log and still be believed. A site without a change for a day is ordinary; one that
/// was quiet for longer keeps its entries that much longer.
pub const AUDIT_CLOCK_LEAD: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);
