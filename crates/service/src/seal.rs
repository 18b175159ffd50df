//! Sealing of disk keys at rest. The store only ever sees a [`SealedKey`]; what opens it is in a [`KeyRing`], a file of its own, so
//! neither the store nor a backup of it reveals a disk key.
//!
//! A root key of the ring and a fresh salt give one encryption key per record (HKDF-SHA256), and that seals the disk key
//! (AES-256-GCM). The record is bound to its serial and disk: moved to another place it does not open. Nothing here knows when a key
//! may be added or deleted (`domain::crypt`) or where records are kept. Work is blocking and short; only the ring's file is touched.

mod file;
mod limits;
mod record;
mod ring;
mod shared;

use std::fmt;

use sabakan_domain::limits::DISK_KEY_BYTES_MAX;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

pub use file::KeyRingError;
pub use record::SealedKey;
pub use ring::{KeyId, KeyRing};
pub use shared::SharedRing;

/// A disk key in the open. Wiped when dropped, never printed, not cloned.
pub struct SecretBytes(Zeroizing<Vec<u8>>);

/// More bytes than a disk key may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the disk key has {0} bytes, at most {DISK_KEY_BYTES_MAX} are allowed")]
pub struct SecretTooLong(pub usize);

/// Why a disk key was not sealed or opened. Says nothing about the key itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// Sealed by a server with another key file, or under a key that was forgotten too early.
    #[error(
        "the disk key is sealed under key {id}, which is not in the key file; \
         add that key from the key file of the server that sealed it, or from a backup of that file"
    )]
    UnknownKeyId {
        /// The missing key.
        id: KeyId,
    },
    /// Stored by the older service, which does not seal.
    #[error(
        "the disk key is raw: the older service stored it without sealing it, and it must be imported before it is served; this version \
         cannot import it, see the guide to taking over. The key is there: do not format the disk"
    )]
    Raw,
    /// Written by a program we do not know yet.
    #[error("the disk key is sealed in format {0}, which this version does not know; use a newer version")]
    Version(u64),
    /// Not what was sealed, or not for this machine and disk.
    #[error("the stored disk key is damaged: {0}")]
    Damaged(&'static str),
    /// Without it nothing can be sealed safely.
    #[error("the system gives no random bytes")]
    Random,
}

impl SecretBytes {
    /// Takes the bytes over; they are wiped even when refused. Emptiness is for the caller to judge.
    pub fn new(bytes: Vec<u8>) -> Result<SecretBytes, SecretTooLong> {
        let bytes = Zeroizing::new(bytes);
        if bytes.len() > DISK_KEY_BYTES_MAX {
            return Err(SecretTooLong(bytes.len()));
        }
        Ok(SecretBytes(bytes))
    }

    /// The key itself. Whoever copies it wipes the copy.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// What an erase record names the key by.
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(self.expose()).into()
    }
}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes(..)")
    }
}

#[cfg(test)]
mod tests;
