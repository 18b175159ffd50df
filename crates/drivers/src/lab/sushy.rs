//! sushy-emulator: a Redfish service that is not ours, with TLS and user names, over machines it only pretends to have. Their power
//! really changes in it, some seconds after it was told to.

use std::{
    env,
    fmt::Write as _,
    fs::{self, File},
    io::Write as _,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

use crate::{Secret, Settings};

/// The name that is accepted.
pub const USER: &str = "admin";

/// The password that is accepted.
pub const PASSWORD: &str = "open sesame 42";

/// How long it may take to answer. Two seconds are usual; a loaded machine takes longer.
const START_MAX: Duration = Duration::from_secs(60);

/// Somebody else may take the port between choosing and using it; then another is tried.
const START_ATTEMPTS: usize = 5;

/// A machine to pretend.
#[derive(Debug, Clone)]
pub struct System {
    /// Its name in paths.
    pub uuid: String,
    /// Its only network interface.
    pub mac: String,
    /// Leaves out what the emulator needs to describe the machine: it then answers 500 whenever it is asked for it.
    pub is_broken: bool,
}

impl System {
    /// A sound machine; each number makes another one.
    pub fn numbered(number: u8) -> System {
        System {
            uuid: format!("11111111-2222-3333-4444-5555555555{number:02x}"),
            mac: format!("00:5c:52:31:3a:{number:02x}"),
            is_broken: false,
        }
    }

    /// Its path.
    pub fn path(&self) -> String {
        format!("/redfish/v1/Systems/{}", self.uuid)
    }
}

/// A running emulator; killed when dropped.
pub struct Sushy {
    process: Child,
    port: u16,
    systems: Vec<System>,
    /// Last, so that the process is gone before its files are.
    dir: TempDir,
}

impl Sushy {
    /// Starts it with these machines, all switched off, and waits until it answers.
    pub fn start(systems: &[System]) -> Sushy {
        let python = super::program("python");
        for attempt in 1.. {
            let mut sushy = Sushy::spawn(&python, systems);
            match sushy.wait_ready() {
                Ok(()) => return sushy,
                Err(_) if attempt < START_ATTEMPTS && sushy.has_exited() => {}
                Err(problem) => panic!("sushy-emulator did not start: {problem}\n{}", sushy.log()),
            }
        }
        unreachable!("the last attempt returns or panics")
    }

    /// Its address.
    pub fn address(&self) -> String {
        format!("https://{}:{}", Ipv4Addr::LOCALHOST, self.port)
    }

    /// The certificate of the authority that issued its certificate.
    pub fn ca(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// What the driver needs to reach one of the machines.
    pub fn settings(&self, system: &System) -> Settings {
        let values = [
            ("redfish_address", self.address()),
            ("redfish_system_id", system.path()),
            ("redfish_username", USER.to_owned()),
            ("redfish_verify_ca", self.ca().display().to_string()),
        ];
        Settings {
            values: values.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect(),
            secrets: [("redfish_password".to_owned(), Secret::new(PASSWORD))].into(),
            machine: system.uuid.clone(),
        }
    }

    /// A resource as another client sees it: curl, which shares no code with ours.
    pub fn look(&self, path: &str) -> serde_json::Value {
        let output = self.curl(path, true);
        assert!(output.status.success(), "curl {path}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("the emulator answers with JSON")
    }

    /// What the emulator printed.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn spawn(python: &Path, systems: &[System]) -> Sushy {
        let dir = TempDir::new().expect("a temporary directory");
        write_certificates(dir.path());
        let auth = dir.path().join("htpasswd");
        fs::write(&auth, format!("{USER}:{}\n", hashed(python, PASSWORD))).expect("the directory is ours");
        fs::create_dir(dir.path().join("state")).expect("the directory is ours");
        fs::write(dir.path().join("sushy.conf"), configuration(dir.path(), systems)).expect("the directory is ours");
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let port = free.expect("loopback has a free port").port();
        let log = File::create(dir.path().join("log")).expect("the directory is ours");
        let errors = log.try_clone().expect("a file can be shared");
        let mut command = Command::new(super::program("sushy-emulator"));
        // Settings of the machine must not leak into the test.
        env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("SUSHY_")).for_each(|(name, _)| {
            command.env_remove(name);
        });
        command.arg("--fake").arg("--config").arg(dir.path().join("sushy.conf"));
        command.args(["--interface", "127.0.0.1", "--port", &port.to_string()]);
        command.arg("--ssl-certificate").arg(dir.path().join("cert.pem"));
        command.arg("--ssl-key").arg(dir.path().join("key.pem"));
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let process = command.spawn().expect("sushy-emulator is installed beside its Python");
        Sushy { process, port, systems: systems.to_vec(), dir }
    }

    fn wait_ready(&mut self) -> Result<(), String> {
        let sound = self.systems.iter().find(|system| !system.is_broken).map(System::path);
        let path = sound.unwrap_or_else(|| "/redfish/v1/Systems".to_owned());
        let begun = Instant::now();
        loop {
            if self.has_exited() {
                return Err("it exited".to_owned());
            }
            // The pause between two looks is curl's own: it waits a moment before it tries to connect again.
            let look = self.curl(&path, false);
            if look.status.success() {
                return Ok(());
            }
            if begun.elapsed() > START_MAX {
                return Err(format!("no answer within {START_MAX:?}: {}", String::from_utf8_lossy(&look.stderr)));
            }
        }
    }

    fn has_exited(&mut self) -> bool {
        self.process.try_wait().is_ok_and(|status| status.is_some())
    }

    /// The password goes through standard input: arguments can be read by everybody on the machine.
    fn curl(&self, path: &str, once: bool) -> Output {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--fail", "--max-time", "30", "--noproxy", "*", "--config", "-"]);
        if !once {
            command.args(["--retry", "1", "--retry-delay", "1", "--retry-connrefused"]);
        }
        command.arg("--cacert").arg(self.ca()).arg(format!("{}{path}", self.address()));
        let mut curl = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("this test needs `curl` in PATH: `cargo xtask ci setup` installs it");
        let mut input = curl.stdin.take().expect("it was asked for");
        input.write_all(format!("user = \"{USER}:{PASSWORD}\"\n").as_bytes()).expect("curl reads its configuration");
        drop(input);
        curl.wait_with_output().expect("curl ends")
    }
}

impl Drop for Sushy {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The only kind of hash the emulator reads is bcrypt; its own environment can make one.
fn hashed(python: &Path, password: &str) -> String {
    // Few rounds: it is computed anew for every request.
    let program = "import bcrypt, sys; print(bcrypt.hashpw(sys.stdin.buffer.read(), bcrypt.gensalt(4)).decode())";
    let mut child = Command::new(python)
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python of the lab runs");
    let mut input = child.stdin.take().expect("it was asked for");
    input.write_all(password.as_bytes()).expect("Python reads the password");
    drop(input);
    let output = child.wait_with_output().expect("Python ends");
    assert!(output.status.success(), "bcrypt of the lab failed");
    String::from_utf8(output.stdout).expect("a hash is text").trim().to_owned()
}

fn configuration(dir: &Path, systems: &[System]) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        writeln!(text, "SUSHY_EMULATOR_{name} = {value}").expect("writing to a string works");
    };
    line("STATE_DIR", &format!("{:?}", dir.join("state")));
    line("AUTH_FILE", &format!("{:?}", dir.join("htpasswd")));
    let system = |system: &System| {
        let power = if system.is_broken { "" } else { "'power_state': 'Off', " };
        let System { uuid, mac, is_broken: _ } = system;
        format!(
            "{{'uuid': '{uuid}', 'name': 'machine-{uuid}', {power}'nics': [{{'mac': '{mac}', 'ip': '192.0.2.1'}}]}}"
        )
    };
    line("FAKE_SYSTEMS", &format!("[{}]", systems.iter().map(system).collect::<Vec<_>>().join(", ")));
    text
}

/// Writes `ca.pem`, `cert.pem` and `key.pem` for loopback.
fn write_certificates(dir: &Path) {
    let mut params = CertificateParams::new(Vec::new()).expect("no names are fine");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // Without a name of its own it would look as if the other certificate had issued itself.
    params.distinguished_name.push(DnType::CommonName, "authority of the lab");
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("a CA");
    let key = KeyPair::generate().expect("a key");
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let cert = CertificateParams::new(names).and_then(|params| params.signed_by(&key, &ca)).expect("a certificate");
    let write = |name: &str, text: &str| fs::write(dir.join(name), text).expect("the directory is ours");
    write("ca.pem", &ca.pem());
    write("cert.pem", &cert.pem());
    write("key.pem", &key.serialize_pem());
}
