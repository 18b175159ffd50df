//! Which certificates of controllers are believed. On by default, with the certificates of the system; a site's own CA, or the very
//! certificate of a controller, can be named instead; switching it off has to be written down.

use std::{fs, path::Path, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::limits::{CA_BYTES_MAX, CA_FILES_MAX};
use crate::DriverError;

const KEY: &str = "redfish_verify_ca";

/// Which certificates are believed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Trust {
    /// Those of the system's authorities.
    System,
    /// Those of these authorities, and these certificates themselves.
    Only(Arc<Vec<CertificateDer<'static>>>),
    /// Every one. Anybody on the way can read the password.
    Everything,
}

/// The oldest version of TLS that is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MinimumVersion {
    /// 1.2, the oldest the TLS library has.
    Tls12,
    /// 1.3.
    Tls13,
}

impl MinimumVersion {
    /// Reads `redfish_tls_minimum_version`.
    pub fn read(written: Option<&str>) -> Result<MinimumVersion, DriverError> {
        match written {
            None | Some("1.2") => Ok(MinimumVersion::Tls12),
            Some("1.3") => Ok(MinimumVersion::Tls13),
            Some(_) => {
                let reason = "must be 1.2 or 1.3; older versions of TLS are not spoken";
                Err(DriverError::settings("redfish_tls_minimum_version", reason))
            }
        }
    }
}

impl Trust {
    /// Reads `redfish_verify_ca`: absent or true, false, or the path of a file or directory of certificates.
    pub fn read(written: Option<&Value>) -> Result<Trust, DriverError> {
        match written {
            None | Some(Value::Null | Value::Bool(true)) => Ok(Trust::System),
            Some(Value::Bool(false)) => Ok(Trust::Everything),
            Some(Value::String(text)) => match text.to_ascii_lowercase().as_str() {
                "true" => Ok(Trust::System),
                "false" => Ok(Trust::Everything),
                _ => certificates(Path::new(text)).map(|found| Trust::Only(Arc::new(found))),
            },
            Some(_) => Err(DriverError::settings(KEY, "must be true, false, or the path of CA certificates")),
        }
    }

    /// Tells one trust from another without holding its certificates.
    pub fn digest(&self) -> String {
        match self {
            Trust::System => "system".to_owned(),
            Trust::Everything => "everything".to_owned(),
            Trust::Only(certificates) => {
                let mut digest = Sha256::new();
                certificates.iter().for_each(|certificate| digest.update(Sha256::digest(certificate)));
                hex::encode(digest.finalize())
            }
        }
    }

    /// What the HTTP client needs.
    pub fn client_config(&self, minimum: MinimumVersion) -> Result<ClientConfig, DriverError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = self.verifier(&provider)?;
        let versions: &[_] = match minimum {
            MinimumVersion::Tls12 => &[&rustls::version::TLS13, &rustls::version::TLS12],
            MinimumVersion::Tls13 => &[&rustls::version::TLS13],
        };
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
        let builder = builder.map_err(|error| DriverError::settings(KEY, error.to_string()))?;
        Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, DriverError> {
        let unusable = |error: String| DriverError::settings(KEY, error);
        match self {
            Trust::System => {
                let verifier = rustls_platform_verifier::Verifier::new(provider.clone());
                let no_roots =
                    |e| unusable(format!("is true, but the CA certificates of this system cannot be used: {e}"));
                Ok(Arc::new(verifier.map_err(no_roots)?))
            }
            Trust::Only(certificates) => {
                let mut roots = RootCertStore::empty();
                let (usable, _unusable) = roots.add_parsable_certificates(certificates.iter().cloned());
                if usable == 0 {
                    return Err(unusable("names no certificate that can be used".to_owned()));
                }
                let by_authority =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
                let by_authority = by_authority.map_err(|e| unusable(e.to_string()))?;
                Ok(Arc::new(Pinned { certificates: certificates.clone(), by_authority }))
            }
            Trust::Everything => Ok(Arc::new(Anything(provider.clone()))),
        }
    }
}

/// Why a certificate is not believed, for operators.
pub fn untrusted_reason(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => "it is not issued by an authority that redfish_verify_ca trusts".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "it is not valid yet".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is not valid for the host of redfish_address".to_owned()
        }
        CertificateError::Revoked => "it is revoked".to_owned(),
        other => other.to_string(),
    }
}

/// The certificates of a PEM file, or of all PEM files of a directory.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, DriverError> {
    let unusable = |reason: String| DriverError::settings(KEY, reason);
    let cannot = |error: std::io::Error| unusable(format!("{} cannot be read: {error}", path.display()));
    let mut left = CA_BYTES_MAX;
    let mut found = Vec::new();
    if fs::metadata(path).map_err(cannot)?.is_dir() {
        let mut files =
            fs::read_dir(path).map_err(cannot)?.take(CA_FILES_MAX).collect::<Result<Vec<_>, _>>().map_err(cannot)?;
        // The same order each time, so that the same directory is the same trust.
        files.sort_by_key(fs::DirEntry::file_name);
        for file in files.iter().filter(|file| file.path().is_file()) {
            found.extend(pem(&file.path(), &mut left).map_err(cannot)?);
        }
    } else {
        found = pem(path, &mut left).map_err(cannot)?;
    }
    // Hashed directories of OpenSSL hold each certificate twice.
    found.sort_by(|a, b| a.as_ref().cmp(b.as_ref()));
    found.dedup();
    if found.is_empty() {
        return Err(unusable(format!("{} holds no certificate in PEM form", path.display())));
    }
    Ok(found)
}

fn pem(path: &Path, left: &mut u64) -> std::io::Result<Vec<CertificateDer<'static>>> {
    let size = fs::metadata(path)?.len();
    *left = left.checked_sub(size).ok_or_else(|| std::io::Error::other("too large for CA certificates"))?;
    let text = fs::read(path)?;
    Ok(CertificateDer::pem_slice_iter(&text).filter_map(Result::ok).collect())
}

/// Believes a certificate that was named itself, and those of the named authorities. The first matters because most controllers come
/// with a self-signed certificate that names neither its address nor a proper use; whoever holds its key is the one that was meant.
#[derive(Debug)]
struct Pinned {
    certificates: Arc<Vec<CertificateDer<'static>>>,
    by_authority: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.certificates.iter().any(|known| known.as_ref() == end_entity.as_ref()) {
            return Ok(ServerCertVerified::assertion());
        }
        self.by_authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

/// Believes every certificate, because an operator wrote `redfish_verify_ca: false`.
#[derive(Debug)]
struct Anything(Arc<CryptoProvider>);

impl ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
