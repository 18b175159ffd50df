//! The Redfish driver against a double of our own, for faults and quirks, and against an emulator that is not ours.

mod double;
mod emulator;
mod failures;
mod functions;
mod quirks;
mod sessions;

use std::{sync::Arc, time::Duration};

use sabakan_drivers::{
    Bmc, Driver, Settings,
    redfish::{Redfish, limits::Pace},
};

use self::double::Double;

/// As real controllers get it, only sooner.
fn quick() -> Pace {
    Pace {
        connect: Duration::from_secs(5),
        read: Duration::from_secs(20),
        total: Duration::from_secs(20),
        connect_attempts: 2,
        connect_pause: Duration::from_millis(10),
        busy_attempts: 3,
        busy_pause: Duration::from_millis(10),
        ..Pace::default()
    }
}

/// For controllers that never answer.
fn impatient() -> Pace {
    Pace { read: Duration::from_secs(1), ..quick() }
}

fn driver() -> Redfish {
    Redfish::with_pace(quick())
}

fn connect(driver: &Redfish, settings: &Settings) -> Arc<dyn Bmc> {
    driver.connect(settings).unwrap()
}

/// A controller and its double.
async fn pair() -> (Arc<dyn Bmc>, Double) {
    let double = Double::start().await;
    (connect(&driver(), &double.settings()), double)
}

/// Asks again and again until the answer is yes.
async fn eventually(what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while !ready() {
        assert!(tokio::time::Instant::now() < deadline, "waited too long for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
