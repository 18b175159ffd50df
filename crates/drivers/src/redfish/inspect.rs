//! Inspection: what the machine is made of. A resource that is missing or fails becomes an entry of `unknown`; only a controller that
//! is gone, or is not the one we trust, ends an inspection.

use std::collections::{BTreeMap, BTreeSet};

use sabakan_domain::provision::hardware::{Cpu, Disk, HardwareHealth, Interface, Inventory};
use serde_json::Value;

use super::{
    Controller,
    quirks::{boot_mode, health},
    resources::{link_of, text},
};
use crate::DriverError;

type Unknown = BTreeMap<String, String>;

impl Controller {
    pub(super) async fn read_inventory(&self) -> Result<Inventory, DriverError> {
        let system = self.system().await?.body;
        let mut unknown = Unknown::new();
        let mut fact = |name: &str, key: &str| text(&system[key]).or_else(|| absent(&mut unknown, name));
        let mut inventory = Inventory {
            manufacturer: fact("manufacturer", "Manufacturer"),
            product: fact("product", "Model"),
            serial: fact("serial", "SerialNumber"),
            system_uuid: fact("system_uuid", "UUID"),
            bios_version: fact("bios_version", "BiosVersion"),
            ..Inventory::default()
        };
        let memory = mib(&system["MemorySummary"]["TotalSystemMemoryGiB"]);
        inventory.memory_mib = memory.or_else(|| absent(&mut unknown, "memory_mib"));
        let mode = system["Boot"]["BootSourceOverrideMode"].as_str().and_then(boot_mode);
        inventory.boot_mode = mode.or_else(|| absent(&mut unknown, "boot_mode"));
        inventory.cpu = self.cpu(&system, &mut unknown).await?;
        let interfaces = self.parts(&system, "EthernetInterfaces", "interfaces", &mut unknown).await?;
        inventory.interfaces = interfaces_of(&interfaces.unwrap_or_default());
        inventory.disks = self.disks(&system, &mut unknown).await?;
        let bmc_mac = self.bmc_mac(&system).await;
        inventory.bmc_mac = tolerate(bmc_mac, "bmc_mac", &mut unknown)?;
        inventory.unknown = unknown;
        Ok(inventory)
    }

    async fn cpu(&self, system: &Value, unknown: &mut Unknown) -> Result<Cpu, DriverError> {
        let processors = self.parts(system, "Processors", "cpu", unknown).await?.unwrap_or_default();
        Ok(cpu_of(&system["ProcessorSummary"], &processors))
    }

    async fn disks(&self, system: &Value, unknown: &mut Unknown) -> Result<Vec<Disk>, DriverError> {
        let Some(storages) = self.parts(system, "Storage", "disks", unknown).await? else {
            // The older, simpler list says less, but better than nothing.
            let simple = match self.connection.members(system, "SimpleStorage").await {
                Err(error) if is_fatal(&error) => return Err(error),
                other => other.ok(),
            };
            simple.as_ref().inspect(|_| _ = unknown.remove("disks"));
            return Ok(simple.map(|controllers| simple_disks(&controllers)).unwrap_or_default());
        };
        let drives: Vec<String> = storages.iter().flat_map(|storage| links(&storage["Drives"])).collect();
        Ok(self.each(&drives, "disks", unknown).await?.iter().map(disk_of).collect())
    }

    /// Members of a collection, each as far as it can be read; `None` if not even their list can.
    async fn parts(
        &self,
        parent: &Value,
        name: &str,
        key: &str,
        unknown: &mut Unknown,
    ) -> Result<Option<Vec<Value>>, DriverError> {
        let found = match link_of(&parent[name]) {
            Some(link) => self.connection.member_links(name, &link).await,
            None => Err(DriverError::Unsupported(name.to_owned())),
        };
        match tolerate(found, key, unknown)? {
            Some(found) => self.each(&found, key, unknown).await.map(Some),
            None => Ok(None),
        }
    }

    async fn each(&self, links: &[String], key: &str, unknown: &mut Unknown) -> Result<Vec<Value>, DriverError> {
        let mut found = Vec::new();
        for link in links {
            let name = format!("{key}/{}", link.rsplit('/').next().unwrap_or_default());
            found.extend(tolerate(self.connection.get(&name, link).await, &name, unknown)?);
        }
        Ok(found)
    }

    async fn bmc_mac(&self, system: &Value) -> Result<String, DriverError> {
        let manager = self.manager(system).await?;
        let interfaces = self.connection.members(&manager, "EthernetInterfaces").await?;
        interfaces_of(&interfaces).into_iter().next().map(|interface| interface.mac).ok_or_else(|| {
            DriverError::Protocol {
                what: "EthernetInterfaces of the manager".to_owned(),
                reason: "none has an address".to_owned(),
            }
        })
    }

    pub(super) async fn read_health(&self) -> Result<Option<HardwareHealth>, DriverError> {
        let system = self.system().await?.body;
        let status = &system["Status"];
        // The roll-up speaks for all parts; older ones spell it differently.
        let verdicts = ["HealthRollup", "HealthRollUp", "Health"].map(|key| status[key].as_str().and_then(health));
        Ok(verdicts.into_iter().flatten().next())
    }
}

/// Whether there is no point in asking this controller for more.
pub(super) fn is_fatal(error: &DriverError) -> bool {
    matches!(error, DriverError::Unreachable(_) | DriverError::Untrusted(_))
}

fn tolerate<T>(read: Result<T, DriverError>, name: &str, unknown: &mut Unknown) -> Result<Option<T>, DriverError> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if is_fatal(&error) => Err(error),
        Err(error) => {
            unknown.insert(name.to_owned(), error.to_string());
            Ok(None)
        }
    }
}

fn absent<T>(unknown: &mut Unknown, name: &str) -> Option<T> {
    unknown.insert(name.to_owned(), "the BMC does not say".to_owned());
    None
}

/// Links of a list of links.
pub(super) fn links(list: &Value) -> Vec<String> {
    list.as_array().map(|list| list.iter().filter_map(link_of).collect()).unwrap_or_default()
}

fn mib(gib: &Value) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and below 2^53, or not taken")]
    let whole = |mib: f64| (mib > 0.0 && mib < 1e15).then_some(mib.round() as u64);
    gib.as_f64().and_then(|gib| whole(gib * 1024.0))
}

fn small(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0)
}

fn cpu_of(summary: &Value, processors: &[Value]) -> Cpu {
    let is_cpu = |p: &&Value| {
        let present = p["Status"]["State"] != "Absent";
        present && (p["ProcessorType"].is_null() || p["ProcessorType"] == "CPU")
    };
    let cpus: Vec<&Value> = processors.iter().filter(is_cpu).collect();
    let total = |key: &str| cpus.iter().map(|cpu| small(&cpu[key])).sum::<Option<u32>>().filter(|sum| *sum > 0);
    let first = |key: &str| cpus.iter().find_map(|cpu| text(&cpu[key]));
    let architecture = first("InstructionSet").or_else(|| first("ProcessorArchitecture"));
    Cpu {
        model: first("Model").or_else(|| text(&summary["Model"])),
        architecture: architecture.map(|word| linux_architecture(&word)),
        count: total("TotalThreads")
            .or_else(|| small(&summary["LogicalProcessorCount"]))
            .or_else(|| total("TotalCores"))
            .or_else(|| small(&summary["CoreCount"])),
        frequency_mhz: cpus.iter().find_map(|cpu| small(&cpu["MaxSpeedMHz"])),
    }
}

fn linux_architecture(word: &str) -> String {
    match word {
        "x86-64" => "x86_64",
        "x86" => "i686",
        "ARM-A64" | "ARM" => "aarch64",
        "PowerISA" => "ppc64le",
        "RV64" => "riscv64",
        other => other,
    }
    .to_owned()
}

fn interfaces_of(found: &[Value]) -> Vec<Interface> {
    let mut seen = BTreeSet::new();
    let read = |nic: &Value| {
        let mac = ["PermanentMACAddress", "MACAddress"].iter().find_map(|key| mac(nic[*key].as_str()?))?;
        let name = text(&nic["Id"]).or_else(|| text(&nic["Name"])).unwrap_or_else(|| mac.clone());
        let has_carrier = nic["LinkStatus"].as_str().and_then(|status| match status {
            "LinkUp" => Some(true),
            "LinkDown" | "NoLink" => Some(false),
            _ => None,
        });
        Some(Interface { name, mac, has_carrier, speed_mbps: small(&nic["SpeedMbps"]) })
    };
    // Bonds and VLANs repeat the address of the port they are on.
    found.iter().filter_map(read).filter(|interface| seen.insert(interface.mac.clone())).collect()
}

/// An address in our spelling, if it is one.
fn mac(written: &str) -> Option<String> {
    let digits: String = written.chars().filter(|c| !matches!(c, ':' | '-' | '.')).collect();
    let bytes: [u8; 6] = hex::decode(digits).ok()?.try_into().ok()?;
    let is_real = bytes != [0; 6] && bytes != [0xff; 6];
    is_real.then(|| bytes.map(|byte| format!("{byte:02x}")).join(":"))
}

fn disk_of(drive: &Value) -> Disk {
    Disk {
        name: text(&drive["Id"]).or_else(|| text(&drive["Name"])).unwrap_or_default(),
        model: text(&drive["Model"]),
        serial: text(&drive["SerialNumber"]),
        size: drive["CapacityBytes"].as_u64(),
        rotational: drive["MediaType"].as_str().and_then(|media| match media {
            "HDD" | "SMR" => Some(true),
            "SSD" => Some(false),
            _ => None,
        }),
    }
}

fn simple_disks(controllers: &[Value]) -> Vec<Disk> {
    let devices = controllers.iter().filter_map(|controller| controller["Devices"].as_array()).flatten();
    let present = devices.filter(|device| device["Status"]["State"] != "Absent");
    let disk = |device: &Value| Disk {
        name: text(&device["Name"]).unwrap_or_default(),
        model: text(&device["Model"]),
        size: device["CapacityBytes"].as_u64(),
        ..Disk::default()
    };
    present.map(disk).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_are_spelled_alike_or_not_taken() {
        for (written, expected) in [
            ("00-5C-52-31-3A-9C", Some("00:5c:52:31:3a:9c")),
            ("005c52313a9c", Some("00:5c:52:31:3a:9c")),
            ("00:00:00:00:00:00", None),
            ("none", None),
            ("00:5c:52:31:3a", None),
        ] {
            assert_eq!(mac(written).as_deref(), expected, "{written}");
        }
    }

    #[test]
    fn processors_are_added_up_and_accelerators_left_out() {
        let cpu =
            |kind: &str| json!({ "ProcessorType": kind, "TotalThreads": 64, "InstructionSet": "x86-64", "Model": "A" });
        let found = cpu_of(&json!({ "LogicalProcessorCount": 7 }), &[cpu("CPU"), cpu("CPU"), cpu("GPU")]);
        let expected = Cpu {
            model: Some("A".to_owned()),
            architecture: Some("x86_64".to_owned()),
            count: Some(128),
            frequency_mhz: None,
        };
        assert_eq!(found, expected);
        assert_eq!(cpu_of(&json!({ "CoreCount": 8, "Model": "B" }), &[]).count, Some(8));
    }

    #[test]
    fn memory_may_be_a_fraction() {
        assert_eq!(mib(&json!(0.5)), Some(512));
        assert_eq!(mib(&json!(768)), Some(786_432));
        assert_eq!(mib(&json!(null)), None);
        assert_eq!(mib(&json!(-1)), None);
    }

    #[test]
    fn ports_are_listed_once() {
        let nic =
            |id: &str, mac: &str| json!({ "Id": id, "MACAddress": mac, "LinkStatus": "LinkUp", "SpeedMbps": 10000 });
        let found = interfaces_of(&[nic("1", "00:5c:52:31:3a:9c"), nic("bond", "00:5C:52:31:3A:9C"), nic("x", "")]);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].has_carrier, found[0].speed_mbps), ("1", Some(true), Some(10000)));
    }
}
