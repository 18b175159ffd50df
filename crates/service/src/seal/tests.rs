//! Sealed keys open where they belong and nowhere else; the key file survives rotation, races and damage; nothing shows a key.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Barrier,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use proptest::prelude::*;
use sabakan_domain::{crypt::DiskPath, words::Serial};
use tempfile::TempDir;

use super::*;
use crate::error_chain;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

struct Place {
    dir: TempDir,
    file: PathBuf,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().expect("a directory");
        Place { file: dir.path().join("keys.json"), dir }
    }

    fn ring(&self) -> KeyRing {
        KeyRing::open_or_create(&self.file, NOW).expect("a ring")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.path()).expect("a directory");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
    }
}

fn serial(text: &str) -> Serial {
    Serial::new(text).expect("a serial")
}

fn disk(text: &str) -> DiskPath {
    DiskPath::new(text).expect("a disk")
}

fn secret(bytes: &[u8]) -> SecretBytes {
    SecretBytes::new(bytes.to_vec()).expect("short enough")
}

/// A key that every test of leaks looks for. No byte of it repeats, so no accident looks like it.
fn telling() -> Vec<u8> {
    (0x80..0xc0).collect()
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

/// Fails if the text shows the bytes in any form a person or a tool could read back, even in part.
fn assert_hidden(text: &[u8], bytes: &[u8]) {
    let (part, upper) = (&bytes[..12], hex::encode_upper(&bytes[..12]));
    let list = format!("{part:?}");
    let forms =
        [part, hex::encode(part).as_bytes(), upper.as_bytes(), STANDARD.encode(part).as_bytes(), list.as_bytes()]
            .map(<[u8]>::to_vec);
    for form in forms {
        assert!(!contains(text, &form), "{} shows {}", String::from_utf8_lossy(text), String::from_utf8_lossy(&form));
    }
}

fn stored_root_key(file: &Path) -> Vec<u8> {
    let document: serde_json::Value = serde_json::from_slice(&fs::read(file).expect("a file")).expect("JSON");
    STANDARD.decode(document["keys"][0]["key"].as_str().expect("a text")).expect("base64")
}

#[test]
fn what_was_sealed_opens_again() {
    let (place, s, d) = (Place::new(), serial("1234abcd"), disk("pci-0000:00:1f.2-ata-3"));
    let ring = place.ring();
    for size in [0, 1, 15, 16, 17, 64, 4095, 4096] {
        let plain = vec![0xa5; size];
        let record = ring.seal(&s, &d, &secret(&plain)).expect("sealed");
        assert_eq!(record.size(), size);
        assert_eq!(record.sha256(), &secret(&plain).sha256());
        assert_eq!(record.key_id(), ring.current());
        let stored = record.to_bytes();
        let read = SealedKey::from_bytes(&stored).expect("a record");
        assert_eq!(read, record);
        assert_eq!(read.to_bytes(), stored);
        // By a ring read from the file, as after a restart.
        assert_eq!(place.ring().open(&s, &d, &read).expect("opened").expose(), plain);
    }
    assert_eq!(SecretBytes::new(vec![0; 4097]).map(drop), Err(SecretTooLong(4097)));
}

#[test]
fn the_record_looks_as_documented() {
    let ring = Place::new().ring();
    let record = ring.seal(&serial("a"), &disk("b"), &secret(b"abc")).expect("sealed");
    let text = String::from_utf8(record.to_bytes()).expect("text");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["v"], 1);
    assert_eq!(value["kid"], ring.current().as_str());
    assert_eq!(value["size"], 3);
    // FIPS 180-2, appendix B.1.
    assert_eq!(value["sha256"], "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (field, size) in [("salt", 32), ("nonce", 12), ("sealed", 3 + 16)] {
        assert_eq!(STANDARD.decode(value[field].as_str().expect(field)).expect(field).len(), size, "{field}");
    }
    assert_eq!(value.as_object().expect("an object").len(), 7);
}

/// A record written by the first version must open for ever. Computed outside this program, with Python's `cryptography`.
#[test]
fn records_of_the_first_version_open() {
    let place = Place::new();
    fs::write(&place.file, include_str!("../../tests/golden/ring-v1.json")).expect("written");
    fs::set_permissions(&place.file, fs::Permissions::from_mode(0o600)).expect("restricted");
    let record = SealedKey::from_bytes(include_bytes!("../../tests/golden/sealed-v1.json")).expect("a record");
    let opened = place.ring().open(&serial("1234abcd"), &disk("aaaaa"), &record).expect("opened");
    assert_eq!(opened.expose(), b"not a real disk key");
}

#[test]
fn a_record_opens_only_in_its_place() {
    let ring = Place::new().ring();
    let record = ring.seal(&serial("ab"), &disk("cd"), &secret(b"key")).expect("sealed");
    // The last two join to the same text as the right place does.
    for (s, d) in [("ab", "ce"), ("ac", "cd"), ("cd", "ab"), ("a", "bcd"), ("abc", "d")] {
        let error = ring.open(&serial(s), &disk(d), &record).expect_err("another place");
        assert!(matches!(error, SealError::Damaged(_)), "{s}/{d}: {error:?}");
    }
}

#[test]
fn no_bit_of_a_record_can_change() {
    let (ring, s, d) = (Place::new().ring(), serial("1234abcd"), disk("aaaaa"));
    let stored = ring.seal(&s, &d, &secret(&telling())).expect("sealed").to_bytes();
    for position in 0..stored.len() {
        for bit in 0..8 {
            let mut changed = stored.clone();
            changed[position] ^= 1 << bit;
            let opened = SealedKey::from_bytes(&changed).and_then(|record| ring.open(&s, &d, &record));
            assert!(opened.is_err(), "{}", String::from_utf8_lossy(&changed));
        }
    }
    for length in 0..stored.len() {
        assert!(SealedKey::from_bytes(&stored[..length]).is_err(), "the first {length} bytes");
    }
}

/// Whole fields of one good record in another good record, for the same disk and under the same key.
#[test]
fn no_field_can_come_from_another_record() {
    let (ring, s, d) = (Place::new().ring(), serial("1234abcd"), disk("aaaaa"));
    let good = ring.seal(&s, &d, &secret(b"one key")).expect("sealed");
    let other = ring.seal(&s, &d, &secret(b"another")).expect("sealed");
    for field in ["salt", "nonce", "sealed", "sha256", "size"] {
        let mut record = good.clone();
        match field {
            "salt" => record.salt = other.salt,
            "nonce" => record.nonce = other.nonce,
            "sealed" => record.sealed.clone_from(&other.sealed),
            "sha256" => record.sha256 = other.sha256,
            _ => record.size += 1,
        }
        assert!(matches!(ring.open(&s, &d, &record), Err(SealError::Damaged(_))), "{field}");
    }
}

#[test]
fn the_same_key_never_looks_the_same() {
    let (ring, s, d) = (Place::new().ring(), serial("1234abcd"), disk("aaaaa"));
    let [one, two] = [(), ()].map(|()| ring.seal(&s, &d, &secret(&telling())).expect("sealed"));
    assert_ne!(one.salt, two.salt);
    assert_ne!(one.nonce, two.nonce);
    assert_ne!(one.sealed, two.sealed);
}

#[test]
fn nothing_shows_a_key() {
    let (place, s, d) = (Place::new(), serial("1234abcd"), disk("aaaaa"));
    let mut ring = place.ring();
    let (plain, root) = (telling(), stored_root_key(&place.file));
    let key = secret(&plain);
    let record = ring.seal(&s, &d, &key).expect("sealed");
    assert_hidden(&record.to_bytes(), &plain);
    assert_hidden(&record.sealed, &plain);
    assert_hidden(&record.to_bytes(), &root);
    assert_hidden(&fs::read(&place.file).expect("a file"), &plain);
    for text in [format!("{key:?} {key:#?}"), format!("{record:?} {record:#?}"), format!("{ring:?} {ring:#?}")] {
        assert_hidden(text.as_bytes(), &plain);
        assert_hidden(text.as_bytes(), &root);
    }
    // A bare key where a record should be, as the service that this one replaces stored them.
    for bare in [plain.clone(), format!("\"{}\"", hex::encode(&plain)).into_bytes()] {
        let error = SealedKey::from_bytes(&bare).expect_err("no record");
        assert_hidden(format!("{error:?} {error}").as_bytes(), &plain);
    }
    let unknown = Place::new().ring().open(&s, &d, &record).expect_err("another ring");
    assert_hidden(format!("{unknown:?} {unknown}").as_bytes(), &plain);
    let current = ring.current().clone();
    let error = ring.forget(&place.file, &current).expect_err("the current key");
    assert_hidden(format!("{error:?} {error}").as_bytes(), &root);
}

#[test]
fn a_missing_key_is_named() {
    let (ring, s, d) = (Place::new().ring(), serial("1234abcd"), disk("aaaaa"));
    let record = Place::new().ring().seal(&s, &d, &secret(b"key")).expect("sealed");
    let error = ring.open(&s, &d, &record).expect_err("another ring");
    assert_eq!(error, SealError::UnknownKeyId { id: record.key_id().clone() });
    let text = error.to_string();
    assert!(text.contains(record.key_id().as_str()) && text.contains("backup"), "{text}");
    assert_eq!(ring.reseal(&s, &d, &record), Err(error));
}

#[test]
fn a_later_format_is_named() {
    let error = SealedKey::from_bytes(br#"{"v":2,"kms":"somewhere"}"#).expect_err("unknown");
    assert_eq!(error, SealError::Version(2));
}

#[test]
fn rotation_keeps_old_records_and_frees_new_ones_from_old_keys() {
    let (place, s, d) = (Place::new(), serial("1234abcd"), disk("aaaaa"));
    let mut ring = place.ring();
    let old_id = ring.current().clone();
    let old = ring.seal(&s, &d, &secret(&telling())).expect("sealed");
    assert_eq!(ring.reseal(&s, &d, &old), Ok(None));

    let later = "2026-11-02T03:04:05Z".parse().expect("a time");
    let new_id = ring.rotate(&place.file, later).expect("rotated");
    assert_eq!(ring.current(), &new_id);
    assert_ne!(new_id, old_id);
    assert_eq!(ring.open(&s, &d, &old).expect("opened").expose(), telling());
    let new = ring.reseal(&s, &d, &old).expect("resealed").expect("under another key");
    assert_eq!((new.key_id(), new.sha256(), new.size()), (&new_id, old.sha256(), old.size()));
    assert_eq!(ring.reseal(&s, &d, &new), Ok(None));

    let mut after_restart = place.ring();
    assert_eq!(after_restart.current(), &new_id);
    let mut listed: Vec<_> = after_restart.list().map(|(id, created)| (id.clone(), created)).collect();
    listed.sort_by_key(|(_, created)| *created);
    assert_eq!(listed, [(old_id.clone(), NOW), (new_id, later)]);

    after_restart.forget(&place.file, &old_id).expect("forgotten");
    let ring = place.ring();
    assert_eq!(ring.list().count(), 1);
    assert_eq!(ring.open(&s, &d, &new).expect("opened").expose(), telling());
    assert_eq!(ring.open(&s, &d, &old).map(drop), Err(SealError::UnknownKeyId { id: old_id }));
    assert_eq!(place.names(), ["keys.json"]);
}

#[test]
fn what_cannot_be_forgotten_stays() {
    let place = Place::new();
    let mut ring = place.ring();
    let current = ring.current().clone();
    assert!(matches!(ring.forget(&place.file, &current), Err(KeyRingError::Current { id }) if id == current));
    let unknown = KeyId::parse("0123456789abcdef").expect("an id");
    assert!(matches!(ring.forget(&place.file, &unknown), Err(KeyRingError::Unknown { id }) if id == unknown));
    assert_eq!(place.ring().list().count(), 1);
}

#[test]
fn a_rotation_keeps_what_another_process_added() {
    let place = Place::new();
    let (mut one, mut two) = (place.ring(), place.ring());
    let first = one.current().clone();
    let by_one = one.rotate(&place.file, NOW).expect("rotated");
    let by_two = two.rotate(&place.file, NOW).expect("rotated");
    let mut expected = vec![first, by_one, by_two];
    expected.sort();
    for ring in [&two, &place.ring()] {
        assert_eq!(ring.list().map(|(id, _)| id.clone()).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_rotation_needs_its_own_file_and_its_lock() {
    let (place, other) = (Place::new(), Place::new());
    let mut ring = place.ring();
    other.ring();
    let before = fs::read(&other.file).expect("a file");
    let error = ring.rotate(&other.file, NOW).expect_err("another ring");
    assert!(matches!(&error, KeyRingError::Foreign { id, .. } if id == ring.current()), "{error:?}");
    assert_eq!(fs::read(&other.file).expect("a file"), before);

    let held = fs::File::open(&place.file).expect("a file");
    held.lock().expect("a lock");
    assert!(matches!(ring.rotate(&place.file, NOW), Err(KeyRingError::Busy { .. })));
    assert_eq!(place.ring().current(), ring.current());
    drop(held);
    ring.rotate(&place.file, NOW).expect("rotated");
}

#[test]
fn a_rotation_survives_a_dead_one_and_follows_links() {
    let place = Place::new();
    let mut ring = place.ring();
    fs::write(place.dir.path().join("keys.json.new"), "half of a").expect("written");
    let link = place.dir.path().join("link.json");
    std::os::unix::fs::symlink("keys.json", &link).expect("a link");
    let id = ring.rotate(&link, NOW).expect("rotated");
    assert_eq!(place.ring().current(), &id);
    assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
    let mut names = place.names();
    names.sort();
    assert_eq!(names, ["keys.json", "link.json"]);
}

#[test]
fn a_ring_does_not_grow_without_end() {
    let place = Place::new();
    let mut ring = place.ring();
    // In memory, because 255 rotations are as many flushes; one more goes through the file.
    while ring.keys.len() < limits::RING_KEYS_MAX - 1 {
        let key = ring::RootKey::random(NOW).expect("random bytes");
        ring.keys.insert(key.id(), key);
    }
    fs::write(&place.file, &*file::encode(&ring)).expect("written");
    let last = ring.rotate(&place.file, NOW).expect("one fits");
    assert!(matches!(ring.rotate(&place.file, NOW), Err(KeyRingError::Full)));
    let read = place.ring();
    assert_eq!((read.list().count(), read.current()), (limits::RING_KEYS_MAX, &last));
}

#[test]
fn only_the_owner_can_read_the_file() {
    let place = Place::new();
    let mut ring = place.ring();
    let mode = |file: &Path| fs::metadata(file).expect("a file").permissions().mode() & 0o7777;
    assert_eq!(mode(&place.file), 0o600);
    ring.rotate(&place.file, NOW).expect("rotated");
    assert_eq!(mode(&place.file), 0o600);
    assert_eq!(place.names(), ["keys.json"]);

    for bad in [0o640, 0o620, 0o604, 0o602, 0o610, 0o601, 0o777] {
        fs::set_permissions(&place.file, fs::Permissions::from_mode(bad)).expect("opened up");
        for error in [
            KeyRing::open_or_create(&place.file, NOW).expect_err("exposed"),
            ring.rotate(&place.file, NOW).expect_err("exposed"),
        ] {
            assert!(matches!(error, KeyRingError::Exposed { mode, .. } if mode == bad), "{error:?}");
            let text = error.to_string();
            assert!(text.contains(&format!("{bad:04o}")) && text.contains("chmod 600"), "{text}");
        }
    }
    fs::set_permissions(&place.file, fs::Permissions::from_mode(0o400)).expect("restricted");
    assert_eq!(place.ring().current(), ring.current());
}

#[test]
fn of_many_creators_one_wins() {
    const CREATORS: usize = 8;
    for _ in 0..20 {
        let (place, start) = (Place::new(), Barrier::new(CREATORS));
        let rings: Vec<KeyRing> = std::thread::scope(|scope| {
            let create = || {
                start.wait();
                place.ring()
            };
            let threads: Vec<_> = (0..CREATORS).map(|_| scope.spawn(create)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        let (s, d) = (serial("1234abcd"), disk("aaaaa"));
        let record = rings[0].seal(&s, &d, &secret(b"key")).expect("sealed");
        for ring in &rings {
            assert_eq!(ring.open(&s, &d, &record).expect("the same ring").expose(), b"key");
        }
        assert_eq!(place.names(), ["keys.json"]);
    }
}

#[test]
fn a_damaged_file_is_refused_and_left_alone() {
    let place = Place::new();
    let mut ring = place.ring();
    ring.rotate(&place.file, NOW).expect("rotated");
    let good = fs::read_to_string(&place.file).expect("a file");
    let root = stored_root_key(&place.file);
    let key = STANDARD.encode(&root);
    let current = ring.current().as_str();
    let other = ring.list().map(|(id, _)| id.as_str()).find(|id| *id != current).expect("two keys");
    let digit = if key.starts_with('A') { "B" } else { "A" };
    let cases = [
        ("empty", String::new()),
        ("blank", "\n".into()),
        ("truncated", good[..good.len() / 2].to_owned()),
        ("without its end", good.trim_end().trim_end_matches('}').to_owned()),
        ("with a tail", format!("{good}{{}}")),
        ("a list", "[]".into()),
        ("a later version", good.replacen("\"version\": 1", "\"version\": 2", 1)),
        ("a key as version", good.replacen("\"version\": 1", &format!("\"version\": \"{key}\""), 1)),
        ("a key as time", good.replacen("1970-01-01T00:00:00Z", &key, 1)),
        ("a key as field", good.replacen("\"created\"", &format!("\"{key}\": 1, \"created\""), 1)),
        ("a key as id", good.replace(other, &key)),
        ("a current key that is none", good.replacen(current, "0123456789abcdef", 1)),
        ("ids exchanged", good.replace(current, "x").replace(other, current).replace('x', other)),
        ("one key twice", good.replace(other, current)),
        ("a changed key", good.replacen(&key, &format!("{digit}{}", &key[1..]), 1)),
        ("a short key", good.replacen(&key, &key[4..], 1)),
        ("a long key", good.replacen(&key, &format!("AAAA{key}"), 1)),
        ("too large", format!("{good}{}", " ".repeat(limits::RING_FILE_BYTES_MAX))),
    ];
    for (name, text) in cases {
        assert_ne!(text, good, "{name}");
        fs::write(&place.file, &text).expect("written");
        for error in
            [KeyRing::open_or_create(&place.file, NOW).expect_err(name), ring.rotate(&place.file, NOW).expect_err(name)]
        {
            assert!(matches!(error, KeyRingError::Damaged { .. }), "{name}: {error:?}");
            let text = error_chain(&error);
            assert!(text.contains("keys.json is damaged: ") && text.contains("backup"), "{name}: {text}");
            assert_hidden(format!("{text} {error:?}").as_bytes(), &root);
        }
        assert_eq!(fs::read_to_string(&place.file).expect("a file"), text, "{name}");
        assert_eq!(place.names(), ["keys.json"], "{name}");
    }
    fs::write(&place.file, good).expect("written");
    assert_eq!(place.ring().current(), ring.current());
}

#[test]
fn a_missing_directory_or_file_is_named() {
    let place = Place::new();
    let error = KeyRing::open_or_create(&place.dir.path().join("none/keys.json"), NOW).expect_err("no directory");
    assert!(error_chain(&error).contains("none/keys.json"), "{}", error_chain(&error));
    assert!(matches!(KeyRing::open_file(&place.file), Err(KeyRingError::Io { .. })));
    let mut ring = place.ring();
    fs::remove_file(&place.file).expect("removed");
    assert!(matches!(ring.rotate(&place.file, NOW), Err(KeyRingError::Io { .. })));
    assert!(place.names().is_empty(), "a lost key file must not be replaced by one without its keys");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_key_of_any_disk_round_trips(
        plain in proptest::collection::vec(any::<u8>(), 0..=4096),
        s in "[a-z0-9][a-z0-9-]{0,60}[a-z0-9]",
        d in "[ -.0-~]{3,255}",
    ) {
        let (ring, s, d) = (KeyRing::generate(NOW).expect("a ring"), serial(&s), disk(&d));
        let stored = ring.seal(&s, &d, &secret(&plain)).expect("sealed").to_bytes();
        prop_assert!(plain.len() < 8 || !contains(&stored, &plain));
        let record = SealedKey::from_bytes(&stored).expect("a record");
        let opened = ring.open(&s, &d, &record).expect("opened");
        prop_assert_eq!(opened.expose(), &plain[..]);
    }

    #[test]
    fn no_bytes_make_reading_panic(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(SealedKey::from_bytes(&bytes).is_err());
    }
}
