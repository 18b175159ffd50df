//! The public face of sabakan as plain shapes: JSON bodies, query parameters and flag spelling, and their conversions to and from
//! `sabakan-domain`. Server, client and tests share it, so that both ends mean the same by a field.
//!
//! Conversions destructure without `..`: a new domain field does not compile until its public shape has been decided. No rule is
//! checked here; the constructors of the domain types do that.
#![warn(missing_docs)]

pub mod flags;
pub mod ironic;
pub mod json;
pub mod rest;
