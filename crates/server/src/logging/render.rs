//! What a line looks like in each format. Pure: time, host and fields come in, text goes out, always exactly one line. Whatever a
//! client sent stays inside its quotes; otherwise it could forge lines, or command the terminal of whoever reads them.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::{
    LogFormat, Severity,
    fields::{Fields, Value},
};

/// The program's name, first thing for which logs of many programs are sorted.
const TOPIC: &str = "sabakan";

/// Everything a line says.
pub struct Record<'a> {
    pub logged_at: Timestamp,
    pub host: &'a str,
    pub severity: Severity,
    pub message: &'a str,
    pub fields: &'a Fields,
}

/// The line, with the newline at its end.
pub fn line(format: LogFormat, record: &Record<'_>) -> String {
    let mut line = match format {
        LogFormat::Plain => plain(record),
        LogFormat::Logfmt => logfmt(record),
        LogFormat::Json => serde_json::to_string(record).expect("texts and numbers serialise"),
    };
    line.push('\n');
    line
}

fn plain(record: &Record<'_>) -> String {
    let Record { logged_at, host, severity, message, fields } = record;
    let mut line = format!("{} {host} {TOPIC} {severity}: ", time(*logged_at));
    quote(&mut line, message);
    put_fields(&mut line, fields);
    line
}

fn logfmt(record: &Record<'_>) -> String {
    let Record { logged_at, host, severity, message, fields } = record;
    let time = time(*logged_at);
    let mut line = format!("topic={TOPIC} logged_at={time} severity={severity} utsname={host} message=");
    quote(&mut line, message);
    put_fields(&mut line, fields);
    line
}

/// RFC 3339 in UTC. Always six digits, so that lines sort as texts.
fn time(logged_at: Timestamp) -> String {
    format!("{logged_at:.6}")
}

fn put_fields(line: &mut String, fields: &Fields) {
    for (name, value) in fields {
        line.push(' ');
        line.push_str(name);
        line.push('=');
        match value {
            Value::Text(text) => quote(line, text),
            Value::Integer(number) => put(line, number),
            Value::Unsigned(number) => put(line, number),
            Value::Float(number) => put(line, number),
            Value::Bool(value) => put(line, value),
        }
    }
}

fn put(line: &mut String, value: &dyn std::fmt::Display) {
    write!(line, "{value}").expect("writing to a string does not fail");
}

/// A text in quotes, with everything escaped that would end the quotes, the line, or the reader's patience.
fn quote(line: &mut String, text: &str) {
    line.push('"');
    for c in text.chars() {
        match c {
            '"' => line.push_str("\\\""),
            '\\' => line.push_str("\\\\"),
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            // The last two also end lines; the marks for writing direction make a line look like another.
            c if c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                write!(line, "\\u{:04x}", u32::from(c)).expect("writing to a string does not fail");
            }
            c => line.push(c),
        }
    }
    line.push('"');
}

/// The object of the JSON format: what every line has comes first, for people who read it after all.
impl Serialize for Record<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Record { logged_at, host, severity, message, fields } = self;
        let mut object = serializer.serialize_map(None)?;
        object.serialize_entry("topic", TOPIC)?;
        object.serialize_entry("logged_at", &time(*logged_at))?;
        object.serialize_entry("severity", &severity.to_string())?;
        object.serialize_entry("utsname", host)?;
        object.serialize_entry("message", message)?;
        for (name, value) in *fields {
            match value {
                Value::Text(text) => object.serialize_entry(name, text)?,
                Value::Integer(number) => object.serialize_entry(name, number)?,
                Value::Unsigned(number) => object.serialize_entry(name, number)?,
                Value::Float(number) if number.is_finite() => object.serialize_entry(name, number)?,
                // JSON has no word for these numbers.
                Value::Float(number) => object.serialize_entry(name, &number.to_string())?,
                Value::Bool(value) => object.serialize_entry(name, value)?,
            }
        }
        object.end()
    }
}
