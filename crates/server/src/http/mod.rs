//! Connections: accepting them within bounds, TLS, and what happens around every request.

mod accept;
mod observe;
mod stall;
mod tls;

pub use accept::{Listener, serve};
pub(crate) use observe::panicked;
pub use observe::{RequestIdHeader, observe};
pub use tls::{TlsError, TlsSource, load_tls};

/// Who is at the other end of the connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub std::net::SocketAddr);
