//! What a line says: collects the fields of events and spans with their types.

use std::{collections::BTreeMap, error::Error, fmt};

use tracing::{
    Level,
    field::{Field, Visit},
};

use super::{Severity, limits};

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    Bool(bool),
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(shortened(text))
    }
}

/// Fields by name, hence sorted.
pub type Fields = BTreeMap<String, Value>;

/// Names of what every line has. A field of the same name gets an underscore behind it, so that neither hides the other.
pub const STANDARD: &[&str] = &["topic", "logged_at", "severity", "utsname", "message"];

/// Collects what one event or span carries.
#[derive(Default)]
pub struct Collector {
    message: Option<Value>,
    critical: bool,
    fields: Fields,
}

impl Collector {
    /// How bad an event of this level is.
    pub fn severity(&self, level: Level) -> Severity {
        match level {
            Level::ERROR if self.critical => Severity::Critical,
            Level::ERROR => Severity::Error,
            Level::WARN => Severity::Warning,
            Level::INFO => Severity::Info,
            _ => Severity::Debug,
        }
    }

    /// What an event says.
    pub fn into_message_and_fields(self) -> (String, Fields) {
        let message = match self.message {
            Some(Value::Text(text)) => text,
            _ => String::new(),
        };
        (message, self.fields)
    }

    /// What a span says. It has no message; a field called so is a field like any other.
    pub fn into_fields_of_span(mut self) -> Fields {
        if let Some(value) = self.message.take() {
            self.fields.insert("message_".to_owned(), value);
        }
        self.fields
    }

    fn put(&mut self, field: &Field, value: Value) {
        match field.name() {
            "message" => self.message = Some(value),
            name => {
                self.fields.insert(clean(name), value);
            }
        }
    }
}

impl Visit for Collector {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, Value::from(&*format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        match field.name() {
            "critical" => self.critical = value,
            _ => self.put(field, Value::Bool(value)),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Integer(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::Unsigned(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::Float(value));
    }

    /// With all its causes: the last one is usually the one to act on.
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut text = value.to_string();
        let mut cause = value.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        self.put(field, Value::from(&*text));
    }
}

/// A name that can stand before `=` and does not hide a standard one.
fn clean(name: &str) -> String {
    // How Rust spells a name such as `type`.
    let name = name.strip_prefix("r#").unwrap_or(name);
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let mut name: String = name.chars().map(|c| if allowed(c) { c } else { '_' }).collect();
    if STANDARD.contains(&name.as_str()) {
        name.push('_');
    }
    name
}

fn shortened(text: &str) -> String {
    if text.len() <= limits::TEXT_BYTES_MAX {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(limits::TEXT_BYTES_MAX);
    format!("{}... ({} bytes more)", &text[..end], text.len() - end)
}
