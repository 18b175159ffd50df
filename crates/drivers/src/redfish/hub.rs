//! The connections to all controllers: shared by everybody who uses the same account, bounded in number, and ended when the server is.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use sha2::{Digest, Sha256};
use tokio::task::JoinSet;

use super::{
    http::Http,
    limits::{Pace, SESSIONS_MAX, TRUSTS_MAX},
    session::{Connection, Gate},
    settings::{AuthType, Endpoint},
    tls::{MinimumVersion, Trust},
};
use crate::DriverError;

/// Connections to all controllers, a bounded number.
#[derive(Debug)]
pub struct Hub {
    pace: Pace,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Counts uses, to know which connection is unused for longest.
    uses: u64,
    connections: HashMap<Key, (u64, Arc<Connection>)>,
    clients: HashMap<(String, MinimumVersion), Arc<Http>>,
    /// One per controller, whoever talks to it. Those nobody uses are dropped when the table is next touched.
    gates: HashMap<String, Arc<Gate>>,
}

/// Whoever has the same key may share a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    root: String,
    user: Option<String>,
    password: Option<[u8; 32]>,
    auth: AuthType,
    trust: String,
    minimum_version: MinimumVersion,
}

impl Hub {
    pub fn new(pace: Pace) -> Hub {
        Hub { pace, known: Mutex::default() }
    }

    /// The connection for this endpoint, shared with everybody who uses the same account.
    pub fn connection(&self, endpoint: &Endpoint) -> Result<Arc<Connection>, DriverError> {
        let key = Key::of(endpoint);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.uses += 1;
        let now = known.uses;
        if let Some((used, connection)) = known.connections.get_mut(&key) {
            *used = now;
            return Ok(connection.clone());
        }
        warn_about(endpoint);
        let http = known.client(&endpoint.trust, endpoint.minimum_version, &self.pace)?;
        let gate = known.gate(&endpoint.origin());
        let connection = Arc::new(Connection::new(endpoint, http, gate, &self.pace));
        known.make_room(self.pace.sessions_max);
        known.connections.insert(key, (now, connection.clone()));
        Ok(connection)
    }

    /// Deletes every session. Connections that are still used log in again.
    pub async fn close(&self) {
        let connections: Vec<_> = {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.connections.drain().map(|(_, (_, connection))| connection).collect()
        };
        let mut going = JoinSet::new();
        for connection in connections {
            going.spawn(async move { connection.log_out().await });
        }
        while going.join_next().await.is_some() {}
    }
}

impl Known {
    fn client(&mut self, trust: &Trust, minimum: MinimumVersion, pace: &Pace) -> Result<Arc<Http>, DriverError> {
        let key = (trust.digest(), minimum);
        if let Some(http) = self.clients.get(&key) {
            return Ok(http.clone());
        }
        let http = Arc::new(Http::new(&trust.client_config(minimum)?, pace)?);
        if self.clients.len() >= TRUSTS_MAX {
            // Those in use live on with their connections; building one again costs milliseconds.
            self.clients.clear();
        }
        self.clients.insert(key, http.clone());
        Ok(http)
    }

    fn gate(&mut self, origin: &str) -> Arc<Gate> {
        if self.gates.len() >= SESSIONS_MAX {
            self.gates.retain(|_, gate| Arc::strong_count(gate) > 1);
        }
        self.gates.entry(origin.to_owned()).or_insert_with(|| Arc::new(Gate::new())).clone()
    }

    /// Gives up the connection unused for longest. Its session is deleted when the last user of it is gone.
    fn make_room(&mut self, sessions_max: usize) {
        while self.connections.len() >= sessions_max {
            let oldest = self.connections.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            if oldest.and_then(|key| self.connections.remove(&key)).is_none() {
                return;
            }
        }
    }
}

impl Key {
    fn of(endpoint: &Endpoint) -> Key {
        let account = endpoint.account.as_ref();
        Key {
            root: endpoint.root.to_string(),
            user: account.map(|account| account.user.clone()),
            password: account.map(|account| Sha256::digest(account.password.expose()).into()),
            auth: endpoint.auth,
            trust: endpoint.trust.digest(),
            minimum_version: endpoint.minimum_version,
        }
    }
}

/// Once per connection and not per call, so that it is seen and does not drown the log.
fn warn_about(endpoint: &Endpoint) {
    let host = endpoint.root.host_str().unwrap_or_default();
    if endpoint.root.scheme() == "http" {
        tracing::warn!(host, "the BMC is reached over plain http, the password can be read on the way");
    } else if endpoint.trust == Trust::Everything {
        tracing::warn!(host, "the BMC's certificate is not verified, because redfish_verify_ca is false");
    }
}
