//! No state without a way out (G6): what is busy or waits comes to rest by itself, and what only a person can end, a person can.

use sabakan_domain::provision::{builtin, node::Node, states::Kind, verbs::Verb};

use super::{
    super::{
        claims::{at_rest, current},
        clients::{Action, Went, ways},
        world::Hand,
    },
    Explorer,
};

/// Far more than any operation has steps, each with every attempt.
const TURNS_MAX: usize = 200;

impl Explorer {
    /// G6: work comes to rest by itself, when all goes well and when nobody answers any more; and what only a person ends, a person
    /// can end.
    pub(super) fn check_ways_out(&mut self, at: usize) -> Result<(), String> {
        for (policy, well) in [(0, true), (1, false)] {
            let (mut here, mut passed) = (at, Vec::new());
            while !self.settles[policy].contains(&here) && !at_rest(&self.worlds[here].1) {
                passed.push(here);
                let how = if well { "although all goes well" } else { "when nobody answers" };
                if passed.len() > TURNS_MAX {
                    return Err(format!("G6: it never comes to rest, {how}: {}", self.describe(here)));
                }
                here = self.go_on(here, well)?.ok_or_else(|| format!("G6: stuck, {how}: {}", self.describe(here)))?;
            }
            self.settles[policy].extend(passed);
        }
        let (world, seen) = &self.worlds[at];
        let waits = matches!(seen.node.state.kind(), Kind::Waiting | Kind::Holding) && !seen.locked;
        if waits && self.clients.run(world, Action::Ask(Verb::Abort), false).noted.txn.is_none() {
            return Err(format!("G6: nobody can stop {}", seen.node.state));
        }
        Ok(())
    }

    /// What happens next when no caller does anything. All goes well: steps end, ramdisks call. Nobody answers: every worker dies in
    /// its step, and the clock runs.
    pub(super) fn go_on(&mut self, at: usize, well: bool) -> Result<Option<usize>, String> {
        let (world, seen) = self.worlds[at].clone();
        let tries = match world.hand {
            Hand::Nobody if well => vec![Action::Take { late: false }, Action::Called, Action::TaskEnded],
            Hand::Nobody => vec![Action::Take { late: false }, Action::Take { late: true }],
            Hand::Record if well => vec![Action::Write(Went::NoStep)],
            Hand::Record => vec![Action::Write(Went::NoStepTooLate)],
            Hand::Run if !well => return Ok(Some(self.lose_lease(at))),
            Hand::Run if current(&seen.node, builtin::ERASE_KEYS) => vec![Action::EraseStep, Action::Write(Went::Well)],
            Hand::Run => vec![Action::Write(goes_well(&seen.node))],
            Hand::Erased => vec![Action::Write(Went::Well)],
        };
        for action in tries {
            let ran = self.clients.run(&world, action, action.holds_lock());
            if let Some(txn) = ran.noted.txn {
                return Ok(Some(self.commit(at, action, &txn, ran.first)?.world));
            }
        }
        Ok(None)
    }
}

/// A step that can end does; one that cannot yet waits first.
fn goes_well(node: &Node) -> Went {
    let ways = ways(node);
    if ways.contains(&Went::Well) { Went::Well } else { ways[0] }
}
