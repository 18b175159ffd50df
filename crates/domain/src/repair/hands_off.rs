//! Machines that automation leaves alone, because somebody else is at work: a person, or provisioning.

use std::fmt;

use crate::provision::{node::Node, states::State};

/// Why automation leaves a machine alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandsOff {
    /// A person, or provisioning after a failure, put its node into maintenance; and why.
    Maintenance(String),
    /// Provisioning works on it, or somebody does in its rescue system. What was reported before says nothing about it, and a power cycle
    /// in the middle of that may break it.
    Provisioning(State),
}

impl HandsOff {
    /// Whether and why a node is left alone.
    ///
    /// A power change that is under way does not count: repair asks for those itself, and nobody's is taken over by another.
    pub fn of(node: &Node) -> Option<HandsOff> {
        if let Some(maintenance) = &node.maintenance {
            let reason = maintenance.reason.clone();
            return Some(HandsOff::Maintenance(reason.unwrap_or_else(|| "no reason was given".to_owned())));
        }
        let at_work = node.state.may_restart() || node.state == State::Rescue;
        at_work.then_some(HandsOff::Provisioning(node.state))
    }
}

impl fmt::Display for HandsOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandsOff::Maintenance(reason) => {
                write!(f, "its node is in maintenance, and automation leaves it alone: {reason}")
            }
            HandsOff::Provisioning(state) => {
                write!(f, "provisioning is at work on it, and automation leaves it alone: its node is in state {state}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provision::{fixtures::Desk, node::Maintenance};

    #[test]
    fn who_is_left_alone() {
        let node = |state| Desk::at(state).node;
        for state in State::ALL {
            let rests = matches!(
                state,
                State::Enroll
                    | State::VerifyFailed
                    | State::Manageable
                    | State::InspectFailed
                    | State::CleanFailed
                    | State::Available
                    | State::DeployFailed
                    | State::Active
                    | State::Error
                    | State::RescueFailed
                    | State::UnrescueFailed
                    | State::AdoptFailed
                    | State::ServiceFailed
            );
            assert_eq!(HandsOff::of(&node(state)), (!rests).then_some(HandsOff::Provisioning(state)), "{state}");
        }
        let kept = |reason: Option<&str>| {
            let maintenance = Some(Maintenance { reason: reason.map(str::to_owned), fault: None });
            HandsOff::of(&Node { maintenance, ..node(State::Cleaning) })
        };
        assert_eq!(kept(Some("disk swap")), Some(HandsOff::Maintenance("disk swap".to_owned())));
        assert!(kept(None).is_some_and(|kept| kept.to_string().ends_with("no reason was given")));
    }
}
