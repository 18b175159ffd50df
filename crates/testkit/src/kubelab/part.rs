//! One process of a control plane. A shell stands between: it ends the process when our end of a pipe closes, so that nothing stays
//! behind when the test process is killed, and nobody has to be told.

use std::{
    fs::File,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Arguments: a directory to remove at the end or nothing, then the program and its arguments.
const GUARDED: &str = r#"
directory=$1
shift
exec 3<&0
"$@" 3<&- < /dev/null &
part=$!
end() {
    kill -9 "$part"
    wait "$part"
    # The other parts end at the same time, and may write until they have.
    if [ -n "$directory" ]; then
        rm -rf "$directory" || { sleep 1; rm -rf "$directory"; }
    fi
    exit 0
}
trap end TERM
{
    read -r _
    kill -TERM $$
} <&3 2> /dev/null &
guard=$!
exec 3<&- < /dev/null
wait "$part"
status=$?
kill "$guard"
exit "$status"
"#;

/// A running part.
pub struct Part {
    shell: Child,
    log: PathBuf,
}

impl Part {
    /// Starts one that writes to a log. Whoever removes the directory does so when this ends, for whatever reason.
    pub fn start(program: &Path, arguments: &[String], log: &Path, removes: Option<&Path>) -> Part {
        let output = File::options().create(true).append(true).open(log).expect("a log file");
        let mut command = Command::new("sh");
        command.args(["-c", GUARDED, "sh"]).arg(removes.unwrap_or(Path::new(""))).arg(program).args(arguments);
        // Settings of the machine must not leak into the test.
        for (name, _) in std::env::vars_os() {
            if ["ETCD", "KUBE"].iter().any(|prefix| name.to_string_lossy().starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::piped()).stdout(output.try_clone().expect("a log file")).stderr(output);
        // Whoever interrupts the tests at a terminal interrupts only them; the shell sees the end of the pipe and cleans up.
        let shell = command.process_group(0).spawn().expect("a shell starts");
        Part { shell, log: log.to_owned() }
    }

    /// Ends it at once and waits until it is gone.
    pub fn stop(mut self) {
        drop(self.shell.stdin.take());
        let _ended_already = self.shell.wait();
    }

    /// Panics with its log if it has ended by itself.
    pub fn check(&mut self) {
        if let Ok(Some(status)) = self.shell.try_wait() {
            panic!("{} ended with {status}:\n{}", self.log.display(), self.tail());
        }
    }

    /// The end of its log.
    pub fn tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, time::Duration};

    use super::*;
    use crate::wait_for;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn a_part_ends_with_its_owner_and_takes_its_directory_along() {
        let directory = tempfile::tempdir().expect("a directory");
        let ours = directory.path().join("ours");
        fs::create_dir(&ours).expect("a directory");
        let (script, pid) = ("echo $$ > \"$0\"; exec sleep 1000", directory.path().join("pid"));
        let arguments = ["-c", script, pid.to_str().expect("text")].map(str::to_owned);
        let part = Part::start(Path::new("/bin/sh"), &arguments, &directory.path().join("log"), Some(&ours));
        let pid = wait_for("its number", LONG, || fs::read_to_string(&pid).ok().filter(|text| text.ends_with('\n')));
        let process = Path::new("/proc").join(pid.trim());
        assert!(process.exists());
        part.stop();
        wait_for("its end", LONG, || (!process.exists() && !ours.exists()).then_some(()));
    }

    #[test]
    fn a_part_that_ends_by_itself_is_noticed() {
        let directory = tempfile::tempdir().expect("a directory");
        let arguments = ["-c", "echo broken; exit 3"].map(str::to_owned);
        let mut part = Part::start(Path::new("/bin/sh"), &arguments, &directory.path().join("log"), None);
        let status = wait_for("its end", LONG, || part.shell.try_wait().expect("a child"));
        assert_eq!(status.code(), Some(3));
        assert_eq!(part.tail(), "broken");
    }
}
