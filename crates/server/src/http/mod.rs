//! Connections: accepting them within bounds, TLS, and what happens around every request.

mod accept;
mod observe;
mod stall;
mod tls;
mod url_tokens;

pub use accept::{Listener, serve};
pub(crate) use observe::Failures;
pub(crate) use observe::panicked;
pub use observe::{Around, observe};
pub use tls::{CertificateReloader, TlsError, TlsSource, load_tls, watch_files};

/// Who is at the other end of the connection, and whether it is encrypted.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub std::net::SocketAddr, pub bool);
