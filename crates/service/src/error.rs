//! Why a use case did not happen, in kinds that callers act on.

use std::{error::Error, fmt::Write as _};

use sabakan_domain::{
    crypt::KeyRefusal,
    lifecycle::TransitionRefusal,
    machine::LabelsError,
    provision::{
        accept::{PowerRefusal, VerbRefusal},
        allocation::AllocationRefusal,
        chassis::ChassisRefusal,
        control::ControlRefusal,
        edit::EditRefusal,
        guards::GuardRefusal,
        port::PortRefusal,
        recipe::RecipeRefusal,
    },
    registration::RegistrationRefusal,
};
use sabakan_store::{
    StoreError,
    repo::{
        ChangeError,
        allocations::AllocationTaken,
        config::MachinesExist,
        crypts::EraseRefusal,
        machines::{RemovalRefusal, StateRefusal},
        nodes::Taken,
        ports,
    },
};

use crate::{
    cluster::Problems,
    nodes::AskRefusal,
    seal::{KeyRingError, SealError},
    token::NoRandomness,
};

/// Why a use case did not happen.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// There is no such thing.
    #[error("requested resource is not found")]
    NotFound,
    /// The request contradicts itself or asks for what can never be.
    #[error("{0}")]
    Invalid(String),
    /// A rule forbids it in the present state.
    #[error("{0}")]
    Refused(String),
    /// A machine with disk keys cannot become retired.
    #[error("encryption key exists")]
    KeysExist,
    /// The caller may not do this.
    #[error("{0}")]
    Forbidden(String),
    /// It collides with what is there.
    #[error("{0}")]
    Conflict(String),
    /// It is no longer as the caller knows it.
    #[error("{0}")]
    Stale(String),
    /// A controller did not do it.
    #[error("{0}")]
    Hardware(String),
    /// The history asked for is no longer in the store.
    #[error(
        "the changes after revision {requested} are no longer kept, the oldest to go on after is {oldest}; start again \
         without `after`"
    )]
    Gone {
        /// What was asked for.
        requested: u64,
        /// The oldest that can be asked for.
        oldest: u64,
    },
    /// More than the store takes at once.
    #[error("{0}")]
    TooLarge(String),
    /// More of one kind than the store takes at once; fewer would do.
    #[error("{text}")]
    TooManyAtOnce {
        /// For people.
        text: String,
        /// How many fit, about, and not more than that.
        fits: u64,
    },
    /// Other writers were faster every time; trying again may work.
    #[error("too many changes at once of the same racks or machines; nothing was changed, try again")]
    Busy,
    /// The server has as many long searches or answers as it takes; trying again may work.
    #[error("{0}; try again")]
    Crowded(&'static str),
    /// The store does not answer; trying again may work.
    #[error("the store is not available; nothing was changed, try again")]
    Unavailable(#[source] StoreError),
    /// The store cannot make anything durable until somebody does something about it.
    #[error("{0}")]
    StoreRefusesWrites(StoreError),
    /// The store took the change but never answered.
    #[error("{}, the change may or may not have been made; look before trying again", unconfirmed(.0))]
    OutcomeUnknown(#[source] StoreError),
    /// The older service stored the disk key without sealing it.
    #[error(transparent)]
    RawKey(SealError),
    /// A disk key cannot be sealed or opened.
    #[error("the disk key cannot be sealed or opened")]
    Sealing(#[source] SealError),
    /// The file with the keys that disk keys are sealed under cannot be used.
    #[error("the key file cannot be used")]
    KeyFile(#[from] KeyRingError),
    /// A token cannot be made.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
    /// A document that cannot be, with everything that is wrong in it.
    #[error(transparent)]
    Problems(#[from] Problems),
    /// A stored record that everything else depends on cannot be read. Says which, and what a person can do.
    #[error("{text}")]
    Damaged {
        /// For people.
        text: String,
        /// What is wrong with it.
        source: StoreError,
    },
    /// A defect of the program.
    #[error("internal error: {0}")]
    Defect(&'static str),
    /// A defect, or damaged data.
    #[error("internal error")]
    Internal(#[source] StoreError),
}

/// Why nobody knows. Only the reason of an error that is made for it is shown.
fn unconfirmed(error: &StoreError) -> String {
    match error {
        StoreError::OutcomeUnknown { reason } => format!("the store did not confirm the change ({reason})"),
        _ => "the store did not confirm the change".to_owned(),
    }
}

impl From<SealError> for ServiceError {
    fn from(error: SealError) -> ServiceError {
        match error {
            SealError::Raw => ServiceError::RawKey(error),
            SealError::UnknownKeyId { .. } | SealError::Version(_) | SealError::Damaged(_) | SealError::Random => {
                ServiceError::Sealing(error)
            }
        }
    }
}

impl From<StoreError> for ServiceError {
    fn from(error: StoreError) -> ServiceError {
        match error {
            StoreError::Conflict { .. } => ServiceError::Busy,
            StoreError::TooLarge { .. } => ServiceError::TooLarge(error.to_string()),
            StoreError::Unavailable { .. } => ServiceError::Unavailable(error),
            StoreError::CannotWrite { .. } => ServiceError::StoreRefusesWrites(error),
            StoreError::OutcomeUnknown { .. } => ServiceError::OutcomeUnknown(error),
            StoreError::Compacted { .. } | StoreError::Invalid { .. } | StoreError::Corrupt { .. } => {
                ServiceError::Internal(error)
            }
        }
    }
}

/// A refusal of a rule, as the kind its callers know.
pub(crate) trait Refusal: Error + 'static {
    fn kind(self) -> ServiceError;
}

impl Refusal for MachinesExist {
    fn kind(self) -> ServiceError {
        ServiceError::Refused(self.to_string())
    }
}

impl Refusal for RemovalRefusal {
    fn kind(self) -> ServiceError {
        ServiceError::Refused(self.to_string())
    }
}

impl Refusal for StateRefusal {
    fn kind(self) -> ServiceError {
        match self {
            StateRefusal::Transition(refusal) => refusal.kind(),
            StateRefusal::Provision(_) => ServiceError::Refused(self.to_string()),
        }
    }
}

impl Refusal for AskRefusal {
    fn kind(self) -> ServiceError {
        match self {
            AskRefusal::Verb(VerbRefusal::Guard(GuardRefusal::MaintenanceConflict(_)) | VerbRefusal::PowerPending)
            | AskRefusal::Power(
                PowerRefusal::Working(_)
                | PowerRefusal::Pending
                | PowerRefusal::MustStayOn
                | PowerRefusal::RamdiskRuns { .. },
            )
            | AskRefusal::Locked { .. } => ServiceError::Conflict(self.to_string()),
            AskRefusal::Verb(VerbRefusal::Guard(GuardRefusal::Protected { .. })) => {
                ServiceError::Forbidden(self.to_string())
            }
            AskRefusal::Verb(VerbRefusal::Unmet(_)) => ServiceError::Invalid(self.to_string()),
            AskRefusal::Verb(_) | AskRefusal::Power(PowerRefusal::Cleaning(_)) => {
                ServiceError::Refused(self.to_string())
            }
            AskRefusal::Driver(error) => error,
            AskRefusal::Invalid(reason) => ServiceError::Invalid(reason),
            AskRefusal::Control(refusal) => refusal.kind(),
            AskRefusal::Call(refusal) => ServiceError::Invalid(refusal.to_string()),
            AskRefusal::Unexpected => ServiceError::NotFound,
            AskRefusal::Edit(refusal) => refusal.kind(),
            AskRefusal::Allocation(refusal) => refusal.kind(),
            AskRefusal::Recipe(refusal) => refusal.kind(),
            AskRefusal::Port(refusal) => refusal.kind(),
            AskRefusal::Stale { .. } => ServiceError::Stale(self.to_string()),
        }
    }
}

impl Refusal for ControlRefusal {
    fn kind(self) -> ServiceError {
        let text = self.to_string();
        match self {
            ControlRefusal::Busy { .. } => ServiceError::Conflict(text),
            ControlRefusal::NoMethod(_) | ControlRefusal::Http { .. } | ControlRefusal::Parameter { .. } => {
                ServiceError::Invalid(text)
            }
        }
    }
}

impl Refusal for EditRefusal {
    fn kind(self) -> ServiceError {
        let text = self.to_string();
        match self {
            EditRefusal::Invalid { .. } | EditRefusal::Name(_) | EditRefusal::Implementation(_) => {
                ServiceError::Invalid(text)
            }
            EditRefusal::Conflict(_) => ServiceError::Conflict(text),
            EditRefusal::Protected(..) => ServiceError::Forbidden(text),
            EditRefusal::Raced => ServiceError::Busy,
        }
    }
}

impl<R: Refusal> Refusal for Taken<R> {
    fn kind(self) -> ServiceError {
        match self {
            Taken::Name(_) | Taken::Uuid(_) | Taken::Instance(..) => ServiceError::Conflict(self.to_string()),
            Taken::NoChassis(_) => ServiceError::Invalid(self.to_string()),
            Taken::Refused(refusal) => refusal.kind(),
        }
    }
}

impl<R: Refusal> Refusal for ports::Taken<R> {
    fn kind(self) -> ServiceError {
        match self {
            ports::Taken::Claimed(_) => ServiceError::Conflict(self.to_string()),
            ports::Taken::Refused(refusal) => refusal.kind(),
        }
    }
}

impl Refusal for PortRefusal {
    fn kind(self) -> ServiceError {
        match self {
            PortRefusal::Invalid(text) => ServiceError::Invalid(text),
            PortRefusal::Conflict(text) => ServiceError::Conflict(text),
        }
    }
}

impl Refusal for ChassisRefusal {
    fn kind(self) -> ServiceError {
        match self {
            ChassisRefusal::Description => ServiceError::Invalid(self.to_string()),
            ChassisRefusal::NotEmpty(_) => ServiceError::Refused(self.to_string()),
            ChassisRefusal::Taken(_) => ServiceError::Conflict(self.to_string()),
        }
    }
}

impl<R: Refusal> Refusal for AllocationTaken<R> {
    fn kind(self) -> ServiceError {
        match self {
            AllocationTaken::Name(_) | AllocationTaken::Uuid(_) | AllocationTaken::Instance(..) => {
                ServiceError::Conflict(self.to_string())
            }
            AllocationTaken::Refused(refusal) => refusal.kind(),
        }
    }
}

impl Refusal for RecipeRefusal {
    fn kind(self) -> ServiceError {
        match self {
            RecipeRefusal::NameTaken(..) | RecipeRefusal::UuidTaken(..) => ServiceError::Conflict(self.to_string()),
            RecipeRefusal::Trait(_)
            | RecipeRefusal::Name(_)
            | RecipeRefusal::Steps
            | RecipeRefusal::Interface(_)
            | RecipeRefusal::Twice(_)
            | RecipeRefusal::TooLong(..)
            | RecipeRefusal::NoTraits(_)
            | RecipeRefusal::OtherNodes { .. } => ServiceError::Invalid(self.to_string()),
        }
    }
}

impl Refusal for AllocationRefusal {
    fn kind(self) -> ServiceError {
        match self {
            AllocationRefusal::Name(_)
            | AllocationRefusal::Trait(_)
            | AllocationRefusal::TooLong(..)
            | AllocationRefusal::TooManyCandidates
            | AllocationRefusal::NoClass
            | AllocationRefusal::Mismatch { .. } => ServiceError::Invalid(self.to_string()),
            AllocationRefusal::Occupied { .. } | AllocationRefusal::InUse { .. } => {
                ServiceError::Conflict(self.to_string())
            }
        }
    }
}

impl Refusal for EraseRefusal {
    fn kind(self) -> ServiceError {
        match self {
            EraseRefusal::Key(refusal) => refusal.kind(),
            EraseRefusal::Provision(_) => ServiceError::Refused(self.to_string()),
        }
    }
}

impl Refusal for TransitionRefusal {
    fn kind(self) -> ServiceError {
        match self {
            TransitionRefusal::NoEdge { .. } => ServiceError::Refused(self.to_string()),
            TransitionRefusal::KeysExist => ServiceError::KeysExist,
        }
    }
}

impl Refusal for KeyRefusal {
    fn kind(self) -> ServiceError {
        match self {
            KeyRefusal::Leaving { .. } | KeyRefusal::NotRetiring { .. } | KeyRefusal::TooMany(_) => {
                ServiceError::Refused(self.to_string())
            }
            KeyRefusal::Exists(_) => ServiceError::Conflict(self.to_string()),
        }
    }
}

impl Refusal for LabelsError {
    fn kind(self) -> ServiceError {
        ServiceError::Invalid(self.to_string())
    }
}

impl Refusal for std::convert::Infallible {
    fn kind(self) -> ServiceError {
        match self {}
    }
}

impl Refusal for RegistrationRefusal {
    fn kind(self) -> ServiceError {
        let text = self.to_string();
        match self {
            RegistrationRefusal::DuplicateSerial(_) | RegistrationRefusal::Address(_) => ServiceError::Invalid(text),
            RegistrationRefusal::IpamNotSet
            | RegistrationRefusal::IpamUnusable(_)
            | RegistrationRefusal::RackFull { .. } => ServiceError::Refused(text),
            RegistrationRefusal::BootTaken { .. }
            | RegistrationRefusal::AddressTaken { .. }
            | RegistrationRefusal::AlreadyRegistered(_) => ServiceError::Conflict(text),
        }
    }
}

impl<R: Refusal> From<ChangeError<R>> for ServiceError {
    fn from(error: ChangeError<R>) -> ServiceError {
        match error {
            ChangeError::Refused(refusal) => refusal.kind(),
            ChangeError::NotFound => ServiceError::NotFound,
            ChangeError::Store(error) => error.into(),
        }
    }
}

/// An error and everything that caused it, on one line.
pub fn error_chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let _infallible = write!(text, ": {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_show_every_cause_once() {
        let error = ServiceError::from(StoreError::Unavailable { reason: "no member answered".into() });
        let expected = "the store is not available; nothing was changed, try again: the store is not available: no member answered";
        assert_eq!(error_chain(&error), expected);
    }
}
