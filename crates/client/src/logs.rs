//! The audit log: `/api/v1/logs`.

use std::io;

use sabakan_wire::rest::{AuditLogJson, paths};

use crate::{client::Client, error::Error};

impl Client {
    /// Gives `visit` every change of the days from `since` to before `until`, oldest first, as the line the server sent, while they
    /// arrive. Days are `YYYYMMDD`. The inner error is `visit`'s own, which ends the reading.
    pub fn visit_logs(
        &self,
        since: Option<&str>,
        until: Option<&str>,
        visit: impl FnMut(&str) -> io::Result<()>,
    ) -> Result<io::Result<()>, Error> {
        let pair = |name: &str, day: Option<&str>| day.map(|day| (name.to_owned(), day.to_owned()));
        let query: Vec<_> = pair("since", since).into_iter().chain(pair("until", until)).collect();
        self.get_lines(paths::LOGS, &query, visit)
    }

    /// All of them at once.
    pub fn list_logs(&self, since: Option<&str>, until: Option<&str>) -> Result<Vec<AuditLogJson>, Error> {
        let mut entries = Vec::new();
        let read = self.visit_logs(since, until, |line| {
            entries.push(serde_json::from_str(line)?);
            Ok(())
        })?;
        read.map_err(|error| self.unexpected(paths::LOGS, &error))?;
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    fn line(detail: &str) -> String {
        let entry = AuditLogJson {
            ts: "2030-01-02T03:04:05Z".into(),
            rev: "7".into(),
            user: "yuri".into(),
            ip: "10.0.0.1".into(),
            host: "h".into(),
            category: "machines".into(),
            instance: "a".into(),
            action: "put-label".into(),
            detail: detail.into(),
            known: "declared".into(),
        };
        serde_json::to_string(&entry).unwrap()
    }

    #[test]
    fn lines_come_one_by_one() {
        let (url, request) = fake::answer(200, &format!("{}\n{}\n", line("1"), line("2")));
        let entries = Client::new(&url).unwrap().list_logs(Some("20300102"), Some("20300103")).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.detail.as_str()).collect::<Vec<_>>(), ["1", "2"]);
        let request = request.join().unwrap();
        assert!(request.starts_with("GET /api/v1/logs?since=20300102&until=20300103 HTTP/1.1\r\n"), "{request}");
        let (url, _request) = fake::answer(200, "");
        assert_eq!(Client::new(&url).unwrap().list_logs(None, None).unwrap(), []);
    }

    #[test]
    fn a_reader_may_stop_and_a_part_is_not_taken_for_the_whole() {
        let (url, _request) = fake::answer(200, "1\n2\n3\n");
        let mut seen = Vec::new();
        let stopped = Client::new(&url).unwrap().visit_logs(None, None, |line| {
            seen.push(line.to_owned());
            if line == "2" { Err(io::Error::other("enough")) } else { Ok(()) }
        });
        assert_eq!((seen, stopped.unwrap().unwrap_err().to_string()), (vec!["1".into(), "2".into()], "enough".into()));
        let (url, _request) = fake::answer(200, &format!("{}\n{{\"ts\"", line("1")));
        assert!(matches!(Client::new(&url).unwrap().list_logs(None, None), Err(Error::Decode { .. })));
        let (url, _request) = fake::answer(403, r#"{"error":"forbidden: x"}"#);
        assert_eq!(Client::new(&url).unwrap().list_logs(None, None).unwrap_err().status(), Some(403));
    }
}
