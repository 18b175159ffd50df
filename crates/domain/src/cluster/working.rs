//! The working sets of one plan: who is a control plane, who is a worker, who is left, and how new ones are chosen and seated.
//! Knows how to choose and how to fill up; [`super::plan`] knows when.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};

use super::{
    config::{Configuration, MASTER_TAINT, STATE_TAINT},
    hostname,
    input::{Input, ListedMachine},
    live_node::{CONTROL_PLANE_ROLES, KeyOwner},
    pool::{Entry, Pool, Ranked, Wanted},
    render,
    report::{
        Blocked, Candidate, Change, ChangeKind, Checked, Operation, Place, Promotion, Purpose, Ratio, Selection,
        Shortage, Source, Verdict, Warning,
    },
    score,
};
use crate::{lifecycle::HealthState, limits, machine::Rack, words::Serial};

/// A machine that can be a node.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    pub machine: &'a ListedMachine,
    pub address: Ipv4Addr,
    /// Days it has left.
    pub days: i64,
    /// The worker template with its role.
    pub template: Option<usize>,
}

/// Where a machine sits. `turn` is the order in which nodes come in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    ControlPlane {
        turn: usize,
    },
    Worker {
        turn: usize,
    },
    /// Outside the cluster, may be chosen if it is healthy.
    Unused,
    /// Outside the cluster, is not chosen in this round.
    Away,
}

impl Seat {
    fn place(self) -> Place {
        match self {
            Seat::ControlPlane { .. } => Place::ControlPlane,
            Seat::Worker { .. } => Place::Worker,
            Seat::Unused | Seat::Away => Place::Outside,
        }
    }
}

/// The working sets.
pub struct Working<'a> {
    pub input: Input<'a>,
    pub machines: Vec<Known<'a>>,
    pub changes: Vec<Change>,
    pub selections: Vec<Selection>,
    pub checked: Vec<Checked>,
    pub warnings: Vec<Warning>,
    /// Machines that cannot be nodes, each with whoever has its address.
    pub left_out: Vec<(&'a ListedMachine, Option<Serial>)>,
    pub healthy_workers: usize,
    pub workers: usize,
    pub control_planes: usize,
    by_address: BTreeMap<Ipv4Addr, usize>,
    seats: Vec<Seat>,
    /// Where everybody sat in the present configuration.
    seats_before: Vec<Seat>,
    turns: usize,
    /// Control planes by rack.
    control_plane_racks: BTreeMap<Rack, usize>,
    /// Workers with the role of each worker template, by rack.
    worker_racks: Vec<BTreeMap<Rack, usize>>,
    /// Workers with the role of each worker template.
    worker_counts: Vec<usize>,
    control_planes_to_leave: Option<Pool<'a>>,
    unused_for_control_plane: Option<Pool<'a>>,
    workers_for_control_plane: Option<Pool<'a>>,
    unused_for_worker: Vec<Option<Pool<'a>>>,
}

impl<'a> Working<'a> {
    /// Nobody is seated yet; every healthy machine is unused.
    pub fn new(input: Input<'a>) -> Working<'a> {
        let mut sorted: Vec<&ListedMachine> = input.machines.iter().collect();
        sorted.sort_by(|a, b| (a.address, &a.serial).cmp(&(b.address, &b.serial)));
        let templates = input.template.workers.len();
        let mut working = Working {
            input,
            machines: Vec::with_capacity(sorted.len()),
            changes: Vec::new(),
            selections: Vec::new(),
            checked: Vec::new(),
            warnings: Vec::new(),
            left_out: Vec::new(),
            healthy_workers: 0,
            workers: 0,
            control_planes: 0,
            by_address: BTreeMap::new(),
            seats: Vec::with_capacity(sorted.len()),
            seats_before: Vec::new(),
            turns: 0,
            control_plane_racks: BTreeMap::new(),
            worker_racks: vec![BTreeMap::new(); templates],
            worker_counts: vec![0; templates],
            control_planes_to_leave: None,
            unused_for_control_plane: None,
            workers_for_control_plane: None,
            unused_for_worker: (0..templates).map(|_| None).collect(),
        };
        for machine in sorted {
            working.admit(machine);
        }
        working.remember();
        working
    }

    /// Takes what is seated now for the present configuration.
    pub fn remember(&mut self) {
        self.seats_before.clone_from(&self.seats);
    }

    /// Everybody sits where the present configuration has them: what was tried could not be finished.
    pub fn give_up(&mut self) {
        for machine in 0..self.seats.len() {
            self.reseat(machine, self.seats_before[machine]);
        }
    }

    fn admit(&mut self, machine: &'a ListedMachine) {
        let Some(address) = machine.address else {
            self.warnings.push(Warning::NoAddress(machine.serial.clone()));
            self.left_out.push((machine, None));
            return;
        };
        if let Some(first) = self.by_address.get(&address) {
            let kept = self.machines[*first].machine.serial.clone();
            let dropped = machine.serial.clone();
            self.warnings.push(Warning::SameAddress { address, kept: kept.clone(), dropped });
            self.left_out.push((machine, Some(kept)));
            return;
        }
        let role = machine.role.as_str();
        let template = self.input.template.workers.iter().position(|template| template.takes(role));
        let days = score::days_left(machine.retire_date, self.input.now);
        self.by_address.insert(address, self.machines.len());
        self.machines.push(Known { machine, address, days, template });
        self.seats.push(if machine.is_healthy() { Seat::Unused } else { Seat::Away });
    }

    /// The machine with an address.
    pub fn find(&self, address: IpAddr) -> Option<usize> {
        match address {
            IpAddr::V4(address) => self.by_address.get(&address).copied(),
            IpAddr::V6(_) => None,
        }
    }

    /// Where a machine is.
    pub fn place(&self, machine: usize) -> Place {
        self.seats[machine].place()
    }

    /// Where a machine is in the present configuration.
    pub fn place_before(&self, machine: usize) -> Place {
        self.seats_before[machine].place()
    }

    /// Whether a machine is outside the cluster and may be chosen.
    pub fn is_unused(&self, machine: usize) -> bool {
        self.seats[machine] == Seat::Unused && self.machines[machine].machine.is_healthy()
    }

    /// Control planes, in the order of nodes.
    pub fn seated_control_planes(&self) -> Vec<usize> {
        self.seated(|seat| match seat {
            Seat::ControlPlane { turn } => Some(turn),
            _ => None,
        })
    }

    /// Workers, in the order of nodes.
    pub fn seated_workers(&self) -> Vec<usize> {
        self.seated(|seat| match seat {
            Seat::Worker { turn } => Some(turn),
            _ => None,
        })
    }

    fn seated(&self, turn: impl Fn(Seat) -> Option<usize>) -> Vec<usize> {
        let mut list: Vec<(usize, usize)> =
            self.seats.iter().enumerate().filter_map(|(machine, seat)| Some((turn(*seat)?, machine))).collect();
        list.sort_unstable();
        list.into_iter().map(|(_, machine)| machine).collect()
    }

    /// Taints of a machine's node that a control plane must not have.
    pub fn intolerable(&self, machine: usize) -> Vec<&'a str> {
        let tolerated = |key: &str| {
            KeyOwner::of(key) == KeyOwner::Kubernetes
                || [STATE_TAINT, MASTER_TAINT].contains(&key)
                // What keeps pods away from control planes must not keep control planes away.
                || CONTROL_PLANE_ROLES.contains(&key)
                || self.input.template.tolerations.contains(key)
        };
        let keys = self.input.taints.get(&IpAddr::V4(self.machines[machine].address));
        keys.into_iter().flatten().map(String::as_str).filter(|key| !tolerated(key)).collect()
    }

    /// Whether a machine could be a control plane.
    pub fn fits_control_plane(&self, machine: usize) -> bool {
        let listed = self.machines[machine].machine;
        let role = self.input.template.control_plane.takes(listed.role.as_str());
        listed.is_healthy() && role && self.intolerable(machine).is_empty()
    }

    /// How many machines of its kind are in the rack of a machine: control planes, or workers with the role of its template.
    pub fn in_rack(&self, purpose: Purpose, machine: usize) -> usize {
        let known = &self.machines[machine];
        let counts = match purpose {
            Purpose::ControlPlane | Purpose::LeaveControlPlane => Some(&self.control_plane_racks),
            Purpose::Worker => known.template.map(|template| &self.worker_racks[template]),
        };
        counts.and_then(|counts| counts.get(&known.machine.rack)).copied().unwrap_or(0)
    }

    /// Seats a machine, wherever it sat before.
    pub fn sit(&mut self, machine: usize, place: Place) {
        let turn = self.turns;
        self.turns += 1;
        self.reseat(
            machine,
            match place {
                Place::ControlPlane => Seat::ControlPlane { turn },
                Place::Worker => Seat::Worker { turn },
                Place::Outside => Seat::Unused,
            },
        );
    }

    /// Sends a machine away: it is not chosen again in this round.
    pub fn send_away(&mut self, machine: usize) {
        self.reseat(machine, Seat::Away);
    }

    fn reseat(&mut self, machine: usize, seat: Seat) {
        let before = std::mem::replace(&mut self.seats[machine], seat);
        self.count(machine, before, false);
        self.count(machine, seat, true);
    }

    fn count(&mut self, machine: usize, seat: Seat, arrives: bool) {
        let step = |count: &mut usize| if arrives { *count += 1 } else { *count -= 1 };
        let Known { machine: listed, template, .. } = self.machines[machine];
        let rack = listed.rack;
        match seat {
            Seat::Unused | Seat::Away => {}
            Seat::ControlPlane { .. } => {
                step(&mut self.control_planes);
                let count = self.control_plane_racks.entry(rack).or_insert(0);
                step(count);
                let pools = [
                    &mut self.control_planes_to_leave,
                    &mut self.unused_for_control_plane,
                    &mut self.workers_for_control_plane,
                ];
                pools.into_iter().flatten().for_each(|pool| pool.recount(rack, *count));
            }
            Seat::Worker { .. } => {
                step(&mut self.workers);
                if listed.is_healthy() {
                    step(&mut self.healthy_workers);
                }
                if let Some(template) = template {
                    step(&mut self.worker_counts[template]);
                    let count = self.worker_racks[template].entry(rack).or_insert(0);
                    step(count);
                    if let Some(pool) = &mut self.unused_for_worker[template] {
                        pool.recount(rack, *count);
                    }
                }
            }
        }
    }

    /// The worker template that is due, and the shares it was chosen by.
    pub fn due(&self) -> (usize, Vec<Ratio>) {
        let templates = &self.input.template.workers;
        if templates.len() == 1 {
            return (0, Vec::new());
        }
        let shares = templates.iter().zip(&self.worker_counts);
        let ratios: Vec<Ratio> = shares
            .map(|(template, count)| Ratio { role: template.role.clone(), count: *count, weight: template.weight })
            .collect();
        let smallest = ratios.iter().enumerate().min_by(|(_, a), (_, b)| a.value().total_cmp(&b.value()));
        (smallest.map_or(0, |(number, _)| number), ratios)
    }

    /// Chooses a worker among unused machines. Nobody is seated.
    pub fn choose_worker(&mut self) -> (Option<usize>, Selection) {
        let (template, ratios) = self.due();
        if self.unused_for_worker[template].is_none() {
            let fits = |working: &Working<'a>, machine: usize| {
                working.is_unused(machine) && working.machines[machine].template == Some(template)
            };
            let pool = self.pool(Wanted::Highest, fits, &self.worker_racks[template].clone());
            self.unused_for_worker[template] = Some(pool);
        }
        let seats = &self.seats;
        let leaders = match &mut self.unused_for_worker[template] {
            Some(pool) => pool.leaders(limits::RUNNERS_UP_SHOWN, |machine| seats[machine] != Seat::Unused),
            None => Vec::new(),
        };
        let role = self.input.template.workers[template].role.clone();
        self.selection(Purpose::Worker, Source::Unused, role, ratios, &leaders)
    }

    /// Chooses a control plane among unused machines or among workers. Nobody is seated.
    pub fn choose_control_plane(&mut self, source: Source) -> (Option<usize>, Selection) {
        let from = |seat: Seat| match source {
            Source::Unused => seat == Seat::Unused,
            Source::Workers => matches!(seat, Seat::Worker { .. }),
            Source::ControlPlanes => matches!(seat, Seat::ControlPlane { .. }),
        };
        let pool = match source {
            Source::Unused => self.unused_for_control_plane.take(),
            _ => self.workers_for_control_plane.take(),
        };
        let fits =
            |working: &Working<'a>, machine: usize| from(working.seats[machine]) && working.fits_control_plane(machine);
        let mut pool = pool.unwrap_or_else(|| self.pool(Wanted::Highest, fits, &self.control_plane_racks));
        let leaders = pool.leaders(limits::RUNNERS_UP_SHOWN, |machine| !from(self.seats[machine]));
        match source {
            Source::Unused => self.unused_for_control_plane = Some(pool),
            _ => self.workers_for_control_plane = Some(pool),
        }
        let role = self.input.template.control_plane.role.clone();
        self.selection(Purpose::ControlPlane, source, role, Vec::new(), &leaders)
    }

    /// Chooses the control plane that is to leave.
    pub fn choose_to_leave(&mut self) -> (Option<usize>, Selection) {
        let seated = |working: &Working<'a>, machine: usize| working.place(machine) == Place::ControlPlane;
        let pool = self.control_planes_to_leave.take();
        let mut pool = pool.unwrap_or_else(|| self.pool(Wanted::Lowest, seated, &self.control_plane_racks));
        let leaders = pool.leaders(limits::RUNNERS_UP_SHOWN, |machine| !seated(self, machine));
        self.control_planes_to_leave = Some(pool);
        self.selection(Purpose::LeaveControlPlane, Source::ControlPlanes, None, Vec::new(), &leaders)
    }

    fn pool(
        &self,
        wanted: Wanted,
        fits: impl Fn(&Working<'a>, usize) -> bool,
        counts: &BTreeMap<Rack, usize>,
    ) -> Pool<'a> {
        let entry = |machine: usize| {
            let Known { machine: listed, address, days, .. } = self.machines[machine];
            Entry {
                machine,
                rack: listed.rack,
                index_in_rack: listed.index_in_rack,
                address,
                serial: &listed.serial,
                days,
                healthy: (wanted == Wanted::Lowest).then(|| listed.is_healthy()),
            }
        };
        let entries = (0..self.machines.len()).filter(|machine| fits(self, *machine)).map(entry).collect();
        Pool::new(wanted, entries, counts)
    }

    fn selection(
        &self,
        purpose: Purpose,
        source: Source,
        role: Option<String>,
        ratios: Vec<Ratio>,
        leaders: &[Ranked],
    ) -> (Option<usize>, Selection) {
        let candidate = |ranked: &Ranked| {
            let Known { machine, address, .. } = self.machines[ranked.machine];
            Candidate { serial: machine.serial.clone(), address, rack: machine.rack, score: ranked.score }
        };
        let mut candidates = leaders.iter().map(candidate);
        let chosen = candidates.next();
        let others = candidates.collect();
        (leaders.first().map(|first| first.machine), Selection { purpose, source, role, ratios, chosen, others })
    }

    /// Writes down what happens to a machine's node.
    pub fn note(&mut self, kind: ChangeKind, machine: usize, why: impl Into<String>) {
        let Known { machine, address, .. } = self.machines[machine];
        let serial = Some(machine.serial.clone());
        self.changes.push(Change { kind, address: IpAddr::V4(address), serial, why: why.into() });
    }

    /// Writes down what became of a rule.
    pub fn check(&mut self, operation: Operation, verdict: Verdict, because: impl Into<String>) {
        self.checked.push(Checked { operation, verdict, because: because.into() });
    }

    /// Adds what is missing and renders the configuration: all of it or nothing.
    pub fn fill(&mut self, operation: Operation) -> Result<Configuration, Blocked> {
        let want = self.input.constraints.control_plane_count;
        while self.control_planes < want as usize {
            self.add_control_plane(operation)?;
        }
        let want = self.input.constraints.minimum_workers;
        while self.workers < want as usize {
            let why = format!("{} of at least {want} workers", self.workers);
            if !self.add_worker(why) {
                let shortage = self.shortage(Purpose::Worker, self.workers, want, None);
                return Err(Blocked::NoMachine { operation, shortage });
            }
        }
        self.render()
    }

    fn add_control_plane(&mut self, operation: Operation) -> Result<(), Blocked> {
        let (have, want) = (self.control_planes, self.input.constraints.control_plane_count);
        let why = format!("{have} of {want} control planes");
        let (chosen, selection) = self.choose_control_plane(Source::Unused);
        self.selections.push(selection);
        if let Some(machine) = chosen {
            self.note(ChangeKind::ControlPlaneAdded, machine, why);
            self.sit(machine, Place::ControlPlane);
            return Ok(());
        }
        let minimum = self.input.constraints.minimum_workers;
        let promotion = if self.workers > minimum as usize {
            let (chosen, selection) = self.choose_control_plane(Source::Workers);
            self.selections.push(selection);
            if let Some(machine) = chosen {
                self.note(ChangeKind::WorkerPromoted, machine, format!("{why}, and no unused machine fits"));
                self.sit(machine, Place::ControlPlane);
                return Ok(());
            }
            Promotion::NoneFits
        } else {
            Promotion::AtMinimum { workers: self.workers, minimum }
        };
        let shortage = self.shortage(Purpose::ControlPlane, have, want, Some(promotion));
        Err(Blocked::NoMachine { operation, shortage })
    }

    /// Makes an unused machine a worker; `false`: none can be.
    pub fn add_worker(&mut self, why: String) -> bool {
        let (chosen, selection) = self.choose_worker();
        self.selections.push(selection);
        if let Some(machine) = chosen {
            self.note(ChangeKind::WorkerAdded, machine, why);
            self.sit(machine, Place::Worker);
        }
        chosen.is_some()
    }

    fn shortage(&self, purpose: Purpose, have: usize, want: u32, promotion: Option<Promotion>) -> Shortage {
        let template = match purpose {
            Purpose::Worker => &self.input.template.workers[self.due().0],
            Purpose::ControlPlane | Purpose::LeaveControlPlane => &self.input.template.control_plane,
        };
        let outside = (0..self.machines.len()).filter(|machine| self.place(*machine) == Place::Outside);
        let mut shortage = Shortage {
            purpose,
            role: template.role.clone(),
            have,
            want,
            not_healthy: 0,
            other_role: 0,
            tainted: 0,
            promotion,
        };
        for machine in outside {
            let listed = self.machines[machine].machine;
            match (template.takes(listed.role.as_str()), listed.is_healthy()) {
                (true, false) => shortage.not_healthy += 1,
                (false, true) => shortage.other_role += 1,
                (true, true) if purpose != Purpose::Worker => shortage.tainted += 1,
                (true, true) | (false, false) => {}
            }
        }
        shortage
    }

    fn render(&self) -> Result<Configuration, Blocked> {
        let template = self.input.template;
        let mut nodes = Vec::with_capacity(self.control_planes + self.workers);
        for machine in self.seated_control_planes() {
            let Known { machine, address, .. } = self.machines[machine];
            nodes.push(render::node(machine, IpAddr::V4(address), &template.control_plane, true));
        }
        for machine in self.seated_workers() {
            let Known { machine, address, template: own, .. } = self.machines[machine];
            let address = IpAddr::V4(address);
            // The only template is for every worker, whatever its role.
            let template = match (template.workers.as_slice(), own) {
                ([only], _) => only,
                (many, Some(own)) => &many[own],
                (_, None) => {
                    let role = machine.role.to_string();
                    return Err(Blocked::NoTemplate { address, serial: machine.serial.clone(), role });
                }
            };
            nodes.push(render::node(machine, address, template, false));
        }
        let configuration = Configuration { nodes, rest: template.rest.clone() };
        let mut problems = configuration.check();
        let seated = self.seated_control_planes().into_iter().chain(self.seated_workers());
        let seated = seated.map(|machine| self.machines[machine].machine);
        problems.extend(hostname::check(&seated.zip(&configuration.nodes).collect::<Vec<_>>()));
        if problems.is_empty() { Ok(configuration) } else { Err(Blocked::Invalid { problems }) }
    }

    /// Healthy machines outside the cluster.
    pub fn unused(&self) -> usize {
        let counts =
            |machine: &usize| self.place(*machine) == Place::Outside && self.machines[*machine].machine.is_healthy();
        (0..self.machines.len()).filter(counts).count()
    }

    /// Whether a control plane has to be replaced, and why.
    pub fn is_bad(&self, machine: usize) -> Option<String> {
        let state = self.machines[machine].machine.state;
        let works = matches!(state, HealthState::Healthy | HealthState::Updating | HealthState::Uninitialized);
        if !works {
            return Some(format!("its machine is {state}"));
        }
        let taints = self.intolerable(machine);
        (!taints.is_empty()).then(|| format!("it is tainted with {}", taints.join(", ")))
    }
}
