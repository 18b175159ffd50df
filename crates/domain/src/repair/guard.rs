//! Finds machines that failed together. A machine that breaks alone is repaired; a rack without power must not be.
//!
//! Failures that began within a window are counted by rack, role, machine type, version and power domain, and over the whole fleet.
//! If machines broke one by one, a group of `n` machines would see `n` × rate × window failures; how unlikely the number that was
//! counted is, is the tail of a Poisson distribution. A group that is less likely than the rules allow has failed together.
//!
//! When a rack loses power, its role, its machine types and the fleet also have more failures than chance explains. What they have in
//! common is best told by the share that failed: all of the rack, a few of the others. So of the groups whose share is more than half
//! of the largest, the one with the most failures is taken: two racks of one power domain are the domain, nearly every machine is the
//! fleet, and a rack is a rack.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::Ipv4Addr,
    time::Duration,
};

use jiff::Timestamp;

use super::hands_off::HandsOff;
use crate::{cluster::live_node::LiveNode, lifecycle::HealthState, machine::Rack, words::Serial};

/// What machines can have in common. Names exist once, in [`GroupKind::as_str`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GroupKind {
    /// The same rack: its power, its switch.
    Rack,
    /// The same power domain, by a label.
    PowerDomain,
    /// The same version of what runs on them, by a label or the image they were deployed with.
    Version,
    /// The same BMC type: firmware, hardware batch.
    MachineType,
    /// The same role: what runs on them.
    Role,
    /// All machines: the monitor itself.
    Fleet,
}

impl GroupKind {
    /// Every kind.
    pub const ALL: [GroupKind; 6] = [
        GroupKind::Rack,
        GroupKind::PowerDomain,
        GroupKind::Version,
        GroupKind::MachineType,
        GroupKind::Role,
        GroupKind::Fleet,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            GroupKind::Rack => "rack",
            GroupKind::PowerDomain => "power-domain",
            GroupKind::Version => "version",
            GroupKind::MachineType => "machine-type",
            GroupKind::Role => "role",
            GroupKind::Fleet => "fleet",
        }
    }

    /// The kind with this name.
    pub fn parse(name: &str) -> Option<GroupKind> {
        GroupKind::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Machines with something in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// What.
    pub kind: GroupKind,
    /// Which; empty for the fleet.
    pub value: String,
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            GroupKind::Fleet => f.write_str("the whole fleet"),
            kind => write!(f, "{} {}", kind.as_str(), self.value),
        }
    }
}

/// What a machine has in common with others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traits {
    /// Its rack.
    pub rack: Rack,
    /// Its role.
    pub role: String,
    /// Its BMC type.
    pub machine_type: String,
    /// The version of what runs on it, if a label or provisioning says so.
    pub version: Option<String>,
    /// Its power domain, if a label says so.
    pub power_domain: Option<String>,
}

impl Traits {
    /// Every group it belongs to.
    pub fn groups(&self) -> impl Iterator<Item = Group> {
        let group = |kind, value: &str| Group { kind, value: value.to_owned() };
        let common = [
            Some(group(GroupKind::Rack, &self.rack.to_string())),
            self.power_domain.as_deref().map(|value| group(GroupKind::PowerDomain, value)),
            self.version.as_deref().map(|value| group(GroupKind::Version, value)),
            Some(group(GroupKind::MachineType, &self.machine_type)),
            Some(group(GroupKind::Role, &self.role)),
            Some(group(GroupKind::Fleet, "")),
        ];
        common.into_iter().flatten()
    }

    /// Whether it belongs to a group.
    pub fn is_in(&self, group: &Group) -> bool {
        let value = group.value.as_str();
        match group.kind {
            GroupKind::Rack => value.parse() == Ok(self.rack.0),
            GroupKind::PowerDomain => self.power_domain.as_deref() == Some(value),
            GroupKind::Version => self.version.as_deref() == Some(value),
            GroupKind::MachineType => self.machine_type == value,
            GroupKind::Role => self.role == value,
            GroupKind::Fleet => true,
        }
    }
}

/// What others than the monitor say about a machine, where that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SecondOpinion {
    /// Its controller answers.
    pub bmc_answers: Option<bool>,
    /// It renewed its lease since it was reported.
    pub lease_renewed: Option<bool>,
}

impl SecondOpinion {
    /// What its kubelet says about a machine that was reported at a moment: the lease it renews, or else whether its Node is ready.
    pub fn with_kubelet(self, node: &LiveNode, lease: Option<Timestamp>, reported: Timestamp) -> SecondOpinion {
        let lease_renewed = lease.map_or_else(|| node.is_ready(), |at| at > reported);
        SecondOpinion { lease_renewed: Some(lease_renewed), ..self }
    }
}

/// A machine that is reported as broken.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Who it is.
    pub serial: Serial,
    /// Its first address; `None`: it cannot be repaired.
    pub address: Option<Ipv4Addr>,
    /// What is reported.
    pub state: HealthState,
    /// For how long; never negative.
    pub age: Duration,
    /// For how long it had been broken in another way before that, as far as anybody knows. A machine that goes from trouble to
    /// trouble is not broken anew each time.
    pub broken_before: Duration,
    /// What it has in common with others.
    pub traits: Traits,
    /// What others say.
    pub opinion: SecondOpinion,
    /// Why automation leaves it alone, if it does.
    pub hands_off: Option<HandsOff>,
}

impl Failure {
    /// For how long it has been broken, in whatever way.
    pub fn broken_for(&self) -> Duration {
        self.age + self.broken_before
    }
}

/// When machines count as having failed together.
#[derive(Debug, Clone, PartialEq)]
pub struct GuardRules {
    /// Without the guard the plain limits decide alone.
    pub enabled: bool,
    /// How many machines of a hundred break in a day, each by itself.
    pub percent_per_day: f64,
    /// Over which times failures are counted.
    pub windows: Vec<Duration>,
    /// Fewer failures are never a group.
    pub least: usize,
    /// Less likely than this, over all groups together, is no chance.
    pub chance: f64,
    /// A failure is watched so long before it is repaired: a rack does not fail in one moment.
    pub observe: Duration,
    /// An older report is not believed any more; a person has to look.
    pub stale_after: Duration,
}

impl Default for GuardRules {
    fn default() -> GuardRules {
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        GuardRules {
            enabled: true,
            percent_per_day: 1.0,
            windows: vec![minutes(15), minutes(2 * 60), minutes(24 * 60)],
            least: 3,
            // Looked at every minute of a year this is rare even where machines do not break quite by themselves; three machines of a
            // rack within a quarter of an hour are a hundred times less likely.
            chance: 1e-5,
            observe: minutes(5),
            stale_after: minutes(7 * 24 * 60),
        }
    }
}

/// How many machines every group has, broken or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census(BTreeMap<Group, usize>);

impl Census {
    /// Counts machines.
    pub fn of<'a>(machines: impl IntoIterator<Item = &'a Traits>) -> Census {
        let mut counts = BTreeMap::new();
        for group in machines.into_iter().flat_map(|traits| traits.groups().collect::<Vec<_>>()) {
            *counts.entry(group).or_insert(0) += 1;
        }
        Census(counts)
    }

    /// Machines of a group.
    pub fn size(&self, group: &Group) -> usize {
        self.0.get(group).copied().unwrap_or(0)
    }

    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.0.len()
    }
}

/// A group that failed together.
#[derive(Debug, Clone, PartialEq)]
pub struct Correlated {
    /// Which.
    pub group: Group,
    /// Its machines that failed within the window, by serial.
    pub members: BTreeSet<Serial>,
    /// Of how many.
    pub size: usize,
    /// Within which time.
    pub window: Duration,
    /// How many would have failed by chance.
    pub expected: f64,
    /// The natural logarithm of how likely that is.
    pub ln_chance: f64,
}

impl Correlated {
    /// Which part of the group failed at least: less by the play of chance, without which some rack always looks worse than the
    /// fleet that it failed with.
    fn share(&self) -> f64 {
        let failed = count(self.members.len());
        (failed - 1.5 * failed.sqrt()).max(failed / 8.0) / count(self.size.max(1))
    }
}

impl fmt::Display for Correlated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Correlated { group, members, size, window, expected, .. } = self;
        let minutes = window.as_secs() / 60;
        write!(f, "{} of {size} machines of {group} failed within {minutes} minutes; ", members.len())?;
        write!(f, "by chance it would have been {expected:.2}")
    }
}

/// Finds groups that failed together, the largest first. A failure belongs to at most one of them.
pub fn correlated(failures: &[&Failure], census: &Census, rules: &GuardRules) -> Vec<Correlated> {
    let mut left: Vec<&Failure> = failures.to_vec();
    let mut found = Vec::new();
    while let Some(cause) = common_cause(&left, census, rules) {
        // The whole group is held, so that nobody else's group is made of those of it that broke earlier.
        left.retain(|failure| !failure.traits.is_in(&cause.group));
        found.push(cause);
    }
    found
}

/// Groups inside a larger one that did not come back with it: most of their machines are broken still. A few that are left
/// everywhere are each a case of their own.
pub fn left_together(whole: &Group, left: &[&Failure], census: &Census, rules: &GuardRules) -> Vec<Correlated> {
    let mut failures: Vec<&Failure> = left.to_vec();
    let mut found = Vec::new();
    let threshold = threshold(census, rules);
    let share = count(left.len()) / count(census.size(whole).max(1));
    loop {
        let mut groups: BTreeMap<Group, Vec<&Failure>> = BTreeMap::new();
        for failure in &failures {
            for group in failure.traits.groups().filter(|group| census.size(group) < census.size(whole)) {
                groups.entry(group).or_default().push(failure);
            }
        }
        let most = |(group, broken): &(Group, Vec<&Failure>)| {
            let unlikely = || ln_tail(broken.len(), share * count(census.size(group))) < threshold;
            broken.len() >= rules.least && (2 * broken.len() >= census.size(group) || unlikely())
        };
        let Some((group, broken)) = groups.into_iter().filter(most).max_by_key(|(_, broken)| broken.len()) else {
            return found;
        };
        failures.retain(|failure| !failure.traits.is_in(&group));
        found.push(broken_together(group, &broken, census, rules));
    }
}

/// Whether more of a group's broken machines broke within one day, whichever, than chance explains. A day is the longest window.
pub fn more_than_chance(group: &Group, broken: &[&Failure], census: &Census, rules: &GuardRules) -> bool {
    let day = rules.windows.iter().max().copied().unwrap_or_default();
    let members = densest(broken.to_vec(), day);
    explained(group.clone(), members, census, rules, day).ln_chance < threshold(census, rules)
}

/// A group of which these are broken, whatever chance says.
pub fn broken_together(group: Group, broken: &[&Failure], census: &Census, rules: &GuardRules) -> Correlated {
    let ages = || broken.iter().map(|failure| failure.broken_for());
    let span = ages().max().unwrap_or_default() - ages().min().unwrap_or_default();
    let window = span.max(rules.windows.first().copied().unwrap_or_default());
    let members = broken.iter().map(|failure| failure.serial.clone()).collect();
    explained(group, members, census, rules, window)
}

/// What most likely made machines fail together, if any did.
fn common_cause(failures: &[&Failure], census: &Census, rules: &GuardRules) -> Option<Correlated> {
    let mut together: BTreeMap<Group, Correlated> = BTreeMap::new();
    for found in rules.windows.iter().flat_map(|window| unlikely(failures, census, rules, *window)) {
        // The least likely time says what happened: a rack that died a minute ago, not one of whose machines some died today.
        match together.get(&found.group) {
            Some(other) if other.ln_chance <= found.ln_chance => {}
            _ => drop(together.insert(found.group.clone(), found)),
        }
    }
    let together: Vec<Correlated> = together.into_values().collect();
    let largest_share = together.iter().map(Correlated::share).fold(0.0, f64::max);
    let explains = |group: &Correlated| group.share() > largest_share / 2.0;
    let order = |a: &Correlated, b: &Correlated| {
        // Of several with the same failures the smallest group says most, and the shortest time.
        (a.members.len().cmp(&b.members.len()))
            .then(b.size.cmp(&a.size))
            .then(b.window.cmp(&a.window))
            // A role or type that everybody has says no more than that everybody has failed.
            .then_with(|| (a.group.kind == GroupKind::Fleet).cmp(&(b.group.kind == GroupKind::Fleet)))
            .then(b.group.cmp(&a.group))
    };
    together.into_iter().filter(explains).max_by(order)
}

/// Groups with more failures within a window than chance explains, whenever that was: nobody may have looked at the time.
fn unlikely(failures: &[&Failure], census: &Census, rules: &GuardRules, window: Duration) -> Vec<Correlated> {
    let threshold = threshold(census, rules);
    let mut groups: BTreeMap<Group, Vec<&Failure>> = BTreeMap::new();
    for failure in failures {
        for group in failure.traits.groups() {
            groups.entry(group).or_default().push(failure);
        }
    }
    let large = groups.into_iter().filter(|(_, broken)| broken.len() >= rules.least);
    let counted = large.map(|(group, broken)| (group, densest(broken, window)));
    let counted = counted.filter(|(_, members)| members.len() >= rules.least);
    let counted = counted.map(|(group, members)| explained(group, members, census, rules, window));
    counted.filter(|group| group.ln_chance < threshold).collect()
}

/// How many machines of a rack must be reported until they are found to have failed together, when one after the other is, evenly over
/// a time; `None`: not even all of them are. `groups` is how many groups there are.
pub fn found_at(size: usize, over: Duration, groups: usize, rules: &GuardRules) -> Option<usize> {
    let pause = pause(size, over);
    (rules.least..=size).find(|broken| {
        rules.windows.iter().any(|window| {
            let within = (window.as_secs_f64() / pause.as_secs_f64()).floor();
            // One more than there are pauses. A number too large for the type is all of them.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let failed = (within as usize).saturating_add(1).min(*broken);
            failed >= rules.least && ln_tail(failed, expected(size, rules, *window)) < ln_threshold(groups, rules)
        })
    })
}

/// The pause between two of so many reports that come evenly over a time.
pub fn pause(size: usize, over: Duration) -> Duration {
    over / u32::try_from(size.saturating_sub(1)).unwrap_or(u32::MAX).max(1)
}

fn threshold(census: &Census, rules: &GuardRules) -> f64 {
    ln_threshold(census.groups(), rules)
}

/// The natural logarithm of what is no chance any more. Every group may be the unlucky one.
fn ln_threshold(groups: usize, rules: &GuardRules) -> f64 {
    (rules.chance / count(groups.max(1))).ln()
}

/// How many of a group break within a time, each by itself.
fn expected(size: usize, rules: &GuardRules, window: Duration) -> f64 {
    count(size) * rules.percent_per_day / 100.0 * window.as_secs_f64() / 86_400.0
}

/// How likely it is that these failed within a time by chance.
fn explained(
    group: Group,
    members: BTreeSet<Serial>,
    census: &Census,
    rules: &GuardRules,
    window: Duration,
) -> Correlated {
    let size = census.size(&group).max(members.len());
    let expected = expected(size, rules, window);
    let ln_chance = ln_tail(members.len(), expected);
    Correlated { group, members, size, window, expected, ln_chance }
}

/// The most that failed within any time so long; of several such times the latest.
fn densest(mut failures: Vec<&Failure>, window: Duration) -> BTreeSet<Serial> {
    failures.sort_by_key(|failure| failure.age);
    let (mut best, mut end) = (0..0, 0);
    for begin in 0..failures.len() {
        while failures.get(end).is_some_and(|failure| failure.age - failures[begin].age <= window) {
            end += 1;
        }
        if end - begin > best.len() {
            best = begin..end;
        }
    }
    failures[best].iter().map(|failure| failure.serial.clone()).collect()
}

/// The natural logarithm of the chance that at least `k` things happen when `expected` are expected (Poisson).
fn ln_tail(k: usize, expected: f64) -> f64 {
    let k = count(k);
    if expected <= 0.0 {
        return if k > 0.0 { f64::NEG_INFINITY } else { 0.0 };
    }
    // At or below the expectation nothing is surprising; the sum below would converge slowly.
    if k <= expected {
        return 0.0;
    }
    let first = -expected + k * expected.ln() - ln_factorial(k);
    let (mut sum, mut term, mut next) = (1.0, 1.0, k);
    // Each term is smaller than the one before by at least expected / (k + 1) < 1.
    for _ in 0..10_000 {
        next += 1.0;
        term *= expected / next;
        sum += term;
        if term < 1e-12 * sum {
            break;
        }
    }
    (first + f64::ln(sum)).min(0.0)
}

/// Stirling's series for larger numbers, where its error is far below what matters here.
fn ln_factorial(k: f64) -> f64 {
    if k < 20.0 {
        let mut product = 1.0;
        let mut factor = 2.0;
        while factor <= k {
            product *= factor;
            factor += 1.0;
        }
        return f64::ln(product);
    }
    (k + 0.5) * k.ln() - k + 0.5 * (2.0 * std::f64::consts::PI).ln() + 1.0 / (12.0 * k)
}

/// Exact below 2^53.
#[allow(clippy::cast_precision_loss)]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traits(n: u32) -> Traits {
        Traits {
            rack: Rack(n / 28),
            role: if n % 28 < 18 { "cs" } else { "ss" }.to_owned(),
            machine_type: format!("type{}", n % 2),
            version: Some(format!("v{}", n % 28 / 14)),
            power_domain: Some(format!("pdu{}", n / 56)),
        }
    }

    fn failure(n: u32, minutes: u64) -> Failure {
        Failure {
            serial: Serial::new(format!("m{n:05}")).expect("a serial"),
            address: Some(Ipv4Addr::from(n)),
            state: HealthState::Unreachable,
            age: Duration::from_secs(60 * minutes),
            traits: traits(n),
            opinion: SecondOpinion::default(),
            broken_before: Duration::ZERO,
            hands_off: None,
        }
    }

    /// 100 racks of 28.
    fn census() -> Census {
        let all: Vec<Traits> = (0..2_800).map(traits).collect();
        Census::of(&all)
    }

    fn groups(failures: &[Failure]) -> Vec<String> {
        let failures: Vec<&Failure> = failures.iter().collect();
        correlated(&failures, &census(), &GuardRules::default()).iter().map(|found| found.group.to_string()).collect()
    }

    #[test]
    fn what_failed_together_is_found_and_nothing_else() {
        let rack = |rack: u32| (rack * 28..(rack + 1) * 28).map(|n| failure(n, 3)).collect::<Vec<_>>();
        assert_eq!(groups(&rack(7)), ["rack 7"]);
        assert_eq!(groups(&rack(7)[..3]), ["rack 7"], "three of one rack at once");
        assert!(groups(&rack(7)[..2]).is_empty(), "two are not enough to tell");
        // Both racks of a power domain.
        assert_eq!(groups(&[rack(6), rack(7)].concat()), ["power-domain pdu3"]);
        // Two racks that share nothing else.
        let mut two = groups(&[rack(7), rack(40)].concat());
        two.sort();
        assert_eq!(two, ["rack 40", "rack 7"]);
        // Every second machine of everything: its type.
        let batch: Vec<Failure> = (0..40).map(|n| failure(n * 70 + 1, 60)).collect();
        assert!(batch.iter().all(|failure| failure.traits.machine_type == "type1"));
        assert_eq!(groups(&batch), ["machine-type type1"]);
        // A monitor that went blind, and one that is half blind.
        for every in [20, 2] {
            let blind: Vec<Failure> = (0..2_800).filter(|n| n * 31 % 97 % every != 0).map(|n| failure(n, 10)).collect();
            assert_eq!(groups(&blind), ["the whole fleet"]);
        }
    }

    #[test]
    fn machines_that_break_one_by_one_are_no_group() {
        // One per cent a day of 2,800 machines: 28 a day, spread over racks.
        let day: Vec<Failure> = (0..28).map(|n| failure(n * 100 + n * 7 % 28, u64::from(n) * 51)).collect();
        assert!(groups(&day).is_empty());
        // Two in a quarter of an hour.
        assert!(groups(&[failure(3, 2), failure(900, 9)]).is_empty());
    }

    #[test]
    fn a_failure_belongs_to_one_group_only() {
        let failures: Vec<Failure> = (196..224).chain(300..303).map(|n| failure(n, 3)).collect();
        let failures: Vec<&Failure> = failures.iter().collect();
        let found = correlated(&failures, &census(), &GuardRules::default());
        let members: usize = found.iter().map(|found| found.members.len()).sum();
        let all: BTreeSet<&Serial> = found.iter().flat_map(|found| &found.members).collect();
        assert_eq!(members, all.len());
        assert_eq!(found[0].group.to_string(), "rack 7");
        let text = found[0].to_string();
        assert!(text.starts_with("28 of 28 machines of rack 7 failed within 15 minutes; by chance"), "{text}");
    }

    #[test]
    fn the_tail_is_that_of_poisson() {
        // Known values: P(X >= 3; 1) = 0.0803014, P(X >= 10; 2) = 4.64981e-5, P(X >= 1; 0.01) = 0.00995017.
        for (k, expected, chance) in [(3, 1.0, 0.080_301_4_f64), (10, 2.0, 4.649_81e-5), (1, 0.01, 0.009_950_17)] {
            let difference = ln_tail(k, expected) - chance.ln();
            assert!(difference.abs() < 1e-4, "{k} {expected}: {difference}");
        }
        assert_eq!(ln_tail(2, 5.0), 0.0);
        assert_eq!(ln_tail(1, 0.0), f64::NEG_INFINITY);
        assert!(ln_tail(2_660, 0.29) < -10_000.0);
        for k in 15..30 {
            let (small, large) = (ln_factorial(f64::from(k)), (1..=k).map(|n| f64::from(n).ln()).sum::<f64>());
            assert!((small - large).abs() < 1e-6, "{k}");
        }
    }

    #[test]
    fn every_name_is_read_as_it_is_written() {
        for kind in GroupKind::ALL {
            assert_eq!(GroupKind::parse(kind.as_str()), Some(kind));
        }
    }
}
