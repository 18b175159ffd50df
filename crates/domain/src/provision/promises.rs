//! What a node asks for and its interfaces cannot do (G14): one table, asked by validation, by the verb that would be told as done, and,
//! where it is about a choice of an interface, by whoever writes that choice. Records that hold such values from before are read and
//! shown as they are; only what is asked of them is refused.

use serde_json::Value;

use super::{
    accept::{self, Offered, Options},
    agent,
    interfaces::{self, Slot},
    node::{Node, Operation, Work},
    steps::Step,
    verbs::Verb,
};

/// Steps after which data on disks can no longer be read, or no longer be found.
pub const ERASING: [&str; 4] =
    ["deploy.erase_devices", "deploy.erase_devices_metadata", "deploy.erase_devices_express", "raid.erase_members"];

/// The step that writes an image.
const WRITES_IMAGE: &str = agent::COMMANDS[0];

/// How much of a machine automated cleaning erases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CleaningExtent {
    /// Its disks. Its disk keys too, first of all.
    #[default]
    Full,
    /// Its disk keys alone: for sites where everything on disks is encrypted, or where nothing can erase disks.
    KeysOnly,
}

impl CleaningExtent {
    /// Every extent.
    pub const ALL: [CleaningExtent; 2] = [CleaningExtent::Full, CleaningExtent::KeysOnly];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            CleaningExtent::Full => "full",
            CleaningExtent::KeysOnly => "keys-only",
        }
    }
}

impl std::str::FromStr for CleaningExtent {
    type Err = String;

    fn from_str(text: &str) -> Result<CleaningExtent, String> {
        let found = CleaningExtent::ALL.into_iter().find(|extent| extent.as_str() == text);
        found.ok_or_else(|| {
            format!("is {text:?}; one of: {}", CleaningExtent::ALL.map(CleaningExtent::as_str).join(", "))
        })
    }
}

/// What the cleaning of a node erases: what the node says (`driver_info.cleaning`), otherwise what the site wants.
pub fn extent(node: &Node, options: &Options) -> CleaningExtent {
    let own = node.driver_info.get("cleaning").and_then(Value::as_str).and_then(|text| text.parse().ok());
    own.unwrap_or(options.cleaning)
}

/// Something that is asked for and would be told as done without being done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {chosen:?}: {field} {reason}", .slot.field())]
pub struct UnmetWish {
    /// The interface that cannot.
    pub slot: Slot,
    /// What was chosen for it.
    pub chosen: String,
    /// The field that asks.
    pub field: String,
    /// Why it cannot be done, and what to do.
    pub reason: String,
}

/// What is asked for, and what would be run for it.
struct Wishes<'a> {
    node: &'a Node,
    /// What would be run.
    steps: &'a [Step],
    has_keys: bool,
    options: &'a Options,
}

/// The part of a node's life a rule is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A choice of an interface, which counts whenever the machine is booted or its steps are run.
    Choice,
    /// Deploying.
    Deploy,
    /// Automated cleaning.
    Clean,
}

/// One row: which interface, for what, and what it cannot do: field and reason.
struct Rule(Slot, Purpose, fn(&Wishes<'_>) -> Option<(String, String)>);

const RULES: &[Rule] = &[
    Rule(Slot::Boot, Purpose::Choice, |wishes| not_built(wishes, Slot::Boot)),
    Rule(Slot::Raid, Purpose::Choice, |wishes| not_built(wishes, Slot::Raid)),
    Rule(Slot::Boot, Purpose::Deploy, secure_boot),
    Rule(Slot::Boot, Purpose::Deploy, legacy_boot),
    Rule(Slot::Deploy, Purpose::Deploy, image),
    Rule(Slot::Deploy, Purpose::Deploy, config_drive),
    Rule(Slot::Deploy, Purpose::Clean, cleaning_word),
    Rule(Slot::Deploy, Purpose::Clean, erasure),
];

fn apply<'a>(
    wishes: &'a Wishes<'a>,
    driver: Option<&'a str>,
    purpose: Purpose,
) -> impl Iterator<Item = UnmetWish> + 'a {
    RULES.iter().filter(move |rule| rule.1 == purpose).filter_map(move |Rule(slot, _, judge)| {
        let (field, reason) = judge(wishes)?;
        let chosen = interfaces::effective(&wishes.node.details.interfaces, driver, *slot).unwrap_or("default");
        Some(UnmetWish { slot: *slot, chosen: chosen.to_owned(), field, reason })
    })
}

/// What a verb asks for and cannot be done; `None`: nothing. `steps`: what would be run for it.
pub fn check_verb(
    node: &Node,
    verb: Verb,
    steps: &[Step],
    offered: Offered<'_>,
    has_keys: bool,
    options: &Options,
) -> Option<UnmetWish> {
    let cleaning;
    let (steps, purposes): (&[Step], &[Purpose]) = match verb {
        Verb::Active | Verb::Rebuild => (steps, &[Purpose::Choice, Purpose::Deploy]),
        Verb::Provide if accept::cleans(node, options) => (steps, &[Purpose::Choice, Purpose::Clean]),
        Verb::Inspect if !offered.inspects_in_band => return None,
        Verb::Inspect | Verb::Clean | Verb::Service | Verb::Rescue => (steps, &[Purpose::Choice]),
        // Cleaning follows by itself, and a node whose workload is gone and that cannot be cleaned would stand in `error`.
        Verb::Deleted if accept::cleans(node, options) => {
            cleaning = accept::automated_cleaning(node, offered, options).unwrap_or_default();
            (&cleaning, &[Purpose::Clean])
        }
        Verb::Manage | Verb::Provide | Verb::Deleted | Verb::Unrescue | Verb::Adopt | Verb::Abort | Verb::Unhold => {
            return None;
        }
    };
    let wishes = Wishes { node, steps, has_keys, options };
    purposes.iter().find_map(|purpose| apply(&wishes, offered.driver, *purpose).next())
}

/// Everything a node asks for and its interfaces cannot do.
pub fn check_all(node: &Node, offered: Offered<'_>, has_keys: bool, options: &Options) -> Vec<UnmetWish> {
    let deployment = accept::deployment(offered, &[]).unwrap_or_default();
    let cleaning = accept::automated_cleaning(node, offered, options).unwrap_or_default();
    let deploy = Wishes { node, steps: &deployment, has_keys, options };
    let clean = Wishes { steps: &cleaning, ..deploy };
    let mut found: Vec<UnmetWish> = apply(&deploy, offered.driver, Purpose::Choice).collect();
    found.extend(apply(&deploy, offered.driver, Purpose::Deploy));
    if accept::cleans(node, options) {
        found.extend(apply(&clean, offered.driver, Purpose::Clean));
    }
    found
}

/// Whether a step erases disks.
pub fn erases(step: &Step) -> bool {
    ERASING.contains(&step.key().as_str())
}

/// Why a cleaning that found no disk key to delete must not go on: it would erase nothing at all.
pub fn erases_nothing(node: &Node, operation: &Operation, options: &Options) -> Option<String> {
    let wishes = Wishes { node, steps: &operation.steps, has_keys: false, options };
    let (field, reason) = erasure(&wishes).filter(|_| operation.work == Work::AutomatedClean)?;
    Some(format!("{field} {reason}"))
}

fn not_built(wishes: &Wishes<'_>, slot: Slot) -> Option<(String, String)> {
    let chosen = wishes.node.details.interfaces.get(&slot)?;
    interfaces::not_built(slot, chosen).map(|reason| (slot.field().to_owned(), reason.to_owned()))
}

fn writes_image(wishes: &Wishes<'_>) -> bool {
    wishes.steps.iter().any(|step| step.key() == WRITES_IMAGE)
}

/// What was given, unless it says nothing.
fn given<'a>(wishes: &Wishes<'a>, key: &str) -> Option<&'a Value> {
    let empty = |value: &Value| value.is_null() || value.as_str() == Some("");
    wishes.node.instance_info.get(key).filter(|value| !empty(value))
}

fn image(wishes: &Wishes<'_>) -> Option<(String, String)> {
    let key = ["image_source", "image_url"].into_iter().find(|key| given(wishes, key).is_some())?;
    (!writes_image(wishes)).then(|| {
        let reason = "cannot be written: no step of this deployment writes an image, and the machine starts its system from the network; \
                      remove the field, or choose deploy_interface direct";
        (format!("instance_info.{key}"), reason.to_owned())
    })
}

fn config_drive(wishes: &Wishes<'_>) -> Option<(String, String)> {
    let drive = given(wishes, "configdrive")?;
    let reason = if !writes_image(wishes) {
        "cannot be written: no step of this deployment writes an image; remove the field, or choose deploy_interface direct"
    } else if agent::works(&wishes.node.details.interfaces, None) && !is_image_text(drive) {
        "cannot be read by the agent; give a text: an http(s) URL, or base64 of a gzipped ISO 9660 image with the label config-2"
    } else {
        return None;
    };
    Some(("instance_info.configdrive".to_owned(), reason.to_owned()))
}

/// Whether a config drive is what agents take.
fn is_image_text(drive: &Value) -> bool {
    let base64 = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'\n' | b'\r');
    let url = |text: &str| text.starts_with("http://") || text.starts_with("https://");
    drive.as_str().is_some_and(|text| url(text) || text.bytes().all(base64))
}

/// A capability, wherever it is asked for: the field and its value.
fn capability(wishes: &Wishes<'_>, name: &str) -> Option<(String, String)> {
    let places = [("instance_info", &wishes.node.instance_info), ("properties", &wishes.node.properties)];
    places.into_iter().find_map(|(place, members)| {
        let value = read_capability(members.get("capabilities")?, name)?;
        Some((format!("{place}.capabilities.{name}"), value.trim().to_ascii_lowercase()))
    })
}

/// Capabilities are an object, the JSON text of one, or pairs such as `boot_mode:uefi,secure_boot:true`.
fn read_capability(capabilities: &Value, name: &str) -> Option<String> {
    match capabilities {
        Value::Object(members) => match members.get(name)? {
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        },
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(object @ Value::Object(_)) => read_capability(&object, name),
            _ => {
                let pairs = text.split(',').filter_map(|pair| pair.split_once(':'));
                pairs.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.to_owned())
            }
        },
        _ => None,
    }
}

fn secure_boot(wishes: &Wishes<'_>) -> Option<(String, String)> {
    let (field, value) = capability(wishes, "secure_boot")?;
    matches!(value.as_str(), "true" | "t" | "yes" | "y" | "on" | "1").then(|| {
        let reason = "cannot be granted: deploying does not switch secure boot on; remove it, and set it with PUT …/states/secure_boot \
                      if the machine shall have it";
        (field, reason.to_owned())
    })
}

fn legacy_boot(wishes: &Wishes<'_>) -> Option<(String, String)> {
    let (field, value) = capability(wishes, "boot_mode")?;
    (value == "bios").then(|| {
        let reason = "cannot be granted: machines are booted by UEFI; remove it, or say uefi".to_owned();
        (field, reason)
    })
}

fn cleaning_word(wishes: &Wishes<'_>) -> Option<(String, String)> {
    let word = wishes.node.driver_info.get("cleaning")?;
    let word = word.as_str().map_or_else(|| word.to_string(), str::to_owned);
    word.parse::<CleaningExtent>().err().map(|reason| ("driver_info.cleaning".to_owned(), reason))
}

fn erasure(wishes: &Wishes<'_>) -> Option<(String, String)> {
    let diskless = wishes.node.properties.get("local_gb").is_some_and(|size| size.as_f64() == Some(0.0));
    let chosen = extent(wishes.node, wishes.options) == CleaningExtent::KeysOnly;
    let erases = wishes.has_keys || wishes.steps.iter().any(erases);
    (!diskless && !chosen && !erases).then(|| {
        let reason = "would erase neither disks nor keys: no step of it erases disks, and the machine has no disk key; choose \
                      deploy_interface direct, whose agent erases disks, or set driver_info.cleaning to keys-only (for the whole \
                      site: --cleaning keys-only) if deleting disk keys is enough, or automated_clean to false";
        ("automated cleaning".to_owned(), reason.to_owned())
    })
}

#[cfg(test)]
mod tests;
