//! IPMI against a real controller, `ipmi_sim`, and against programs that pretend to be ipmitool for what no controller shows.

mod pretended;

use std::{
    future::{Future, ready},
    net::UdpSocket,
    pin::Pin,
    time::Duration,
};

use sabakan_domain::provision::{
    boot::{BootDevice, BootRequest},
    hardware::{HardwareHealth, Sensor, SensorKind},
    power::{PowerState, PowerTarget},
};
use sabakan_drivers::{
    Driver, DriverError, Secret,
    contract::{self, Subject, Witness},
    ipmi::{IpmiDriver, IpmiOptions},
    lab::ipmi_sim::{ADMIN, IpmiSim, VIEWER, installed, settings},
};
use serde_json::json;

/// Loopback loses nothing and the simulator needs no rest.
fn options() -> IpmiOptions {
    IpmiOptions { gap: Duration::ZERO, resends: 1, ..IpmiOptions::default() }
}

fn driver() -> IpmiDriver {
    IpmiDriver::with_options(installed("ipmitool", "ipmitool"), options())
}

/// The files of the simulator's script, which IPMI has no part in.
struct Files<'a>(&'a IpmiSim);

impl Witness for Files<'_> {
    fn power(&self) -> Pin<Box<dyn Future<Output = Option<PowerState>> + Send + '_>> {
        Box::pin(ready(self.0.power()))
    }
}

/// A port that stays silent as long as the socket lives.
fn silent() -> (UdpSocket, u16) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    (socket, port)
}

#[tokio::test]
async fn contract_holds_for_ipmi_sim() {
    let simulator = IpmiSim::start();
    let (_socket, silent_port) = silent();
    let subject = Subject {
        driver: &driver(),
        settings: simulator.settings(ADMIN),
        wrong_credentials: simulator.settings((ADMIN.0, "n0t-the-one")),
        unreachable: settings(silent_port, ADMIN, &json!({})),
        unreachable_within: Duration::from_secs(20),
        power_within: Duration::from_secs(30),
        obeys_soft: true,
        boot_devices: &[BootDevice::Pxe, BootDevice::Disk, BootDevice::Cdrom, BootDevice::Bios],
        // The simulator keeps the device, but not whether it counts every time; see the test below.
        reads_boot: false,
        has_inventory: true,
        has_sensors: true,
        has_health: true,
        witness: Some(&Files(&simulator)),
    };
    contract::run_all(&subject).await;
    assert_eq!(simulator.state("shutdown").as_deref(), Some("asked"), "the soft targets asked the operating system");
}

#[tokio::test]
async fn boot_device_reaches_the_machine() {
    let simulator = IpmiSim::start();
    let bmc = driver().connect(&simulator.settings(ADMIN)).unwrap();
    for (device, name) in [(BootDevice::Pxe, "pxe"), (BootDevice::Cdrom, "cdrom"), (BootDevice::Bios, "bios")] {
        let request = BootRequest { device, persistent: false, http_uri: None };
        bmc.set_boot(&request).await.unwrap();
        assert_eq!(simulator.state("boot").as_deref(), Some(name));
        assert_eq!(bmc.boot().await, Ok((device, false)));
    }
    let uri = BootRequest { device: BootDevice::Pxe, persistent: false, http_uri: Some("http://a/".to_owned()) };
    assert!(matches!(bmc.set_boot(&uri).await, Err(DriverError::Unsupported(_))));
}

#[tokio::test]
async fn restart_is_asked_of_the_chassis() {
    let simulator = IpmiSim::start();
    let bmc = driver().connect(&simulator.settings(ADMIN)).unwrap();
    bmc.command_power(PowerTarget::Reboot).await.unwrap();
    assert_eq!(simulator.state("reset").as_deref(), Some("asked"));
}

#[tokio::test]
async fn sensors_and_inventory_are_those_of_the_machine() {
    let simulator = IpmiSim::start();
    let bmc = driver().connect(&simulator.settings(ADMIN)).unwrap();
    let sensor = |name: &str, kind, value| Sensor { name: name.to_owned(), kind, value };
    let expected = [
        sensor("CPU Temp", SensorKind::Temperature, 42.0),
        sensor("Fan 1", SensorKind::Fan, 3000.0),
        sensor("12V", SensorKind::Voltage, 12.0),
        sensor("PSU Power", SensorKind::Power, 240.0),
    ];
    assert_eq!(bmc.sensors().await.unwrap(), expected);
    assert_eq!(bmc.health().await, Ok(Some(HardwareHealth::Ok)));
    let inventory = bmc.inspect().await.unwrap();
    let shown = [&inventory.manufacturer, &inventory.product, &inventory.serial, &inventory.system_uuid];
    let expected = ["Lab", "Node", "SRV-0001", "00112233-4455-6677-8899-aabbccddeeff"];
    assert_eq!(shown.map(|text| text.as_deref().unwrap_or("unknown")), expected);
    let unknown: Vec<&str> = inventory.unknown.keys().map(String::as_str).collect();
    assert_eq!(unknown, ["bios_version", "bmc_mac", "boot_mode", "cpu", "disks", "interfaces", "memory_mib"]);
}

#[tokio::test]
async fn wrong_password_wrong_user_and_little_privilege_are_three_things() {
    let simulator = IpmiSim::start();
    let driver = driver();
    let password = driver.connect(&simulator.settings((ADMIN.0, "n0t-the-one"))).unwrap().power().await;
    let password = password.unwrap_err().to_string();
    assert_eq!(password, "the BMC refused the credentials: wrong password (RAKP 2 HMAC is invalid)");
    let user = driver.connect(&simulator.settings(("nobody", ADMIN.1))).unwrap().power().await;
    assert_eq!(user.unwrap_err().to_string(), "the BMC refused the credentials: it has no such user");
    let viewer = driver.connect(&simulator.settings_with(VIEWER, &json!({"ipmi_priv_level": "USER"}))).unwrap();
    assert_eq!(viewer.power().await, Ok(Some(PowerState::Off)), "reading needs no more than USER");
    let privilege = viewer.command_power(PowerTarget::On).await.unwrap_err().to_string();
    assert_eq!(
        privilege,
        "the BMC refused the credentials: the user's privilege is not enough to change the power (power on)"
    );
    assert_eq!(simulator.power(), None, "nobody changed the power");
}

#[tokio::test]
async fn silent_and_nameless_controllers_are_unreachable() {
    let (_socket, port) = silent();
    let nobody = driver().connect(&settings(port, ADMIN, &json!({}))).unwrap().power().await;
    assert_eq!(nobody, Err(DriverError::Unreachable("no answer".to_owned())));
    let nameless = settings(port, ADMIN, &json!({"ipmi_address": "no-such-host.invalid"}));
    let nameless = driver().connect(&nameless).unwrap().power().await;
    assert_eq!(nameless, Err(DriverError::Unreachable("its name has no address".to_owned())));
}

#[tokio::test]
async fn missing_functions_and_cipher_suites_are_told() {
    let simulator = IpmiSim::start();
    let driver = driver();
    let reset = driver.connect(&simulator.settings(ADMIN)).unwrap().reset_bmc().await;
    assert_eq!(reset, Err(DriverError::Unsupported("to restart the BMC".to_owned())));
    let suite = simulator.settings_with(ADMIN, &json!({"ipmi_cipher_suite": 17}));
    let refused = driver.connect(&suite).unwrap().power().await;
    assert!(matches!(&refused, Err(DriverError::Rejected { what, .. }) if what == "open a session"), "{refused:?}");
}

#[tokio::test]
async fn kg_key_has_to_be_the_right_one() {
    let simulator = IpmiSim::start_with_key(Some("kg-of-the-lab"));
    let driver = driver();
    let with_key = |hex: &str| {
        let mut settings = simulator.settings(ADMIN);
        settings.secrets.insert("ipmi_hex_kg_key".to_owned(), Secret::new(hex));
        driver.connect(&settings).unwrap()
    };
    let right = "6b672d6f662d7468652d6c616200000000000000";
    assert_eq!(with_key(right).power().await, Ok(Some(PowerState::Off)));
    let wrong = with_key(&"61".repeat(20)).power().await.unwrap_err().to_string();
    let expected = "the BMC refused the credentials: wrong or missing Kg key (RAKP 4 is invalid)";
    assert_eq!(wrong, expected);
    let none = driver.connect(&simulator.settings(ADMIN)).unwrap().power().await.unwrap_err().to_string();
    assert_eq!(none, expected);
}
