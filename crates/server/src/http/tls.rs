//! The certificate of the HTTPS listener: the one given, or one made at first start and kept in the data directory. Replaced files
//! are taken up while the server runs; a pair that cannot be used never replaces one that can.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use arc_swap::ArcSwap;
use rustls::{
    ServerConfig,
    crypto::CryptoProvider,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use sabakan_service::error_chain;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Where the certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsSource {
    /// Files of the operator.
    Files {
        /// Certificate chain, PEM.
        cert: PathBuf,
        /// Private key, PEM.
        key: PathBuf,
    },
    /// Made at first start in this directory.
    MadeIn(PathBuf),
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read or written.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{path} holds no usable PEM: {reason}")]
    Pem {
        /// The file.
        path: PathBuf,
        /// What is wrong; never its content.
        reason: String,
    },
    /// Certificate and key do not belong together, or are of a kind TLS cannot use.
    #[error("{cert} and {key} cannot be used together")]
    Pair {
        /// The certificate.
        cert: PathBuf,
        /// The key.
        key: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// No certificate could be made.
    #[error("cannot make a certificate")]
    Make(#[from] rcgen::Error),
}

/// Answers handshakes with the certificate that was loaded last. Connections made before a change keep the one they began with.
#[derive(Debug)]
pub struct CertificateReloader {
    cert: PathBuf,
    key: PathBuf,
    provider: Arc<CryptoProvider>,
    current: ArcSwap<CertifiedKey>,
    at_start: Stamps,
}

/// What shows that a file is another one, without reading it. The inode tells files that were moved here with their old time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
}

/// Of certificate and key; none where there is no file.
type Stamps = [Option<Stamp>; 2];

/// What the last look at the files found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    stamps: Stamps,
    /// Whether these files are what is being served.
    served: bool,
}

/// Loads the certificate, making it first if need be. The reloader is for [`watch_files`].
pub fn load_tls(source: &TlsSource) -> Result<(TlsAcceptor, Arc<CertificateReloader>), TlsError> {
    let (cert, key) = match source {
        TlsSource::Files { cert, key } => (cert.clone(), key.clone()),
        TlsSource::MadeIn(dir) => made_in(dir)?,
    };
    let builder = ServerConfig::builder().with_no_client_auth();
    let reloader = Arc::new(CertificateReloader::new(cert, key, Arc::clone(builder.crypto_provider()))?);
    let mut config = builder.with_cert_resolver(Arc::clone(&reloader) as Arc<dyn ResolvesServerCert>);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), reloader))
}

/// Looks at the files again and again, and at once on SIGHUP, until `stop`; what can be used is served from then on.
///
/// SIGHUP is caught from the call on, not from the first poll: a server that says it is ready must not die of it.
pub fn watch_files(
    reloader: Arc<CertificateReloader>,
    every: Duration,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send {
    let hangup = signal(SignalKind::hangup());
    let hangup = hangup.inspect_err(|error| tracing::warn!(%error, "certificates are not reloaded on SIGHUP")).ok();
    watch(reloader, every, hangup, stop)
}

async fn watch(
    reloader: Arc<CertificateReloader>,
    every: Duration,
    mut hangup: Option<Signal>,
    stop: CancellationToken,
) {
    let mut seen = Seen { stamps: reloader.at_start, served: true };
    loop {
        let asked = tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(every) => false,
            () = received(hangup.as_mut()) => true,
        };
        let looking = Arc::clone(&reloader);
        // The files may be on a file system that does not answer for a while.
        match tokio::task::spawn_blocking(move || looking.look(seen, asked)).await {
            Ok(now) => seen = now,
            Err(error) => tracing::error!(%error, "cannot look at the certificate"),
        }
    }
}

/// Waits for the signal, for ever if it cannot come.
async fn received(signal: Option<&mut Signal>) {
    let came = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if came.is_none() {
        std::future::pending::<()>().await;
    }
}

impl CertificateReloader {
    fn new(cert: PathBuf, key: PathBuf, provider: Arc<CryptoProvider>) -> Result<CertificateReloader, TlsError> {
        // Before they are read: what changes meanwhile is found by the first look.
        let at_start = [stamp(&cert), stamp(&key)];
        let current = ArcSwap::from_pointee(read_pair(&cert, &key, &provider)?);
        Ok(CertificateReloader { cert, key, provider, current, at_start })
    }

    /// Takes up the files if they are others than `before`, or if somebody asked.
    fn look(&self, before: Seen, asked: bool) -> Seen {
        let stamps = [stamp(&self.cert), stamp(&self.key)];
        let changed = stamps != before.stamps;
        // A pair that could not be used is tried again even if it looks the same: it was perhaps being written within one tick of
        // the file system's clock.
        if !changed && before.served && !asked {
            return before;
        }
        match read_pair(&self.cert, &self.key, &self.provider) {
            Ok(pair) => {
                self.current.store(Arc::new(pair));
                tracing::info!(path = %self.cert.display(), "certificate reloaded");
                Seen { stamps, served: true }
            }
            Err(error) => {
                // Once for each change, not at every look.
                if changed || asked {
                    let error = error_chain(&error);
                    tracing::warn!(error, "cannot use the changed certificate, serving the one before");
                }
                Seen { stamps, served: false }
            }
        }
    }
}

impl ResolvesServerCert for CertificateReloader {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = fs::metadata(path).ok()?;
    Some(Stamp { inode: meta.ino(), bytes: meta.len(), modified: (meta.mtime(), meta.mtime_nsec()) })
}

/// Reads both and checks that they belong together.
fn read_pair(cert: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let chain = read_certificates(cert)?;
    let private = PrivateKeyDer::from_pem_file(key).map_err(|error| pem_error(key, error))?;
    let pair = CertifiedKey::from_der(chain, private, provider);
    pair.map_err(|source| TlsError::Pair { cert: cert.to_owned(), key: key.to_owned(), source })
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| pem_error(path, error))?;
    certificates.collect::<Result<_, _>>().map_err(|error| pem_error(path, error))
}

fn pem_error(path: &Path, error: rustls_pki_types::pem::Error) -> TlsError {
    match error {
        rustls_pki_types::pem::Error::Io(source) => TlsError::File { path: path.to_owned(), source },
        other => TlsError::Pem { path: path.to_owned(), reason: other.to_string() },
    }
}

/// The pair in the data directory. Made once: clients may have pinned it.
fn made_in(dir: &Path) -> Result<(PathBuf, PathBuf), TlsError> {
    let (cert, key) = (dir.join("server.crt"), dir.join("server.key"));
    if cert.exists() && key.exists() {
        return Ok((cert, key));
    }
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    names.extend(Some(hostname.trim().to_owned()).filter(|name| !name.is_empty()));
    let made = rcgen::generate_simple_self_signed(names)?;
    // The certificate last: with it there, the key is complete.
    write(&key, made.signing_key.serialize_pem().as_bytes(), 0o600)?;
    write(&cert, made.cert.pem().as_bytes(), 0o644)?;
    tracing::info!(path = %cert.display(), "made a self-signed certificate for the https listener");
    Ok((cert, key))
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), TlsError> {
    let put = || -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    };
    put().map_err(|source| TlsError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Files {
        dir: tempfile::TempDir,
    }

    impl Files {
        fn cert(&self) -> PathBuf {
            self.dir.path().join("a.crt")
        }

        fn key(&self) -> PathBuf {
            self.dir.path().join("a.key")
        }

        fn put(&self, pair: &Pair) {
            fs::write(self.cert(), &pair.cert).expect("written");
            fs::write(self.key(), &pair.key).expect("written");
        }
    }

    struct Pair {
        cert: String,
        key: String,
        der: CertificateDer<'static>,
    }

    fn pair() -> Pair {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        Pair { cert: made.cert.pem(), key: made.signing_key.serialize_pem(), der: made.cert.der().clone() }
    }

    fn started(pair: &Pair) -> (Files, CertificateReloader, Seen) {
        let files = Files { dir: tempfile::tempdir().expect("a directory") };
        files.put(pair);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let reloader = CertificateReloader::new(files.cert(), files.key(), provider).expect("a pair");
        let seen = Seen { stamps: reloader.at_start, served: true };
        (files, reloader, seen)
    }

    fn served(reloader: &CertificateReloader) -> CertificateDer<'static> {
        reloader.current.load().cert[0].clone()
    }

    #[test]
    fn files_that_stay_the_same_are_not_read_again() {
        let old = pair();
        let (_files, reloader, seen) = started(&old);
        let before = reloader.current.load_full();
        assert_eq!(reloader.look(seen, false), seen);
        assert!(Arc::ptr_eq(&before, &reloader.current.load()));
        assert_eq!(reloader.look(seen, true), seen);
        assert!(!Arc::ptr_eq(&before, &reloader.current.load()), "read again because somebody asked");
    }

    #[test]
    fn a_new_pair_is_served_only_once_both_files_are_there() {
        let (old, new) = (pair(), pair());
        let (files, reloader, seen) = started(&old);
        fs::write(files.cert(), &new.cert).expect("written");
        // The file system's clock may not have moved since the old one was written.
        let file = fs::File::options().append(true).open(files.cert()).expect("opened");
        file.set_modified(std::time::UNIX_EPOCH).expect("set");
        let half = reloader.look(seen, false);
        assert!(!half.served && half.stamps != seen.stamps);
        assert_eq!(served(&reloader), old.der);
        fs::write(files.key(), &new.key).expect("written");
        let whole = reloader.look(half, false);
        assert!(whole.served);
        assert_eq!(served(&reloader), new.der);
    }

    #[test]
    fn a_pair_moved_into_place_is_found_whatever_its_time() {
        let (old, new) = (pair(), pair());
        let (files, reloader, seen) = started(&old);
        let other = Files { dir: tempfile::tempdir_in(files.dir.path()).expect("a directory") };
        other.put(&new);
        for (from, to) in [(other.cert(), files.cert()), (other.key(), files.key())] {
            let time = fs::metadata(&to).and_then(|meta| meta.modified()).expect("a time");
            let file = fs::File::options().append(true).open(&from).expect("opened");
            file.set_modified(time).expect("set");
            fs::rename(&from, &to).expect("moved");
        }
        assert!(reloader.look(seen, false).served);
        assert_eq!(served(&reloader), new.der);
    }

    #[test]
    fn broken_files_change_nothing_and_are_tried_again() {
        let (old, new) = (pair(), pair());
        let (files, reloader, mut seen) = started(&old);
        let cut = &new.cert[..new.cert.len() / 2];
        for content in [Some("garbage"), Some(""), Some(cut), Some(&new.key), None] {
            match content {
                Some(content) => fs::write(files.cert(), content).expect("written"),
                None => fs::remove_file(files.cert()).expect("removed"),
            }
            seen = reloader.look(seen, false);
            assert!(!seen.served, "{content:?}");
            assert_eq!(served(&reloader), old.der, "{content:?}");
        }
        files.put(&new);
        // As if the look before had come in the middle of writing and seen these very stamps.
        let middle = Seen { stamps: [stamp(&files.cert()), stamp(&files.key())], served: false };
        assert!(reloader.look(middle, false).served);
        assert_eq!(served(&reloader), new.der);
    }
}
