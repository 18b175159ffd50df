//! What holds when nobody says otherwise. Help texts, reference page and program take it from here.

pub const DATA_DIR: &str = "./sabakan-data";
pub const HTTP: &str = "127.0.0.1:8888";
pub const HTTPS: &str = "127.0.0.1:8443";
pub const IRONIC: &str = "127.0.0.1:6385";
pub const IRONIC_TLS: &str = "auto";
pub const ALLOW_IPS: &str = "127.0.0.1,::1";
pub const CONNECTIONS_PER_ADDRESS: &str = "256, or a quarter of all if that is less";
pub const ETCD_PREFIX: &str = "/sabakan/";
pub const ETCD_TIMEOUT: &str = "2s";
/// etcd's own default of `--max-txn-ops`.
pub const ETCD_MAX_TXN_OPS: &str = "128";
/// etcd's own default of `--max-request-bytes`.
pub const ETCD_MAX_REQUEST_BYTES: &str = "1536KiB";
pub const IPXE: &str = "/usr/lib/ipxe/ipxe.efi";
pub const STATES_PREFIX: &str = "/states/";
pub const LOG_FORMAT: &str = "plain";
pub const LOG_LEVEL: &str = "info";
pub const OFF: &str = "off";
pub const CRYPTS_ACCESS: &str = "machine";
pub const NO: &str = "false";
pub const YES: &str = "true";
pub const CLEANING: &str = "full";
pub const AUDIT_RETENTION_DAYS: &str = "60";
pub const POWER_SYNC: &str = "2m";
pub const WORK_LEASE: &str = "15s";
pub const VERIFY_CONCURRENCY: &str = "64";
pub const INSPECT_CONCURRENCY: &str = "64";
pub const CLEAN_CONCURRENCY: &str = "100";
pub const DEPLOY_CONCURRENCY: &str = "250";
pub const GROUP_CONCURRENCY: &str = "300";
pub const CLUSTER_PERIOD: &str = "1m";
pub const CLUSTER_SETTLE: &str = "1m";
pub const REPAIR_PERIOD: &str = "15s";
pub const CLUSTER_REGISTRY_TIMEOUT: &str = "10s";
