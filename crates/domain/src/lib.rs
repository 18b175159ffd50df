//! The vocabulary and the rules of sabakan. Pure: values in, decisions out. Nothing here reads a clock, a socket, a file or a
//! random source, and nothing logs; services gather the facts, ask a rule here, and carry out what it said.
//!
//! A type of this crate cannot hold an invalid value: its constructor is the one place where that kind of text or number is
//! checked. Aggregates do not serialise; their JSON shapes are `sabakan-wire` (public) and `sabakan_store::records` (stored).
#![warn(missing_docs)]

pub mod access;
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
pub mod time;
pub mod words;
