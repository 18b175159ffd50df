//! One run of ipmitool: bounded in time and output, gone when nobody waits for it any more, and telling nobody the password.
//!
//! The password goes through a pipe that is the program's standard input (`-f /dev/stdin`): it is in no argument, in no variable
//! and in no file, so there is nothing to remove afterwards, however the run ends. The environment is empty but for the language
//! of messages and, where there is one, the Kg key.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
    time::{Instant, timeout, timeout_at},
};

use super::{limits, settings::Target};
use crate::DriverError;

/// How long a killed process may take to be gone before it is left to the runtime, which collects it later.
const KILL_MAX: Duration = Duration::from_secs(1);

/// The first program of the name in a list of directories as in `PATH`; where Debian installs it if there is none.
pub fn find_tool(search: &OsStr) -> PathBuf {
    let found = std::env::split_paths(search).map(|dir| dir.join("ipmitool")).find(|path| path.is_file());
    found.unwrap_or_else(|| PathBuf::from("/usr/bin/ipmitool"))
}

/// What a run left.
#[derive(Debug)]
pub struct Output {
    /// Whether it ended with success.
    pub success: bool,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// Why there is no output.
#[derive(Debug)]
pub enum RunError {
    /// There is no such program, or we may not run it.
    Missing,
    /// It could not be started or read.
    Io(io::Error),
    /// It was still running at the deadline and was killed.
    Late,
    /// It printed more than [`limits::OUTPUT_MAX`] and was killed.
    TooLong,
}

/// Arguments that lead to the controller, with this cipher suite. Verbose, because only then ipmitool says why there is no session.
pub fn arguments(target: &Target, cipher_suite: u8, resends: u32) -> Vec<String> {
    let mut list: Vec<String> = ["-v", "-I", "lanplus", "-N", "1"].map(str::to_owned).to_vec();
    let mut set = |option: &str, value: String| list.extend([option.to_owned(), value]);
    set("-R", resends.to_string());
    set("-H", target.address.clone());
    set("-p", target.port.to_string());
    set("-C", cipher_suite.to_string());
    set("-L", target.privilege.to_owned());
    if let Some(username) = &target.username {
        set("-U", username.clone());
    }
    set("-f", "/dev/stdin".to_owned());
    if target.kg_key.is_some() {
        list.push("-K".to_owned());
    }
    list.extend(target.bridge.iter().cloned());
    list
}

/// Runs it until it ends or the deadline comes. When this future is dropped the process is killed.
pub async fn run(tool: &Path, target: &Target, arguments: &[String], deadline: Instant) -> Result<Output, RunError> {
    let mut child = start(tool, target, arguments).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => RunError::Missing,
        _ => RunError::Io(error),
    })?;
    let result = match timeout_at(deadline, converse(&mut child, target)).await {
        Ok(result) => result,
        Err(_) => Err(RunError::Late),
    };
    if result.is_err() {
        // Failing to kill means that it is gone already.
        let _ = timeout(KILL_MAX, child.kill()).await;
    }
    result
}

/// The error for an operator when the program is not there.
pub fn missing(tool: &Path) -> DriverError {
    DriverError::Missing(format!("the program {} (Debian package ipmitool)", tool.display()))
}

fn start(tool: &Path, target: &Target, arguments: &[String]) -> io::Result<Child> {
    let mut command = Command::new(tool);
    command.args(arguments).env_clear().env("LC_ALL", "C").current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    if let Some(key) = &target.kg_key {
        command.env("IPMI_KGKEY", key.expose());
    }
    command.spawn()
}

async fn converse(child: &mut Child, target: &Target) -> Result<Output, RunError> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    if let Some(mut stdin) = stdin {
        let password = target.password.as_ref().map_or("", |password| password.expose());
        // A program that ends before reading it says why by itself.
        let _ = stdin.write_all(password.as_bytes()).await;
        let _ = stdin.write_all(b"\n").await;
    }
    let (stdout, stderr) = tokio::try_join!(read(stdout), read(stderr))?;
    let status = child.wait().await.map_err(RunError::Io)?;
    Ok(Output { success: status.success(), stdout, stderr })
}

async fn read(stream: Option<impl AsyncRead + Unpin>) -> Result<String, RunError> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let most = u64::try_from(limits::OUTPUT_MAX).unwrap_or(u64::MAX).saturating_add(1);
        stream.take(most).read_to_end(&mut bytes).await.map_err(RunError::Io)?;
    }
    if bytes.len() > limits::OUTPUT_MAX {
        return Err(RunError::TooLong);
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
