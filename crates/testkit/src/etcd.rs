//! Real etcd clusters for tests: one or three `etcd` processes on free ports with a temporary directory, killed when dropped.
//! Everything blocks, so that plain and async tests can use it alike. Whatever goes wrong here panics with the etcd log:
//! a test that needs etcd must not pass without it.

use std::{
    env,
    fs::{self, File},
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sabakan_store_etcd::{EtcdConfig, Tls};
use tempfile::TempDir;

use crate::wait_for;

/// How long a cluster may take to become healthy. Two seconds are usual; a loaded machine takes longer.
const START_MAX: Duration = Duration::from_secs(60);

/// Somebody else may take a port between choosing and using it; then other ports are tried.
const START_ATTEMPTS: usize = 5;

/// What kind of cluster to start.
#[derive(Debug, Clone)]
pub struct EtcdOptions {
    /// 1 or 3.
    pub members: usize,
    /// Serve clients over TLS only, and only those with a certificate.
    pub tls: bool,
    /// Create this user and ask for it. Unless it is `root` it may use keys under `/sabakan/` only.
    pub auth: Option<(String, String)>,
    /// Seconds until an unused token ends.
    pub auth_token_ttl: Option<u32>,
    /// Passed to etcd as it is.
    pub max_txn_ops: Option<u32>,
    /// Passed to etcd as it is.
    pub max_request_bytes: Option<u32>,
    /// Passed to etcd as it is.
    pub quota_backend_bytes: Option<u32>,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        EtcdOptions {
            members: 1,
            tls: false,
            auth: None,
            auth_token_ttl: None,
            max_txn_ops: None,
            max_request_bytes: None,
            quota_backend_bytes: None,
        }
    }
}

/// A running cluster.
pub struct Etcd {
    options: EtcdOptions,
    members: Vec<Member>,
    tls: Option<Tls>,
    /// Last, so that the processes are gone before their files are.
    dir: TempDir,
}

struct Member {
    client_url: String,
    args: Vec<String>,
    log: PathBuf,
    process: Mutex<Option<Child>>,
}

impl Etcd {
    /// One member, no TLS, no user.
    pub fn start() -> Etcd {
        Etcd::start_with(&EtcdOptions::default())
    }

    /// A cluster as described, healthy.
    pub fn start_with(options: &EtcdOptions) -> Etcd {
        for program in ["etcd", "etcdctl"] {
            let installed =
                env::var_os("PATH").is_some_and(|path| env::split_paths(&path).any(|p| p.join(program).is_file()));
            assert!(installed, "this test needs `{program}` in PATH: install the packages etcd-server and etcd-client");
        }
        for attempt in 1.. {
            let etcd = Etcd::prepare(options.clone());
            match (0..etcd.members.len()).try_for_each(|i| etcd.spawn(i)).and_then(|()| etcd.wait_healthy()) {
                Ok(()) => {
                    etcd.enable_auth();
                    return etcd;
                }
                // A member that exits at once most likely lost its port.
                Err(_) if attempt < START_ATTEMPTS && (0..etcd.members.len()).any(|i| etcd.has_exited(i)) => {}
                Err(problem) => panic!("etcd did not start: {problem}"),
            }
        }
        unreachable!("the last attempt returns or panics")
    }

    /// The members' addresses, in order.
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| member.client_url.clone()).collect()
    }

    /// How sabakan is to be configured for this cluster.
    pub fn config(&self, prefix: &str) -> EtcdConfig {
        let mut config = EtcdConfig::new(self.endpoints(), prefix);
        config.tls = self.tls.clone();
        if let Some((user, password)) = &self.options.auth {
            config.username = Some(user.clone());
            config.password = Some(password.clone());
        }
        config
    }

    /// Kills a member with SIGKILL and waits until it is gone.
    pub fn kill_member(&self, i: usize) {
        if let Some(mut process) = self.members[i].process().take() {
            process.kill().expect("a child can be killed");
            process.wait().expect("a child can be waited for");
        }
    }

    /// Starts a killed member again on its data and waits until all that run are healthy.
    pub fn restart_member(&self, i: usize) {
        self.kill_member(i);
        if let Err(problem) = self.spawn(i).and_then(|()| self.wait_healthy()) {
            panic!("etcd member {i} did not come back: {problem}");
        }
    }

    /// Freezes a member: its connections stay open and nothing answers.
    pub fn pause_member(&self, i: usize) {
        self.signal(i, "-STOP");
    }

    /// Lets a frozen member go on.
    pub fn resume_member(&self, i: usize) {
        self.signal(i, "-CONT");
    }

    /// Which member leads.
    pub fn leader(&self) -> usize {
        wait_for("a leader of etcd", START_MAX, || {
            (0..self.members.len()).find(|&i| {
                let output = self.etcdctl_at(&self.members[i].client_url, &["endpoint", "status", "-w", "json"]);
                let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
                let status = &status[0]["Status"];
                !status["leader"].is_null() && status["leader"] == status["header"]["member_id"]
            })
        })
    }

    /// Runs `etcdctl` as root against the members that run; panics unless it succeeds.
    pub fn etcdctl(&self, args: &[&str]) -> String {
        let output = self.etcdctl_at(&self.running().join(","), args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "etcdctl {args:?}: {error}");
        String::from_utf8(output.stdout).expect("etcdctl prints text")
    }

    /// A number out of a member's metrics. Only without TLS.
    pub fn metric(&self, i: usize, name: &str) -> f64 {
        let address = self.members[i].client_url.trim_start_matches("http://");
        let mut connection = TcpStream::connect(address).expect("etcd listens");
        connection.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("etcd reads");
        let mut text = String::new();
        connection.read_to_string(&mut text).expect("etcd answers");
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("etcd has no metric {name}"))
    }

    fn prepare(options: EtcdOptions) -> Etcd {
        let dir = TempDir::new().expect("a temporary directory");
        let tls = options.tls.then(|| write_certificates(dir.path()));
        let scheme = if options.tls { "https" } else { "http" };
        let ports = free_ports(options.members * 2);
        let peer = |i: usize| format!("http://127.0.0.1:{}", ports[options.members + i]);
        let cluster: Vec<_> = (0..options.members).map(|i| format!("m{i}={}", peer(i))).collect();
        let member = |i: usize| {
            let client_url = format!("{scheme}://127.0.0.1:{}", ports[i]);
            let data = dir.path().join(format!("m{i}"));
            let mut args = Vec::new();
            let mut set = |flag: &str, value: &str| args.push(format!("--{flag}={value}"));
            set("name", &format!("m{i}"));
            set("data-dir", &data.to_string_lossy());
            set("listen-client-urls", &client_url);
            set("advertise-client-urls", &client_url);
            set("listen-peer-urls", &peer(i));
            set("initial-advertise-peer-urls", &peer(i));
            set("initial-cluster", &cluster.join(","));
            // Hashing a password need not take long here.
            set("bcrypt-cost", "4");
            let limits = [
                ("auth-token-ttl", options.auth_token_ttl),
                ("max-txn-ops", options.max_txn_ops),
                ("max-request-bytes", options.max_request_bytes),
                ("quota-backend-bytes", options.quota_backend_bytes),
            ];
            for (flag, value) in limits {
                value.inspect(|value| set(flag, &value.to_string()));
            }
            if options.tls {
                set("cert-file", &dir.path().join("cert.pem").to_string_lossy());
                set("key-file", &dir.path().join("key.pem").to_string_lossy());
                set("trusted-ca-file", &dir.path().join("ca.pem").to_string_lossy());
                set("client-cert-auth", "true");
            }
            Member { client_url, args, log: dir.path().join(format!("m{i}.log")), process: Mutex::new(None) }
        };
        let members = (0..options.members).map(member).collect();
        Etcd { options, members, tls, dir }
    }

    fn spawn(&self, i: usize) -> Result<(), String> {
        let member = &self.members[i];
        let log = File::options().create(true).append(true).open(&member.log).map_err(|e| e.to_string())?;
        let mut command = Command::new("etcd");
        command.args(&member.args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // Settings of the machine must not leak into the test.
        env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ETCD")).for_each(|(name, _)| {
            command.env_remove(name);
        });
        *member.process() = Some(command.spawn().map_err(|e| format!("cannot run etcd: {e}"))?);
        Ok(())
    }

    /// Waits until every member that runs answers a read through the whole cluster.
    fn wait_healthy(&self) -> Result<(), String> {
        let endpoints = self.running().join(",");
        let log = |member: &Member| fs::read_to_string(&member.log).unwrap_or_default();
        let begun = Instant::now();
        wait_for("an answer of etcdctl", START_MAX * 2, || {
            if let Some(i) = (0..self.members.len()).find(|&i| self.has_exited(i)) {
                return Some(Err(format!("member {i} exited\n{}", log(&self.members[i]))));
            }
            if begun.elapsed() > START_MAX {
                let logs: String = self.members.iter().map(log).collect();
                return Some(Err(format!("not healthy in time\n{logs}")));
            }
            self.etcdctl_at(&endpoints, &["endpoint", "health"]).status.success().then_some(Ok(()))
        })
    }

    fn has_exited(&self, i: usize) -> bool {
        self.members[i]
            .process()
            .as_mut()
            .is_some_and(|process| process.try_wait().is_ok_and(|status| status.is_some()))
    }

    fn running(&self) -> Vec<String> {
        self.members
            .iter()
            .filter(|member| member.process().is_some())
            .map(|member| member.client_url.clone())
            .collect()
    }

    fn enable_auth(&self) {
        let Some((user, password)) = self.options.auth.clone() else { return };
        self.etcdctl_open(&["user", "add", &format!("root:{password}")]);
        if user != "root" {
            self.etcdctl_open(&["user", "add", &format!("{user}:{password}")]);
            self.etcdctl_open(&["role", "add", "sabakan"]);
            self.etcdctl_open(&["role", "grant-permission", "--prefix=true", "sabakan", "readwrite", "/sabakan/"]);
            self.etcdctl_open(&["user", "grant-role", &user, "sabakan"]);
        }
        self.etcdctl_open(&["auth", "enable"]);
    }

    /// While authentication is not enabled yet, it must not be asked for.
    fn etcdctl_open(&self, args: &[&str]) {
        let mut command = self.etcdctl_command(&self.members[0].client_url);
        let output = command.args(args).output().expect("etcdctl runs");
        assert!(output.status.success(), "etcdctl {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn etcdctl_at(&self, endpoints: &str, args: &[&str]) -> Output {
        let mut command = self.etcdctl_command(endpoints);
        // Before authentication is enabled etcdctl ignores the user.
        if let Some((_, password)) = &self.options.auth {
            command.env("ETCDCTL_USER", format!("root:{password}"));
        }
        command.args(args).output().expect("etcdctl runs")
    }

    fn etcdctl_command(&self, endpoints: &str) -> Command {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").stdin(Stdio::null());
        command.args(["--dial-timeout=2s", "--command-timeout=5s"]).arg(format!("--endpoints={endpoints}"));
        if self.tls.is_some() {
            for (flag, file) in [("cacert", "ca.pem"), ("cert", "cert.pem"), ("key", "key.pem")] {
                command.arg(format!("--{flag}={}", self.dir.path().join(file).display()));
            }
        }
        command
    }

    fn signal(&self, i: usize, signal: &str) {
        let id = self.members[i].process().as_ref().map(Child::id).expect("only a running member can be signalled");
        let status = Command::new("kill").args([signal, &id.to_string()]).status();
        assert!(status.is_ok_and(|status| status.success()), "kill {signal} failed");
    }
}

impl Member {
    /// A test that panicked meanwhile leaves nothing half done here.
    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in &self.members {
            if let Some(mut process) = member.process().take() {
                // It may have ended by itself; then there is nothing to do.
                let _ = process.kill();
                let _ = process.wait();
            }
        }
    }
}

/// Ports nobody listens on at this moment.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("loopback has a free port")).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("a bound socket has an address").port()).collect()
}

/// Writes `ca.pem`, `cert.pem` and `key.pem`, which serve both sides, and returns them.
fn write_certificates(dir: &Path) -> Tls {
    let mut params = CertificateParams::new(Vec::new()).expect("no names are fine");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA");
    let key = KeyPair::generate().expect("a key");
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let cert = CertificateParams::new(names).and_then(|params| params.signed_by(&key, &ca)).expect("a certificate");
    let tls = Tls { ca_pem: ca.pem(), cert_pem: Some(cert.pem()), key_pem: Some(key.serialize_pem()) };
    let write = |name: &str, text: &str| fs::write(dir.join(name), text).expect("the directory is ours");
    write("ca.pem", &tls.ca_pem);
    write("cert.pem", &cert.pem());
    write("key.pem", &key.serialize_pem());
    tls
}
