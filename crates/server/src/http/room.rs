//! Keeps account of what callers hold of a room: bytes of bodies, connections, feeds. Who may take how much is decided by
//! `domain::admission`; here it is written down, and given back when whatever took it is dropped.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::http::HeaderMap;
use sabakan_domain::{
    access::AllowedNetworks,
    admission::{CallerClass, NoRoom, RoomShares, RoomUse, admit, holder},
};
use sabakan_service::metrics::Gauge;

use crate::caller::{Schemes, shown_token};

/// For whom room is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomSource {
    /// The address that the share is counted for.
    pub holder: IpAddr,
    /// The class it belongs to.
    pub class: CallerClass,
    /// Whether the share of a single address does not apply.
    pub exempt: bool,
}

impl RoomSource {
    /// What a connection tells about its client.
    pub fn of_address(ip: IpAddr, allowed: &AllowedNetworks) -> RoomSource {
        let ip = ip.to_canonical();
        let operator = ip.is_loopback() || allowed.contains(ip);
        let class = if operator { CallerClass::Operator } else { CallerClass::Anonymous };
        RoomSource { holder: holder(ip), class, exempt: ip.is_loopback() }
    }

    /// What a request tells in addition. That it shows a token is enough: a body is read and a feed is opened only after the token
    /// was recognised. Where everybody may speak tokens are not looked at, so there they do not count; nor do schemes that some
    /// API ignores.
    pub fn of_request(self, path: &str, headers: &HeaderMap) -> RoomSource {
        let class = match self.class {
            CallerClass::Anonymous if is_ramdisk(path) => CallerClass::Machine,
            CallerClass::Anonymous if shown_token(headers, Schemes::Bearer).is_some() => CallerClass::Authenticated,
            class => class,
        };
        RoomSource { class, ..self }
    }
}

/// Whether ramdisks send their reports to this path.
fn is_ramdisk(path: &str) -> bool {
    let path = path.strip_prefix("/v1").unwrap_or(path).trim_end_matches('/');
    path == "/continue_inspection" || path.starts_with("/heartbeat/")
}

/// What is taken of one room.
pub struct RoomLedger {
    shares: RoomShares,
    taken: Mutex<Taken>,
    /// Shows how much is taken.
    level: Gauge,
}

#[derive(Default)]
struct Taken {
    by_class: [u64; 4],
    by_address: HashMap<(IpAddr, CallerClass), u64>,
}

impl RoomLedger {
    /// A room of which nothing is taken.
    pub fn new(shares: RoomShares, level: Gauge) -> Arc<RoomLedger> {
        Arc::new(RoomLedger { shares, taken: Mutex::default(), level })
    }

    /// Takes some of it, or says why not. Nobody waits: who is refused can try again, who waits holds a connection.
    pub fn take(self: &Arc<Self>, source: RoomSource, amount: u64) -> Result<Room, NoRoom> {
        self.add(source, amount)?;
        Ok(Room { ledger: Arc::clone(self), source, amount })
    }

    fn add(&self, source: RoomSource, amount: u64) -> Result<(), NoRoom> {
        let RoomSource { holder, class, exempt } = source;
        let mut taken = self.lock();
        let by_address = taken.by_address.get(&(holder, class)).copied().unwrap_or_default();
        admit(&self.shares, &RoomUse { by_class: taken.by_class, by_address }, class, exempt, amount)?;
        taken.by_class[class.place()] += amount;
        *taken.by_address.entry((holder, class)).or_default() += amount;
        self.show(&taken);
        Ok(())
    }

    fn give_back(&self, source: RoomSource, amount: u64) {
        let mut taken = self.lock();
        taken.by_class[source.class.place()] -= amount;
        if let Entry::Occupied(mut held) = taken.by_address.entry((source.holder, source.class)) {
            *held.get_mut() -= amount;
            // Otherwise everybody who ever came would stay in the list.
            if *held.get() == 0 {
                held.remove();
            }
        }
        self.show(&taken);
    }

    fn show(&self, taken: &Taken) {
        self.level.set(taken.by_class.iter().sum::<u64>().try_into().unwrap_or(i64::MAX));
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().expect("no holder of this lock panics")
    }
}

/// A part of a room, given back when it is dropped.
pub struct Room {
    ledger: Arc<RoomLedger>,
    source: RoomSource,
    amount: u64,
}

impl Room {
    /// Takes more for the same caller.
    pub fn grow(&mut self, more: u64) -> Result<(), NoRoom> {
        self.ledger.add(self.source, more)?;
        self.amount += more;
        Ok(())
    }

    /// How much it is.
    pub fn amount(&self) -> u64 {
        self.amount
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.ledger.give_back(self.source, self.amount);
    }
}

#[cfg(test)]
mod tests {
    use axum::http::header;
    use sabakan_domain::admission::ClassShare;

    use super::*;

    fn source(ip: &str) -> RoomSource {
        let allowed = AllowedNetworks::new(["10.0.0.0/8"]).expect("a network");
        RoomSource::of_address(ip.parse().expect(ip), &allowed)
    }

    #[test]
    fn classes_of_connections_and_requests() {
        let shown = |value: &str| HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().expect("a header"))]);
        let token = shown("Bearer x");
        let check = |ip: &str, path: &str, headers: &HeaderMap, class: CallerClass, exempt: bool| {
            let source = source(ip).of_request(path, headers);
            assert_eq!((source.class, source.exempt), (class, exempt), "{ip} {path}");
        };
        let none = HeaderMap::new();
        check("127.0.0.1", "/v1/continue_inspection", &none, CallerClass::Operator, true);
        check("127.0.0.2", "/graphql", &none, CallerClass::Operator, true);
        check("::ffff:10.1.2.3", "/graphql", &none, CallerClass::Operator, false);
        check("192.0.2.1", "/graphql", &none, CallerClass::Anonymous, false);
        check("192.0.2.1", "/graphql", &token, CallerClass::Authenticated, false);
        // GraphQL and REST look at neither.
        check("192.0.2.1", "/graphql", &shown("Basic eDp5"), CallerClass::Anonymous, false);
        check("192.0.2.1", "/graphql", &shown("anything"), CallerClass::Anonymous, false);
        for path in ["/v1/continue_inspection", "/continue_inspection/", "/v1/heartbeat/x", "/heartbeat/x"] {
            check("192.0.2.1", path, &none, CallerClass::Machine, false);
            // Nobody looks at a token here, so nobody gains by making one up.
            check("192.0.2.1", path, &token, CallerClass::Machine, false);
        }
    }

    #[test]
    fn what_is_dropped_is_given_back() {
        let share = |per_address| ClassShare { reserve: 0, max: 100, per_address };
        let level = Gauge::default();
        let ledger = RoomLedger::new(RoomShares { total: 100, classes: [share(100); 4] }, level.clone());
        let mut first = ledger.take(source("192.0.2.1"), 60).expect("room");
        let second = ledger.take(source("192.0.2.2"), 30).expect("room");
        assert_eq!(first.grow(11), Err(NoRoom::Full));
        assert_eq!((first.amount(), level.get()), (60, 90), "a refusal takes nothing");
        drop(second);
        first.grow(40).expect("room");
        assert_eq!(level.get(), 100);
        drop(first);
        assert_eq!(level.get(), 0);
        assert!(ledger.lock().by_address.is_empty(), "nobody is remembered who holds nothing");
    }
}
