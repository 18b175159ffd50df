//! `/metrics`: the figures of `sabakan_service::metrics` for Prometheus, on the listeners for HTTP, or on their own.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    http::header,
    response::{IntoResponse, Response},
    routing::get,
};
use hyper::body::Frame;
use sabakan_service::metrics::{CONTENT_TYPE, Scrape, Scrapes};
use sabakan_wire::rest::ErrorKind;
use tokio::{sync::Semaphore, time::timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{limits, rest::ApiError};

/// Where they are asked for.
pub const PATH: &str = "/metrics";

/// What answers scrapes.
#[derive(Clone)]
pub struct Scraped {
    scrapes: Arc<Scrapes>,
    /// For figures that are being collected.
    places: Arc<Semaphore>,
    /// For answers that are not read yet: apart, or a few readers that take nothing would shut Prometheus out.
    unread: Arc<Semaphore>,
    time_max: Duration,
}

impl Scraped {
    /// Answers scrapes, a bounded number at once.
    pub fn new(scrapes: Scrapes) -> Scraped {
        let places = Arc::new(Semaphore::new(limits::SCRAPES_MAX));
        let unread = Arc::new(Semaphore::new(limits::SCRAPES_UNREAD_MAX));
        Scraped { scrapes: Arc::new(scrapes), places, unread, time_max: limits::SCRAPE_TIME_MAX }
    }

    /// The one route, to be merged with others.
    pub fn route(self) -> Router {
        let wrong_method = async || ApiError::new(ErrorKind::MethodNotAllowed, "");
        Router::new().route(PATH, get(scrape)).method_not_allowed_fallback(wrong_method).with_state(self)
    }

    /// The whole of a listener that serves nothing else.
    pub fn alone(self) -> Router {
        self.route().fallback(async || ApiError::new(ErrorKind::NotFound, ""))
    }
}

async fn scrape(State(scraped): State<Scraped>) -> Result<Response, ApiError> {
    let Scraped { scrapes, places, unread, time_max } = scraped;
    let until = Instant::now() + time_max;
    let (Ok(place), Ok(answer)) = (places.try_acquire_owned(), unread.try_acquire_owned()) else {
        let (most, unread) = (limits::SCRAPES_MAX, limits::SCRAPES_UNREAD_MAX);
        let text = format!("{most} scrapes are under way or {unread} not read yet, more are not accepted; try again");
        return Err(ApiError::new(ErrorKind::Unavailable, text));
    };
    let Ok(begun) = timeout(time_max, scrapes.begin()).await else {
        return Err(ApiError::new(ErrorKind::Unavailable, "the figures took too long to collect; try again"));
    };
    drop(place);
    let scrape = begun?;
    // A reader that takes nothing keeps its connection a while longer, but not its place.
    let sent = CancellationToken::new();
    let done = sent.clone().drop_guard();
    tokio::spawn(async move {
        let _over = timeout(time_max, sent.cancelled()).await;
        drop(answer);
    });
    let body = Body::new(ScrapeBody { scrape, until, _done: done });
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], body).into_response())
}

/// An answer that is written while it is sent. It breaks off when it takes too long: half of the machines must not look like all.
struct ScrapeBody {
    scrape: Scrape,
    until: Instant,
    _done: DropGuard,
}

/// The reader was too slow.
#[derive(Debug, thiserror::Error)]
#[error("the scrape took too long")]
struct TooSlow;

impl hyper::body::Body for ScrapeBody {
    type Data = Bytes;
    type Error = TooSlow;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, TooSlow>>> {
        let body = self.get_mut();
        let chunk = body.scrape.next_chunk();
        if chunk.is_some() && Instant::now() > body.until {
            return Poll::Ready(Some(Err(TooSlow)));
        }
        Poll::Ready(chunk.map(|text| Ok(Frame::data(text.into()))))
    }
}

#[cfg(test)]
mod tests {
    use sabakan_domain::ipam::OutsidePool;
    use sabakan_service::{
        Foundation, SystemClock,
        metrics::{Metrics, MetricsOptions},
    };
    use sabakan_store::{embedded::EmbeddedStore, keys::Keys};

    use super::*;

    async fn scraped(dir: &std::path::Path) -> Scraped {
        let store = Arc::new(EmbeddedStore::open(&dir.join("s.db")).expect("a store"));
        let keys = Keys::new("/sabakan/", "/states/");
        let on = Foundation::open(store, keys, Arc::new(SystemClock), OutsidePool::Refuse, "here".into()).await;
        let metrics = Arc::new(Metrics::new(MetricsOptions::default(), "1"));
        Scraped::new(Scrapes::new(Arc::new(on.expect("a foundation")), metrics))
    }

    #[tokio::test]
    async fn only_some_scrapes_are_served_at_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let scraped = scraped(dir.path()).await;
        let mut open = Vec::new();
        // Many more than are collected at once: their readers take their time.
        for _ in 0..limits::SCRAPES_UNREAD_MAX {
            open.push(scrape(State(scraped.clone())).await.expect("a place"));
        }
        let refused = scrape(State(scraped.clone())).await.expect_err("full");
        assert_eq!(refused.status().as_u16(), 503);
        assert_eq!(refused.text(), "4 scrapes are under way or 32 not read yet, more are not accepted; try again");
        open.pop();
        given_back(&scraped, 1).await;
        scrape(State(scraped.clone())).await.expect("a place");
    }

    /// Places are given back by tasks.
    async fn given_back(scraped: &Scraped, places: usize) {
        let free = async {
            while scraped.unread.available_permits() < places {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(30), free).await.expect("places are given back");
    }

    #[tokio::test]
    async fn whoever_takes_nothing_loses_the_place_and_gets_no_half_answer() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut scraped = scraped(dir.path()).await;
        scraped.time_max = Duration::from_millis(500);
        let late = scrape(State(scraped.clone())).await.expect("a place");
        given_back(&scraped, limits::SCRAPES_UNREAD_MAX).await;
        let error = axum::body::to_bytes(late.into_body(), usize::MAX).await.expect_err("too late").to_string();
        assert_eq!(error, "the scrape took too long");
    }
}
