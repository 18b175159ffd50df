//! Request bodies as they come in: what has arrived takes room of its sender's share, and whoever sends too slowly is given up.
//! Handlers read a body as any other and learn of a refusal as its error (`rest::body`).

use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use sabakan_domain::admission::{BodyPace, ClassShare, NoRoom, RoomShares};
use sabakan_service::metrics::Metrics;
use tokio::time::{Instant, Sleep, sleep_until};

use super::room::{Room, RoomLedger, RoomSource};
use crate::limits;

/// The bounds of request bodies. Not for users: tests shorten the waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyBounds {
    /// How slowly a body may come.
    pub pace: BodyPace,
    /// How long nothing of it may come.
    pub pause_max: Duration,
}

impl Default for BodyBounds {
    fn default() -> BodyBounds {
        let pace = BodyPace { grace: limits::BODY_GRACE, bytes_per_second_min: limits::BODY_BYTES_PER_SECOND_MIN };
        BodyBounds { pace, pause_max: limits::BODY_PAUSE_MAX }
    }
}

/// What all bodies of a server share.
pub struct BodyRoom {
    bounds: BodyBounds,
    ledger: Arc<RoomLedger>,
    metrics: Arc<Metrics>,
}

impl BodyRoom {
    /// Room for bodies, of which none is here.
    pub fn new(bounds: BodyBounds, metrics: Arc<Metrics>) -> BodyRoom {
        BodyRoom { bounds, ledger: RoomLedger::new(SHARES, metrics.body_bytes.clone()), metrics }
    }
}

const fn mib(reserve: u64, max: u64, per_address: u64) -> ClassShare {
    ClassShare { reserve: reserve << 20, max: max << 20, per_address: per_address << 20 }
}

/// Operators, tokens, machines, everybody else. An address has room for two of the largest bodies its class may send.
const SHARES: RoomShares = RoomShares {
    total: limits::BODIES_BYTES_MAX,
    classes: [mib(64, 256, 256), mib(32, 192, 64), mib(32, 128, 32), mib(8, 64, 16)],
};

/// Why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyRefusal {
    /// There is no room for it.
    #[error("no room for the body")]
    NoRoom(NoRoom),
    /// It comes too slowly.
    #[error("the body comes too slowly")]
    TooSlow,
    /// The connection broke.
    #[error("the body ended early")]
    Broken(#[source] hyper::Error),
}

impl BodyRefusal {
    /// Finds it in what reading a body failed with.
    pub fn of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a BodyRefusal> {
        error.downcast_ref().or_else(|| error.source().and_then(BodyRefusal::of))
    }
}

/// A body on its way in. What it took is given back when it is dropped, so whoever keeps its bytes keeps it as well.
pub struct MeteredBody {
    inner: Incoming,
    shared: Arc<BodyRoom>,
    source: RoomSource,
    room: Option<Room>,
    received: u64,
    /// Since when somebody reads it, and when the last bytes came.
    times: Option<(Instant, Instant)>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl MeteredBody {
    /// A body of this caller.
    pub fn new(inner: Incoming, shared: Arc<BodyRoom>, source: RoomSource) -> MeteredBody {
        MeteredBody { inner, shared, source, room: None, received: 0, times: None, timer: None }
    }

    /// Takes room for what came. In steps, so that the books are not opened for every packet; a small body takes what it announced.
    fn account(&mut self, came: u64, announced_rest: Option<u64>) -> Result<(), NoRoom> {
        self.received += came;
        let held = self.room.as_ref().map_or(0, Room::amount);
        let Some(missing) = self.received.checked_sub(held).filter(|missing| *missing > 0) else { return Ok(()) };
        let step = missing.next_multiple_of(limits::BODY_STEP_BYTES);
        let wanted = announced_rest.map_or(step, |rest| step.min(missing + rest));
        match &mut self.room {
            Some(room) => room.grow(wanted),
            none => self.shared.ledger.take(self.source, wanted).map(|room| *none = Some(room)),
        }
    }

    fn refuse(&self, refusal: BodyRefusal) -> BodyRefusal {
        match &refusal {
            BodyRefusal::NoRoom(no_room) => self.shared.metrics.refused("bodies", no_room.as_str()),
            BodyRefusal::TooSlow => self.shared.metrics.refused("bodies", "slow"),
            BodyRefusal::Broken(_) => {}
        }
        refusal
    }

    /// Ready once the next bytes are overdue.
    fn poll_overdue(&mut self, begun: Instant, last: Instant, context: &mut Context<'_>) -> Poll<()> {
        let BodyBounds { pace, pause_max } = self.shared.bounds;
        let until = (begun + pace.allows(self.received)).min(last + pause_max);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
        if timer.deadline() != until {
            timer.as_mut().reset(until);
        }
        timer.as_mut().poll(context)
    }
}

impl Body for MeteredBody {
    type Data = Bytes;
    type Error = BodyRefusal;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyRefusal>>> {
        let body = self.get_mut();
        let now = Instant::now();
        let (begun, last) = *body.times.get_or_insert((now, now));
        match Pin::new(&mut body.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    body.times = Some((begun, now));
                    let rest = body.inner.size_hint().exact();
                    if let Err(no_room) = body.account(data.len() as u64, rest) {
                        return Poll::Ready(Some(Err(body.refuse(BodyRefusal::NoRoom(no_room)))));
                    }
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(BodyRefusal::Broken(error)))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                ready!(body.poll_overdue(begun, last, context));
                Poll::Ready(Some(Err(body.refuse(BodyRefusal::TooSlow))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use sabakan_domain::admission::CallerClass;

    use super::*;

    /// Otherwise there would be bodies that are allowed and always refused.
    #[test]
    fn every_address_has_room_for_the_largest_body_of_its_class() {
        let check = |class: CallerClass, largest: usize| {
            let ClassShare { max, per_address, .. } = SHARES.classes[class.place()];
            let largest = largest as u64;
            assert!(per_address >= 2 * largest && max >= per_address, "{class:?}");
        };
        let largest = limits::MACHINES_BYTES_MAX.max(limits::CONFIGURATION_BYTES_MAX);
        check(CallerClass::Operator, largest);
        check(CallerClass::Authenticated, largest);
        check(CallerClass::Machine, limits::INSPECTION_BYTES_MAX);
        check(CallerClass::Anonymous, limits::GRAPHQL_BYTES_MAX);
        let reserves: u64 = SHARES.classes.iter().map(|share| share.reserve).sum();
        assert!(reserves < SHARES.total);
    }
}
