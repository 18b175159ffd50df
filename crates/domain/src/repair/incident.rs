//! An incident: a group of machines that failed together and is held back from repair, until a person says otherwise or the group
//! recovers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};

use super::{
    entry::Entry,
    guard::{self, Census, Correlated, Failure, Group, GuardRules},
    reboot::{self, RebootEntry},
};
use crate::words::Serial;

/// Where an incident is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Its machines are held.
    Open,
    /// A person has looked; its machines may be repaired, as far as the limits allow.
    Acknowledged {
        /// Who.
        by: String,
        /// When.
        at: Timestamp,
        /// What they say.
        reason: String,
    },
    /// Its machines work again, but for a few.
    Recovered {
        /// When that was noticed.
        at: Timestamp,
    },
}

impl Phase {
    /// Its name.
    pub fn as_str(&self) -> &'static str {
        match self {
            Phase::Open => "open",
            Phase::Acknowledged { .. } => "acknowledged",
            Phase::Recovered { .. } => "recovered",
        }
    }
}

/// A group of machines that failed together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    /// Its number.
    pub number: u64,
    /// Which group.
    pub group: Group,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// What was counted then, for people.
    pub because: String,
    /// Every machine of it that was ever broken, by serial.
    pub members: BTreeSet<Serial>,
    /// Where it is.
    pub phase: Phase,
}

impl Incident {
    /// Whether its machines are held.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }
}

/// Everything the judgement depends on.
#[derive(Debug, Clone, Copy)]
pub struct Around<'a> {
    /// How many machines every group has.
    pub census: &'a Census,
    /// Every incident that is kept, also those that are over.
    pub incidents: &'a [Incident],
    /// Every entry of the repair queue: a machine that is being repaired goes from trouble to trouble, and has not failed anew.
    pub queue: &'a [Entry],
    /// Every entry of the reboot queue: who is rebooted on purpose has not failed.
    pub reboots: &'a [RebootEntry],
    /// `wait-seconds-to-repair-rebooting`.
    pub wait_rebooting: Duration,
    /// When machines count as having failed together.
    pub rules: &'a GuardRules,
    /// Now.
    pub now: Timestamp,
}

/// What a look at all failures comes to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Judgement {
    /// Groups for which an incident has to be opened.
    pub opened: Vec<Correlated>,
    /// Incidents that are over, open or acknowledged until now, by number.
    pub recovered: Vec<u64>,
    /// Machines that joined an open incident, by its number.
    pub joined: BTreeMap<u64, BTreeSet<Serial>>,
    /// Machines that are held, each with why.
    pub held: BTreeMap<Serial, Held>,
    /// Machines of a group that has just recovered.
    pub settling: BTreeMap<Serial, Settling>,
}

impl Judgement {
    /// Why nothing is begun for a machine, if it failed together with others.
    pub fn why_held(&self, serial: &Serial) -> Option<String> {
        let held = self.held.get(serial).map(ToString::to_string);
        held.or_else(|| self.settling.get(serial).map(ToString::to_string))
    }
}

/// Why a machine is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The incident; `None`: it is opened now.
    pub incident: Option<u64>,
    /// Its group.
    pub group: Group,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Held { incident, group } = self;
        match incident {
            Some(number) => write!(
                f,
                "{group} failed together: incident {number}; it is held until the group recovers or somebody runs `sabactl incidents \
                 acknowledge {number}`"
            ),
            None => write!(f, "{group} failed together; an incident is opened"),
        }
    }
}

/// The group of a machine has just recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settling {
    /// The incident.
    pub incident: u64,
    /// For how much longer the last ones are waited for.
    pub left: Duration,
}

impl fmt::Display for Settling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settling { incident, left } = self;
        write!(f, "incident {incident} is over, and it is given {} s more to come back like the others", left.as_secs())
    }
}

/// An incident is over when no more than one of so many of its machines are left.
const RECOVERED_PART: usize = 10;

/// Looks at all failures and all incidents.
pub fn judge(failures: &[Failure], around: &Around<'_>) -> Judgement {
    let mut judgement = Judgement::default();
    let rules = around.rules;
    if !rules.enabled {
        return judgement;
    }
    let reboots = reboot::by_node(around.reboots);
    let failures: Vec<&Failure> = failures
        .iter()
        .filter(|failure| failure.age <= rules.stale_after)
        .filter(|failure| !reboot::is_planned(failure, &reboots, around.wait_rebooting))
        .collect();
    // What was judged once is not counted again: it would be a new incident each time a few are left of an old one.
    let mut known: BTreeSet<&Serial> = BTreeSet::new();
    for incident in around.incidents {
        let of_it = |failure: &&&Failure| match &incident.phase {
            Phase::Open => failure.traits.is_in(&incident.group),
            Phase::Acknowledged { .. } => incident.members.contains(&failure.serial),
            Phase::Recovered { at } => incident.members.contains(&failure.serial) && left_over(failure, *at, around),
        };
        let broken: Vec<&Failure> = failures.iter().filter(of_it).copied().collect();
        known.extend(broken.iter().map(|failure| &failure.serial));
        judgement.consider(incident, &broken, around);
    }
    let fresh: Vec<&Failure> = failures.into_iter().filter(|failure| !known.contains(&failure.serial)).collect();
    let aged: Vec<Failure> = fresh.iter().map(|failure| with_whole_age(failure, around)).collect();
    for found in guard::correlated(&aged.iter().collect::<Vec<_>>(), around.census, rules) {
        // Those of the group that broke before the window are held with it: nobody can tell them apart.
        for failure in fresh.iter().filter(|failure| failure.traits.is_in(&found.group)) {
            let held = Held { incident: None, group: found.group.clone() };
            judgement.held.entry(failure.serial.clone()).or_insert(held);
        }
        judgement.opened.push(found);
    }
    judgement
}

/// The same failure with the time since its repair was asked for: its state may have changed meanwhile, and a machine that breaks
/// again and again says nothing about its group. A repair that ended long ago says nothing about today: somebody may have left it.
fn with_whole_age(failure: &Failure, around: &Around<'_>) -> Failure {
    let since = |at| Duration::try_from(around.now.duration_since(at)).unwrap_or_default();
    let longest = around.rules.windows.iter().max().copied().unwrap_or_default();
    let says = |entry: &&Entry| !entry.is_finished() || since(entry.since()) <= longest;
    let own = around.queue.iter().filter(|entry| Some(entry.address) == failure.address).filter(says);
    let whole = own.map(|entry| since(entry.created_at)).max();
    Failure { age: failure.age.max(whole.unwrap_or_default()), ..failure.clone() }
}

/// Whether a machine has been broken since about the time when its group recovered: it did not come back with the others, or it
/// came back with another trouble.
fn left_over(failure: &Failure, recovered: Timestamp, around: &Around<'_>) -> bool {
    let passed = around.now.duration_since(recovered);
    SignedDuration::try_from(failure.age + around.rules.observe).is_ok_and(|age| passed <= age)
}

impl Judgement {
    /// Adds what one incident comes to, given which of its machines are broken.
    fn consider(&mut self, incident: &Incident, broken: &[&Failure], around: &Around<'_>) {
        let observe = around.rules.observe;
        let left = match incident.phase {
            Phase::Recovered { at } => {
                let passed = Duration::try_from(around.now.duration_since(at)).ok();
                passed.and_then(|passed| observe.checked_sub(passed))
            }
            _ if is_over(broken.len(), incident.members.len(), around.rules) => {
                self.recovered.push(incident.number);
                incident.is_open().then_some(observe)
            }
            Phase::Acknowledged { .. } => None,
            Phase::Open => return self.hold(incident, broken),
        };
        for (failure, left) in broken.iter().zip(std::iter::repeat(left.unwrap_or_default())) {
            if !left.is_zero() {
                self.settling.entry(failure.serial.clone()).or_insert(Settling { incident: incident.number, left });
            }
        }
    }

    fn hold(&mut self, incident: &Incident, broken: &[&Failure]) {
        let new = broken.iter().map(|failure| &failure.serial).filter(|serial| !incident.members.contains(*serial));
        let new: BTreeSet<Serial> = new.cloned().collect();
        if !new.is_empty() {
            self.joined.insert(incident.number, new);
        }
        for failure in broken {
            let held = Held { incident: Some(incident.number), group: incident.group.clone() };
            self.held.entry(failure.serial.clone()).or_insert(held);
        }
    }
}

/// Whether so few machines of an incident are left that each is a case of its own. In a large group a few are broken at any time.
fn is_over(broken: usize, members: usize, rules: &GuardRules) -> bool {
    broken < rules.least || broken * RECOVERED_PART <= members
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use super::{
        super::guard::{GroupKind, SecondOpinion, Traits},
        *,
    };
    use crate::{lifecycle::HealthState, machine::Rack};

    fn traits(n: u32) -> Traits {
        Traits {
            rack: Rack(n / 28),
            role: "cs".to_owned(),
            machine_type: "type1".to_owned(),
            version: None,
            power_domain: None,
        }
    }

    fn failures(numbers: std::ops::Range<u32>) -> Vec<Failure> {
        let failure = |n: u32| Failure {
            serial: Serial::new(format!("m{n:05}")).expect("a serial"),
            address: Some(Ipv4Addr::from(n)),
            state: HealthState::Unreachable,
            age: Duration::from_secs(120),
            traits: traits(n),
            opinion: SecondOpinion::default(),
        };
        numbers.map(failure).collect()
    }

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().expect("a time")
    }

    fn judged_with(
        failures: &[Failure],
        incidents: &[Incident],
        reboots: &[RebootEntry],
        rules: &GuardRules,
    ) -> Judgement {
        let all: Vec<Traits> = (0..2_800).map(traits).collect();
        let census = Census::of(&all);
        let wait_rebooting = Duration::from_secs(900);
        let queue = &[];
        judge(failures, &Around { census: &census, incidents, queue, reboots, wait_rebooting, rules, now: now() })
    }

    fn judged(failures: &[Failure], incidents: &[Incident]) -> Judgement {
        judged_with(failures, incidents, &[], &GuardRules::default())
    }

    fn incident(members: &[Failure], phase: Phase) -> Incident {
        Incident {
            number: 4,
            group: Group { kind: GroupKind::Rack, value: "1".to_owned() },
            opened_at: Timestamp::UNIX_EPOCH,
            because: String::new(),
            members: members.iter().map(|failure| failure.serial.clone()).collect(),
            phase,
        }
    }

    #[test]
    fn a_rack_is_held_as_long_as_its_incident_is_open() {
        let rack = failures(28..56);
        let opened = judged(&rack, &[]);
        assert_eq!((opened.opened.len(), opened.held.len()), (1, 28));
        assert!(opened.held.values().all(|held| held.incident.is_none()));
        let open = incident(&rack[..20], Phase::Open);
        let held = judged(&rack, std::slice::from_ref(&open));
        assert_eq!((held.opened.len(), held.held.len(), held.joined[&4].len()), (0, 28, 8));
        assert!(held.held.values().all(|held| held.incident == Some(4)));
        // Three are still a group, two are not.
        assert!(judged(&rack[..3], std::slice::from_ref(&open)).recovered.is_empty());
        let recovered = judged(&rack[..2], &[open]);
        assert_eq!((recovered.recovered.as_slice(), recovered.held.len()), (&[4][..], 0));
        assert_eq!(recovered.settling.len(), 2, "they may come back a little later than the others");
    }

    #[test]
    fn an_incident_of_many_is_over_although_a_few_are_always_broken() {
        let all = failures(0..2_700);
        let fleet = Group { kind: GroupKind::Fleet, value: String::new() };
        let blind = Incident { group: fleet, ..incident(&all, Phase::Open) };
        assert!(judged(&all[..271], std::slice::from_ref(&blind)).recovered.is_empty());
        let few: Vec<Failure> = (0..270).map(|n| all[n * 10].clone()).collect();
        let over = judged(&few, &[blind]);
        assert_eq!((over.recovered.as_slice(), over.opened.len()), (&[4][..], 0), "and is not opened again");
    }

    #[test]
    fn what_is_left_of_an_incident_is_waited_for_and_not_counted_again() {
        let rack = failures(28..56);
        let over = |seconds| {
            let at = now() - SignedDuration::from_secs(seconds);
            incident(&rack, Phase::Recovered { at })
        };
        // They began two minutes ago; the incident ended a minute ago.
        let left = judged(&rack[..5], &[over(60)]);
        assert_eq!((left.opened.len(), left.settling.len()), (0, 5));
        assert_eq!(left.settling[&rack[0].serial], Settling { incident: 4, left: Duration::from_secs(240) });
        assert!(left.why_held(&rack[0].serial).expect("a reason").contains("240 s"));
        assert_eq!(judged(&rack[..5], &[over(400)]), Judgement::default(), "waited for long enough");
        assert_eq!(judged(&rack[..5], &[over(421)]).opened.len(), 1, "they failed again after it was over");
        assert!(judged(&rack[..5], &[over(-5_000)]).settling.is_empty(), "a clock that was set back");
    }

    #[test]
    fn who_is_rebooted_on_purpose_has_not_failed() {
        use super::super::{entry::Backoff, reboot::RebootStatus};
        let rack = failures(28..56);
        let reboot = |failure: &Failure| RebootEntry {
            index: 1,
            node: failure.address.expect("an address"),
            status: RebootStatus::Rebooting,
            changed_at: None,
            backoff: Backoff::default(),
        };
        let reboots: Vec<RebootEntry> = rack[2..].iter().map(reboot).collect();
        assert_eq!(judged_with(&rack, &[], &reboots, &GuardRules::default()), Judgement::default());
        assert_eq!(judged_with(&rack, &[], &reboots[1..], &GuardRules::default()).opened.len(), 1);
    }

    #[test]
    fn old_reports_keep_no_incident_open() {
        let mut rack = failures(28..56);
        let open = incident(&rack, Phase::Open);
        rack.iter_mut().for_each(|failure| failure.age = Duration::from_secs(8 * 86_400));
        assert_eq!(judged(&rack, &[open]).recovered, [4]);
    }

    #[test]
    fn what_a_person_acknowledged_is_not_held_again() {
        let rack = failures(28..56);
        let at = Timestamp::UNIX_EPOCH;
        let phase = Phase::Acknowledged { by: "o".to_owned(), at, reason: String::new() };
        let known = incident(&rack, phase);
        assert_eq!(judged(&rack, std::slice::from_ref(&known)), Judgement::default());
        // When they work again the incident is over, and the next one is another.
        assert_eq!(judged(&[], std::slice::from_ref(&known)).recovered, [4]);
        // Others that fail together are held all the same.
        let both = [rack, failures(56..84)].concat();
        let judgement = judged(&both, &[known]);
        assert_eq!((judgement.opened.len(), judgement.held.len()), (1, 28));
    }

    #[test]
    fn without_the_guard_nobody_is_held() {
        let rules = GuardRules { enabled: false, ..GuardRules::default() };
        assert_eq!(judged_with(&failures(0..56), &[], &[], &rules), Judgement::default());
    }
}
