//! What an inspection found, in the shape the provisioning API serves it. Stored as it is served.

use bytes::Bytes;
use sabakan_domain::provision::hardware::{Cpu, Disk, Interface, Inventory};
use serde_json::{Value, json};

/// The stored form.
pub(crate) fn encode(found: &Inventory) -> Bytes {
    let Inventory {
        manufacturer,
        product,
        serial,
        system_uuid,
        bios_version,
        cpu,
        memory_mib,
        interfaces,
        disks,
        boot_mode,
        bmc_mac,
        unknown,
    } = found;
    let Cpu { model, architecture, count, frequency_mhz } = cpu;
    let document = json!({
        "inventory": {
            "interfaces": interfaces.iter().map(interface).collect::<Vec<_>>(),
            "disks": disks.iter().map(disk).collect::<Vec<_>>(),
            "cpu": {
                "model_name": model,
                // A text, because one of the clients insists on it.
                "frequency": frequency_mhz.map(|mhz| mhz.to_string()),
                "count": count,
                "architecture": architecture,
                "flags": [],
            },
            "memory": { "total": memory_mib.map(|mib| mib << 20), "physical_mb": memory_mib },
            "bmc_mac": bmc_mac,
            "system_vendor": {
                "product_name": product,
                "serial_number": serial,
                "manufacturer": manufacturer,
                "system_uuid": system_uuid,
                "firmware": { "vendor": manufacturer, "version": bios_version },
            },
            "boot": { "current_boot_mode": boot_mode.map(|mode| mode.as_str()) },
        },
        "plugin_data": { "unknown": unknown },
    });
    document.to_string().into()
}

fn interface(interface: &Interface) -> Value {
    let Interface { name, mac, has_carrier, speed_mbps } = interface;
    json!({ "name": name, "mac_address": mac, "has_carrier": has_carrier, "speed_mbps": speed_mbps })
}

fn disk(disk: &Disk) -> Value {
    let Disk { name, model, serial, size, rotational } = disk;
    json!({ "name": name, "model": model, "serial": serial, "size": size, "rotational": rotational })
}
