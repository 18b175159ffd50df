//! A real IPMI controller for tests: `ipmi_sim` of OpenIPMI on a free port of loopback, killed when dropped. A script keeps the
//! machine's state in files, so that a test can look at it without going through IPMI. Panics with the sim's output when
//! something goes wrong here: a test that needs it must not pass without it.

use std::{
    fs::{self, File},
    net::{SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use sabakan_domain::provision::power::PowerState;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Secret, Settings};

/// It is there after a tenth of a second; a loaded machine takes longer.
const START_MAX: Duration = Duration::from_secs(30);

/// Somebody else may take the port between choosing and using it; then another one is tried.
const START_ATTEMPTS: usize = 5;

/// A user of every simulated controller who may do everything: name and password.
pub const ADMIN: (&str, &str) = ("admin", "s3cret-of-admin");
/// One who may only look.
pub const VIEWER: (&str, &str) = ("viewer", "s3cret-of-viewer");

/// A running controller.
pub struct IpmiSim {
    port: u16,
    process: Child,
    /// Last, so that the process is gone before its files are.
    dir: TempDir,
}

impl IpmiSim {
    /// With sensors and an inventory.
    pub fn start() -> IpmiSim {
        IpmiSim::start_with_key(None)
    }

    /// The same with a second shared secret.
    pub fn start_with_key(kg_key: Option<&str>) -> IpmiSim {
        installed("ipmi_sim", "openipmi");
        for attempt in 1.. {
            let mut sim = IpmiSim::spawn(kg_key);
            if sim.answers() {
                return sim;
            }
            let log = fs::read_to_string(sim.dir.path().join("log")).unwrap_or_default();
            assert!(attempt < START_ATTEMPTS && sim.has_ended(), "ipmi_sim did not start: {log}");
        }
        unreachable!("the last attempt returns or panics")
    }

    /// How it is reached.
    pub fn settings(&self, user: (&str, &str)) -> Settings {
        settings(self.port, user, &json!({}))
    }

    /// The same with further settings.
    pub fn settings_with(&self, user: (&str, &str), more: &Value) -> Settings {
        settings(self.port, user, more)
    }

    /// What the machine itself says about something, in words of the script.
    pub fn state(&self, name: &str) -> Option<String> {
        Some(fs::read_to_string(self.dir.path().join("state").join(name)).ok()?.trim().to_owned())
    }

    /// Whether the machine itself has power; `None` before anybody set it.
    pub fn power(&self) -> Option<PowerState> {
        match self.state("power").as_deref() {
            Some("1") => Some(PowerState::On),
            Some("0") => Some(PowerState::Off),
            _ => None,
        }
    }

    fn spawn(kg_key: Option<&str>) -> IpmiSim {
        let dir = TempDir::new().expect("a temporary directory");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
        let port = socket.local_addr().expect("a bound socket has an address").port();
        drop(socket);
        let path = |name: &str| dir.path().join(name);
        let write = |name: &str, text: &str| fs::write(path(name), text).expect("the directory is ours");
        for name in ["state", "memory"] {
            fs::create_dir(path(name)).expect("the directory is ours");
        }
        write("chassis", &chassis_script(&path("state")));
        write("lan.conf", &lan_conf(port, &path("chassis"), kg_key));
        write("emulation", &emulation());
        let log = File::create(path("log")).expect("the directory is ours");
        let mut command = Command::new("ipmi_sim");
        command
            .arg("-c")
            .arg(path("lan.conf"))
            .arg("-f")
            .arg(path("emulation"))
            .arg("-s")
            .arg(path("memory"))
            .arg("-n");
        command.stdin(Stdio::null()).stdout(log.try_clone().expect("a file can be shared")).stderr(log);
        IpmiSim { port, process: command.spawn().expect("ipmi_sim runs"), dir }
    }

    /// Asks for the authentication capabilities, which needs no session, until there is an answer or no process.
    fn answers(&mut self) -> bool {
        const ASK: &[u8] =
            b"\x06\x00\xff\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x09\x20\x18\xc8\x81\x00\x38\x8e\x04\xb5";
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout that is not zero");
        let begun = Instant::now();
        while begun.elapsed() < START_MAX && !self.has_ended() {
            socket.send_to(ASK, SocketAddr::from(([127, 0, 0, 1], self.port))).expect("loopback takes a packet");
            if socket.recv(&mut [0; 256]).is_ok() {
                return true;
            }
        }
        false
    }

    fn has_ended(&mut self) -> bool {
        self.process.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for IpmiSim {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Settings for a controller on this port of loopback.
pub fn settings(port: u16, (user, password): (&str, &str), more: &Value) -> Settings {
    let mut values = json!({"ipmi_address": "127.0.0.1", "ipmi_port": port, "ipmi_username": user});
    for (key, value) in more.as_object().expect("settings are an object") {
        values[key] = value.clone();
    }
    let Value::Object(values) = values else { unreachable!("it was made as an object") };
    Settings {
        values: values.into_iter().collect(),
        secrets: [("ipmi_password".to_owned(), Secret::new(password))].into(),
        machine: "lab-1".to_owned(),
    }
}

/// Where a program is that a test needs; says loudly what to install when it is not there.
pub fn installed(program: &str, package: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("this test needs `{program}` in PATH: install the Debian package {package}"))
}

fn lan_conf(port: u16, chassis: &Path, kg_key: Option<&str>) -> String {
    let key = kg_key.map(|key| format!("    bmc_key \"{key}\"\n")).unwrap_or_default();
    let user = |id: u8, (name, password): (&str, &str), level: &str| {
        format!("  user {id} true \"{name}\" \"{password}\" {level} 10 none md2 md5 straight\n")
    };
    let auths = ["callback", "user", "operator", "admin"];
    let auths: String = auths.map(|level| format!("    allowed_auths_{level} none md2 md5 straight\n")).concat();
    format!(
        "name \"lab-1\"\nset_working_mc 0x20\n  startlan 1\n    addr 127.0.0.1 {port}\n    priv_limit admin\n{auths}{key}    \
         guid 33221100554477668899aabbccddeeff\n  endlan\n  chassis_control \"sh {}\"\n{}{}",
        chassis.display(),
        user(2, ADMIN, "admin"),
        user(3, VIEWER, "user"),
    )
}

/// Called with `get power`, `get boot`, `set power 1` and the like. A slow script makes the client send again, so that doing
/// something twice has to be the same as doing it once.
fn chassis_script(state: &Path) -> String {
    let script = r#"cd STATE || exit 1
case "$1 $2" in
"get power") echo "power:$(cat power 2> /dev/null || echo 0)" ;;
"get boot") echo "boot:$(cat boot 2> /dev/null || echo default)" ;;
"set power" | "set boot") echo "$3" > "$2" ;;
"set shutdown") echo 0 > power; echo asked > shutdown ;;
"set reset") echo asked > reset ;;
esac
"#;
    script.replace("STATE", &state.display().to_string())
}

/// What the machine is made of: four sensors and an inventory, in the bytes of the IPMI standard.
fn emulation() -> String {
    // Number, kind, unit, factor, its power of ten, raw reading.
    let sensors: [(u8, u8, u8, u8, u8, u8, &str); 4] = [
        (1, 1, 1, 1, 0, 42, "CPU Temp"),
        (2, 4, 18, 60, 0, 50, "Fan 1"),
        (3, 2, 4, 6, 0xe, 200, "12V"),
        (4, 9, 6, 4, 0, 60, "PSU Power"),
    ];
    let mut text =
        "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\nsel_enable 0x20 1000 0x0a\n"
            .to_owned();
    for (number, kind, unit, factor, exponent, _, name) in sensors {
        let mut rest =
            vec![0x20, 0, number, 7, 1, 0x7f, 0x68, kind, 1, 0, 0, 0, 0, 0, 0, 0, unit, 0, 0, factor, 0, 0, 0, 0];
        rest.extend([exponent << 4, 0, 0, 0, 0, 255, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0]);
        rest.extend(field(name));
        let header = [number, 0, 0x51, 1, u8::try_from(rest.len()).expect("a record is short")];
        text.push_str(&format!("main_sdr_add 0x20{}\n", bytes(&[header.as_slice(), &rest].concat())));
    }
    for (number, kind, _, _, _, reading, _) in sensors {
        text.push_str(&format!("sensor_add 0x20 0 {number} {kind} 1\nsensor_set_value 0x20 0 {number} {reading} 0\n"));
    }
    let mut product = vec![1, 0, 25];
    product.extend(["Lab", "Node", "PN-1", "1", "SRV-0001", "", ""].iter().flat_map(|member| field(member)));
    product.push(0xc1);
    while product.len() % 8 != 7 {
        product.push(0);
    }
    product[1] = u8::try_from(product.len() / 8 + 1).expect("an area is short");
    let fru = [closed(vec![1, 0, 0, 0, 1, 0, 0]), closed(product)].concat();
    text.push_str(&format!("mc_add_fru_data 0x20 0 {} data{}\nmc_enable 0x20\n", fru.len(), bytes(&fru)));
    text
}

/// A text with its kind and length in front.
fn field(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("a member is short");
    [&[0xc0 | length], text.as_bytes()].concat()
}

/// With the byte that makes the sum zero.
fn closed(mut area: Vec<u8>) -> Vec<u8> {
    let sum = area.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    area.push(sum.wrapping_neg());
    area
}

fn bytes(list: &[u8]) -> String {
    list.iter().map(|byte| format!(" {byte:#04x}")).collect()
}
