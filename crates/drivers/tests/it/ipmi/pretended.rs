//! What no controller shows: which arguments and variables ipmitool gets, and programs that hang, flood, or answer as controllers
//! other than ipmi_sim do. Each is a shell script in the place of ipmitool.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use sabakan_domain::provision::{
    boot::{BootDevice, BootRequest},
    hardware::{Configuration, HardwareHealth},
    power::PowerState,
};
use sabakan_drivers::{
    Driver, DriverError, Secret, StepOutcome,
    ipmi::{IpmiDriver, IpmiOptions, find_tool},
    lab::ipmi_sim::{ADMIN, IpmiSim, installed, settings},
};
use serde_json::json;
use tempfile::TempDir;

use super::options;

/// How long anything here may take on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that pretends, and the directory it works in.
struct Pretended {
    dir: TempDir,
}

impl Pretended {
    fn new(script: &str) -> Pretended {
        let dir = TempDir::new().unwrap();
        let script = format!("#!/bin/sh\ncd {} || exit 9\n{script}\n", dir.path().display());
        // A shell writes it: if this process had the file open for writing while another test starts a program, that program would
        // inherit it for a moment, and ours could not be executed ("text file busy").
        let write = r#"printf %s "$1" > "$2" && chmod 755 "$2""#;
        let status = Command::new("sh").args(["-c", write, "sh", &script]).arg(dir.path().join("ipmitool")).status();
        assert!(status.unwrap().success());
        Pretended { dir }
    }

    /// Writes down what others could see of it, then becomes the real program.
    fn watched() -> Pretended {
        let real = installed("ipmitool", "ipmitool");
        let script = "cat /proc/$$/cmdline >> cmdline; echo >> cmdline\ncat /proc/$$/environ > environ\n\
                      stat -c %a /proc/$$/environ > mode\n\
                      readlink /proc/$$/fd/0 > stdin\nexec REAL \"$@\"";
        Pretended::new(&script.replace("REAL", &real.display().to_string()))
    }

    fn driver(&self, options: IpmiOptions) -> IpmiDriver {
        IpmiDriver::with_options(self.path("ipmitool"), options)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn read(&self, name: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&fs::read(self.path(name)).ok()?).into_owned())
    }

    /// Waits until the program has written its process id, whole.
    async fn pid(&self) -> String {
        until("the program runs", || self.read("pid").is_some_and(|pid| pid.ends_with('\n'))).await;
        self.read("pid").unwrap().trim().to_owned()
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited for: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Gone, or dead and not yet collected.
fn is_gone(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn password_is_visible_to_nobody() {
    let simulator = IpmiSim::start();
    let watched = Pretended::watched();
    let bmc = watched.driver(options()).connect(&simulator.settings(ADMIN)).unwrap();
    assert_eq!(bmc.power().await, Ok(Some(PowerState::Off)), "the password did reach ipmitool");
    let (cmdline, environ) = (watched.read("cmdline").unwrap(), watched.read("environ").unwrap());
    assert!(cmdline.contains("\0-U\0admin\0"), "the command line was seen: {cmdline:?}");
    assert_eq!(environ, "LC_ALL=C\0", "the environment holds nothing of ours");
    assert!(!cmdline.contains(ADMIN.1));
    let stdin = watched.read("stdin").unwrap();
    assert!(stdin.starts_with("pipe:"), "the password is in no file: {stdin}");
}

#[tokio::test]
async fn kg_key_is_visible_to_its_own_user_only() {
    let simulator = IpmiSim::start_with_key(Some("kg-of-the-lab"));
    let watched = Pretended::watched();
    let mut settings = simulator.settings(ADMIN);
    let hex = "6b672d6f662d7468652d6c616200000000000000";
    settings.secrets.insert("ipmi_hex_kg_key".to_owned(), Secret::new(hex));
    let bmc = watched.driver(options()).connect(&settings).unwrap();
    assert_eq!(bmc.power().await, Ok(Some(PowerState::Off)));
    let cmdline = watched.read("cmdline").unwrap();
    assert!(cmdline.contains("\0-K\0") && !cmdline.contains(hex) && !cmdline.contains("kg-of-the-lab"));
    assert!(watched.read("environ").unwrap().contains("IPMI_KGKEY=kg-of-the-lab\0"));
    assert_eq!(watched.read("mode").unwrap().trim(), "400", "only the owner reads a process's environment");
}

#[tokio::test]
async fn cipher_suite_that_worked_is_remembered() {
    let simulator = IpmiSim::start();
    let watched = Pretended::watched();
    let driver = watched.driver(options());
    for _connection in 0..2 {
        driver.connect(&simulator.settings(ADMIN)).unwrap().power().await.unwrap();
    }
    let cmdlines = watched.read("cmdline").unwrap();
    let suites: Vec<&str> =
        cmdlines.lines().filter_map(|line| line.split("\0-C\0").nth(1)?.split('\0').next()).collect();
    assert_eq!(suites, ["17", "3", "3"]);
}

#[tokio::test]
async fn missing_program_is_told_with_its_package() {
    let dir = TempDir::new().unwrap();
    let driver = IpmiDriver::new(dir.path().join("ipmitool"));
    let error = driver.connect(&settings(623, ADMIN, &json!({}))).err().unwrap();
    assert!(matches!(error, DriverError::Missing(_)) && !error.is_retryable(), "{error:?}");
    assert!(error.to_string().ends_with("ipmitool (Debian package ipmitool)"), "{error}");
    assert_eq!(find_tool(dir.path().as_os_str()), Path::new("/usr/bin/ipmitool"));
    fs::write(dir.path().join("ipmitool"), "").unwrap();
    assert_eq!(find_tool(dir.path().as_os_str()), dir.path().join("ipmitool"));
}

#[tokio::test]
async fn program_removed_later_is_told_too() {
    let pretended = Pretended::new("echo ' 01 00 00'");
    let bmc = pretended.driver(options()).connect(&settings(623, ADMIN, &json!({}))).unwrap();
    assert_eq!(bmc.power().await, Ok(Some(PowerState::On)));
    fs::remove_file(pretended.path("ipmitool")).unwrap();
    assert!(matches!(bmc.power().await, Err(DriverError::Missing(_))));
}

#[tokio::test]
async fn hanging_program_is_killed_at_the_limit() {
    let pretended = Pretended::new("echo $$ > pid\nexec sleep 1000");
    let call_max = Duration::from_millis(500);
    let bmc =
        pretended.driver(IpmiOptions { call_max, ..options() }).connect(&settings(623, ADMIN, &json!({}))).unwrap();
    let begun = Instant::now();
    let read = bmc.power().await;
    assert_eq!(
        read,
        Err(DriverError::Unreachable("no answer to the command to read the power state in time".to_owned()))
    );
    assert!(begun.elapsed() >= call_max && begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    // A loaded machine may not even have come to the first line.
    if pretended.path("pid").exists() {
        let pid = pretended.pid().await;
        until("the process is gone", || is_gone(&pid)).await;
    }
}

#[tokio::test]
async fn program_nobody_waits_for_is_killed() {
    let pretended = Pretended::new("echo $$ > pid\nexec sleep 1000");
    let bmc = pretended.driver(options()).connect(&settings(623, ADMIN, &json!({}))).unwrap();
    let call = tokio::spawn(async move { bmc.power().await });
    let pid = pretended.pid().await;
    assert!(!is_gone(&pid));
    call.abort();
    until("the process is gone", || is_gone(&pid)).await;
}

#[tokio::test]
async fn endless_output_is_cut_off() {
    for stream in ["1", "2"] {
        let pretended = Pretended::new(&format!("echo $$ > pid\nexec yes >&{stream}"));
        let bmc = pretended.driver(options()).connect(&settings(623, ADMIN, &json!({}))).unwrap();
        let read = bmc.power().await;
        assert!(matches!(&read, Err(DriverError::Protocol { reason, .. }) if reason.contains("1048576")), "{read:?}");
        let pid = pretended.pid().await;
        until("the process is gone", || is_gone(&pid)).await;
    }
}

#[tokio::test]
async fn nonsense_is_not_an_answer() {
    let pretended = Pretended::new("echo ' 01'");
    let bmc = pretended.driver(options()).connect(&settings(623, ADMIN, &json!({}))).unwrap();
    assert!(matches!(bmc.power().await, Err(DriverError::Protocol { .. })));
    let pretended = Pretended::new("echo Chassis Power is on");
    let bmc = pretended.driver(options()).connect(&settings(623, ADMIN, &json!({}))).unwrap();
    assert!(matches!(bmc.power().await, Err(DriverError::Protocol { .. })));
}

#[tokio::test]
async fn calls_to_one_controller_take_turns() {
    let pretended = Pretended::new("mkdir busy || echo two > overlap\nsleep 0.05\nrmdir busy\necho ' 01 00 00'");
    let driver = pretended.driver(options());
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..6 {
        // A connection each: turns are per controller, not per connection.
        let bmc = driver.connect(&settings(623, ADMIN, &json!({}))).unwrap();
        calls.spawn(async move { bmc.power().await });
    }
    while let Some(read) = calls.join_next().await {
        assert_eq!(read.unwrap(), Ok(Some(PowerState::On)));
    }
    assert!(!pretended.path("overlap").exists());
}

#[tokio::test]
async fn processes_are_bounded_over_all_controllers() {
    let script =
        "mkdir -p running\n: > running/$$\nls running | wc -l >> seen\nsleep 0.2\nrm running/$$\necho ' 01 00 00'";
    let pretended = Pretended::new(script);
    let driver = pretended.driver(IpmiOptions { processes: 2, ..options() });
    let mut calls = tokio::task::JoinSet::new();
    for port in 1..=6 {
        let bmc = driver.connect(&settings(port, ADMIN, &json!({}))).unwrap();
        calls.spawn(async move { bmc.power().await });
    }
    while let Some(read) = calls.join_next().await {
        assert_eq!(read.unwrap(), Ok(Some(PowerState::On)));
    }
    let seen = pretended.read("seen").unwrap();
    let most = seen.lines().filter_map(|line| line.trim().parse::<u32>().ok()).max();
    assert!(seen.lines().count() == 6 && most.is_some_and(|most| most <= 2), "{seen}");
}

#[tokio::test]
async fn controller_is_left_in_peace_between_two_commands() {
    let pretended = Pretended::new("echo ' 01 00 00'");
    let gap = Duration::from_millis(400);
    let driver = pretended.driver(IpmiOptions { gap, ..options() });
    let bmc = driver.connect(&settings(623, ADMIN, &json!({}))).unwrap();
    bmc.power().await.unwrap();
    let begun = Instant::now();
    bmc.power().await.unwrap();
    assert!(begun.elapsed() >= gap, "{:?}", begun.elapsed());
    let other = driver.connect(&settings(624, ADMIN, &json!({}))).unwrap();
    let begun = Instant::now();
    other.power().await.unwrap();
    assert!(begun.elapsed() < PATIENCE, "another controller does not wait for this one");
}

#[tokio::test]
async fn busy_controller_is_asked_again() {
    let busy = "Unable to send RAW command (channel=0x0 netfn=0x0 lun=0x0 cmd=0x1 rsp=0xc0): Node busy";
    let script = format!(
        "echo x >> tries\n[ $(wc -l < tries) -ge NEEDED ] || {{ echo '{busy}' >&2; exit 1; }}\necho ' 01 00 00'"
    );
    let pretended = Pretended::new(&script.replace("NEEDED", "3"));
    let bmc = pretended.driver(options()).connect(&settings(623, ADMIN, &json!({}))).unwrap();
    assert_eq!(bmc.power().await, Ok(Some(PowerState::On)));
    let pretended = Pretended::new(&script.replace("NEEDED", "100"));
    let bmc = pretended.driver(options()).connect(&settings(623, ADMIN, &json!({}))).unwrap();
    assert!(bmc.power().await.is_err_and(|error| error.is_retryable()));
    assert_eq!(pretended.read("tries").unwrap().lines().count(), 3);
}

#[tokio::test]
async fn empty_sensor_repository_is_not_touched() {
    let script = r#"echo "$*" >> commands
case "$*" in
*" raw 0x0a 0x20") echo " 51 00 00 ff ff 00 00 00 00 00 00 00 00 22" ;;
*) echo ' 00 00 00' ;;
esac"#;
    let pretended = Pretended::new(script);
    let bmc = pretended.driver(options()).connect(&settings(623, ADMIN, &json!({}))).unwrap();
    assert_eq!(bmc.sensors().await, Ok(Vec::new()));
    assert_eq!(bmc.health().await, Ok(None));
    // ipmitool would erase it and write a new one.
    assert!(!pretended.read("commands").unwrap().contains(" sdr "));
}

#[tokio::test]
async fn fault_of_the_chassis_is_critical_without_sensors() {
    let pretended = Pretended::new("echo ' 01 00 08'");
    let bmc = pretended.driver(options()).connect(&settings(623, ADMIN, &json!({}))).unwrap();
    assert_eq!(bmc.health().await, Ok(Some(HardwareHealth::Critical)));
}

/// Keeps the boot flags as a real controller does, unlike ipmi_sim, and lacks parameter 3. `$*` ends with the request.
const KEEPS_FLAGS: &str = r#"[ -e flags ] || echo 0x00 0x00 0x00 0x00 0x00 > flags
fail() { echo "Unable to send RAW command (channel=0x0 netfn=0x0 lun=0x0 cmd=0x8$1" >&2; exit 1; }
case "$*" in
*" raw 0x00 0x09 0x05 0x00 0x00") echo " 01 05 $(sed s/0x//g flags)" ;;
*" raw 0x00 0x08 0x05 "*) echo "$*" | sed 's/.* raw 0x00 0x08 0x05 //' > flags ;;
*" raw 0x00 0x08 0x03 "*) echo asked > timer; fail " rsp=0x80): Unknown (0x80)" ;;
*" raw 0x06 0x02") fail ")" ;;
*) fail " rsp=0xc1): Invalid command" ;;
esac"#;

fn set(device: BootDevice, persistent: bool) -> BootRequest {
    BootRequest { device, persistent, http_uri: None }
}

#[tokio::test]
async fn boot_device_for_every_start_is_configuration_and_is_restored() {
    let pretended = Pretended::new(KEEPS_FLAGS);
    let bmc = pretended.driver(options()).connect(&settings(623, ADMIN, &json!({}))).unwrap();
    assert!(matches!(bmc.boot().await, Err(DriverError::Rejected { .. })), "nothing is set yet");
    assert_eq!(bmc.configuration().await, Ok(Configuration::default()));
    bmc.set_boot(&set(BootDevice::Disk, true)).await.unwrap();
    assert_eq!(pretended.read("flags").unwrap().trim(), "0xe0 0x08 0x00 0x00 0x00");
    assert_eq!(
        pretended.read("timer").unwrap().trim(),
        "asked",
        "a controller without the parameter is set all the same"
    );
    assert_eq!(bmc.boot().await, Ok((BootDevice::Disk, true)));
    let before = bmc.configuration().await.unwrap();
    assert_eq!(before, Configuration { boot_device: Some(BootDevice::Disk), ..Configuration::default() });
    // What booting a ramdisk does on the way.
    bmc.set_boot(&set(BootDevice::Pxe, false)).await.unwrap();
    assert_eq!(bmc.boot().await, Ok((BootDevice::Pxe, false)));
    assert_eq!(before.differences(&bmc.configuration().await.unwrap(), &[]).len(), 1);
    for note in ["boot device set to disk", "nothing differs"] {
        let StepOutcome::Finished(finished) = bmc.restore(&before).await.unwrap() else { panic!("IPMI has no tasks") };
        assert_eq!(finished.note, note);
    }
    assert_eq!(bmc.configuration().await.unwrap(), before);
    let volumes = Configuration { volumes: Some(Vec::new()), ..Configuration::default() };
    assert_eq!(bmc.restore(&volumes).await, Err(DriverError::Unsupported("to restore raid".to_owned())));
}

#[tokio::test]
async fn boot_timer_is_left_alone_where_settings_say_so() {
    let pretended = Pretended::new(KEEPS_FLAGS);
    let keep = settings(623, ADMIN, &json!({"ipmi_disable_boot_timeout": false}));
    let bmc = pretended.driver(options()).connect(&keep).unwrap();
    bmc.set_boot(&set(BootDevice::Pxe, false)).await.unwrap();
    assert_eq!(pretended.read("flags").unwrap().trim(), "0xa0 0x04 0x00 0x00 0x00");
    assert!(!pretended.path("timer").exists());
}

#[tokio::test]
async fn controller_that_falls_silent_on_a_restart_did_as_told() {
    let pretended = Pretended::new(KEEPS_FLAGS);
    let driver = pretended.driver(options());
    let bmc = driver.connect(&settings(623, ADMIN, &json!({}))).unwrap();
    assert_eq!(bmc.reset_bmc().await, Ok(()));
    let step = driver.steps()[0].step(Default::default(), 0);
    assert!(matches!(bmc.run_step(&step).await, Ok(StepOutcome::Finished(_))));
}
