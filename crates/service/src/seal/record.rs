//! The stored form of a sealed disk key. Reading it says nothing about what was wrong beyond a fixed text: a store taken over from
//! elsewhere may hold a bare disk key in its place, and an error must not repeat it.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sabakan_store::records::is_sealed_key;
use serde::{Deserialize, Serialize};

use super::{KeyId, SealError, limits};

pub(super) const VERSION: u64 = 1;
pub(super) const SALT_BYTES: usize = 32;
pub(super) const NONCE_BYTES: usize = 12;
pub(super) const TAG_BYTES: usize = 16;

/// A disk key as the store may see it.
#[derive(Clone, PartialEq, Eq)]
pub struct SealedKey {
    pub(super) key_id: KeyId,
    pub(super) salt: [u8; SALT_BYTES],
    pub(super) nonce: [u8; NONCE_BYTES],
    pub(super) sealed: Vec<u8>,
    pub(super) sha256: [u8; 32],
    pub(super) size: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    v: u64,
    kid: String,
    salt: String,
    nonce: String,
    sealed: String,
    sha256: String,
    size: usize,
}

/// Read first: a later version may have any other fields.
#[derive(Deserialize)]
struct Versioned {
    v: u64,
}

impl SealedKey {
    /// Which key of the ring opens it.
    pub fn key_id(&self) -> &KeyId {
        &self.key_id
    }

    /// SHA-256 of the disk key, for the erase record. Authentic only once the record was opened.
    pub fn sha256(&self) -> &[u8; 32] {
        &self.sha256
    }

    /// How many bytes the disk key has.
    pub fn size(&self) -> usize {
        self.size
    }

    /// What is stored: one line of JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        let SealedKey { key_id, salt, nonce, sealed, sha256, size } = self;
        let stored = Stored {
            v: VERSION,
            kid: key_id.to_string(),
            salt: STANDARD.encode(salt),
            nonce: STANDARD.encode(nonce),
            sealed: STANDARD.encode(sealed),
            sha256: hex::encode(sha256),
            size: *size,
        };
        serde_json::to_vec(&stored).expect("a struct of texts and numbers is JSON")
    }

    /// Reads what is stored. Whether it is authentic turns out when it is opened.
    pub fn from_bytes(bytes: &[u8]) -> Result<SealedKey, SealError> {
        if !is_sealed_key(bytes) {
            return Err(SealError::Raw);
        }
        if bytes.len() > limits::RECORD_BYTES_MAX {
            return Err(SealError::Damaged("it is too long for a sealed key"));
        }
        let foreign = |_| SealError::Damaged("it is not the record of a sealed key");
        let Versioned { v } = serde_json::from_slice(bytes).map_err(foreign)?;
        if v != VERSION {
            return Err(SealError::Version(v));
        }
        let Stored { v: _, kid, salt, nonce, sealed, sha256, size } = serde_json::from_slice(bytes).map_err(foreign)?;
        let sealed = STANDARD.decode(sealed).map_err(|_| SealError::Damaged("its sealed part is not base64"))?;
        if size.checked_add(TAG_BYTES) != Some(sealed.len()) {
            return Err(SealError::Damaged("its size does not fit its sealed part"));
        }
        Ok(SealedKey {
            key_id: KeyId::parse(&kid).ok_or(SealError::Damaged("its key id is none"))?,
            salt: array(&salt).ok_or(SealError::Damaged("its salt is none"))?,
            nonce: array(&nonce).ok_or(SealError::Damaged("its nonce is none"))?,
            sha256: digest(&sha256).ok_or(SealError::Damaged("its checksum is none"))?,
            sealed,
            size,
        })
    }
}

impl fmt::Debug for SealedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedKey").field("key_id", &self.key_id).field("size", &self.size).finish_non_exhaustive()
    }
}

fn array<const N: usize>(text: &str) -> Option<[u8; N]> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

/// Lower case only, so that a digest has one text and can be searched for.
fn digest(text: &str) -> Option<[u8; 32]> {
    let bytes = hex::decode(text).ok()?.try_into().ok()?;
    (hex::encode(bytes) == text).then_some(bytes)
}
