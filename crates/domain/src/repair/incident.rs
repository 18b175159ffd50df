//! An incident: a group of machines that failed together and is held back from repair, until a person says otherwise or the group
//! recovers.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::Ipv4Addr,
    time::Duration,
};

use jiff::Timestamp;

use super::{
    entry::Entry,
    guard::{self, Census, Correlated, Failure, Group, GuardRules},
    reboot::{self, RebootEntry},
};
use crate::words::Serial;

/// Where an incident is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Its machines are held, as long as the guard is on.
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
    /// How many that were. Of very large groups not all are kept by name.
    pub member_count: usize,
    /// Where it is.
    pub phase: Phase,
}

impl Incident {
    /// Whether its machines are held, as long as the guard is on.
    pub fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// Its machines that are broken and count as judged with it.
    fn broken<'a>(
        &self,
        failures: &[&'a Failure],
        by_serial: &BTreeMap<&Serial, &'a Failure>,
        around: &Around<'_>,
    ) -> Vec<&'a Failure> {
        let at = match &self.phase {
            Phase::Open => {
                let in_group = |failure: &&Failure| failure.traits.is_in(&self.group);
                // Also members whose label was changed meanwhile: that is no recovery.
                let moved = self.members_broken(by_serial).into_iter().filter(|failure| !in_group(failure));
                return failures.iter().copied().filter(in_group).chain(moved).collect();
            }
            Phase::Acknowledged { at, .. } | Phase::Recovered { at } => *at,
        };
        let passed = around.now.duration_since(at);
        // A time that far ahead was written by a clock that has been set back since, and says nothing.
        if Duration::try_from(-passed).is_ok_and(|ahead| ahead > around.rules.observe) {
            return Vec::new();
        }
        let passed = Duration::try_from(passed).unwrap_or_default();
        let mut broken = self.members_broken(by_serial);
        // Who came back and broke again has failed anew.
        broken.retain(|failure| failure.broken_for() + SAME_MOMENT >= passed);
        broken
    }

    /// Its members that are broken, since whenever.
    fn members_broken<'a>(&self, by_serial: &BTreeMap<&Serial, &'a Failure>) -> Vec<&'a Failure> {
        self.members.iter().filter_map(|serial| by_serial.get(serial).copied()).collect()
    }

    /// Whether so few of its machines are left that each is a case of its own, but for smaller groups that get an incident of their
    /// own. In a large group a few are broken at any time; a tenth of a fleet, here and there, which a monitor cannot see yet is no
    /// chance.
    fn is_over(&self, broken: &[&Failure], around: &Around<'_>) -> bool {
        let Around { census, rules, .. } = around;
        let few = || broken.len() * RECOVERED_PART <= self.member_count;
        let by_chance = || {
            let groups = guard::left_together(&self.group, broken, census, rules);
            let mut scattered = broken.to_vec();
            scattered.retain(|failure| !groups.iter().any(|smaller| failure.traits.is_in(&smaller.group)));
            !guard::more_than_chance(&self.group, &scattered, census, rules)
        };
        broken.len() < rules.least || (few() && by_chance())
    }

    /// For how much longer its machines are waited for after it is over; `None`: they are not.
    fn settling(&self, around: &Around<'_>) -> Option<Duration> {
        let Phase::Recovered { at } = self.phase else { return None };
        let passed = around.now.duration_since(at);
        // Another clock may be ahead; one that is by more was set back since.
        let ahead = Duration::try_from(-passed).unwrap_or_default();
        let passed = Duration::try_from(passed).unwrap_or_default();
        around.rules.observe.checked_sub(passed).filter(|left| !left.is_zero() && ahead <= around.rules.observe)
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

    /// Addresses of machines for which nothing is begun, each with why.
    pub fn held_addresses(&self, failures: &[Failure]) -> BTreeMap<Ipv4Addr, String> {
        failures.iter().filter_map(|failure| Some((failure.address?, self.why_held(&failure.serial)?))).collect()
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

/// What holds of an incident's group at one moment. Why the incident was opened is never rewritten, and may be long past.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IncidentPresent {
    /// How many machines the group has.
    pub machines: usize,
    /// How many of them are broken.
    pub broken: usize,
    /// For how long the one has been broken that broke first; `None`: none is.
    pub oldest: Option<Duration>,
    /// Controllers of the broken ones that answer.
    pub controllers_answering: usize,
    /// Controllers of the broken ones that do not answer.
    pub controllers_silent: usize,
}

impl IncidentPresent {
    /// Counts the machines of a group that are broken. `census` must count all machines.
    pub fn of(group: &Group, failures: &[Failure], census: &Census) -> IncidentPresent {
        let machines = census.size(group);
        let mut present = IncidentPresent { machines, ..IncidentPresent::default() };
        for failure in failures.iter().filter(|failure| failure.traits.is_in(group)) {
            present.broken += 1;
            present.oldest = present.oldest.max(Some(failure.broken_for()));
            match failure.opinion.bmc_answers {
                Some(true) => present.controllers_answering += 1,
                Some(false) => present.controllers_silent += 1,
                None => {}
            }
        }
        // A machine that broke while others were counted is one of the group all the same.
        present.machines = present.machines.max(present.broken);
        present
    }
}

/// An incident is not over as long as more than one of so many of its machines are left.
const RECOVERED_PART: usize = 10;

/// Looks at all failures and all incidents.
pub fn judge(failures: &[Failure], around: &Around<'_>) -> Judgement {
    let mut judgement = Judgement::default();
    let rules = around.rules;
    if !rules.enabled {
        return judgement;
    }
    let reboots = reboot::by_node(around.reboots);
    let planned = |failure: &&Failure| reboot::is_planned(failure, &reboots, around.wait_rebooting);
    let failures: Vec<&Failure> = failures.iter().filter(|failure| !planned(failure)).collect();
    let by_serial: BTreeMap<&Serial, &Failure> = failures.iter().map(|failure| (&failure.serial, *failure)).collect();
    // What was judged once is not counted again: it would be a new incident each time a few are left of an old one.
    let (mut known, mut released) = (BTreeSet::<&Serial>::new(), BTreeSet::<&Serial>::new());
    let (mut left, mut again) = (Vec::new(), Vec::new());
    for incident in around.incidents {
        let broken = incident.broken(&failures, &by_serial, around);
        known.extend(broken.iter().map(|failure| &failure.serial));
        if matches!(incident.phase, Phase::Acknowledged { .. }) {
            released.extend(broken.iter().map(|failure| &failure.serial));
        }
        if judgement.consider(incident, &broken, around) {
            left.push((&incident.group, broken));
        }
        if incident.settling(around).is_some() {
            again.push((incident, incident.members_broken(&by_serial)));
        }
    }
    // Who is held, or was released by a person, is nobody's rest.
    let is_free =
        |failure: &&Failure| !judgement.held.contains_key(&failure.serial) && !released.contains(&failure.serial);
    let mut found: Vec<Correlated> = Vec::new();
    // Members that broke again while the group settles: it was not over.
    for (incident, mut broken) in again {
        broken.retain(is_free);
        if !incident.is_over(&broken, around) {
            found.push(guard::broken_together(incident.group.clone(), &broken, around.census, rules));
        }
    }
    for (whole, mut broken) in left {
        broken.retain(is_free);
        found.extend(guard::left_together(whole, &broken, around.census, rules));
    }
    let fresh = |failure: &&&Failure| !known.contains(&failure.serial) && failure.age <= rules.stale_after;
    let ages = Ages::of(around);
    let aged: Vec<Failure> = failures.iter().filter(fresh).map(|failure| ages.whole(failure)).collect();
    found.extend(guard::correlated(&aged.iter().collect::<Vec<_>>(), around.census, rules));
    found.into_iter().for_each(|found| judgement.open(found, &failures));
    judgement
}

/// How much two clocks, or a reading that is rounded to seconds, may differ about the same moment.
const SAME_MOMENT: Duration = Duration::from_secs(5);

/// Since when repairs have been asked for, by address. The state of a machine that is repaired may change meanwhile, and one that
/// breaks again and again says nothing about its group. A repair that ended long ago says nothing about today: somebody may have
/// left it.
struct Ages(BTreeMap<Ipv4Addr, Duration>);

impl Ages {
    fn of(around: &Around<'_>) -> Ages {
        let since = |at| Duration::try_from(around.now.duration_since(at)).unwrap_or_default();
        let longest = around.rules.windows.iter().max().copied().unwrap_or_default();
        let says = |entry: &&Entry| !entry.is_finished() || since(entry.since()) <= longest;
        let mut ages = BTreeMap::new();
        for entry in around.queue.iter().filter(says) {
            let age: &mut Duration = ages.entry(entry.address).or_default();
            *age = (*age).max(since(entry.created_at));
        }
        Ages(ages)
    }

    /// The same failure with the time since its repair was asked for.
    fn whole(&self, failure: &Failure) -> Failure {
        let asked = failure.address.and_then(|address| self.0.get(&address)).copied().unwrap_or_default();
        let age = failure.broken_for().max(asked);
        Failure { age, broken_before: Duration::ZERO, ..failure.clone() }
    }
}

impl Judgement {
    /// Opens an incident for a group, unless that would hold nobody who is not held already. Everybody of the group who is broken is
    /// held with it: nobody can tell them apart.
    fn open(&mut self, found: Correlated, failures: &[&Failure]) {
        let mut is_new = false;
        for failure in failures.iter().filter(|failure| failure.traits.is_in(&found.group)) {
            self.settling.remove(&failure.serial);
            is_new |= !self.held.contains_key(&failure.serial);
            let held = Held { incident: None, group: found.group.clone() };
            self.held.entry(failure.serial.clone()).or_insert(held);
        }
        // Two incidents may leave the same group behind.
        if is_new && self.opened.iter().all(|opened| opened.group != found.group) {
            self.opened.push(found);
        }
    }

    /// Adds what one incident comes to, given which of its machines are broken. Whether it is over.
    fn consider(&mut self, incident: &Incident, broken: &[&Failure], around: &Around<'_>) -> bool {
        let left = match incident.phase {
            Phase::Recovered { .. } => incident.settling(around),
            // Whom a person released stays so as long as it is broken.
            Phase::Acknowledged { .. } => {
                if broken.is_empty() {
                    self.recovered.push(incident.number);
                }
                return false;
            }
            Phase::Open if incident.is_over(broken, around) => {
                self.recovered.push(incident.number);
                Some(around.rules.observe)
            }
            Phase::Open => {
                self.hold(incident, broken);
                return false;
            }
        };
        // Nobody knows yet who of them will stay.
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            for serial in broken.iter().map(|failure| &failure.serial).chain(&incident.members) {
                self.settling.entry(serial.clone()).or_insert(Settling { incident: incident.number, left });
            }
        }
        true
    }

    fn hold(&mut self, incident: &Incident, broken: &[&Failure]) {
        let new = broken.iter().map(|failure| &failure.serial).filter(|serial| !incident.members.contains(*serial));
        let new: BTreeSet<Serial> = new.cloned().collect();
        if !new.is_empty() {
            self.joined.insert(incident.number, new);
        }
        // Also those that are not reported at the moment: a monitor that calls one of them healthy for a minute is no recovery.
        for serial in broken.iter().map(|failure| &failure.serial).chain(&incident.members) {
            let held = Held { incident: Some(incident.number), group: incident.group.clone() };
            self.held.entry(serial.clone()).or_insert(held);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
            broken_before: Duration::ZERO,
            hands_off: None,
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
            member_count: members.len(),
            phase,
        }
    }

    #[test]
    fn what_holds_now_is_counted_anew() {
        let all: Vec<Traits> = (0..2_800).map(traits).collect();
        let census = Census::of(&all);
        let rack = Group { kind: GroupKind::Rack, value: "1".to_owned() };
        let mut failures = failures(20..50);
        failures[10].age = Duration::from_secs(600);
        failures[10].broken_before = Duration::from_secs(60);
        let answers = |bmc_answers| SecondOpinion { bmc_answers, lease_renewed: None };
        failures[0].opinion = answers(Some(true));
        failures[11].opinion = answers(Some(true));
        failures[12].opinion = answers(Some(false));
        failures[13].opinion = answers(Some(false));
        let present = IncidentPresent {
            machines: 28,
            broken: 22,
            oldest: Some(Duration::from_secs(660)),
            controllers_answering: 1,
            controllers_silent: 2,
        };
        assert_eq!(IncidentPresent::of(&rack, &failures, &census), present);
        let quiet = IncidentPresent { machines: 28, ..IncidentPresent::default() };
        assert_eq!(IncidentPresent::of(&rack, &[], &census), quiet);
        let uncounted = IncidentPresent::of(&rack, &failures, &Census::default());
        assert_eq!((uncounted.machines, uncounted.broken), (22, 22));
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
        assert_eq!(recovered.settling.len(), 20, "nobody knows yet who stays");
    }

    #[test]
    fn an_incident_of_many_is_over_although_a_few_are_always_broken() {
        let all = failures(0..2_700);
        let fleet = Group { kind: GroupKind::Fleet, value: String::new() };
        let blind = Incident { group: fleet, ..incident(&all, Phase::Open) };
        let left = |count: usize| (0..count).map(|n| all[n * 2_700 / count].clone()).collect::<Vec<_>>();
        // Twenty-eight break in a day. Sixty is much, but happens; a hundred does not.
        let over = judged(&left(60), std::slice::from_ref(&blind));
        assert_eq!((over.recovered.as_slice(), over.opened.len()), (&[4][..], 0), "and is not opened again");
        assert_eq!(judged(&left(100), std::slice::from_ref(&blind)).held.len(), 2_700);
        // Two hundred that broke one by one over a week are no more than usual.
        let mut week: Vec<Failure> = left(200);
        for (n, failure) in (1..).zip(&mut week) {
            failure.age = Duration::from_secs(2_900 * n);
        }
        assert_eq!(judged(&week, std::slice::from_ref(&blind)).recovered, [4]);
        // A small group has more than a tenth left.
        let rack = incident(&all[..28], Phase::Open);
        let rack = Incident { group: Group { kind: GroupKind::Rack, value: "0".to_owned() }, ..rack };
        assert!(judged(&all[..3], &[rack]).recovered.is_empty());
    }

    #[test]
    fn what_is_left_of_an_incident_is_waited_for_and_not_counted_again() {
        let mut rack = failures(28..56);
        rack.iter_mut().for_each(|failure| failure.age = Duration::from_secs(500));
        let over = |seconds| {
            let at = now() - jiff::SignedDuration::from_secs(seconds);
            incident(&rack, Phase::Recovered { at })
        };
        // They began long before the incident ended a minute ago.
        let left = judged(&rack[..2], &[over(60)]);
        assert_eq!((left.opened.len(), left.settling.len()), (0, 28));
        assert_eq!(left.settling[&rack[0].serial], Settling { incident: 4, left: Duration::from_secs(240) });
        assert!(left.why_held(&rack[0].serial).expect("a reason").contains("240 s"));
        assert_eq!(judged(&rack[..2], &[over(400)]), Judgement::default(), "waited for long enough");
        let again = judged(&rack[..3], &[over(506)]);
        assert_eq!((again.opened.len(), again.held.len()), (1, 3), "they failed again after it was over");
        let not_over = judged(&rack[..3], &[over(60)]);
        assert_eq!((not_over.opened.len(), not_over.held.len()), (1, 3), "they failed again before it was");
        assert!(judged(&rack[..2], &[over(-5_000)]).settling.is_empty(), "a clock that was set back");
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
            note: String::new(),
        };
        let reboots: Vec<RebootEntry> = rack[2..].iter().map(reboot).collect();
        assert_eq!(judged_with(&rack, &[], &reboots, &GuardRules::default()), Judgement::default());
        assert_eq!(judged_with(&rack, &[], &reboots[1..], &GuardRules::default()).opened.len(), 1);
    }

    #[test]
    fn old_reports_open_no_incident_and_end_none() {
        let mut rack = failures(28..56);
        let open = incident(&rack, Phase::Open);
        rack.iter_mut().for_each(|failure| failure.age = Duration::from_secs(8 * 86_400));
        assert_eq!(judged(&rack, &[]), Judgement::default());
        let held = judged(&rack, &[open]);
        assert_eq!((held.recovered.len(), held.held.len()), (0, 28), "nobody has come back");
    }

    #[test]
    fn what_a_person_acknowledged_is_not_held_again() {
        let rack = failures(28..56);
        let at = now() - jiff::SignedDuration::from_secs(60);
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
