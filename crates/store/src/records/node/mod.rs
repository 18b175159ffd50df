//! A node as stored under `nodes/<name>`, its lock under `node-locks/<name>`, and a row of its history. Absent members have their
//! default, so that the record of an idle node is small.

mod details;
mod operation;

use std::collections::BTreeMap;

use jiff::Timestamp;
use sabakan_domain::{
    lifecycle::HealthState,
    provision::{
        boot::BootMode,
        control::Controls,
        hardware::HardwareHealth,
        node::{Fault, HeldReport, Maintenance, Node, NodeId, Object, Power, PowerAction, Row, Severity, Silent},
        power::{PowerState, PowerTarget},
        schedule::Class,
        states::State,
    },
    words::Serial,
};
use serde::{Deserialize, Serialize};

use self::{details::DetailsRecord, operation::OperationRecord};

/// `nodes/<name>`.
#[derive(Debug, Serialize, Deserialize)]
pub struct NodeRecord {
    uuid: String,
    name: Serial,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    driver: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    driver_info: Object,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    driver_secrets: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    properties: Object,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    instance_info: Object,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    extra: Object,
    #[serde(default, skip_serializing_if = "DetailsRecord::is_default")]
    details: DetailsRecord,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    group: String,
    state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    since: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operation: Option<OperationRecord>,
    #[serde(default)]
    power: PowerRecord,
    #[serde(default, skip_serializing_if = "ControlsRecord::is_default")]
    controls: ControlsRecord,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    maintenance: Option<MaintenanceRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    protected: Option<String>,
    #[serde(default)]
    disable_power_off: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    automated_clean: Option<bool>,
    #[serde(default)]
    retire_declared: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held_report: Option<HeldReportRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    health: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    verified_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inspected_at: Option<Timestamp>,
    created_at: Timestamp,
    #[serde(default)]
    epoch: u64,
    #[serde(default)]
    history: (u64, u64),
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct PowerRecord {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    state: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    action: Option<PowerActionRecord>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    silent: Option<SilentRecord>,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct ControlsRecord {
    console_enabled: bool,
    boot_mode: Option<String>,
    secure_boot: Option<bool>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PowerActionRecord {
    target: String,
    asked_by: String,
    asked_at: Timestamp,
    deadline: Timestamp,
    started: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct SilentRecord {
    since: Timestamp,
    reason: String,
    times: u32,
}

#[derive(Debug, Serialize, Deserialize)]
struct MaintenanceRecord {
    reason: Option<String>,
    fault: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct HeldReportRecord {
    state: HealthState,
    at: Timestamp,
    by: String,
}

/// `node-locks/<name>`: who works on a node. Dies with the lease of its worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockRecord {
    /// The worker's name.
    pub holder: String,
    /// How often the node has been taken, this time included.
    pub epoch: u64,
    /// The node's group.
    #[serde(default)]
    pub group: String,
    /// What kind of work.
    pub class: String,
    /// Since when.
    pub since: Timestamp,
}

/// `node-history/<name>/<number>`.
#[derive(Debug, Serialize, Deserialize)]
pub struct RowRecord {
    at: Timestamp,
    by: String,
    error: bool,
    text: String,
    from: String,
    to: String,
    lasted_ms: i64,
}

/// A number that differs whenever anything stored about a node differs: what callers compare to notice that somebody else was
/// faster. Not for keeping secrets or catching forgers.
pub fn version(node: &Node) -> u64 {
    // FNV-1a: the same on every server and in every build, unlike the hashes of the standard library.
    let bytes = super::encode(&NodeRecord::from(node));
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl LockRecord {
    /// The class in the words of the rules; one this program does not know counts as the narrowest.
    pub fn class(&self) -> Class {
        Class::ALL.into_iter().find(|class| class.as_str() == self.class).unwrap_or(Class::Clean)
    }
}

impl From<&Node> for NodeRecord {
    fn from(node: &Node) -> NodeRecord {
        let Node {
            id,
            name,
            driver,
            driver_info,
            driver_secrets,
            properties,
            instance_info,
            extra,
            details,
            group,
            state,
            target,
            since,
            operation,
            power,
            controls,
            last_error,
            maintenance,
            protected,
            disable_power_off,
            automated_clean,
            retire_declared,
            held_report,
            health,
            verified_at,
            inspected_at,
            created_at,
            epoch,
            history,
        } = node.clone();
        NodeRecord {
            uuid: id.to_string(),
            name,
            driver,
            driver_info,
            driver_secrets,
            properties,
            instance_info,
            extra,
            details: details.into(),
            group,
            state: state.as_str().to_owned(),
            target: target.map(|state| state.as_str().to_owned()),
            since,
            operation: operation.map(OperationRecord::from),
            power: power.into(),
            controls: controls.into(),
            last_error,
            maintenance: maintenance.map(|Maintenance { reason, fault }| MaintenanceRecord {
                reason,
                fault: fault.map(|fault| fault.as_str().to_owned()),
            }),
            protected,
            disable_power_off,
            automated_clean,
            retire_declared,
            held_report: held_report.map(|HeldReport { state, at, by }| HeldReportRecord { state, at, by }),
            health: health.map(|health| health.as_str().to_owned()),
            verified_at,
            inspected_at,
            created_at,
            epoch,
            history,
        }
    }
}

impl TryFrom<NodeRecord> for Node {
    type Error = String;

    fn try_from(record: NodeRecord) -> Result<Node, String> {
        let NodeRecord {
            uuid,
            name,
            driver,
            driver_info,
            driver_secrets,
            properties,
            instance_info,
            extra,
            details,
            group,
            state,
            target,
            since,
            operation,
            power,
            controls,
            last_error,
            maintenance,
            protected,
            disable_power_off,
            automated_clean,
            retire_declared,
            held_report,
            health,
            verified_at,
            inspected_at,
            created_at,
            epoch,
            history,
        } = record;
        Ok(Node {
            id: uuid.parse::<NodeId>().map_err(|error| error.to_string())?,
            name,
            driver,
            driver_info,
            driver_secrets,
            properties,
            instance_info,
            extra,
            details: details.try_into()?,
            group,
            state: parse_state(&state)?,
            target: target.as_deref().map(parse_state).transpose()?,
            since,
            operation: operation.map(TryInto::try_into).transpose()?,
            power: power.try_into()?,
            controls: controls.try_into()?,
            last_error,
            maintenance: maintenance.map(TryInto::try_into).transpose()?,
            protected,
            disable_power_off,
            automated_clean,
            retire_declared,
            held_report: held_report.map(|HeldReportRecord { state, at, by }| HeldReport { state, at, by }),
            health: health
                .map(|word| one_of("health", HardwareHealth::ALL, HardwareHealth::as_str, &word))
                .transpose()?,
            verified_at,
            inspected_at,
            created_at,
            epoch,
            history,
        })
    }
}

impl From<Power> for PowerRecord {
    fn from(power: Power) -> PowerRecord {
        let Power { state, since, action, silent } = power;
        PowerRecord {
            state: state.map(|state| state.as_str().to_owned()),
            since,
            action: action.map(|PowerAction { target, asked_by, asked_at, deadline, started }| PowerActionRecord {
                target: target.as_str().to_owned(),
                asked_by,
                asked_at,
                deadline,
                started,
            }),
            silent: silent.map(|Silent { since, reason, times }| SilentRecord { since, reason, times }),
        }
    }
}

impl TryFrom<PowerRecord> for Power {
    type Error = String;

    fn try_from(record: PowerRecord) -> Result<Power, String> {
        let PowerRecord { state, since, action, silent } = record;
        let action = action.map(|PowerActionRecord { target, asked_by, asked_at, deadline, started }| {
            let target = target.parse::<PowerTarget>().map_err(|error| error.to_string())?;
            Ok::<_, String>(PowerAction { target, asked_by, asked_at, deadline, started })
        });
        Ok(Power {
            state: state.map(|word| word.parse::<PowerState>()).transpose()?,
            since,
            action: action.transpose()?,
            silent: silent.map(|SilentRecord { since, reason, times }| Silent { since, reason, times }),
        })
    }
}

impl ControlsRecord {
    fn is_default(&self) -> bool {
        *self == ControlsRecord::default()
    }
}

impl From<Controls> for ControlsRecord {
    fn from(controls: Controls) -> ControlsRecord {
        let Controls { console_enabled, boot_mode, secure_boot } = controls;
        ControlsRecord { console_enabled, boot_mode: boot_mode.map(|mode| mode.as_str().to_owned()), secure_boot }
    }
}

impl TryFrom<ControlsRecord> for Controls {
    type Error = String;

    fn try_from(record: ControlsRecord) -> Result<Controls, String> {
        let ControlsRecord { console_enabled, boot_mode, secure_boot } = record;
        let mode = |word: String| one_of("boot mode", BootMode::ALL, BootMode::as_str, &word);
        Ok(Controls { console_enabled, boot_mode: boot_mode.map(mode).transpose()?, secure_boot })
    }
}

impl TryFrom<MaintenanceRecord> for Maintenance {
    type Error = String;

    fn try_from(record: MaintenanceRecord) -> Result<Maintenance, String> {
        let MaintenanceRecord { reason, fault } = record;
        let fault = fault.map(|word| one_of("fault", Fault::ALL, Fault::as_str, &word)).transpose()?;
        Ok(Maintenance { reason, fault })
    }
}

impl From<&Row> for RowRecord {
    fn from(row: &Row) -> RowRecord {
        let Row { at, by, severity, text, from, to, lasted_ms } = row;
        RowRecord {
            at: *at,
            by: by.clone(),
            error: *severity == Severity::Error,
            text: text.clone(),
            from: from.as_str().to_owned(),
            to: to.as_str().to_owned(),
            lasted_ms: *lasted_ms,
        }
    }
}

impl TryFrom<RowRecord> for Row {
    type Error = String;

    fn try_from(record: RowRecord) -> Result<Row, String> {
        let RowRecord { at, by, error, text, from, to, lasted_ms } = record;
        let severity = if error { Severity::Error } else { Severity::Info };
        Ok(Row { at, by, severity, text, from: parse_state(&from)?, to: parse_state(&to)?, lasted_ms })
    }
}

fn parse_state(word: &str) -> Result<State, String> {
    word.parse::<State>().map_err(|error| error.to_string())
}

/// The value a word stands for.
fn one_of<T: Copy, const N: usize>(
    what: &str,
    all: [T; N],
    word_of: impl Fn(T) -> &'static str,
    word: &str,
) -> Result<T, String> {
    all.into_iter().find(|value| word_of(*value) == word).ok_or_else(|| format!("invalid {what}: {word}"))
}

#[cfg(test)]
mod tests;
