//! The certificate of the HTTPS listener while the program runs: replaced, broken, asked for by signal.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use rustls_pki_types::CertificateDer;
use sabakan_testkit::{
    process::{Process, run},
    wait_for,
};
use tempfile::TempDir;

use crate::SABAKAN;

/// Several looks at the files, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A certificate for localhost, trusted by whoever has the file.
struct Pair {
    cert: String,
    key: String,
    der: CertificateDer<'static>,
    /// For `--cacert`: the program's own files change, this one does not.
    ca: PathBuf,
}

impl Pair {
    fn make(dir: &TempDir, name: &str) -> Pair {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
        let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let ca = dir.path().join(format!("{name}-ca.crt"));
        fs::write(&ca, &cert).expect("written");
        Pair { cert, key, der: made.cert.der().clone(), ca }
    }
}

/// The program with files of its operator.
struct Served {
    process: Process,
    cert: PathBuf,
    key: PathBuf,
}

impl Served {
    fn start(dir: &TempDir, pair: &Pair) -> Served {
        let (cert, key) = (dir.path().join("server.crt"), dir.path().join("server.key"));
        put(&cert, &key, pair);
        let flags = ["--server-cert".as_ref(), cert.as_os_str(), "--server-key".as_ref(), key.as_os_str()];
        let process = Process::start(SABAKAN, &dir.path().join("data"), flags);
        Served { process, cert, key }
    }

    /// Whether a client that trusts this file alone gets an answer over a new connection.
    fn is_trusted_by(&self, ca: &Path) -> bool {
        let url = format!("https://{}/version", self.process.address("https"));
        let answer = run("curl", ["--silent", "--cacert", ca.to_str().expect("UTF-8"), &url]);
        // 60: the certificate is not one of ours. Anything else is another fault and must not pass for it.
        assert!(matches!(answer.status.code(), Some(0 | 60)), "{:?}\n{}", answer.status, self.process.log());
        answer.status.success()
    }

    fn hang_up(&self) {
        let sent = Command::new("kill").args(["-HUP", &self.process.id().to_string()]).status().expect("kill runs");
        assert!(sent.success(), "the signal was not sent");
    }

    fn times_logged(&self, message: &str) -> usize {
        self.process.log().lines().filter(|line| line.contains(message)).count()
    }
}

fn put(cert: &Path, key: &Path, pair: &Pair) {
    fs::write(cert, &pair.cert).expect("written");
    fs::write(key, &pair.key).expect("written");
}

/// A connection that stays open between requests.
struct KeptAlive(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl KeptAlive {
    fn open(address: &str, trusted: &CertificateDer<'static>) -> KeptAlive {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = "localhost".try_into().expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("a connection");
        let socket = TcpStream::connect(address).expect("connected");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        KeptAlive(BufReader::new(StreamOwned::new(connection, socket)))
    }

    /// One request and its whole answer; `None` when the connection was closed.
    fn version(&mut self) -> Option<String> {
        let stream = self.0.get_mut();
        stream.write_all(b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
        let mut bytes_expected = 0;
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(length) = line.to_lowercase().strip_prefix("content-length:") {
                bytes_expected = length.trim().parse().expect("a length");
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; bytes_expected];
        self.0.read_exact(&mut body).ok()?;
        Some(String::from_utf8(body).expect("UTF-8"))
    }
}

#[test]
fn a_replaced_certificate_is_served_and_a_broken_one_is_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let (old, new) = (Pair::make(&dir, "old"), Pair::make(&dir, "new"));
    let served = Served::start(&dir, &old);
    assert!(served.is_trusted_by(&old.ca) && !served.is_trusted_by(&new.ca));
    let mut open = KeptAlive::open(&served.process.address("https"), &old.der);
    let version = open.version().expect("an answer");
    assert!(version.contains("version"), "{version}");

    put(&served.cert, &served.key, &new);
    wait_for("the new certificate", PATIENCE, || served.is_trusted_by(&new.ca).then_some(()));
    assert!(!served.is_trusted_by(&old.ca), "the old one is not served to new connections");
    assert_eq!(open.version().as_ref(), Some(&version), "the open connection goes on");

    let refused = "cannot use the changed certificate";
    let before = served.times_logged(refused);
    fs::write(&served.cert, "garbage").expect("written");
    wait_for("the refusal", PATIENCE, || (served.times_logged(refused) > before).then_some(()));
    assert!(served.is_trusted_by(&new.ca), "the last good one is served");
    assert_eq!(open.version().as_ref(), Some(&version), "the open connection goes on");

    put(&served.cert, &served.key, &old);
    wait_for("the repaired certificate", PATIENCE, || served.is_trusted_by(&old.ca).then_some(()));
}

#[test]
fn sighup_reads_the_certificate_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let pair = Pair::make(&dir, "only");
    let served = Served::start(&dir, &pair);
    let reloaded = "certificate reloaded";
    assert_eq!(served.times_logged(reloaded), 0);
    // Nothing changed, so that only the signal can be the reason.
    served.hang_up();
    wait_for("the reload", PATIENCE, || (served.times_logged(reloaded) == 1).then_some(()));
    assert!(served.is_trusted_by(&pair.ca), "it goes on serving");
}
