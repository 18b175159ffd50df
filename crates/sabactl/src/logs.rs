//! `sabactl logs`: who changed what.

use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use sabakan_client::Client;
use sabakan_wire::rest::AuditLogJson;

use crate::{exit::Failure, render};

#[derive(Debug, clap::Args)]
pub struct Logs {
    /// Print the lines of JSON that the server keeps
    #[arg(long)]
    json: bool,
    /// The day, in UTC; without END only this day
    #[arg(value_name = "START", value_parser = parse_day)]
    start: Option<Date>,
    /// The day after the last one
    #[arg(value_name = "END", value_parser = parse_day)]
    end: Option<Date>,
}

/// Most bytes of a detail in a line for people.
const DETAIL_BYTES: usize = 20;

/// Does what the command says.
pub fn run(client: &Client, logs: &Logs) -> Result<(), Failure> {
    let one_day = logs.start.and_then(|day| day.checked_add(1.day()).ok());
    let text = |day: Option<Date>| day.map(|day| day.strftime("%Y%m%d").to_string());
    let (since, until) = (text(logs.start), text(logs.end.or(one_day)));
    render::print_lines(|out| {
        let write = |line: &str| {
            if logs.json {
                return writeln!(out, "{line}");
            }
            let entry: AuditLogJson = serde_json::from_str(line)?;
            writeln!(out, "{}", for_people(&entry))
        };
        client.visit_logs(since.as_deref(), until.as_deref(), write)
    })
}

/// `Mon DD HH:MM:SS.mmm user@ip category/instance action detail:…`, which scripts know.
fn for_people(entry: &AuditLogJson) -> String {
    let AuditLogJson { ts, rev: _, user, ip, host: _, category, instance, action, detail, known: _ } = entry;
    let time = ts.parse::<Timestamp>().map(|at| at.to_zoned(TimeZone::UTC).strftime("%b %e %H:%M:%S.%3f").to_string());
    let time = time.unwrap_or_else(|_| ts.clone());
    let end = (0..=detail.len().min(DETAIL_BYTES)).rev().find(|end| detail.is_char_boundary(*end)).unwrap_or(0);
    let line = format!("{time} {user}@{ip} {category}/{instance} {action} detail:{}", &detail[..end]);
    // One entry is one line, and nothing in it may steer a terminal.
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn parse_day(text: &str) -> Result<Date, String> {
    let digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    let day = if digits { Date::strptime("%Y%m%d", text).ok() } else { None };
    day.ok_or_else(|| "a day such as 20301231 is expected".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_people() {
        let check = |detail: &str, expected: &str| {
            let entry = AuditLogJson {
                ts: "2030-01-02T03:04:05.6789Z".into(),
                rev: "17".into(),
                user: "yuri".into(),
                ip: "10.0.0.1".into(),
                host: "h".into(),
                category: "machines".into(),
                instance: "1234abcd".into(),
                action: "put-label".into(),
                detail: detail.into(),
                known: "declared".into(),
            };
            let begin = "Jan  2 03:04:05.678 yuri@10.0.0.1 machines/1234abcd put-label detail:";
            assert_eq!(for_people(&entry), format!("{begin}{expected}"));
        };
        check("", "");
        check("a/b", "a/b");
        check("a\nb\u{1b}[31m", "a b [31m");
        check("01234567890123456789x", "01234567890123456789");
        check("0123456789012345678日", "0123456789012345678");
    }

    #[test]
    fn days() {
        assert_eq!(parse_day("20301231").map(|day| day.to_string()), Ok("2030-12-31".into()));
        for bad in ["2030-12-31", "20301232", "today", "2030123", "+2030123"] {
            assert!(parse_day(bad).is_err(), "{bad}");
        }
    }
}
