//! Stock clients of the provisioning API, as people install them, against a server with simulated machines. `cargo xtask lab`
//! installs them; without it these tests fail and say so.

mod coverage;
mod diff;
mod first_day;
mod functional;
mod listed;
mod normal;
mod scenarios;
mod sdk;
mod throughout;

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use sabakan_testkit::{lab, rack::Rack};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Where the files beside these tests are.
fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/ironic/clients")
}

/// Python of the lab, with nothing of the person who runs the tests: no settings of other clouds, no proxy.
fn python(home: &Path, url: &str) -> Command {
    let mut python = Command::new(lab::program("python"));
    python.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    python.env("HOME", home).env("LANG", "C.UTF-8").env("TZ", "UTC").env("NO_PROXY", "*");
    // As wide as the terminal on which the sessions were recorded: help texts are wrapped by it.
    python.env("COLUMNS", "200");
    // The sources of the repository stay as they are.
    python.env("PYTHONDONTWRITEBYTECODE", "1");
    python.env("OS_AUTH_TYPE", "none").env("OS_ENDPOINT", url).current_dir(home);
    python
}

/// What a command left behind.
#[derive(Debug)]
struct Outcome {
    exit: i64,
    stdout: String,
    stderr: String,
}

/// A process that runs command lines.
struct Commands {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// Where the commands run.
    dir: TempDir,
}

impl Commands {
    /// For the API of one server.
    fn of(rack: &Rack) -> Commands {
        // `baremetal` and `openstack` are what is tested; their absence must be told by name.
        let _they_are_there = ["baremetal", "openstack"].map(lab::program);
        let dir = TempDir::new().expect("a temporary directory");
        let mut python = python(dir.path(), &rack.server.ironic_url());
        python.arg(here().join("commands.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = python.spawn().expect("Python of the lab runs");
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().expect("it was asked for"));
        Commands { process, input, output, dir }
    }

    /// Writes a file that commands name.
    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.dir.path().join(name), content).expect("the directory is ours");
    }

    /// Runs one command line to its end.
    fn run(&mut self, command: &str) -> Outcome {
        let request = json!({ "command": command, "cwd": self.dir.path() });
        let input = self.input.as_mut().expect("it was asked for");
        writeln!(input, "{request}").and_then(|()| input.flush()).expect("the process reads");
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the process answers");
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{command}: {error}: {line:?}"));
        let text = |name: &str| answer[name].as_str().expect("a text").to_owned();
        Outcome { exit: answer["exit"].as_i64().expect("a number"), stdout: text("stdout"), stderr: text("stderr") }
    }
}

impl Drop for Commands {
    fn drop(&mut self) {
        // The end of its input ends it; a test that failed in the middle does not wait for it.
        drop(self.input.take());
        let _ended_already = self.process.kill();
        let _ended_already = self.process.wait();
    }
}
