//! The real program as a child process: for what only a process can show, such as signals, exit codes and sudden death.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    time::Duration,
};

use crate::wait::wait_for;

/// How long a program under test may take to start or stop. Generous: test machines are busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `sabakan` program. Dropping it kills it.
pub struct Process {
    child: Child,
    data_dir: PathBuf,
    log: PathBuf,
}

impl Process {
    /// Starts `program` on free ports with its data in `data_dir`, and waits until it serves.
    pub fn start<S: AsRef<OsStr>>(
        program: impl AsRef<Path>,
        data_dir: &Path,
        args: impl IntoIterator<Item = S>,
    ) -> Process {
        fs::create_dir_all(data_dir).expect("the data directory");
        let addresses = data_dir.join("addresses.json");
        // A process that was killed leaves its file behind; ours is the one that names our process's ports.
        let old = fs::read_to_string(&addresses).ok();
        let log = data_dir.with_extension("log");
        let output = fs::OpenOptions::new().create(true).append(true).open(&log).expect("the log file");
        let child = Command::new(program.as_ref())
            .args(["--http", "127.0.0.1:0", "--https", "127.0.0.1:0", "--ironic", "127.0.0.1:0", "--data-dir"])
            .arg(data_dir)
            .args(args)
            .env_remove("SABAKAN_URL")
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("the log file"))
            .stderr(output)
            .spawn()
            .expect("the program starts");
        let mut process = Process { child, data_dir: data_dir.to_owned(), log };
        wait_for("the program to serve", PATIENCE, || {
            if let Some(status) = process.child.try_wait().expect("the state of the child") {
                panic!("the program ended with {status}:\n{}", process.log());
            }
            fs::read_to_string(&addresses).ok().filter(|new| Some(new) != old.as_ref()).map(drop)
        });
        process
    }

    /// Where it serves, as it announced itself.
    pub fn address(&self, listener: &str) -> String {
        let text = fs::read_to_string(self.data_dir.join("addresses.json")).expect("the file of addresses");
        let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        json[listener].as_str().unwrap_or_else(|| panic!("no address for {listener} in {text}")).to_owned()
    }

    /// `http://127.0.0.1:port`
    pub fn url(&self) -> String {
        format!("http://{}", self.address("http"))
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().expect("a running child can be killed");
        self.child.wait().expect("a killed child ends");
    }

    /// `kill -TERM`, then waits for the end.
    pub fn terminate(mut self) -> ExitStatus {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success(), "the signal was not sent");
        wait_for("the program to end", PATIENCE, || self.child.try_wait().expect("the state of the child"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended; then there is nothing to kill.
        let _ended_already = self.child.kill();
        let _ended_already = self.child.wait();
    }
}

/// Runs a program to its end.
pub fn run<S: AsRef<OsStr>>(program: impl AsRef<Path>, args: impl IntoIterator<Item = S>) -> Output {
    let output = Command::new(program.as_ref()).args(args).env_remove("SABAKAN_URL").stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{} does not run: {error}", program.as_ref().display()))
}
