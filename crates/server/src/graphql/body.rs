//! The body of an answer, made while it is sent: a client that reads slowly costs one chunk and a reference to each machine found,
//! for which there is bounded room over all answers (`service::FoundMachines`).

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use axum::body::{Body, Bytes};
use hyper::body::Frame;
use sabakan_graphql::{Answer, Chunks};

use crate::limits;

/// The body. One that fits into a chunk is whole, and has a length.
pub(super) fn of(answer: Answer) -> Body {
    let mut chunks = answer.into_chunks();
    match gather(&mut chunks) {
        (first, true) => Body::from(first),
        (first, false) => Body::new(Streamed { first: Some(first), chunks }),
    }
}

struct Streamed {
    first: Option<Vec<u8>>,
    chunks: Chunks,
}

impl hyper::body::Body for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let body = self.get_mut();
        let chunk = body.first.take().unwrap_or_else(|| gather(&mut body.chunks).0);
        Poll::Ready((!chunk.is_empty()).then(|| Ok(Frame::data(chunk.into()))))
    }
}

/// The next bytes, and whether they are the last.
fn gather(chunks: &mut Chunks) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    for chunk in chunks.by_ref() {
        if bytes.is_empty() {
            bytes = chunk;
        } else {
            bytes.extend_from_slice(&chunk);
        }
        if bytes.len() >= limits::GRAPHQL_CHUNK_BYTES {
            return (bytes, false);
        }
    }
    (bytes, true)
}
