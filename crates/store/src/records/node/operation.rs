//! Work under way, as stored inside the record of its node.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sabakan_domain::provision::{
    boot::{BootDevice, BootMode},
    hardware::{Aspect, Configuration, Volume},
    node::{Object, Operation, Phase, RamdiskContact, Wait, WaitOn, WishOrigin, Work},
    states::State,
    steps::{Args, Interface, Place, Step},
};
use serde::{Deserialize, Serialize};

use super::one_of;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OperationRecord {
    id: String,
    work: String,
    asked_by: String,
    asked_at: Timestamp,
    steps: Vec<StepRecord>,
    index: usize,
    phase: PhaseRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<ConfigurationRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ramdisk: Option<RamdiskRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    abort_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    power_forced_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<WishOriginRecord>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WishOriginRecord {
    state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clear_up: Option<Box<OperationRecord>>,
}

impl From<WishOrigin> for WishOriginRecord {
    fn from(origin: WishOrigin) -> WishOriginRecord {
        let WishOrigin { state, target, last_error, clear_up } = origin;
        WishOriginRecord {
            state: state.as_str().to_owned(),
            target: target.map(|state| state.as_str().to_owned()),
            last_error,
            clear_up: clear_up.map(|left| Box::new((*left).into())),
        }
    }
}

impl TryFrom<WishOriginRecord> for WishOrigin {
    type Error = String;

    fn try_from(record: WishOriginRecord) -> Result<WishOrigin, String> {
        let WishOriginRecord { state, target, last_error, clear_up } = record;
        let known = |word: &str| word.parse::<State>().map_err(|_| format!("invalid state: {word}"));
        Ok(WishOrigin {
            state: known(&state)?,
            target: target.as_deref().map(known).transpose()?,
            last_error,
            clear_up: clear_up.map(|left| Operation::try_from(*left).map(Box::new)).transpose()?,
        })
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct StepRecord {
    interface: String,
    step: String,
    place: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    args: Args,
    #[serde(default)]
    priority: u32,
    #[serde(default)]
    abortable: bool,
    #[serde(default)]
    idempotent: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    disturbs: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PhaseRecord {
    Ready,
    Started {
        attempt: u32,
    },
    Resumed {
        attempt: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        task: Option<String>,
    },
    Waiting {
        on: WaitOnRecord,
        reason: String,
        since: Timestamp,
    },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WaitOnRecord {
    Heartbeat { called: bool },
    Inventory { arrived: bool },
    Task { id: String, ended: bool },
    Time(Timestamp),
    Hold,
}

#[derive(Debug, Serialize, Deserialize)]
struct RamdiskRecord {
    url: Option<String>,
    heard_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verify_ca: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    managers: Object,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ConfigurationRecord {
    volumes: Option<Vec<VolumeRecord>>,
    bios: Option<BTreeMap<String, String>>,
    boot_mode: Option<String>,
    secure_boot: Option<bool>,
    boot_device: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct VolumeRecord {
    controller: String,
    name: String,
    level: String,
    size_gib: u64,
    members: Vec<String>,
    boot: bool,
}

const fn place_word(place: Place) -> &'static str {
    match place {
        Place::Engine => "engine",
        Place::OutOfBand => "out-of-band",
        Place::InBand => "in-band",
    }
}

impl From<Operation> for OperationRecord {
    fn from(operation: Operation) -> OperationRecord {
        let Operation {
            id,
            work,
            asked_by,
            asked_at,
            steps,
            index,
            phase,
            deadline,
            before,
            ramdisk,
            abort_by,
            power_forced_by,
            origin,
        } = operation;
        OperationRecord {
            id,
            work: work.as_str().to_owned(),
            asked_by,
            asked_at,
            steps: steps.into_iter().map(StepRecord::from).collect(),
            index,
            phase: phase.into(),
            deadline,
            before: before.map(ConfigurationRecord::from),
            ramdisk: ramdisk.map(RamdiskRecord::from),
            abort_by,
            power_forced_by,
            origin: origin.map(WishOriginRecord::from),
        }
    }
}

impl TryFrom<OperationRecord> for Operation {
    type Error = String;

    fn try_from(record: OperationRecord) -> Result<Operation, String> {
        let OperationRecord {
            id,
            work,
            asked_by,
            asked_at,
            steps,
            index,
            phase,
            deadline,
            before,
            ramdisk,
            abort_by,
            power_forced_by,
            origin,
        } = record;
        Ok(Operation {
            id,
            work: one_of("work", Work::ALL, Work::as_str, &work)?,
            asked_by,
            asked_at,
            steps: steps.into_iter().map(Step::try_from).collect::<Result<_, _>>()?,
            index,
            phase: phase.into(),
            deadline,
            before: before.map(TryInto::try_into).transpose()?,
            ramdisk: ramdisk.map(RamdiskContact::from),
            abort_by,
            power_forced_by,
            origin: origin.map(TryInto::try_into).transpose()?,
        })
    }
}

impl From<RamdiskContact> for RamdiskRecord {
    fn from(contact: RamdiskContact) -> RamdiskRecord {
        let RamdiskContact { url, heard_at, token, version, verify_ca, managers, command } = contact;
        RamdiskRecord { url, heard_at, token, version, verify_ca, managers, command }
    }
}

impl From<RamdiskRecord> for RamdiskContact {
    fn from(record: RamdiskRecord) -> RamdiskContact {
        let RamdiskRecord { url, heard_at, token, version, verify_ca, managers, command } = record;
        RamdiskContact { url, heard_at, token, version, verify_ca, managers, command }
    }
}

impl From<Step> for StepRecord {
    fn from(step: Step) -> StepRecord {
        let Step { interface, name, place, args, priority, abortable, idempotent, disturbs } = step;
        StepRecord {
            interface: interface.as_str().to_owned(),
            step: name,
            place: place_word(place).to_owned(),
            args,
            priority,
            abortable,
            idempotent,
            disturbs: disturbs.into_iter().map(|aspect| aspect.as_str().to_owned()).collect(),
        }
    }
}

impl TryFrom<StepRecord> for Step {
    type Error = String;

    fn try_from(record: StepRecord) -> Result<Step, String> {
        let StepRecord { interface, step, place, args, priority, abortable, idempotent, disturbs } = record;
        let aspect = |word: &String| one_of("aspect", Aspect::ALL, Aspect::as_str, word);
        Ok(Step {
            interface: interface.parse::<Interface>()?,
            name: step,
            place: one_of("place", [Place::Engine, Place::OutOfBand, Place::InBand], place_word, &place)?,
            args,
            priority,
            abortable,
            idempotent,
            disturbs: disturbs.iter().map(aspect).collect::<Result<_, _>>()?,
        })
    }
}

impl From<Phase> for PhaseRecord {
    fn from(phase: Phase) -> PhaseRecord {
        match phase {
            Phase::Ready => PhaseRecord::Ready,
            Phase::Started { attempt } => PhaseRecord::Started { attempt },
            Phase::Resumed { attempt, task } => PhaseRecord::Resumed { attempt, task },
            Phase::Waiting(Wait { on, reason, since }) => {
                let on = match on {
                    WaitOn::Heartbeat { called } => WaitOnRecord::Heartbeat { called },
                    WaitOn::Inventory { arrived } => WaitOnRecord::Inventory { arrived },
                    WaitOn::Task { id, ended } => WaitOnRecord::Task { id, ended },
                    WaitOn::Time(at) => WaitOnRecord::Time(at),
                    WaitOn::Hold => WaitOnRecord::Hold,
                };
                PhaseRecord::Waiting { on, reason, since }
            }
        }
    }
}

impl From<PhaseRecord> for Phase {
    fn from(record: PhaseRecord) -> Phase {
        match record {
            PhaseRecord::Ready => Phase::Ready,
            PhaseRecord::Started { attempt } => Phase::Started { attempt },
            PhaseRecord::Resumed { attempt, task } => Phase::Resumed { attempt, task },
            PhaseRecord::Waiting { on, reason, since } => {
                let on = match on {
                    WaitOnRecord::Heartbeat { called } => WaitOn::Heartbeat { called },
                    WaitOnRecord::Inventory { arrived } => WaitOn::Inventory { arrived },
                    WaitOnRecord::Task { id, ended } => WaitOn::Task { id, ended },
                    WaitOnRecord::Time(at) => WaitOn::Time(at),
                    WaitOnRecord::Hold => WaitOn::Hold,
                };
                Phase::Waiting(Wait { on, reason, since })
            }
        }
    }
}

impl From<Configuration> for ConfigurationRecord {
    fn from(configuration: Configuration) -> ConfigurationRecord {
        let Configuration { volumes, bios, boot_mode, secure_boot, boot_device } = configuration;
        let volume = |volume: Volume| {
            let Volume { controller, name, level, size_gib, members, boot } = volume;
            VolumeRecord { controller, name, level, size_gib, members, boot }
        };
        ConfigurationRecord {
            volumes: volumes.map(|volumes| volumes.into_iter().map(volume).collect()),
            bios,
            boot_mode: boot_mode.map(|mode| mode.as_str().to_owned()),
            secure_boot,
            boot_device: boot_device.map(|device| device.as_str().to_owned()),
        }
    }
}

impl TryFrom<ConfigurationRecord> for Configuration {
    type Error = String;

    fn try_from(record: ConfigurationRecord) -> Result<Configuration, String> {
        let ConfigurationRecord { volumes, bios, boot_mode, secure_boot, boot_device } = record;
        let volume = |record: VolumeRecord| {
            let VolumeRecord { controller, name, level, size_gib, members, boot } = record;
            Volume { controller, name, level, size_gib, members, boot }
        };
        let mode = |word: String| one_of("boot mode", [BootMode::Uefi, BootMode::Bios], BootMode::as_str, &word);
        Ok(Configuration {
            volumes: volumes.map(|volumes| volumes.into_iter().map(volume).collect()),
            bios,
            boot_mode: boot_mode.map(mode).transpose()?,
            secure_boot,
            boot_device: boot_device.map(|word| word.parse::<BootDevice>()).transpose()?,
        })
    }
}
