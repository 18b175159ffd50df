//! The rules of the product are plain functions: `domain` reads no clock, socket, file or random source, and logs
//! nothing. The manifest already keeps most libraries out; this rule is about what the standard library offers, and
//! about naming a library before it is in the manifest.

use super::Finding;
use super::source::{RustText, words};

pub const DIRECTORY: &str = "crates/domain/src/";

/// What must not appear, and what to do instead.
const FORBIDDEN: &[(&str, &str)] = &[
    ("SystemTime::now", "take the time as an argument"),
    ("Instant::now", "take the time as an argument"),
    ("Timestamp::now", "take the time as an argument"),
    ("Zoned::now", "take the time as an argument"),
    ("std::fs", "read the file in a service and pass its content"),
    ("fs::File", "read the file in a service and pass its content"),
    ("TcpStream", "sockets live in transports and drivers"),
    ("TcpListener", "sockets live in transports"),
    ("UdpSocket", "sockets live in transports"),
    ("std::env", "the environment is read in the server's wiring only"),
    ("std::process", "starting programs is a driver's work"),
    ("std::thread", "a rule runs where it is called"),
    ("tokio", "a rule does not wait; return what to wait for"),
    ("rand", "take the random bytes as an argument"),
    ("getrandom", "take the random bytes as an argument"),
    ("tracing", "return a report; services log it"),
    ("println", "return a report; services log it"),
    ("eprintln", "return a report; services log it"),
];

/// Looks at one file of `domain`.
pub fn check(file: &str, rust: &RustText) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, code) in rust.code_lines() {
        for (name, instead) in FORBIDDEN {
            if words(code, name).iter().any(|at| is_use(code, *at, name)) {
                findings.push(Finding::new(file, line, "purity", format!("`{name}` in `domain`: {instead}")));
            }
        }
    }
    findings
}

/// Whether the word names a library or an item. A plain word such as `rand` may also be somebody's variable.
fn is_use(code: &str, at: usize, name: &str) -> bool {
    let after = code[at + name.len()..].trim_start();
    let imported = code.trim_start().trim_start_matches("pub ").starts_with("use ");
    name.contains(|c: char| c == ':' || c.is_uppercase())
        || after.starts_with("::")
        || after.starts_with('!')
        || imported
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Vec<String> {
        super::check("crates/domain/src/x.rs", &RustText::new(text)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn effects_are_found() {
        for text in [
            "let now = Timestamp::now();",
            "let now = std::time::SystemTime::now();",
            "use std::fs;",
            "let text = std::fs::read(path);",
            "use std::net::{IpAddr, TcpStream};",
            "tokio::spawn(x);",
            "use rand::Rng;",
            "tracing::info!(x);",
            "println!(\"x\");",
        ] {
            assert_eq!(check(text).len(), 1, "{text}");
        }
        let expected = "crates/domain/src/x.rs:2: purity: `Instant::now` in `domain`: take the time as an argument";
        assert_eq!(check("\nlet begin = Instant::now();"), [expected]);
    }

    #[test]
    fn words_that_only_look_alike_are_not() {
        for text in [
            "// Timestamp::now() is read by the caller",
            "let text = \"std::fs\";",
            "use std::net::IpAddr;",
            "let rand = 4; let x = rand + 1;",
            "let brand::X = y;",
            "fn now(now: Timestamp) {}",
            "use std::environment;",
        ] {
            assert_eq!(check(text), [""; 0], "{text}");
        }
    }
}
