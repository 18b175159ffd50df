//! What other hosts are given, over real connections between addresses that are not loopback ones.

use std::path::Path;

use sabakan_testkit::{netns::Network, process::Process};
use serde_json::Value;
use tempfile::TempDir;

use crate::SABAKAN;

const SERVER: &str = "10.69.0.1";
/// The first addresses of the first workers of rack 0.
const MACHINE: &str = "10.69.0.4";
const OTHER: &str = "10.69.0.5";
const STRANGER: &str = "10.99.0.1";

const IPAM: &str = r#"{"max-nodes-in-rack": 28, "node-ipv4-pool": "10.69.0.0/16", "node-ipv4-range-size": 6,
    "node-ipv4-range-mask": 26, "node-ip-per-node": 3, "node-index-offset": 3, "bmc-ipv4-pool": "10.72.16.0/20",
    "bmc-ipv4-range-size": 5, "bmc-ipv4-range-mask": 20}"#;

/// A server that other hosts reach, and these hosts.
struct Site {
    network: Network,
    process: Process,
    dir: TempDir,
}

impl Site {
    fn start(flags: &[&str]) -> Site {
        let dir = tempfile::tempdir().expect("a directory");
        let network = Network::with_addresses(&[SERVER, MACHINE, OTHER, STRANGER]);
        let made =
            rcgen::generate_simple_self_signed([SERVER.to_owned(), "127.0.0.1".to_owned()]).expect("a certificate");
        std::fs::write(dir.path().join("crt"), made.cert.pem()).expect("written");
        std::fs::write(dir.path().join("key"), made.signing_key.serialize_pem()).expect("written");
        let process = Site::serve(&network, dir.path(), flags);
        let site = Site { network, process, dir };
        site.operator("PUT", "config/ipam", IPAM);
        let machine =
            |serial: &str| format!(r#"{{"serial": "{serial}", "rack": 0, "role": "worker", "bmc": {{"type": "x"}}}}"#);
        site.operator("POST", "machines", &format!("[{}, {}]", machine("m"), machine("n")));
        let found: Value = serde_json::from_str(&site.operator("GET", "machines", "")).expect("JSON");
        assert_eq!((&found[0]["spec"]["ipv4"][0], &found[1]["spec"]["ipv4"][0]), (&MACHINE.into(), &OTHER.into()));
        site
    }

    fn serve(network: &Network, dir: &Path, flags: &[&str]) -> Process {
        let file = |name: &str| dir.join(name).display().to_string();
        let (cert, key) = (file("crt"), file("key"));
        let everywhere = ["--http", "0.0.0.0:0", "--https", "0.0.0.0:0", "--server-cert", &cert, "--server-key", &key];
        Process::start(network.enter(dir, SABAKAN), &dir.join("data"), everywhere.iter().chain(flags))
    }

    fn restart(self, flags: &[&str]) -> Site {
        let Site { network, process, dir } = self;
        assert!(process.terminate().success());
        let process = Site::serve(&network, dir.path(), flags);
        Site { network, process, dir }
    }

    /// Where other hosts reach a listener. The first address of each is the one every test program listens on.
    fn url(&self, scheme: &str, listener: &str) -> String {
        let json: Value = serde_json::from_str(&self.addresses()).expect("JSON");
        let address = json["all"][listener].as_array().and_then(|all| all.last()?.as_str()).expect("an address");
        format!("{scheme}://{SERVER}:{}", address.rsplit(':').next().expect("a port"))
    }

    fn addresses(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("data/addresses.json")).expect("the file of addresses")
    }

    /// Status and body of what `curl` is answered.
    fn curl(&self, from: &str, token: &str, args: &[&str]) -> (u16, String) {
        let ca = self.dir.path().join("crt").display().to_string();
        let header = format!("authorization: Bearer {token}");
        let mut all = vec!["-sS", "--max-time", "60", "--cacert", &ca, "--interface", from, "-w", "\n%{http_code}"];
        all.extend(["-H", "X-OpenStack-Ironic-API-Version: latest"]);
        if !token.is_empty() {
            all.extend(["-H", &header]);
        }
        all.extend(args);
        let output = self.network.run("curl", all);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        let (body, status) = text.rsplit_once('\n').expect("a status");
        (status.parse().expect("a status"), body.to_owned())
    }

    /// What somebody on the server's own host does.
    fn operator(&self, method: &str, path: &str, body: &str) -> String {
        let url = self.url("http", "http").replace(SERVER, "127.0.0.1");
        let (status, answer) = self.curl("127.0.0.1", "", &["-X", method, "-d", body, &format!("{url}/api/v1/{path}")]);
        assert!(status < 300, "{method} {path}: {answer}");
        answer
    }

    fn token(&self, role: &str, serial: &str) -> String {
        let body = serde_json::json!({ "name": role, "role": role, "serial": Some(serial).filter(|s| !s.is_empty()) });
        let made: Value = serde_json::from_str(&self.operator("POST", "tokens", &body.to_string())).expect("JSON");
        made["token"].as_str().expect("a token").to_owned()
    }
}

#[test]
fn a_machine_is_given_its_own_disk_key_and_no_other() {
    let site = Site::start(&[]);
    let (bound, unbound) = (site.token("machine", "m"), site.token("machine", ""));
    let operator = site.token("operator", "");
    let key = |site: &Site, from: &str, token: &str, serial: &str| {
        let url = format!("{}/api/v1/crypts/{serial}/disk", site.url("https", "https"));
        site.curl(from, token, &[&url])
    };
    // Each machine stores its own.
    for (from, serial) in [(MACHINE, "m"), (OTHER, "n")] {
        let url = format!("{}/api/v1/crypts/{serial}/disk", site.url("https", "https"));
        let (status, body) = site.curl(from, "", &["-X", "PUT", "-d", &format!("key of {serial}"), &url]);
        assert_eq!(status, 201, "{body}");
        let (status, body) = site.curl(STRANGER, "", &["-X", "PUT", "-d", "false", &url.replace("disk", "other")]);
        assert_eq!(status, 403, "{body}");
    }
    let given = |serial: &str| (200, format!("key of {serial}"));
    assert_eq!(key(&site, MACHINE, "", "m"), given("m"));
    assert_eq!(key(&site, OTHER, "", "n"), given("n"));
    assert_eq!(key(&site, STRANGER, &bound, "m"), given("m"));
    assert_eq!(key(&site, OTHER, &bound, "m"), given("m"));
    assert_eq!(key(&site, MACHINE, &unbound, "m"), given("m"));
    for serial in ["m", "n"] {
        assert_eq!(key(&site, STRANGER, &operator, serial), given(serial));
    }
    for (from, token, serial) in [
        (MACHINE, "", "n"),
        (OTHER, "", "m"),
        (STRANGER, "", "m"),
        (STRANGER, "", "nobody-has-this-serial"),
        (MACHINE, "", "nobody-has-this-serial"),
        (STRANGER, &*unbound, "m"),
        (MACHINE, &*unbound, "n"),
        (STRANGER, &*bound, "n"),
    ] {
        let (status, body) = key(&site, from, token, serial);
        assert_eq!(status, 403, "{serial} from {from}: {body}");
    }
    // In the clear it is given to nobody on another host.
    let url = format!("{}/api/v1/crypts/m/disk", site.url("http", "http"));
    let (status, body) = site.curl(MACHINE, "", &[&url]);
    assert!(status == 403 && body.contains("HTTPS"), "{status} {body}");
    assert!(!site.process.log().contains("--crypts-access"), "{}", site.process.log());

    let site = site.restart(&["--crypts-access", "open"]);
    assert_eq!(key(&site, STRANGER, "", "m"), given("m"));
    assert_eq!(key(&site, MACHINE, "", "n"), given("n"));
    assert_eq!(key(&site, STRANGER, "", "nobody-has-this-serial").0, 404);
    assert!(site.process.log().contains("--crypts-access open gives the disk keys of every machine"));
}

#[test]
fn the_provisioning_api_is_encrypted_where_other_hosts_reach_it() {
    let site = Site::start(&["--ironic", "0.0.0.0:0"]);
    let operator = site.token("operator", "");
    let urls: Value = serde_json::from_str(&site.addresses()).expect("JSON");
    let urls: Vec<&str> = urls["urls"]["ironic"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert!(urls[0].starts_with("http://127.0.0.1:") && urls[1].starts_with("https://0.0.0.0:"), "{urls:?}");
    assert!(site.process.log().contains(urls[1]), "{}", site.process.log());
    for url in [site.url("https", "ironic"), site.url("https", "https")] {
        // Open to everybody, with links that lead back over the same way, in either version of HTTP.
        for version in ["--http1.1", "--http2"] {
            let (status, body) = site.curl(STRANGER, "", &[version, &format!("{url}/v1")]);
            let links: Value = serde_json::from_str(&body).expect("JSON");
            assert_eq!((status, &links["links"][0]["href"]), (200, &format!("{url}/v1/").into()), "{body}");
        }
        let node = format!("{url}/v1/nodes/m");
        let maintenance = format!("{node}/maintenance");
        assert_eq!(site.curl(STRANGER, "", &["-X", "PUT", "-d", "{}", &maintenance]).0, 401);
        assert_eq!(site.curl(STRANGER, &operator, &["-X", "PUT", "-d", "{}", &maintenance]).0, 202);
        let (status, body) = site.curl(STRANGER, &operator, &[&node]);
        assert!(status == 200 && body.contains(&format!("{url}/v1/nodes/")), "{body}");
        let basic = ["-u", &format!("me:{operator}"), "-X", "DELETE", &maintenance];
        assert_eq!(site.curl(STRANGER, "", &basic).0, 202);
    }
    // Beside it the other API is as it was; a path that was meant to lead to a key is never "not found".
    let https = site.url("https", "https");
    assert_eq!(site.curl(STRANGER, "", &[&format!("{https}/api/v1/machines")]).0, 200);
    assert_eq!(site.curl(STRANGER, "", &[&format!("{https}/")]).0, 404);
    assert_eq!(site.curl(STRANGER, "", &[&format!("{https}/v1/crypts/m/disk")]).0, 400);
    let http = site.url("http", "http");
    assert_eq!(site.curl(STRANGER, "", &[&format!("{http}/v1/nodes")]).0, 404, "not on plain HTTP");
}

#[test]
fn a_token_sent_in_the_clear_by_another_host_is_refused() {
    let site = Site::start(&["--ironic", "0.0.0.0:0", "--ironic-tls", "off", "--metrics", "0.0.0.0:0"]);
    let admin = site.token("admin", "");
    let (http, ironic, metrics) = (site.url("http", "http"), site.url("http", "ironic"), site.url("http", "metrics"));
    let read = [
        format!("{http}/api/v1/machines"),
        format!("{http}/graphql?query=%7B__typename%7D"),
        format!("{http}/version"),
        format!("{ironic}/v1/nodes"),
        format!("{ironic}/v1/lookup?addresses=x"),
        format!("{metrics}/metrics"),
    ];
    for url in &read {
        for args in [vec![url.as_str()], vec!["-u", "me:secret", url]] {
            let token = if args.len() == 1 { admin.as_str() } else { "" };
            let (status, body) = site.curl(STRANGER, token, &args);
            assert_eq!(status, 403, "{args:?}: {body}");
            assert!(body.contains("use HTTPS, and revoke this token") && !body.contains(&admin), "{body}");
            let shape = if url.starts_with(&ironic) { "faultstring" } else { "\"error\":" };
            assert!(body.contains(shape), "{url}: {body}");
        }
        // Without a token nothing changes, and this host may show one.
        let plain = site.curl(STRANGER, "", &[url]).0;
        assert_ne!(plain, 403, "{url}");
        let here = url.replace(SERVER, "127.0.0.1");
        assert_eq!(site.curl("127.0.0.1", &admin, &[&here]).0, plain, "{url}");
    }
    let (status, body) = site.curl(STRANGER, &admin, &["-X", "PUT", "-d", "x", &format!("{http}/api/v1/labels/m/a")]);
    assert_eq!(status, 403, "{body}");
    let machine: Value = serde_json::from_str(&site.operator("GET", "machines?serial=m", "")).expect("JSON");
    assert!(machine[0]["spec"]["labels"].get("a").is_none(), "{machine}");
    // What ramdisks ask and tell goes on: they have no token of this API.
    let inventory = r#"{"inventory": {"interfaces": [{"name": "eth0", "mac_address": "52:54:00:00:00:01"}]}}"#;
    for args in [
        vec![read[4].as_str()],
        vec!["-d", "{}", &format!("{ironic}/v1/heartbeat/m")],
        vec!["-H", "Content-Type: application/json", "-d", inventory, &format!("{ironic}/v1/continue_inspection")],
    ] {
        let (status, body) = site.curl(STRANGER, "", &args);
        assert!(matches!(status, 400 | 404), "{args:?}: {status} {body}");
    }
    assert!(!site.process.log().contains(&admin), "no token is logged");
}
