//! The planner of the cluster: stories that operators can read, and what holds for any fleet.

mod cautions;
mod fleet;
mod order;
mod remedies;
mod reports;
mod safety;
mod scenarios;
mod slow;
mod world;
