//! Credentials of controllers: sealed before they are stored with their node, opened when a driver needs them.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sabakan_domain::{crypt::DiskPath, words::Serial};
use sabakan_drivers::Secret;
use zeroize::Zeroizing;

use crate::{
    ServiceError,
    seal::{KeyId, KeyRing, SealError, SealedKey, SecretBytes, SharedRing},
};

/// Random bytes before every sealed text: a sealed record shows the hash of what it holds, and a password, unlike a disk key, could
/// be guessed from its hash.
const BLIND_BYTES: usize = 32;

/// Seals and opens credentials.
pub struct Vault {
    ring: Arc<SharedRing>,
}

impl Vault {
    /// Seals under the keys of a ring.
    pub fn new(ring: Arc<SharedRing>) -> Vault {
        Vault { ring }
    }

    /// Seals one secret of a node, for this node and this setting only.
    pub async fn seal(&self, node: &Serial, setting: &str, secret: &Secret) -> Result<String, ServiceError> {
        let mut blind = [0; BLIND_BYTES];
        getrandom::fill(&mut blind).map_err(|_| SealError::Random)?;
        let mut bytes = Vec::with_capacity(BLIND_BYTES + secret.expose().len());
        bytes.extend_from_slice(&blind);
        bytes.extend_from_slice(secret.expose().as_bytes());
        let bytes = SecretBytes::new(bytes).map_err(|error| ServiceError::Invalid(format!("{setting}: {error}")))?;
        let sealed = self.ring.read().await?.seal(node, &place(setting)?, &bytes)?;
        Ok(STANDARD.encode(sealed.to_bytes()))
    }

    /// Opens what was sealed for this node and this setting.
    pub async fn open(&self, node: &Serial, setting: &str, sealed: &str) -> Result<Secret, ServiceError> {
        let bytes = STANDARD.decode(sealed).map_err(|_| SealError::Damaged("it is not base64"))?;
        let sealed = SealedKey::from_bytes(&bytes)?;
        let opened = match self.ring.known().open(node, &place(setting)?, &sealed) {
            Err(SealError::UnknownKeyId { .. }) => self.ring.read().await?.open(node, &place(setting)?, &sealed)?,
            opened => opened?,
        };
        let text = opened.expose().get(BLIND_BYTES..).ok_or(SealError::Damaged("it is too short"))?;
        let text = Zeroizing::new(text.to_vec());
        let text = std::str::from_utf8(&text).map_err(|_| SealError::Damaged("it is no text"))?;
        Ok(Secret::new(text))
    }

    /// The key a secret is sealed under; `None`: it cannot be read.
    pub fn key_of(sealed: &str) -> Option<KeyId> {
        let bytes = STANDARD.decode(sealed).ok()?;
        SealedKey::from_bytes(&bytes).ok().map(|sealed| sealed.key_id().clone())
    }

    /// The same secret under the current key of `ring`; `None` if it is already.
    pub fn reseal(ring: &KeyRing, node: &Serial, setting: &str, sealed: &str) -> Result<Option<String>, ServiceError> {
        let bytes = STANDARD.decode(sealed).map_err(|_| SealError::Damaged("it is not base64"))?;
        let resealed = ring.reseal(node, &place(setting)?, &SealedKey::from_bytes(&bytes)?)?;
        Ok(resealed.map(|sealed| STANDARD.encode(sealed.to_bytes())))
    }
}

/// What a secret is bound to besides its node. No disk has a name like this one by accident, and none by intent gets anything from it.
fn place(setting: &str) -> Result<DiskPath, ServiceError> {
    DiskPath::new(format!("driver_info.{setting}")).map_err(|error| ServiceError::Invalid(error.to_string()))
}
