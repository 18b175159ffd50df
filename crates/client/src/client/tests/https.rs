//! HTTPS against a server that does little else. No test here installs a provider for the process: a program that forgets to must
//! work as well.

use std::{io::Read, path::Path, sync::Arc, thread::JoinHandle};

use rcgen::{CertificateParams, KeyPair};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::CryptoProvider,
    pki_types::{PrivateKeyDer, pem::PemObject},
};
use tempfile::NamedTempFile;

use super::*;
use crate::TlsProblem;

/// A certificate, and the file a client is given to trust it.
struct Identity {
    config: Arc<ServerConfig>,
    file: NamedTempFile,
}

impl Identity {
    fn for_name(name: &str) -> Identity {
        Identity::new(&CertificateParams::new([name.to_owned()]).unwrap())
    }

    fn new(params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(certificate.pem().as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Identity { config: Arc::new(config), file }
    }

    /// Answers one request; gives the URL, and what arrived, which is nothing if there was no handshake.
    fn serve(&self) -> (String, JoinHandle<String>) {
        let config = self.config.clone();
        let (url, server) = fake::serve(move |stream| {
            let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read(&mut byte) {
                    Ok(1) => request.push(byte[0]),
                    _ => return String::new(),
                }
            }
            stream.write_all(b"HTTP/1.1 200 x\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").unwrap();
            String::from_utf8(request).unwrap()
        });
        (url.replace("http://", "https://"), server)
    }
}

fn trusting(url: &str, file: &Path) -> Client {
    let options = ClientOptions {
        token: Some(BearerToken::new("sbk_id_secret")),
        timeout: Duration::from_secs(5),
        trust: Trust::File(file.to_owned()),
        ..ClientOptions::default()
    };
    Client::with_options(url, &options).unwrap()
}

fn problem(client: &Client) -> TlsProblem {
    match client.get_dhcp().unwrap_err() {
        Error::Tls { problem, .. } => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_token_travels_to_a_server_that_is_trusted() {
    let server = Identity::for_name("127.0.0.1");
    let (url, request) = server.serve();
    trusting(&url, server.file.path()).get_dhcp().unwrap();
    assert!(request.join().unwrap().contains("authorization: Bearer sbk_id_secret\r\n"));
    assert!(CryptoProvider::get_default().is_none(), "nobody installed a provider, and nobody needed one");
}

#[test]
fn one_file_may_hold_the_certificates_of_several_servers() {
    let servers = [Identity::for_name("127.0.0.1"), Identity::for_name("127.0.0.1")];
    let mut both = NamedTempFile::new().unwrap();
    for server in &servers {
        both.write_all(&std::fs::read(server.file.path()).unwrap()).unwrap();
    }
    for server in &servers {
        let (url, _request) = server.serve();
        trusting(&url, both.path()).get_dhcp().unwrap();
    }
}

#[test]
fn nothing_is_sent_to_a_server_that_is_not_trusted() {
    let (server, other) = (Identity::for_name("127.0.0.1"), Identity::for_name("127.0.0.1"));
    let (url, request) = server.serve();
    let error = trusting(&url, other.file.path()).get_dhcp().unwrap_err();
    assert_eq!(error.to_string(), format!("no secure connection to {url}: its certificate is not trusted here"));
    assert!(!error.outcome_unknown());
    assert_eq!(request.join().unwrap(), "");
}

#[test]
fn nothing_is_sent_to_another_host() {
    let server = Identity::new(&CertificateParams::new(["boot-0".to_owned(), "10.0.0.1".to_owned()]).unwrap());
    let (url, request) = server.serve();
    let found = problem(&trusting(&url, server.file.path()));
    assert_eq!(found, TlsProblem::WrongName { names: vec!["boot-0".into(), "10.0.0.1".into()] });
    assert_eq!(found.to_string(), "its certificate is for other hosts: boot-0, 10.0.0.1");
    assert_eq!(request.join().unwrap(), "");
}

#[test]
fn certificates_have_their_time() {
    let mut old = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    (old.not_before, old.not_after) = (rcgen::date_time_ymd(2001, 1, 1), rcgen::date_time_ymd(2002, 1, 1));
    let mut new = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    new.not_before = rcgen::date_time_ymd(4000, 1, 1);
    for (params, expected) in [(&old, TlsProblem::Expired), (&new, TlsProblem::NotYetValid)] {
        let server = Identity::new(params);
        let (url, _request) = server.serve();
        assert_eq!(problem(&trusting(&url, server.file.path())), expected);
    }
}

#[test]
fn what_answers_may_not_be_tls() {
    let any = Identity::for_name("127.0.0.1");
    let check = |answer: &'static str, expected: TlsProblem| {
        let (url, _server) = fake::serve(move |stream| {
            let mut hello = [0];
            stream.read_exact(&mut hello).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            // Closing before everything is read would reset the connection, and the answer would be lost.
            let _ = std::io::copy(stream, &mut std::io::sink());
        });
        assert_eq!(problem(&trusting(&url.replace("http://", "https://"), any.file.path())), expected, "{answer}");
    };
    check("HTTP/1.1 400 Bad Request\r\n\r\n", TlsProblem::NotTls);
    check("SSH-2.0-x\r\n", TlsProblem::NotTls);
    check("", TlsProblem::HungUp);
}

#[test]
fn nobody_there_or_nobody_awake() {
    let any = Identity::for_name("127.0.0.1");
    let error = trusting("https://127.0.0.1:1", any.file.path()).get_dhcp().unwrap_err();
    assert_eq!(error.to_string(), "cannot connect to https://127.0.0.1:1: connection refused");

    let (done, wait) = std::sync::mpsc::channel::<()>();
    let (url, _server) = fake::serve(move |_| wait.recv());
    let url = url.replace("http://", "https://");
    let trust = Trust::File(any.file.path().to_owned());
    let options = ClientOptions { timeout: Duration::from_millis(50), trust, ..ClientOptions::default() };
    let error = Client::with_options(&url, &options).unwrap().version().unwrap_err();
    drop(done);
    assert_eq!(error.to_string(), format!("cannot connect to {url}: no answer within 0.05 s"));
    assert!(!error.outcome_unknown());
}

#[test]
fn plain_http_to_a_tls_port_is_an_unexpected_answer() {
    let server = Identity::for_name("127.0.0.1");
    let (url, _request) = server.serve();
    let url = url.replace("https://", "http://");
    let error = Client::new(&url).unwrap().get_dhcp().unwrap_err().to_string();
    assert!(error.starts_with(&format!("unexpected answer from {url}: it is not HTTP")), "{error}");
}

#[test]
fn a_token_does_not_leave_the_host_in_the_clear() {
    let options = ClientOptions { token: Some(BearerToken::new("sbk_id_secret")), ..ClientOptions::default() };
    let error = Client::with_options("http://192.0.2.1:1", &options).unwrap_err();
    assert!(matches!(error, Error::Exposed { what: "a token", .. }), "{error:?}");
    assert!(!error.to_string().contains("secret"), "{error}");
}
