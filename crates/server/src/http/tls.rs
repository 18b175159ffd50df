//! The certificate of the HTTPS listener: the one given, or one made at first start and kept in the data directory.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio_rustls::TlsAcceptor;

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

/// Loads the certificate, making it first if need be.
pub fn load_tls(source: &TlsSource) -> Result<TlsAcceptor, TlsError> {
    let (cert, key) = match source {
        TlsSource::Files { cert, key } => (cert.clone(), key.clone()),
        TlsSource::MadeIn(dir) => made_in(dir)?,
    };
    let chain = read_certificates(&cert)?;
    let private = PrivateKeyDer::from_pem_file(&key).map_err(|error| pem_error(&key, error))?;
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(|source| TlsError::Pair { cert, key, source })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
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
