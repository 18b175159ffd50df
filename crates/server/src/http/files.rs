//! How many files the process may have open, on which the number of connections depends.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the bound of open files as far as it may be raised without asking anybody. Systems start programs with a low one for the
/// sake of programs that cannot deal with more.
pub fn raise_open_files() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => tracing::debug!(from = ?current, to = ?maximum, "the bound of open files is raised"),
        Err(error) => tracing::warn!(%error, files = ?current, "cannot raise the bound of open files"),
    }
}

/// How many files the process may have open now.
pub fn open_files_max() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
