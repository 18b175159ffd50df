//! Who is given the disk keys of a machine: that machine, operators, and nobody else unless the site says so (G13). Every address of
//! 127.0.0.0/8 is this host's own, so machines whose addresses lie there can call by themselves.

use std::net::IpAddr;

use sabakan_domain::access::{AllowedNetworks, CryptsAccess};
use sabakan_testkit::{
    Backend, TestServer,
    fixtures::{self, machine},
    raw::{Answer, request, request_from},
};
use sabakan_wire::rest::{IpamConfigJson, MachineInput};
use serde_json::{Value, json};

on_both_stores!(a_machine_is_given_its_own_keys, a_token_is_bound_to_one_machine);

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Machine(&'static str),
    /// An address of no machine and of no operator.
    Stranger,
    Operator,
}

const PLACES: [From; 4] = [From::Machine("m"), From::Machine("n"), From::Stranger, From::Operator];

struct Site {
    server: TestServer,
    /// What may be shown, by name.
    tokens: Vec<(&'static str, String)>,
}

impl Site {
    fn start(backend: Backend) -> Site {
        let server = TestServer::start(backend);
        let client = server.client();
        let ipam = IpamConfigJson {
            node_ipv4_pool: Some("127.69.0.0/16".into()),
            bmc_ipv4_pool: Some("127.72.16.0/20".into()),
            ..fixtures::ipam()
        };
        client.put_ipam(&ipam).expect("ipam");
        let machines: [MachineInput; 2] = ["m", "n"].map(|serial| machine(serial, 0, "worker"));
        client.create_machines(&machines).expect("registered");
        for serial in ["m", "n"] {
            client.put_key(serial, "disk", format!("key of {serial}").as_bytes()).expect("stored");
        }
        let made = |role| client.create_token(role, role).expect("a token").token;
        let bound = client.create_machine_token("m itself", "m").expect("a token").token;
        let tokens = vec![
            ("none", String::new()),
            ("read", made("read")),
            ("machine", made("machine")),
            ("bound to m", bound),
            ("operator", made("operator")),
            ("admin", made("admin")),
        ];
        Site { server, tokens }
    }

    fn address(&self, from: From) -> IpAddr {
        let text = match from {
            From::Operator => "127.0.0.1".to_owned(),
            From::Stranger => "127.200.0.1".to_owned(),
            From::Machine(serial) => {
                let path = format!("/api/v1/machines?serial={serial}");
                let found = request(&self.server.url(), "GET", &path, &[("authorization", &self.admin())], b"").json();
                found[0]["spec"]["ipv4"][1].as_str().unwrap_or_else(|| panic!("no address in {found}")).to_owned()
            }
        };
        text.parse().expect("an address")
    }

    fn admin(&self) -> String {
        format!("Bearer {}", self.tokens.last().expect("the admin").1)
    }

    fn send(&self, from: From, token: &str, method: &str, path: &str, body: &[u8]) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers: &[(&str, &str)] = if token.is_empty() { &[] } else { &[("authorization", &bearer)] };
        request_from(self.address(from), &self.server.url(), method, &format!("/api/v1/crypts/{path}"), headers, body)
    }
}

/// What is asked for: the key of `m`, of `n`, and of a machine nobody registered.
const ASKED: [&str; 3] = ["m/disk", "n/disk", "unknown/disk"];

/// What each token is answered, in the order of the site's tokens, for each of `ASKED`: `y` the key or that there is none, `-` 403.
fn expected(from: From, require_token: bool, crypts: CryptsAccess) -> [&'static str; 3] {
    match (from, crypts, require_token) {
        (From::Operator, _, false) | (_, CryptsAccess::Open, false) => ["yyyyyy"; 3],
        (_, CryptsAccess::Open, true) => ["--yyyy", "--y-yy", "--y-yy"],
        (From::Machine("m"), _, false) => ["yyyyyy", "----yy", "----yy"],
        (From::Machine("m"), _, true) => ["--yyyy", "----yy", "----yy"],
        (From::Machine(_), _, false) => ["---yyy", "yyyyyy", "----yy"],
        (From::Machine(_), _, true) => ["---yyy", "--y-yy", "----yy"],
        (From::Stranger | From::Operator, _, _) => ["---yyy", "----yy", "----yy"],
    }
}

fn a_machine_is_given_its_own_keys(backend: Backend) {
    let mut site = Site::start(backend);
    for (require_token, crypts_access) in [
        (false, CryptsAccess::Machine),
        (true, CryptsAccess::Machine),
        (false, CryptsAccess::Open),
        (true, CryptsAccess::Open),
    ] {
        let restarted = site.server.restart_with(|config| {
            config.allow_ips = AllowedNetworks::new(["127.0.0.1"]).expect("a network");
            (config.require_token, config.crypts_access) = (require_token, crypts_access);
        });
        restarted.expect("there is an admin token");
        for from in PLACES {
            for (path, columns) in ASKED.into_iter().zip(expected(from, require_token, crypts_access)) {
                for (column, (name, token)) in columns.bytes().zip(&site.tokens) {
                    let row = format!("{path} from {from:?} with {name}, {require_token}, {crypts_access:?}");
                    judge(&site, from, token, path, column == b'y', &row);
                }
            }
        }
    }
    // Nothing above has stored anything.
    let stored: Vec<String> = site.server.dump().into_keys().filter(|key| key.contains("/crypts/")).collect();
    assert_eq!(stored, ["/sabakan/crypts/m/disk", "/sabakan/crypts/n/disk"]);
}

fn judge(site: &Site, from: From, token: &str, path: &str, is_given: bool, row: &str) {
    let serial = path.split('/').next().unwrap_or_default();
    let read = site.send(from, token, "GET", path, b"");
    let stored = site.send(from, token, "PUT", path, b"another key");
    if !is_given {
        for answer in [read, stored] {
            assert_eq!((answer.status, &answer.json()["kind"]), (403, &json!("forbidden")), "{row}: {}", answer.body);
            assert!(!answer.body.contains(serial) || serial.len() == 1, "{row}: {}", answer.body);
        }
    } else if serial == "unknown" {
        assert_eq!((read.status, stored.status), (404, 404), "{row}");
    } else {
        assert_eq!((read.status, read.body.as_str()), (200, &*format!("key of {serial}")), "{row}");
        assert_eq!(stored.status, 409, "{row}: the disk has a key: {}", stored.body);
    }
}

fn a_token_is_bound_to_one_machine(backend: Backend) {
    let mut site = Site::start(backend);
    let client = site.server.client();
    let listed = client.list_tokens().expect("tokens");
    let bound: Vec<_> = listed.iter().filter_map(|token| token.serial.as_deref().map(|s| (s, &*token.role))).collect();
    assert_eq!(bound, [("m", "machine")]);
    let log = client.list_logs(None, None).expect("the log");
    assert!(log.iter().any(|entry| entry.action == "create" && entry.detail == "m itself machine m"), "{log:?}");
    // Other roles are not made smaller by a serial, so that none is taken; nor is what is no serial.
    let refused = |body: Value| {
        let answer = request(&site.server.url(), "POST", "/api/v1/tokens", &[], body.to_string().as_bytes());
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
        answer.error()
    };
    let text = refused(json!({ "name": "x", "role": "operator", "serial": "m" }));
    assert!(text.contains("only a token of role machine"), "{text}");
    refused(json!({ "name": "x", "role": "machine", "serial": "" }));
    refused(json!({ "name": "x", "role": "machine", "serial": "a/b" }));
    // The rest of what a machine may do stays; deleting keys is not among it.
    let token = site.tokens.iter().find(|(name, _)| *name == "bound to m").expect("there").1.clone();
    site.server.restart();
    assert_eq!(site.send(From::Stranger, &token, "GET", "m/disk", b"").body, "key of m");
    assert_eq!(site.send(From::Stranger, &token, "PUT", "m/other", b"key").status, 201);
    assert_eq!(site.send(From::Stranger, &token, "DELETE", "m", b"").status, 403);
    assert_eq!(site.send(From::Machine("m"), "", "DELETE", "m", b"").status, 403);
    // Paths that name no disk of one machine are refused, never "not found".
    for path in ["", "m", "m/", "m/disk/x", "/m/disk", "%FF/disk", "m%2Fdisk"] {
        let answer = site.send(From::Stranger, "", "GET", path, b"");
        assert_eq!(answer.status, 403, "{path}: {}", answer.body);
    }
}
