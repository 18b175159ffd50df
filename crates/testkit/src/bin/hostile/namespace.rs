//! A network namespace with one cable to this machine, so that strangers are strangers: what comes from loopback is an operator's.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, bail, ensure};
use sabakan_testkit::hostile::Tally;

use super::crowd::{Kind, Targets};

/// The two ends of the cable. The network is the one that is set aside for measurements.
pub const SERVER: &str = "198.18.200.1";
const STRANGERS: &str = "198.18.200.2";

/// A namespace; dropping it removes it and its cable.
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes one. Needs root.
    pub fn create() -> anyhow::Result<Namespace> {
        let id = std::process::id();
        let (name, near, far) = (format!("hostile-{id}"), format!("hn{id}"), format!("hf{id}"));
        ip(&["netns", "add", &name]).context("a network namespace is needed, and for that root")?;
        let namespace = Namespace { name: name.clone() };
        ip(&["link", "add", &near, "type", "veth", "peer", "name", &far, "netns", &name])?;
        ip(&["address", "add", &format!("{SERVER}/30"), "dev", &near])?;
        ip(&["link", "set", &near, "up"])?;
        ip(&["-n", &name, "address", "add", &format!("{STRANGERS}/30"), "dev", &far])?;
        ip(&["-n", &name, "link", "set", &far, "up"])?;
        Ok(namespace)
    }

    /// Sends a crowd, and returns when it is there.
    pub fn send(&self, kind: Kind, targets: &Targets) -> anyhow::Result<SentCrowd> {
        let mut child = Command::new("ip")
            .args(["netns", "exec", &self.name])
            .arg(std::env::current_exe()?)
            .args(["crowd", kind.word()])
            .args(targets.words())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a crowd")?;
        let mut line = String::new();
        let output = BufReader::new(child.stdout.take().context("the output of the crowd")?);
        let mut crowd = SentCrowd { child, output };
        crowd.output.read_line(&mut line)?;
        ensure!(line.trim() == "ready", "the crowd of {} did not come", kind.word());
        Ok(crowd)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = ip(&["netns", "delete", &self.name]) {
            eprintln!("{error:#}");
        }
    }
}

/// A crowd under way. Dropping it sends it home.
pub struct SentCrowd {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl SentCrowd {
    /// Sends it home and returns how it fared.
    pub fn send_home(mut self) -> anyhow::Result<Tally> {
        drop(self.child.stdin.take());
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        let numbers: Result<Vec<usize>, _> = line.split_whitespace().map(str::parse).collect();
        match numbers.as_deref() {
            Ok([open, came, thrown_out]) => Ok(Tally { open: *open, came: *came, thrown_out: *thrown_out }),
            _ => bail!("the crowd left without a word: {line:?}"),
        }
    }
}

impl Drop for SentCrowd {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // It ends with its input, at the latest when its time is over.
        let _ended = self.child.wait();
    }
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("ip").args(arguments).output().context("cannot start `ip`")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`ip {}`: {}", arguments.join(" "), text.trim());
    Ok(())
}
