//! What docs/guides/kubernetes.md promises, on a real control plane. The product has the rights of the guide and no others. A test
//! binary of its own: its tests take turns with one control plane.
//!
//! `cargo xtask kubernetes` builds the control plane.

mod attributes;
mod control_planes;
mod crowd;
mod dead;
mod drain;
mod lookup;
mod objects;
mod outage;
mod rights;
mod site;
mod stage;

use std::time::Duration;

/// How long a story waits for a level, on a machine that is busy with other tests.
const LONG: Duration = Duration::from_secs(60);
