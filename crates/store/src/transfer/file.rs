//! The export file: its lines, and reading it without believing anything.

use std::{
    fmt::Write as _,
    io::{BufRead, Read},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{Revision, limits};

/// Value of `format` in the header.
pub(super) const FORMAT: &str = "sabakan-store";

/// Version of the format below.
pub(super) const VERSION: u32 = 1;

/// The first line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Header {
    pub format: String,
    pub version: u32,
    pub revision: u64,
    pub prefixes: Vec<String>,
}

/// Every line after the first. Which fields are there tells a key from the end.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
}

/// What is wrong with a file. Nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file system refused.
    #[error("reading the export failed")]
    Read(#[source] std::io::Error),
    /// The first line is not our header.
    #[error("this is not an export of a sabakan store: {reason}")]
    NotAnExport {
        /// What the first line lacks.
        reason: String,
    },
    /// A newer program wrote it.
    #[error(
        "the export has format version {found}, this program reads up to {VERSION}; use the version that wrote it, or a later one"
    )]
    NewerVersion {
        /// Version of the file.
        found: u32,
    },
    /// A line is not what an export writes.
    #[error("line {line} of the export is damaged: {reason}")]
    Line {
        /// Its number, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
    /// The end line is missing.
    #[error("the export ends at line {line} without its end line: it was cut off")]
    Truncated {
        /// Where it ends.
        line: u64,
    },
    /// The end line counts other keys or another sum.
    #[error(
        "the export was changed after it was written: its end line {line} tells {expected}, the lines before it give {found}"
    )]
    Changed {
        /// Number of the end line.
        line: u64,
        /// What the end line says.
        expected: String,
        /// What we found.
        found: String,
    },
}

/// What a good file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// The revision of the store it was written from.
    pub revision: Revision,
    /// The prefixes it covers.
    pub prefixes: Vec<String>,
    /// How many keys it has.
    pub keys: u64,
    /// Sum of everything before the end line.
    pub sha256: String,
}

/// Reads a whole file and says whether it is good, without touching any store.
pub fn verify(source: &mut (dyn BufRead + Send)) -> Result<Contents, FileError> {
    let mut reader = Reader::open(source)?;
    while reader.next()?.is_some() {}
    Ok(reader.contents())
}

/// One key of the file.
#[derive(Debug)]
pub(super) struct Entry {
    /// Number of its line.
    pub line: u64,
    pub key: String,
    pub value: Bytes,
}

/// Reads a file from the header to the end line.
pub(super) struct Reader<'a> {
    source: &'a mut (dyn BufRead + Send),
    pub header: Header,
    line: u64,
    buffer: Vec<u8>,
    sum: Sum,
    keys: u64,
    last: Option<String>,
}

impl<'a> Reader<'a> {
    /// Reads and checks the header.
    pub fn open(source: &'a mut (dyn BufRead + Send)) -> Result<Reader<'a>, FileError> {
        let header = Header { format: String::new(), version: 0, revision: 0, prefixes: Vec::new() };
        let mut reader =
            Reader { source, header, line: 0, buffer: Vec::new(), sum: Sum::default(), keys: 0, last: None };
        if !reader.read_line()? {
            return Err(FileError::NotAnExport { reason: "it is empty".to_owned() });
        }
        let header: Header = serde_json::from_slice(&reader.buffer)
            .map_err(|error| FileError::NotAnExport { reason: format!("its first line is no header: {error}") })?;
        if header.format != FORMAT {
            return Err(FileError::NotAnExport { reason: format!("its format is {:?}", header.format) });
        }
        if header.version > VERSION {
            return Err(FileError::NewerVersion { found: header.version });
        }
        if header.prefixes.is_empty() || super::normalize(&header.prefixes) != header.prefixes {
            return Err(reader.damaged("its prefixes are missing, unsorted or overlap"));
        }
        reader.sum.add(&reader.buffer);
        reader.header = header;
        Ok(reader)
    }

    /// The next key; `None` after the end line has confirmed everything before it.
    pub fn next(&mut self) -> Result<Option<Entry>, FileError> {
        if !self.read_line()? {
            return Err(FileError::Truncated { line: self.line });
        }
        let line: Line = serde_json::from_slice(&self.buffer).map_err(|error| self.damaged(&error.to_string()))?;
        let (key, value) = match line {
            Line { end: None, key: Some(key), value: Some(value), base64: None, keys: None, sha256: None } => {
                (key, Bytes::from(value))
            }
            Line { end: None, key: Some(key), value: None, base64: Some(text), keys: None, sha256: None } => {
                let value = STANDARD.decode(text).map_err(|error| self.damaged(&format!("its base64: {error}")))?;
                (key, Bytes::from(value))
            }
            Line { end: Some(true), key: None, value: None, base64: None, keys: Some(keys), sha256: Some(sum) } => {
                self.finish(keys, &sum)?;
                return Ok(None);
            }
            _ => return Err(self.damaged("it is neither a key nor the end")),
        };
        if !self.header.prefixes.iter().any(|prefix| key.starts_with(prefix)) {
            return Err(self.damaged(&format!("key {key} is under none of the prefixes of the header")));
        }
        if self.last.as_ref().is_some_and(|last| *last >= key) {
            return Err(self.damaged(&format!("key {key} is not after the key before it")));
        }
        self.sum.add(&self.buffer);
        self.keys += 1;
        self.last = Some(key.clone());
        Ok(Some(Entry { line: self.line, key, value }))
    }

    /// What was read; complete once `next` has answered `None`.
    pub fn contents(&self) -> Contents {
        Contents {
            revision: Revision(self.header.revision),
            prefixes: self.header.prefixes.clone(),
            keys: self.keys,
            sha256: self.sum.hex(),
        }
    }

    fn finish(&mut self, keys: u64, sum: &str) -> Result<(), FileError> {
        let line = self.line;
        if keys != self.keys {
            let (expected, found) = (format!("{keys} keys"), format!("{} keys", self.keys));
            return Err(FileError::Changed { line, expected, found });
        }
        if sum != self.sum.hex() {
            let (expected, found) = (format!("sum {sum}"), format!("sum {}", self.sum.hex()));
            return Err(FileError::Changed { line, expected, found });
        }
        if self.read_line()? {
            return Err(self.damaged("it comes after the end line"));
        }
        Ok(())
    }

    /// Reads one line with its newline into the buffer; `false` at the end of the file.
    fn read_line(&mut self) -> Result<bool, FileError> {
        self.buffer.clear();
        let most = limits::EXPORT_LINE_BYTES_MAX as u64;
        let read = (&mut *self.source).take(most).read_until(b'\n', &mut self.buffer).map_err(FileError::Read)?;
        if read == 0 {
            return Ok(false);
        }
        self.line += 1;
        if self.buffer.ends_with(b"\n") {
            return Ok(true);
        }
        if self.buffer.len() == limits::EXPORT_LINE_BYTES_MAX {
            return Err(self.damaged("it is longer than any line of an export"));
        }
        Err(FileError::Truncated { line: self.line })
    }

    fn damaged(&self, reason: &str) -> FileError {
        FileError::Line { line: self.line, reason: reason.to_owned() }
    }
}

/// The line of one key, newline included, appended to `buffer`.
pub(super) fn write_entry(buffer: &mut Vec<u8>, key: String, value: &[u8]) -> serde_json::Result<()> {
    let mut line = Line { key: Some(key), ..Line::default() };
    match std::str::from_utf8(value) {
        Ok(text) => line.value = Some(text.to_owned()),
        Err(_) => line.base64 = Some(STANDARD.encode(value)),
    }
    write_line(buffer, &line)
}

/// The end line.
pub(super) fn write_end(buffer: &mut Vec<u8>, keys: u64, sum: String) -> serde_json::Result<()> {
    write_line(buffer, &Line { end: Some(true), keys: Some(keys), sha256: Some(sum), ..Line::default() })
}

/// One line of JSON.
pub(super) fn write_line(buffer: &mut Vec<u8>, line: &impl Serialize) -> serde_json::Result<()> {
    serde_json::to_writer(&mut *buffer, line)?;
    buffer.push(b'\n');
    Ok(())
}

/// SHA-256 of the lines so far.
#[derive(Default)]
pub(super) struct Sum(Sha256);

impl Sum {
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn hex(&self) -> String {
        self.0.clone().finalize().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}
