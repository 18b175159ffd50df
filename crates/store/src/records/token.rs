//! An access token as stored under `tokens/<id>`.

use jiff::Timestamp;
use sabakan_domain::{access::TokenRole, words::Serial};
use serde::{Deserialize, Serialize};

/// `tokens/<id>`. The secret itself is nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// Who uses it; the name in the audit log.
    pub name: String,
    /// What it may do.
    pub role: TokenRole,
    /// The machine it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<Serial>,
    /// SHA-256 of the secret, in hex.
    pub sha256: String,
    /// When it was made.
    pub created: Timestamp,
}

impl TokenRecord {
    /// The bytes to store.
    pub fn to_bytes(&self) -> bytes::Bytes {
        super::encode(self)
    }

    /// Reads stored bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<TokenRecord> {
        serde_json::from_slice(bytes).ok()
    }
}
