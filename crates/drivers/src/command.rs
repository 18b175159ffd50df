//! One run of a program that operators wrote into a cluster template: it repairs a machine, says whether one is healthy, reboots a node.
//!
//! No shell is involved. The program gets a search path and a language, and nothing else of what this process knows; it reads nothing,
//! starts in `/`, and has a process group of its own. That group is gone when [`Runner::run`] has ended, however it ended: the program
//! was done, its time was over, or nobody waits for it any more. Only a process that left the group on purpose can outlive it. What the
//! program prints is read to the end, so that it never has to wait for us, and the last of it is kept.
//!
//! Whether and how often something is run is decided elsewhere.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
    signal::unix::{SignalKind, signal},
    sync::Semaphore,
    time::timeout,
};

/// Programs at the same time. A queue repairs a few machines at once and asks a few dozen whether they are healthy; more than this would
/// only compete for the processor that serves requests.
pub const PROGRAMS_MAX: usize = 64;

/// What is kept of each of the two outputs. Whoever has more to say has a log of its own.
pub const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// What people see of a run.
pub const SUMMARY_CHARS_MAX: usize = 300;

/// Where programs are looked for unless somebody says otherwise.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// How long killed processes may take to be gone. One that waits for hardware takes longer; it is left to the runtime, which collects it
/// later.
const KILL_MAX: Duration = Duration::from_secs(1);

/// How long what is already printed may take to be read once the program has ended. Only a process that left the group keeps it open.
const REST_MAX: Duration = Duration::from_secs(1);

/// Runs programs, at most [`PROGRAMS_MAX`] at once. Copies share that limit.
#[derive(Debug, Clone)]
pub struct Runner {
    path: OsString,
    places: Arc<Semaphore>,
}

impl Default for Runner {
    fn default() -> Runner {
        Runner::new(PATH)
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this status.
    Exit(i32),
    /// Something killed it with this signal.
    Signal(i32),
    /// It was still running when its time was over, and was killed.
    TimedOut(Duration),
}

/// What a run left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub ended: Ended,
    /// The end of its standard output.
    pub stdout: Vec<u8>,
    /// The end of its standard error.
    pub stderr: Vec<u8>,
    /// It printed more than [`OUTPUT_BYTES_MAX`], of which the beginning is lost.
    pub truncated: bool,
}

/// Why a program could not be run. Texts are for operators.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The command names no program.
    #[error("the command names no program; correct it in the cluster template")]
    Empty,
    /// There is none of this name.
    #[error("cannot run {program:?}: {reason}")]
    NotFound {
        /// The program.
        program: String,
        /// Where it was looked for, and what to do.
        reason: String,
    },
    /// There is something of this name that cannot be run.
    #[error("cannot run {program:?}: {reason}")]
    NotExecutable {
        /// The program.
        program: String,
        /// What it is, and what to do.
        reason: String,
    },
    /// The system did not start it; the same may work later.
    #[error("cannot start {program:?}; the system has no means for it now")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl Runner {
    /// Programs without a directory in their name are looked for in these, written as in the variable `PATH`. They get it too.
    pub fn new(path: impl Into<OsString>) -> Runner {
        Runner { path: path.into(), places: Arc::new(Semaphore::new(PROGRAMS_MAX)) }
    }

    /// Runs a program with its arguments and those that are added, and waits for its end. `time_limit` counts from its start, not from
    /// when it was asked for: `None` lets it run as long as it likes. Dropping the future kills it.
    pub async fn run(
        &self,
        command: &[String],
        added: &[String],
        time_limit: Option<Duration>,
    ) -> Result<Finished, CommandError> {
        let (program, arguments) = command.split_first().ok_or(CommandError::Empty)?;
        if program.is_empty() {
            return Err(CommandError::Empty);
        }
        // The semaphore is never closed; without a place the limit would not hold, so that is refused as well.
        let unavailable = |source| CommandError::Start { program: program.clone(), source };
        let _place = self.places.acquire().await.map_err(|closed| unavailable(io::Error::other(closed)))?;
        let mut run = Run::start(program, arguments.iter().chain(added), &self.path)
            .map_err(|error| explain(program, &self.path, error))?;
        run.finish(time_limit).await.map_err(unavailable)
    }
}

impl Finished {
    /// It ended by itself and says that it succeeded.
    pub fn is_success(&self) -> bool {
        self.ended == Ended::Exit(0)
    }

    /// It succeeded and printed `true` and nothing else: how a check says yes.
    pub fn says_true(&self) -> bool {
        self.is_success() && !self.truncated && self.stdout.trim_ascii() == b"true"
    }

    /// How it ended and the last it said, on one line.
    pub fn summary(&self) -> String {
        let ended = match self.ended {
            Ended::Exit(status) => format!("exit status {status}"),
            Ended::Signal(signal) => format!("killed by signal {signal}"),
            Ended::TimedOut(limit) => format!("not done after {} s", limit.as_secs_f64()),
        };
        let output = [&self.stderr, &self.stdout].into_iter().find(|output| !output.trim_ascii().is_empty());
        match output {
            Some(output) => {
                let room = SUMMARY_CHARS_MAX.saturating_sub(ended.len() + 2);
                format!("{ended}: {}", last_words(&String::from_utf8_lossy(output), room))
            }
            None => ended,
        }
    }
}

/// The end of a text on one line, in at most so many characters. Anything that could steer a terminal is left out.
fn last_words(text: &str, room: usize) -> String {
    let visible = |c: char| if c != '\n' && (c.is_control() || is_unseen(c)) { ' ' } else { c };
    let text: String = text.chars().map(visible).collect();
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut last: Vec<char> = lines.join(" | ").chars().rev().take(room + 1).collect();
    if last.len() > room {
        last.truncate(room.saturating_sub(1));
        last.push('…');
    }
    last.into_iter().rev().collect()
}

/// Marks that reorder or hide what stands beside them.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// A program that was started, and everything it started in its turn. Dropping it kills them.
struct Run {
    child: Child,
    /// The program's number, which is its group's too. As long as the program is not collected nobody else can have it; `None` after.
    group: Option<Pid>,
}

impl Run {
    fn start<'a>(program: &str, arguments: impl Iterator<Item = &'a String>, path: &OsStr) -> io::Result<Run> {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("PATH", path).env("LANG", "C").current_dir("/").process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let child = command.spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Run { child, group })
    }

    async fn finish(&mut self, time_limit: Option<Duration>) -> io::Result<Finished> {
        let (mut stdout, mut stderr) = (Kept::default(), Kept::default());
        let (in_time, status) = self.watch(&mut stdout, &mut stderr, time_limit).await;
        let ended = match in_time {
            Some(watched) => watched.and(status).map(how_ended)?,
            None => Ended::TimedOut(time_limit.unwrap_or_default()),
        };
        let truncated = stdout.cut() | stderr.cut();
        Ok(Finished { ended, stdout: stdout.bytes, stderr: stderr.bytes, truncated })
    }

    /// Reads what it prints until it and its group have ended. `None`: its time was over.
    async fn watch(
        &mut self,
        stdout: &mut Kept,
        stderr: &mut Kept,
        time_limit: Option<Duration>,
    ) -> (Option<io::Result<()>>, io::Result<ExitStatus>) {
        let (out, err) = (self.child.stdout.take(), self.child.stderr.take());
        let reading = async { tokio::join!(stdout.fill(out), stderr.fill(err)) };
        tokio::pin!(reading);
        let ending = within(time_limit, ended(self.group));
        tokio::pin!(ending);
        let mut all_read = false;
        // Looked at in this order: a program that prints without end must not hide that its time is over.
        let in_time = loop {
            tokio::select! {
                biased;
                in_time = &mut ending => break in_time,
                _ = &mut reading, if !all_read => all_read = true,
            }
        };
        self.kill();
        let status = self.collect().await;
        if !all_read {
            let _ = timeout(REST_MAX, &mut reading).await;
        }
        (in_time, status)
    }

    /// Kills the whole group, if the program is not collected yet.
    fn kill(&self) {
        if let Some(group) = self.group {
            // The only failure there can be is that nobody is left.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Takes the program off the list of processes. From then on its number may be somebody else's.
    async fn collect(&mut self) -> io::Result<ExitStatus> {
        let status = timeout(KILL_MAX, self.child.wait()).await??;
        self.group = None;
        Ok(status)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for the end of a program without collecting it, so that its number still stands for its group.
async fn ended(program: Option<Pid>) -> io::Result<()> {
    let Some(program) = program else { return Ok(()) };
    let mut children = signal(SignalKind::child())?;
    loop {
        match waitid(WaitId::Pid(program), WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT) {
            Ok(Some(_)) | Err(Errno::CHILD) => return Ok(()),
            Ok(None) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        // Whichever child it was: the next look tells.
        if children.recv().await.is_none() {
            return Err(io::Error::other("signals of child processes do not arrive any more"));
        }
    }
}

async fn within<T>(limit: Option<Duration>, work: impl Future<Output = T>) -> Option<T> {
    match limit {
        Some(limit) => timeout(limit, work).await.ok(),
        None => Some(work.await),
    }
}

fn how_ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Exit(code),
        (None, signal) => Ended::Signal(signal.unwrap_or_default()),
    }
}

/// The end of an output.
#[derive(Debug, Default)]
struct Kept {
    bytes: Vec<u8>,
    truncated: bool,
}

impl Kept {
    /// Reads to the end. An output that cannot be read any more has ended.
    async fn fill(&mut self, stream: Option<impl AsyncRead + Unpin>) {
        let Some(mut stream) = stream else { return };
        let mut part = vec![0; 8 << 10];
        while let Ok(count @ 1..) = stream.read(&mut part).await {
            self.bytes.extend_from_slice(&part[..count]);
            // Moved together rarely, so that a program which prints without end costs little.
            if self.bytes.len() > 2 * OUTPUT_BYTES_MAX {
                self.cut();
            }
        }
    }

    /// Keeps the end only; whether anything was ever lost.
    fn cut(&mut self) -> bool {
        let surplus = self.bytes.len().saturating_sub(OUTPUT_BYTES_MAX);
        self.truncated |= surplus > 0;
        self.bytes.drain(..surplus);
        self.truncated
    }
}

/// Says why a program was not started and what to do about it.
fn explain(program: &str, path: &OsStr, source: io::Error) -> CommandError {
    let program = program.to_owned();
    let is_path = program.contains('/');
    let at = Path::new(&program);
    match source.kind() {
        io::ErrorKind::NotFound => {
            let reason = if is_path && at.exists() {
                "the interpreter named in its first line is not there; install that".to_owned()
            } else if is_path {
                "there is no such file; install it on every server, or correct the cluster template".to_owned()
            } else {
                let path = path.display();
                format!(
                    "no such program is in {path}; install it on every server, or write its whole path into the cluster template"
                )
            };
            CommandError::NotFound { program, reason }
        }
        io::ErrorKind::PermissionDenied if is_path && at.is_dir() => CommandError::NotExecutable {
            program,
            reason: "it is a directory; name the program in it in the cluster template".to_owned(),
        },
        io::ErrorKind::PermissionDenied => CommandError::NotExecutable {
            program,
            reason: "the user that sabakan runs as may not execute it; `chmod +x` it, or correct the cluster template"
                .to_owned(),
        },
        io::ErrorKind::InvalidInput => CommandError::NotExecutable {
            program,
            reason: "an argument holds a NUL character; correct the cluster template".to_owned(),
        },
        _ if Errno::from_io_error(&source) == Some(Errno::NOEXEC) => CommandError::NotExecutable {
            program,
            reason: "it is neither a program for this machine nor a script whose first line names an interpreter"
                .to_owned(),
        },
        _ => CommandError::Start { program, source },
    }
}

#[cfg(test)]
mod tests;
