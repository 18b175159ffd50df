//! Closes a connection whose client takes nothing of what it asked for. hyper bounds how long a client may take to send; without
//! this, one that never reads would keep its connection and a buffer for ever, and hold up a server that stops.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep_until},
};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::activity::Activity;

/// How long a client may take nothing.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// While the server runs.
    pub running: Duration,
    /// Once it was told to stop.
    pub stopping: Duration,
}

/// A connection that fails when nothing can be written for too long.
pub struct StallGuard<S> {
    stream: S,
    patience: Patience,
    /// Present while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
    stop: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Learns what comes and goes.
    activity: Option<Arc<Activity>>,
}

impl<S> StallGuard<S> {
    /// Guards a stream.
    pub fn new(stream: S, patience: Patience, stop: CancellationToken) -> StallGuard<S> {
        StallGuard { stream, patience, waiting: None, stop: Some(Box::pin(stop.cancelled_owned())), activity: None }
    }

    /// The same, telling what comes and goes.
    pub fn telling(self, activity: Arc<Activity>) -> StallGuard<S> {
        StallGuard { activity: Some(activity), ..self }
    }

    /// Tells that the client took something.
    fn tell(&self, outcome: &Poll<io::Result<usize>>) {
        if let (Some(activity), Poll::Ready(Ok(1..))) = (&self.activity, outcome) {
            activity.taken();
        }
    }

    /// Passes on what a write came to, or its failure when it has waited too long.
    fn judge<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting = None;
            return outcome;
        }
        let until = |patience: Duration| Instant::now() + patience;
        let running = self.patience.running;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep_until(until(running))));
        if self.stop.as_mut().is_some_and(|stop| stop.as_mut().poll(context).is_ready()) {
            self.stop = None;
            self.patience.running = self.patience.stopping;
            let sooner = waiting.deadline().min(until(self.patience.stopping));
            waiting.as_mut().reset(sooner);
        }
        std::task::ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes nothing")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let guard = self.get_mut();
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut guard.stream).poll_read(context, buffer);
        if let Some(activity) = guard.activity.as_ref().filter(|_| buffer.filled().len() > before) {
            activity.came();
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let guard = self.get_mut();
        let outcome = Pin::new(&mut guard.stream).poll_write(context, bytes);
        guard.tell(&outcome);
        guard.judge(context, outcome)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let guard = self.get_mut();
        let outcome = Pin::new(&mut guard.stream).poll_write_vectored(context, parts);
        guard.tell(&outcome);
        guard.judge(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let guard = self.get_mut();
        let outcome = Pin::new(&mut guard.stream).poll_flush(context);
        guard.judge(context, outcome)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    const LONG: Duration = Duration::from_secs(600);
    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_given_up() {
        let (ours, theirs) = duplex(8);
        let patience = Patience { running: SHORT, stopping: SHORT };
        let mut guard = StallGuard::new(ours, patience, CancellationToken::new());
        let error = guard.write_all(&[0; 100]).await.expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(theirs);
    }

    #[tokio::test]
    async fn the_wait_begins_anew_with_every_byte_taken() {
        let (ours, mut theirs) = duplex(1);
        let patience = Patience { running: LONG, stopping: SHORT };
        let mut guard = StallGuard::new(ours, patience, CancellationToken::new());
        let reading = tokio::spawn(async move {
            let mut all = [0; 100];
            theirs.read_exact(&mut all).await.map(|_| theirs)
        });
        guard.write_all(&[7; 100]).await.expect("somebody reads");
        assert!(guard.waiting.is_none(), "nothing waits once all is written");
        assert!(reading.await.expect("the reader").is_ok());
    }

    #[tokio::test]
    async fn a_server_that_stops_does_not_wait_for_it() {
        let (ours, theirs) = duplex(8);
        let stop = CancellationToken::new();
        let patience = Patience { running: LONG, stopping: SHORT };
        let mut guard = StallGuard::new(ours, patience, stop.clone());
        let writing = tokio::spawn(async move { guard.write_all(&[0; 100]).await });
        stop.cancel();
        let error = writing.await.expect("the writer").expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(theirs);
    }
}
