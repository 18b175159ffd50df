//! The program over HTTPS, against a real server. It installs no TLS provider of its own, and must not miss one.

use sabakan_testkit::{Backend, TestServer, fixtures};

use crate::program::{Outcome, command, outcome, sabactl};

fn started() -> TestServer {
    TestServer::start_with(Backend::Embedded, |config| config.https = vec!["0.0.0.0:0".parse().unwrap()])
}

#[test]
fn disk_keys_are_deleted_over_https() {
    let server = started();
    server.client().put_ipam(&fixtures::ipam()).unwrap();
    server.client().create_machines(&fixtures::workers(2, 0)).unwrap();
    let url = server.https_url("localhost");
    let certificate = server.certificate().to_str().unwrap().to_owned();
    let run = |args: &[&str]| {
        let common = ["--server", &url, "--ca-file", &certificate];
        let Outcome { code, stdout, stderr } = sabactl(common.into_iter().chain(args.iter().copied()), "");
        assert_eq!((code, stderr.as_str()), (0, ""), "{args:?}");
        stdout
    };
    let token = server.dir().path().join("token");
    std::fs::write(&token, run(&["tokens", "create", "--role", "operator", "alice"])).unwrap();
    let token = token.to_str().unwrap();
    let (one, two) = ("w00000-000000", "w00000-000001");
    for serial in [one, two] {
        run(&["--token-file", token, "machines", "set-state", "--force", serial, "retiring"]);
    }
    run(&["--token-file", token, "crypts", "delete", "--force", one]);
    assert_eq!(run(&["machines", "get-state", one]), "retired\n");

    // The older program had a second URL for this. Its scripts also give --insecure, which nobody obeys.
    let args =
        ["--server", "http://127.0.0.1:1", "--tls-server", &url, "--insecure", "crypts", "delete", "--force", two];
    let deleted = outcome(command(args).env("SABAKAN_CA_FILE", &certificate));
    assert_eq!(deleted.code, 0, "{}", deleted.stderr);
    assert!(deleted.stderr.starts_with("--insecure has no effect"), "{}", deleted.stderr);
    assert_eq!(run(&["machines", "get-state", two]), "retired\n");
}

#[test]
fn what_is_wrong_is_told_apart() {
    let (server, other) = (started(), started());
    let url = server.https_url("localhost");
    let (own, others) = (server.certificate(), other.certificate());
    let check = |url: &str, file: &std::path::Path, text: &str, hint: &str| {
        let outcome = sabactl(["--server", url, "--ca-file", file.to_str().unwrap(), "machines", "get"], "");
        assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""), "{url}");
        let (first, rest) = outcome.stderr.split_once('\n').unwrap();
        assert!(first.starts_with(&format!("Error: {text}")), "{first}");
        assert!(rest.contains(hint), "{rest}");
    };
    let none = format!("no secure connection to {url}: ");
    check(&url, &others, &format!("{none}its certificate is not trusted here"), "as server.crt");
    let wrong = server.https_url("127.0.0.2");
    let names = "its certificate is for other hosts: localhost, 127.0.0.1, ::1";
    check(&wrong, &own, &format!("no secure connection to {wrong}: {names}"), "as its certificate does");
    // A port of a service that has not been in use for decades.
    let nobody = "https://127.0.0.1:1";
    check(nobody, &own, &format!("cannot connect to {nobody}: connection refused"), "Is the server running?");
    let plain = server.url().replace("http://", "https://");
    check(&plain, &own, &format!("no secure connection to {plain}: what answers there is not TLS"), "port 8443");
    check(&url.replace("https://", "http://"), &own, "unexpected answer", "write https://");
    let missing = std::path::Path::new("/no/such/file");
    let text = "no certificates to verify the server with: /no/such/file: No such file or directory";
    check(&url, missing, text, "--ca-file");
}

#[test]
fn a_token_is_not_sent_in_the_clear() {
    let refused = outcome(command(["--server", "http://boot-0:8888", "logs"]).env("SABAKAN_TOKEN", "sbk_id_secret"));
    let text = "Error: a token is not sent to http://boot-0:8888, where others could read it on the way: name the server's https:// address\n";
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.starts_with(text) && refused.stderr.contains("https://HOST:8443"), "{}", refused.stderr);
    assert!(!refused.stderr.contains("secret"), "{}", refused.stderr);
}
