//! `/api/v1/logs`: the audit log as JSON lines, read page by page while it is sent.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

use axum::{
    body::{Body, Bytes},
    extract::{Query, State},
    http::header,
    response::{IntoResponse, Response},
};
use hyper::body::Frame;
use jiff::civil::Date;
use sabakan_service::{Logged, Reading};
use sabakan_wire::rest::{AuditLogJson, ErrorJson};

use super::{ApiError, App, read_within};

/// Changes of the UTC days from `since` to before `until`, oldest first, one JSON object per line. Nothing found is an empty body.
#[utoipa::path(get, path = "/api/v1/logs", tag = "logs", operation_id = "listLogs",
    params(
        ("since" = Option<String>, Query, description = "First day, YYYYMMDD"),
        ("until" = Option<String>, Query, description = "The day after the last one, YYYYMMDD"),
    ),
    responses(
    (status = 200, description = "Lines of JSON", body = AuditLogJson, content_type = "application/x-ndjson"),
    (status = 400, description = "Not a day", body = ErrorJson),
    (status = 403, description = "Not allowed", body = ErrorJson),
))]
pub async fn list(State(app): State<App>, Query(pairs): Query<Vec<(String, String)>>) -> Result<Response, ApiError> {
    let day = |name: &str| {
        let given = pairs.iter().find(|(n, value)| n == name && !value.is_empty());
        given.map(|(_, value)| parse_day(name, value)).transpose()
    };
    let reading = Reading::new(day("since")?, day("until")?);
    // The first page is read before anything is answered, so that a failure still has a status.
    let first = read_page(app.clone(), reading).await?;
    let body = Body::new(LogLines { app, next: Next::Ready(first) });
    Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

type Page = (Vec<Logged>, Option<Reading>);

/// Lines that are read while they are sent: one page is in memory, however long the log is and however slow its reader.
struct LogLines {
    app: App,
    next: Next,
}

enum Next {
    Ready(Page),
    Reading(Pin<Box<dyn Future<Output = Result<Page, ApiError>> + Send>>),
    End,
}

async fn read_page(app: App, reading: Reading) -> Result<Page, ApiError> {
    read_within(app.audit.page(reading)).await
}

impl hyper::body::Body for LogLines {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let lines = self.get_mut();
        loop {
            let (entries, more) = match &mut lines.next {
                Next::End => return Poll::Ready(None),
                Next::Ready(page) => std::mem::take(page),
                Next::Reading(page) => match std::task::ready!(page.as_mut().poll(context)) {
                    Ok(page) => page,
                    // Cut off: a reader must not take a part for the whole.
                    Err(error) => {
                        lines.next = Next::End;
                        return Poll::Ready(Some(Err(std::io::Error::other(error.text()))));
                    }
                },
            };
            lines.next = match more {
                Some(reading) => Next::Reading(Box::pin(read_page(lines.app.clone(), reading))),
                None => Next::End,
            };
            if !entries.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(text(&entries)))));
            }
        }
    }
}

fn text(entries: &[Logged]) -> Bytes {
    let mut text = Vec::with_capacity(entries.len() * 256);
    for Logged { revision, entry } in entries {
        let shape = AuditLogJson::new(entry, revision);
        serde_json::to_writer(&mut text, &shape).expect("texts serialise into memory");
        text.push(b'\n');
    }
    text.into()
}

fn parse_day(name: &str, text: &str) -> Result<Date, ApiError> {
    let digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    let day = digits.then(|| Date::strptime("%Y%m%d", text).ok()).flatten();
    day.ok_or_else(|| ApiError::invalid(format!("{name} is {text:?}, a day such as 20300102 is expected")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_eight_digits() {
        assert_eq!(parse_day("since", "20300102").expect("a day"), jiff::civil::date(2030, 1, 2));
        for bad in ["2030-01-02", "20301301", "20300230", "2030010", "203001021", "+2030102", "tomorrow", "２０３０"]
        {
            let error = parse_day("until", bad).expect_err(bad).text();
            assert!(error.starts_with("invalid request: until is "), "{error}");
        }
    }
}
