//! What one connection is at: a request under way, one that begins to come, or nothing. Decides when a connection has been quiet for
//! too long; `connections` decides which of the quiet ones goes when there is no room.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::HeaderValue,
};
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, sleep, sleep_until};

use super::connections::{ConnectionBounds, Place};
use crate::limits;

/// One connection.
pub struct Activity {
    place: Place,
    bounds: ConnectionBounds,
    now: Mutex<Now>,
}

struct Now {
    /// Requests whose answers are not sent.
    requests: usize,
    /// The end of the last one, or of the handshake.
    idle_since: Instant,
    /// When the first byte of the next request came.
    begun: Option<Instant>,
    /// When bytes were last taken by the client.
    taken: Instant,
    /// Whether it speaks HTTP/2.
    framed: bool,
}

impl Activity {
    /// A connection that was accepted now.
    pub fn new(place: Place, bounds: ConnectionBounds) -> Arc<Activity> {
        let now = Instant::now();
        let now = Now { requests: 0, idle_since: now, begun: None, taken: now, framed: false };
        Arc::new(Activity { place, bounds, now: Mutex::new(now) })
    }

    /// A request begins. It ends when the answer's body, to which the result belongs, is dropped.
    pub fn request(self: &Arc<Self>) -> RequestUnderWay {
        let mut now = self.lock();
        now.requests += 1;
        now.begun = None;
        if now.requests == 1 {
            self.place.mark(None);
        }
        RequestUnderWay(Arc::clone(self))
    }

    /// The connection speaks HTTP/2: bytes between requests are frames about the connection.
    pub fn has_frames(&self) {
        let mut now = self.lock();
        now.framed = true;
        now.begun = None;
    }

    /// What clients are told about how long the connection is kept, unless that is too short to be worth a word.
    pub fn keep_alive(&self) -> Option<HeaderValue> {
        let seconds = self.bounds.idle_max.saturating_sub(limits::IDLE_TIME_SLACK).as_secs();
        if seconds == 0 { None } else { HeaderValue::try_from(format!("timeout={seconds}")).ok() }
    }

    /// Bytes came. Between requests they are the beginning of the next one.
    pub fn came(&self) {
        let mut now = self.lock();
        if now.requests == 0 && now.begun.is_none() && !now.framed {
            now.begun = Some(Instant::now());
        }
    }

    /// The client took bytes.
    pub fn taken(&self) {
        self.lock().taken = Instant::now();
    }

    /// Returns once the connection is not worth keeping: another one needs its place, or it was quiet for too long.
    pub async fn over(&self) -> Over {
        let mut timer = pin!(sleep_until(Instant::now() + self.bounds.idle_max));
        let mut shed = pin!(self.place.shed.cancelled());
        // Polled whenever the connection is, so a change of the deadline needs nobody to tell of it.
        poll_fn(|context| {
            if shed.as_mut().poll(context).is_ready() {
                return Poll::Ready(Over::Shed);
            }
            loop {
                let (until, over) = self.deadline();
                if timer.deadline() != until {
                    timer.as_mut().reset(until);
                }
                ready!(timer.as_mut().poll(context));
                if let Some(over) = over {
                    return Poll::Ready(over);
                }
            }
        })
        .await
    }

    /// When to look again, and what is over by then if nothing happens.
    fn deadline(&self) -> (Instant, Option<Over>) {
        let now = self.lock();
        match (now.requests, now.begun) {
            (0, Some(begun)) => (begun + self.bounds.header_max, Some(Over::SlowHeaders)),
            (0, None) => (now.idle_since + self.bounds.idle_max, Some(Over::Idle)),
            // Counted from something that stands still, or the deadline would move with every look.
            (_, _) => (next_look(now.idle_since, self.bounds.idle_max), None),
        }
    }

    /// Returns when a connection that was told to close has neither a request under way nor a client that takes its answer. One that
    /// keeps us talking without a request is not waited for much longer.
    pub async fn quiet(&self) {
        let told = Instant::now();
        loop {
            sleep(limits::LEAVE_TIME_MAX).await;
            let now = self.lock();
            let quiet = now.idle_since.max(now.taken).elapsed() >= limits::LEAVE_TIME_MAX;
            let talks_on = now.idle_since.max(told).elapsed() >= limits::FAREWELL_TIME_MAX;
            if now.requests == 0 && (quiet || talks_on) {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().expect("no holder of this lock panics")
    }
}

/// The first multiple of `every` after `since` that is yet to come.
fn next_look(since: Instant, every: Duration) -> Instant {
    let every = every.max(Duration::from_millis(1));
    let passed = since.elapsed().as_nanos() / every.as_nanos();
    since + every.saturating_mul(u32::try_from(passed + 1).unwrap_or(u32::MAX))
}

/// Why a connection ends that nobody closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Somebody else needs its place.
    Shed,
    /// It had no request for too long.
    Idle,
    /// The headers of a request took too long.
    SlowHeaders,
}

/// A request whose answer is not sent.
pub struct RequestUnderWay(Arc<Activity>);

impl RequestUnderWay {
    /// An answer's body with which the request ends.
    pub fn until_sent(self, body: Body) -> Body {
        Body::new(AnswerBody { body, _request: self })
    }
}

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        let mut now = self.0.lock();
        now.requests -= 1;
        if now.requests == 0 {
            now.idle_since = Instant::now();
            self.0.place.mark(Some(now.idle_since));
        }
    }
}

struct AnswerBody {
    body: Body,
    _request: RequestUnderWay,
}

impl hyper::body::Body for AnswerBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
