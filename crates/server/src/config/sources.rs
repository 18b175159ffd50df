//! Finds each setting among flags, environment and file, remembers where it stood, and keeps every complaint about it.

use serde_saphyr::Spanned;

use super::{
    ConfigError, limits,
    raw::{self, File, Flags, Line, Texts},
};

/// Where a value stood, weakest first: the stronger wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    File,
    Environment,
    Flag,
}

/// A value that somebody wrote.
pub struct Given<T> {
    pub value: T,
    pub rank: Rank,
    /// For people who have to find it.
    pub at: String,
}

impl<T> Given<T> {
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Given<U> {
        Given { value: change(self.value), rank: self.rank, at: self.at }
    }
}

/// Flags, file and environment, and what is wrong with them so far.
pub struct Sources<'a> {
    pub flags: Flags,
    pub file: File,
    pub env: &'a dyn Fn(&str) -> Option<String>,
    file_name: String,
    /// The file could not be read, so what is absent may well stand in it.
    file_is_unknown: bool,
    errors: Vec<ConfigError>,
}

impl<'a> Sources<'a> {
    /// Reads the file that the flags name. If that fails, the flags are still worth a look.
    pub fn read(flags: Flags, env: &'a dyn Fn(&str) -> Option<String>) -> Sources<'a> {
        let file_name = flags.config_file.clone().unwrap_or_default();
        let mut sources =
            Sources { flags, file: File::default(), env, file_name, file_is_unknown: false, errors: Vec::new() };
        if sources.flags.config_file.is_none() {
            return sources;
        }
        match read_file(&sources.file_name).map(|text| raw::parse(&text)) {
            Ok(Ok(file)) => sources.file = file,
            Ok(Err(error)) => {
                let at = error.line.map_or_else(String::new, |line| format!(":{line}"));
                sources.wrong(format!("{}{at}", sources.file_name), error.reason);
                sources.file_is_unknown = true;
            }
            Err(reason) => {
                sources.wrong("--config-file", reason);
                sources.file_is_unknown = true;
            }
        }
        sources
    }

    /// The flag if there is one, else what the file says. `lines` are the spellings in the file. Called through [`setting!`].
    pub fn pick<F, T: From<F>>(
        &mut self,
        flag: &str,
        from_flag: Option<F>,
        lines: Vec<(&str, Line<T>)>,
    ) -> Option<Given<T>> {
        let from_file = self.written(lines);
        let from_flag = from_flag.map(|value| Given { value: value.into(), rank: Rank::Flag, at: format!("--{flag}") });
        from_flag.or(from_file)
    }

    /// The one spelling that is used in the file. Two would leave it to chance which one holds.
    pub fn written<T>(&mut self, lines: Vec<(&str, Line<T>)>) -> Option<Given<T>> {
        let all = lines.into_iter().filter_map(|(key, line)| line.map(|line| (key, line)));
        let mut all: Vec<Given<T>> = all.map(|(key, line)| self.in_file(key, line)).collect();
        while all.len() > 1 {
            let second = all.pop().expect("there are two");
            self.wrong(second.at, format!("the same is said at {}", all[0].at));
        }
        all.pop()
    }

    /// What a text means, or a complaint.
    pub fn check<T>(&mut self, given: &Option<Given<String>>, rule: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let given = given.as_ref()?;
        rule(given.value.trim()).map_err(|reason| self.wrong(given.at.clone(), reason)).ok()
    }

    /// What each of several texts means; a complaint for each that means nothing.
    pub fn check_each<T>(&mut self, given: &Given<Texts>, rule: impl Fn(&str) -> Result<T, String>) -> Vec<T> {
        let results: Vec<_> = given.value.items().map(rule).collect();
        let keep = |result: Result<T, String>| result.map_err(|reason| self.wrong(given.at.clone(), reason)).ok();
        results.into_iter().filter_map(keep).collect()
    }

    /// Something has to be corrected.
    pub fn wrong(&mut self, at: impl Into<String>, reason: impl Into<String>) {
        self.errors.push(ConfigError { at: at.into(), reason: reason.into() });
    }

    /// Something else is missing that `at` needs. Not said while the file is unknown, because it may stand there.
    pub fn lacking(&mut self, at: impl Into<String>, reason: impl Into<String>) {
        if !self.file_is_unknown {
            self.wrong(at, reason);
        }
    }

    pub fn into_errors(self) -> Vec<ConfigError> {
        self.errors
    }

    /// A value of the file with its place.
    pub fn in_file<T>(&self, key: &str, line: Spanned<T>) -> Given<T> {
        let at = self.place(key, &line);
        Given { value: line.value, rank: Rank::File, at }
    }

    /// Where a value of the file stands.
    pub fn place<T>(&self, key: &str, line: &Spanned<T>) -> String {
        let number = line.referenced.line();
        let place = if number > 0 { format!(":{number}") } else { String::new() };
        format!("{}{place}: {key}", self.file_name)
    }
}

/// The text of a file, within bounds. The reason for a failure names the file.
pub fn read_file(path: &str) -> Result<String, String> {
    use std::io::Read as _;
    let cannot = |error: std::io::Error| format!("cannot read {path}: {error}");
    let file = std::fs::File::open(path).map_err(cannot)?;
    let mut text = String::new();
    file.take(limits::FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > limits::FILE_BYTES_MAX {
        return Err(format!("{path} is larger than {} bytes", limits::FILE_BYTES_MAX));
    }
    Ok(text)
}

/// Takes one setting out of the sources: `setting!(from, "http", http)`, or with its nested spelling
/// `setting!(from, "etcd-prefix", etcd_prefix, "etcd.prefix", prefix)`.
macro_rules! setting {
    ($from:ident, $name:literal, $field:ident $(, $nested_name:literal, $nested:ident)?) => {{
        let flag = $from.flags.$field.take();
        let lines = vec![($name, $from.file.$field.take()) $(, ($nested_name, $from.file.etcd.$nested.take()))?];
        $from.pick($name, flag, lines)
    }};
}
pub(super) use setting;
