//! Input files, from a path or from standard input; most are JSON. Errors name the file and, where it has one, the field.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use sabakan_wire::json;
use serde::de::{DeserializeOwned, IgnoredAny};

use crate::{
    exit::{Failure, words},
    limits,
};

/// The flag every command with an input file has.
#[derive(Debug, clap::Args)]
pub struct Input {
    /// JSON file; `-` is standard input
    #[arg(short = 'f', long = "file", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub file: PathBuf,
}

/// Reads and decodes a file; `-` is standard input.
pub fn read<T: DeserializeOwned + Default>(path: &Path) -> Result<T, Failure> {
    let bytes = read_bytes(path, limits::FILE_BYTES_MAX)?;
    decode(&bytes).map_err(|reason| Failure::file(&name(path), reason))
}

/// The content of a file, which must not be larger than this; `-` is standard input.
pub fn read_bytes(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Failure> {
    let bytes = if is_stdin(path) {
        read_bounded(io::stdin().lock(), bytes_max)
    } else {
        File::open(path).and_then(|file| read_bounded(file, bytes_max))
    };
    bytes.map_err(|error| Failure::file(&name(path), words(&error)))
}

/// A secret that is the only line of a file; `-` is standard input. The newline at its end does not belong to it.
pub fn read_secret(path: &Path) -> Result<String, Failure> {
    let bytes = read_bytes(path, limits::SECRET_FILE_BYTES_MAX)?;
    let refuse = |reason: &str| Failure::file(&name(path), reason);
    let text = String::from_utf8(bytes).map_err(|_| refuse("it is not text"))?;
    let text = text.strip_suffix('\n').map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text));
    if text.is_empty() || text.contains('\n') {
        return Err(refuse("one line is expected"));
    }
    Ok(text.to_owned())
}

/// What to call a file in messages.
pub fn name(path: &Path) -> String {
    if is_stdin(path) { "standard input".to_owned() } else { path.display().to_string() }
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn read_bounded(from: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("larger than {bytes_max} bytes")));
    }
    Ok(bytes)
}

fn decode<T: DeserializeOwned + Default>(bytes: &[u8]) -> Result<T, String> {
    let value = json::decode(bytes).map_err(|error| error.to_string())?;
    // The server ignores what follows a body. Two lists put into one file must not lose the second one silently.
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<IgnoredAny>();
    values.next();
    let rest = &bytes[values.byte_offset()..];
    if rest.iter().all(u8::is_ascii_whitespace) { Ok(value) } else { Err("more than one JSON value".to_owned()) }
}

#[cfg(test)]
mod tests {
    use sabakan_wire::rest::{DhcpConfigJson, MachineInput};

    use super::*;

    #[test]
    fn content_is_one_json_value() {
        let check = |text: &str, expected: Result<usize, &str>| {
            let found = decode::<Vec<MachineInput>>(text.as_bytes()).map(|machines| machines.len());
            assert_eq!(found, expected.map_err(str::to_owned), "{text}");
        };
        check("[{}, {}]\n", Ok(2));
        check("null", Ok(0));
        check("[] []", Err("more than one JSON value"));
        check("[]x", Err("more than one JSON value"));
        check("", Err("EOF while parsing a value at line 1 column 0"));
        check(r#"[{"rack":"1"}]"#, Err(r#"[0].rack: invalid type: string "1", expected u32 at line 1 column 12"#));
    }

    #[test]
    fn errors_name_the_file() {
        let check = |path: &Path, text: &str| {
            let failure = read::<DhcpConfigJson>(path).unwrap_err();
            assert_eq!((failure.text.as_str(), failure.code), (text, 1));
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("dhcp.json");
        check(&path, &format!("{}: No such file or directory", path.display()));
        check(directory.path(), &format!("{}: Is a directory", directory.path().display()));
        std::fs::write(&path, r#"{"lease-minutes":-1}"#).unwrap();
        let reason = "lease-minutes: invalid value: integer `-1`, expected u32 at line 1 column 19";
        check(&path, &format!("{}: {reason}", path.display()));
        std::fs::write(&path, r#"{"Lease-Minutes":1}"#).unwrap();
        assert_eq!(read::<DhcpConfigJson>(&path).unwrap().lease_minutes, 1);
    }

    #[test]
    fn endless_input_is_refused() {
        assert_eq!(read_bounded(io::repeat(b' '), 9).unwrap_err().to_string(), "larger than 9 bytes");
        assert_eq!(read_bounded(&b"123456789"[..], 9).unwrap(), b"123456789");
    }
}
