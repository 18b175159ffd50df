//! Serves the double: a thread with a runtime of its own, TLS with an authority made for it.

use std::{
    collections::BTreeMap,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{Arc, Mutex},
    thread,
};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Either, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{
    Entry, State, TOKEN,
    http::{Asked, answer, refusal},
    lock,
    watch::{self, Lines},
};

/// Certificates and keys, as PEM.
pub struct Files {
    pub authority: String,
    pub client_certificate: String,
    pub client_key: String,
    server: (rustls::pki_types::CertificateDer<'static>, rustls::pki_types::PrivateKeyDer<'static>),
    authority_der: rustls::pki_types::CertificateDer<'static>,
}

impl Files {
    pub fn new() -> Files {
        let key = || KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(Vec::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, key()).expect("an authority");
        let signed = |names: Vec<String>| {
            let key = key();
            let params = CertificateParams::new(names).expect("parameters");
            (params.signed_by(&key, &authority).expect("a certificate"), key)
        };
        let (server, server_key) = signed(vec!["127.0.0.1".to_owned()]);
        let (client, client_key) = signed(vec!["sabakan".to_owned()]);
        let server_key = rustls::pki_types::PrivatePkcs8KeyDer::from(server_key.serialize_der());
        Files {
            authority: authority.pem(),
            authority_der: authority.der().clone(),
            client_certificate: client.pem(),
            client_key: client_key.serialize_pem(),
            server: (server.der().clone(), server_key.into()),
        }
    }

    fn tls(&self, entry: Entry) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().expect("versions");
        let builder = match entry {
            Entry::Certificate => {
                let mut roots = RootCertStore::empty();
                roots.add(self.authority_der.clone()).expect("an authority");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                builder.with_client_cert_verifier(verifier.expect("a verifier"))
            }
            Entry::Open | Entry::Token => builder.with_no_client_auth(),
        };
        let (certificate, key) = (self.server.0.clone(), self.server.1.clone_key());
        builder.with_single_cert(vec![certificate], key).expect("a certificate and its key")
    }
}

/// A running server, stopped when dropped.
pub struct Server {
    stop: CancellationToken,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Server {
    pub fn start(entry: Entry, files: &Files, state: Arc<Mutex<State>>) -> (Server, SocketAddr) {
        let acceptor = (entry != Entry::Open).then(|| TlsAcceptor::from(Arc::new(files.tls(entry))));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        listener.set_nonblocking(true).expect("a listener for the runtime");
        let address = listener.local_addr().expect("its address");
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).expect("a listener");
                tokio::select! {
                    () = stopped.cancelled() => {}
                    () = accept(listener, acceptor, entry, state) => {}
                }
            });
        });
        (Server { stop }, address)
    }
}

async fn accept(listener: TcpListener, acceptor: Option<TlsAcceptor>, entry: Entry, state: Arc<Mutex<State>>) {
    loop {
        let Ok((socket, _)) = listener.accept().await else { continue };
        if lock(&state).faults.down {
            continue;
        }
        let (acceptor, state) = (acceptor.clone(), Arc::clone(&state));
        tokio::spawn(async move {
            match acceptor {
                None => connection(socket, entry, state).await,
                Some(acceptor) => {
                    // Whoever does not get through the handshake is told by TLS.
                    if let Ok(socket) = acceptor.accept(socket).await {
                        connection(socket, entry, state).await;
                    }
                }
            }
        });
    }
}

async fn connection<S: AsyncRead + AsyncWrite + Unpin>(socket: S, entry: Entry, state: Arc<Mutex<State>>) {
    let service = service_fn(move |request| handle(request, entry, Arc::clone(&state)));
    // A client that goes away in the middle is no concern of the double.
    let _ended = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
}

/// A service that failed makes the connection close without an answer.
#[derive(Debug, thiserror::Error)]
#[error("down")]
struct Down;

type Answered = Either<Full<Bytes>, Lines>;

type Handled = Pin<Box<dyn Future<Output = Result<Response<Answered>, Down>> + Send>>;

fn handle(request: Request<Incoming>, entry: Entry, state: Arc<Mutex<State>>) -> Handled {
    Box::pin(async move {
        let (is_down, is_silent) = {
            let mut state = lock(&state);
            state.requests += 1;
            (state.faults.down, state.faults.silent)
        };
        if is_silent {
            std::future::pending::<()>().await;
        }
        let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let is_known = entry != Entry::Token || header(header::AUTHORIZATION) == Some(format!("Bearer {TOKEN}"));
        let content_type = header(header::CONTENT_TYPE).unwrap_or_default();
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(|_| Down)?.to_bytes().to_vec();
        if is_down {
            return Err(Down);
        }
        let asked = Asked {
            method: parts.method.to_string(),
            path: decoded(parts.uri.path()),
            query: query(parts.uri.query().unwrap_or_default()),
            content_type,
            body,
        };
        let (code, document) =
            if is_known { answer(&mut lock(&state), &asked) } else { refusal(401, "Unauthorized", "Unauthorized") };
        let body = if code == 200 && asked.is_watch() {
            let after = asked.query.get("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or_default();
            Either::Right(watch::events(state, after))
        } else {
            Either::Left(Full::from(document.to_string()))
        };
        let answer = Response::builder().status(code).header(header::CONTENT_TYPE, "application/json");
        Ok(answer.body(body).expect("a response"))
    })
}

fn query(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (decoded(key), decoded(&value.replace('+', " ")))).collect()
}

fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}
