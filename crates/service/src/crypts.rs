//! Disk keys: sealed before they are stored, opened when a machine asks, erased with a record of what was erased.

use std::sync::Arc;

use sabakan_domain::{audit::Actor, crypt::DiskPath, words::Serial};
use sabakan_store::repo::crypts::{self, StoredKey};
use sha2::{Digest as _, Sha256};

use crate::{
    Foundation, ServiceError,
    seal::{SealError, SealedKey, SecretBytes, SharedRing},
};

/// Stores, fetches and erases disk keys.
pub struct Crypts {
    on: Arc<Foundation>,
    ring: Arc<SharedRing>,
}

impl Crypts {
    /// Works on a foundation, sealing under the current key of a ring that was read from a file.
    pub fn new(on: Arc<Foundation>, ring: Arc<SharedRing>) -> Crypts {
        Crypts { on, ring }
    }

    /// Stores a key. Refused for a machine that is leaving, and where a key is.
    pub async fn put(
        &self,
        actor: &Actor,
        serial: &Serial,
        disk: &DiskPath,
        key: &SecretBytes,
    ) -> Result<(), ServiceError> {
        let on = &self.on;
        // Keys come seldom. Reading the file each time means that a rotated key is used at once, by every server.
        let sealed = self.ring.read().await?.seal(serial, disk, key)?.to_bytes().into();
        crypts::put(&*on.store, &on.keys, &on.by(actor), serial, disk, &sealed).await?;
        tracing::info!(%serial, %disk, user = actor.name, "disk key stored");
        Ok(())
    }

    /// Fetches a key. "Not found" means that there is none: a client takes it as leave to format the disk, so that every other
    /// trouble must be another error.
    pub async fn get(&self, serial: &Serial, disk: &DiskPath) -> Result<SecretBytes, ServiceError> {
        let on = &self.on;
        let stored = crypts::find(&*on.store, &on.keys, serial, disk).await?.ok_or(ServiceError::NotFound)?;
        let sealed = SealedKey::from_bytes(&stored)?;
        let opened = self.ring.known().open(serial, disk, &sealed);
        match opened {
            // The keys were rotated since this server read them.
            Err(SealError::UnknownKeyId { id }) => {
                tracing::info!(%id, "a disk key is sealed under a key not seen before, reading the key file again");
                Ok(self.ring.read().await?.open(serial, disk, &sealed)?)
            }
            opened => Ok(opened?),
        }
    }

    /// Deletes every key of a retiring machine, which makes it retired.
    pub async fn erase(&self, actor: &Actor, serial: &Serial) -> Result<Vec<DiskPath>, ServiceError> {
        let on = &self.on;
        let erased = crypts::erase(&*on.store, &on.keys, &on.by(actor), serial, erase_record).await?;
        tracing::info!(%serial, count = erased.len(), user = actor.name, "disk keys erased");
        Ok(erased)
    }
}

/// What the audit log keeps of erased keys: the disk and the hash of its key, one line each. The hash proves later that a key shown
/// to somebody was, or was not, the one erased; the key cannot be found from it.
pub(crate) fn erase_record(keys: &[StoredKey]) -> String {
    let line = |key: &StoredKey| match SealedKey::from_bytes(&key.sealed) {
        Ok(sealed) => format!("{} sha256:{}", key.disk, hex::encode(sealed.sha256())),
        Err(SealError::Raw) => format!("{} sha256:{} raw", key.disk, hex::encode(Sha256::digest(&key.sealed))),
        // Erasing must not wait for a record that can be read.
        Err(_) => format!("{} unreadable", key.disk),
    };
    keys.iter().map(line).collect::<Vec<_>>().join("\n")
}
