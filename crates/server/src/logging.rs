//! Where log lines go and which ones. What a line looks like is in `render`, what it says in `fields`.
//!
//! An event is one line. `error!(critical = true, …)` is more severe than `error!(…)`: the server cannot go on. Beside the fields
//! of the event a line has those of the spans around it.

mod fields;
mod limits;
mod render;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Mutex, PoisonError},
};

use jiff::Timestamp;
use tracing::{Event, Subscriber, level_filters::LevelFilter, span};
use tracing_subscriber::{
    Layer, Registry,
    filter::Targets,
    layer::{Context, SubscriberExt as _},
    registry::LookupSpan,
};

use self::{
    fields::{Collector, Fields},
    render::Record,
};

/// How to log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogConfig {
    pub format: LogFormat,
    /// The least severe lines that are written.
    pub level: Severity,
    /// Appended to. Absent: standard error.
    pub file: Option<PathBuf>,
}

/// What a line looks like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Plain,
    /// `key=value` throughout.
    Logfmt,
    /// One JSON object.
    Json,
}

/// How bad it is, worst first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The server cannot go on.
    Critical,
    /// Somebody must act.
    Error,
    /// The server coped.
    Warning,
    /// Something an operator did or would ask about.
    #[default]
    Info,
    /// For whoever looks for a defect.
    Debug,
}

/// A word that names neither a format nor a severity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{word:?} is none of {known}")]
pub struct UnknownWord {
    word: String,
    known: String,
}

/// Why there is no log.
#[derive(Debug, thiserror::Error)]
pub enum LoggingError {
    /// The file cannot be appended to.
    #[error("cannot write the log to {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// One process has one log.
    #[error("the log was set up before")]
    SetUpBefore,
}

/// Sends everything that is logged from now on where the configuration says. `now` tells the time of each line.
pub fn init(config: &LogConfig, now: fn() -> Timestamp) -> Result<(), LoggingError> {
    let subscriber = subscriber(config, host_name(), now)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LoggingError::SetUpBefore)
}

fn subscriber(config: &LogConfig, host: String, now: fn() -> Timestamp) -> Result<impl Subscriber, LoggingError> {
    let sink = match &config.file {
        Some(path) => Sink::File(Mutex::new(append(path)?)),
        None => Sink::Stderr,
    };
    let lines = Lines { format: config.format, least: config.level, host, now, sink };
    Ok(Registry::default().with(lines.with_filter(filter(config.level))))
}

/// Our own crates at the level asked for; of others only what went wrong, because their details mean nothing to an operator.
fn filter(level: Severity) -> Targets {
    let ours = match level {
        // The library knows nothing worse than an error; `Lines` sorts out the rest.
        Severity::Critical | Severity::Error => LevelFilter::ERROR,
        Severity::Warning => LevelFilter::WARN,
        Severity::Info => LevelFilter::INFO,
        Severity::Debug => LevelFilter::DEBUG,
    };
    Targets::new().with_target(OURS, ours).with_default(ours.min(LevelFilter::WARN))
}

/// What the names of our crates, and with them the targets of their events, start with.
const OURS: &str = "sabakan";

fn append(path: &Path) -> Result<File, LoggingError> {
    let file = File::options().create(true).append(true).open(path);
    file.map_err(|source| LoggingError::File { path: path.to_owned(), source })
}

/// The name of this host, from the kernel.
fn host_name() -> String {
    let read = |path| std::fs::read_to_string(path).ok();
    let name = read("/proc/sys/kernel/hostname").or_else(|| read("/etc/hostname")).unwrap_or_default();
    // A blank would shift the columns of plain lines.
    name.split_whitespace().next().unwrap_or("localhost").to_owned()
}

enum Sink {
    Stderr,
    File(Mutex<File>),
}

impl Sink {
    /// Writes a whole line at once, so that lines of several threads do not mix. Failures are not reported: where to?
    fn write(&self, line: &str) {
        let _nobody_to_tell = match self {
            Sink::Stderr => io::stderr().lock().write_all(line.as_bytes()),
            Sink::File(file) => file.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes()),
        };
    }
}

/// Turns events into lines.
struct Lines {
    format: LogFormat,
    least: Severity,
    host: String,
    now: fn() -> Timestamp,
    sink: Sink,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let mut collector = Collector::default();
        attributes.record(&mut collector);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(collector.into_fields_of_span());
        }
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        let mut collector = Collector::default();
        values.record(&mut collector);
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            fields.extend(collector.into_fields_of_span());
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut collector = Collector::default();
        event.record(&mut collector);
        let severity = collector.severity(*event.metadata().level());
        if severity > self.least {
            return;
        }
        // The inner span knows better than the outer, the event knows best.
        let mut fields = Fields::new();
        for span in context.event_scope(event).into_iter().flat_map(|scope| scope.from_root()) {
            if let Some(of_span) = span.extensions().get::<Fields>() {
                fields.extend(of_span.clone());
            }
        }
        if !event.metadata().target().starts_with(OURS) {
            fields.insert("target".to_owned(), event.metadata().target().into());
        }
        let (message, of_event) = collector.into_message_and_fields();
        fields.extend(of_event);
        let record = Record { logged_at: (self.now)(), host: &self.host, severity, message: &message, fields: &fields };
        self.sink.write(&render::line(self.format, &record));
    }
}

const FORMATS: &[(&str, LogFormat)] =
    &[("plain", LogFormat::Plain), ("logfmt", LogFormat::Logfmt), ("json", LogFormat::Json)];

const SEVERITIES: &[(&str, Severity)] = &[
    ("critical", Severity::Critical),
    ("error", Severity::Error),
    ("warning", Severity::Warning),
    ("info", Severity::Info),
    ("debug", Severity::Debug),
];

fn find<T: Copy>(word: &str, known: &[(&str, T)]) -> Result<T, UnknownWord> {
    let found = known.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
    let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| UnknownWord { word: word.to_owned(), known: names() })
}

fn name<T: PartialEq>(value: &T, known: &[(&'static str, T)]) -> &'static str {
    known.iter().find(|(_, other)| other == value).map(|(name, _)| *name).expect("every value has a name")
}

impl FromStr for LogFormat {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<LogFormat, UnknownWord> {
        find(word, FORMATS)
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name(self, FORMATS))
    }
}

impl FromStr for Severity {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Severity, UnknownWord> {
        // Many programs say it shorter.
        find(if word == "warn" { "warning" } else { word }, SEVERITIES)
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name(self, SEVERITIES))
    }
}
