//! Where time comes from. The one place that reads the system's clock; tests move a clock of their own.

use std::sync::Mutex;

use jiff::{SignedDuration, Timestamp};

/// Tells the time.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// The clock of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the clock everything else is told to use")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct FakeClock(Mutex<Timestamp>);

impl FakeClock {
    /// Starts at `now`.
    pub fn new(now: Timestamp) -> FakeClock {
        FakeClock(Mutex::new(now))
    }

    /// Moves on.
    pub fn advance(&self, by: SignedDuration) {
        let mut now = self.0.lock().expect("no holder of this lock panics");
        *now = now.saturating_add(by).unwrap_or(Timestamp::MAX);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().expect("no holder of this lock panics")
    }
}
