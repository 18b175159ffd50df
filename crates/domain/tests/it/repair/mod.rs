//! Repair: stories for operators, what holds whatever happens (G8), and a week of a whole data centre.

mod limits;
mod machinery;
mod procedures;
mod scenarios;
mod story;
mod week;
