//! Repair: stories for operators, what holds whatever happens (G8), and a week of a whole data centre.

mod cuts;
mod limits;
mod machinery;
mod procedures;
mod reboots;
mod scenarios;
mod story;
mod week;
