//! Automatic repair: which broken machines are repaired, in which order, and which are held because they failed together.
//!
//! [`guard`] finds groups of machines that failed together and holds them ([`incident`]); [`enqueue`] lets the others into the queue,
//! as far as the limits allow ([`round`]); [`queue`] says what is done with each entry next, along the [`procedure`] for its kind of machine;
//! [`drain`] says what becomes of the pods of its node. Machines that somebody else is at work on are left alone ([`hands_off`]).
//! Nothing here does anything.

pub mod drain;
pub mod enqueue;
pub mod entry;
pub mod gone;
pub mod guard;
pub mod hands_off;
pub mod incident;
pub mod procedure;
pub mod queue;
pub mod reboot;
pub mod round;
pub mod selector;
pub mod settings;
