//! Which files can be trusted with.

use std::fs;

use super::*;

fn pem() -> String {
    rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem()
}

#[test]
fn files_with_certificates() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.pem");
    let with = |text: &str| {
        fs::write(&path, text).unwrap();
        of_file(&path).map(|certificates| certificates.len())
    };
    assert_eq!(with(&pem()).unwrap(), 1);
    assert_eq!(with(&format!("# one\n{}\n# the other\n{}", pem(), pem())).unwrap(), 2);

    let refused = |text: &str, reason: &str| {
        let expected = format!("no certificates to verify the server with: {}: {reason}", path.display());
        assert_eq!(with(text).unwrap_err().to_string(), expected, "{text}");
    };
    refused("", "it holds no certificate in PEM");
    let key = rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap().signing_key.serialize_pem();
    refused(&key, "it holds no certificate in PEM");
    let odd = format!("{}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", pem());
    refused(&odd, "its certificate 2 cannot be used: invalid peer certificate: BadEncoding");
    let cut = pem();
    let error = with(&cut[..cut.len() / 2]).unwrap_err().to_string();
    assert!(error.contains("ca.pem: it is not PEM: "), "{error}");

    fs::remove_file(&path).unwrap();
    let error = of_file(&path).unwrap_err().to_string();
    assert!(error.ends_with("ca.pem: No such file or directory"), "{error}");
    let error = of_file(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.ends_with("/dev/zero: larger than 16777216 bytes"), "{error}");
}

#[test]
fn the_first_bundle_of_the_system_counts() {
    let directory = tempfile::tempdir().unwrap();
    let name = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (missing, first, second) = (name("missing"), name("first"), name("second"));
    let odd = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    fs::write(&first, format!("{}{odd}", pem())).unwrap();
    fs::write(&second, odd).unwrap();
    assert_eq!(of_system(&[&missing, &first, &second]).unwrap().len(), 1, "what cannot be used is left out");
    let error = of_system(&[&second, &first]).unwrap_err().to_string();
    assert!(error.ends_with("second: it holds no certificate"), "{error}");
    let error = of_system(&[&missing]).unwrap_err().to_string();
    assert_eq!(error, format!("no certificates to verify the server with: this system has none of {missing}"));
}

#[test]
fn a_file_is_read_only_for_https() {
    let options = crate::ClientOptions { trust: Trust::File("/no/such/file".into()), ..Default::default() };
    crate::Client::with_options("http://localhost:8888", &options).unwrap();
    let error = crate::Client::with_options("https://localhost:8443", &options).unwrap_err();
    assert!(matches!(error, Error::Trust { .. }), "{error:?}");
}
