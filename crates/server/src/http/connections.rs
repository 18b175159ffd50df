//! The connections of all listeners: who holds how many, which are idle, and which has to go when somebody else needs its place. The
//! rules are in `domain::admission`.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use sabakan_domain::admission::{CallerClass, ClassShare, ConnectionHolder, NoRoom, RoomShares, choose_idle};
use sabakan_service::metrics::Metrics;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::room::{Room, RoomLedger, RoomSource};
use crate::limits;

/// The bounds of connections. Users choose the share of an address; tests shorten the waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionBounds {
    /// Connections at once; absent: as many as the process may open files for.
    pub connections_max: Option<u64>,
    /// Connections of one address; absent: a part of all.
    pub per_address: Option<u64>,
    /// How long a connection without a request is kept.
    pub idle_max: Duration,
    /// How long the headers of a request may take.
    pub header_max: Duration,
}

impl Default for ConnectionBounds {
    fn default() -> ConnectionBounds {
        ConnectionBounds {
            connections_max: None,
            per_address: None,
            idle_max: limits::IDLE_TIME_MAX,
            header_max: limits::HEADER_TIME_MAX,
        }
    }
}

/// How many connections fit into as many open files.
pub fn connections_for(files: u64) -> u64 {
    files.saturating_sub(limits::FILES_KEPT.min(files / 2)).min(limits::CONNECTIONS_MAX)
}

/// Of a connection only its address is known.
fn shares(total: u64, per_address: Option<u64>) -> RoomShares {
    let reserve = total / limits::CONNECTIONS_RESERVE;
    let per_address = per_address.unwrap_or(limits::CONNECTIONS_PER_ADDRESS.min(total / 4)).max(1);
    let strangers = ClassShare { reserve: 0, max: total - reserve, per_address };
    let operators = ClassShare { reserve, max: total, per_address };
    RoomShares { total, classes: [operators, strangers, strangers, strangers] }
}

/// Every connection of the server.
pub struct Connections {
    ledger: Arc<RoomLedger>,
    open: Mutex<Open>,
    metrics: Arc<Metrics>,
}

#[derive(Default)]
struct Open {
    next_id: u64,
    by_id: HashMap<u64, Connection>,
    holders: HashMap<(IpAddr, CallerClass), Holder>,
    /// Closed to make room, and not gone yet.
    leaving: usize,
    /// Refused since the last word about it, and when that was.
    refused: (u64, Option<Instant>),
}

struct Connection {
    source: RoomSource,
    idle_since: Option<Instant>,
    shed: CancellationToken,
    _room: Room,
}

#[derive(Default)]
struct Holder {
    held: u64,
    idle: BTreeSet<(Instant, u64)>,
}

impl Connections {
    /// No connection yet. `files`: how many the process may have open.
    pub fn new(bounds: &ConnectionBounds, files: u64, metrics: Arc<Metrics>) -> Arc<Connections> {
        let total = bounds.connections_max.unwrap_or_else(|| connections_for(files));
        metrics.connections_max.set(total.try_into().unwrap_or(i64::MAX));
        let ledger = RoomLedger::new(shares(total, bounds.per_address), metrics.connections.clone());
        Arc::new(Connections { ledger, open: Mutex::default(), metrics })
    }

    /// A place for a connection. Where there is none, an idle one goes for it; where none is idle, the newcomer does.
    pub fn enter(self: &Arc<Self>, source: RoomSource) -> Result<Place, NoRoom> {
        let mut open = self.lock();
        let room = self.ledger.take(source, 1).or_else(|no_room| {
            let idle = open.oldest_idle(source, no_room).filter(|_| open.leaving < limits::CONNECTIONS_LEAVING_MAX);
            let (_, id) = idle.ok_or(no_room)?;
            open.shed(id);
            self.metrics.shed();
            self.ledger.take(source, 1)
        });
        let room = room.inspect_err(|no_room| self.count(&mut open, source, *no_room))?;
        let (id, shed, now) = (open.next_id, CancellationToken::new(), Instant::now());
        open.next_id += 1;
        let connection = Connection { source, idle_since: Some(now), shed: shed.clone(), _room: room };
        open.by_id.insert(id, connection);
        let holder = open.holders.entry((source.holder, source.class)).or_default();
        holder.held += 1;
        holder.idle.insert((now, id));
        Ok(Place { connections: Arc::clone(self), id, shed })
    }

    fn count(&self, open: &mut Open, source: RoomSource, no_room: NoRoom) {
        self.metrics.refused("connections", no_room.as_str());
        open.refused.0 += 1;
        if open.refused.1.is_none_or(|last| last.elapsed() >= limits::REFUSALS_LOG_EVERY) {
            let refused = open.refused.0;
            let (address, reason) = (source.holder, no_room.as_str());
            tracing::warn!(refused, %address, reason, "connections are refused");
            open.refused = (0, Some(Instant::now()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().expect("no holder of this lock panics")
    }
}

impl Open {
    fn oldest_idle(&self, source: RoomSource, no_room: NoRoom) -> Option<(Instant, u64)> {
        if no_room == NoRoom::Address {
            // Its own: nobody else has anything to do with it.
            return self.holders.get(&(source.holder, source.class))?.idle.first().copied();
        }
        let holders = self.holders.iter().map(|((_, class), holder)| ConnectionHolder {
            class: *class,
            held: holder.held,
            oldest_idle: holder.idle.first().copied(),
        });
        choose_idle(holders, source.class)
    }

    /// Tells a connection to go. Its place is free at once.
    fn shed(&mut self, id: u64) {
        if let Some(connection) = self.remove(id) {
            self.leaving += 1;
            connection.shed.cancel();
        }
    }

    fn remove(&mut self, id: u64) -> Option<Connection> {
        let connection = self.by_id.remove(&id)?;
        let key = (connection.source.holder, connection.source.class);
        if let Some(holder) = self.holders.get_mut(&key) {
            holder.held -= 1;
            if let Some(since) = connection.idle_since {
                holder.idle.remove(&(since, id));
            }
            if holder.held == 0 {
                self.holders.remove(&key);
            }
        }
        Some(connection)
    }

    /// Takes down since when a connection has been idle; `None`: it is busy.
    fn mark(&mut self, id: u64, idle_since: Option<Instant>) {
        let Some(connection) = self.by_id.get_mut(&id) else { return };
        let before = std::mem::replace(&mut connection.idle_since, idle_since);
        let key = (connection.source.holder, connection.source.class);
        if let Some(holder) = self.holders.get_mut(&key) {
            if let Some(since) = before {
                holder.idle.remove(&(since, id));
            }
            if let Some(since) = idle_since {
                holder.idle.insert((since, id));
            }
        }
    }
}

/// The place of one connection, free when it is dropped.
pub struct Place {
    connections: Arc<Connections>,
    id: u64,
    /// Cancelled when the connection has to go.
    pub shed: CancellationToken,
}

impl Place {
    /// Takes down since when the connection has been idle; `None`: it is busy.
    pub fn mark(&self, idle_since: Option<Instant>) {
        self.connections.lock().mark(self.id, idle_since);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        if open.remove(self.id).is_none() {
            open.leaving -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use sabakan_domain::access::AllowedNetworks;
    use sabakan_service::metrics::MetricsOptions;

    use super::*;

    fn connections(total: u64, per_address: u64) -> Arc<Connections> {
        let bounds = ConnectionBounds {
            connections_max: Some(total),
            per_address: Some(per_address),
            ..ConnectionBounds::default()
        };
        Connections::new(&bounds, 0, Arc::new(Metrics::new(MetricsOptions::default(), "0")))
    }

    fn source(ip: &str) -> RoomSource {
        RoomSource::of_address(ip.parse().expect(ip), &AllowedNetworks::default())
    }

    #[test]
    fn connections_leave_files_for_everything_else() {
        let check = |files: u64, expected: u64| assert_eq!(connections_for(files), expected, "{files}");
        check(0, 0);
        check(256, 128);
        check(1_024, 512);
        check(4_096, 3_072);
        check(20_000, limits::CONNECTIONS_MAX);
        check(u64::MAX, limits::CONNECTIONS_MAX);
    }

    #[tokio::test]
    async fn busy_strangers_never_take_the_reserve_of_operators() {
        let all = connections(16, 100);
        let places: Vec<_> = (0..14).map(|_| all.enter(source("192.0.2.1")).expect("a place")).collect();
        places.iter().for_each(|place| place.mark(None));
        assert_eq!(all.enter(source("192.0.2.2")).map(drop), Err(NoRoom::Full), "nobody is idle");
        let operators: Vec<_> = (0..2).map(|_| all.enter(source("127.0.0.1")).expect("a place")).collect();
        operators.iter().for_each(|place| place.mark(None));
        assert_eq!(all.enter(source("127.0.0.1")).map(drop), Err(NoRoom::Full));
        assert_eq!((all.metrics.connections.get(), all.lock().leaving), (16, 0));
        drop((places, operators));
        assert_eq!(all.metrics.connections.get(), 0);
        assert!(all.lock().holders.is_empty());
    }

    #[tokio::test]
    async fn idle_ones_make_room() {
        let all = connections(16, 100);
        let places: Vec<_> = (0..14).map(|_| all.enter(source("192.0.2.1")).expect("a place")).collect();
        places[0].mark(None);
        let other = all.enter(source("192.0.2.2")).expect("the oldest idle one goes");
        assert!(places[1].shed.is_cancelled() && !places[0].shed.is_cancelled() && !places[2].shed.is_cancelled());
        assert_eq!(all.lock().leaving, 1);
        drop(places);
        assert_eq!((all.lock().leaving, all.metrics.connections.get()), (0, 1));
        drop(other);
    }

    #[tokio::test]
    async fn an_address_past_its_share_loses_its_own_idle_ones_only() {
        let all = connections(16, 2);
        let idle = all.enter(source("192.0.2.9")).expect("a place");
        let places: Vec<_> = (0..2).map(|_| all.enter(source("192.0.2.1")).expect("a place")).collect();
        let third = all.enter(source("192.0.2.1")).expect("for its own");
        assert!(places[0].shed.is_cancelled() && !places[1].shed.is_cancelled() && !idle.shed.is_cancelled());
        [&places[1], &third].into_iter().for_each(|place| place.mark(None));
        assert_eq!(all.enter(source("192.0.2.1")).map(drop), Err(NoRoom::Address));
        assert!(all.enter(source("127.0.0.1")).is_ok());
    }
}
