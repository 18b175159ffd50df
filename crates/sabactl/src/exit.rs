//! How the program ends: exit codes that scripts rely on, and errors that tell a person what to do.

use std::{
    io::{self, Write},
    process::ExitCode,
};

pub use sabakan_client::words;
use sabakan_client::{ApiBody, Client, Error, TlsProblem};
use sabakan_wire::rest::ErrorKind;

const GENERAL: u8 = 1;
const UNKNOWN_COMMAND: u8 = 2;
const CLIENT_ERROR: u8 = 4;
const SERVER_ERROR: u8 = 5;
const WORK_FAILED: u8 = 6;
const TIMED_OUT: u8 = 7;
const NOT_FOUND: u8 = 14;
const CONFLICT: u8 = 19;

/// Why the program could not do what it was asked to.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// What went wrong, shown after `Error: `.
    pub text: String,
    /// What to do about it, in lines of their own.
    pub hint: Option<String>,
    /// The exit code.
    pub code: u8,
}

impl Failure {
    /// Flags, arguments, files, connections.
    pub fn general(text: impl Into<String>) -> Failure {
        Failure { text: text.into(), hint: None, code: GENERAL }
    }

    /// No such command or subcommand.
    pub fn unknown_command(text: impl Into<String>) -> Failure {
        Failure { code: UNKNOWN_COMMAND, ..Failure::general(text) }
    }

    /// A file that cannot be read, or whose content is not what it should be.
    pub fn file(name: &str, reason: impl std::fmt::Display) -> Failure {
        Failure::general(format!("{name}: {reason}"))
    }

    /// Why a request about disk keys or tokens failed. Whoever asks in the clear is refused, and no token changes that.
    pub fn of_secrets(client: &Client, error: Error) -> Failure {
        let in_the_clear = error.status() == Some(403) && !client.is_private();
        let failure = Failure::from(error);
        if in_the_clear { failure.with_hint(USE_HTTPS) } else { failure }
    }

    /// The server took a wish, and its work failed.
    pub fn work_failed(text: impl Into<String>) -> Failure {
        Failure { code: WORK_FAILED, ..Failure::general(text) }
    }

    /// Work goes on longer than somebody wanted to wait.
    pub fn timed_out(text: impl Into<String>) -> Failure {
        Failure { code: TIMED_OUT, ..Failure::general(text) }
    }

    /// An error of the provisioning API, which has an address of its own.
    pub fn from_node(error: Error) -> Failure {
        let is_connect = matches!(error, Error::Connect { .. });
        let failure = Failure::from(error).if_not_found("sabactl nodes list shows the nodes there are.");
        if is_connect { failure.with_hint(NAME_THE_API) } else { failure }
    }

    /// The same failure with better advice.
    pub fn with_hint(self, hint: impl Into<String>) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }

    /// The same failure, with this advice if the server says that there is no such thing.
    pub fn if_not_found(self, hint: &str) -> Failure {
        if self.code == NOT_FOUND && self.hint.is_none() { self.with_hint(hint) } else { self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure { text: error.to_string(), hint: advice(&error), code: error.status().map_or(GENERAL, status_code) }
    }
}

const NAME_THE_API: &str =
    "Is the server running, and its provisioning API on? It is on an https:// --server, and usually on port 6385 of its host.
Name another address with --ironic-server or SABAKAN_IRONIC_SERVER.";

/// The exit code for an HTTP status that is no success.
fn status_code(status: u16) -> u8 {
    match status {
        404 => NOT_FOUND,
        409 => CONFLICT,
        400..=499 => CLIENT_ERROR,
        500..=599 => SERVER_ERROR,
        _ => GENERAL,
    }
}

fn advice(error: &Error) -> Option<String> {
    match error {
        Error::Connect { .. } => {
            Some("Is the server running? Name another one with --server or SABAKAN_URL.".to_owned())
        }
        Error::Url { .. } => Some("Name the server with --server or SABAKAN_URL.".to_owned()),
        Error::Trust { .. } => Some(NAME_A_CERTIFICATE.to_owned()),
        Error::Exposed { .. } => Some(USE_HTTPS.to_owned()),
        Error::Tls { problem, .. } => tls_advice(problem).map(str::to_owned),
        Error::Decode { url, .. } if url.starts_with("http://") => {
            Some("Is this the address of a sabakan server? If it is its HTTPS port, write https://.".to_owned())
        }
        Error::Decode { .. } => Some("Is this the address of a sabakan server?".to_owned()),
        Error::Request { .. } | Error::Interrupted { .. } | Error::Timeout { .. } => None,
        Error::Api { body: ApiBody::Text(_), .. } => {
            Some("This answer is not sabakan's own: is the address right, or is a proxy in between?".to_owned())
        }
        Error::Api { status: 401 | 403, .. } => {
            Some("Name a file with a token with --token-file, or put the token into SABAKAN_TOKEN.".to_owned())
        }
        Error::Api { .. } => match error.json() {
            Some(json) if json.kind == Some(ErrorKind::Internal) => {
                Some(format!("The server's log says more about request {}.", json.request_id))
            }
            _ => None,
        },
    }
}

const USE_HTTPS: &str =
    "HTTPS is usually on port 8443, as in --server https://HOST:8443. A tunnel that begins at localhost works as well.";

const NAME_A_CERTIFICATE: &str = "Name a file with the certificate of your authority with --ca-file or SABAKAN_CA_FILE.
A server that made its own keeps it in its data directory, as server.crt: copy that file from the server.";

fn tls_advice(problem: &TlsProblem) -> Option<&'static str> {
    match problem {
        TlsProblem::Untrusted => Some(NAME_A_CERTIFICATE),
        TlsProblem::WrongName { .. } => Some(
            "Name the server with --server as its certificate does, or give it a certificate for this name with --server-cert.",
        ),
        TlsProblem::NotTls | TlsProblem::HungUp => {
            Some("Is this the server's HTTP port? HTTPS is usually on port 8443.")
        }
        TlsProblem::Expired | TlsProblem::NotYetValid | TlsProblem::Other(_) => None,
    }
}

/// Tells what went wrong, if anything did.
pub fn end(outcome: Result<(), Failure>) -> ExitCode {
    let Err(Failure { text, hint, code }) = outcome else { return ExitCode::SUCCESS };
    let hint = hint.map(|hint| format!("{hint}\n")).unwrap_or_default();
    note(&format!("Error: {text}\n{hint}"));
    ExitCode::from(code)
}

/// Tells a person something that is no result. Nobody may be there to read it.
pub fn note(text: &str) {
    let _unread = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use sabakan_wire::rest::ErrorJson;

    use super::*;

    fn api(status: u16, kind: Option<ErrorKind>) -> Error {
        let (error, request_id) = ("text".into(), "r1".into());
        let json = ErrorJson { error, request_id, status, kind, problems: Vec::new(), fits: None };
        Error::Api { status, reason_phrase: "Phrase".into(), body: ApiBody::Json(json) }
    }

    #[test]
    fn exit_codes() {
        let check = |status: u16, code: u8| assert_eq!(Failure::from(api(status, None)).code, code, "{status}");
        check(400, 4);
        check(403, 4);
        check(404, 14);
        check(405, 4);
        check(409, 19);
        check(413, 4);
        check(499, 4);
        check(500, 5);
        check(503, 5);
        check(302, 1);
        let (server, reason) = (|| "http://x".to_owned(), || "y".to_owned());
        for error in [
            Error::Url { url: server(), reason: reason() },
            Error::Request { reason: reason() },
            Error::Trust { reason: reason() },
            Error::Exposed { server: server(), what: "a token" },
            Error::Connect { server: server(), reason: reason() },
            Error::Tls { server: server(), problem: TlsProblem::Untrusted },
            Error::Interrupted { server: server(), reason: reason() },
            Error::Timeout { server: server(), limit: reason() },
            Error::Decode { url: server(), reason: reason() },
        ] {
            assert_eq!(Failure::from(error).code, 1);
        }
        assert_eq!(Failure::general("x").code, 1);
        assert_eq!(Failure::unknown_command("x").code, 2);
    }

    #[test]
    fn errors_say_what_to_do() {
        let check = |error: Error, text: &str, hint: Option<&str>| {
            let failure = Failure::from(error);
            assert_eq!(failure.text, text);
            assert_eq!(failure.hint.as_deref(), hint);
        };
        check(
            api(500, Some(ErrorKind::Internal)),
            "Phrase: text",
            Some("The server's log says more about request r1."),
        );
        check(api(500, Some(ErrorKind::Refused)), "Phrase: text", None);
        check(
            api(403, Some(ErrorKind::Forbidden)),
            "Phrase: text",
            Some("Name a file with a token with --token-file, or put the token into SABAKAN_TOKEN."),
        );
        check(
            Error::Connect { server: "http://x".into(), reason: "connection refused".into() },
            "cannot connect to http://x: connection refused",
            Some("Is the server running? Name another one with --server or SABAKAN_URL."),
        );
        let foreign =
            || Error::Api { status: 404, reason_phrase: "Not Found".into(), body: ApiBody::Text(String::new()) };
        let hint = "This answer is not sabakan's own: is the address right, or is a proxy in between?";
        check(foreign(), "Not Found", Some(hint));
        assert_eq!(Failure::from(foreign()).if_not_found("set it").hint.as_deref(), Some(hint));
        assert_eq!(Failure::from(api(404, None)).if_not_found("set it").hint.as_deref(), Some("set it"));
        assert_eq!(Failure::from(api(409, None)).if_not_found("set it").hint, None);
    }

    #[test]
    fn a_refusal_in_the_clear_is_not_about_rights() {
        let hint = |url: &str, status: u16| {
            let client = Client::new(url).expect("a client");
            Failure::of_secrets(&client, api(status, Some(ErrorKind::Forbidden))).hint.unwrap_or_default()
        };
        assert!(hint("http://boot-0:8888", 403).contains("https://HOST:8443"));
        assert!(hint("http://localhost:8888", 403).contains("--token-file"));
        assert!(hint("http://boot-0:8888", 401).contains("--token-file"));
    }

    #[test]
    fn every_way_to_fail_at_tls_that_a_person_can_mend_says_how() {
        let check = |problem: TlsProblem, expected: &str| {
            let hint = Failure::from(Error::Tls { server: "https://x".into(), problem }).hint.unwrap_or_default();
            assert!(hint.contains(expected), "{hint}");
        };
        check(TlsProblem::Untrusted, "server.crt");
        check(TlsProblem::WrongName { names: Vec::new() }, "--server-cert");
        check(TlsProblem::NotTls, "8443");
        check(TlsProblem::HungUp, "8443");
        let none = Failure::from(Error::Trust { reason: "x".into() });
        assert_eq!(none.text, "no certificates to verify the server with: x");
        assert!(none.hint.is_some_and(|hint| hint.contains("--ca-file") && hint.contains("server.crt")));
    }

    #[test]
    fn errors_of_the_system_have_words() {
        assert_eq!(words(&io::Error::from_raw_os_error(2)), "No such file or directory");
        assert_eq!(words(&io::Error::other("x")), "x");
    }
}
