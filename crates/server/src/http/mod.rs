//! Connections: accepting them within bounds, TLS, and what happens around every request.

mod accept;
mod activity;
mod connections;
mod files;
mod metered;
mod observe;
mod room;
mod stall;
mod tls;
pub(crate) mod url_tokens;

pub use accept::{Door, Listener, serve};
pub use connections::{ConnectionBounds, Connections};
pub use files::{open_files_max, raise_open_files};
pub(crate) use metered::BodyRefusal;
pub use metered::{BodyBounds, BodyRoom};
pub(crate) use observe::Failures;
pub(crate) use observe::panicked;
pub use observe::{Around, observe};
pub use room::{Room, RoomLedger, RoomSource};
pub use tls::{CertificateReloader, TlsError, TlsSource, load_tls, watch_files};

/// Who is at the other end of the connection, and whether it is encrypted.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub std::net::SocketAddr, pub bool);
