//! The vocabulary and the rules of sabakan. Pure: values in, decisions out. Nothing here reads a clock, a socket, a file or a
//! random source, and nothing logs; services gather the facts, ask a rule here, and carry out what it said.
//!
//! A value made with the constructor of its type is valid: that is the one place where that kind of text or number is judged. What an
//! older service stored is kept by a second way, always called `stored`, and [`takeover`] tells what input would refuse of it. Aggregates do not serialise; their JSON shapes are `sabakan-wire` (public) and `sabakan_store::records` (stored).
#![warn(missing_docs)]

pub mod access;
pub mod admission;
pub mod audit;
pub mod cluster;
pub mod consistency;
pub mod crypt;
pub mod dhcp;
pub mod ipam;
pub mod lifecycle;
pub mod limits;
pub mod mac;
pub mod machine;
pub mod provision;
pub mod query;
pub mod registration;
pub mod repair;
pub mod retention;
pub mod takeover;
pub mod time;
pub mod words;
