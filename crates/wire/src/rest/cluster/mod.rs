//! The Kubernetes cluster: plans and the reasons for them (`plan`), plans that were kept (`kept`), and what is told about one
//! machine, about the planner and about what somebody wrote (`about`).
//!
//! Templates and configurations are documents of their own, written in `sabakan_domain::cluster`; they pass through as they are.

mod about;
mod kept;
mod parts;
mod plan;

pub use about::{
    ClusterStatusJson, ConstraintsJson, EnabledJson, Explained, ExplanationJson, NextJson, PastJson, ProblemJson,
    RoundJson, VariablesJson, WarningsJson, constraints_from_input,
};
pub use kept::{KeptPlanJson, PlanSummaryJson};
pub use parts::{
    CandidateJson, ChangeJson, CheckedJson, PromotionJson, RatioJson, ScoreJson, SelectionJson, ShortageJson,
    TotalsJson,
};
pub use plan::{
    BlockedJson, CautionJson, MoreMachinesJson, PlanJson, RemedyJson, SimulationJson, StandingJson, WhyJson,
};

#[cfg(test)]
mod tests;
