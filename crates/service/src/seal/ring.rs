//! The keys that disk keys are sealed under, and the sealing. How a ring is kept in its file is in `file`.

use std::{collections::BTreeMap, fmt};

use aes_gcm::{Aes256Gcm, KeyInit, aead::AeadInOut};
use hkdf::Hkdf;
use jiff::Timestamp;
use sabakan_domain::{crypt::DiskPath, words::Serial};
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use super::{
    SealError, SealedKey, SecretBytes,
    record::{NONCE_BYTES, SALT_BYTES, TAG_BYTES, VERSION},
};

pub(super) const ROOT_KEY_BYTES: usize = 32;
const KEY_ID_BYTES: usize = 8;

/// Keep what is derived here apart from anything else that may ever be derived from the same root key.
const ID_CONTEXT: &[u8] = b"sabakan key id";
const RECORD_CONTEXT: &[u8] = b"sabakan disk key";

/// Names a key of a ring: 16 hex digits, computed from the key. A key that changed on disk no longer fits its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(String);

/// Everything that disk keys are or were sealed under. New ones are sealed under the current key. Wiped when dropped.
pub struct KeyRing {
    pub(super) current: KeyId,
    pub(super) keys: BTreeMap<KeyId, RootKey>,
}

/// One key of the ring. On the heap, so that moving the ring leaves no copies behind.
pub(super) struct RootKey {
    pub(super) bytes: Box<Zeroizing<[u8; ROOT_KEY_BYTES]>>,
    pub(super) created: Timestamp,
}

impl KeyId {
    /// Reads an id; `None` if the text is none.
    pub fn parse(text: &str) -> Option<KeyId> {
        let digits = text.len() == 2 * KEY_ID_BYTES && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        digits.then(|| KeyId(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl RootKey {
    pub(super) fn random(created: Timestamp) -> Result<RootKey, getrandom::Error> {
        let mut key = RootKey { bytes: Box::default(), created };
        getrandom::fill(&mut key.bytes[..])?;
        Ok(key)
    }

    /// One-way: the id is stored beside every record and tells nothing about the key.
    pub(super) fn id(&self) -> KeyId {
        let mut id = [0; KEY_ID_BYTES];
        derive(&[], &self.bytes[..], ID_CONTEXT, &mut id);
        KeyId(hex::encode(id))
    }
}

impl KeyRing {
    /// A ring of one new key.
    pub(super) fn generate(now: Timestamp) -> Result<KeyRing, getrandom::Error> {
        let key = RootKey::random(now)?;
        let current = key.id();
        Ok(KeyRing { keys: BTreeMap::from([(current.clone(), key)]), current })
    }

    /// What new disk keys are sealed under.
    pub fn current(&self) -> &KeyId {
        &self.current
    }

    /// Every key and when it was made, for people.
    pub fn list(&self) -> impl Iterator<Item = (&KeyId, Timestamp)> {
        self.keys.iter().map(|(id, key)| (id, key.created))
    }

    /// Seals a disk key for one disk of one machine. Twice the same gives two different records.
    pub fn seal(&self, serial: &Serial, path: &DiskPath, key: &SecretBytes) -> Result<SealedKey, SealError> {
        let mut record = SealedKey {
            key_id: self.current.clone(),
            salt: [0; SALT_BYTES],
            nonce: [0; NONCE_BYTES],
            sealed: Vec::new(),
            sha256: key.sha256(),
            size: key.expose().len(),
        };
        getrandom::fill(&mut record.salt).map_err(|_| SealError::Random)?;
        getrandom::fill(&mut record.nonce).map_err(|_| SealError::Random)?;
        // Room for the tag from the start: growing would leave a copy of the open key behind.
        let mut buffer = Zeroizing::new(Vec::with_capacity(key.expose().len() + TAG_BYTES));
        buffer.extend_from_slice(key.expose());
        self.cipher(serial, path, &record)?
            .encrypt_in_place(&record.nonce.into(), &associated(serial, path, &record), &mut *buffer)
            .expect("a disk key is far below the limit of the cipher");
        record.sealed = std::mem::take(&mut *buffer);
        Ok(record)
    }

    /// Opens what was sealed for that disk of that machine.
    pub fn open(&self, serial: &Serial, path: &DiskPath, record: &SealedKey) -> Result<SecretBytes, SealError> {
        let mut buffer = Zeroizing::new(record.sealed.clone());
        self.cipher(serial, path, record)?
            .decrypt_in_place(&record.nonce.into(), &associated(serial, path, record), &mut *buffer)
            .map_err(|_| SealError::Damaged("it was changed, or sealed for another machine or disk"))?;
        SecretBytes::new(std::mem::take(&mut *buffer)).map_err(|_| SealError::Damaged("it is too long"))
    }

    /// The same disk key under the current key; `None` if it is already.
    pub fn reseal(&self, serial: &Serial, path: &DiskPath, record: &SealedKey) -> Result<Option<SealedKey>, SealError> {
        if record.key_id == self.current {
            return Ok(None);
        }
        let key = self.open(serial, path, record)?;
        self.seal(serial, path, &key).map(Some)
    }

    /// The cipher of one record: its key is derived from the root key, the salt, the serial and the disk.
    fn cipher(&self, serial: &Serial, path: &DiskPath, record: &SealedKey) -> Result<Aes256Gcm, SealError> {
        let root =
            self.keys.get(&record.key_id).ok_or_else(|| SealError::UnknownKeyId { id: record.key_id.clone() })?;
        let info =
            joined(&[RECORD_CONTEXT, &VERSION.to_be_bytes(), serial.as_str().as_bytes(), path.as_str().as_bytes()]);
        let mut key = Zeroizing::new([0; 32]);
        derive(&record.salt, &root.bytes[..], &info, &mut key[..]);
        Ok(Aes256Gcm::new_from_slice(&key[..]).expect("the key has the size of the cipher"))
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.keys.keys().collect();
        f.debug_struct("KeyRing").field("current", &self.current).field("ids", &ids).finish()
    }
}

fn derive(salt: &[u8], secret: &[u8], info: &[u8], output: &mut [u8]) {
    let (mut pseudorandom, hkdf) = Hkdf::<Sha256>::extract(Some(salt), secret);
    pseudorandom.as_mut_slice().zeroize();
    hkdf.expand(info, output).expect("one block of output is always possible");
}

/// What a record says beside the sealed bytes, and where it belongs. None of it can be exchanged without breaking the seal; the
/// salt is not here because the cipher's key depends on it.
fn associated(serial: &Serial, path: &DiskPath, record: &SealedKey) -> Vec<u8> {
    joined(&[
        RECORD_CONTEXT,
        &VERSION.to_be_bytes(),
        record.key_id.as_str().as_bytes(),
        serial.as_str().as_bytes(),
        path.as_str().as_bytes(),
        &record.sha256,
        &(record.size as u64).to_be_bytes(),
    ])
}

/// Each part behind its length, so that no two lists of parts look the same.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}
