//! The members of one etcd cluster as one thing to call: sticks to a member while it works, moves on when it does not, gives
//! every call a deadline and a token. It never repeats a write that etcd may have seen.

use std::{
    error::Error,
    future::Future,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use http::{Uri, uri::PathAndQuery};
use prost::Message;
use sabakan_store::StoreError;
use tokio::{
    sync::{Mutex, mpsc},
    time::{Instant, sleep, timeout},
};
use tonic::{
    Request, Status, Streaming,
    client::Grpc,
    codegen::tokio_stream::wrappers::ReceiverStream,
    metadata::{Ascii, MetadataValue},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};
use tonic_prost::ProstCodec;
use tracing::{info, warn};

use crate::{
    EtcdConfig, Tls,
    failure::{Failure, Refusal, classify},
    limits,
    messages::{AuthenticateRequest, AuthenticateResponse, path},
};

/// What may be done when a call fails.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Whether an unanswered call may simply be made again.
    pub repeatable: bool,
    /// No further attempt begins after this time.
    pub window: Duration,
    /// Whether every member is asked, however long that takes.
    pub whole_round: bool,
}

/// Reads, and writes that may happen twice without harm.
pub const REPEATABLE: Patience = Patience { repeatable: true, window: limits::FAILOVER_MAX, whole_round: false };
/// Writes that must not happen twice.
pub const ONCE: Patience = Patience { repeatable: false, window: limits::FAILOVER_MAX, whole_round: false };
/// Every member is asked once.
pub const ONE_ROUND: Patience = Patience { repeatable: true, window: Duration::ZERO, whole_round: true };

type Token = MetadataValue<Ascii>;

pub struct Cluster {
    members: Vec<Member>,
    /// The member that worked last.
    current: AtomicUsize,
    credentials: Option<AuthenticateRequest>,
    /// `None`: not asked for yet. `Some(None)`: etcd has authentication disabled.
    token: Mutex<Option<Option<Token>>>,
    request_timeout: Duration,
    answer_bytes_max: usize,
}

/// A stream of answers. Dropping it ends it at both sides.
pub struct Opened<Q, A> {
    /// Which member it leads to.
    pub member: usize,
    /// What came with the opening, until it is looked at.
    first: Option<A>,
    answers: Streaming<A>,
    /// Keeps the sending half open, which etcd's own clients do as well. It must go together with the answers: while one half
    /// is there, the connection carries the stream on, and etcd would send events for a watch nobody has any more.
    _requests: mpsc::Sender<Q>,
}

impl<Q, A> Opened<Q, A> {
    /// The answer that came with the opening. Ends the stream.
    pub fn into_first(self) -> Option<A> {
        self.first
    }

    /// The next answer, `None` at the end. May be dropped and called again without loss.
    pub async fn next(&mut self) -> Result<Option<A>, Status> {
        match self.first.take() {
            Some(first) => Ok(Some(first)),
            None => self.answers.message().await,
        }
    }
}

struct Member {
    /// Host and port; for the log, never for an error.
    name: String,
    channel: Channel,
    /// Whether it answered last time; only a change is worth a line in the log.
    answers: AtomicBool,
}

impl Cluster {
    /// Checks the configuration. Connects to nobody yet.
    pub fn new(config: &EtcdConfig) -> Result<Cluster, StoreError> {
        if config.endpoints.is_empty() {
            return Err(unusable("no endpoint is given"));
        }
        let credentials = match (&config.username, &config.password) {
            (Some(name), Some(password)) => {
                Some(AuthenticateRequest { name: name.clone(), password: password.clone() })
            }
            (None, None) => None,
            _ => return Err(unusable("user name and password go together")),
        };
        let tls = config.tls.as_ref().map(|tls| tls_config(tls, config.connect_timeout)).transpose()?;
        let members = config.endpoints.iter().enumerate();
        let members = members.map(|(at, endpoint)| member(at, endpoint, tls.as_ref(), config));
        Ok(Cluster {
            members: members.collect::<Result<_, _>>()?,
            current: AtomicUsize::new(0),
            credentials,
            token: Mutex::new(None),
            request_timeout: config.request_timeout,
            answer_bytes_max: limits::ANSWER_BYTES_MAX.max(config.max_request_bytes + limits::FRAGMENT_OVERHEAD),
        })
    }

    /// One request, one answer.
    pub async fn call<Q, A>(&self, path: &'static str, request: &Q, patience: Patience) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let attempt = |mut grpc: Grpc<Channel>, token: Option<Token>| {
            let request = with_metadata(request.clone(), token);
            async move { unary(&mut grpc, path, request).await }
        };
        Ok(self.with_token(patience, attempt).await?.1)
    }

    /// Opens a stream with one request and waits for its first answer.
    pub async fn open<Q, A>(
        &self,
        path: &'static str,
        request: &Q,
        patience: Patience,
        accept: fn(&A) -> Result<(), Status>,
    ) -> Result<Opened<Q, A>, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let attempt = |mut grpc: Grpc<Channel>, token: Option<Token>| {
            let request = request.clone();
            async move {
                let (requests, receiver) = mpsc::channel(1);
                // There is room for one, and the receiver is right here.
                let _ = requests.try_send(request);
                let request = with_metadata(ReceiverStream::new(receiver), token);
                grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
                let codec = ProstCodec::<Q, A>::new();
                let mut answers = grpc.streaming(request, PathAndQuery::from_static(path), codec).await?.into_inner();
                let first = answers.message().await?.ok_or_else(|| Status::unavailable("the stream ended"))?;
                accept(&first)?;
                Ok((requests, first, answers))
            }
        };
        let (member, (requests, first, answers)) = self.with_token(patience, attempt).await?;
        Ok(Opened { member, first: Some(first), answers, _requests: requests })
    }

    /// Moves on from a member that failed, unless somebody else already did.
    pub fn leave(&self, index: usize, reason: &dyn Error) {
        let next = (index + 1) % self.members.len();
        // Losing this race means that another call moved on: fine.
        let _ = self.current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
        let member = &self.members[index];
        if member.answers.swap(false, Ordering::Relaxed) {
            warn!(endpoint = member.name, error = chain(reason), "etcd member failed");
        }
    }

    /// Makes the call; once more with a new token if etcd no longer likes the old one.
    async fn with_token<T, F>(
        &self,
        patience: Patience,
        attempt: impl Fn(Grpc<Channel>, Option<Token>) -> F,
    ) -> Result<(usize, T), Failure>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let token = self.token(None).await?;
        match self.with_failover(patience, token.as_ref(), &attempt).await {
            Err(Failure::StaleToken) if self.credentials.is_some() => {
                let token = self.token(Some(token)).await?;
                self.with_failover(patience, token.as_ref(), &attempt).await
            }
            result => result,
        }
    }

    async fn with_failover<T, F>(
        &self,
        patience: Patience,
        token: Option<&Token>,
        attempt: &impl Fn(Grpc<Channel>, Option<Token>) -> F,
    ) -> Result<(usize, T), Failure>
    where
        F: Future<Output = Result<T, Status>>,
    {
        let began = Instant::now();
        let mut attempts = 0;
        loop {
            let index = self.current.load(Ordering::Relaxed);
            let member = &self.members[index];
            let grpc = Grpc::new(member.channel.clone()).max_decoding_message_size(self.answer_bytes_max);
            let status = match timeout(self.request_timeout, attempt(grpc, token.cloned())).await {
                Ok(Ok(answer)) => {
                    member.answered();
                    return Ok((index, answer));
                }
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded("no answer in time"),
            };
            let failure = classify(&status);
            let repeat = match failure {
                Failure::NotProcessed(_) => true,
                Failure::Unanswered(_) => patience.repeatable,
                Failure::StaleToken | Failure::Refused(_) => {
                    member.answered();
                    return Err(failure);
                }
            };
            self.leave(index, &status);
            attempts += 1;
            let round_done = !patience.whole_round || attempts >= self.members.len();
            if !repeat || (round_done && began.elapsed() >= patience.window) {
                return Err(failure);
            }
            if attempts % self.members.len() == 0 {
                sleep(limits::ROUND_PAUSE).await;
            }
        }
    }

    /// The token to use; a new one if the present one is `stale`. Callers that find it stale together ask for one new token
    /// between them.
    async fn token(&self, stale: Option<Option<Token>>) -> Result<Option<Token>, Failure> {
        let Some(credentials) = &self.credentials else { return Ok(None) };
        let mut present = self.token.lock().await;
        if let Some(token) = &*present
            && stale.as_ref() != Some(token)
        {
            return Ok(token.clone());
        }
        let attempt = |mut grpc: Grpc<Channel>, _| {
            let request = with_metadata(credentials.clone(), None);
            async move { unary::<_, AuthenticateResponse>(&mut grpc, path::AUTHENTICATE, request).await }
        };
        let token = match self.with_failover(REPEATABLE, None, &attempt).await {
            Ok((_, answer)) => {
                let mut token: Token = answer.token.parse().map_err(|_| Failure::StaleToken)?;
                token.set_sensitive(true);
                Some(token)
            }
            Err(Failure::Refused(Refusal::AuthDisabled)) => {
                warn!("etcd has no authentication enabled, going on without user name");
                None
            }
            Err(failure) => return Err(failure),
        };
        *present = Some(token.clone());
        Ok(token)
    }
}

impl Member {
    fn answered(&self) {
        if !self.answers.swap(true, Ordering::Relaxed) {
            info!(endpoint = self.name, "etcd member answers");
        }
    }
}

async fn unary<Q, A>(grpc: &mut Grpc<Channel>, path: &'static str, request: Request<Q>) -> Result<A, Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    let codec = ProstCodec::<Q, A>::new();
    Ok(grpc.unary(request, PathAndQuery::from_static(path), codec).await?.into_inner())
}

/// Asks etcd to refuse at once, and to end streams, when the member sees no leader; otherwise a watch on the wrong side of a
/// partition would wait for ever.
fn with_metadata<T>(message: T, token: Option<Token>) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    if let Some(token) = token {
        request.metadata_mut().insert("token", token);
    }
    request
}

fn tls_config(tls: &Tls, timeout: Duration) -> Result<ClientTlsConfig, StoreError> {
    let config = ClientTlsConfig::new().timeout(timeout).ca_certificate(Certificate::from_pem(&tls.ca_pem));
    match (&tls.cert_pem, &tls.key_pem) {
        (Some(cert), Some(key)) => Ok(config.identity(Identity::from_pem(cert, key))),
        (None, None) => Ok(config),
        _ => Err(unusable("client certificate and key go together")),
    }
}

/// Errors name an endpoint by its place in the list: its text may hold what must not be repeated.
fn member(at: usize, text: &str, tls: Option<&ClientTlsConfig>, config: &EtcdConfig) -> Result<Member, StoreError> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let url = if text.contains("://") { text.to_owned() } else { format!("{scheme}://{text}") };
    let number = at + 1;
    let wrong = |why: &str| unusable(&format!("endpoint {number} {why}"));
    let uri: Uri = url.parse().map_err(|_| wrong("is not an address"))?;
    let name = uri.authority().ok_or_else(|| wrong("has no host"))?.to_string();
    if name.contains('@') {
        return Err(wrong("holds a user name; give it separately"));
    }
    let mut endpoint = Endpoint::from(uri.clone())
        .connect_timeout(config.connect_timeout)
        .tcp_nodelay(true)
        .initial_connection_window_size(limits::CONNECTION_WINDOW)
        .initial_stream_window_size(limits::STREAM_WINDOW)
        .http2_keep_alive_interval(limits::PROBE_INTERVAL)
        .keep_alive_timeout(limits::PROBE_TIMEOUT);
    match (uri.scheme_str(), tls) {
        (Some("http"), _) => {}
        (Some("https"), Some(tls)) => {
            let broken = |error| wrong(&format!("cannot use the TLS certificates: {}", chain(&error)));
            endpoint = endpoint.tls_config(tls.clone()).map_err(broken)?;
        }
        (Some("https"), None) => return Err(wrong("wants TLS, but no CA is given")),
        _ => return Err(wrong("is neither http nor https")),
    }
    // Members count as answering until they fail, so that the first failure is logged.
    Ok(Member { name, channel: endpoint.connect_lazy(), answers: AtomicBool::new(true) })
}

fn unusable(why: &str) -> StoreError {
    StoreError::Unavailable { reason: format!("the etcd settings cannot be used: {why}") }
}

/// An error and its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
