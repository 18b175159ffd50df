//! What log lines look like.

use std::{error::Error, fs};

use tracing::{Level, debug, error, info, info_span, warn};

use super::{fields::Value, *};

/// 2006-01-02T03:04:05.6Z, with fewer digits than lines show.
fn then() -> Timestamp {
    Timestamp::new(1_136_171_045, 600_000_000).expect("a time")
}

fn render(format: LogFormat, message: &str, fields: &[(&str, Value)]) -> String {
    let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let record = Record { logged_at: then(), host: "boot-0", severity: Severity::Warning, message, fields: &fields };
    render::line(format, &record)
}

fn text(text: &str) -> Value {
    text.into()
}

#[test]
fn each_format_shows_everything_on_one_line() {
    let fields = [
        ("zone", text("a b")),
        ("attempt", Value::Unsigned(u64::MAX)),
        ("delta", Value::Integer(-1)),
        ("response_time", Value::Float(0.25)),
        ("ok", Value::Bool(true)),
    ];
    assert_eq!(
        render(LogFormat::Plain, "well: access", &fields),
        "2006-01-02T03:04:05.600000Z boot-0 sabakan warning: \"well: access\" attempt=18446744073709551615 delta=-1 ok=true \
         response_time=0.25 zone=\"a b\"\n"
    );
    assert_eq!(
        render(LogFormat::Logfmt, "well: access", &fields),
        "topic=sabakan logged_at=2006-01-02T03:04:05.600000Z severity=warning utsname=boot-0 message=\"well: access\" \
         attempt=18446744073709551615 delta=-1 ok=true response_time=0.25 zone=\"a b\"\n"
    );
    assert_eq!(
        render(LogFormat::Json, "well: access", &fields),
        "{\"topic\":\"sabakan\",\"logged_at\":\"2006-01-02T03:04:05.600000Z\",\"severity\":\"warning\",\"utsname\":\"boot-0\",\
         \"message\":\"well: access\",\"attempt\":18446744073709551615,\"delta\":-1,\"ok\":true,\"response_time\":0.25,\
         \"zone\":\"a b\"}\n"
    );
    assert_eq!(render(LogFormat::Plain, "", &[]), "2006-01-02T03:04:05.600000Z boot-0 sabakan warning: \"\"\n");
}

#[test]
fn nothing_leaves_its_quotes() {
    for (given, quoted) in [
        ("say \"hi\"", r#""say \"hi\"""#),
        ("back\\slash", r#""back\\slash""#),
        ("two\nlines\r\n", r#""two\nlines\r\n""#),
        ("tab\t", r#""tab\t""#),
        ("red \u{1b}[31m", r#""red \u001b[31m""#),
        ("nul\0 del\u{7f} next\u{85}", r#""nul\u0000 del\u007f next\u0085""#),
        ("line\u{2028} flip\u{202e}", r#""line\u2028 flip\u202e""#),
        ("日本 é", "\"日本 é\""),
        ("", "\"\""),
    ] {
        for format in [LogFormat::Plain, LogFormat::Logfmt] {
            let line = render(format, given, &[("key", text(given))]);
            assert!(line.ends_with(&format!("{quoted} key={quoted}\n")), "{line}");
            assert_eq!(line.lines().count(), 1, "{line}");
        }
        let line = render(LogFormat::Json, given, &[("key", text(given))]);
        assert_eq!(line.lines().count(), 1, "{line}");
        let object: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((object["message"].as_str(), object["key"].as_str()), (Some(given), Some(given)));
    }
    for number in [f64::NAN, f64::INFINITY] {
        let line = render(LogFormat::Json, "", &[("number", Value::Float(number))]);
        let object: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(object["number"], number.to_string());
    }
}

/// The lines that `work` logs, without time, host and topic.
fn logged(format: LogFormat, level: Severity, work: impl FnOnce()) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("log");
    fs::write(&path, "2006-01-02T03:04:05.600000Z h sabakan earlier\n").expect("a file");
    let config = LogConfig { format, level, file: Some(path.clone()) };
    tracing::subscriber::with_default(subscriber(&config, "h".into(), then).expect("a log"), work);
    let text = fs::read_to_string(&path).expect("a log");
    let mut lines =
        text.lines().map(|line| line.trim_start_matches("2006-01-02T03:04:05.600000Z h sabakan ").to_owned());
    assert_eq!(lines.next().as_deref(), Some("earlier"), "the file is appended to");
    lines.collect()
}

#[derive(Debug, thiserror::Error)]
#[error("the store is not available")]
struct Outer(#[source] std::io::Error);

#[test]
fn events_become_lines_with_the_fields_of_their_spans() {
    let lines = logged(LogFormat::Plain, Severity::Info, || {
        let request =
            info_span!(target: "sabakan", "request", request_id = "r1", status = 1, later = tracing::field::Empty);
        let _in_request = request.enter();
        request.record("later", 7);
        let task = info_span!(target: "sabakan", "task", task = %"compactor", status = 2, message = "span");
        let _in_task = task.enter();
        let failure = Outer(std::io::Error::other("disk full"));
        info!(target: "sabakan_service::x", r#type = "access", "http.method" = "GET", "odd name" = ?Some(1), "first {}", 1);
        error!(target: "sabakan", error = &failure as &dyn Error, status = 3, "failed");
    });
    assert_eq!(
        lines,
        [
            "info: \"first 1\" http.method=\"GET\" later=7 message_=\"span\" odd_name=\"Some(1)\" request_id=\"r1\" status=2 \
         task=\"compactor\" type=\"access\"",
            "error: \"failed\" error=\"the store is not available: disk full\" later=7 message_=\"span\" request_id=\"r1\" status=3 \
         task=\"compactor\"",
        ]
    );
}

#[test]
fn fields_do_not_hide_what_every_line_has() {
    let lines = logged(LogFormat::Json, Severity::Info, || {
        warn!(target: "sabakan", topic = "a", severity = "b", utsname = "c", logged_at = "d", count = 1_u64, "m");
    });
    let object: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
    let expected = serde_json::json!({
        "topic": "sabakan", "logged_at": "2006-01-02T03:04:05.600000Z", "severity": "warning", "utsname": "h", "message": "m",
        "topic_": "a", "severity_": "b", "utsname_": "c", "logged_at_": "d", "count": 1,
    });
    assert_eq!(object, expected);
    for name in fields::STANDARD {
        assert_eq!(lines[0].matches(&format!("\"{name}\":")).count(), 1, "{name} is there once: {}", lines[0]);
    }
}

#[test]
fn the_level_is_ours_and_others_are_heard_when_something_is_wrong() {
    let all = || {
        error!(target: "sabakan", critical = true, "c");
        error!(target: "sabakan_store", "e");
        warn!(target: "sabakan::rest", "w");
        info!(target: "sabakan", "i");
        debug!(target: "sabakan_service", "d");
        tracing::trace!(target: "sabakan", "t");
        error!(target: "h2", "other e");
        warn!(target: "h2", "other w");
        info!(target: "h2", "other i");
    };
    let check = |level: &str, expected: &[&str]| {
        assert_eq!(logged(LogFormat::Plain, level.parse().expect(level), all), expected, "{level}");
    };
    let (c, e, w, i, d) = ("critical: \"c\"", "error: \"e\"", "warning: \"w\"", "info: \"i\"", "debug: \"d\"");
    let (other_e, other_w) = ("error: \"other e\" target=\"h2\"", "warning: \"other w\" target=\"h2\"");
    check("critical", &[c]);
    check("error", &[c, e, other_e]);
    check("warn", &[c, e, w, other_e, other_w]);
    check("warning", &[c, e, w, other_e, other_w]);
    check("info", &[c, e, w, i, other_e, other_w]);
    check("debug", &[c, e, w, i, d, other_e, other_w]);
}

#[test]
fn long_texts_are_cut() {
    let long = "é".repeat(limits::TEXT_BYTES_MAX);
    let lines = logged(LogFormat::Plain, Severity::Info, || info!(target: "sabakan", long, "m"));
    let expected = format!("{}... ({} bytes more)", "é".repeat(limits::TEXT_BYTES_MAX / 2), limits::TEXT_BYTES_MAX);
    assert_eq!(lines, [format!("info: \"m\" long=\"{expected}\"")]);
}

#[test]
fn words_name_formats_and_severities() {
    for (word, format) in FORMATS {
        assert_eq!((word.parse::<LogFormat>().as_ref(), format.to_string().as_str()), (Ok(format), *word));
    }
    for (word, severity) in SEVERITIES {
        assert_eq!((word.parse::<Severity>().as_ref(), severity.to_string().as_str()), (Ok(severity), *word));
    }
    assert_eq!(
        "XML".parse::<LogFormat>().expect_err("no format").to_string(),
        "\"XML\" is none of plain, logfmt, json"
    );
    assert!(fields::Collector::default().severity(Level::TRACE) == Severity::Debug);
}

#[test]
fn a_log_that_cannot_be_written_is_an_error() {
    let config = LogConfig { file: Some("/nowhere/log".into()), ..LogConfig::default() };
    let error = subscriber(&config, "h".into(), then).map(drop).expect_err("there is no such directory");
    assert_eq!(error.to_string(), "cannot write the log to /nowhere/log");
    assert!(!host_name().is_empty() && !host_name().contains(char::is_whitespace));
}
