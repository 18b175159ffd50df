//! Any fleet: every machine of the list stands in the report once, in its place, and what is said about it is true.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
};

use proptest::prelude::*;
use sabakan_domain::cluster::{
    config::Configuration,
    input::ListedMachine,
    plan::{Outcome, Plan},
    report::{Place, Purpose, Selection, Standing, Warning, Why},
};

use super::{fleet, slow::Choice, world::World};

/// What is known about a plan, counted independently of its report.
struct Facts<'a> {
    world: &'a World,
    plan: &'a Plan,
    choices: &'a [Choice],
}

impl Facts<'_> {
    /// The cluster after the round.
    fn after(&self) -> Option<&Configuration> {
        self.plan.outcome.made().map(|made| &made.configuration).or(self.world.current.as_ref())
    }

    fn place(&self, machine: &ListedMachine) -> Place {
        let owner = |address: Ipv4Addr| self.world.machine_at(IpAddr::V4(address)).map(|owner| &owner.serial);
        let node = self.after().into_iter().flat_map(|after| &after.nodes).find(|node| {
            machine.address.is_some_and(|own| IpAddr::V4(own) == node.address && owner(own) == Some(&machine.serial))
        });
        match node {
            Some(node) if node.control_plane => Place::ControlPlane,
            Some(_) => Place::Worker,
            None => Place::Outside,
        }
    }

    /// Whether it was among those that a choice looked at.
    fn was_candidate(&self, machine: &ListedMachine, purpose: Purpose) -> bool {
        let ranked = |choice: &Choice| choice.ranking.iter().any(|(serial, _)| *serial == machine.serial);
        self.choices.iter().any(|choice| choice.purpose == purpose && ranked(choice))
    }

    fn check(&self, machine: &ListedMachine, standing: &Standing) {
        assert_eq!(standing.address, machine.address);
        assert_eq!(standing.place, self.place(machine), "{standing:?}");
        let reasons = (standing.not_control_plane.is_some(), standing.not_worker.is_some());
        let expected = match standing.place {
            Place::ControlPlane => (false, false),
            Place::Worker => (true, false),
            Place::Outside => (true, true),
        };
        assert_eq!(reasons, expected, "{standing:?}");
        assert_eq!(standing.caution.as_ref(), self.world.cautions.get(&machine.serial));
        let said = [(&standing.not_control_plane, Purpose::ControlPlane), (&standing.not_worker, Purpose::Worker)];
        for (why, purpose) in said {
            if let Some(why) = why {
                assert!(!why.to_string().is_empty());
                self.check_why(machine, why, purpose);
            }
        }
    }

    fn check_why(&self, machine: &ListedMachine, why: &Why, purpose: Purpose) {
        let told = format!("{}: {why}", machine.serial);
        let address = machine.address.map(IpAddr::V4);
        let template = &self.world.template;
        match why {
            Why::NoAddress => assert_eq!(machine.address, None, "{told}"),
            Why::SameAddress(other) => {
                let owner = address.and_then(|address| self.world.machine_at(address));
                assert_eq!(owner.map(|owner| &owner.serial), Some(other), "{told}");
                assert_ne!(machine.serial, *other, "{told}");
            }
            Why::NotHealthy(state) => assert!(*state == machine.state && !machine.is_healthy(), "{told}"),
            Why::OtherRole { own, wanted } => {
                let wants: Vec<&str> = match purpose {
                    Purpose::Worker => template.workers.iter().filter_map(|node| node.role.as_deref()).collect(),
                    _ => template.control_plane.role.as_deref().into_iter().collect(),
                };
                assert_eq!(own, machine.role.as_str(), "{told}");
                assert_eq!(*wanted, wants, "{told}");
                assert!(!wants.is_empty() && !wants.contains(&own.as_str()), "{told}");
            }
            Why::Tainted(keys) => {
                let truth: BTreeSet<String> = self.world.intolerable(address.expect("tainted")).into_iter().collect();
                assert_eq!(keys.iter().cloned().collect::<BTreeSet<_>>(), truth, "{told}");
                assert!(!keys.is_empty() && purpose == Purpose::ControlPlane, "{told}");
            }
            Why::Cautioned(caution) => {
                assert_eq!(Some(caution), self.world.cautions.get(&machine.serial), "{told}");
                assert!(!self.was_candidate(machine, purpose), "{told}");
                let clean = |choice: &Choice| !self.world.cautions.contains_key(&choice.ranking[0].0);
                let preferred = |choice: &Choice| choice.purpose == purpose && clean(choice);
                assert!(self.choices.iter().any(preferred), "{told}\n{:?}", self.choices);
            }
            Why::NotNeeded(reason) => {
                let chosen = |selection: &Selection| selection.purpose == purpose && selection.chosen.is_some();
                let looked_for = self.plan.report.selections.iter().any(chosen);
                assert!(!(looked_for && reason.contains("was looked for")), "{told}");
                assert!(!reason.is_empty() && !self.was_candidate(machine, purpose), "{told}");
            }
            Why::NotDue { due } => {
                assert_eq!(purpose, Purpose::Worker, "{told}");
                assert_ne!(due, machine.role.as_str(), "{told}");
                assert!(!self.was_candidate(machine, purpose), "{told}");
                let was_due = |role: &Option<String>| role.as_ref() == Some(due);
                assert!(self.plan.report.selections.iter().any(|selection| was_due(&selection.role)), "{told}");
            }
            Why::Outscored { by, own, best } => {
                let same = self.choices.iter().any(|choice| {
                    choice.purpose == purpose
                        && choice.ranking.first() == Some(&(by.clone(), best.total()))
                        && choice.ranking.contains(&(machine.serial.clone(), own.total()))
                });
                assert!(same && *by != machine.serial, "{told}\n{:?}", self.choices);
            }
            Why::Blocked => {
                assert!(matches!(self.plan.outcome, Outcome::Blocked(_)), "{told}");
                let was_first = |choice: &Choice| choice.ranking.first().is_some_and(|(it, _)| *it == machine.serial);
                assert!(self.choices.iter().any(was_first), "{told}");
            }
            Why::Left(kind) => {
                let changes = self.plan.outcome.made().map(|made| made.changes.as_slice()).unwrap_or_default();
                let said = |change: &sabakan_domain::cluster::report::Change| {
                    change.kind == *kind && Some(change.address) == address
                };
                assert!(changes.iter().any(said), "{told}");
            }
        }
    }

    /// Whoever was chosen against caution is named, and nobody else.
    fn check_warnings(&self) {
        let warned = self.plan.report.warnings.iter().filter_map(|warning| match warning {
            Warning::CautionedChosen { purpose, serials, caution: _ } => Some((*purpose, serials)),
            _ => None,
        });
        let warned: BTreeSet<_> = warned.flat_map(|(purpose, all)| all.iter().map(move |it| (purpose, it))).collect();
        let chosen = self.choices.iter().filter(|choice| choice.purpose != Purpose::LeaveControlPlane);
        let chosen = chosen.map(|choice| (choice.purpose, &choice.ranking[0].0));
        let against = chosen.filter(|(_, serial)| self.world.cautions.contains_key(*serial));
        let blocked = matches!(self.plan.outcome, Outcome::Blocked(_));
        assert_eq!(warned, if blocked { BTreeSet::new() } else { against.collect() });
    }

    fn check_totals(&self) {
        let totals = &self.plan.report.totals;
        let count = |place: Place| self.world.machines.iter().filter(|machine| self.place(machine) == place).count();
        assert_eq!(totals.machines, self.world.machines.len());
        assert_eq!(totals.control_planes, count(Place::ControlPlane));
        assert_eq!(totals.workers.values().sum::<usize>(), count(Place::Worker));
        let healthy = |place: Place| {
            let counts = |machine: &&ListedMachine| machine.is_healthy() && self.place(machine) == place;
            self.world.machines.iter().filter(counts).count()
        };
        assert_eq!(totals.healthy_workers, healthy(Place::Worker));
        // Machines that cannot be addressed cannot be used.
        let usable = |machine: &&ListedMachine| {
            let owner = machine.address.and_then(|address| self.world.machine_at(IpAddr::V4(address)));
            machine.is_healthy()
                && self.place(machine) == Place::Outside
                && owner.is_some_and(|owner| owner.serial == machine.serial)
        };
        assert_eq!(totals.unused, self.world.machines.iter().filter(usable).count());
    }

    /// Every difference between the clusters is a change, and every change is a difference.
    fn check_changes(&self) {
        let Outcome::Change(made) = &self.plan.outcome else { return };
        let place = |configuration: Option<&Configuration>, address: IpAddr| {
            configuration.and_then(|it| it.nodes.iter().find(|node| node.address == address)).map(|it| it.control_plane)
        };
        let nodes = self.world.current.iter().flat_map(|current| &current.nodes).chain(&made.configuration.nodes);
        for address in nodes.map(|node| node.address).collect::<BTreeSet<_>>() {
            use sabakan_domain::cluster::report::ChangeKind::*;
            let kinds: Vec<_> = made.changes.iter().filter(|it| it.address == address).map(|it| it.kind).collect();
            let moved: Vec<_> = kinds.iter().copied().filter(|kind| *kind != TaintChanged).collect();
            let (before, after) =
                (place(self.world.current.as_ref(), address), place(Some(&made.configuration), address));
            let expected: &[_] = match (before, after) {
                (None, Some(true)) => &[ControlPlaneAdded],
                (None, Some(false)) => &[WorkerAdded],
                (Some(false), Some(true)) => &[WorkerPromoted],
                (Some(true), Some(false)) => &[ControlPlaneDemoted],
                (Some(true), None) => {
                    &[NonExistentControlPlaneRemoved, SurplusControlPlaneRemoved, BadControlPlaneRemoved]
                }
                (Some(false), None) => &[NonExistentWorkerRemoved, RetiredWorkerRemoved],
                (Some(_), Some(_)) | (None, None) => &[],
            };
            match (expected, moved.as_slice()) {
                ([], []) => {}
                (_, [one]) => assert!(expected.contains(one), "{address}: {kinds:?}"),
                _ => panic!("{address}: {before:?} -> {after:?}, told as {kinds:?}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn what_is_said_about_every_machine_is_true(world in fleet::cautious_worlds(40)) {
        let (plan, choices) = world.plan();
        let facts = Facts { world: &world, plan: &plan, choices: &choices };
        let said: Vec<_> = plan.report.standings.iter().map(|standing| standing.serial.clone()).collect();
        let listed: BTreeSet<_> = world.machines.iter().map(|machine| machine.serial.clone()).collect();
        prop_assert_eq!(said, listed.into_iter().collect::<Vec<_>>(), "everybody, once, by serial");
        for machine in &world.machines {
            facts.check(machine, plan.report.standing(&machine.serial).expect("it is there"));
        }
        facts.check_totals();
        facts.check_warnings();
        facts.check_changes();
    }
}
