//! Bounds of sealing.

/// Most keys of a ring. One rotation a month fills it in twenty years; more means somebody rotates in a loop.
pub const RING_KEYS_MAX: usize = 256;

/// Largest key file in bytes: [`RING_KEYS_MAX`] entries with room for a person's indentation.
pub const RING_FILE_BYTES_MAX: usize = 128 * 1024;

/// Most bytes one entry of the key file takes as we write it, and as many for what surrounds the entries.
pub const RING_ENTRY_BYTES_MAX: usize = 256;

/// Largest stored record in bytes: the longest disk key in base64, and the fields around it.
pub const RECORD_BYTES_MAX: usize = 8 * 1024;
