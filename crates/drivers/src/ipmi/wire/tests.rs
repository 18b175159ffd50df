//! Requests, answers and tables, row by row. Bytes and texts are those of ipmitool 1.8.19 and ipmi_sim where they could be had.

use super::*;

#[test]
fn power_commands_are_those_of_the_standard() {
    assert_eq!(chassis_control(PowerTarget::Off), Some([0, 2, 0]));
    assert_eq!(chassis_control(PowerTarget::On), Some([0, 2, 1]));
    assert_eq!(chassis_control(PowerTarget::Reboot), Some([0, 2, 3]));
    assert_eq!(chassis_control(PowerTarget::SoftOff), Some([0, 2, 5]));
    assert_eq!(chassis_control(PowerTarget::SoftReboot), None);
}

#[test]
fn chassis_status_is_read() {
    let row = |bytes: &[u8]| chassis(bytes).unwrap();
    assert_eq!(row(&[0x01, 0, 0]), Chassis { power: PowerState::On, fault: false });
    // Bits 5 and 6 are the policy after a power cut, bits 0 and 1 of the third byte an open lid and a locked front panel.
    assert_eq!(row(&[0x60, 0, 0x03]), Chassis { power: PowerState::Off, fault: false });
    for fault in [[0x03, 0, 0], [0x09, 0, 0], [0x11, 0, 0], [0x01, 0, 0x04], [0x01, 0, 0x08]] {
        assert!(row(&fault).fault, "{fault:?}");
    }
    assert!(chassis(&[1, 0]).is_err());
}

#[test]
fn boot_flags_go_both_ways() {
    assert_eq!(set_boot_flags(BootDevice::Pxe, false), Some([0, 8, 5, 0xa0, 0x04, 0, 0, 0]));
    assert_eq!(set_boot_flags(BootDevice::Disk, true), Some([0, 8, 5, 0xe0, 0x08, 0, 0, 0]));
    assert_eq!(set_boot_flags(BootDevice::UefiHttp, true), None);
    for device in boot_devices() {
        for persistent in [false, true] {
            let set = set_boot_flags(device, persistent).unwrap();
            let answer = [&[0x01, 0x05], &set[3..]].concat();
            assert_eq!(boot_flags(&answer), Ok(Some((device, persistent))));
        }
    }
    assert_eq!(boot_flags(&[1, 5, 0xe0, 0, 0, 0, 0]), Ok(None));
    assert_eq!(boot_flags(&[1, 5, 0, 0x3c, 0, 0, 0]), Ok(Some((BootDevice::Floppy, false))));
    assert!(boot_flags(&[1, 5, 0, 0x24, 0, 0, 0]).is_err());
    assert!(boot_flags(&[1, 5]).is_err());
}

#[test]
fn bytes_are_read_as_they_are_printed() {
    assert_eq!(hex(" 01 05 00 08 00 00 00\n"), Ok(vec![1, 5, 0, 8, 0, 0, 0]));
    let two_lines = " 00 03 09 08 02 9f 91 12 00 02 0f 00 00 00 00 00\n 01\n";
    assert_eq!(hex(two_lines).unwrap().len(), 17);
    assert_eq!(hex("\n"), Ok(Vec::new()));
    assert!(hex("hello").is_err() && hex("100").is_err());
}

#[test]
fn identities_are_read() {
    let device = hex("00 03 09 08 02 9f 91 12 00 02 0f 00 00 00 00").unwrap();
    assert_eq!(maker(&device), Ok(4753));
    assert!(maker(&device[..8]).is_err());
    let info = |count: &str| has_no_records(&hex(&format!("51 {count} ff ff 00 00 00 00 00 00 00 00 22")).unwrap());
    assert_eq!([info("00 00"), info("04 00"), info("00 01")], [Ok(true), Ok(false), Ok(false)]);
    assert!(has_no_records(&[0x51, 0]).is_err());
    assert_eq!(mac(&[0x11, 0x52, 0x54, 0, 0xAB, 0, 1]).as_deref(), Some("52:54:00:ab:00:01"));
    assert_eq!(mac(&[0x11, 0, 0, 0, 0, 0, 0]), None);
    assert_eq!(mac(&[0x11]), None);
    let answer = hex("33 22 11 00 55 44 77 66 88 99 aa bb cc dd ee ff").unwrap();
    assert_eq!(guid(&answer).as_deref(), Some("00112233-4455-6677-8899-aabbccddeeff"));
    assert_eq!(guid(&[0; 16]), None);
    assert_eq!(guid(&[0xff; 16]), None);
    assert_eq!(guid(&answer[..15]), None);
}

#[test]
fn fru_members_are_read() {
    let printed = " Board Mfg Date        : Mon Jan  1 00:00:00 1996 UTC\n Product Manufacturer  : Lab\n Product Name          : Node\n \
                   Product Serial        : SRV-0001\n Product Extra         : \n Product Extra         : a : b\n";
    let found = fru(printed);
    let get = |name: &str| found.get(name).map(String::as_str);
    assert_eq!(get("Board Mfg Date"), Some("Mon Jan  1 00:00:00 1996 UTC"));
    assert_eq!(get("Product Serial"), Some("SRV-0001"));
    assert_eq!(get("Product Extra"), Some("a : b"));
}

#[test]
fn sensors_are_read_with_the_worst_verdict() {
    let printed = "CPU Temp,42,degrees C,ok,7.1,System Board,Temperature,,,,95.000\nFan 1,3000,RPM,ok\n12V, rear,12.06,Volts,nc\n\
                   PSU Power,240,Watts,ok\nFan 2,,,ns,29.2\nFan 3,na,RPM,na\nno row at all\n";
    let (sensors, worst) = super::sensors(printed);
    let rows: Vec<_> = sensors.iter().map(|sensor| (sensor.name.as_str(), sensor.kind, sensor.value)).collect();
    let expected = [
        ("CPU Temp", SensorKind::Temperature, 42.0),
        ("Fan 1", SensorKind::Fan, 3000.0),
        ("12V, rear", SensorKind::Voltage, 12.06),
        ("PSU Power", SensorKind::Power, 240.0),
    ];
    assert_eq!(rows, expected);
    assert_eq!(worst, Some(HardwareHealth::Warning));
    assert_eq!(super::sensors("Temp,99,degrees C,cr\nFan,1,RPM,nc\n").1, Some(HardwareHealth::Critical));
    assert_eq!(super::sensors("Temp,99,degrees C,ok\n").1, Some(HardwareHealth::Ok));
    assert_eq!(super::sensors("").1, None);
}
