//! What becomes of a broken machine, why, and what would change it.

use sabakan_domain::{
    provision::states::State,
    repair::{
        enqueue::Verdict,
        entry::Status,
        guard::{Failure, SecondOpinion, Traits},
        hands_off::HandsOff,
    },
};
use serde::{Deserialize, Serialize};

use super::incident::GroupJson;

/// What becomes of a broken machine in the next round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VerdictJson {
    /// The rule that decided: `enqueue`, `no-address`, `same-address`, `has-entry`, `hands-off`, `rebooting`, `out-of-cluster`, `held`,
    /// `settling`, `observed`, `stale`, `no-procedure`, `no-room` or `no-cluster`.
    pub kind: String,
    /// Why, with the numbers.
    pub text: String,
    /// What would change it; absent where it is repaired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// The incident it is held by, or was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident: Option<u64>,
    /// What it failed together with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupJson>,
    /// Its entry in the repair queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// For how much longer nothing is begun, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds_left: Option<u64>,
    /// Entries that count, where there is no room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entries: Option<usize>,
    /// Machines that want in, where there is no room for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<usize>,
    /// How many there may be together, where there is no room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
}

impl From<&Verdict> for VerdictJson {
    fn from(verdict: &Verdict) -> VerdictJson {
        let mut shown = VerdictJson {
            kind: kind(verdict).to_owned(),
            text: verdict.to_string(),
            change: change(verdict),
            incident: None,
            group: None,
            index: None,
            seconds_left: None,
            entries: None,
            new: None,
            max: None,
        };
        match verdict {
            Verdict::HasEntry { index, status: _ } => shown.index = Some(index.to_string()),
            Verdict::Rebooting { left } | Verdict::OutOfCluster { left } | Verdict::Observed { left } => {
                shown.seconds_left = Some(left.as_secs());
            }
            Verdict::Held { incident, group } => {
                (shown.incident, shown.group) = (*incident, Some(group.into()));
            }
            Verdict::Settling { incident, left } => {
                (shown.incident, shown.seconds_left) = (Some(*incident), Some(left.as_secs()));
            }
            Verdict::NoRoom { entries, new, max } => {
                (shown.entries, shown.new, shown.max) = (Some(*entries), Some(*new), Some(*max));
            }
            Verdict::Enqueue
            | Verdict::NoAddress
            | Verdict::SameAddress(_)
            | Verdict::HandsOff(_)
            | Verdict::Stale
            | Verdict::NoProcedure(_)
            | Verdict::NoCluster => {}
        }
        shown
    }
}

/// A name that stays, for programs.
fn kind(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Enqueue => "enqueue",
        Verdict::NoAddress => "no-address",
        Verdict::SameAddress(_) => "same-address",
        Verdict::HasEntry { .. } => "has-entry",
        Verdict::HandsOff(_) => "hands-off",
        Verdict::Rebooting { .. } => "rebooting",
        Verdict::OutOfCluster { .. } => "out-of-cluster",
        Verdict::Held { .. } => "held",
        Verdict::Settling { .. } => "settling",
        Verdict::Observed { .. } => "observed",
        Verdict::Stale => "stale",
        Verdict::NoProcedure(_) => "no-procedure",
        Verdict::NoRoom { .. } => "no-room",
        Verdict::NoCluster => "no-cluster",
    }
}

/// What would change it: what an operator can do, or what time does.
fn change(verdict: &Verdict) -> Option<String> {
    let text = match verdict {
        Verdict::Enqueue => return None,
        Verdict::NoAddress => "give the machine an IPv4 address".to_owned(),
        Verdict::SameAddress(other) => format!("remove one of the two, or wait until {other} is repaired"),
        Verdict::HasEntry { index, status } => match status {
            Status::Succeeded | Status::Failed => format!("`sabactl repair-queue delete {index}`"),
            Status::Queued | Status::Processing => {
                format!("the end of repair {index}; `sabactl repair-queue delete {index}` cancels it")
            }
        },
        Verdict::HandsOff(HandsOff::Maintenance(_)) => "`sabactl nodes maintenance clear` for its node".to_owned(),
        Verdict::HandsOff(HandsOff::Provisioning(State::Rescue)) => "`sabactl nodes unrescue` for its node".to_owned(),
        Verdict::HandsOff(HandsOff::Provisioning(_)) => "the end of that; `sabactl nodes show` says how far it is".to_owned(),
        Verdict::Rebooting { left } | Verdict::OutOfCluster { left } => {
            let left = left.as_secs();
            format!("waiting {left} s, or a smaller wait-seconds-to-repair-rebooting: `sabactl constraints set`")
        }
        Verdict::Held { incident: Some(number), .. } => {
            format!("the group recovers, or `sabactl incidents acknowledge {number}` after somebody has looked")
        }
        Verdict::Held { incident: None, .. } => "the group recovers, or somebody acknowledges the incident".to_owned(),
        Verdict::Settling { left, .. } => format!("waiting {} s", left.as_secs()),
        Verdict::Observed { left } => {
            format!("waiting {} s, or a smaller observe-seconds: `sabactl auto-repair settings set`", left.as_secs())
        }
        Verdict::Stale => {
            "a fresh report, `sabactl repair-queue add`, or a larger stale-after-hours: `sabactl auto-repair settings set`"
                .to_owned()
        }
        Verdict::NoProcedure(_) => "an operation in the repair part of `sabactl cluster set-template`".to_owned(),
        Verdict::NoRoom { .. } => {
            "`sabactl repair-queue delete-finished`, or a larger maximum-repair-queue-entries: `sabactl constraints set`"
                .to_owned()
        }
        Verdict::NoCluster => "a cluster: `sabactl cluster status` says why there is none".to_owned(),
    };
    Some(text)
}

/// What others than the monitor say about a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct OpinionJson {
    /// Its controller answers; `null`: that is not known.
    pub bmc_answers: Option<bool>,
    /// It renewed its lease since it was reported; `null`: that is not known.
    pub lease_renewed: Option<bool>,
}

/// A machine that is reported as broken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BrokenJson {
    /// Its serial.
    pub serial: String,
    /// Its first address; `null`: it has none.
    pub address: Option<String>,
    /// What is reported.
    pub state: String,
    /// For how long, in seconds.
    pub seconds: u64,
    /// Its rack.
    pub rack: u32,
    /// Its role.
    pub role: String,
    /// Its BMC type.
    pub machine_type: String,
    /// The version of what runs on it, if a label or provisioning says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Its power domain, if a label says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_domain: Option<String>,
    /// What others say.
    pub second_opinion: OpinionJson,
    /// Why automation leaves it alone, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hands_off: Option<String>,
    /// What becomes of it in the next round.
    pub verdict: VerdictJson,
}

impl BrokenJson {
    /// The shape of a machine and what becomes of it.
    pub fn new(failure: &Failure, verdict: &Verdict) -> BrokenJson {
        let Failure { serial, address, state, age, broken_before: _, traits, opinion, hands_off } = failure;
        let Traits { rack, role, machine_type, version, power_domain } = traits;
        let SecondOpinion { bmc_answers, lease_renewed } = *opinion;
        BrokenJson {
            serial: serial.to_string(),
            address: address.map(|address| address.to_string()),
            state: state.as_str().to_owned(),
            seconds: age.as_secs(),
            rack: rack.0,
            role: role.clone(),
            machine_type: machine_type.clone(),
            version: version.clone(),
            power_domain: power_domain.clone(),
            second_opinion: OpinionJson { bmc_answers, lease_renewed },
            hands_off: hands_off.as_ref().map(ToString::to_string),
            verdict: verdict.into(),
        }
    }
}
