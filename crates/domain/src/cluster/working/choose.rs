//! Choosing: who is the best of those that may be, and who was passed over for the sake of caution. Nobody is seated here.

use super::{
    super::{
        pool::{Entry, Pool, Ranked, Wanted},
        report::{Candidate, Purpose, Ratio, Selection, Source},
    },
    Known, Seat, Working,
};
use crate::{limits, machine::Rack};

/// Which machines are looked at in one go. Where cautions are not heeded, everybody is clean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Among {
    /// Those that nothing speaks against.
    Clean,
    /// Those that wait until nobody else fits.
    Cautioned,
}

impl Among {
    /// In the order in which they are looked at.
    pub const ALL: [Among; 2] = [Among::Clean, Among::Cautioned];
}

/// Machines to choose from for one purpose.
#[derive(Debug, Clone, Copy)]
enum Slot {
    Leave,
    ControlPlane(Source, Among),
    /// By worker template.
    Worker(usize, Among),
}

/// A pool for those that are clean and one for those that are not.
type Pair<'a> = [Option<Pool<'a>>; 2];

/// Machines to choose from, each pool filled when it is first needed.
#[derive(Debug)]
pub struct Pools<'a> {
    leave: Option<Pool<'a>>,
    unused_for_control_plane: Pair<'a>,
    workers_for_control_plane: Pair<'a>,
    /// By worker template.
    unused_for_worker: Vec<Pair<'a>>,
}

impl<'a> Pools<'a> {
    pub fn new(templates: usize) -> Pools<'a> {
        Pools {
            leave: None,
            unused_for_control_plane: [None, None],
            workers_for_control_plane: [None, None],
            unused_for_worker: (0..templates).map(|_| [None, None]).collect(),
        }
    }

    /// Another number of control planes is in the rack now.
    pub fn recount_control_planes(&mut self, rack: Rack, count: usize) {
        let pairs = self.unused_for_control_plane.iter_mut().chain(&mut self.workers_for_control_plane);
        pairs.chain([&mut self.leave]).flatten().for_each(|pool| pool.recount(rack, count));
    }

    /// Another number of workers of a template is in the rack now.
    pub fn recount_workers(&mut self, template: usize, rack: Rack, count: usize) {
        self.unused_for_worker[template].iter_mut().flatten().for_each(|pool| pool.recount(rack, count));
    }

    fn slot(&mut self, slot: Slot) -> &mut Option<Pool<'a>> {
        match slot {
            Slot::Leave => &mut self.leave,
            Slot::ControlPlane(Source::Unused, among) => &mut self.unused_for_control_plane[among as usize],
            Slot::ControlPlane(_, among) => &mut self.workers_for_control_plane[among as usize],
            Slot::Worker(template, among) => &mut self.unused_for_worker[template][among as usize],
        }
    }
}

impl<'a> Working<'a> {
    /// Chooses a worker among unused machines, a cautioned one only if no other has the role that is due.
    pub fn choose_worker(&mut self) -> (Option<usize>, Selection) {
        let (template, ratios) = self.due();
        let mut leaders = self.leaders(Slot::Worker(template, Among::Clean), limits::RUNNERS_UP_SHOWN);
        let mut passed_over = self.passed_over(Slot::Worker(template, Among::Cautioned), &leaders);
        if leaders.is_empty() && passed_over.take().is_some() {
            leaders = self.leaders(Slot::Worker(template, Among::Cautioned), limits::RUNNERS_UP_SHOWN);
        }
        let role = self.input.template.workers[template].role.clone();
        let (chosen, selection) = self.selection(Purpose::Worker, Source::Unused, &leaders, passed_over.as_ref());
        (chosen, Selection { role, ratios, ..selection })
    }

    /// Chooses a control plane among unused machines or among workers.
    pub fn choose_control_plane(&mut self, source: Source, among: Among) -> (Option<usize>, Selection) {
        let leaders = self.leaders(Slot::ControlPlane(source, among), limits::RUNNERS_UP_SHOWN);
        let passed_over = match among {
            Among::Clean => self.passed_over(Slot::ControlPlane(source, Among::Cautioned), &leaders),
            Among::Cautioned => None,
        };
        let role = self.input.template.control_plane.role.clone();
        let (chosen, selection) = self.selection(Purpose::ControlPlane, source, &leaders, passed_over.as_ref());
        (chosen, Selection { role, ..selection })
    }

    /// The same, and it is written down. That no cautioned machine fits either says nothing new, and is not.
    pub fn look_for_control_plane(&mut self, source: Source, among: Among) -> Option<usize> {
        let (chosen, selection) = self.choose_control_plane(source, among);
        if chosen.is_some() || among == Among::Clean {
            self.selections.push(selection);
        }
        chosen
    }

    /// Chooses the control plane that is to leave.
    pub fn choose_to_leave(&mut self) -> (Option<usize>, Selection) {
        let leaders = self.leaders(Slot::Leave, limits::RUNNERS_UP_SHOWN);
        self.selection(Purpose::LeaveControlPlane, Source::ControlPlanes, &leaders, None)
    }

    /// The wanted machine of a pool first, then those that come next.
    fn leaders(&mut self, slot: Slot, more: usize) -> Vec<Ranked> {
        let cautioned = matches!(slot, Slot::ControlPlane(_, Among::Cautioned) | Slot::Worker(_, Among::Cautioned));
        if cautioned && !self.heeds_cautions {
            return Vec::new();
        }
        let pool = self.pools.slot(slot).take();
        let mut pool = pool.unwrap_or_else(|| self.pool(slot));
        let leaders = pool.leaders(more, |machine| !slot.seats(self.seats[machine]));
        *self.pools.slot(slot) = Some(pool);
        leaders
    }

    /// Who would have been chosen before the first of these but for caution.
    fn passed_over(&mut self, cautioned: Slot, leaders: &[Ranked]) -> Option<Ranked> {
        let best = self.leaders(cautioned, 0).first().copied()?;
        let order = |ranked: &Ranked| {
            let Known { machine, address, .. } = self.machines[ranked.machine];
            (-ranked.score.total(), machine.rack, machine.index_in_rack, address, &machine.serial)
        };
        leaders.first().is_none_or(|chosen| order(&best) < order(chosen)).then_some(best)
    }

    fn fits(&self, slot: Slot, machine: usize) -> bool {
        let is_among = |among| self.heeded_caution(machine).is_some() == (among == Among::Cautioned);
        slot.seats(self.seats[machine])
            && match slot {
                Slot::Leave => true,
                Slot::ControlPlane(_, among) => is_among(among) && self.fits_control_plane(machine),
                Slot::Worker(template, among) => {
                    let Known { machine: listed, template: own, .. } = self.machines[machine];
                    own == Some(template) && listed.is_healthy() && is_among(among)
                }
            }
    }

    fn pool(&self, slot: Slot) -> Pool<'a> {
        let (wanted, counts) = match slot {
            Slot::Leave => (Wanted::Lowest, &self.control_plane_racks),
            Slot::ControlPlane(..) => (Wanted::Highest, &self.control_plane_racks),
            Slot::Worker(template, _) => (Wanted::Highest, &self.worker_racks[template]),
        };
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
        let entries = (0..self.machines.len()).filter(|machine| self.fits(slot, *machine)).map(entry).collect();
        Pool::new(wanted, entries, counts)
    }

    /// A choice without role and shares.
    fn selection(
        &self,
        purpose: Purpose,
        source: Source,
        leaders: &[Ranked],
        passed_over: Option<&Ranked>,
    ) -> (Option<usize>, Selection) {
        let candidate = |ranked: &Ranked| {
            let Known { machine, address, caution, .. } = self.machines[ranked.machine];
            // Who is to leave is not a matter of caution.
            let caution = caution.filter(|_| purpose != Purpose::LeaveControlPlane).map(ToString::to_string);
            Candidate { serial: machine.serial.clone(), address, rack: machine.rack, score: ranked.score, caution }
        };
        let mut candidates = leaders.iter().map(candidate);
        let chosen = candidates.next();
        let others = candidates.collect();
        let (role, ratios): (_, Vec<Ratio>) = (None, Vec::new());
        let passed_over = passed_over.map(candidate);
        let selection = Selection { purpose, source, role, ratios, chosen, others, passed_over };
        (leaders.first().map(|first| first.machine), selection)
    }
}

impl Slot {
    /// Whether somebody on this seat is to be chosen from.
    fn seats(self, seat: Seat) -> bool {
        match self {
            Slot::Leave | Slot::ControlPlane(Source::ControlPlanes, _) => matches!(seat, Seat::ControlPlane { .. }),
            Slot::ControlPlane(Source::Workers, _) => matches!(seat, Seat::Worker { .. }),
            Slot::ControlPlane(Source::Unused, _) | Slot::Worker(..) => seat == Seat::Unused,
        }
    }
}
