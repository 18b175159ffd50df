//! What can go wrong with a simulated machine, and how `driver_info` asks for it.

use std::{fmt, str::FromStr, time::Duration};

use sabakan_domain::provision::hardware::HardwareHealth;

use super::{limits::FAULTS_MAX, steps};
use crate::{DriverError, Settings};

/// The reason a controller gives for a failure that was injected.
pub(super) const ASKED_FOR: &str = "the simulation was asked to fail here";

/// Something wrong with one machine. Several at a time are possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The controller refuses every user and password.
    WrongPassword,
    /// There the controller takes the call and never answers, and nothing is done. A step of the ramdisk, or one that runs as a
    /// task, starts and never ends.
    Hang(Point),
    /// There the controller fails by its own account, and nothing is done. A step of the ramdisk, or one that runs as a task, ends
    /// without success.
    Fail(Point),
    /// There the call takes effect and its answer is lost: the caller cannot know which of this and [`Fault::Hang`] it was.
    LoseAnswer(Point),
    /// The controller answers this many calls more and then none. From `driver_info`: this many calls since the machine was first
    /// contacted.
    DropAfter(u64),
    /// The machine answers this many calls more, of its controller and of its ramdisk together; those after them are taken, do nothing
    /// and get no answer. Only from the code: it stops a caller at any place of its work.
    HangAfter(u64),
    /// Power commands are accepted and change nothing.
    PowerStuck,
    /// The opposite of the power state is reported.
    PowerInverted,
    /// Every reading of the power state is the opposite of the last.
    PowerFlaps,
    /// Every answer of the controller takes this much longer.
    Slow(Duration),
    /// The ramdisk boots and never calls.
    RamdiskSilent,
    /// Erasing disks tears the logical volumes down, and putting them back is confirmed and not done.
    RaidLost,
    /// The controller's verdict.
    Health(HardwareHealth),
}

/// Where something goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Point {
    /// Every call to the controller.
    Every,
    /// Calls of this kind.
    Call(Call),
    /// This step, written `interface.step`.
    Step(String),
}

/// A kind of call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// Reading the power state, which is also what verifies credentials.
    Power,
    /// A power command.
    CommandPower,
    /// Setting the boot device.
    SetBoot,
    /// Reading the boot device or the list of them.
    Boot,
    /// Reading the inventory.
    Inspect,
    /// Reading the sensors.
    Sensors,
    /// Reading the verdict about the hardware.
    Health,
    /// Reading the configuration.
    Configuration,
    /// Putting the configuration back.
    Restore,
    /// Any step of the controller.
    Step,
    /// Asking about a task.
    Task,
    /// Restarting the controller.
    ResetBmc,
    /// Any call to the ramdisk.
    Ramdisk,
}

impl Call {
    /// Every kind.
    pub const ALL: [Call; 13] = [
        Call::Power,
        Call::CommandPower,
        Call::SetBoot,
        Call::Boot,
        Call::Inspect,
        Call::Sensors,
        Call::Health,
        Call::Configuration,
        Call::Restore,
        Call::Step,
        Call::Task,
        Call::ResetBmc,
        Call::Ramdisk,
    ];

    /// The word for it in `driver_info`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Call::Power => "power",
            Call::CommandPower => "command_power",
            Call::SetBoot => "set_boot",
            Call::Boot => "boot",
            Call::Inspect => "inspect",
            Call::Sensors => "sensors",
            Call::Health => "health",
            Call::Configuration => "configuration",
            Call::Restore => "restore",
            Call::Step => "step",
            Call::Task => "task",
            Call::ResetBmc => "reset_bmc",
            Call::Ramdisk => "ramdisk",
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Point {
    /// Whether a call, or the step it runs, is meant. [`Point::Every`] does not reach into the ramdisk: it has its own network.
    pub(super) fn covers(&self, call: Call, step: Option<&str>) -> bool {
        match self {
            Point::Every => call != Call::Ramdisk,
            Point::Call(point) => *point == call,
            Point::Step(point) => Some(point.as_str()) == step,
        }
    }
}

impl FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Point, String> {
        if text == "all" {
            return Ok(Point::Every);
        }
        if let Some(call) = Call::ALL.into_iter().find(|call| call.as_str() == text) {
            return Ok(Point::Call(call));
        }
        if steps::find(text).is_some() {
            return Ok(Point::Step(text.to_owned()));
        }
        let calls = Call::ALL.map(Call::as_str).join(", ");
        Err(format!("{text:?} is neither \"all\", a call ({calls}) nor a step written interface.step"))
    }
}

/// Keys of `driver_info` the simulated driver reads, and what each means.
pub const KEYS: &[(&str, &str)] = &[
    ("fake_password", "secret; refused unless it is the password of the simulated fleet; absent: accepted"),
    ("fake_wrong_password", "true: the controller refuses every user and password"),
    (
        "fake_hang",
        "where no answer comes: all, a call such as power or inspect, or a step such as deploy.erase_devices; or a list",
    ),
    ("fake_fail", "where it fails; as for fake_hang"),
    ("fake_lose_answer", "where the call takes effect and its answer is lost; as for fake_hang"),
    ("fake_drop_after", "number of calls after which the controller answers no more"),
    (
        "fake_power",
        "stuck: commands change nothing; inverted: reads are wrong; flapping: every read differs from the last",
    ),
    ("fake_delay_ms", "milliseconds by which every answer is late"),
    ("fake_ramdisk", "silent: it boots and never calls"),
    ("fake_raid", "lost: erasing tears volumes down and they are not put back"),
    ("fake_health", "the controller's verdict: OK, Warning or Critical"),
];

/// The faults that settings ask for. A key that starts with `fake_` and is not known is refused: a fault that silently does not
/// happen makes a test pass for the wrong reason.
pub(super) fn from_settings(settings: &Settings) -> Result<Vec<Fault>, DriverError> {
    let mut faults = Vec::new();
    for (key, value) in settings.values.iter().filter(|(key, _)| key.starts_with("fake_")) {
        match key.as_str() {
            "fake_password" => return Err(DriverError::settings(key, "is a secret and was not given as one")),
            "fake_wrong_password" => match value {
                serde_json::Value::Bool(true) => faults.push(Fault::WrongPassword),
                serde_json::Value::Bool(false) => {}
                _ => return Err(DriverError::settings(key, "must be true or false")),
            },
            "fake_hang" => faults.extend(points(key, value)?.into_iter().map(Fault::Hang)),
            "fake_fail" => faults.extend(points(key, value)?.into_iter().map(Fault::Fail)),
            "fake_lose_answer" => faults.extend(points(key, value)?.into_iter().map(Fault::LoseAnswer)),
            "fake_drop_after" => faults.push(Fault::DropAfter(number(key, value)?)),
            "fake_delay_ms" => faults.push(Fault::Slow(Duration::from_millis(number(key, value)?))),
            "fake_power" => faults.push(match value.as_str() {
                Some("stuck") => Fault::PowerStuck,
                Some("inverted") => Fault::PowerInverted,
                Some("flapping") => Fault::PowerFlaps,
                _ => return Err(DriverError::settings(key, "must be stuck, inverted or flapping")),
            }),
            "fake_ramdisk" => faults.push(only(key, value, "silent", Fault::RamdiskSilent)?),
            "fake_raid" => faults.push(only(key, value, "lost", Fault::RaidLost)?),
            "fake_health" => faults.push(Fault::Health(verdict(key, value)?)),
            _ => {
                let known = KEYS.iter().map(|(key, _)| *key).collect::<Vec<_>>().join(", ");
                return Err(DriverError::settings(key, format!("is not known; known are: {known}")));
            }
        }
    }
    match faults.len() {
        0..=FAULTS_MAX => Ok(faults),
        count => Err(DriverError::settings("fake_*", format!("{count} faults, at most {FAULTS_MAX} are allowed"))),
    }
}

fn points(key: &str, value: &serde_json::Value) -> Result<Vec<Point>, DriverError> {
    let one = std::slice::from_ref(value);
    let texts = value.as_array().map_or(one, Vec::as_slice);
    let point = |text: &serde_json::Value| {
        let text = text.as_str().ok_or_else(|| DriverError::settings(key, "must be a text or a list of texts"))?;
        text.parse().map_err(|reason: String| DriverError::settings(key, reason))
    };
    texts.iter().map(point).collect()
}

fn number(key: &str, value: &serde_json::Value) -> Result<u64, DriverError> {
    // Clients that edit one key at a time send numbers as texts.
    let number = value.as_u64().or_else(|| value.as_str().and_then(|text| text.parse().ok()));
    number.ok_or_else(|| DriverError::settings(key, "must be a number, 0 or more"))
}

fn only(key: &str, value: &serde_json::Value, word: &str, fault: Fault) -> Result<Fault, DriverError> {
    match value.as_str() {
        Some(text) if text == word => Ok(fault),
        _ => Err(DriverError::settings(key, format!("must be {word}"))),
    }
}

fn verdict(key: &str, value: &serde_json::Value) -> Result<HardwareHealth, DriverError> {
    let found = HardwareHealth::ALL.into_iter().find(|health| Some(health.as_str()) == value.as_str());
    found.ok_or_else(|| DriverError::settings(key, "must be OK, Warning or Critical"))
}
