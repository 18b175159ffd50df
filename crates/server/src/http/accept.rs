//! The accept loop. Written by hand because every wait needs a bound: the handshake, the headers, the pause between requests, the
//! number of connections, the time to finish when the server stops.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{Router, body::Body, http::Request};
use hyper::{body::Incoming, server::conn::http1, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use sabakan_service::metrics::Gauge;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use super::{
    Peer,
    stall::{Patience, StallGuard},
};
use crate::limits;

/// Where connections come in.
pub struct Listener {
    /// The socket.
    pub socket: TcpListener,
    /// Present: connections speak TLS.
    pub tls: Option<TlsAcceptor>,
}

/// Serves one listener until `stop`. Requests under way are tracked by `tracker` and finish after that; `open` counts connections.
pub async fn serve(
    listener: Listener,
    router: Router,
    connections: Arc<Semaphore>,
    open: Gauge,
    tracker: TaskTracker,
    stop: CancellationToken,
) {
    loop {
        // The place is taken before the connection: past the cap, clients wait in the kernel's queue.
        let place = tokio::select! {
            () = stop.cancelled() => return,
            place = Arc::clone(&connections).acquire_owned() => place.expect("the semaphore is never closed"),
        };
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.socket.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(connection) => connection,
            Err(error) => {
                // Out of file descriptors, mostly; others will end soon.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (router, tls, stop) = (router.clone(), listener.tls.clone(), stop.clone());
        let open = open.hold();
        tracker.spawn(async move {
            connection(stream, peer, tls, router, stop).await;
            drop((place, open));
        });
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<TlsAcceptor>,
    router: Router,
    stop: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let Some(tls) = tls else { return http1(stream, Peer(peer, false), router, stop).await };
    match tokio::time::timeout(limits::HANDSHAKE_TIME_MAX, tls.accept(stream)).await {
        Ok(Ok(stream)) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
            http2(stream, Peer(peer, true), router, stop).await;
        }
        Ok(Ok(stream)) => http1(stream, Peer(peer, true), router, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, %peer, "tls handshake failed"),
        Err(_) => tracing::debug!(%peer, "tls handshake took too long"),
    }
}

/// Drives a connection; told to stop, it finishes the request under way and closes.
macro_rules! drive {
    ($connection:expr, $stop:expr, $peer:expr) => {{
        let mut connection = std::pin::pin!($connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = $stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        // Firmware and impatient clients cut connections short; that is not an error of ours.
        if let Err(error) = ended {
            tracing::debug!(%error, peer = %$peer.0, "connection ended early");
        }
    }};
}

/// Nobody keeps a connection by reading nothing.
fn guarded<S: AsyncRead + AsyncWrite + Unpin>(stream: S, stop: &CancellationToken) -> TokioIo<StallGuard<S>> {
    let patience = Patience { running: limits::WRITE_PAUSE_MAX, stopping: limits::WRITE_PAUSE_STOPPING };
    TokioIo::new(StallGuard::new(stream, patience, stop.clone()))
}

async fn http1<S>(stream: S, peer: Peer, router: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| answer(router.clone(), peer, request));
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(limits::HEADER_TIME_MAX);
    drive!(builder.serve_connection(guarded(stream, &stop), service), stop, peer);
}

async fn http2<S>(stream: S, peer: Peer, router: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| answer(router.clone(), peer, request));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(limits::HEADER_TIME_MAX))
        .keep_alive_timeout(limits::HANDSHAKE_TIME_MAX);
    drive!(builder.serve_connection(guarded(stream, &stop), service), stop, peer);
}

async fn answer(
    router: Router,
    peer: Peer,
    request: Request<Incoming>,
) -> Result<axum::response::Response, std::convert::Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(peer);
    router.oneshot(request).await
}
