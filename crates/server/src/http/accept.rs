//! The accept loop. Written by hand because every wait needs a bound: the handshake, the headers, the pause between requests, the
//! number of connections of everybody and of each, the time to finish when the server stops.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{HeaderName, Request, Version, header},
};
use hyper::{body::Incoming, server::conn::http1, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use sabakan_domain::access::AllowedNetworks;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use super::{
    Peer,
    activity::Activity,
    connections::{ConnectionBounds, Connections},
    metered::{BodyRoom, MeteredBody},
    room::RoomSource,
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

/// What the listeners of a server share.
pub struct Door {
    /// Every connection.
    pub connections: Arc<Connections>,
    /// How long they may be quiet.
    pub bounds: ConnectionBounds,
    /// Room for request bodies.
    pub bodies: Arc<BodyRoom>,
    /// Addresses of operators.
    pub allowed: AllowedNetworks,
}

/// Serves one listener until `stop`. Requests under way are tracked by `tracker` and finish after that.
pub async fn serve(listener: Listener, router: Router, door: Arc<Door>, tracker: TaskTracker, stop: CancellationToken) {
    loop {
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
        let source = RoomSource::of_address(peer.ip(), &door.allowed);
        // Counted and logged there. Who is refused learns it at once instead of waiting in the kernel's queue behind others.
        let Ok(place) = door.connections.enter(source) else { continue };
        let activity = Activity::new(place, door.bounds);
        let client =
            Client { peer, source, encrypted: listener.tls.is_some(), activity, bodies: Arc::clone(&door.bodies) };
        tracker.spawn(connection(stream, client, listener.tls.clone(), router.clone(), stop.clone()));
    }
}

/// Who is at the other end of a connection.
#[derive(Clone)]
struct Client {
    peer: SocketAddr,
    source: RoomSource,
    encrypted: bool,
    activity: Arc<Activity>,
    bodies: Arc<BodyRoom>,
}

async fn connection(
    stream: TcpStream,
    client: Client,
    tls: Option<TlsAcceptor>,
    router: Router,
    stop: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot set TCP_NODELAY");
    }
    let Some(tls) = tls else { return http1(stream, client, router, stop).await };
    let peer = client.peer;
    let handshake = tokio::select! {
        handshake = tokio::time::timeout(limits::HANDSHAKE_TIME_MAX, tls.accept(stream)) => handshake,
        over = client.activity.over() => return tracing::debug!(?over, %peer, "closed during the tls handshake"),
    };
    match handshake {
        Ok(Ok(stream)) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
            http2(stream, client, router, stop).await;
        }
        Ok(Ok(stream)) => http1(stream, client, router, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, %peer, "tls handshake failed"),
        Err(_) => tracing::debug!(%peer, "tls handshake took too long"),
    }
}

/// Drives a connection. Told to stop, not worth keeping, or without a place, it finishes the requests under way and closes.
macro_rules! drive {
    ($connection:expr, $stop:expr, $client:expr) => {{
        let client: &Client = $client;
        let mut connection = std::pin::pin!($connection);
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => Some(ended),
            () = $stop.cancelled() => None,
            over = client.activity.over() => {
                tracing::debug!(?over, peer = %client.peer, "connection closed");
                None
            }
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = client.activity.quiet() => Ok(()),
                }
            }
        };
        // Firmware and impatient clients cut connections short; that is not an error of ours.
        if let Err(error) = ended {
            tracing::debug!(%error, peer = %client.peer, "connection ended early");
        }
    }};
}

/// Nobody keeps a connection by reading nothing.
fn guarded<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    client: &Client,
    stop: &CancellationToken,
) -> TokioIo<StallGuard<S>> {
    let patience = Patience { running: limits::WRITE_PAUSE_MAX, stopping: limits::WRITE_PAUSE_STOPPING };
    TokioIo::new(StallGuard::new(stream, patience, stop.clone()).telling(Arc::clone(&client.activity)))
}

async fn http1<S>(stream: S, client: Client, router: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shared = client.clone();
    let service = service_fn(move |request| answer(router.clone(), shared.clone(), request));
    let mut builder = http1::Builder::new();
    // Slow headers are watched by `Activity`, which tells them from a pause between two requests.
    builder.timer(TokioTimer::new()).header_read_timeout(None);
    drive!(builder.serve_connection(guarded(stream, &client, &stop), service), stop, &client);
}

async fn http2<S>(stream: S, client: Client, router: Router, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // Frames between requests say nothing about the next one.
    client.activity.has_frames();
    let shared = client.clone();
    let service = service_fn(move |request| answer(router.clone(), shared.clone(), request));
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(limits::PING_EVERY))
        .keep_alive_timeout(limits::HANDSHAKE_TIME_MAX);
    drive!(builder.serve_connection(guarded(stream, &client, &stop), service), stop, &client);
}

async fn answer(
    router: Router,
    client: Client,
    request: Request<Incoming>,
) -> Result<axum::response::Response, std::convert::Infallible> {
    let under_way = client.activity.request();
    let kept = keeps(&request);
    let source = client.source.of_request(request.uri().path(), request.headers());
    let mut request = request.map(|body| Body::new(MeteredBody::new(body, client.bodies, source)));
    request.extensions_mut().insert(Peer(client.peer, client.encrypted));
    request.extensions_mut().insert(source);
    let mut response = router.oneshot(request).await?;
    if let Some(value) = client.activity.keep_alive().filter(|_| kept) {
        response.headers_mut().insert(KEEP_ALIVE, value);
    }
    Ok(response.map(|body| under_way.until_sent(body)))
}

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// Whether the client may use its connection again, and is told for how long. HTTP/2 has no word for it.
fn keeps(request: &Request<Incoming>) -> bool {
    let connection = request.headers().get(header::CONNECTION).and_then(|value| value.to_str().ok());
    let close = connection.is_some_and(|value| value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close")));
    request.version() == Version::HTTP_11 && !close
}
