//! The answer to a request that was run: `errors` if there are any, then `data`, in pieces that are made while they are sent.

use std::sync::Arc;

use async_graphql::Value;
use jiff::Timestamp;
use sabakan_service::{FoundMachines, ServiceError};

use crate::{
    limits::{ERRORS_MAX, MACHINES_PER_CHUNK},
    objects::{MachineObject, StatusObject},
    problem::Problem,
    render::{Chosen, Found, Slot, write, write_json},
};

/// What came of a request. Execution errors are part of it.
#[derive(Debug)]
pub struct Answer {
    /// What went wrong in fields; if anything did, there is no data.
    pub problems: Vec<Problem>,
    /// What failed in the services, for the log and for whoever counts; the caller is told through `problems`.
    pub failures: Vec<ServiceError>,
    data: Value,
    slots: Vec<Slot>,
    now: Timestamp,
}

impl Answer {
    pub(crate) fn new(
        problems: Vec<Problem>,
        failures: Vec<ServiceError>,
        data: Value,
        slots: Vec<Slot>,
        now: Timestamp,
    ) -> Answer {
        let problems: Vec<_> = problems.into_iter().take(ERRORS_MAX).map(Problem::bounded).collect();
        let data = match data {
            // No root field can be null, so that one failure takes all of them away.
            _ if !problems.is_empty() => Value::Null,
            // Everything was skipped. The library says null, which is for failures.
            Value::Null => Value::Object(Default::default()),
            data => data,
        };
        Answer { problems, failures, data, slots, now }
    }

    /// The body. A slow reader costs one chunk of text, and a reference to each machine that is still to come; the room for those is
    /// bounded by who found them, and lists that are the same are shared.
    pub fn into_chunks(self) -> Chunks {
        let mut pieces = Pieces { done: Vec::new(), text: Vec::new(), now: self.now };
        pieces.text.push(b'{');
        if !self.problems.is_empty() {
            pieces.text.extend_from_slice(b"\"errors\":");
            write_json(&self.problems, &mut pieces.text);
            pieces.text.push(b',');
        }
        pieces.text.extend_from_slice(b"\"data\":");
        match self.data {
            Value::Object(fields) => pieces.root(fields, self.slots),
            data => write_json(&data, &mut pieces.text),
        }
        pieces.text.extend_from_slice(b"}\n");
        pieces.done.push(Piece::Text(pieces.text));
        Chunks { pieces: pieces.done.into_iter(), list: None, now: self.now }
    }

    /// The lists that were found, for tests that look whether they are shared.
    #[cfg(test)]
    pub(crate) fn lists(&self) -> Vec<&Arc<FoundMachines>> {
        let mut lists = Vec::new();
        for slot in &self.slots {
            if let Found::Machines(list) = &slot.found {
                lists.push(list);
            }
        }
        lists
    }

    /// The whole body at once.
    pub fn into_bytes(self) -> Vec<u8> {
        self.into_chunks().flatten().collect()
    }
}

enum Piece {
    Text(Vec<u8>),
    List(Arc<FoundMachines>, Vec<Chosen>),
}

/// The body while it is put together.
struct Pieces {
    done: Vec<Piece>,
    text: Vec<u8>,
    now: Timestamp,
}

impl Pieces {
    fn root(&mut self, fields: impl IntoIterator<Item = (async_graphql::Name, Value)>, slots: Vec<Slot>) {
        let mut slots: Vec<Option<Slot>> = slots.into_iter().map(Some).collect();
        self.text.push(b'{');
        for (n, (name, value)) in fields.into_iter().enumerate() {
            if n > 0 {
                self.text.push(b',');
            }
            write_json(name.as_str(), &mut self.text);
            self.text.push(b':');
            let slot = number(&value).and_then(|number| slots.get_mut(number)?.take());
            match slot {
                Some(slot) => self.slot(slot),
                None => write_json(&value, &mut self.text),
            }
        }
        self.text.push(b'}');
    }

    fn slot(&mut self, Slot { found, chosen, .. }: Slot) {
        match found {
            Found::Machine(machine) => write::<MachineObject>(&machine, self.now, &chosen, &mut self.text),
            Found::Status(status) => write::<StatusObject>(&status, self.now, &chosen, &mut self.text),
            Found::Machines(machines) => {
                self.text.push(b'[');
                self.done.push(Piece::Text(std::mem::take(&mut self.text)));
                self.done.push(Piece::List(machines, chosen));
                self.text.push(b']');
            }
        }
    }
}

fn number(value: &Value) -> Option<usize> {
    match value {
        Value::Number(number) => usize::try_from(number.as_u64()?).ok(),
        _ => None,
    }
}

/// The pieces of a body.
pub struct Chunks {
    pieces: std::vec::IntoIter<Piece>,
    list: Option<List>,
    now: Timestamp,
}

/// A list that is being written.
struct List {
    machines: Arc<FoundMachines>,
    chosen: Vec<Chosen>,
    written: usize,
}

impl Iterator for Chunks {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(list) = &mut self.list {
                match list.next(self.now) {
                    Some(chunk) => return Some(chunk),
                    None => self.list = None,
                }
            }
            match self.pieces.next()? {
                Piece::Text(text) => return Some(text),
                Piece::List(machines, chosen) => self.list = Some(List { machines, chosen, written: 0 }),
            }
        }
    }
}

impl List {
    fn next(&mut self, now: Timestamp) -> Option<Vec<u8>> {
        let end = self.machines.len().min(self.written + MACHINES_PER_CHUNK);
        if self.written == end {
            return None;
        }
        let mut chunk = Vec::with_capacity(MACHINES_PER_CHUNK * 512);
        for at in self.written..end {
            if at > 0 {
                chunk.push(b',');
            }
            write::<MachineObject>(&self.machines[at], now, &self.chosen, &mut chunk);
        }
        self.written = end;
        Some(chunk)
    }
}
