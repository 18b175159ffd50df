//! `sabactl events`: what changes, as it changes. With `--follow` it survives restarts of the server and broken connections: it
//! goes on behind the last event it printed, and prints every event once.

use std::{
    io::{self, Write},
    time::Duration,
};

use sabakan_client::{Client, Error, FeedEnd, FeedPosition, TlsProblem};

use crate::{
    exit::{self, Failure, words},
    limits,
};

#[derive(Debug, clap::Args)]
pub struct Events {
    /// Only what happened after this revision; without it every machine as it is comes first
    #[arg(long, value_name = "REVISION")]
    after: Option<u64>,
    /// Wait for what happens next, and go on by itself when the connection breaks
    #[arg(long, short)]
    follow: bool,
}

/// Does what the command says.
pub fn run(client: &Client, events: &Events) -> Result<(), Failure> {
    let mut position = FeedPosition::after(events.after);
    let mut pause = limits::RECONNECT_PAUSE_MIN;
    let mut was_connected = false;
    loop {
        let before = position.clone();
        let reason = match read(client, &mut position, events.follow)? {
            Outcome::Done => return Ok(()),
            Outcome::Ended => "the server ended the feed".to_owned(),
            Outcome::Broken(failure) if !events.follow || !(was_connected || position != before) => {
                return Err(failure);
            }
            Outcome::Broken(failure) => failure.text,
        };
        was_connected = true;
        if position != before {
            pause = limits::RECONNECT_PAUSE_MIN;
        }
        exit::note(&format!("{reason}; {}\n", going_on(&position)));
        wait(pause);
        pause = (pause * 2).min(limits::RECONNECT_PAUSE_MAX);
    }
}

/// How one answer ended.
enum Outcome {
    /// Everything that was asked for is printed, or nobody reads on.
    Done,
    /// A feed that should not end did.
    Ended,
    /// Trying again may work.
    Broken(Failure),
}

fn read(client: &Client, position: &mut FeedPosition, follow: bool) -> Result<Outcome, Failure> {
    // Line by line, also into a pipe: a reader wants an event when it happens.
    let mut out = io::LineWriter::new(io::stdout().lock());
    match client.visit_events(position, follow, |line| writeln!(out, "{line}")) {
        Ok((FeedEnd::Complete, _)) if follow => Ok(Outcome::Ended),
        Ok((FeedEnd::Complete, _)) => Ok(Outcome::Done),
        Ok((FeedEnd::Gone(reason), _)) => Err(gone(Failure::general(reason))),
        Ok((FeedEnd::Broken(reason), _)) => Ok(Outcome::Broken(Failure::general(reason))),
        Ok((FeedEnd::Stopped, Err(error))) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::general(format!("cannot write to standard output: {}", words(&error))))
        }
        Ok((FeedEnd::Stopped, _)) => Ok(Outcome::Done),
        Err(error) if error.status() == Some(410) => Err(gone(error.into())),
        Err(error) if may_pass(&error) => Ok(Outcome::Broken(error.into())),
        Err(error) => Err(error.into()),
    }
}

/// Whether the same question may get an answer later.
pub fn may_pass(error: &Error) -> bool {
    match error {
        Error::Connect { .. } | Error::Interrupted { .. } | Error::Timeout { .. } => true,
        // A server that dies in the middle of a line leaves half of it.
        Error::Decode { .. } => true,
        Error::Api { status, .. } => *status >= 500,
        // Closed during the handshake: a server that stops does that. Whom to trust does not change by itself.
        Error::Tls { problem, .. } => *problem == TlsProblem::HungUp,
        Error::Url { .. } | Error::Request { .. } | Error::Trust { .. } | Error::Exposed { .. } => false,
    }
}

fn gone(failure: Failure) -> Failure {
    failure.with_hint("What happened in between is lost here. Begin again without --after.")
}

fn going_on(position: &FeedPosition) -> String {
    match position.revision() {
        Some(revision) => format!("going on after revision {revision}"),
        None => "beginning again with a snapshot".to_owned(),
    }
}

#[allow(clippy::disallowed_methods, reason = "a server that does not answer must not be asked without a pause")]
pub fn wait(pause: Duration) {
    std::thread::sleep(pause);
}
