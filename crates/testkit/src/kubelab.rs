//! A real Kubernetes control plane for tests: etcd, API server, controllers and scheduler from the one program that `cargo xtask
//! kubernetes` builds, on free loopback ports. What has no machine behind it, the kubelets, is played by [`Kubelets`].
//!
//! Starting one takes seconds and hundreds of megabytes, so that all tests of a process take [`turn`]s with the same one, and processes
//! wait for each other. It goes with the process, however that ends: see `part`.
//!
//! Everything blocks. Whatever goes wrong here panics with the log of the part: a test that needs Kubernetes must not pass without it.

mod api;
mod audit;
mod certificates;
pub mod guide;
mod kubelets;
mod part;
mod start;

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs::{self, File},
    io::Write as _,
    ops::Deref,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::{Value, json};

use self::{api::Api, part::Part};
pub use self::{
    audit::AuditRecord,
    kubelets::{Kubelet, Kubelets},
};
use crate::wait_for;

/// The version `cargo xtask kubernetes` builds.
const VERSION: &str = "1.34.4";

/// Set by whoever wants these tests skipped, with the reason.
const SKIP: &str = "SABAKAN_SKIP_KUBERNETES";

/// How long anything of a control plane may take. Five seconds are usual for a start; a loaded machine takes longer.
pub const LONG: Duration = Duration::from_secs(60);

/// How long a kubelet may be silent until its Node is not ready. As short as the kubelets here are punctual.
const GRACE: Duration = Duration::from_secs(8);

static SHARED: Mutex<Option<Kubelab>> = Mutex::new(None);

/// A running control plane.
pub struct Kubelab {
    /// Whatever plays the machines.
    pub kubelets: Kubelets,
    api: Api,
    program: PathBuf,
    directory: PathBuf,
    ports: start::Ports,
    parts: Mutex<BTreeMap<&'static str, Part>>,
    /// Held until this process ends.
    _only_one: File,
}

/// Whoever has it is alone with the control plane.
pub struct Turn {
    shared: MutexGuard<'static, Option<Kubelab>>,
    audited: usize,
}

impl Deref for Turn {
    type Target = Kubelab;

    fn deref(&self) -> &Kubelab {
        self.shared.as_ref().expect("started when the turn began")
    }
}

impl Turn {
    /// What the service account of the guide has asked for since this turn began.
    pub fn asked(&self) -> Vec<AuditRecord> {
        self.audit(self.audited)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A test that failed may have left anything; the next begins with a new one.
        if std::thread::panicking() {
            *self.shared = None;
        }
    }
}

/// Waits for a control plane without Nodes and pods; starts it if there is none. `None`: whoever runs the tests said why not.
pub fn turn() -> Option<Turn> {
    if let Some(reason) = env::var_os(SKIP).filter(|reason| !reason.is_empty()) {
        let line = "!".repeat(100);
        eprintln!("{line}\n!! SKIPPED, NOT TESTED ON KUBERNETES: {}\n{line}", reason.to_string_lossy());
        return None;
    }
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    match &*shared {
        Some(lab) => lab.clear(),
        None => *shared = Some(start::start(program(|name| env::var_os(name)))),
    }
    let audited = shared.as_ref().map_or(0, Kubelab::audited);
    Some(Turn { shared, audited })
}

/// Where `cargo xtask kubernetes` puts the program.
fn program(variable: impl Fn(&str) -> Option<OsString>) -> PathBuf {
    let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = path("SABAKAN_CACHE")
        .or_else(|| path("XDG_CACHE_HOME").map(|path| path.join("sabakan")))
        .or_else(|| path("HOME").map(|path| path.join(".cache/sabakan")))
        .expect("one of SABAKAN_CACHE, XDG_CACHE_HOME and HOME is set");
    let program = cache.join(format!("kubernetes-{VERSION}/kubelab"));
    assert!(
        program.is_file(),
        "this test needs {}: run `cargo xtask kubernetes`, or set {SKIP} to the reason why it cannot run",
        program.display()
    );
    program
}

impl Kubelab {
    /// The kubeconfig of somebody who may do everything.
    pub fn admin(&self) -> PathBuf {
        self.directory.join("admin.kubeconfig")
    }

    /// The kubeconfig that the guide makes: of a service account with the rights it names.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("sabakan.kubeconfig")
    }

    /// A file beside everything of the control plane.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Where the API server is.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.api)
    }

    /// The API server goes away, with all its connections.
    pub fn stop_api(&self) {
        self.parts().remove(start::API).expect("a running API server").stop();
    }

    /// The API server comes back on what it knew, and answers.
    pub fn start_api(&self) {
        start::api(self);
        wait_for("the API server to be back", LONG, || self.is_ready().then_some(()));
    }

    /// From now on a kubelet may be silent for this long until its Node is not ready.
    pub fn set_grace(&self, grace: Duration) {
        if let Some(controllers) = self.parts().remove(start::CONTROLLERS) {
            controllers.stop();
        }
        start::controllers(self, grace);
    }

    /// Asks the API server as its administrator: status code and document.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.api
            .block_on(self.api.ask(method, path, body))
            .unwrap_or_else(|problem| panic!("{method} {path}: {problem}"))
    }

    /// Reads an object or a list that is there.
    pub fn get(&self, path: &str) -> Value {
        let (code, document) = self.ask("GET", path, &Value::Null);
        assert_eq!(code, 200, "{path}: {document}");
        document
    }

    /// A Node that is there.
    pub fn node(&self, name: &str) -> Value {
        self.get(&format!("/api/v1/nodes/{name}"))
    }

    /// Makes an object, as in `create("/apis/apps/v1/namespaces/dev/deployments", ..)`.
    pub fn create(&self, path: &str, document: &Value) -> Value {
        let (code, answer) = self.ask("POST", path, document);
        assert!(code == 201, "{path}: {answer}");
        answer
    }

    /// Makes a namespace, or labels it anew, and waits until pods can be made in it.
    pub fn namespace(&self, name: &str, labels: &Value) {
        let document = json!({ "metadata": { "name": name, "labels": labels } });
        let (code, answer) = self.ask("POST", "/api/v1/namespaces", &document);
        if code == 409 {
            let (code, answer) = self.ask("PATCH", &format!("/api/v1/namespaces/{name}"), &document);
            assert_eq!(code, 200, "{answer}");
        } else {
            assert_eq!(code, 201, "{answer}");
        }
        let account = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
        wait_for("the account of pods", LONG, || (self.ask("GET", &account, &Value::Null).0 == 200).then_some(()));
    }

    /// Pods on a Node as `namespace/name`, in order, with those that were told to go.
    pub fn pods_on(&self, node: &str) -> Vec<String> {
        let list = self.get(&format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}"));
        let name = |pod: &Value| {
            let part = |name: &str| pod["metadata"][name].as_str().unwrap_or_default().to_owned();
            format!("{}/{}", part("namespace"), part("name"))
        };
        let mut names: Vec<String> = list["items"].as_array().into_iter().flatten().map(name).collect();
        names.sort();
        names
    }

    /// Runs kubectl as administrator; panics unless it succeeds.
    pub fn kubectl(&self, arguments: &[&str]) -> String {
        self.kubectl_with(arguments, "")
    }

    /// The same with something to read.
    pub fn kubectl_with(&self, arguments: &[&str], input: &str) -> String {
        let mut command = Command::new(&self.program);
        command.arg("kubectl").args(arguments);
        told(self.run(command, &self.admin(), input))
    }

    /// Runs a script in which `kubectl` is the one of this Kubernetes, as administrator; panics unless it succeeds.
    pub fn shell(&self, script: &str) -> String {
        let mut command = Command::new("sh");
        command.args(["-euc", script]);
        told(self.run(command, &self.admin(), ""))
    }

    fn run(&self, mut command: Command, kubeconfig: &Path, input: &str) -> Output {
        let path = env::var_os("PATH").unwrap_or_default();
        let mut paths = vec![self.directory.join("bin")];
        paths.extend(env::split_paths(&path));
        let path = env::join_paths(paths).expect("no colon in a temporary directory");
        // kubectl keeps files in the home directory.
        command.env("PATH", path).env("HOME", &self.directory).env("KUBECONFIG", kubeconfig);
        command.current_dir(&self.directory).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("a program starts");
        // Whoever does not read its input may have ended.
        let _not_wanted = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
        child.wait_with_output().expect("a program ends")
    }

    /// What the service account of the guide has asked for since [`Self::audited`] was this long.
    pub fn audit(&self, since: usize) -> Vec<AuditRecord> {
        let text = fs::read_to_string(self.directory.join("audit.log")).unwrap_or_default();
        text.get(since..).unwrap_or_default().lines().filter_map(AuditRecord::read).collect()
    }

    /// How long the audit log is.
    pub fn audited(&self) -> usize {
        fs::metadata(self.directory.join("audit.log"))
            .map_or(0, |file| usize::try_from(file.len()).expect("it is short"))
    }

    /// Takes everything away that a test may have left.
    fn clear(&self) {
        if !self.parts().contains_key(start::API) {
            self.start_api();
        }
        self.kubelets.clear();
        let kinds = "deployments,daemonsets,statefulsets,jobs,poddisruptionbudgets,pods";
        let options =
            ["--all", "--all-namespaces", "--force", "--grace-period=0", "--wait=false", "--ignore-not-found"];
        self.kubectl(&[&["delete", kinds][..], &options].concat());
        self.kubectl(&["delete", "nodes", "--all", "--wait=false"]);
        wait_for("nothing to be left", LONG, || {
            let is_empty = |path: &str| self.get(path)["items"].as_array().is_none_or(Vec::is_empty);
            (is_empty("/api/v1/pods") && is_empty("/api/v1/nodes")).then_some(())
        });
    }

    fn is_ready(&self) -> bool {
        let asked = self.api.block_on(self.api.ask("GET", "/readyz", &Value::Null));
        asked.is_ok_and(|(code, _)| code == 200)
    }

    fn parts(&self) -> MutexGuard<'_, BTreeMap<&'static str, Part>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Kubelab {
    fn drop(&mut self) {
        // etcd last: without it the others only complain.
        let mut parts = std::mem::take(&mut *self.parts());
        let etcd = parts.remove(start::ETCD);
        parts.into_values().for_each(Part::stop);
        etcd.into_iter().for_each(Part::stop);
        let _gone_already = fs::remove_dir_all(&self.directory);
    }
}

fn told(output: Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8(output.stdout).expect("it prints text");
    assert!(output.status.success(), "{}: {text}{error}", output.status);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_says_how_to_get_it() {
        let error = std::panic::catch_unwind(|| program(|name| (name == "SABAKAN_CACHE").then(|| "/nowhere".into())));
        let error = error.expect_err("there is none");
        let text = error.downcast_ref::<String>().expect("a text");
        assert!(
            text.contains("/nowhere/kubernetes-1.34.4/kubelab") && text.contains("cargo xtask kubernetes"),
            "{text}"
        );
    }
}
