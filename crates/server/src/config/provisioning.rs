//! Provisioning: who does the work, how much of it at once, what a site wants of the rules, and which driver talks to which BMC
//! type. Secrets of BMCs are read from files and nowhere else.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use sabakan_domain::provision::{accept::Options, guards::Strictness, schedule::Class, steps::Interface};
use sabakan_drivers::{
    Secret as BmcSecret,
    ipmi::find_tool,
    simulated::{Fleet, FleetConfig},
};
use sabakan_service::{hardware::BmcTypeRule, tasks::conductor::ConductorOptions};
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::Spanned;

use super::{
    ListenAddress, defaults, limits,
    raw::{Line, help},
    sources::{Given, Sources, read_file},
    values,
};
use crate::provisioning::{IronicTls, ProvisioningConfig};

/// The flags of provisioning. All but the two tables, which only a file can hold.
#[derive(Clone, Default, clap::Args)]
#[command(next_help_heading = "Provisioning")]
pub struct ProvisioningFlags {
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help = help("Do provisioning work; off, this server only takes wishes and leaves the work to others", defaults::YES))]
    pub conductor: Option<String>,
    #[arg(long, value_name = "NAME",
        help = help("The name of this server in histories and locks; no two servers on one etcd may share it",
            "host name and a part of server-id in --data-dir"))]
    pub conductor_name: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help = help("Offer the driver fake-hardware, whose machines exist only in this process", defaults::NO))]
    pub simulated_hardware: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help = help("Clean a machine before it becomes available, unless its node says otherwise", defaults::YES))]
    pub automated_clean: Option<String>,
    #[arg(long, value_name = "full|keys-only",
        help = help("What automated cleaning erases: disks and disk keys, or disk keys alone; driver_info.cleaning of a node wins",
            defaults::CLEANING))]
    pub cleaning: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help = help("Deploy only machines whose lifecycle state is healthy; off, uninitialized ones too", defaults::NO))]
    pub require_healthy: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help = help("Switch a machine off once its credentials are proved", defaults::NO))]
    pub power_off_after_verify: Option<String>,
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        help = help("Accept `provide` for nodes in maintenance", defaults::YES))]
    pub provide_in_maintenance: Option<String>,
    #[arg(long, value_name = "TIME",
        help = help("How often the power state of each machine is read, such as 2m; 0 never", defaults::POWER_SYNC))]
    pub power_sync_interval: Option<String>,
    #[arg(long, value_name = "TIME",
        help = help("How long nodes stay with a server that died before others go on with them", defaults::WORK_LEASE))]
    pub work_lease: Option<String>,
    #[arg(long, value_name = "NUMBER",
        help = help("Most nodes verified or adopted at once, by all servers together", defaults::VERIFY_CONCURRENCY))]
    pub verify_concurrency: Option<String>,
    #[arg(long, value_name = "NUMBER",
        help = help("Most nodes inspected at once", defaults::INSPECT_CONCURRENCY))]
    pub inspect_concurrency: Option<String>,
    #[arg(long, value_name = "NUMBER",
        help = help("Most nodes cleaned or torn down at once; nodes that wait do not count", defaults::CLEAN_CONCURRENCY))]
    pub clean_concurrency: Option<String>,
    #[arg(long, value_name = "NUMBER",
        help = help("Most nodes deployed, rescued or serviced at once; nodes that wait do not count",
            defaults::DEPLOY_CONCURRENCY))]
    pub deploy_concurrency: Option<String>,
    #[arg(long, value_name = "NUMBER",
        help = help("Most nodes of one conductor group worked on at once", defaults::GROUP_CONCURRENCY))]
    pub group_concurrency: Option<String>,
    #[arg(long, value_name = "FILE", help = help("The program that speaks IPMI", "ipmitool, found in PATH"))]
    pub ipmitool: Option<String>,
}

/// Machines of one BMC type, as the file says it.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct BmcTypeFile {
    #[serde(rename = "type")]
    pub bmc_type: Line<String>,
    pub driver: Line<String>,
    pub username: Line<String>,
    pub password_file: Line<String>,
    pub settings: Line<BTreeMap<String, Value>>,
    pub secret_files: BTreeMap<String, Spanned<String>>,
}

/// Numbers by name, such as priorities of steps.
pub type Numbers = BTreeMap<String, Spanned<String>>;

/// What stands before the settings of each driver.
const DRIVERS: [(&str, &str); 3] = [("redfish", "redfish_"), ("ipmi", "ipmi_"), (FAKE, "fake_")];

const FAKE: &str = "fake-hardware";

/// Takes one setting out of the sources.
macro_rules! setting {
    ($from:ident, $name:literal, $field:ident) => {{
        let flag = $from.flags.provisioning.$field.take();
        let lines = vec![($name, $from.file.$field.take())];
        $from.pick($name, flag, lines)
    }};
}

/// Everything about provisioning but its listeners, which are judged together with the others.
pub fn provisioning(from: &mut Sources<'_>, ironic: Vec<ListenAddress>, ironic_tls: IronicTls) -> ProvisioningConfig {
    let simulated = setting!(from, "simulated-hardware", simulated_hardware);
    let simulated = from.check(&simulated, values::boolean).unwrap_or_default();
    let ipmitool = setting!(from, "ipmitool", ipmitool);
    let path = (from.env)("PATH").unwrap_or_default();
    ProvisioningConfig {
        ironic,
        ironic_tls,
        rules: rules(from),
        conductor: conductor(from),
        ipmitool: from.check(&ipmitool, values::path).unwrap_or_else(|| find_tool(path.as_ref())),
        bmc_types: bmc_types(from, simulated),
        fleet: simulated.then(|| Fleet::new(FleetConfig::default())),
    }
}

fn rules(from: &mut Sources<'_>) -> Options {
    let clean = setting!(from, "automated-clean", automated_clean);
    let cleaning = setting!(from, "cleaning", cleaning);
    let cleaning = from.check(&cleaning, str::parse).unwrap_or_default();
    let healthy = setting!(from, "require-healthy", require_healthy);
    let power_off = setting!(from, "power-off-after-verify", power_off_after_verify);
    let provide = setting!(from, "provide-in-maintenance", provide_in_maintenance);
    let mut truth = |given: &Option<Given<String>>, default| from.check(given, values::boolean).unwrap_or(default);
    Options {
        no_automated_clean: !truth(&clean, true),
        strictness: Strictness { require_healthy: truth(&healthy, false) },
        power_off_after_verify: truth(&power_off, false),
        no_provide_in_maintenance: !truth(&provide, true),
        clean_priorities: clean_priorities(from),
        cleaning,
    }
}

/// All settings are judged, also those that do nothing because the work is left to others.
fn conductor(from: &mut Sources<'_>) -> Option<ConductorOptions> {
    let wanted = setting!(from, "conductor", conductor);
    let wanted = from.check(&wanted, values::boolean).unwrap_or(true);
    let mut options = ConductorOptions { name: String::new(), ..ConductorOptions::default() };
    let name = setting!(from, "conductor-name", conductor_name);
    options.name = from.check(&name, conductor_name).unwrap_or_default();
    let sync = setting!(from, "power-sync-interval", power_sync_interval);
    options.power_sync = from.check(&sync, power_sync).unwrap_or(options.power_sync);
    let lease = setting!(from, "work-lease", work_lease);
    options.lease = from.check(&lease, work_lease).unwrap_or(options.lease);
    let bounds = [
        (Class::Verify, setting!(from, "verify-concurrency", verify_concurrency)),
        (Class::Inspect, setting!(from, "inspect-concurrency", inspect_concurrency)),
        (Class::Clean, setting!(from, "clean-concurrency", clean_concurrency)),
        (Class::Deploy, setting!(from, "deploy-concurrency", deploy_concurrency)),
    ];
    for (class, given) in bounds {
        options.capacity.per_class.extend(from.check(&given, concurrency).map(|bound| (class, bound)));
    }
    let group = setting!(from, "group-concurrency", group_concurrency);
    options.capacity.per_group = from.check(&group, concurrency).unwrap_or(options.capacity.per_group);
    wanted.then_some(options)
}

fn clean_priorities(from: &mut Sources<'_>) -> BTreeMap<String, u32> {
    let mut priorities = BTreeMap::new();
    for (step, number) in std::mem::take(&mut from.file.clean_priorities) {
        let at = from.place(&format!("clean-priorities.{step}"), &number);
        match step.split_once('.').map(|(interface, name)| (interface.parse::<Interface>(), name)) {
            Some((Ok(_), name)) if !name.is_empty() => {}
            Some((Err(reason), _)) => from.wrong(&*at, reason),
            _ => from.wrong(&*at, format!("{step:?} is not interface.step, such as deploy.erase_devices")),
        }
        match number.value.trim().parse::<u32>() {
            Ok(priority) if priority <= limits::PRIORITY_MAX => drop(priorities.insert(step, priority)),
            _ => from.wrong(at, format!("{:?} is not a number from 0 to {}", number.value, limits::PRIORITY_MAX)),
        }
    }
    priorities
}

fn bmc_types(from: &mut Sources<'_>, simulated: bool) -> Vec<BmcTypeRule> {
    let Some(list) = from.file.bmc_types.take() else { return Vec::new() };
    let at = from.place("bmc-types", &list);
    let mut seen = HashSet::new();
    let mut rules = Vec::new();
    for (n, entry) in list.value.into_iter().enumerate() {
        let place = Place { key: format!("bmc-types[{n}]"), otherwise: at.clone() };
        let rule = bmc_type(from, entry, &place, simulated);
        if let Some(rule) = rule {
            if !seen.insert(rule.bmc_type.clone()) {
                from.wrong(place.otherwise, format!("{}: the type {:?} is there twice", place.key, rule.bmc_type));
                continue;
            }
            rules.push(rule);
        }
    }
    rules
}

/// Where an entry stands, for complaints about what is not there.
struct Place {
    key: String,
    otherwise: String,
}

fn bmc_type(from: &mut Sources<'_>, entry: BmcTypeFile, place: &Place, simulated: bool) -> Option<BmcTypeRule> {
    let BmcTypeFile { bmc_type, driver, username, password_file, settings, secret_files } = entry;
    let inside = |name: &str| format!("{}.{name}", place.key);
    let mut lacking = |name: &str| from.wrong(&*place.otherwise, format!("{} has no {name}", place.key));
    if bmc_type.is_none() {
        lacking("type");
    }
    if driver.is_none() {
        lacking("driver");
    }
    let bmc_type = given(from, &inside("type"), bmc_type);
    let bmc_type = from.check(&bmc_type, pattern);
    let driver = given(from, &inside("driver"), driver);
    let (driver, prefix) = from.check(&driver, |name| known_driver(name, simulated))?;
    let mut rule = BmcTypeRule {
        bmc_type: bmc_type.unwrap_or_default(),
        driver: driver.to_owned(),
        settings: BTreeMap::new(),
        secrets: BTreeMap::new(),
    };
    if let Some(line) = settings {
        let at = from.place(&inside("settings"), &line);
        for (key, value) in line.value {
            match open_setting(&key, prefix) {
                Ok(()) => drop(rule.settings.insert(key, value)),
                Err(reason) => from.wrong(&*at, reason),
            }
        }
    }
    if let Some(name) = username {
        rule.settings.insert(format!("{prefix}username"), Value::String(name.value));
    }
    let password = password_file.map(|file| ("password-file".to_owned(), format!("{prefix}password"), file));
    let others = secret_files.into_iter().map(|(key, file)| (format!("secret-files.{key}"), key, file));
    for (name, key, file) in password.into_iter().chain(others) {
        let at = from.place(&inside(&name), &file);
        if !key.starts_with(prefix) {
            from.wrong(at, format!("{key:?} is not a setting of this driver; they start with {prefix}"));
            continue;
        }
        match secret(&file.value) {
            Ok(secret) => drop(rule.secrets.insert(key, secret)),
            Err(reason) => from.wrong(at, reason),
        }
    }
    Some(rule)
}

fn given(from: &Sources<'_>, key: &str, line: Line<String>) -> Option<Given<String>> {
    line.map(|line| from.in_file(key, line))
}

fn known_driver(name: &str, simulated: bool) -> Result<(&'static str, &'static str), String> {
    let known = DRIVERS.into_iter().find(|(driver, _)| *driver == name);
    let names = DRIVERS.map(|(driver, _)| driver).join(", ");
    let known = known.ok_or_else(|| format!("there is no driver {name:?}; one of: {names}"))?;
    if name == FAKE && !simulated {
        return Err("needs --simulated-hardware".to_owned());
    }
    Ok(known)
}

/// A type, or the beginning of several with `*` at its end.
fn pattern(text: &str) -> Result<String, String> {
    let start = text.strip_suffix('*').unwrap_or(text);
    if text.is_empty() || start.contains('*') {
        return Err(format!("{text:?} is neither a BMC type nor the beginning of one followed by *"));
    }
    Ok(text.to_owned())
}

fn open_setting(key: &str, prefix: &str) -> Result<(), String> {
    if !key.starts_with(prefix) {
        return Err(format!("{key:?} is not a setting of this driver; they start with {prefix}"));
    }
    // Not by name alone: whoever writes a secret into the open has to be told, whatever the driver calls it.
    let words = ["password", "secret", "token", "hex_kg_key"];
    if words.iter().any(|word| key.contains(word)) && !key.starts_with("fake_wrong_") {
        return Err(format!("{key:?} is a secret; put it into a file and name that under secret-files"));
    }
    Ok(())
}

/// The only line of a file. The newline at its end does not belong to it.
fn secret(path: &str) -> Result<BmcSecret, String> {
    let text = read_file(path).map(zeroize::Zeroizing::new)?;
    let line = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
    if line.is_empty() || line.contains('\n') || line.len() > limits::PASSWORD_BYTES_MAX {
        return Err(format!("{path} must hold one line of at most {} bytes", limits::PASSWORD_BYTES_MAX));
    }
    Ok(BmcSecret::new(line))
}

/// It becomes a part of a key and of histories.
fn conductor_name(text: &str) -> Result<String, String> {
    let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.is_empty() || text.len() > limits::NAME_BYTES_MAX || !text.chars().all(valid) {
        let max = limits::NAME_BYTES_MAX;
        return Err(format!("{text:?} is not a name of at most {max} letters, digits, dots, dashes and underscores"));
    }
    Ok(text.to_owned())
}

fn power_sync(text: &str) -> Result<Duration, String> {
    if text == "0" { Ok(Duration::ZERO) } else { values::time_within(text, limits::POWER_SYNC) }
}

fn work_lease(text: &str) -> Result<Duration, String> {
    values::time_within(text, limits::WORK_LEASE)
}

fn concurrency(text: &str) -> Result<usize, String> {
    let number = text.parse().map_err(|_| format!("{text:?} is not a number"))?;
    values::within(text, number, 1, limits::CONCURRENCY_MAX)
}
