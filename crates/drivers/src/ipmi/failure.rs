//! What ipmitool's messages mean. The only place that reads them: one table for sessions, one for completion codes, each row
//! with a test from real output. Verbose output of version 1.8.19 in the language `C`.

use super::limits;
use crate::DriverError;

/// Why a run of ipmitool did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The controller's proof does not fit the password.
    Password,
    /// The controller has no such user.
    User,
    /// The user may not have the session or the command.
    Privilege,
    /// User and password are right, the second shared secret is not.
    KgKey,
    /// The controller does not have the cipher suite.
    CipherSuite,
    /// It answers, but nothing comes back when a session is opened. Some do so when they lack the cipher suite.
    SilentSession,
    /// Its name has no address.
    NoSuchHost,
    /// Nothing comes back at all.
    NoAnswer,
    /// There was a session, but nothing came back to the command.
    NoReply,
    /// It has no room for a session.
    NoRoom,
    /// It answered the command with this code (IPMI 2.0 table 5-2).
    Code(u8),
    /// Something else.
    Other,
}

/// A text of ipmitool and its meaning; the first row that is found counts. The last two say nothing by themselves: they follow after
/// whatever the reason was.
const MESSAGES: &[(&str, Failure)] = &[
    ("RAKP 2 HMAC is invalid", Failure::Password),
    ("unauthorized name", Failure::User),
    ("invalid username length", Failure::User),
    ("unauthorized role or privilege level requested", Failure::Privilege),
    ("invalid role", Failure::Privilege),
    ("Set Session Privilege Level to", Failure::Privilege),
    ("RAKP 4 message has invalid integrity check value", Failure::KgKey),
    ("invalid authentication algorithm", Failure::CipherSuite),
    ("invalid integrity algorithm", Failure::CipherSuite),
    ("invalid confidentiality algorithm", Failure::CipherSuite),
    ("no cipher suite match", Failure::CipherSuite),
    ("no matching authentication payload", Failure::CipherSuite),
    ("no matching integrity payload", Failure::CipherSuite),
    ("insufficient resources to create a session", Failure::NoRoom),
    ("Address lookup for", Failure::NoSuchHost),
    ("Get Auth Capabilities error", Failure::NoAnswer),
    ("Unable to establish IPMI v2", Failure::SilentSession),
    ("Unable to send RAW command", Failure::NoReply),
];

/// Lines about what ipmitool asks for its own sake: a controller without these functions is as good as one with them.
const NOISE: &[&str] = &["Get HPM.x Capabilities request failed", "Invalid completion code received"];

/// Reads standard error of a run that did not succeed.
pub fn classify(stderr: &str) -> Failure {
    if let Some(code) = completion_code(stderr) {
        return Failure::Code(code);
    }
    let lines = || stderr.lines().filter(|line| !NOISE.iter().any(|noise| line.contains(noise)));
    let found = MESSAGES.iter().find(|(text, _)| lines().any(|line| line.contains(text)));
    found.map_or(Failure::Other, |(_, failure)| *failure)
}

impl Failure {
    /// Whether another cipher suite may help.
    pub const fn is_about_cipher_suite(self) -> bool {
        matches!(self, Failure::CipherSuite | Failure::SilentSession)
    }

    /// Whether the controller is there and only asks to come again.
    pub const fn is_busy(self) -> bool {
        matches!(self, Failure::NoRoom | Failure::Code(0xc0 | 0xc3 | 0xce | 0xd0 | 0xd2))
    }

    /// The error for an operator, who asked to `what`.
    pub fn explain(self, what: &str, stderr: &str) -> DriverError {
        let unreachable = |text: &str| DriverError::Unreachable(text.to_owned());
        match self {
            Failure::Password => DriverError::Credentials("wrong password (RAKP 2 HMAC is invalid)".to_owned()),
            Failure::User => DriverError::Credentials("it has no such user".to_owned()),
            Failure::Privilege | Failure::Code(0xd4) => {
                DriverError::Credentials(format!("the user's privilege is not enough to {what}"))
            }
            Failure::KgKey => DriverError::Credentials("wrong or missing Kg key (RAKP 4 is invalid)".to_owned()),
            Failure::CipherSuite => {
                rejected("open a session", "it has none of the cipher suites that were tried; see ipmi_cipher_suite")
            }
            Failure::SilentSession => unreachable("it answers, but opens no session"),
            Failure::NoSuchHost => unreachable("its name has no address"),
            Failure::NoAnswer => unreachable("no answer"),
            Failure::NoReply => unreachable(&format!("no answer to the command to {what}")),
            Failure::NoRoom => failed(what, "it has no room for another session"),
            Failure::Code(code) => explain_code(code, what),
            Failure::Other => failed(what, &quote(stderr)),
        }
    }
}

/// The last lines of what nobody understands, short enough for a log.
fn quote(stderr: &str) -> String {
    let lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("Loading IANA"));
    let text = lines.collect::<Vec<_>>().join("; ");
    let start = text.char_indices().rev().nth(limits::QUOTE_MAX - 1).map_or(0, |(at, _)| at);
    if text.is_empty() { "ipmitool gave no reason".to_owned() } else { format!("ipmitool: {}", &text[start..]) }
}

fn explain_code(code: u8, what: &str) -> DriverError {
    match code {
        // Invalid command, for this unit, or switched off; 0x80 is how boot options say that a parameter is not supported.
        0xc1 | 0xc2 | 0xd6 | 0x80 => DriverError::Unsupported(format!("to {what}")),
        0xc0 => failed(what, "it is busy (completion code 0xc0)"),
        0xc3 => failed(what, "it timed out by its own account (completion code 0xc3)"),
        0xc7 | 0xc8 | 0xc9 | 0xcb | 0xcc => {
            rejected(what, &format!("it does not take these values (completion code {code:#04x})"))
        }
        0xd3 => failed(what, "the part concerned does not answer it (completion code 0xd3)"),
        0xd5 => rejected(what, "not in its present state (completion code 0xd5)"),
        _ => failed(what, &format!("completion code {code:#04x}")),
    }
}

fn failed(what: &str, reason: &str) -> DriverError {
    DriverError::Failed { what: what.to_owned(), reason: reason.to_owned() }
}

fn rejected(what: &str, reason: &str) -> DriverError {
    DriverError::Rejected { what: what.to_owned(), reason: reason.to_owned() }
}

/// From `... rsp=0xc1): Invalid command`.
fn completion_code(stderr: &str) -> Option<u8> {
    let line = stderr.lines().rev().find(|line| line.starts_with("Unable to send RAW command"))?;
    let (_, rest) = line.split_once("rsp=0x")?;
    u8::from_str_radix(rest.split(')').next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What ipmitool 1.8.19 printed when asked of ipmi_sim 2.0.33 for what the name says, or of nobody.
    const RECORDED: &[(&str, Failure, &str)] = &[
        (
            "Loading IANA PEN Registry...\n> RAKP 2 HMAC is invalid\nError: Unable to establish IPMI v2 / RMCP+ session\n",
            Failure::Password,
            "the BMC refused the credentials: wrong password (RAKP 2 HMAC is invalid)",
        ),
        (
            "Loading IANA PEN Registry...\nRAKP 2 message indicates an error : unauthorized name\n\
             Error: Unable to establish IPMI v2 / RMCP+ session\n",
            Failure::User,
            "the BMC refused the credentials: it has no such user",
        ),
        (
            "Loading IANA PEN Registry...\n> RAKP 4 message has invalid integrity check value\n\
             Error: Unable to establish IPMI v2 / RMCP+ session\n",
            Failure::KgKey,
            "the BMC refused the credentials: wrong or missing Kg key (RAKP 4 is invalid)",
        ),
        (
            "Loading IANA PEN Registry...\nError in open session response message : invalid authentication algorithm\n\n\
             Error: Unable to establish IPMI v2 / RMCP+ session\n",
            Failure::CipherSuite,
            "the BMC refused to open a session: it has none of the cipher suites that were tried; see ipmi_cipher_suite",
        ),
        (
            "Loading IANA PEN Registry...\nGet Auth Capabilities error\n\
             Error issuing Get Channel Authentication Capabilities request\nError: Unable to establish IPMI v2 / RMCP+ session\n",
            Failure::NoAnswer,
            "the BMC cannot be reached: no answer",
        ),
        (
            "Address lookup for no.such.host.invalid failed\nCould not open socket!\n\
             Error: Unable to establish IPMI v2 / RMCP+ session\n",
            Failure::NoSuchHost,
            "the BMC cannot be reached: its name has no address",
        ),
        (
            "Loading IANA PEN Registry...\nGet HPM.x Capabilities request failed, compcode = d4\n\
             Running Get VSO Capabilities my_addr 0x20, transit 0, target 0x20\n\
             Invalid completion code received: Insufficient privilege level\nDiscovered IPMB address 0x0\n\
             RAW REQ (channel=0x0 netfn=0x0 lun=0x0 cmd=0x2 data_len=1)\nRAW REQUEST (1 bytes)\n 01 \n\
             Unable to send RAW command (channel=0x0 netfn=0x0 lun=0x0 cmd=0x2 rsp=0xd4): Insufficient privilege level\n",
            Failure::Code(0xd4),
            "the BMC refused the credentials: the user's privilege is not enough to do it",
        ),
        (
            "Invalid completion code received: Invalid command\nDiscovered IPMB address 0x0\n\
             Unable to send RAW command (channel=0x0 netfn=0x3e lun=0x0 cmd=0x1 rsp=0xc1): Invalid command\n",
            Failure::Code(0xc1),
            "to do it is not supported by this machine's driver or BMC",
        ),
        (
            "Unable to send RAW command (channel=0x0 netfn=0x0 lun=0x0 cmd=0x2 rsp=0xcc): Invalid data field in request\n",
            Failure::Code(0xcc),
            "the BMC refused to do it: it does not take these values (completion code 0xcc)",
        ),
        (
            "Unable to send RAW command (channel=0x0 netfn=0x0 lun=0x0 cmd=0x8 rsp=0xff): Unspecified error\n",
            Failure::Code(0xff),
            "the BMC failed to do it: completion code 0xff",
        ),
    ];

    /// Not to be had from ipmi_sim.
    const OTHERS: &[(&str, Failure, &str)] = &[
        (
            "Error: Unable to establish IPMI v2 / RMCP+ session\n",
            Failure::SilentSession,
            "the BMC cannot be reached: it answers, but opens no session",
        ),
        (
            "RAKP 2 message indicates an error : unauthorized role or privilege level requested\n\
             Error: Unable to establish IPMI v2 / RMCP+ session\n",
            Failure::Privilege,
            "the BMC refused the credentials: the user's privilege is not enough to do it",
        ),
        (
            "Error in open session response message : insufficient resources to create a session\n\
             Error: Unable to establish IPMI v2 / RMCP+ session\n",
            Failure::NoRoom,
            "the BMC failed to do it: it has no room for another session",
        ),
        (
            "Unable to send RAW command (channel=0x0 netfn=0x0 lun=0x0 cmd=0x1)\n",
            Failure::NoReply,
            "the BMC cannot be reached: no answer to the command to do it",
        ),
        ("", Failure::Other, "the BMC failed to do it: ipmitool gave no reason"),
        ("what is\n this\n", Failure::Other, "the BMC failed to do it: ipmitool: what is; this"),
    ];

    #[test]
    fn messages_are_told_apart() {
        for (stderr, failure, text) in RECORDED.iter().chain(OTHERS) {
            assert_eq!(classify(stderr), *failure, "{stderr}");
            assert_eq!(failure.explain("do it", stderr).to_string(), *text);
        }
    }

    #[test]
    fn only_what_may_pass_is_retried() {
        let retried = |failure: Failure| failure.explain("do it", "").is_retryable();
        assert!(retried(Failure::NoAnswer) && retried(Failure::NoRoom) && retried(Failure::Code(0xc0)));
        assert!(!retried(Failure::Password) && !retried(Failure::Code(0xd4)) && !retried(Failure::Code(0xc1)));
    }

    #[test]
    fn long_messages_are_cut_in_front() {
        let text = Failure::Other.explain("do it", &format!("{}ende", "ä".repeat(1000))).to_string();
        assert!(text.ends_with("ende") && text.chars().count() < limits::QUOTE_MAX + 50, "{text}");
    }
}
