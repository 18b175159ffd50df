//! Runs other programs. Everything that starts a process goes through here, so that failures read alike and Cargo
//! inside Cargo behaves like Cargo outside.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The top of the repository, known at compile time because this package never leaves it.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository's top directory")
}

/// A Cargo command at the top of the repository.
pub fn cargo<S: AsRef<OsStr>>(arguments: &[S]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    // `cargo xtask` set these for us. Build scripts of some dependencies watch them, so passing them on would rebuild
    // those dependencies each time someone alternates between `cargo test` and `cargo xtask ci`.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(set_by_cargo_run) {
            command.env_remove(name);
        }
    }
    command
}

fn set_by_cargo_run(name: &str) -> bool {
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "CARGO_PRIMARY_PACKAGE"
}

/// How a person would type it.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let mut words = vec![program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Runs to the end with our own standard streams; an exit status other than zero is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let text = shown(command);
    let status = command.status().with_context(|| format!("cannot start `{text}`"))?;
    if !status.success() {
        bail!("`{text}` failed: {status}");
    }
    Ok(())
}

/// Runs to the end without a terminal and gives standard output. Standard error becomes part of the error.
pub fn output(command: &mut Command) -> Result<Vec<u8>> {
    let text = shown(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{text}`"))?;
    if !output.status.success() {
        bail!("`{text}` failed: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim_end());
    }
    Ok(output.stdout)
}

/// Becomes the other program, so that Ctrl-C and exit status are its own. Returns only if it cannot be started.
pub fn replace(command: &mut Command) -> Result<()> {
    let text = shown(command);
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start `{text}`"))
}

/// Looks a program up in PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// Cargo's description of the workspace, as JSON.
pub fn metadata(arguments: &[&str]) -> Result<Value> {
    let mut command = cargo(&["metadata", "--format-version", "1"]);
    let bytes = output(command.args(arguments))?;
    serde_json::from_slice(&bytes).context("`cargo metadata` printed something that is not JSON")
}

/// Builds, showing diagnostics as usual, and gives the path of each binary by name.
pub fn build_binaries(arguments: &[&str]) -> Result<Vec<(String, PathBuf)>> {
    let mut command = cargo(&["build", "--locked", "--message-format", "json-render-diagnostics"]);
    let text = shown(command.args(arguments));
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot start `{text}`"))?;
    if !output.status.success() {
        bail!("`{text}` failed: {}", output.status);
    }
    Ok(executables(&String::from_utf8_lossy(&output.stdout)))
}

fn executables(messages: &str) -> Vec<(String, PathBuf)> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages
        .filter_map(|message| {
            let path = message["executable"].as_str()?;
            Some((message["target"]["name"].as_str()?.to_owned(), PathBuf::from(path)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_names_the_command_and_its_standard_error() {
        let error = output(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("`sh -c") && error.contains("exit status: 3") && error.contains("broken"), "{error}");
        assert!(run(&mut Command::new("no-such-program-here")).unwrap_err().to_string().contains("cannot start"));
        assert_eq!(output(Command::new("sh").args(["-c", "echo fine"])).unwrap(), b"fine\n");
    }

    #[test]
    fn variables_of_cargo_run_are_not_passed_on() {
        assert!(set_by_cargo_run("CARGO_PKG_NAME") && set_by_cargo_run("CARGO_MANIFEST_DIR"));
        assert!(!set_by_cargo_run("CARGO_TARGET_DIR") && !set_by_cargo_run("CARGO_HOME"));
        let command = cargo(&["--version"]);
        assert!(command.get_envs().any(|(name, value)| name == "CARGO_PKG_NAME" && value.is_none()));
    }

    #[test]
    fn binaries_are_read_from_build_messages() {
        let messages = concat!(
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"sabakan_wire\"},\"executable\":null}\n",
            "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"sabactl\"},\"executable\":\"/t/debug/sabactl\"}\n",
            "{\"reason\":\"build-finished\",\"success\":true}\n",
        );
        assert_eq!(executables(messages), [("sabactl".to_owned(), PathBuf::from("/t/debug/sabactl"))]);
    }

    #[test]
    fn programs_are_found_in_path() {
        assert!(find_program("sh").is_some());
        assert!(find_program("no-such-program-here").is_none());
    }
}
