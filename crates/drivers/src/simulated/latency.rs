//! How long things take on a simulated machine.

use std::time::Duration;

/// How long things take. Each is stretched or shortened by up to a quarter, by machine and call but always the same way, so that
/// thousands of machines do not move in step and a run can be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Latencies {
    /// An answer of the controller.
    pub call: Duration,
    /// From a power command to its effect.
    pub power: Duration,
    /// From a soft power command to its effect.
    pub soft: Duration,
    /// From power to a running system.
    pub boot: Duration,
    /// A step of the controller that is done when it answers.
    pub step: Duration,
    /// A task of the controller.
    pub task: Duration,
    /// A step in the ramdisk.
    pub ramdisk_step: Duration,
    /// A restart of the controller.
    pub reset: Duration,
    /// Between two calls of the ramdisk when nothing happens.
    pub heartbeat: Duration,
    /// After which a call that has no answer is given up.
    pub limit: Duration,
}

impl Latencies {
    /// Everything at once, for tests. Heartbeats and the limit stay, because a pause of nothing is a loop.
    pub const fn none() -> Latencies {
        Latencies {
            call: Duration::ZERO,
            power: Duration::ZERO,
            soft: Duration::ZERO,
            boot: Duration::ZERO,
            step: Duration::ZERO,
            task: Duration::ZERO,
            ramdisk_step: Duration::ZERO,
            reset: Duration::ZERO,
            heartbeat: Duration::from_secs(1),
            limit: Duration::from_secs(1),
        }
    }

    /// What servers take. A boot is quicker than a real one, which nobody wants to watch.
    pub const fn realistic() -> Latencies {
        Latencies {
            call: Duration::from_millis(60),
            power: Duration::from_secs(4),
            soft: Duration::from_secs(12),
            boot: Duration::from_secs(45),
            step: Duration::from_secs(5),
            task: Duration::from_secs(60),
            ramdisk_step: Duration::from_secs(30),
            reset: Duration::from_secs(90),
            heartbeat: Duration::from_secs(60),
            limit: Duration::from_secs(30),
        }
    }
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::realistic()
    }
}

/// Between three and five quarters of a duration, by a number that looks random and is not.
pub(super) fn stretched(duration: Duration, number: u64) -> Duration {
    let percent = u32::try_from(number % 51).unwrap_or(0) + 75;
    duration * percent / 100
}

/// A number that looks random and is always the same for the same inputs (splitmix64 over the FNV-1a hash of the text).
pub(super) fn scatter(seed: u64, text: &str, number: u64) -> u64 {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let mut z = (hash ^ seed).wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
