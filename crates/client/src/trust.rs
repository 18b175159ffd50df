//! Whom we believe that a server is who it says: certificates from files, in PEM. There is no way to believe everybody: whoever can
//! answer in the server's place could, and would be given the token.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::{error::Error, limits};

/// Which certificates are believed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// Those of the authorities that this system trusts.
    #[default]
    System,
    /// Those in this file and no others: of authorities, or of servers themselves.
    File(PathBuf),
}

/// Where systems keep the certificates of the authorities they trust.
const SYSTEM_BUNDLES: [&str; 3] = [
    // Debian, Ubuntu, Alpine, Arch
    "/etc/ssl/certs/ca-certificates.crt",
    // Fedora, RHEL and their relatives
    "/etc/pki/tls/certs/ca-bundle.crt",
    // openSUSE
    "/etc/ssl/ca-bundle.pem",
];

impl Trust {
    /// Reads the certificates. The provider is named here, so that a program that installs none does not panic at its first
    /// connection.
    pub(crate) fn tls_config(&self) -> Result<TlsConfig, Error> {
        let roots = match self {
            Trust::System => of_system(&SYSTEM_BUNDLES)?,
            Trust::File(path) => of_file(path)?,
        };
        let roots: Vec<_> = roots.iter().map(|der| Certificate::from_der(der).to_owned()).collect();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Ok(TlsConfig::builder().root_certs(RootCerts::from(roots)).unversioned_rustls_crypto_provider(provider).build())
    }
}

/// Every certificate of a file somebody named. One that cannot be used is an error: it was put there for a reason.
fn of_file(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let wrong = |reason: String| Error::Trust { reason: format!("{}: {reason}", path.display()) };
    let certificates = certificates(&read(path).map_err(|error| wrong(words(&error)))?).map_err(wrong)?;
    if certificates.is_empty() {
        return Err(wrong("it holds no certificate in PEM".to_owned()));
    }
    for (n, certificate) in certificates.iter().enumerate() {
        usable(certificate).map_err(|reason| wrong(format!("its certificate {} cannot be used: {reason}", n + 1)))?;
    }
    Ok(certificates)
}

/// What can be used of the first bundle there is. Bundles hold old certificates that nobody needs.
fn of_system(bundles: &[&str]) -> Result<Vec<CertificateDer<'static>>, Error> {
    for bundle in bundles {
        let wrong = |reason: String| Error::Trust { reason: format!("{bundle}: {reason}") };
        let bytes = match read(Path::new(bundle)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            read => read.map_err(|error| wrong(words(&error)))?,
        };
        let mut certificates = certificates(&bytes).map_err(wrong)?;
        certificates.retain(|certificate| usable(certificate).is_ok());
        return if certificates.is_empty() {
            Err(wrong("it holds no certificate".to_owned()))
        } else {
            Ok(certificates)
        };
    }
    let reason = format!("this system has none of {}", bundles.join(", "));
    Err(Error::Trust { reason })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limits::CA_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limits::CA_FILE_BYTES_MAX {
        return Err(io::Error::other(format!("larger than {} bytes", limits::CA_FILE_BYTES_MAX)));
    }
    Ok(bytes)
}

/// The words of an error of the operating system, without its number.
pub fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or(&text).to_owned()
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<_, _> = CertificateDer::pem_slice_iter(pem).collect();
    all.map_err(|error| format!("it is not PEM: {error}"))
}

fn usable(certificate: &CertificateDer<'_>) -> Result<(), rustls::Error> {
    RootCertStore::empty().add(certificate.clone().into_owned())
}

#[cfg(test)]
mod tests;
