//! What becomes of Nodes, in lines that are sent as it happens. The state is looked at every few milliseconds; nobody tells.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use serde_json::json;
use tokio::sync::mpsc;

use super::{State, lock};

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A body whose lines come one by one.
pub struct Lines(mpsc::Receiver<Bytes>);

impl Body for Lines {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|line| line.map(|line| Ok(Frame::data(line))))
    }
}

/// Everything that becomes of Nodes after a version. Ends when the server is down.
pub fn events(state: Arc<Mutex<State>>, mut after: u64) -> Lines {
    let (sender, receiver) = mpsc::channel(64);
    tokio::spawn(async move {
        loop {
            let lines = {
                let state = lock(&state);
                if state.faults.down {
                    return;
                }
                let lines = since(&state, after);
                after = after.max(state.version);
                lines
            };
            for line in lines {
                if sender.send(Bytes::from(line)).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = sender.closed() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    });
    Lines(receiver)
}

fn since(state: &State, after: u64) -> Vec<String> {
    let deleted = state.deleted.iter().filter(|(version, _)| *version > after).map(|(version, name)| {
        let object = json!({ "metadata": { "name": name, "uid": "", "resourceVersion": version.to_string() } });
        (*version, json!({ "type": "DELETED", "object": object }))
    });
    let changed = state.nodes.values().filter(|node| node.version > after);
    let changed = changed.map(|node| (node.version, json!({ "type": "MODIFIED", "object": node.document() })));
    let mut events: Vec<_> = deleted.chain(changed).collect();
    events.sort_by_key(|(version, _)| *version);
    events.into_iter().map(|(_, event)| format!("{event}\n")).collect()
}
