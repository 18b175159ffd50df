//! Every bound of the client, named, with its reason.

use std::time::Duration;

/// Most bytes of an answer that is a list. A machine is about 2 KB of JSON, so this is five times the largest fleet we measure
/// (100,000); a server that sends more is broken or is no sabakan.
pub const LIST_BYTES_MAX: u64 = 1 << 30;

/// Most bytes of any other answer, refusals included.
pub const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// Most bytes of one line of an answer in lines: the largest value of the server's store, every byte of it escaped.
pub const LINE_BYTES_MAX: u64 = 8 << 20;

/// Most characters of an answer that is not ours, such as a proxy's error page, that become part of an error text.
pub const FOREIGN_TEXT_CHARS_MAX: usize = 1000;

/// How long a host name may take, and a connection with its TLS handshake; less if the caller has less patience. Both are answered
/// at once where somebody listens.
pub const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// How long the server may be silent, unless the caller says otherwise. Longer than any deadline of the server itself, so that its
/// own explanation arrives first.
pub const ANSWER_WAIT: Duration = Duration::from_secs(60);

/// How long one request may take altogether: ends a transfer that trickles.
pub const REQUEST_WAIT_MAX: Duration = Duration::from_secs(600);

/// Bodies from this size on ask the server first. A server that refuses a large body closes the connection while we still write,
/// and its refusal would be lost.
pub const EXPECT_CONTINUE_BYTES_MIN: usize = 64 << 10;

/// Longest URL of a request, conditions included: what the HTTP library can hold, and more than servers usually take.
pub const URL_BYTES_MAX: usize = 65_534;

/// Most pages of one list. A page has up to 1,000 entries, so this is ten times the largest fleet we measure; a server that sends
/// more pages sends the same ones again.
pub const PAGES_MAX: usize = 1_000;

/// Most bytes of what an inspection found: a large machine with every disk and every port is a tenth of it.
pub const INVENTORY_BYTES_MAX: u64 = 16 << 20;
/// Most bytes of a file with certificates: some seventy times the list of a usual system. More is a mistake, such as a device that
/// never ends.
pub const CA_FILE_BYTES_MAX: u64 = 16 << 20;
