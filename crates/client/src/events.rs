//! The event feed: `/api/v1/events`.

use std::io;

use sabakan_wire::rest::{EventHead, event_kinds as kinds, paths};

use crate::{client::Client, error::Error};

/// Where a reader of the feed is: what it has had, and so where it goes on. Lasts over any number of connections, and makes every
/// event come exactly once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeedPosition {
    after: Option<u64>,
    /// A revision of which only a part has come, and how many events that was.
    partial: Option<(u64, usize)>,
    /// How many of them come again on this connection.
    repeated: usize,
}

/// How a connection of the feed ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FeedEnd {
    /// It came to its end, or the server stopped.
    Complete,
    /// History is gone: events are missing from here on.
    Gone(String),
    /// The server ended it for another reason; going on from the position is fine.
    Broken(String),
    /// The visitor wanted no more.
    Stopped,
}

impl FeedPosition {
    /// Behind a revision; `None`: before the snapshot.
    pub fn after(revision: Option<u64>) -> FeedPosition {
        FeedPosition { after: revision, ..FeedPosition::default() }
    }

    /// The last revision of which everything has come.
    pub fn revision(&self) -> Option<u64> {
        self.after
    }

    fn begin_connection(&mut self) {
        self.repeated = self.partial.map_or(0, |(_, count)| count);
    }

    /// Takes in a line; whether it is new.
    fn take(&mut self, head: &EventHead) -> bool {
        if head.kind == kinds::SNAPSHOT {
            return true;
        }
        let Some(revision) = head.revision else { return true };
        let repeated = self.repeated > 0 && self.partial.is_some_and(|(partial, _)| partial == revision);
        if repeated {
            self.repeated -= 1;
        } else if head.more {
            let count = self.partial.filter(|(partial, _)| *partial == revision).map_or(0, |(_, count)| count);
            self.partial = Some((revision, count + 1));
        } else {
            (self.after, self.partial, self.repeated) = (Some(revision), None, 0);
        }
        !repeated
    }
}

impl Client {
    /// Gives `visit` what happens after `position`, one line after the other as the server sent it, and moves the position along.
    /// Lines that only say how far the feed is are kept back. Reads one answer: after an error or an end, ask again with the same
    /// position.
    pub fn visit_events(
        &self,
        position: &mut FeedPosition,
        follow: bool,
        mut visit: impl FnMut(&str) -> io::Result<()>,
    ) -> Result<(FeedEnd, io::Result<()>), Error> {
        position.begin_connection();
        let mut query: Vec<_> =
            position.after.map(|after| ("after".to_owned(), after.to_string())).into_iter().collect();
        query.extend(follow.then(|| ("follow".to_owned(), "true".to_owned())));
        let mut end = FeedEnd::Complete;
        let mut strange = None;
        let read = self.follow_lines(paths::EVENTS, &query, |line| {
            let head: EventHead = serde_json::from_str(line).inspect_err(|error| strange = Some(error.to_string()))?;
            let error = || head.error.clone().unwrap_or_else(|| head.kind.clone());
            match head.kind.as_str() {
                kinds::GONE => end = FeedEnd::Gone(error()),
                kinds::DROPPED | kinds::FAILED => end = FeedEnd::Broken(error()),
                kind => {
                    if position.take(&head) && kind != kinds::PROGRESS {
                        visit(line)?;
                    }
                }
            }
            Ok(())
        })?;
        match (strange, read) {
            (Some(reason), _) => Err(self.unexpected(paths::EVENTS, &reason)),
            (None, Ok(())) => Ok((end, Ok(()))),
            (None, stopped) => Ok((FeedEnd::Stopped, stopped)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    fn read(position: &mut FeedPosition, follow: bool, body: &str) -> (String, Vec<String>, FeedEnd) {
        let (url, request) = fake::answer(200, body);
        let mut lines = Vec::new();
        let end = Client::new(&url).unwrap().visit_events(position, follow, |line| {
            lines.push(line.to_owned());
            Ok(())
        });
        let request = request.join().unwrap();
        (request.lines().next().unwrap_or_default().to_owned(), lines, end.unwrap().0)
    }

    fn event(revision: u64, serial: &str, more: bool) -> String {
        let more = if more { r#","more":true"# } else { "" };
        format!(r#"{{"revision":{revision},"kind":"machines.register","serial":"{serial}"{more}}}"#)
    }

    #[test]
    fn a_reader_goes_on_where_it_was() {
        let mut position = FeedPosition::after(None);
        let snapshot = r#"{"revision":5,"kind":"snapshot","serial":"a","more":true}"#;
        let end = r#"{"kind":"snapshot-end","revision":5}"#;
        let (request, lines, _) = read(&mut position, false, &format!("{snapshot}\n"));
        assert_eq!((request.as_str(), lines.len()), ("GET /api/v1/events HTTP/1.1", 1));
        assert_eq!(position.revision(), None, "half a snapshot is no place to go on from");
        let (request, lines, _) = read(&mut position, true, &format!("{snapshot}\n{end}\n"));
        assert_eq!((request.as_str(), lines.len()), ("GET /api/v1/events?follow=true HTTP/1.1", 2));
        assert_eq!(position.revision(), Some(5));
        let progress = r#"{"kind":"progress","revision":9}"#;
        let (request, lines, ended) = read(&mut position, true, &format!("{}\n{progress}\n", event(7, "b", false)));
        assert_eq!(request, "GET /api/v1/events?after=5&follow=true HTTP/1.1");
        assert_eq!((lines, ended), (vec![event(7, "b", false)], FeedEnd::Complete));
        assert_eq!(position.revision(), Some(9));
    }

    #[test]
    fn half_a_revision_comes_to_its_end_and_nothing_twice() {
        let mut position = FeedPosition::after(Some(1));
        let all =
            [event(2, "a", true), event(2, "b", true), event(2, "c", true), event(2, "d", false), event(3, "e", false)];
        let mut seen = Vec::new();
        for cut in [0, 2, 1, 3, 5] {
            let body: String = all[..cut].iter().map(|line| format!("{line}\n")).collect();
            let (request, lines, _) = read(&mut position, false, &body);
            assert_eq!(request, "GET /api/v1/events?after=1 HTTP/1.1");
            seen.extend(lines);
        }
        assert_eq!(seen, all);
        assert_eq!(position, FeedPosition::after(Some(3)));
    }

    #[test]
    fn ends_are_told_apart() {
        let check = |line: &str, expected: FeedEnd| {
            let (_, lines, end) = read(&mut FeedPosition::after(Some(1)), true, &format!("{line}\n"));
            assert_eq!((lines, end), (vec![], expected));
        };
        check(r#"{"kind":"gone","revision":1,"oldest":9,"error":"x"}"#, FeedEnd::Gone("x".into()));
        check(r#"{"kind":"dropped","revision":1,"error":"y"}"#, FeedEnd::Broken("y".into()));
        check(r#"{"kind":"failed","revision":null}"#, FeedEnd::Broken("failed".into()));
        let (url, _request) = fake::answer(200, "no JSON\n");
        let mut position = FeedPosition::default();
        let error = Client::new(&url).unwrap().visit_events(&mut position, false, |_| Ok(())).unwrap_err();
        assert!(matches!(error, Error::Decode { .. }), "{error}");
        let (url, _request) = fake::answer(200, &format!("{}\n", event(2, "a", false)));
        let enough = |_: &str| Err(io::Error::other("enough"));
        let (end, stopped) = Client::new(&url).unwrap().visit_events(&mut position, false, enough).unwrap();
        assert_eq!((end, stopped.unwrap_err().to_string()), (FeedEnd::Stopped, "enough".to_owned()));
    }
}
