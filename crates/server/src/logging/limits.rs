//! Every bound of the log, named, with its reason.

/// Longest text of one field in bytes; the rest is left out and counted. Collectors of logs cut or drop lines far longer.
pub const TEXT_BYTES_MAX: usize = 16 * 1024;
