//! What a registry that was taken over from the older service still needs somebody's attention for: raw disk keys, values that input would
//! refuse, records that cannot be read. All of it is told in the log at start, as parts of the health and as metrics; none of it
//! makes the server unhealthy.

use std::sync::Arc;

use sabakan_domain::limits::NAMES_SHOWN;
use sabakan_store::{keys::Keys, view::Snapshot};

use crate::{Foundation, HealthProbe, HealthProbeFuture, HealthProblem};

/// The parts, in the order they are shown in.
pub fn health_probes(on: &Arc<Foundation>) -> [TakeoverProbe; 3] {
    let probe = |name, find| TakeoverProbe { on: Arc::clone(on), name, find };
    [probe("records", unreadable), probe("takeover", marked), probe("raw-keys", raw_keys)]
}

/// Says in the log what is there at the start.
pub fn log_at_start(on: &Foundation) {
    let snapshot = on.view.latest_known();
    for find in [unreadable, marked, raw_keys] {
        if let Some(found) = find(&snapshot, &on.keys) {
            tracing::warn!(found, "taken over from the older service");
        }
    }
}

/// One kind of thing that waits for somebody.
pub struct TakeoverProbe {
    on: Arc<Foundation>,
    name: &'static str,
    find: fn(&Snapshot, &Keys) -> Option<String>,
}

impl HealthProbe for TakeoverProbe {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_needed(&self) -> bool {
        false
    }

    fn look(&self) -> HealthProbeFuture<'_> {
        let found = (self.find)(&self.on.view.latest_known(), &self.on.keys);
        Box::pin(async { found.map_or(Ok(()), |text| Err(HealthProblem::new(text))) })
    }
}

fn unreadable(snapshot: &Snapshot, keys: &Keys) -> Option<String> {
    let all = snapshot.unreadable();
    let (count, names) = named(all.keys().map(|key| key.strip_prefix(keys.prefix()).unwrap_or(key)))?;
    Some(format!("{count} stored records cannot be read and are left out: {names}; `sabakan store check` says why"))
}

fn marked(snapshot: &Snapshot, _: &Keys) -> Option<String> {
    let ipam = snapshot.ipam().and_then(|stored| stored.usable().err());
    let ipam = ipam.map(|error| {
        format!("the IPAM configuration cannot be used: {error}; put another, registered machines keep their addresses")
    });
    let machines = named(snapshot.marked().iter().map(|serial| serial.as_str())).map(|(count, names)| {
        format!("{count} machines have values that input would refuse: {names}; `takeover` of each machine says which")
    });
    let texts: Vec<String> = ipam.into_iter().chain(machines).collect();
    (!texts.is_empty()).then(|| texts.join(". "))
}

fn raw_keys(snapshot: &Snapshot, _: &Keys) -> Option<String> {
    let (count, names) = named(snapshot.raw_keys().iter().map(String::as_str))?;
    Some(format!("{count} raw keys to import: {names}; until then requests for them are answered with 503"))
}

/// How many there are, and the names of the first. Quoted, because the older service did not judge them.
fn named<'a>(all: impl ExactSizeIterator<Item = &'a str>) -> Option<(usize, String)> {
    let count = all.len();
    let first: Vec<String> = all.take(NAMES_SHOWN).map(|name| format!("{name:?}")).collect();
    let more = count - first.len();
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    (count > 0).then(|| (count, format!("{}{rest}", first.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_bounded() {
        let check = |names: &[&str], expected: Option<(usize, &str)>| {
            let found = named(names.iter().copied());
            assert_eq!(found.as_ref().map(|(count, text)| (*count, text.as_str())), expected);
        };
        check(&[], None);
        check(&["a"], Some((1, r#""a""#)));
        check(&["a\n", "b"], Some((2, r#""a\n", "b""#)));
        let many: Vec<&str> = vec!["x"; 12];
        let (count, text) = named(many.into_iter()).expect("some");
        assert!(count == 12 && text.ends_with(r#""x" and 2 more"#), "{text}");
    }
}
