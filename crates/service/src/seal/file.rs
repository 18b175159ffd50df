//! The key file: one JSON document that only its owner may read. It is replaced as a whole or not at all, and one that cannot be
//! understood is never touched: it may be the only way to somebody's disks. Texts of the file are wiped from memory, and its
//! errors never quote it.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{
    limits,
    ring::{KeyId, KeyRing, ROOT_KEY_BYTES, RootKey},
};

const VERSION: u64 = 1;
/// Of one root key in base64.
const KEY_TEXT_BYTES: usize = ROOT_KEY_BYTES.div_ceil(3) * 4;

/// Why there is no key ring, or it stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum KeyRingError {
    /// The system refused.
    #[error("cannot {action} the key file {path}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Others may have read it.
    #[error(
        "the key file {path} is open to other users (mode {mode:04o}) and opens every disk key; \
         restrict it with chmod 600, and rotate the keys if somebody may have read it",
        path = path.display()
    )]
    Exposed {
        /// Which file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Nothing was written over it.
    #[error(
        "the key file {path} is damaged: {reason}; it was left as it is. Restore it from a backup: \
         what is sealed under its keys cannot be opened without it",
        path = path.display()
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong, without quoting it.
        reason: String,
    },
    /// Another process writes it right now.
    #[error("the key file {path} is being changed by another process; try again", path = path.display())]
    Busy {
        /// Which file.
        path: PathBuf,
    },
    /// Another file, or others went on without us.
    #[error("the key file {path} no longer holds key {id}, which this process seals with; open it again", path = path.display())]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// What it lacks.
        id: KeyId,
    },
    /// No room for another key.
    #[error("the key file has {max} keys, the most it may have; forget those that nothing is sealed under", max = limits::RING_KEYS_MAX)]
    Full,
    /// Nothing to forget.
    #[error("the key file has no key {id}")]
    Unknown {
        /// What was asked for.
        id: KeyId,
    },
    /// New disk keys are sealed under it.
    #[error("key {id} is the current one and cannot be forgotten; rotate first")]
    Current {
        /// What was asked for.
        id: KeyId,
    },
    /// No key can be made.
    #[error("the system gives no random bytes")]
    Random,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document<'a> {
    version: u64,
    #[serde(borrow)]
    current: &'a str,
    #[serde(borrow)]
    keys: Vec<Entry<'a>>,
}

/// The texts are borrowed, so that reading makes no copy that nobody wipes.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<'a> {
    id: &'a str,
    key: &'a str,
    created: Timestamp,
}

/// Read first: a later version may have any other fields.
#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

impl KeyRing {
    /// Reads the key file, or makes one with one new key. Of several that make it at once one wins and all read the same.
    pub fn open_or_create(path: &Path, now: Timestamp) -> Result<KeyRing, KeyRingError> {
        match KeyRing::open_file(path) {
            Err(KeyRingError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
        let ring = KeyRing::generate(now).map_err(|_| KeyRingError::Random)?;
        let draft = Draft::write(&beside(path, &format!(".{}.new", ring.current())), &ring)?;
        match fs::hard_link(&draft.path, path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(KeyRingError::Io { action: "make", path: path.to_owned(), source }),
        }
        drop(draft);
        // Also by those who lost: from now on they seal under a key that must not vanish with a power failure.
        sync_directory(path)?;
        KeyRing::open_file(path)
    }

    /// Reads the key file; makes none.
    pub fn open_file(path: &Path) -> Result<KeyRing, KeyRingError> {
        let mut file = File::open(path).map_err(|source| io_error("read", path, source))?;
        let ring = read(&mut file, path)?;
        // Its writer may have died before this. Best effort: where we may only read, nobody writes either.
        let _ = sync_directory(path);
        Ok(ring)
    }

    /// Makes a new key the current one and keeps the others, in the file and here. Starts from what the file holds now.
    pub fn rotate(&mut self, path: &Path, now: Timestamp) -> Result<KeyId, KeyRingError> {
        let new = RootKey::random(now).map_err(|_| KeyRingError::Random)?;
        let id = new.id();
        self.replace(path, |ring| {
            if ring.keys.len() >= limits::RING_KEYS_MAX {
                return Err(KeyRingError::Full);
            }
            ring.keys.insert(id.clone(), new);
            ring.current = id.clone();
            Ok(())
        })?;
        Ok(id)
    }

    /// Removes a key, in the file and here. Whatever is still sealed under it is lost: reseal all records first.
    pub fn forget(&mut self, path: &Path, id: &KeyId) -> Result<(), KeyRingError> {
        self.replace(path, |ring| {
            if ring.current == *id {
                return Err(KeyRingError::Current { id: id.clone() });
            }
            ring.keys.remove(id).map(drop).ok_or_else(|| KeyRingError::Unknown { id: id.clone() })
        })
    }

    /// Changes the file under a lock and then this ring. What another process added in the meantime is kept.
    fn replace(
        &mut self,
        path: &Path,
        change: impl FnOnce(&mut KeyRing) -> Result<(), KeyRingError>,
    ) -> Result<(), KeyRingError> {
        // A link stays one: what it points to is replaced.
        let target = fs::canonicalize(path).map_err(|source| io_error("find", path, source))?;
        let mut file = locked(&target)?;
        let mut ring = read(&mut file, &target)?;
        if !ring.keys.contains_key(&self.current) {
            return Err(KeyRingError::Foreign { path: target, id: self.current.clone() });
        }
        change(&mut ring)?;
        let draft_path = beside(&target, ".new");
        // Ours, because of the lock; left by a process that died.
        match fs::remove_file(&draft_path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                return Err(io_error("clean up beside", &target, source));
            }
            _ => {}
        }
        Draft::write(&draft_path, &ring)?.replace(&target)?;
        sync_directory(&target)?;
        *self = ring;
        Ok(())
    }
}

/// A file of our own. It goes away again unless it was given its place.
struct Draft {
    path: PathBuf,
    placed: bool,
}

impl Draft {
    fn write(path: &Path, ring: &KeyRing) -> Result<Draft, KeyRingError> {
        let refused = |source| io_error("write", path, source);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(refused)?;
        let draft = Draft { path: path.to_owned(), placed: false };
        file.write_all(&encode(ring)).and_then(|()| file.sync_all()).map_err(refused)?;
        Ok(draft)
    }

    /// Replaces the target. From then on the name of the draft belongs to the next writer.
    fn replace(mut self, target: &Path) -> Result<(), KeyRingError> {
        fs::rename(&self.path, target).map_err(|source| io_error("replace", target, source))?;
        self.placed = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.placed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The file, locked against other writers. A file that was replaced before we had its lock is no longer the key file.
fn locked(path: &Path) -> Result<File, KeyRingError> {
    let file = File::open(path).map_err(|source| io_error("read", path, source))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(KeyRingError::Busy { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => return Err(io_error("lock", path, source)),
    }
    let of_lock = file.metadata().map_err(|source| io_error("read", path, source))?;
    let of_path = fs::metadata(path).map_err(|source| io_error("read", path, source))?;
    if (of_lock.dev(), of_lock.ino()) != (of_path.dev(), of_path.ino()) {
        return Err(KeyRingError::Busy { path: path.to_owned() });
    }
    Ok(file)
}

fn read(file: &mut File, path: &Path) -> Result<KeyRing, KeyRingError> {
    let refused = |source| io_error("read", path, source);
    let mode = file.metadata().map_err(refused)?.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyRingError::Exposed { path: path.to_owned(), mode });
    }
    // All room at once: a buffer that grows leaves copies behind.
    let mut bytes = Zeroizing::new(vec![0; limits::RING_FILE_BYTES_MAX + 1]);
    let mut length = 0;
    while length < bytes.len() {
        match file.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(refused(source)),
        }
    }
    decode(&bytes[..length]).map_err(|reason| KeyRingError::Damaged { path: path.to_owned(), reason })
}

fn decode(bytes: &[u8]) -> Result<KeyRing, String> {
    if bytes.len() > limits::RING_FILE_BYTES_MAX {
        return Err(format!("it has more than {} bytes", limits::RING_FILE_BYTES_MAX));
    }
    // Only the place: the parser's own text may quote a key.
    let at = |error: serde_json::Error| {
        format!("it is not a key file of sabakan (line {}, column {})", error.line(), error.column())
    };
    let Versioned { version } = serde_json::from_slice(bytes).map_err(at)?;
    if version != VERSION {
        return Err(format!("its version is {version}, this program knows version {VERSION}"));
    }
    let Document { version: _, current, keys: entries } = serde_json::from_slice(bytes).map_err(at)?;
    if entries.len() > limits::RING_KEYS_MAX {
        return Err(format!("it has more than {} keys", limits::RING_KEYS_MAX));
    }
    let mut keys = BTreeMap::new();
    for (number, entry) in entries.iter().enumerate() {
        let number = number + 1;
        let id = KeyId::parse(entry.id).ok_or_else(|| format!("the id of key number {number} is none"))?;
        let mut key = RootKey { bytes: Box::default(), created: entry.created };
        // Into a slice of exactly its size and nowhere else.
        let decoded = STANDARD.decode_slice(entry.key, &mut key.bytes[..]);
        if !matches!(decoded, Ok(ROOT_KEY_BYTES)) || key.id() != id {
            return Err(format!("key {id} (number {number}) is not what it was when it was made"));
        }
        if keys.insert(id, key).is_some() {
            return Err(format!("key number {number} is there twice"));
        }
    }
    let current =
        KeyId::parse(current).filter(|id| keys.contains_key(id)).ok_or("the current key is not among its keys")?;
    Ok(KeyRing { current, keys })
}

pub(super) fn encode(ring: &KeyRing) -> Zeroizing<Vec<u8>> {
    let texts: Vec<Zeroizing<[u8; KEY_TEXT_BYTES]>> = ring.keys.values().map(key_text).collect();
    let entries = ring.keys.iter().zip(&texts).map(|((id, key), text)| Entry {
        id: id.as_str(),
        key: std::str::from_utf8(&text[..]).expect("base64 is ASCII"),
        created: key.created,
    });
    let document = Document { version: VERSION, current: ring.current.as_str(), keys: entries.collect() };
    // All room at once, as above.
    let room = (ring.keys.len() + 1) * limits::RING_ENTRY_BYTES_MAX;
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    serde_json::to_writer_pretty(&mut *bytes, &document).expect("texts and numbers are JSON");
    bytes.push(b'\n');
    debug_assert!(bytes.capacity() == room, "the buffer grew");
    bytes
}

fn key_text(key: &RootKey) -> Zeroizing<[u8; KEY_TEXT_BYTES]> {
    let mut text = Zeroizing::new([0; KEY_TEXT_BYTES]);
    STANDARD.encode_slice(&key.bytes[..], &mut text[..]).expect("the text has that many bytes");
    text
}

/// The name with something after it, in the same directory.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn sync_directory(path: &Path) -> Result<(), KeyRingError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)
        .and_then(|directory| directory.sync_all())
        .map_err(|source| io_error("sync the directory of", path, source))
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> KeyRingError {
    KeyRingError::Io { action, path: path.to_owned(), source }
}
