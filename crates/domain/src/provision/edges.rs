//! Every arrow between the states of a node: [`EDGES`] is the state machine. The reference page and its diagram are printed from it,
//! and [`transition`] only looks things up in it.

use super::{
    states::{Momentary, State},
    verbs::{Event, Verb},
};

/// What makes a node take an arrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// Somebody asks.
    Verb(Verb),
    /// The machinery reports.
    Event(Event),
}

/// Where an arrow leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Destination {
    /// Always there.
    To(State),
    /// To the stable state the node was heading for.
    Target,
}

/// What an arrow does to the state the node is heading for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Target {
    /// A stable state from now on.
    Set(State),
    /// As before.
    Keep,
    /// None: it arrived, or nobody knows.
    Clear,
}

/// One arrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// Where it begins.
    pub from: State,
    /// What makes a node take it.
    pub on: Trigger,
    /// Passed through in the same change.
    pub via: Option<Momentary>,
    /// Where it leads.
    pub to: Destination,
    /// What the node is heading for afterwards.
    pub target: Target,
    /// When it is taken, for people.
    pub text: &'static str,
}

/// No arrow begins here with that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoEdge {
    /// The verb is not accepted in this state.
    #[error("the verb {verb:?} is not accepted in the state {from:?}; accepted: {accepted}", verb = .verb.as_str(), from = .from.as_str(), accepted = accepted_text(*.from))]
    Verb {
        /// Where the node is.
        from: State,
        /// What was asked.
        verb: Verb,
    },
    /// The machinery reports what cannot happen in this state.
    #[error("the event {event:?} cannot happen in the state {from:?}", event = .event.as_str(), from = .from.as_str())]
    Event {
        /// Where the node is.
        from: State,
        /// What was reported.
        event: Event,
    },
}

/// Every arrow, grouped by where it begins.
pub const EDGES: &[Edge] = &[
    verb(
        State::Enroll,
        Verb::Manage,
        State::Verifying,
        Some(State::Manageable),
        "Address and credentials are to be proved.",
    ),
    settles(
        State::Verifying,
        Event::Done,
        Some(Momentary::Verified),
        State::Manageable,
        "The BMC answered with the power state.",
    ),
    settles(State::Verifying, Event::Fail, None, State::VerifyFailed, "The BMC did not answer, or refused."),
    settles(State::Verifying, Event::Deadline, None, State::VerifyFailed, "The proof took too long."),
    verb(State::VerifyFailed, Verb::Manage, State::Verifying, Some(State::Manageable), "Another try."),
    verb(State::Manageable, Verb::Inspect, State::Inspecting, Some(State::Manageable), "Its hardware is to be read."),
    verb(
        State::Manageable,
        Verb::Clean,
        State::Cleaning,
        Some(State::Manageable),
        "Manual cleaning: the steps the caller gave.",
    ),
    verb(
        State::Manageable,
        Verb::Provide,
        State::Cleaning,
        Some(State::Available),
        "Automated cleaning, then it is ready for use.",
    ),
    verb(State::Manageable, Verb::Adopt, State::Adopting, Some(State::Active), "It runs a workload already."),
    settles(
        State::Inspecting,
        Event::Done,
        Some(Momentary::Inspected),
        State::Manageable,
        "Its hardware is read and stored.",
    ),
    event(State::Inspecting, Event::Wait, State::InspectWait, "The ramdisk was booted."),
    event(State::Inspecting, Event::Fail, State::InspectFailed, "The driver reported an error."),
    event(State::Inspecting, Event::Deadline, State::InspectFailed, "Reading took too long."),
    event(State::InspectWait, Event::Resume, State::Inspecting, "The ramdisk reported."),
    settles(
        State::InspectWait,
        Event::Done,
        Some(Momentary::Inspected),
        State::Manageable,
        "An inspection outside ended.",
    ),
    event(State::InspectWait, Event::Fail, State::InspectFailed, "The ramdisk reported an error."),
    event(State::InspectWait, Event::Deadline, State::InspectFailed, "The ramdisk did not report in time."),
    keep(State::InspectWait, Verb::Abort, State::InspectFailed, "Somebody stopped it."),
    verb(State::InspectFailed, Verb::Inspect, State::Inspecting, Some(State::Manageable), "Another try."),
    verb(State::InspectFailed, Verb::Manage, State::Manageable, None, "Go on without."),
    event(State::Cleaning, Event::Wait, State::CleanWait, "The ramdisk boots, or a step runs by itself."),
    event(State::Cleaning, Event::Hold, State::CleanHold, "A step asked to wait for a person."),
    arrives(State::Cleaning, Event::Done, Momentary::Cleaned, "All steps are done and the machine looks as before."),
    event(State::Cleaning, Event::Fail, State::CleanFailed, "A step failed."),
    event(State::Cleaning, Event::Deadline, State::CleanFailed, "Cleaning took too long."),
    event(State::CleanWait, Event::Resume, State::Cleaning, "The ramdisk called, or the step ended."),
    event(State::CleanWait, Event::Hold, State::CleanHold, "A step asked to wait for a person."),
    event(State::CleanWait, Event::Fail, State::CleanFailed, "The step failed."),
    event(State::CleanWait, Event::Deadline, State::CleanFailed, "Nobody called in time."),
    keep(State::CleanWait, Verb::Abort, State::CleanFailed, "Somebody stopped it."),
    keep(State::CleanHold, Verb::Unhold, State::CleanWait, "Somebody lets it go on."),
    keep(State::CleanHold, Verb::Abort, State::CleanFailed, "Somebody stopped it."),
    verb(State::CleanFailed, Verb::Manage, State::Manageable, None, "Somebody looked at it."),
    verb(State::Available, Verb::Active, State::Deploying, Some(State::Active), "A workload is to run on it."),
    verb(State::Available, Verb::Manage, State::Manageable, None, "It is not to be used for now."),
    event(State::Deploying, Event::Wait, State::DeployWait, "The ramdisk boots, or a step runs by itself."),
    event(State::Deploying, Event::Hold, State::DeployHold, "A step asked to wait for a person."),
    settles(State::Deploying, Event::Done, Some(Momentary::Deployed), State::Active, "The last step is done."),
    event(State::Deploying, Event::Fail, State::DeployFailed, "A step failed."),
    event(State::Deploying, Event::Deadline, State::DeployFailed, "Deploying took too long."),
    event(State::DeployWait, Event::Resume, State::Deploying, "The ramdisk called, or the step ended."),
    event(State::DeployWait, Event::Hold, State::DeployHold, "A step asked to wait for a person."),
    event(State::DeployWait, Event::Fail, State::DeployFailed, "The step failed."),
    event(State::DeployWait, Event::Deadline, State::DeployFailed, "Nobody called in time."),
    verb(State::DeployWait, Verb::Deleted, State::Deleting, Some(State::Available), "Somebody no longer wants it."),
    keep(State::DeployWait, Verb::Abort, State::DeployFailed, "Somebody stopped it."),
    keep(State::DeployHold, Verb::Unhold, State::DeployWait, "Somebody lets it go on."),
    keep(State::DeployHold, Verb::Abort, State::DeployFailed, "Somebody stopped it."),
    verb(State::DeployFailed, Verb::Active, State::Deploying, Some(State::Active), "Another try."),
    verb(State::DeployFailed, Verb::Rebuild, State::Deploying, Some(State::Active), "Another try."),
    verb(State::DeployFailed, Verb::Deleted, State::Deleting, Some(State::Available), "Somebody gives it up."),
    verb(State::Active, Verb::Rebuild, State::Deploying, Some(State::Active), "The workload is to be put on it again."),
    verb(State::Active, Verb::Deleted, State::Deleting, Some(State::Available), "The workload is no longer wanted."),
    verb(State::Active, Verb::Rescue, State::Rescuing, Some(State::Rescue), "Somebody has to look at it from outside."),
    verb(State::Active, Verb::Service, State::Servicing, Some(State::Active), "Service steps are to run."),
    passes(
        State::Deleting,
        Event::TornDown,
        Momentary::Deleted,
        State::Cleaning,
        "Nothing of the workload's set-up is left; cleaning follows.",
    ),
    arrives(
        State::Deleting,
        Event::Done,
        Momentary::Deleted,
        "Nothing of the workload's set-up is left, and cleaning is switched off.",
    ),
    settles(State::Deleting, Event::Fail, None, State::Error, "Something could not be taken away."),
    settles(State::Deleting, Event::Deadline, None, State::Error, "Taking it away took too long."),
    verb(State::Error, Verb::Rebuild, State::Deploying, Some(State::Active), "Use it again as it was."),
    verb(State::Error, Verb::Deleted, State::Deleting, Some(State::Available), "Another try."),
    event(State::Rescuing, Event::Wait, State::RescueWait, "The ramdisk boots."),
    settles(State::Rescuing, Event::Done, Some(Momentary::Rescued), State::Rescue, "The temporary system can be used."),
    event(State::Rescuing, Event::Fail, State::RescueFailed, "It could not be booted."),
    event(State::Rescuing, Event::Deadline, State::RescueFailed, "Booting it took too long."),
    event(State::RescueWait, Event::Resume, State::Rescuing, "The ramdisk called."),
    event(State::RescueWait, Event::Fail, State::RescueFailed, "The ramdisk reported an error."),
    event(State::RescueWait, Event::Deadline, State::RescueFailed, "Nobody called in time."),
    keep(State::RescueWait, Verb::Abort, State::RescueFailed, "Somebody stopped it."),
    verb(
        State::RescueWait,
        Verb::Deleted,
        State::Deleting,
        Some(State::Available),
        "The workload is no longer wanted.",
    ),
    verb(State::Rescue, Verb::Rescue, State::Rescuing, Some(State::Rescue), "Boot the temporary system again."),
    verb(State::Rescue, Verb::Unrescue, State::Unrescuing, Some(State::Active), "Back to the workload."),
    verb(State::Rescue, Verb::Deleted, State::Deleting, Some(State::Available), "The workload is no longer wanted."),
    verb(State::RescueFailed, Verb::Rescue, State::Rescuing, Some(State::Rescue), "Another try."),
    verb(State::RescueFailed, Verb::Unrescue, State::Unrescuing, Some(State::Active), "Back to the workload."),
    verb(
        State::RescueFailed,
        Verb::Deleted,
        State::Deleting,
        Some(State::Available),
        "The workload is no longer wanted.",
    ),
    verb(State::UnrescueFailed, Verb::Rescue, State::Rescuing, Some(State::Rescue), "Another try."),
    verb(State::UnrescueFailed, Verb::Unrescue, State::Unrescuing, Some(State::Active), "Back to the workload."),
    verb(
        State::UnrescueFailed,
        Verb::Deleted,
        State::Deleting,
        Some(State::Available),
        "The workload is no longer wanted.",
    ),
    settles(State::Unrescuing, Event::Done, Some(Momentary::Unrescued), State::Active, "The workload runs again."),
    event(State::Unrescuing, Event::Fail, State::UnrescueFailed, "The workload's boot could not be put back."),
    event(State::Unrescuing, Event::Deadline, State::UnrescueFailed, "The way back took too long."),
    settles(State::Adopting, Event::Done, None, State::Active, "It is taken over as it runs."),
    event(State::Adopting, Event::Fail, State::AdoptFailed, "The BMC did not answer, or refused."),
    event(State::Adopting, Event::Deadline, State::AdoptFailed, "Taking it over took too long."),
    verb(State::AdoptFailed, Verb::Adopt, State::Adopting, Some(State::Active), "Another try."),
    verb(State::AdoptFailed, Verb::Manage, State::Manageable, None, "Go on without."),
    event(State::Servicing, Event::Wait, State::ServiceWait, "The ramdisk boots, or a step runs by itself."),
    event(State::Servicing, Event::Hold, State::ServiceHold, "A step asked to wait for a person."),
    settles(State::Servicing, Event::Done, None, State::Active, "All steps are done, the workload runs again."),
    event(State::Servicing, Event::Fail, State::ServiceFailed, "A step failed."),
    event(State::Servicing, Event::Deadline, State::ServiceFailed, "Servicing took too long."),
    event(State::ServiceWait, Event::Resume, State::Servicing, "The ramdisk called, or the step ended."),
    event(State::ServiceWait, Event::Hold, State::ServiceHold, "A step asked to wait for a person."),
    event(State::ServiceWait, Event::Fail, State::ServiceFailed, "The step failed."),
    event(State::ServiceWait, Event::Deadline, State::ServiceFailed, "Nobody called in time."),
    keep(
        State::ServiceWait,
        Verb::Abort,
        State::ServiceFailed,
        "Somebody stopped it; the workload is put back, then it is active.",
    ),
    verb(
        State::ServiceWait,
        Verb::Deleted,
        State::Deleting,
        Some(State::Available),
        "The workload is no longer wanted.",
    ),
    keep(State::ServiceHold, Verb::Unhold, State::ServiceWait, "Somebody lets it go on."),
    verb(State::ServiceHold, Verb::Service, State::Servicing, Some(State::Active), "Other service steps are to run."),
    keep(
        State::ServiceHold,
        Verb::Abort,
        State::ServiceFailed,
        "Somebody stopped it; the workload is put back, then it is active.",
    ),
    event(State::ServiceHold, Event::Fail, State::ServiceFailed, "The ramdisk reported an error."),
    verb(State::ServiceFailed, Verb::Service, State::Servicing, Some(State::Active), "Another try."),
    verb(
        State::ServiceFailed,
        Verb::Rescue,
        State::Rescuing,
        Some(State::Rescue),
        "Somebody has to look at it from outside.",
    ),
    verb(State::ServiceFailed, Verb::Abort, State::Active, None, "Go on without."),
    verb(
        State::ServiceFailed,
        Verb::Deleted,
        State::Deleting,
        Some(State::Available),
        "The workload is no longer wanted.",
    ),
    event(State::ServiceFailed, Event::Wait, State::ServiceWait, "The ramdisk called late and goes on."),
    event(State::ServiceFailed, Event::Hold, State::ServiceHold, "The ramdisk called late and a step wants a person."),
    settles(
        State::ServiceFailed,
        Event::Restored,
        None,
        State::Active,
        "The workload runs again after an aborted service.",
    ),
];

/// A caller asks; from there on the node heads for `target`.
const fn verb(from: State, verb: Verb, to: State, target: Option<State>, text: &'static str) -> Edge {
    let target = match target {
        Some(state) => Target::Set(state),
        None => Target::Clear,
    };
    Edge { from, on: Trigger::Verb(verb), via: None, to: Destination::To(to), target, text }
}

/// A caller asks; the node keeps heading where it was heading.
const fn keep(from: State, verb: Verb, to: State, text: &'static str) -> Edge {
    Edge { from, on: Trigger::Verb(verb), via: None, to: Destination::To(to), target: Target::Keep, text }
}

/// The machinery reports; the node keeps heading where it was heading.
const fn event(from: State, event: Event, to: State, text: &'static str) -> Edge {
    Edge { from, on: Trigger::Event(event), via: None, to: Destination::To(to), target: Target::Keep, text }
}

/// As [`event`], through a momentary state.
const fn passes(from: State, event: Event, via: Momentary, to: State, text: &'static str) -> Edge {
    Edge { from, on: Trigger::Event(event), via: Some(via), to: Destination::To(to), target: Target::Keep, text }
}

/// The machinery reports; the node heads nowhere any more.
const fn settles(from: State, event: Event, via: Option<Momentary>, to: State, text: &'static str) -> Edge {
    Edge { from, on: Trigger::Event(event), via, to: Destination::To(to), target: Target::Clear, text }
}

/// The machinery reports; the node is where it was heading.
const fn arrives(from: State, event: Event, via: Momentary, text: &'static str) -> Edge {
    Edge { from, on: Trigger::Event(event), via: Some(via), to: Destination::Target, target: Target::Clear, text }
}

/// The arrow to take, or why there is none.
pub fn transition(from: State, on: Trigger) -> Result<&'static Edge, NoEdge> {
    EDGES.iter().find(|edge| edge.from == from && edge.on == on).ok_or(match on {
        Trigger::Verb(verb) => NoEdge::Verb { from, verb },
        Trigger::Event(event) => NoEdge::Event { from, event },
    })
}

/// Verbs accepted in a state, in the order of the table.
pub fn accepted(from: State) -> impl Iterator<Item = Verb> {
    EDGES.iter().filter(move |edge| edge.from == from).filter_map(|edge| match edge.on {
        Trigger::Verb(verb) => Some(verb),
        Trigger::Event(_) => None,
    })
}

/// Whether a verb is accepted in a state. What else is known of the node may forbid it still.
pub fn accepts(from: State, verb: Verb) -> bool {
    accepted(from).any(|accepted| accepted == verb)
}

/// Whether a node that goes from one state to another takes a wish back: a verb leads the other way.
pub fn takes_back(from: State, to: State) -> bool {
    let leads_here = |edge: &Edge| edge.from == to && edge.to == Destination::To(from);
    EDGES.iter().any(|edge| leads_here(edge) && matches!(edge.on, Trigger::Verb(_)))
}

/// The verbs that are accepted in a state, for people.
pub fn accepted_text(from: State) -> String {
    let verbs: Vec<&str> = accepted(from).map(Verb::as_str).collect();
    if verbs.is_empty() { "none while work goes on".to_owned() } else { verbs.join(", ") }
}

impl Edge {
    /// Where it may lead: several states where it leads to the target.
    pub fn destinations(&self) -> Vec<State> {
        match self.to {
            Destination::To(state) => vec![state],
            Destination::Target => vec![State::Available, State::Manageable],
        }
    }
}

#[cfg(test)]
mod tests;
