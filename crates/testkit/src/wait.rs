//! Waiting for a level instead of sleeping.

use std::time::{Duration, Instant};

/// Asks again and again until `ready` answers `Some`, and panics with `what` when `deadline` has passed.
pub fn wait_for<T>(what: &str, deadline: Duration, mut ready: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(begun.elapsed() < deadline, "waited {deadline:?} for {what}");
        pause();
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place that pauses between two looks at a level")]
fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}
