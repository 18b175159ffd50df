//! Every metric, on one page: name, kind, labels, help, and when it matters. The writers and the page of the documentation take
//! them from here.

/// How Prometheus treats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Goes up and down.
    Gauge,
    /// Goes up only, until a restart.
    Counter,
    /// Counts by size.
    Histogram,
}

impl Kind {
    /// The word of the format.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name, exactly as it is exposed.
    pub name: &'static str,
    /// How Prometheus treats it.
    pub kind: Kind,
    /// Its labels, in order.
    pub labels: &'static [&'static str],
    /// What it is, shown by Prometheus.
    pub help: &'static str,
    /// When to look at it and how to read it, for the page of the documentation.
    pub note: &'static str,
}

macro_rules! metrics {
    ($($constant:ident: $kind:ident $name:literal [$($label:literal),*] $help:literal, $note:literal;)*) => {
        $(pub(super) const $constant: Metric =
            Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help, note: $note };)*
        /// Every metric, in the order of the answer.
        pub const CATALOGUE: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    REQUESTS: Counter "sabakan_api_request_count" ["code", "path", "verb"] "The total count of API calls.",
        "`path` is the route, such as `/api/v1/machines/{serial}`, and `other` where there is none. `--metrics-raw-paths` makes it \
         the path that was asked for, as in the older service, up to a bound; those about disk keys and tokens stay routes.";
    DURATIONS: Histogram "sabakan_api_request_duration_seconds" ["path", "verb"] "Time from a request to the head of its answer.",
        "`path` is always the route. What is streamed behind the head is not in it.";
    ERRORS: Counter "sabakan_api_errors_total" ["kind"] "API calls that were refused or failed, by kind.",
        "The kinds of [errors](errors.md). `internal` is a defect or damaged data and should stay at 0.";
    CONNECTIONS: Gauge "sabakan_http_connections" [] "Open connections over all listeners.",
        "Near `sabakan_http_connections_max` idle ones are closed for new ones.";
    CONNECTIONS_MAX: Gauge "sabakan_http_connections_max" [] "Connections that may be open over all listeners.",
        "As many as the process may open files, less those kept for everything else; at most 8,192.";
    CONNECTIONS_SHED: Counter "sabakan_http_connections_shed_total" [] "Idle connections that were closed to make room for others.",
        "The oldest idle ones of whoever holds most. Grows: somebody holds many connections and uses few.";
    BODY_BYTES: Gauge "sabakan_http_body_bytes" [] "Bytes of request bodies that are held.",
        "What has arrived, of 256 MiB over all callers.";
    REFUSALS: Counter "sabakan_http_refusals_total" ["room", "reason"] "Connections, request bodies and event feeds that were refused for want of room.",
        "`room`: `connections`, `bodies`, `feeds`. `reason`: `address` (it holds its share), `class` (callers like it hold theirs), `full` \
         (what is left is kept for others), `slow` (a body below the least rate). See \
         [what a stranger can use up](../operations/strangers.md).";
    FEEDS: Gauge "sabakan_event_feeds" [] "Open event feeds.",
        "At 256 new ones are refused, of strangers long before.";
    STORE_UP: Gauge "sabakan_store_up" [] "Whether the store answered this scrape within a second and takes writes.",
        "0: requests fail, or are about to; `parts` of `/health` say why.";
    STORE_DAMAGED: Gauge "sabakan_store_damaged" [] "Whether the data file was found damaged.",
        "1: nothing is written any more, reads are answered from what is readable. Always 0 on etcd.";
    STORE_DURATIONS: Histogram "sabakan_store_request_duration_seconds" ["operation", "outcome"] "Time a request to the store took.",
        "`operation`: `txn`, `get`, `range`, `latest`, `watch` (opening one), `lease`, `compact`. `outcome`: `ok`, `conflict` (an \
         ordinary lost race), `unavailable`, `unknown` (a write without an answer), `refused` (too large, not well formed), \
         `compacted`, `corrupt`. A series exists once it has happened.";
    VIEW_REVISION: Gauge "sabakan_view_revision" [] "Revision of the store the memory shows.",
        "Grows with every change.";
    VIEW_LAG: Gauge "sabakan_view_lag_revisions" [] "Revisions of the store the memory has not seen yet.",
        "A few for a moment under load; reads wait for them.";
    VIEW_STUCK: Gauge "sabakan_view_lag_seconds" [] "How long the memory has stood still although the store has newer changes.",
        "0 unless the scrape waited a second in vain; then since the first such scrape.";
    MACHINES: Gauge "sabakan_machines" ["status"] "Machines by status.",
        "All seven, whether there are any or not.";
    MACHINES_BY_ROLE: Gauge "sabakan_machines_by_role" ["role", "status"] "Machines by role and status.",
        "Every status of a role there is. The first 256 roles by name; the rest is `role=\"other\"`.";
    MACHINES_BY_RACK: Gauge "sabakan_machines_by_rack" ["rack", "status"] "Machines by rack and status.",
        "Only what there is. The first 4,096 racks by number; the rest is `rack=\"other\"`.";
    TAKEOVER_MACHINES: Gauge "sabakan_takeover_machines" [] "Machines with values that input would refuse.",
        "Stored by the older service. They are served; `takeover` of each machine says what can be mended.";
    TAKEOVER_RAW_KEYS: Gauge "sabakan_takeover_raw_keys" [] "Disk keys of the older service that are not sealed.",
        "Requests for them are answered with 503 until they are imported.";
    UNREADABLE_RECORDS: Gauge "sabakan_unreadable_records" [] "Stored records that cannot be read and are left out.",
        "Not 0: `parts` of `/health` names them, `sabakan store check` says why.";
    ASSETS_BYTES: Gauge "sabakan_assets_bytes_total" [] "The total bytes of assets.",
        "0: this version keeps no assets.";
    ASSETS_ITEMS: Gauge "sabakan_assets_items_total" [] "The total items of assets.",
        "0: this version keeps no assets.";
    IMAGES_BYTES: Gauge "sabakan_images_bytes_total" [] "The total bytes of Images.",
        "0: this version keeps no images.";
    IMAGES_ITEMS: Gauge "sabakan_images_items_total" [] "The total items of Images.",
        "0: this version keeps no images.";
    CLUSTER_SUCCESSFUL: Gauge "cke_sabakan_integration_successful" [] "Whether the last plan of the cluster could go on.",
        "Only on the server that plans, while the planner works. 0: `sabactl cluster plan` says what blocks and what would unblock it.";
    CLUSTER_PLANNED_AT: Gauge "cke_sabakan_integration_timestamp_seconds" [] "When the last plan of the cluster was made.",
        "Older than a few times `--cluster-period` on every server: nobody plans.";
    CLUSTER_WORKERS: Gauge "cke_sabakan_workers" ["role"] "Workers of the cluster by role.",
        "After the last plan that could go on.";
    CLUSTER_UNUSED: Gauge "cke_sabakan_unused_machines" [] "Healthy machines that are not in the cluster.",
        "After the last plan that could go on. 0: nothing that breaks can be replaced.";
    CLUSTER_MINIMUM_MET: Gauge "sabakan_cluster_minimum_workers_met" [] "Whether there are as many healthy workers as minimum-workers.",
        "0 although the plan could go on: no machine of the role that is due is left.";
    CLUSTER_PLAN_SECONDS: Gauge "sabakan_cluster_plan_duration_seconds" [] "How long the last plan of the cluster took to make.",
        "Grows with the number of machines.";
    CLUSTER_QUERY_FAILURES: Counter "sabakan_cluster_query_failures_total" [] "Rounds of the planner without a list of machines or of taints.",
        "The registry of `--cluster-registry-url`, or Kubernetes, did not answer. Nothing is changed then.";
    CLUSTER_CHANGES: Counter "sabakan_cluster_changes_total" [] "Changes of the cluster that this server made.",
        "At most one for each round.";
    CLUSTER_NODES_WANTED: Gauge "sabakan_cluster_nodes_as_wanted" [] "Nodes in Kubernetes that carry what the configuration says.",
        "Only on the server that applies (`--cluster-apply`), after it has looked once.";
    CLUSTER_NODES_MISSING: Gauge "sabakan_cluster_nodes_missing" [] "Nodes of the configuration that Kubernetes does not know.",
        "They are never created here. More than 0 for long: nobody joins them to the cluster. The log names them.";
    CLUSTER_NODES_FAILED: Gauge "sabakan_cluster_nodes_failed" [] "Nodes that could not be changed as the configuration says.",
        "The log has the reason, with `task=\"cluster-nodes\"`.";
    CLUSTER_APPLIED_AT: Gauge "sabakan_cluster_apply_last_success_timestamp_seconds" [] "When every node in Kubernetes was last as wanted.",
        "Gets old when Kubernetes does not answer, refuses us, or another program changes the same keys.";
    REPAIR_QUEUE_ENABLED: Gauge "cke_repair_queue_enabled" [] "Whether repairs are begun.",
        "Like everything that begins with `cke_` below: only on the server that repairs.";
    REPAIR_QUEUE_ITEMS: Gauge "cke_repair_queue_items" ["status"] "Entries of the repair queue by status.",
        "All four, whether there are any or not. `failed` waits for a person.";
    REPAIR_QUEUE_ENTRIES: Gauge "cke_repair_queue_entries" ["index", "address", "operation", "status", "step"]
        "Entries of the repair queue.",
        "1 for each entry. At most as many as the queue holds.";
    AUTO_REPAIR_ENABLED: Gauge "cke_auto_repair_enabled" [] "Whether broken machines come into the repair queue by themselves.",
        "0: `sabactl auto-repair enable` lets them.";
    REBOOT_QUEUE_ENABLED: Gauge "cke_reboot_queue_enabled" [] "Whether reboots are begun.", "";
    REBOOT_QUEUE_ENTRIES: Gauge "cke_reboot_queue_entries" [] "Nodes that are to be rebooted.",
        "A node counts once, however often it was added.";
    REBOOT_QUEUE_RUNNING: Gauge "cke_reboot_queue_running" [] "Whether the reboot queue is enabled and not empty.", "";
    REBOOT_QUEUE_ITEMS: Gauge "cke_reboot_queue_items" ["status"] "Entries of the reboot queue by status.",
        "All four, whether there are any or not.";
    OPERATION_PHASE: Gauge "cke_operation_phase" ["phase"] "What the server that repairs is at.",
        "1 for one of `uncordon-nodes`, `repair-machines`, `reboot-nodes`, `completed`. CKE has more phases: those of its own work.";
    REPAIR_BUDGET_ENTRIES: Gauge "sabakan_repair_budget_entries" [] "Entries that count against maximum-repair-queue-entries.",
        "Also those that have ended, until somebody deletes them or `finished-count-hours` have passed. Like the figures down to \
         `sabakan_repair_timestamp_seconds`: only on the server that repairs.";
    REPAIR_BUDGET_FINISHED: Gauge "sabakan_repair_budget_finished" [] "Of the entries that count, those that have ended.",
        "`sabactl repair-queue delete-finished` clears them.";
    REPAIR_BUDGET_MAX: Gauge "sabakan_repair_budget_max" [] "How many entries may count: maximum-repair-queue-entries.",
        "0, the default: nothing is repaired by itself.";
    REPAIR_BLOCKED_BY_FINISHED: Gauge "sabakan_repair_queue_blocked_by_finished" []
        "Whether nothing comes into the repair queue although deleting repairs that have ended would make room.",
        "1: nobody deleted them. The queue may look idle and repair nothing.";
    REPAIR_BROKEN: Gauge "sabakan_repair_machines_broken" [] "Machines that are reported as broken.",
        "Those the variables of automatic repair find.";
    REPAIR_HELD: Gauge "sabakan_repair_machines_held" [] "Of them, those that failed together and are held.",
        "`sabactl incidents list` says with whom.";
    REPAIR_WITHOUT_ROOM: Gauge "sabakan_repair_machines_without_room" [] "Of them, those for which there is no room in the queue.",
        "They would be repaired if `maximum-repair-queue-entries` were larger or entries were deleted.";
    REPAIR_INCIDENTS_OPEN: Gauge "sabakan_repair_incidents_open" [] "Incidents that are open and hold their machines.",
        "Each until the group recovers or somebody acknowledges it. 0 while the guard is off: then they hold nobody.";
    REPAIR_GUARD_ENABLED: Gauge "sabakan_repair_guard_enabled" [] "Whether machines that failed together are held.",
        "0: a rack without power is repaired machine by machine; `sabactl auto-repair settings set guard true` protects it.";
    REPAIR_LOOKED_AT: Gauge "sabakan_repair_timestamp_seconds" [] "When the server that repairs last looked at everything.",
        "Older than a few times `--repair-period` on every server: nobody repairs.";
    REPAIR_ENQUEUED: Counter "sabakan_repair_enqueued_total" [] "Machines that came into the repair queue by themselves.",
        "Counters of repair are those of one server; sum them over all.";
    REPAIR_STEPS: Counter "sabakan_repair_steps_total" [] "Steps of repairs that were begun.", "";
    REPAIR_ENDED: Counter "sabakan_repair_ended_total" ["status"] "Repairs that ended.",
        "`succeeded`: the machine is healthy. `failed`: a person has to look.";
    REPAIR_DRAINS_GIVEN_UP: Counter "sabakan_repair_drains_given_up_total" [] "Drains for a repair that were given up for a while.",
        "Pods did not leave; `sabactl repair-queue list` says which.";
    REPAIR_INCIDENTS: Counter "sabakan_repair_incidents_total" [] "Incidents that were opened.",
        "More than a few in a month without a cause: see [how to choose](../concepts/repair.md#how-to-choose).";
    REPAIR_QUERY_FAILURES: Counter "sabakan_repair_query_failures_total" [] "Looks at the registry that gave no list of machines.",
        "Nothing is enqueued and no step is begun then.";
    REPAIR_CYCLE_FAILURES: Counter "sabakan_repair_cycle_failures_total" [] "Cycles of repair that were given up because something could not be read or written.",
        "Nothing is begun then. One now and then is a store that did not answer; `sabactl auto-repair status` says why if it goes on.";
    TASKS: Gauge "sabakan_task_last_success_timestamp_seconds" ["task"] "When a background task last did its work.",
        "`retention` (old audit entries, hourly), `compactor` (history of the embedded store, every five minutes once it has run \
         for an hour). A series exists after the first success.";
    BUILD: Gauge "sabakan_build_info" ["version"] "Always 1; the version of the program is in the label.",
        "Which version runs where.";
    CPU: Counter "process_cpu_seconds_total" [] "Processor time spent, in user and kernel mode.", "";
    MEMORY: Gauge "process_resident_memory_bytes" [] "Resident memory.", "";
    VIRTUAL: Gauge "process_virtual_memory_bytes" [] "Virtual memory.", "";
    FDS: Gauge "process_open_fds" [] "Open file descriptors.", "";
    FDS_MAX: Gauge "process_max_fds" [] "Most file descriptors that may be open.", "";
    STARTED: Gauge "process_start_time_seconds" [] "When the process started, since the epoch.",
        "Changes with every restart.";
    THREADS: Gauge "process_threads" [] "Threads.", "";
    MACHINE_REPAIR_STATUS: Gauge "cke_machine_repair_status" ["address", "status"] "Which repairs a machine has, by status.",
        "Four series for each node of the cluster and each machine of the queue; 1 if it has an entry with that status. \
         `--metrics-machines=false` turns it off.";
    NODE_REBOOT_STATUS: Gauge "cke_node_reboot_status" ["node", "status"] "Where the reboot of a node is.",
        "Four series for each node of the cluster and of the reboot queue. `--metrics-machines=false` turns it off.";
    MACHINE_STATUS: Gauge "sabakan_machine_status" ["status", "address", "serial", "rack", "role", "machine_type"]
        "The machine status set by HTTP API.",
        "Seven series for each machine, 1 for its status and 0 for the others. `address` is its first IPv4 address; a machine \
         without one is left out. `machine_type` is its label `machine-type`, or empty. `--metrics-machines=false` turns it off: \
         the answer then no longer grows with the number of machines.";
}
