//! Against sushy-emulator, with TLS and authentication on: the contract, and four ways of failing that must be told apart.

use std::{
    collections::BTreeSet,
    future::Future,
    pin::Pin,
    time::{Duration, Instant},
};

use sabakan_domain::provision::{
    boot::{BootDevice, BootRequest},
    power::{PowerState, PowerTarget},
};
use sabakan_drivers::{
    DriverError, Secret, Settings,
    contract::{self, Subject, Witness},
    lab::sushy::{PASSWORD, Sushy, System},
    power,
};
use serde_json::json;

use super::{connect, driver};

/// The emulator changes power one to eleven seconds after the command.
const POWER_WITHIN: Duration = Duration::from_secs(40);

struct Curl<'a>(&'a Sushy, &'a System);

impl Curl<'_> {
    fn look(&self) -> Option<PowerState> {
        match self.0.look(&self.1.path())["PowerState"].as_str() {
            Some("On") => Some(PowerState::On),
            Some("Off") => Some(PowerState::Off),
            _ => None,
        }
    }
}

impl Witness for Curl<'_> {
    fn power(&self) -> Pin<Box<dyn Future<Output = Option<PowerState>> + Send + '_>> {
        Box::pin(async { self.look() })
    }
}

fn nowhere(settings: &Settings) -> Settings {
    // Bound and let go: nobody listens there.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://{}", listener.local_addr().unwrap());
    let mut settings = settings.clone();
    settings.values.insert("redfish_address".to_owned(), json!(address));
    settings
}

fn wrong_password(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    settings.secrets.insert("redfish_password".to_owned(), Secret::new("not the password"));
    settings
}

#[tokio::test]
async fn contract_holds() {
    let system = System::numbered(1);
    let sushy = Sushy::start(std::slice::from_ref(&system));
    let driver = driver();
    let settings = sushy.settings(&system);
    contract::run_all(&Subject {
        driver: &driver,
        wrong_credentials: wrong_password(&settings),
        unreachable: nowhere(&settings),
        settings,
        unreachable_within: Duration::from_secs(20),
        power_within: POWER_WITHIN,
        obeys_soft: true,
        boot_devices: &[BootDevice::Pxe, BootDevice::Disk, BootDevice::Cdrom],
        reads_boot: false,
        has_inventory: true,
        has_sensors: true,
        has_health: true,
        witness: Some(&Curl(&sushy, &system)),
    })
    .await;
}

#[tokio::test]
async fn four_failures_have_four_texts() {
    let (sound, broken) = (System::numbered(1), System { is_broken: true, ..System::numbered(2) });
    let sushy = Sushy::start(&[sound.clone(), broken.clone()]);
    let driver = driver();
    let good = sushy.settings(&sound);
    // The authority of somebody else.
    let other = Sushy::start(std::slice::from_ref(&sound));
    let mut stranger = good.clone();
    stranger.values.insert("redfish_verify_ca".to_owned(), json!(other.ca()));
    let cases = [
        ("bad password", wrong_password(&good), "refused the credentials"),
        ("bad certificate", stranger, "certificate is not trusted"),
        ("unreachable", nowhere(&good), "cannot be reached"),
        ("HTTP 500", sushy.settings(&broken), "HTTP 500"),
    ];
    let mut texts = BTreeSet::new();
    for (case, settings, expected) in cases {
        let begun = Instant::now();
        let error = connect(&driver, &settings).power().await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains(expected), "{case}: {text}");
        assert!(!text.contains(PASSWORD) && !text.contains("not the password"), "{case}: {text}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{case} took {:?}", begun.elapsed());
        let is_its_kind = match case {
            "bad password" => matches!(error, DriverError::Credentials(_)),
            "bad certificate" => matches!(error, DriverError::Untrusted(_)),
            "unreachable" => matches!(error, DriverError::Unreachable(_)),
            _ => matches!(error, DriverError::Failed { .. }),
        };
        assert!(is_its_kind, "{case}: {error:?}");
        texts.insert(text);
    }
    assert_eq!(texts.len(), 4, "{texts:#?}");
    // And the way that is right works beside them.
    assert_eq!(connect(&driver, &good).power().await.unwrap(), Some(PowerState::Off));
}

#[tokio::test]
async fn power_really_changes_and_only_of_the_machine_that_was_meant() {
    let (one, other) = (System::numbered(1), System::numbered(2));
    let sushy = Sushy::start(&[one.clone(), other.clone()]);
    let driver = driver();
    let bmc = connect(&driver, &sushy.settings(&one));
    power::change(&*bmc, PowerTarget::On, POWER_WITHIN).await.unwrap();
    assert_eq!(Curl(&sushy, &one).look(), Some(PowerState::On));
    assert_eq!(Curl(&sushy, &other).look(), Some(PowerState::Off));
}

#[tokio::test]
async fn boot_override_arrives_although_it_reads_back_otherwise() {
    let system = System::numbered(1);
    let sushy = Sushy::start(std::slice::from_ref(&system));
    let bmc = connect(&driver(), &sushy.settings(&system));
    let boot = || sushy.look(&system.path())["Boot"].clone();
    assert_eq!(boot()["BootSourceOverrideTarget"], "Hdd");
    let request = |device| BootRequest { device, persistent: false, http_uri: None };
    bmc.set_boot(&request(BootDevice::UefiHttp)).await.unwrap();
    // The emulator takes HTTP boot for PXE, and once for ever.
    assert_eq!(boot()["BootSourceOverrideTarget"], "Pxe");
    assert_eq!(bmc.boot().await.unwrap(), (BootDevice::Pxe, true));
    bmc.set_boot(&request(BootDevice::Cdrom)).await.unwrap();
    assert_eq!(boot()["BootSourceOverrideTarget"], "Cd");
}

#[tokio::test]
async fn inspection_says_what_the_emulator_cannot_tell() {
    let system = System::numbered(1);
    let sushy = Sushy::start(std::slice::from_ref(&system));
    let mut settings = sushy.settings(&system);
    // The only one there is need not be named.
    settings.values.remove("redfish_system_id");
    let inventory = connect(&driver(), &settings).inspect().await.unwrap();
    assert_eq!(inventory.manufacturer.as_deref(), Some("Sushy Emulator"));
    assert_eq!(inventory.interfaces.iter().map(|i| i.mac.as_str()).collect::<Vec<_>>(), [system.mac.as_str()]);
    for name in ["cpu", "disks", "memory_mib", "serial"] {
        assert!(inventory.unknown.contains_key(name), "{name}: {:?}", inventory.unknown);
    }
}
