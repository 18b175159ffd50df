//! Background work. A task wakes, re-reads what it needs and takes the next step from there.

pub mod allocator;
pub mod compactor;
pub mod conductor;
pub mod retention;
