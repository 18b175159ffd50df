//! Whoever belongs to the control plane shows a certificate of its own authority.

use std::{fs, path::Path};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// Writes `ca.crt`, `apiserver.crt` and `.key`, `admin.crt` and `.key`, and `accounts.key` and `.pub`, which sign and check tokens.
pub fn write(directory: &Path) {
    let mut params = CertificateParams::new(Vec::new()).expect("no names are fine");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name.push(DnType::CommonName, "kubelab");
    let authority = CertifiedIssuer::self_signed(params, key()).expect("an authority");
    let put = |name: &str, text: &str| fs::write(directory.join(name), text).expect("the directory is ours");
    put("ca.crt", &authority.pem());
    let accounts = key();
    put("accounts.key", &accounts.serialize_pem());
    put("accounts.pub", &accounts.public_key_pem());
    let issue = |name: &str, mut params: CertificateParams, purpose: ExtendedKeyUsagePurpose| {
        let key = key();
        params.extended_key_usages = vec![purpose];
        params.distinguished_name.push(DnType::CommonName, name);
        put(&format!("{name}.crt"), &params.signed_by(&key, &authority).expect("a certificate").pem());
        put(&format!("{name}.key"), &key.serialize_pem());
    };
    let names = ["localhost", "127.0.0.1", "10.96.0.1", "kubernetes.default.svc"].map(str::to_owned);
    let server = CertificateParams::new(names).expect("names");
    issue("apiserver", server, ExtendedKeyUsagePurpose::ServerAuth);
    let mut admin = CertificateParams::new(Vec::new()).expect("no names are fine");
    // Whoever is in this organisation may do everything.
    admin.distinguished_name.push(DnType::OrganizationName, "system:masters");
    issue("admin", admin, ExtendedKeyUsagePurpose::ClientAuth);
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key")
}
