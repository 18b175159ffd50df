//! Every rule of the configuration, and that nothing secret is shown.

use std::{fs, path::Path};

use clap::{Args as _, Command, FromArgMatches as _};
use tempfile::TempDir;

use super::*;

/// Loads a configuration from a command line, a file and one environment variable.
struct Case {
    dir: TempDir,
    password_variable: Option<String>,
}

impl Case {
    fn new() -> Case {
        Case { dir: tempfile::tempdir().expect("a directory"), password_variable: None }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.dir.path().join(name), text).expect("a file");
        self.path(name)
    }

    fn load(&self, args: &[&str]) -> Result<ServerConfig, ConfigErrors> {
        ServerConfig::load(flags(args), &|name| match name {
            "SABAKAN_ETCD_PASSWORD" => self.password_variable.clone(),
            "REQUEST_ID_HEADER" | "PATH" => None,
            other => panic!("{other} is not documented"),
        })
    }

    /// Loads a file beside flags.
    fn load_file(&self, yaml: &str, args: &[&str]) -> Result<ServerConfig, ConfigErrors> {
        let path = self.write("c.yml", yaml);
        self.load(&[&["--config-file", &path], args].concat())
    }

    /// Errors as lines, with the directory left out.
    fn lines(&self, result: Result<ServerConfig, ConfigErrors>) -> Vec<String> {
        let directory = format!("{}/", self.dir.path().display());
        let errors = result.err();
        let lines = errors.iter().flat_map(ConfigErrors::iter).map(|error| error.to_string().replace(&directory, ""));
        lines.collect()
    }
}

fn flags(args: &[&str]) -> Flags {
    let command = Flags::augment_args(Command::new("sabakan").no_binary_name(true));
    let matches = command.try_get_matches_from(args).unwrap_or_else(|error| panic!("{args:?}: {error}"));
    Flags::from_arg_matches(&matches).expect("every flag is text")
}

/// A certificate and its key.
fn pem() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    (made.cert.pem(), made.signing_key.serialize_pem())
}

fn etcd(config: &ServerConfig) -> &EtcdSettings {
    match &config.store {
        StoreConfig::Etcd(settings) => settings,
        StoreConfig::Embedded => panic!("the store is embedded"),
    }
}

#[test]
fn without_any_setting_the_server_is_for_this_machine_alone() {
    // Where the program is depends on the machine the test runs on.
    let config = Case::new().load(&["--ipmitool", "ipmitool"]).expect("the defaults follow the rules");
    let expected = "\
allow-ips:
- 127.0.0.1/32
- \"::1/128\"
allow-outside-pool: false
audit-retention-days: 60
automated-clean: true
clean-concurrency: 100
cleaning: full
cluster-period: 60s
cluster-planner: true
cluster-settle: 60s
conductor: true
crypts-access: machine
data-dir: ./sabakan-data
deploy-concurrency: 250
enable-playground: false
etcd-prefix: /sabakan/
graphql-open-mutations: false
group-concurrency: 300
http:
- 127.0.0.1:8888
https:
- 127.0.0.1:8443
inspect-concurrency: 64
ipmitool: ipmitool
ironic:
- 127.0.0.1:6385
ironic-tls: auto
key-file: ./sabakan-data/disk-keys.json
lenient-queries: false
log-format: plain
log-level: info
metrics: none
metrics-machines: true
metrics-raw-paths: false
power-off-after-verify: false
power-sync-interval: 120s
provide-in-maintenance: true
repair-period: 15s
repairer: true
require-healthy: false
require-token: false
simulated-hardware: false
states-prefix: /states/
verify-concurrency: 64
work-lease: 15s
# The store is the embedded one, in data-dir.
";
    assert_eq!(describe(&config), expected);
    assert!(config.store == StoreConfig::Embedded && config.tls.is_none() && config.without_effect.is_empty());

    // The limits of etcd have defaults as well.
    let config = Case::new().load(&["--etcd-endpoints", "h:1"]).expect("valid");
    let EtcdSettings { timeout, max_txn_ops, max_request_bytes, .. } = etcd(&config);
    assert_eq!((timeout.as_millis(), *max_txn_ops, *max_request_bytes), (2_000, 128, 1_536 * 1024));
}

#[test]
fn flags_win_over_the_file_and_the_last_flag_wins() {
    let case = Case::new();
    let yaml = "data-dir: /file\nhttp: 127.0.0.1:1\nlog-format: json\netcd: {endpoints: [a:1], prefix: /file/}\n";
    let config = case.load_file(yaml, &[]).expect("valid");
    assert_eq!(config.data_dir, Path::new("/file"));
    assert_eq!((etcd(&config).endpoints.as_slice(), &*config.etcd_prefix), (&["a:1".to_owned()][..], "/file/"));

    let args = ["--data-dir", "/flag", "--http", "127.0.0.1:2", "--http", ":3", "--etcd-endpoints", "b:1,c:1"];
    let config = case.load_file(yaml, &args).expect("valid");
    assert_eq!(config.data_dir, Path::new("/flag"));
    assert_eq!(config.http.iter().map(ToString::to_string).collect::<Vec<_>>(), ["127.0.0.1:2", "[::]:3"]);
    assert_eq!((etcd(&config).endpoints.join(" "), &*config.etcd_prefix), ("b:1 c:1".to_owned(), "/file/"));
    assert_eq!(config.log.format.to_string(), "json");

    let config = case.load(&["--logformat", "json", "--log-format", "logfmt", "--loglevel=warn"]).expect("valid");
    assert_eq!((config.log.format.to_string(), config.log.level.to_string()), ("logfmt".into(), "warning".into()));
    assert_eq!(case.load(&["--logfile", "/l"]).expect("valid").log.file.as_deref(), Some(Path::new("/l")));
}

#[test]
fn what_the_older_service_took_works() {
    let case = Case::new();
    let (cert, _) = pem();
    let indented = cert.replace('\n', "\n    ");
    let yaml = format!(
        "advertise-url: http://10.0.0.1:10080\nadvertise-url-https: https://10.0.0.1:10443\nallow-ips: [10.0.0.0/8]\n\
         dhcp-bind: 0.0.0.0:67\netcd:\n  endpoints: [https://10.0.0.1:2379]\n  timeout: 5s\n  username: u\n  password: hunter2\n  \
         tls-ca: |\n    {indented}\n"
    );
    let config = case.load_file(&yaml, &["--logformat", "json"]).expect("valid");
    assert_eq!(config.advertise_url.as_deref(), Some("http://10.0.0.1:10080"));
    assert_eq!(config.advertise_url_https.as_deref(), Some("https://10.0.0.1:10443"));
    assert!(config.allow_ips.contains("10.1.2.3".parse().expect("address")));
    assert!(!config.allow_ips.contains("127.0.0.1".parse().expect("address")));
    let settings = etcd(&config);
    assert_eq!(settings.timeout.as_secs(), 5);
    assert_eq!(settings.tls.as_ref().expect("given").ca.text.expose().trim_end(), cert.trim_end());
    assert_eq!(settings.credentials.as_ref().map(|user| user.password.expose()), Some("hunter2"));
    assert_eq!(config.without_effect, [format!("{}:4: dhcp-bind", case.path("c.yml"))]);

    let config = case.load_file(reference::EXAMPLE, &[]).expect("the example of the documentation is valid");
    assert_eq!(etcd(&config).endpoints.len(), 3);
}

#[test]
fn connections_of_one_address() {
    let case = Case::new();
    let share = |flags: &[&str]| {
        case.load(flags).map(|config| config.connections.per_address).map_err(|errors| errors.to_string())
    };
    assert_eq!(share(&[]), Ok(None));
    assert_eq!(share(&["--connections-per-address", "2000"]), Ok(Some(2_000)));
    for wrong in ["0", "1.5", "many", "1000001"] {
        let error = share(&["--connections-per-address", wrong]).expect_err(wrong);
        assert!(error.contains(&format!("{wrong:?} is not a number from 1 to 1000000")), "{error}");
    }
}

#[test]
fn lists_are_lists_or_texts_with_commas() {
    let case = Case::new();
    let http = |yaml: &str| {
        let config = case.load_file(yaml, &[]).unwrap_or_else(|errors| panic!("{yaml}: {errors}"));
        config.http.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    for yaml in
        ["http: 127.0.0.1:1, 127.0.0.1:2", "http: [127.0.0.1:1, 127.0.0.1:2]", "http:\n- 127.0.0.1:1\n- 127.0.0.1:2,\n"]
    {
        assert_eq!(http(yaml), "127.0.0.1:1 127.0.0.1:2", "{yaml}");
    }
    assert_eq!(http("http: :1"), "[::]:1");
    assert_eq!(http("http:"), "127.0.0.1:8888", "a key without a value is not there");
    for yaml in ["http: none", "http: off", "http: \"\"", "http: []"] {
        assert_eq!(http(yaml), "", "{yaml}");
    }
    for off in ["none", "off", "", ","] {
        assert!(case.load(&["--https", off]).expect(off).https.is_empty(), "{off}");
    }
    assert!(!case.load(&["--allow-ips", ""]).expect("valid").allow_ips.contains("127.0.0.1".parse().expect("address")));
}

#[test]
fn each_rule_is_explained_at_its_place() {
    let case = Case::new();
    let (cert, key) = pem();
    let (cert, key) = (case.write("cert", &cert), case.write("key", &key));
    let check = |args: &[&str], expected: &[&str]| assert_eq!(case.lines(case.load(args)), expected, "{args:?}");
    check(&["--data-dir", " "], &["--data-dir: must not be empty"]);
    check(&["--http", "none", "--https", "none"], &["--https: HTTP and HTTPS cannot both be off"]);
    check(&["--http", ":1,:1"], &["--http: [::]:1 is listened on twice"]);
    check(&["--http", "localhost:8443"], &["--http: 127.0.0.1:8443 is listened on twice"]);
    check(&["--http", "127.0.0.1:0", "--https", "127.0.0.1:0"], &[]);
    check(&["--advertise-url", "10.0.0.1"], &["--advertise-url: \"10.0.0.1\" must start with http:// or https://"]);
    check(&["--advertise-url-https", "http://h"], &["--advertise-url-https: \"http://h\" must start with https://"]);
    check(&["--server-cert", &cert], &["--server-cert: needs --server-key"]);
    check(&["--server-key", &key], &["--server-key: needs --server-cert"]);
    check(&["--server-cert", &cert, "--server-key", &key], &[]);
    check(
        &["--server-cert", &key, "--server-key", &cert],
        &["--server-cert: key holds no certificate in PEM", "--server-key: cert holds no private key in PEM"],
    );
    check(&["--etcd-prefix", "/sabakan"], &["--etcd-prefix: \"/sabakan\" must end with a slash"]);
    check(&["--etcd-timeout", "2"], &["--etcd-timeout: \"2\" is not a time such as 500ms, 2s or 1m"]);
    check(&["--etcd-max-txn-ops", "1"], &["--etcd-max-txn-ops: \"1\" is not between 16 and 100000"]);
    check(
        &["--etcd-max-request-bytes", "1KiB"],
        &["--etcd-max-request-bytes: \"1KiB\" is not between 262144 and 536870912"],
    );
    check(&["--allow-outside-pool=perhaps"], &["--allow-outside-pool: \"perhaps\" is neither true nor false"]);
    check(&["--crypts-access", "all"], &["--crypts-access: \"all\" is neither machine nor open"]);
    check(&["--ironic-tls", "maybe"], &["--ironic-tls: \"maybe\" is none of auto, on, off"]);
    check(&["--log-format", "xml"], &["--log-format: \"xml\" is none of plain, logfmt, json"]);
    check(&["--log-level", "all"], &["--log-level: \"all\" is none of critical, error, warning, info, debug"]);
    check(&["--log-file", ""], &["--log-file: must not be empty"]);
    let missing = case.path("missing");
    check(
        &["--config-file", &missing],
        &["--config-file: cannot read missing: No such file or directory (os error 2)"],
    );
}

#[test]
fn members_users_and_certificates_of_etcd_fit_together() {
    let case = Case::new();
    let (cert, key) = pem();
    let (cert, key, word) = (case.write("cert", &cert), case.write("key", &key), case.write("word", "hunter2\n"));
    let check = |args: &[&str], expected: &[&str]| assert_eq!(case.lines(case.load(args)), expected, "{args:?}");
    let (plain, secure) = (["--etcd-endpoints", "http://h:1"], ["--etcd-endpoints", "https://h:1"]);
    let with =
        |endpoints: [&'static str; 2], args: &[&str], expected: &[&str]| check(&[&endpoints, args].concat(), expected);

    check(&["--etcd-endpoints", ","], &["--etcd-endpoints: names no member; leave it out for the embedded store"]);
    check(
        &["--etcd-username", "u", "--etcd-password-file", &word],
        &[
            "--etcd-username: needs --etcd-endpoints; the embedded store has no users",
            "--etcd-password-file: needs --etcd-endpoints; the embedded store has no users",
        ],
    );
    check(
        &["--etcd-tls-ca", &cert],
        &["--etcd-tls-ca: needs --etcd-endpoints; the embedded store has no certificates"],
    );
    check(&["--etcd-timeout", "3s", "--etcd-prefix", "/p/"], &[]);

    with(plain, &["--etcd-username", "u"], &["--etcd-username: needs a password: see --etcd-password-file"]);
    with(plain, &["--etcd-password", "hunter2"], &["--etcd-password: needs --etcd-username"]);
    with(plain, &["--etcd-username", "u", "--etcd-password", ""], &["--etcd-password: the password is empty"]);
    with(plain, &["--etcd-username", "", "--etcd-password", "x"], &["--etcd-username: must not be empty"]);
    with(
        plain,
        &["--etcd-username", "u", "--etcd-password", "x", "--etcd-password-file", &word],
        &["--etcd-password-file: the password is also given at --etcd-password"],
    );

    with(secure, &[], &["--etcd-endpoints: https needs --etcd-tls-ca: the system's own authorities are not used"]);
    with(secure, &["--etcd-tls-ca", &cert], &[]);
    with(secure, &["--etcd-tls-ca", &cert, "--etcd-tls-cert", &cert], &["--etcd-tls-cert: needs --etcd-tls-key"]);
    with(secure, &["--etcd-tls-ca", &cert, "--etcd-tls-key", &key], &["--etcd-tls-key: needs --etcd-tls-cert"]);
    with(secure, &["--etcd-tls-cert", &cert, "--etcd-tls-key", &key], &["--etcd-tls-cert: needs --etcd-tls-ca"]);
    with(secure, &["--etcd-tls-ca", &key], &["--etcd-tls-ca: key holds no certificate in PEM"]);
    with(
        plain,
        &["--etcd-tls-ca", &cert],
        &["--etcd-tls-ca: would not be used: every member at --etcd-endpoints is plain http"],
    );
    check(&["--etcd-endpoints", "h:1", "--etcd-tls-ca", &cert, "--etcd-tls-cert", &cert, "--etcd-tls-key", &key], &[]);
}

#[test]
fn the_password_comes_from_the_strongest_place() {
    let mut case = Case::new();
    let (word, empty) = (case.write("word", "from file\r\n"), case.write("empty", "\n"));
    let yaml = "etcd: {endpoints: [h:1], username: u, password: from yaml}";
    let password = |case: &Case, yaml: &str, args: &[&str]| {
        let config = case.load_file(yaml, args).unwrap_or_else(|errors| panic!("{args:?}: {errors}"));
        etcd(&config).credentials.as_ref().expect("given").password.expose().to_owned()
    };
    assert_eq!(password(&case, yaml, &[]), "from yaml");
    case.password_variable = Some(String::new());
    assert_eq!(password(&case, yaml, &[]), "from yaml", "an empty variable is not set");
    case.password_variable = Some("from environment".into());
    assert_eq!(password(&case, yaml, &[]), "from environment");
    assert_eq!(password(&case, yaml, &["--etcd-password-file", &word]), "from file");
    assert_eq!(password(&case, yaml, &["--etcd-password", " from flag "]), " from flag ");
    let by_file = format!("etcd: {{endpoints: [h:1], username: u, password-file: {word}}}");
    assert_eq!(password(&case, &by_file, &[]), "from environment");
    case.password_variable = None;
    assert_eq!(password(&case, &by_file, &[]), "from file");

    let refused = |args: &[&str]| case.lines(case.load_file(yaml, args));
    assert_eq!(refused(&["--etcd-password-file", &empty]), ["--etcd-password-file: the password is empty"]);
    let twice = "etcd-password: a\netcd: {endpoints: [h:1], username: u, password: b}\n";
    let errors = case.lines(case.load_file(twice, &[]));
    assert_eq!(errors, ["c.yml:2: etcd.password: the same is said at c.yml:1: etcd-password"]);
}

#[test]
fn everything_wrong_is_said_at_once() {
    let case = Case::new();
    let yaml = "http: [nowhere, 127.0.0.1:1, 5]\nallow-ips: 10.0.0.0/33,here\netcd:\n  endpoints:\n    - ftp://h:1\n  prefix: x\n\
                etcd-prefix: /y/\nlog-level: loud\nironic: somewhere\n";
    let result = case.load_file(yaml, &["--data-dir", "", "--etcd-username", "u"]);
    let text = result.as_ref().expect_err("much is wrong").to_string();
    assert!(text.starts_with("the configuration cannot be used:\n  "), "{text}");
    let address = "is not an address such as 127.0.0.1:8888, [::1]:8888, localhost:8888 or :8888";
    let network = "is neither an address such as 10.0.0.1 nor a network such as 10.0.0.0/8";
    assert_eq!(
        case.lines(result),
        [
            "--data-dir: must not be empty".to_owned(),
            format!("c.yml:1: http: \"nowhere\" {address}"),
            format!("c.yml:1: http: \"5\" {address}"),
            format!("c.yml:9: ironic: \"somewhere\" {address}"),
            format!("c.yml:2: allow-ips: \"10.0.0.0/33\" {network}"),
            format!("c.yml:2: allow-ips: \"here\" {network}"),
            "c.yml:5: etcd.endpoints: \"ftp://h:1\" must start with http:// or https://, or be host:port".to_owned(),
            "--etcd-username: needs a password: see --etcd-password-file".to_owned(),
            "c.yml:6: etcd.prefix: the same is said at c.yml:7: etcd-prefix".to_owned(),
            "c.yml:8: log-level: \"loud\" is none of critical, error, warning, info, debug".to_owned(),
        ]
    );
}

#[test]
fn a_file_that_is_no_configuration_is_refused_without_showing_it() {
    let case = Case::new();
    for (yaml, expected) in [
        ("data-dir: x\nhtpp: hunter2\n", "c.yml:2: there is no setting called \"htpp\""),
        ("etcd:\n  endpoint: hunter2\n", "c.yml:2: there is no setting called \"endpoint\""),
        ("config-file: x", "c.yml:1: there is no setting called \"config-file\""),
        ("data-dir: a\ndata-dir: hunter2", "c.yml:2: \"data-dir\" is given twice"),
        ("etcd: hunter2", "c.yml:1: expected keys and values"),
        ("etcd: {password: [hunter2]}", "c.yml:1: expected one text"),
        ("http: {hunter2: 1}", "c.yml:1: expected a text or a list of texts"),
        ("http: on", "c.yml:1: expected a text or a list of texts"),
        ("- hunter2", "c.yml:1: expected keys and values"),
        ("hunter2", "c.yml:1: expected keys and values"),
        ("data-dir: \"hunter2\n", "c.yml:2: not YAML: invalid indentation in multiline quoted scalar"),
        ("data-dir: x\n---\nhunter2: x\n", "c.yml:3: more than one YAML document"),
    ] {
        assert_eq!(case.lines(case.load_file(yaml, &[])), [expected], "{yaml:?}");
    }
    for nothing in ["", "# nothing\n", "~", "etcd:\n"] {
        assert!(case.load_file(nothing, &[]).is_ok(), "{nothing:?}");
    }
    // Flags are judged all the same, but what they lack may stand in the file.
    let errors = case
        .lines(case.load_file("htpp: x", &["--data-dir", "", "--etcd-username", "u", "--server-cert", "/dev/null"]));
    assert_eq!(
        errors,
        [
            "c.yml:1: there is no setting called \"htpp\"",
            "--data-dir: must not be empty",
            "--server-cert: /dev/null holds no certificate in PEM",
        ]
    );
    let large = "#".repeat(usize::try_from(limits::FILE_BYTES_MAX).expect("small") + 1);
    assert_eq!(case.lines(case.load_file(&large, &[])), ["--config-file: c.yml is larger than 1048576 bytes"]);
}

#[test]
fn settings_of_parts_to_come_are_named_if_they_are_set() {
    let case = Case::new();
    let check = |args: &[&str], expected: &[&str]| assert_eq!(case.load(args).expect("valid").without_effect, expected);
    check(&["--dhcp-bind", "0.0.0.0:67"], &["--dhcp-bind"]);
    check(&["--ipxe-efi-path", "/i"], &["--ipxe-efi-path"]);
    check(&["--dhcp-bind", "off"], &[]);
    let refused = |args: &[&str]| case.lines(case.load(args)).len();
    for args in [["--dhcp-bind", ":67,:68"], ["--states-prefix", "x"], ["--ipxe-efi-path", ""]] {
        assert_eq!(refused(&args), 1, "{args:?}");
    }

    // The help says so of the same ones.
    let command = Flags::augment_args(Command::new("sabakan"));
    let help = |arg: &clap::Arg| arg.get_help().expect("shown").to_string();
    let said = command.get_arguments().filter(|arg| help(arg).contains(raw::NO_EFFECT)).filter_map(clap::Arg::get_long);
    let mut said: Vec<_> = said.collect();
    said.sort_unstable();
    let expected = ["advertise-url", "advertise-url-https", "dhcp-bind", "ipxe-efi-path"];
    assert_eq!(said, expected);
}

#[test]
fn graphql_offers_what_was_asked_for() {
    let case = Case::new();
    let graphql = |args: &[&str]| {
        let GraphqlConfig { playground, open_mutations } = case.load(args).expect("valid").graphql;
        (playground, open_mutations)
    };
    assert_eq!(graphql(&[]), (false, false));
    assert_eq!(graphql(&["--enable-playground"]), (true, false));
    assert_eq!(graphql(&["--enable-playground=false", "--graphql-open-mutations"]), (false, true));
    let lines = |args: &[&str]| case.lines(case.load(args));
    assert_eq!(lines(&["--enable-playground=x", "--graphql-open-mutations=y"]).len(), 2);
    assert_eq!(
        lines(&["--graphql-open-mutations", "--require-token"]),
        ["--graphql-open-mutations: contradicts --require-token, under which nothing is open to everybody"]
    );
}

#[test]
fn metrics_are_where_and_as_many_as_asked_for() {
    let case = Case::new();
    let metrics = |args: &[&str]| {
        let MetricsConfig { listen, options } = case.load(args).expect("valid").metrics;
        (listen.iter().map(ToString::to_string).collect::<Vec<_>>(), options.machines, options.raw_paths)
    };
    let nowhere: Vec<String> = Vec::new();
    assert_eq!(metrics(&[]), (nowhere.clone(), true, false));
    assert_eq!(metrics(&["--metrics", "none"]), (nowhere.clone(), true, false));
    assert_eq!(metrics(&["--metrics", ""]), (nowhere.clone(), true, false));
    let both = vec!["127.0.0.1:1".to_owned(), "[::1]:2".to_owned()];
    assert_eq!(metrics(&["--metrics", "127.0.0.1:1,[::1]:2"]), (both, true, false));
    assert_eq!(metrics(&["--metrics-machines=false", "--metrics-raw-paths"]), (nowhere, false, true));
    let lines = |args: &[&str]| case.lines(case.load(args));
    assert_eq!(lines(&["--metrics", "127.0.0.1:8888"]), ["--metrics: 127.0.0.1:8888 is listened on twice"]);
    assert_eq!(lines(&["--metrics", "x"]).len(), 1);
    assert_eq!(lines(&["--metrics-machines=x", "--metrics-raw-paths=y"]).len(), 2);
}

#[test]
fn no_secret_is_shown() {
    let case = Case::new();
    let (cert, key) = pem();
    let inline = |pem: &str| pem.replace('\n', "\n    ");
    let yaml = format!(
        "etcd:\n  endpoints: [https://h:1]\n  username: u\n  password: hunter2\n  tls-ca: |\n    {}\n  tls-cert: |\n    {}\n  \
         tls-key: |\n    {}\n",
        inline(&cert),
        inline(&cert),
        inline(&key)
    );
    let config = case.load_file(&yaml, &[]).expect("valid");
    let expected = "etcd-endpoints:\n- https://h:1\netcd-max-request-bytes: 1572864\netcd-max-txn-ops: 128\n\
        etcd-password: (set)\netcd-prefix: /sabakan/\netcd-timeout: 2000ms\netcd-tls-ca: (set)\netcd-tls-cert: (set)\n\
        etcd-tls-key: (set)\netcd-username: u\n";
    for text in [describe(&config), format!("{config:?}")] {
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("hunter2") && !text.contains("PRIVATE"), "{text}");
    }
    for args in [
        ["--etcd-endpoints", "http://root:hunter2@h:1"],
        ["--advertise-url", "http://root:hunter2@h"],
        ["--etcd-password", "hunter2"],
    ] {
        let text = case.load(&args).expect_err("wrong").to_string();
        assert!(!text.contains("hunter2"), "{text}");
    }
}

#[test]
fn what_is_described_can_be_read_again() {
    let case = Case::new();
    let (cert, key) = pem();
    let (cert, key) = (case.write("cert", &cert), case.write("key", &key));
    let args = [
        "--data-dir=- odd: \"#name",
        "--http=[::1]:1,:2",
        "--https=none",
        "--metrics=127.0.0.1:3",
        "--metrics-machines=false",
        "--advertise-url=http://h",
        "--allow-ips=::1",
        "--etcd-endpoints=h:1,https://h:2",
        "--etcd-timeout=1500ms",
        "--allow-outside-pool",
        "--lenient-queries",
        "--crypts-access=open",
        "--ironic-tls=off",
        "--log-level=warn",
        "--log-file=true",
        &format!("--server-cert={cert}"),
        &format!("--server-key={key}"),
        &format!("--etcd-tls-ca={cert}"),
        &format!("--etcd-tls-cert={cert}"),
        &format!("--etcd-tls-key={key}"),
    ];
    let config = case.load(&args).expect("valid");
    let again = case.load_file(&describe(&config), &[]).expect("valid");
    assert_eq!(describe(&again), describe(&config));
    assert_eq!(again.data_dir, Path::new("- odd: \"#name"));
    assert!(again.outside_pool == OutsidePool::Allow && again.store == config.store && again.tls == config.tls);
    assert_eq!(again.metrics, config.metrics);
    assert_eq!((again.crypts_access, again.provisioning.ironic_tls), (CryptsAccess::Open, IronicTls::Off));
    assert_eq!(again.unknown_parameters, UnknownParameters::Ignore);
}

#[test]
fn every_flag_is_a_key_of_the_file_and_stands_in_the_reference() {
    let page = reference();
    let command = Flags::augment_args(Command::new("sabakan"));
    for arg in command.get_arguments() {
        let name = arg.get_long().expect("long");
        let start = format!("| `--{name}{}", if arg.is_require_equals_set() { "[" } else { " " });
        let row = page.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{name} is missing"));
        assert!(arg.get_help().is_some_and(|help| !help.to_string().is_empty()), "{name} has no help");
        if name == "config-file" {
            continue;
        }
        assert!(raw::parse(&format!("{name}: x")).is_ok(), "{name} is no key");
        if let Some(nested) = row.split('`').find_map(|part| part.strip_prefix("etcd.")) {
            assert!(raw::parse(&format!("etcd: {{{nested}: x}}")).is_ok(), "etcd.{nested} is no key");
        }
    }
    assert!(page.contains("| `--data-dir DIR` | `data-dir` | `./sabakan-data` | Where the server keeps its data |\n"));
    assert!(page.contains("| `--etcd-tls-ca FILE` | `etcd-tls-ca`, `etcd.tls-ca-file` | "));
    assert!(page.contains("| `--etcd-prefix PREFIX` | `etcd-prefix`, `etcd.prefix` | `/sabakan/` | "));
    assert!(page.contains("SABAKAN_ETCD_PASSWORD"));
}

#[cfg(feature = "etcd")]
#[test]
fn the_store_gets_every_setting_of_etcd() {
    let case = Case::new();
    let (cert, key) = pem();
    let args = [
        "--etcd-endpoints=https://h:1",
        "--etcd-timeout=3s",
        "--etcd-max-txn-ops=64",
        "--etcd-max-request-bytes=2MiB",
        "--etcd-username=u",
        "--etcd-password=hunter2",
        &format!("--etcd-tls-ca={}", case.write("ca", &cert)),
        &format!("--etcd-tls-cert={}", case.write("cert", &cert)),
        &format!("--etcd-tls-key={}", case.write("key", &key)),
    ];
    let config = etcd(&case.load(&args).expect("valid")).to_etcd("/p/");
    assert_eq!((config.endpoints, &*config.prefix), (vec!["https://h:1".to_owned()], "/p/"));
    assert_eq!((config.username.as_deref(), config.password.as_deref()), (Some("u"), Some("hunter2")));
    assert_eq!((config.connect_timeout.as_secs(), config.max_txn_ops, config.max_request_bytes), (3, 64, 2_097_152));
    let tls = config.tls.expect("given");
    assert_eq!((tls.ca_pem, tls.cert_pem, tls.key_pem), (cert.clone(), Some(cert), Some(key)));
}

#[test]
fn the_header_of_request_ids_is_a_header() {
    let load = |name: &'static str| {
        ServerConfig::load(flags(&[]), &|variable| (variable == "REQUEST_ID_HEADER").then(|| name.to_owned()))
    };
    assert_eq!(load("X-Trace").expect("valid").request_id_header, "x-trace");
    let error = load("not a header").expect_err("spaces").to_string();
    assert!(error.contains("REQUEST_ID_HEADER: \"not a header\" is not the name of a header"), "{error}");
}

mod cluster;
mod kubernetes;
mod provisioning;

#[test]
fn the_provisioning_api_speaks_tls_where_others_reach_it() {
    let case = Case::new();
    let check = |args: &[&str], expected: &[bool]| {
        let config = case.load(args).expect("valid").provisioning;
        let on: Vec<bool> = config.ironic.iter().map(|address| config.ironic_tls.is_on(address)).collect();
        assert_eq!(on, expected, "{args:?}");
    };
    check(&[], &[false]);
    check(&["--ironic", "localhost:1,10.0.0.1:1,:2"], &[false, true, true]);
    check(&["--ironic", "[::1]:1,10.0.0.1:1", "--ironic-tls", "on"], &[true, true]);
    check(&["--ironic", "[::1]:1,10.0.0.1:1", "--ironic-tls", "off"], &[false, false]);
    let config = case.load_file("ironic: 0.0.0.0:1\nironic-tls: off\n", &[]).expect("valid").provisioning;
    assert_eq!(config.ironic_tls, IronicTls::Off);
}
