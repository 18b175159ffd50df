//! `/api/v1/events`: the event feed as JSON lines or server-sent events.
//!
//! One task per feed asks the service for the next events when the last ones have gone out, so that a slow reader costs one chunk of
//! memory and holds nobody up. A reader that takes nothing for too long is told so, if it ever reads again, and dropped.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::{Query, State},
    http::{HeaderMap, HeaderName, header},
    response::{IntoResponse, Response},
};
use hyper::body::Frame;
use sabakan_domain::admission::{ClassShare, NoRoom, RoomShares};
use sabakan_service::{Change, EventStream, FeedEvent, Tokens, metrics::Metrics};
use sabakan_store::Revision;
use sabakan_wire::rest::{
    ErrorJson, ErrorKind, EventActorJson, EventJson, EventMarkJson, MachineJson, event_kinds as kinds,
};
use serde::Serialize;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{ApiError, App, access::Shown, read_within};
use crate::{
    http::{Room, RoomLedger, RoomSource},
    limits,
};

/// The bounds of event feeds. Not for users: tests shorten the waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedBounds {
    /// Feeds at once.
    pub feeds_max: usize,
    /// How long a feed may be silent.
    pub silence_max: Duration,
    /// How long a reader may take nothing.
    pub stall_max: Duration,
}

impl Default for FeedBounds {
    fn default() -> FeedBounds {
        FeedBounds {
            feeds_max: limits::FEEDS_MAX,
            silence_max: limits::FEED_SILENCE_MAX,
            stall_max: limits::FEED_STALL_MAX,
        }
    }
}

/// What all feeds of a server share.
pub struct FeedRoom {
    bounds: FeedBounds,
    places: Arc<RoomLedger>,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
}

impl FeedRoom {
    /// Room for feeds, which all end when `stop` says so.
    pub fn new(bounds: FeedBounds, metrics: Arc<Metrics>, stop: CancellationToken) -> FeedRoom {
        let places = RoomLedger::new(shares(bounds.feeds_max as u64), metrics.feeds.clone());
        FeedRoom { bounds, places, metrics, stop }
    }

    /// A place for one feed.
    fn enter(&self, source: RoomSource) -> Result<Room, ApiError> {
        self.places.take(source, 1).map_err(|no_room| {
            self.metrics.refused("feeds", no_room.as_str());
            let all = self.bounds.feeds_max;
            let text = match no_room {
                NoRoom::Address => {
                    format!("your address has its share of the {all} event feeds; close one, or try again later")
                }
                NoRoom::Class => {
                    format!("callers without rights have their share of the {all} event feeds; try again later")
                }
                NoRoom::Full => format!("all {all} event feeds are open or kept for others; try again later"),
            };
            ApiError::new(ErrorKind::Unavailable, text)
        })
    }
}

/// How feeds are shared out. Everybody but operators leaves some for them, and for each other.
fn shares(total: u64) -> RoomShares {
    let reserve = total / limits::FEEDS_RESERVE as u64;
    let strangers = ClassShare { reserve: 0, max: total.div_ceil(2), per_address: (reserve / 2).max(1) };
    let classes = [
        ClassShare { reserve, max: total, per_address: total },
        ClassShare { reserve, max: total, per_address: total.div_ceil(4) },
        strangers,
        strangers,
    ];
    RoomShares { total, classes }
}

/// What changed, in order, as JSON lines, or as server-sent events for `Accept: text/event-stream`. Without `after` it begins with
/// every machine as it is (`snapshot`) and a line `snapshot-end`. Everything up to the revision of a line without `more` has been
/// sent: ask for what comes after it. Lines of the kinds `snapshot-end`, `progress`, `gone`, `dropped` and `failed` are about the
/// feed itself; the last three end it.
#[utoipa::path(get, path = "/api/v1/events", tag = "events", operation_id = "followEvents",
    params(
        ("after" = Option<u64>, Query, description = "Only what happened after this revision; the header `Last-Event-ID` comes first"),
        ("follow" = Option<bool>, Query, description = "Stay open and send what happens"),
    ),
    responses(
    (status = 200, description = "One event per line", content(
        (EventJson = "application/x-ndjson"), (EventMarkJson = "text/event-stream"),
    )),
    (status = 400, description = "Not a revision, or one that has not happened yet", body = ErrorJson),
    (status = 410, description = "The store has forgotten what happened after this revision; start without `after`", body = ErrorJson),
    (status = 503, description = "Too many feeds are open, or the store does not answer", body = ErrorJson),
))]
pub async fn follow(
    State(app): State<App>,
    shown: Option<Extension<Shown>>,
    Extension(source): Extension<RoomSource>,
    headers: HeaderMap,
    Query(pairs): Query<Vec<(String, String)>>,
) -> Result<Response, ApiError> {
    let (after, follow) = asked(&headers, &pairs)?;
    let room = &app.feed_room;
    let place = room.enter(source)?;
    let stream = read_within(app.feeds.open(after, follow)).await?;
    let format = Format::of(&headers);
    let (sender, chunks) = mpsc::channel(1);
    let farewell = Arc::new(OnceLock::new());
    let permit = shown.map(|Extension(Shown(id))| (Arc::clone(&app.tokens), id));
    let sending = Sending { stream, format, sender, farewell: Arc::clone(&farewell), permit, _place: place };
    tokio::spawn(sending.run(room.bounds, room.stop.clone()));
    let head = [
        (header::CONTENT_TYPE, format.content_type()),
        (header::CACHE_CONTROL, "no-store"),
        // Asks a proxy that is known to collect answers not to.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((head, Body::new(EventBody { chunks, farewell: Some(farewell) })).into_response())
}

/// After which revision, and whether to stay. A client that resumes by itself repeats its first URL, so its header counts more.
fn asked(headers: &HeaderMap, pairs: &[(String, String)]) -> Result<(Option<Revision>, bool), ApiError> {
    let given = |name: &str| pairs.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let after = last.or(given("after")).filter(|text| !text.is_empty());
    let number = |text: &str| match text.parse::<u64>() {
        // The next one is asked for, and one store counts with a sign.
        Ok(number) if number < i64::MAX as u64 => Ok(Revision(number)),
        _ => Err(ApiError::invalid(format!("after is {text:?}, a revision such as 1234 is expected"))),
    };
    let follow = match given("follow") {
        None | Some("false" | "0") => false,
        Some("" | "true" | "1") => true,
        Some(text) => return Err(ApiError::invalid(format!("follow is {text:?}, true or false is expected"))),
    };
    Ok((after.map(number).transpose()?, follow))
}

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Lines,
    ServerSent,
}

impl Format {
    fn of(headers: &HeaderMap) -> Format {
        let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let wanted = accepted.flat_map(|value| value.split(',')).map(|kind| kind.split(';').next().unwrap_or_default());
        let server_sent = |kind: &str| kind.trim().eq_ignore_ascii_case("text/event-stream");
        if wanted.into_iter().any(server_sent) { Format::ServerSent } else { Format::Lines }
    }

    fn content_type(self) -> &'static str {
        match self {
            Format::Lines => "application/x-ndjson",
            Format::ServerSent => "text/event-stream",
        }
    }

    /// Writes one line. `resume`: the revision a reader that has this line may go on after.
    fn write(self, out: &mut Vec<u8>, kind: &str, resume: Option<u64>, line: &impl Serialize) {
        if self == Format::ServerSent {
            if let Some(revision) = resume {
                out.extend_from_slice(format!("id: {revision}\n").as_bytes());
            }
            out.extend_from_slice(format!("event: {kind}\ndata: ").as_bytes());
        }
        serde_json::to_writer(&mut *out, line).expect("texts and numbers serialise into memory");
        out.push(b'\n');
        if self == Format::ServerSent {
            out.push(b'\n');
        }
    }

    fn mark(self, out: &mut Vec<u8>, mark: &EventMarkJson) {
        // Whoever is told that history is gone must not ask for it again.
        let resume = mark.revision.filter(|_| mark.kind != kinds::GONE);
        self.write(out, &mark.kind, resume, mark);
    }

    fn event(self, out: &mut Vec<u8>, event: FeedEvent) {
        match event {
            FeedEvent::Snapshot { revision, at, machine } => {
                let line = EventJson {
                    revision: revision.0,
                    time: Some(at.to_string()),
                    kind: kinds::SNAPSHOT.to_owned(),
                    serial: machine.serial.to_string(),
                    actor: None,
                    before: None,
                    after: Some(MachineJson::new(&machine, at)),
                    more: true,
                };
                self.write(out, kinds::SNAPSHOT, None, &line);
            }
            FeedEvent::Change(change) => {
                let line = shape(*change);
                self.write(out, &line.kind, (!line.more).then_some(line.revision), &line);
            }
            FeedEvent::SnapshotEnd { revision } => {
                self.mark(out, &EventMarkJson::new(kinds::SNAPSHOT_END, Some(revision.0)));
            }
            FeedEvent::Progress { revision } => self.mark(out, &EventMarkJson::new(kinds::PROGRESS, Some(revision.0))),
            FeedEvent::Gone { revision, oldest } => {
                let error = format!("the changes after revision {revision} are no longer kept; start without `after`");
                let mark = EventMarkJson::new(kinds::GONE, Some(revision.0));
                self.mark(out, &EventMarkJson { oldest: Some(oldest.0), error: Some(error), ..mark });
            }
            FeedEvent::Failed { revision } => {
                let error = Some("the server cannot go on at the moment; try again".to_owned());
                let mark = EventMarkJson::new(kinds::FAILED, revision.map(|revision| revision.0));
                self.mark(out, &EventMarkJson { error, ..mark });
            }
        }
    }
}

/// How long a machine was in its state is counted up to the change, so that the same event is always the same text.
fn shape(change: Change) -> EventJson {
    let Change { revision, at, kind, serial, actor, before, after, more } = change;
    let machine =
        |machine: sabakan_domain::machine::Machine| MachineJson::new(&machine, at.unwrap_or(machine.status.since));
    EventJson {
        revision: revision.0,
        time: at.map(|at| at.to_string()),
        kind,
        serial,
        actor: actor.as_ref().map(EventActorJson::from),
        before: before.map(machine),
        after: after.map(machine),
        more,
    }
}

/// The task that sends one feed.
struct Sending {
    stream: EventStream,
    format: Format,
    sender: mpsc::Sender<Bytes>,
    farewell: Arc<OnceLock<Bytes>>,
    /// The token that opened the feed. Revoked, it ends with the next event, or when it would have been silent.
    permit: Option<(Arc<Tokens>, String)>,
    _place: Room,
}

impl Sending {
    /// Runs until the feed is over, its reader is gone or too slow, or the server stops.
    async fn run(self, bounds: FeedBounds, stop: CancellationToken) {
        let Sending { mut stream, format, sender, farewell, permit, _place } = self;
        loop {
            let place = tokio::select! {
                () = stop.cancelled() => return,
                place = timeout(bounds.stall_max, sender.reserve()) => place,
            };
            let place = match place {
                Ok(Ok(place)) => place,
                Ok(Err(_reader_left)) => return,
                Err(_) => {
                    // Set once: the task ends here.
                    let _first = farewell.set(too_slow(format, stream.reached(), bounds.stall_max));
                    return;
                }
            };
            let next = tokio::select! {
                () = stop.cancelled() => return,
                () = sender.closed() => return,
                next = timeout(bounds.silence_max, stream.next()) => next,
            };
            if permit.as_ref().is_some_and(|(tokens, id)| !tokens.is_known(id)) {
                return;
            }
            let events = match next {
                Ok(Some(events)) => events,
                Ok(None) => return,
                // Tells the reader how far it is, and us whether it is still there.
                Err(_) => stream.reached().map(|revision| FeedEvent::Progress { revision }).into_iter().collect(),
            };
            let mut text = Vec::new();
            events.into_iter().for_each(|event| format.event(&mut text, event));
            place.send(text.into());
        }
    }
}

/// The last word to a reader that takes nothing, for the case that it reads again.
fn too_slow(format: Format, reached: Option<Revision>, waited: Duration) -> Bytes {
    let (revision, seconds) = (reached.map(|revision| revision.0), waited.as_secs_f64());
    tracing::info!(?revision, seconds, "the reader of an event feed takes nothing and was dropped");
    let error = format!("nothing was taken for {seconds} s; ask again after this revision");
    let mark = EventMarkJson { error: Some(error), ..EventMarkJson::new(kinds::DROPPED, revision) };
    let mut text = Vec::new();
    format.mark(&mut text, &mark);
    text.into()
}

/// What the task hands over, and the last word of a feed whose reader was too slow for it.
struct EventBody {
    chunks: mpsc::Receiver<Bytes>,
    farewell: Option<Arc<OnceLock<Bytes>>>,
}

impl hyper::body::Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = std::task::ready!(self.chunks.poll_recv(context));
        let last = || self.farewell.take().and_then(|farewell| farewell.get().cloned());
        Poll::Ready(chunk.or_else(last).map(|text| Ok(Frame::data(text))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_leave_feeds_for_others() {
        let RoomShares { total, classes: [operators, tokens, machines, others] } = shares(limits::FEEDS_MAX as u64);
        assert_eq!((total, operators.reserve, tokens.reserve), (256, 32, 32));
        assert_eq!((machines, others), (others, ClassShare { reserve: 0, max: 128, per_address: 16 }));
        assert_eq!((operators.per_address, tokens.per_address), (256, 64));
    }

    #[test]
    fn what_is_asked_for() {
        let check = |header: Option<&str>, pairs: &[(&str, &str)], expected: Result<(Option<u64>, bool), &str>| {
            let mut headers = HeaderMap::new();
            if let Some(text) = header {
                headers.insert("last-event-id", text.parse().expect("a header"));
            }
            let pairs: Vec<_> = pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
            let asked = asked(&headers, &pairs).map(|(after, follow)| (after.map(|after| after.0), follow));
            assert_eq!(
                asked.map_err(|error| error.text()),
                expected.map_err(|text| format!("invalid request: {text}"))
            );
        };
        check(None, &[], Ok((None, false)));
        check(None, &[("after", ""), ("follow", "")], Ok((None, true)));
        check(None, &[("after", "0"), ("follow", "true")], Ok((Some(0), true)));
        check(None, &[("after", "17"), ("follow", "false"), ("other", "x")], Ok((Some(17), false)));
        check(Some("18"), &[("after", "17")], Ok((Some(18), false)));
        check(Some(""), &[("after", "17")], Ok((None, false)));
        check(None, &[("follow", "maybe")], Err("follow is \"maybe\", true or false is expected"));
        for bad in ["-1", "x", "1.0", "9223372036854775807", "99999999999999999999"] {
            let text = format!("after is {bad:?}, a revision such as 1234 is expected");
            check(None, &[("after", bad)], Err(&text));
        }
    }

    #[test]
    fn formats() {
        let check = |accept: &str, expected: Format| {
            let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().expect("a header"))]);
            assert_eq!(Format::of(&headers), expected, "{accept}");
        };
        check("text/event-stream", Format::ServerSent);
        check("application/json;q=0.1, Text/Event-Stream;q=0.9", Format::ServerSent);
        check("*/*", Format::Lines);
        check("application/json", Format::Lines);
        assert_eq!(Format::of(&HeaderMap::new()), Format::Lines);
        let written = |format: Format, kind: &str| {
            let mut text = Vec::new();
            format.mark(&mut text, &EventMarkJson::new(kind, Some(7)));
            String::from_utf8(text).expect("UTF-8")
        };
        assert_eq!(written(Format::Lines, "progress"), "{\"kind\":\"progress\",\"revision\":7}\n");
        let expected = "id: 7\nevent: progress\ndata: {\"kind\":\"progress\",\"revision\":7}\n\n";
        assert_eq!(written(Format::ServerSent, "progress"), expected);
        let expected = "event: gone\ndata: {\"kind\":\"gone\",\"revision\":7}\n\n";
        assert_eq!(written(Format::ServerSent, "gone"), expected);
    }
}
