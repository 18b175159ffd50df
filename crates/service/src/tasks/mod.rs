//! Background work. A task wakes, re-reads what it needs and takes the next step from there.

pub mod allocator;
pub mod applier;
pub mod compactor;
pub mod conductor;
pub mod inspector;
mod leader;
mod lease;
pub mod planner;
pub mod repairer;
pub mod retention;
