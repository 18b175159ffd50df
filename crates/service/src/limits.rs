//! Every bound of the services, named, with its reason.

use std::time::Duration;

use jiff::SignedDuration;

/// How long a registration waits for those before it. Longer than a healthy store takes for a hundred of them, and short enough
/// that its caller is answered within five seconds when the store stops answering meanwhile.
pub const TURN_WAIT_MAX: Duration = Duration::from_secs(2);

/// How often the history of the embedded store is looked at.
pub const COMPACTION_TICK: Duration = Duration::from_secs(5 * 60);

/// How often the whole file of the embedded store is looked at for damage, after the look that follows each start. It reads everything,
/// and disks rot slowly.
pub const INSPECTION_EVERY: Duration = Duration::from_secs(24 * 3_600);

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

/// How long a power change may take by default.
pub const POWER_MAX: SignedDuration = SignedDuration::from_secs(60);

/// How long an operating system may take to shut down by default.
pub const SOFT_POWER_MAX: SignedDuration = SignedDuration::from_secs(600);

/// Nodes with work at once, queued or not. The fleets this program is made for are smaller; beyond it callers are told to wait.
pub const WORK_QUEUE_MAX: usize = 200_000;

/// How long the nodes of a server that died stay its own.
pub const WORK_LEASE: Duration = Duration::from_secs(15);

/// The least pause between two looks for work: a burst of changes is looked at once.
pub const CONDUCTOR_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause between two looks: how late a deadline may be noticed.
pub const CONDUCTOR_TICK: Duration = Duration::from_secs(1);

/// The pause after a store refused a lease.
pub const CONDUCTOR_RETRY: Duration = Duration::from_secs(2);

/// The longest pause between two looks for allocations that want a node. A change wakes whoever looks; this is for wishes that were
/// looked at while the store did not answer.
pub const ALLOCATOR_TICK: Duration = Duration::from_secs(5);

/// Nodes tried for one allocation before it is looked at again with what others did meanwhile.
pub const ALLOCATION_TRIES: usize = 16;

/// How long a server that stops waits for its workers to reach the end of their steps. Longer steps are taken up by another server
/// or after the restart.
pub const WORKER_STOP_MAX: Duration = Duration::from_secs(10);

/// How long one step of a worker may take. Longer work is a task that is waited for.
pub const STEP_MAX: Duration = Duration::from_secs(10 * 60);

/// How long a power change within a step may take.
pub const STEP_POWER_MAX: Duration = Duration::from_secs(120);

/// How long a call to a controller may take where nobody waits for it.
pub const BMC_CALL_MAX: Duration = Duration::from_secs(60);

/// Steps one worker runs before it lets go of a node: more than any list has.
pub const STEPS_PER_TURN: usize = 1_000;

/// How often a task that runs by itself is asked for.
pub const TASK_POLL_EVERY: Duration = Duration::from_secs(10);

/// Tasks asked for at once.
pub const POLLS_AT_ONCE: usize = 64;

/// How often the power state of each machine is read.
pub const POWER_SYNC_EVERY: Duration = Duration::from_secs(120);

/// How often it is looked whose turn it is.
pub const POWER_SYNC_TICK: Duration = Duration::from_secs(1);

/// How long one reading may take. Shorter than a call somebody waits for: those that hang take the place of those that answer.
pub const POWER_READ_MAX: Duration = Duration::from_secs(15);

/// Power states read at once.
pub const POWER_READS_AT_ONCE: usize = 32;

/// Series of one metric about requests. All routes with all their answers are a few hundred; raw paths are as many as there are
/// serials, and what comes after this many is counted together.
pub const REQUEST_SERIES_MAX: usize = 5_000;

/// Longest path that is counted under its own name where raw paths are wanted: ours are shorter.
pub const RAW_PATH_BYTES_MAX: usize = 256;

/// Roles that are counted one by one. Sites have a dozen.
pub const ROLES_COUNTED_MAX: usize = 256;

/// Racks that are counted one by one: those of 100,000 machines in racks of 28, and some.
pub const RACKS_COUNTED_MAX: usize = 4_096;

/// How long one part of the health may take to say how it is. Monitors ask often and wait little.
pub const HEALTH_TIME_MAX: Duration = Duration::from_secs(1);

/// How long a scrape waits for the store, and once more for the view to catch up, before it answers from what is known.
pub const SCRAPE_STORE_TIME_MAX: Duration = Duration::from_secs(1);

/// A piece of a scrape is sent when it is this long. With the machine that comes last it stays below the 128 KiB from which on the
/// allocator maps and unmaps every single one.
pub const SCRAPE_CHUNK_BYTES: usize = 96 * 1024;

/// Room in a piece for the lines of the machine that comes last.
pub const SCRAPE_CHUNK_SLACK_BYTES: usize = 8 * 1024;

/// How long a call to a controller may take while a caller waits for the answer: less than a request may take.
pub const BMC_REQUEST_MAX: Duration = Duration::from_secs(25);

/// How long the lead of a task outlives its server.
pub const LEAD_LEASE: Duration = Duration::from_secs(15);

/// The pause after the store did not say who leads.
pub const LEADER_RETRY: Duration = Duration::from_secs(2);

/// The least pause between two looks at who leads. Each is a transaction, and in a busy registry something always moves.
pub const LEADER_PAUSE: Duration = Duration::from_secs(1);

/// The longest pause between two looks at who leads, should a change go unnoticed.
pub const LEADER_TICK: Duration = Duration::from_secs(5);

/// How often the cluster is planned when nothing changes: time alone lets machines retire.
pub const PLAN_PERIOD: Duration = Duration::from_secs(60);

/// How long a change of the cluster is left to take effect before the next.
pub const PLAN_SETTLE: Duration = Duration::from_secs(60);

/// The least pause between two plans. A burst of changes is planned once.
pub const PLAN_PAUSE: Duration = Duration::from_millis(500);

/// The least pause after a round that failed, whatever moves meanwhile: what the store refuses it refuses again, and each is a line
/// of the log.
pub const PLAN_RETRY: Duration = Duration::from_secs(5);

/// How long another registry may take to list its machines.
pub const REGISTRY_TIME_MAX: Duration = Duration::from_secs(30);

/// Plans that are read at once. Each may have half a megabyte.
pub const PLANS_AT_ONCE: usize = 20;

/// Plans that are searched for what was done with one machine.
pub const PLANS_SEARCHED_MAX: usize = 200;

/// How often Nodes in Kubernetes are looked at when the configuration does not change: others change them too.
pub const APPLY_PERIOD: Duration = Duration::from_secs(60);

/// The least pause between two looks at what to apply because a Node changed. Another program that wants something else on the same
/// Node is not outrun, it is found out.
pub const APPLY_NODES_PAUSE: Duration = Duration::from_secs(5);

/// How long a watch of Nodes may be silent. Kubernetes says every minute that nothing happened.
pub const WATCH_SILENCE_MAX: Duration = Duration::from_secs(90);

/// The pause before Nodes are listed or watched anew; it doubles up to the longest while Kubernetes does not answer.
pub const WATCH_PAUSE: Duration = Duration::from_millis(250);

/// The longest such pause.
pub const WATCH_PAUSE_MAX: Duration = Duration::from_secs(10);

/// How often Nodes are listed where they may not be watched.
pub const NODES_EVERY: Duration = Duration::from_secs(10);

/// How long Kubernetes may take to list leases, while everything else of repair waits.
pub const LEASES_TIME_MAX: Duration = Duration::from_secs(5);

/// How old leases of kubelets may be. They are renewed every ten seconds.
pub const LEASES_EVERY: Duration = Duration::from_secs(10);

/// The least pause between two looks at what to apply. A burst of changes is looked at once.
pub const APPLY_PAUSE: Duration = Duration::from_millis(500);

/// The first pause after applying did not work; it doubles up to the period.
pub const APPLY_RETRY: Duration = Duration::from_secs(5);

/// Nodes that are changed at once. An API server has other work, and a cluster is not changed often.
pub const APPLIED_AT_ONCE: usize = 8;

/// Steps on one Node: three bring any Node where it shall be, and somebody may change it once meanwhile.
pub const APPLY_STEPS_MAX: usize = 6;

/// How often a change of taints is tried when somebody else writes to the same Node meanwhile. A kubelet writes every few minutes.
pub const APPLY_ATTEMPTS: usize = 5;

/// Nodes that are named, with a reason, where applying did not work. The others are counted.
pub const NODES_NAMED_MAX: usize = 100;

/// What is kept of an inspection by an agent: one value of the store, which takes a megabyte and a half at once. Real ones have some
/// tens of kilobytes.
pub const INSPECTION_STORED_BYTES_MAX: usize = 1 << 20;

/// Interfaces an agent may find. Machines with many virtual ones have some hundreds.
pub const INSPECTED_INTERFACES_MAX: usize = 1_000;

/// How often broken machines and both queues are looked at when nothing changes, and how often a machine is asked whether it is healthy.
pub const REPAIR_PERIOD: Duration = Duration::from_secs(15);

/// The least pause between two cycles of repair. A burst of changes is looked at once.
pub const REPAIR_PAUSE: Duration = Duration::from_millis(500);

/// The pause after a cycle that failed.
pub const REPAIR_RETRY: Duration = Duration::from_secs(5);

/// What somebody who acknowledges an incident may say.
pub const ACKNOWLEDGE_CHARS_MAX: usize = 500;

/// A command that may take as long as it likes may take a day: no repair is worth more, and nobody would notice one that hangs.
pub const COMMAND_TIME_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A built-in action that may take as long as it likes. Controllers take minutes at worst.
pub const ACTION_TIME_MAX: Duration = Duration::from_secs(600);

/// The least pause between two tries of something that fails.
pub const TRIES_PAUSE_MIN: Duration = Duration::from_secs(1);

/// How much later than its deadline a power change may be told to have failed.
pub const POWER_ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long Kubernetes may take to tell about all nodes that are looked after, while everything else of repair waits.
pub const NODES_READ_MAX: Duration = Duration::from_secs(20);

/// Nodes that are given back to the scheduler in one cycle.
pub const UNCORDONED_AT_ONCE: usize = 16;
