//! How repair is doing, and why one machine is, or is not, being repaired. What stands in the way is told with what to do about it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use sabakan_domain::{
    cluster::shape::Problem,
    lifecycle::HealthState,
    machine::Machine,
    repair::{
        enqueue::Verdict,
        guard::Failure,
        incident::Incident,
        settings::{RepairSettings, Setting},
    },
    words::Serial,
};
use serde::{Deserialize, Serialize};

use super::{
    entry::RepairEntryJson,
    incident::IncidentSummaryJson,
    time_text,
    verdict::{BrokenJson, VerdictJson},
};

/// Which parts of repair work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct SwitchesJson {
    /// Broken machines come into the queue by themselves.
    pub automatic: bool,
    /// Repairs are begun.
    pub repair_queue: bool,
    /// Machines that failed together are held: the setting `guard`.
    pub guard: bool,
    /// Reboots are begun; absent where that does not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot_queue: Option<bool>,
}

/// How much may still be repaired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct BudgetJson {
    /// Entries of the repair queue that count.
    pub entries: usize,
    /// Of them, those that have ended.
    pub finished: usize,
    /// How many there may be: `maximum-repair-queue-entries`.
    pub max: u32,
    /// Repairs that may still be begun.
    pub left: usize,
    /// Nothing is begun, only because nobody deleted repairs that have ended.
    pub blocked_by_finished: bool,
    /// What to do when nothing is left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl BudgetJson {
    /// The shape of a budget, with what to do when nothing is begun. `needed` places must be free for anything to be.
    pub fn new(
        (entries, finished): (usize, usize),
        max: u32,
        (left, needed): (usize, usize),
        blocked_by_finished: bool,
    ) -> BudgetJson {
        let all_or_none = format!(
            "{needed} machines want in and there is room for {left}; all or none of them are let in while the guard is off"
        );
        let message = match (left, blocked_by_finished) {
            _ if max == 0 => Some(
                "maximum-repair-queue-entries is 0, so nothing is ever repaired automatically; `sabactl constraints set \
                 maximum-repair-queue-entries N` allows it"
                    .to_owned(),
            ),
            (_, true) => Some(format!(
                "NO REPAIR BEGINS because {finished} finished ones still count: {entries} entries of {max}{}. Look at them and run \
                 `sabactl repair-queue delete-finished`, or let them stop counting with `sabactl auto-repair settings set \
                 finished-count-hours N`",
                if left == 0 { String::new() } else { format!("; {all_or_none}") }
            )),
            (0, false) => Some(format!(
                "{entries} repairs are under way and maximum-repair-queue-entries is {max}; the next begins when one has ended and was \
                 deleted"
            )),
            _ if needed > left => Some(all_or_none),
            _ => None,
        };
        BudgetJson { entries, finished, max, left, blocked_by_finished, message }
    }
}

/// What a round of the enqueuer came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RepairRoundJson {
    /// When, RFC 3339.
    pub at: String,
    /// `nothing`, `enqueued`, `skipped` or `overtaken` (something it was decided with changed meanwhile; nothing was written).
    pub end: String,
    /// How many machines came into the queue.
    pub enqueued: usize,
    /// Why nothing did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl RepairRoundJson {
    /// The shape of a round.
    pub fn new(at: Timestamp, end: &str, enqueued: usize, reason: Option<String>) -> RepairRoundJson {
        RepairRoundJson { at: time_text(at), end: end.to_owned(), enqueued, reason }
    }
}

/// How many broken machines one rule decided about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct VerdictCountJson {
    /// How many.
    pub count: usize,
    /// What it said about the first of them.
    pub first: VerdictJson,
}

/// How repair is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RepairStatusJson {
    /// What stands in the way of repairs, what they are not protected from, and what to do about it; empty: nothing.
    pub messages: Vec<String>,
    /// Which parts work.
    pub switches: SwitchesJson,
    /// The server that repairs; `null`: none does at the moment.
    pub leader: Option<String>,
    /// The last round of the server that was asked, if it leads.
    pub last_round: Option<RepairRoundJson>,
    /// How much may still be repaired.
    pub budget: BudgetJson,
    /// Incidents that are open.
    pub incidents: Vec<IncidentSummaryJson>,
    /// How many machines are broken; `null`: that is not known.
    pub broken_count: Option<usize>,
    /// Why that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_unknown: Option<String>,
    /// What becomes of them in the next round, by rule, the most frequent first.
    pub verdicts: Vec<VerdictCountJson>,
    /// Each of them; of many the first.
    pub broken: Vec<BrokenJson>,
    /// How many of them are left out.
    pub broken_left_out: usize,
}

/// Everything a status is made from.
#[derive(Debug, Clone)]
pub struct Reported<'a> {
    /// Which parts work.
    pub switches: SwitchesJson,
    /// How much may still be repaired.
    pub budget: BudgetJson,
    /// What becomes of every broken machine; `Err`: why that is not known.
    pub broken: Result<&'a [(Failure, Verdict)], &'a str>,
    /// Settings that leave machines without protection.
    pub warnings: &'a [Problem],
    /// Incidents that are open.
    pub incidents: &'a [Incident],
    /// The server that repairs.
    pub leader: Option<String>,
    /// The last round.
    pub last_round: Option<RepairRoundJson>,
    /// How many broken machines are shown.
    pub shown_max: usize,
}

impl From<Reported<'_>> for RepairStatusJson {
    fn from(reported: Reported<'_>) -> RepairStatusJson {
        let Reported { switches, budget, broken, warnings, incidents, leader, last_round, shown_max } = reported;
        let mut messages = obstacles(switches, &budget, leader.as_deref(), warnings);
        if let Err(reason) = broken {
            messages.push(format!("which machines are broken is not known: {reason}"));
        }
        messages.extend(incidents.iter().map(|incident| {
            let Incident { number, group, member_count, .. } = incident;
            if !switches.guard {
                return format!(
                    "incident {number} of {group}, {member_count} machines, is open and holds nobody, because the guard is off; whether it \
                     is over is looked at when the guard is on again"
                );
            }
            format!(
                "incident {number} holds {group} back, {member_count} machines; `sabactl incidents show {number}` says why, `sabactl incidents \
                 acknowledge {number}` lets them be repaired"
            )
        }));
        let found = broken.unwrap_or_default();
        RepairStatusJson {
            messages,
            switches,
            leader,
            last_round,
            budget,
            incidents: incidents.iter().map(|incident| IncidentSummaryJson::new(incident, switches.guard)).collect(),
            broken_count: broken.is_ok().then_some(found.len()),
            broken_unknown: broken.err().map(str::to_owned),
            verdicts: counted(found),
            broken: found.iter().take(shown_max).map(|(failure, verdict)| BrokenJson::new(failure, verdict)).collect(),
            broken_left_out: found.len().saturating_sub(shown_max),
        }
    }
}

/// What stands in the way of every repair, and what no repair is protected from.
fn obstacles(switches: SwitchesJson, budget: &BudgetJson, leader: Option<&str>, warnings: &[Problem]) -> Vec<String> {
    let off = |off: bool, text: &str| off.then(|| text.to_owned());
    let automatic = off(
        !switches.automatic,
        "automatic repair is disabled: nothing comes into the queue by itself; `sabactl auto-repair enable`",
    );
    let queue =
        off(!switches.repair_queue, "the repair queue is disabled: no repair is begun; `sabactl repair-queue enable`");
    let nobody = off(leader.is_none(), "no server leads repair at the moment: nothing is done");
    let unprotected = warnings.iter().map(|Problem { path, reason }| {
        match Setting::ALL.into_iter().find(|setting| setting.as_str() == path) {
            Some(setting) => {
                let default = RepairSettings::default().get(setting);
                format!("setting `{path}` {reason}; `sabactl auto-repair settings set {path} {default}` is the default")
            }
            None => format!("the settings {reason}; `sabactl auto-repair settings` shows the defaults"),
        }
    });
    unprotected.chain([automatic, queue, nobody, budget.message.clone()].into_iter().flatten()).collect()
}

fn counted(broken: &[(Failure, Verdict)]) -> Vec<VerdictCountJson> {
    let mut counts: BTreeMap<String, VerdictCountJson> = BTreeMap::new();
    for (_, verdict) in broken {
        let first = VerdictJson::from(verdict);
        let count = counts.entry(first.kind.clone()).or_insert(VerdictCountJson { count: 0, first });
        count.count += 1;
    }
    let mut counts: Vec<VerdictCountJson> = counts.into_values().collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.count));
    counts
}

/// Why a machine is, or is not, being repaired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct RepairExplanationJson {
    /// Its serial.
    pub serial: String,
    /// The answer in a sentence.
    pub answer: String,
    /// What would change it, if something is wrong with the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// Whether it is in the registry of this server.
    pub registered: bool,
    /// Its state, as far as that is known.
    pub state: Option<String>,
    /// Since when, RFC 3339, as far as that is known.
    pub since: Option<String>,
    /// Its first address, as far as that is known.
    pub address: Option<String>,
    /// What is reported about it, with what becomes of it; `null`: it is not in the list of broken machines.
    pub broken: Option<BrokenJson>,
    /// Why it is not known which machines are broken, if it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken_unknown: Option<String>,
    /// Its entries in the repair queue.
    pub entries: Vec<RepairEntryJson>,
    /// Incidents it belongs or belonged to, the newest first.
    pub incidents: Vec<IncidentSummaryJson>,
    /// Which parts of repair work.
    pub switches: SwitchesJson,
    /// How much may still be repaired.
    pub budget: BudgetJson,
    /// The server that repairs; `null`: none does at the moment.
    pub leader: Option<String>,
    /// What stands in the way of every repair, what they are not protected from, and what to do about it.
    pub messages: Vec<String>,
}

/// Everything an explanation is made from.
#[derive(Debug, Clone)]
pub struct Explained<'a> {
    /// The machine.
    pub serial: &'a Serial,
    /// The same, if it is in our own registry.
    pub machine: Option<&'a Machine>,
    /// What is reported about it, and what becomes of it.
    pub broken: Option<(&'a Failure, &'a Verdict)>,
    /// Why it is not known which machines are broken.
    pub broken_unknown: Option<String>,
    /// Its entries in the repair queue.
    pub entries: Vec<RepairEntryJson>,
    /// Settings that leave machines without protection.
    pub warnings: &'a [Problem],
    /// Incidents it belongs or belonged to, the newest first.
    pub incidents: &'a [Incident],
    /// Which parts of repair work.
    pub switches: SwitchesJson,
    /// How much may still be repaired.
    pub budget: BudgetJson,
    /// The server that repairs.
    pub leader: Option<String>,
}

impl From<Explained<'_>> for RepairExplanationJson {
    fn from(explained: Explained<'_>) -> RepairExplanationJson {
        let (answer, change) = answer(&explained);
        let Explained {
            serial,
            machine,
            broken,
            broken_unknown,
            entries,
            warnings,
            incidents,
            switches,
            budget,
            leader,
        } = explained;
        let messages = obstacles(switches, &budget, leader.as_deref(), warnings);
        let reported = broken.map(|(failure, _)| failure);
        let state = machine.map(|machine| machine.status.state).or_else(|| reported.map(|failure| failure.state));
        let own = machine.and_then(|machine| machine.ipv4().next());
        let address = own.or_else(|| reported.and_then(|failure| failure.address));
        RepairExplanationJson {
            serial: serial.to_string(),
            answer,
            change,
            registered: machine.is_some(),
            state: state.map(|state| state.as_str().to_owned()),
            since: machine.map(|machine| time_text(machine.status.since)),
            address: address.map(|address| address.to_string()),
            broken: broken.map(|(failure, verdict)| BrokenJson::new(failure, verdict)),
            broken_unknown,
            entries,
            incidents: incidents.iter().map(|incident| IncidentSummaryJson::new(incident, switches.guard)).collect(),
            switches,
            budget,
            leader,
            messages,
        }
    }
}

/// The answer, and what would change it. What is under way comes before what the next round says.
fn answer(explained: &Explained<'_>) -> (String, Option<String>) {
    let Explained { machine, broken, broken_unknown, entries, switches, .. } = explained;
    if let Some(entry) = entries.iter().find(|entry| !entry.is_finished()) {
        let RepairEntryJson { index, status, step, step_status, waits, .. } = entry;
        let waits = waits.as_ref().map(|waits| format!(" ({waits})")).unwrap_or_default();
        let change = (!switches.repair_queue).then(|| "`sabactl repair-queue enable`".to_owned());
        return (format!("repair {index} of it is {status}, step {step} {step_status}{waits}"), change);
    }
    match broken {
        Some((_, Verdict::Enqueue)) if !switches.automatic => (
            "it would be repaired, but automatic repair is disabled".to_owned(),
            Some("`sabactl auto-repair enable`".to_owned()),
        ),
        Some((_, Verdict::Enqueue)) => ("it comes into the repair queue in the next round".to_owned(), None),
        Some((_, verdict)) => {
            let VerdictJson { text, change, .. } = VerdictJson::from(*verdict);
            (text, change)
        }
        None if let Some(reason) = broken_unknown => {
            (format!("it is not known which machines are broken: {reason}"), None)
        }
        None => match machine.map(|machine| machine.status.state) {
            Some(state @ (HealthState::Unhealthy | HealthState::Unreachable)) => (
                format!("it is {state}, but not in the list of broken machines"),
                Some("`sabactl auto-repair get-variables` shows which machines count as broken".to_owned()),
            ),
            Some(_) => ("nothing is wrong with it".to_owned(), None),
            None => ("nobody reports that it is broken".to_owned(), None),
        },
    }
}
