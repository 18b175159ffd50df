//! Why every machine is where it is after a round, and what else is to be said about it. Looks at what [`super::plan`] did and decides
//! nothing.

use std::{collections::BTreeMap, net::IpAddr};

use super::{
    report::{ChangeKind, Place, Purpose, Report, Selection, Source, Standing, Totals, Warning, Why},
    score::Score,
    working::{Known, Working},
};
use crate::words::Serial;

/// Why the round is what it is. A blocked one changes nothing, so everybody is back where they were.
pub fn report(working: &mut Working<'_>, blocked: bool) -> Report {
    let standings = standings(working, blocked);
    if blocked {
        working.give_up();
    } else {
        let cautioned = cautioned_chosen(&working.selections);
        working.warnings.extend(cautioned);
    }
    let mut workers: BTreeMap<String, usize> = BTreeMap::new();
    for machine in working.seated_workers() {
        *workers.entry(working.machines[machine].machine.role.to_string()).or_insert(0) += 1;
    }
    let totals = Totals {
        machines: working.input.machines.len(),
        control_planes: working.control_planes,
        workers,
        healthy_workers: working.healthy_workers,
        unused: working.unused(),
    };
    Report {
        checked: std::mem::take(&mut working.checked),
        selections: std::mem::take(&mut working.selections),
        standings,
        warnings: std::mem::take(&mut working.warnings),
        totals,
    }
}

/// A warning for each reason for caution that could not be heeded, in the order of the choices.
fn cautioned_chosen(selections: &[Selection]) -> Vec<Warning> {
    let mut reasons: Vec<(Purpose, &str)> = Vec::new();
    let mut chosen: BTreeMap<(Purpose, &str), Vec<Serial>> = BTreeMap::new();
    for selection in selections {
        let Some(candidate) = &selection.chosen else { continue };
        let Some(caution) = &candidate.caution else { continue };
        let reason = (selection.purpose, caution.as_str());
        let serials = chosen.entry(reason).or_default();
        if serials.is_empty() {
            reasons.push(reason);
        }
        serials.push(candidate.serial.clone());
    }
    let warning = |reason @ (purpose, caution): (Purpose, &str)| Warning::CautionedChosen {
        purpose,
        serials: chosen.get(&reason).cloned().unwrap_or_default(),
        caution: caution.to_owned(),
    };
    reasons.into_iter().map(warning).collect()
}

/// Why every machine is where it is, by serial.
fn standings(working: &Working<'_>, blocked: bool) -> Vec<Standing> {
    let asked = Asked::of(working, blocked);
    let mut all: Vec<Standing> =
        (0..working.machines.len()).map(|machine| standing(working, &asked, machine)).collect();
    for (machine, other) in &working.left_out {
        let why = match other {
            None => Why::NoAddress,
            Some(other) => Why::SameAddress(other.clone()),
        };
        all.push(Standing {
            serial: machine.serial.clone(),
            address: machine.address,
            place: Place::Outside,
            not_control_plane: Some(why.clone()),
            not_worker: Some(why),
            caution: working.input.cautions.get(&machine.serial).cloned(),
        });
    }
    all.sort_by(|a, b| a.serial.cmp(&b.serial));
    all
}

/// What was looked for in this round, and what was chosen last for each purpose.
struct Asked<'a> {
    /// Choices of a control plane, in order.
    control_planes: Vec<&'a Selection>,
    /// The last choice of a worker, by role and whether it was one among cautioned machines.
    worker: BTreeMap<(Option<&'a str>, bool), &'a Selection>,
    /// The role of the last worker that was looked for, if any was.
    due: Option<Option<&'a str>>,
    left: BTreeMap<IpAddr, ChangeKind>,
    /// Nothing of what was chosen happens.
    blocked: bool,
    /// Cautioned machines waited until nobody else fitted.
    heeds_cautions: bool,
    no_control_plane: String,
    no_worker: String,
}

impl<'a> Asked<'a> {
    fn of(working: &'a Working<'_>, blocked: bool) -> Asked<'a> {
        let constraints = working.input.constraints;
        let made_for = |purpose| working.selections.iter().filter(move |selection| selection.purpose == purpose);
        let workers = || made_for(Purpose::Worker);
        let left = working.changes.iter().filter(|change| {
            matches!(
                change.kind,
                ChangeKind::SurplusControlPlaneRemoved
                    | ChangeKind::BadControlPlaneRemoved
                    | ChangeKind::RetiredWorkerRemoved
            )
        });
        let room = if constraints.has_room(working.workers) {
            String::new()
        } else {
            format!(", and there are {} workers of at most {}", working.workers, constraints.maximum_workers)
        };
        let mut asked = Asked {
            control_planes: made_for(Purpose::ControlPlane).collect(),
            worker: BTreeMap::new(),
            due: workers().next_back().map(|selection| selection.role.as_deref()),
            left: left.map(|change| (change.address, change.kind)).collect(),
            blocked,
            heeds_cautions: working.heeds_cautions(),
            no_control_plane: format!(
                "no control plane was looked for: there are {} of {}",
                working.control_planes, constraints.control_plane_count
            ),
            no_worker: format!(
                "no worker was looked for: {} workers, {} of them healthy, minimum-workers is {}{room}",
                working.workers, working.healthy_workers, constraints.minimum_workers
            ),
        };
        asked.worker = workers().map(|it| ((it.role.as_deref(), asked.is_among_cautioned(it)), it)).collect();
        asked
    }

    /// Whether a choice was one among cautioned machines, because there was no other.
    fn is_among_cautioned(&self, selection: &Selection) -> bool {
        self.heeds_cautions && selection.chosen.as_ref().is_some_and(|chosen| chosen.caution.is_some())
    }

    /// The last choice of a control plane from a source, and those after it.
    fn since_last(&self, source: Source, cautioned: bool) -> &[&'a Selection] {
        let own = |it: &&Selection| it.source == source && self.is_among_cautioned(it) == cautioned;
        let last = self.control_planes.iter().rposition(own);
        last.map_or(&[], |last| &self.control_planes[last..])
    }

    /// The last choice of a control plane from a source, whoever was looked at.
    fn last(&self, source: Source) -> Option<&'a Selection> {
        self.control_planes.iter().rfind(|selection| selection.source == source).copied()
    }

    /// Whether a cautioned machine of a source was not looked at because somebody else was found.
    fn passed_over(&self, source: Source) -> bool {
        let found = self.control_planes.iter().rfind(|selection| selection.chosen.is_some());
        found.is_some_and(|found| !self.is_among_cautioned(found)) && self.last(source).is_some()
    }
}

fn standing(working: &Working<'_>, asked: &Asked<'_>, machine: usize) -> Standing {
    let Known { machine: listed, address, caution, .. } = working.machines[machine];
    let place = if asked.blocked { working.place_before(machine) } else { working.place(machine) };
    // It was given another place, and the round could not be finished.
    let in_vain = (place != working.place(machine) && listed.is_healthy()).then_some(Why::Blocked);
    let left = asked.left.get(&IpAddr::V4(address)).filter(|_| !asked.blocked && place == Place::Outside);
    let known = left.map(|kind| Why::Left(*kind)).or(in_vain);
    let not_control_plane = (place != Place::ControlPlane)
        .then(|| known.clone().unwrap_or_else(|| why_no_control_plane(working, asked, machine)));
    let not_worker = (place == Place::Outside).then(|| known.unwrap_or_else(|| why_no_worker(working, asked, machine)));
    let (serial, caution) = (listed.serial.clone(), caution.cloned());
    Standing { serial, address: Some(address), place, not_control_plane, not_worker, caution }
}

fn why_no_control_plane(working: &Working<'_>, asked: &Asked<'_>, machine: usize) -> Why {
    let listed = working.machines[machine].machine;
    if !listed.is_healthy() {
        return Why::NotHealthy(listed.state);
    }
    let template = &working.input.template.control_plane;
    if !template.takes(listed.role.as_str()) {
        return Why::OtherRole { own: listed.role.to_string(), wanted: template.role.iter().cloned().collect() };
    }
    let taints = working.intolerable(machine);
    if !taints.is_empty() {
        return Why::Tainted(taints.into_iter().map(str::to_owned).collect());
    }
    // Among whom it was when somebody was looked for; it may have become a worker since.
    let before = working.place_before(machine);
    let source = match before {
        Place::Outside => Some(Source::Unused),
        Place::Worker => Some(Source::Workers),
        Place::ControlPlane => None,
    };
    let caution = working.heeded_caution(machine);
    let since = source.map_or(&[][..], |source| asked.since_last(source, caution.is_some()));
    if let Some(why) = outscored(working, Purpose::ControlPlane, machine, since) {
        return why;
    }
    if let Some(caution) = caution.filter(|_| source.is_some_and(|source| asked.passed_over(source))) {
        return Why::Cautioned(caution.clone());
    }
    Why::NotNeeded(not_looked_at(working, asked, before, caution.is_some()))
}

/// Why nobody like this machine was looked at when control planes were chosen.
fn not_looked_at(working: &Working<'_>, asked: &Asked<'_>, before: Place, cautioned: bool) -> String {
    let chosen = |selection: Option<&Selection>| Some(selection?.chosen.as_ref()?.serial.clone());
    let from_unused = asked.last(Source::Unused);
    // Clean workers go before unused machines that are cautioned.
    let preferred = from_unused.filter(|selection| cautioned || !asked.is_among_cautioned(selection));
    match (before, chosen(preferred), chosen(asked.last(Source::Workers))) {
        (Place::Worker, Some(serial), _) => {
            format!("unused machine {serial} became a control plane; workers are promoted only when none fits")
        }
        (Place::Outside, _, Some(serial)) => {
            format!("worker {serial} was promoted; at maximum-workers a worker and a control plane change places")
        }
        (Place::Worker, None, _) if from_unused.is_some() => {
            let minimum = working.input.constraints.minimum_workers;
            format!("no worker was promoted: there are not more of them than minimum-workers {minimum}")
        }
        _ => asked.no_control_plane.clone(),
    }
}

fn why_no_worker(working: &Working<'_>, asked: &Asked<'_>, machine: usize) -> Why {
    let Known { machine: listed, template, .. } = working.machines[machine];
    if !listed.is_healthy() {
        return Why::NotHealthy(listed.state);
    }
    let templates = &working.input.template.workers;
    let Some(template) = template else {
        let wanted = templates.iter().filter_map(|template| template.role.clone()).collect();
        return Why::OtherRole { own: listed.role.to_string(), wanted };
    };
    let role = templates[template].role.as_deref();
    let caution = working.heeded_caution(machine);
    let last = |cautioned: bool| asked.worker.get(&(role, cautioned)).copied();
    let own = last(caution.is_some());
    if let Some(why) = outscored(working, Purpose::Worker, machine, own.as_slice()) {
        return why;
    }
    let found = || last(false).is_some_and(|selection| selection.chosen.is_some());
    if let Some(caution) = caution.filter(|_| found()) {
        return Why::Cautioned(caution.clone());
    }
    match asked.due {
        Some(Some(due)) if Some(due) != role => Why::NotDue { due: due.to_owned() },
        _ => Why::NotNeeded(asked.no_worker.clone()),
    }
}

/// Who was preferred at the last choice this machine was part of, the first of these. Racks have filled up since: by the machine that was
/// chosen then, and by those of the choices after it.
fn outscored(working: &Working<'_>, purpose: Purpose, machine: usize, since: &[&Selection]) -> Option<Why> {
    let best = since.first()?.chosen.as_ref()?;
    let known = &working.machines[machine];
    let came_there =
        |selection: &&&Selection| selection.chosen.as_ref().is_some_and(|chosen| chosen.rack == known.machine.rack);
    let later = since.iter().filter(came_there).count();
    let own = Score::to_choose(working.in_rack(purpose, machine).saturating_sub(later), known.days);
    Some(Why::Outscored { by: best.serial.clone(), own, best: best.score })
}
