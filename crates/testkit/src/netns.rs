//! A network of its own, without a way out: for what differs between this host and others. A process in it has addresses that are not
//! loopback ones, whatever the host has. Needs user namespaces or root, and says so if it has neither.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

/// A network namespace. It ends with the value.
pub struct Network {
    /// Keeps it there until its standard input closes.
    keeper: Child,
}

impl Network {
    /// A network in which these addresses are all one host's own, so that any of them can call any other.
    pub fn with_addresses(addresses: &[&str]) -> Network {
        let add = |address: &&str| format!("ip addr add {address} dev lo && ");
        let adds: String = addresses.iter().map(add).collect();
        let script = format!("ip link set lo up && {adds}echo ready && exec cat");
        let mut keeper = Command::new("unshare")
            .args(["--user", "--map-root-user", "--net", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("unshare runs");
        let mut line = String::new();
        let output = keeper.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("a line");
        assert_eq!(
            line, "ready\n",
            "this test makes a network namespace; it needs root, or user namespaces to be allowed"
        );
        Network { keeper }
    }

    /// A program that runs another one in this network, for those who start programs by their path.
    pub fn enter(&self, dir: &Path, program: &str) -> PathBuf {
        let path = dir.join("in-network");
        let script = format!("#!/bin/sh\nexec {} {program} \"$@\"\n", self.nsenter().join(" "));
        fs::write(&path, script).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("made a program");
        path
    }

    /// Runs a program in this network to its end.
    pub fn run<S: AsRef<OsStr>>(&self, program: &str, args: impl IntoIterator<Item = S>) -> Output {
        let [nsenter, options @ ..] = self.nsenter();
        let output = Command::new(nsenter).args(options).arg(program).args(args).stdin(Stdio::null()).output();
        output.expect("nsenter runs")
    }

    fn nsenter(&self) -> [String; 6] {
        let target = format!("--target={}", self.keeper.id());
        ["nsenter", &target, "--user", "--preserve-credentials", "--net", "--"].map(str::to_owned)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ended = self.keeper.wait();
    }
}
