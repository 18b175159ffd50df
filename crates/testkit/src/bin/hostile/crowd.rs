//! The crowds, and the part of the program that runs in the namespace: it opens its sockets, says `ready`, and goes home when its
//! standard input ends or its time is over. Its last line says how it fared.

use std::{
    io::Read as _,
    net::SocketAddr,
    path::PathBuf,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use sabakan_testkit::hostile::{Crowd, IdleHttp2, SlowRequest, Tally};

/// How long a crowd stays at most.
const TIME_MAX: Duration = Duration::from_secs(120);

/// How often each member of a crowd sends a byte, answers a ping, or comes back after it was thrown out.
const ROUND: Duration = Duration::from_secs(2);

/// Connections of those who are merely there: as many as locked everybody out once.
const IDLE: usize = 4_095;

/// What a crowd does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bodies that come one byte at a time.
    SlowBodies,
    /// Headers that come one byte at a time.
    SlowHeaders,
    /// HTTP/1.1 connections after their only request.
    IdleHttp1,
    /// HTTP/2 connections without any.
    IdleHttp2,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 4] = [Kind::SlowBodies, Kind::SlowHeaders, Kind::IdleHttp1, Kind::IdleHttp2];

    /// For the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::SlowBodies => "slow-bodies",
            Kind::SlowHeaders => "slow-headers",
            Kind::IdleHttp1 => "idle-http1",
            Kind::IdleHttp2 => "idle-http2",
        }
    }

    /// For people.
    pub const fn text(self) -> &'static str {
        match self {
            Kind::SlowBodies => "200 slow bodies",
            Kind::SlowHeaders => "1,000 slow headers",
            Kind::IdleHttp1 => "4,095 idle HTTP/1.1 connections",
            Kind::IdleHttp2 => "4,095 idle HTTP/2 connections",
        }
    }
}

/// Where a crowd goes.
#[derive(Debug, Clone)]
pub struct Targets {
    pub http: SocketAddr,
    pub https: SocketAddr,
    pub ironic: SocketAddr,
    pub certificate: PathBuf,
}

impl Targets {
    /// For the command line.
    pub fn words(&self) -> [String; 4] {
        let Targets { http, https, ironic, certificate } = self;
        [http.to_string(), https.to_string(), ironic.to_string(), certificate.display().to_string()]
    }
}

/// `crowd KIND HTTP HTTPS IRONIC CERTIFICATE`
pub fn run(arguments: &[String]) -> anyhow::Result<()> {
    let [word, http, https, ironic, certificate] = arguments else { bail!("a crowd takes five arguments") };
    let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word).context("no such crowd")?;
    let targets = Targets {
        http: http.parse()?,
        https: https.parse()?,
        ironic: ironic.parse()?,
        certificate: certificate.into(),
    };
    sabakan::http::raise_open_files();
    let crowd = match kind {
        Kind::SlowBodies => Crowd::start(slow_bodies(&targets), ROUND),
        Kind::SlowHeaders => Crowd::start(vec![SlowRequest::headers(targets.http); 1_000], ROUND),
        Kind::IdleHttp1 => Crowd::start(vec![SlowRequest::idle(targets.http); IDLE], ROUND),
        Kind::IdleHttp2 => Crowd::start(vec![IdleHttp2::new(targets.https, &targets.certificate)?; IDLE], ROUND),
    };
    crowd.wait_until_open();
    println!("ready");
    let (ended, end) = mpsc::channel::<()>();
    thread::spawn(move || {
        // Its end is all there is to learn from it.
        let _ended = std::io::stdin().read_to_end(&mut Vec::new());
        drop(ended);
    });
    let end = end.recv_timeout(TIME_MAX);
    ensure!(end == Err(RecvTimeoutError::Disconnected), "nobody sent the crowd home within {TIME_MAX:?}");
    let Tally { open, came, thrown_out } = crowd.tally();
    println!("{open} {came} {thrown_out}");
    Ok(())
}

fn slow_bodies(targets: &Targets) -> Vec<SlowRequest> {
    let one = |number: usize| match number % 4 {
        0 => SlowRequest::body(targets.http, "POST", "/graphql"),
        1 => SlowRequest::body(targets.ironic, "POST", "/v1/heartbeat/1be26c0b-03f2-4d2e-ae87-c02d7f33c123"),
        _ => SlowRequest::body(targets.ironic, "POST", "/v1/continue_inspection"),
    };
    (0..200).map(one).collect()
}
