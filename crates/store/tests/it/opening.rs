//! Opening says what is wrong and what to do, and touches nothing that is not ours.

use std::{os::unix::fs::PermissionsExt, path::Path};

use sabakan_store::{
    Store,
    embedded::{EmbeddedStore, OpenError, check},
};

use crate::support::{directory, file, get, open, put};

fn refused(path: &Path) -> (OpenError, String) {
    let error = EmbeddedStore::open(path).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()), "{text} does not name the file");
    (error, text)
}

async fn filled(path: &Path) {
    let store = open(path);
    for number in 0..200 {
        put(&*store, &format!("/key/{number}"), &format!("value {number} ").repeat(20)).await;
    }
}

#[tokio::test]
async fn data_is_there_after_reopening_and_only_its_owner_can_read_it() {
    let directory = directory();
    let path = file(&directory);
    filled(&path).await;
    assert!(!path.with_extension("db-wal").exists(), "everything is in the main file after closing");
    let store = open(&path);
    assert_eq!(get(&*store, "/key/199").await.unwrap(), "value 199 ".repeat(20));
    let revision = store.latest_commit().await.unwrap();
    assert_eq!(revision.0, 200);
    assert_eq!(put(&*store, "/key/new", "x").await, revision.next());
    for name in ["sabakan.db", "sabakan.db-wal", "sabakan.db.lock"] {
        let mode = std::fs::metadata(directory.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[tokio::test]
async fn a_file_that_is_open_cannot_be_opened_again() {
    let directory = directory();
    let path = file(&directory);
    let store = open(&path);
    let (error, text) = refused(&path);
    assert!(matches!(error, OpenError::Locked { pid: Some(pid), .. } if pid == std::process::id()), "{error:?}");
    assert!(text.contains("stop that one first"), "{text}");
    drop(store);
    drop(open(&path));
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused() {
    let directory = directory();
    let path = file(&directory);
    filled(&path).await;
    rusqlite::Connection::open(&path).unwrap().pragma_update(None, "user_version", 7).unwrap();
    let before = std::fs::read(&path).unwrap();
    let (error, text) = refused(&path);
    assert!(matches!(error, OpenError::NewerVersion { found: 7, supported: 1, .. }), "{error:?}");
    assert!(text.contains("start the version that wrote it"), "{text}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    assert!(matches!(check(&path), Err(OpenError::NewerVersion { .. })));
}

#[test]
fn a_file_of_somebody_else_is_refused_and_not_touched() {
    let directory = directory();
    let text_file = directory.path().join("text");
    std::fs::write(&text_file, "Dear diary, ".repeat(1000)).unwrap();
    let other_program = directory.path().join("other.db");
    rusqlite::Connection::open(&other_program).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    for path in [text_file, other_program] {
        let before = std::fs::read(&path).unwrap();
        let (error, text) = refused(&path);
        assert!(matches!(error, OpenError::NotOurs { .. }), "{error:?}");
        assert!(text.contains("nothing was changed"), "{text}");
        assert_eq!(std::fs::read(&path).unwrap(), before, "{}", path.display());
        assert!(matches!(check(&path), Err(OpenError::NotOurs { .. })));
    }
}

#[tokio::test]
async fn a_file_that_was_cut_or_overwritten_is_called_damaged() {
    let directory = directory();
    let path = file(&directory);
    filled(&path).await;
    let good = std::fs::read(&path).unwrap();

    std::fs::write(&path, &good[..good.len() / 2]).unwrap();
    let (error, text) = refused(&path);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");
    assert!(text.contains("restore a backup"), "{text}");

    let mut overwritten = good.clone();
    overwritten[100..4096].fill(0xff);
    std::fs::write(&path, &overwritten).unwrap();
    let (error, _) = refused(&path);
    assert!(matches!(error, OpenError::Damaged { .. }), "{error:?}");

    std::fs::write(&path, &good).unwrap();
    drop(open(&path));
}

#[test]
fn a_start_that_was_cut_short_leaves_a_file_that_opens() {
    let directory = directory();
    let path = file(&directory);
    std::fs::write(&path, "").unwrap();
    drop(open(&path));
    let path = directory.path().join("header-only.db");
    let db = rusqlite::Connection::open(&path).unwrap();
    db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
    drop(db);
    drop(open(&path));
    assert!(check(&path).unwrap().is_clean());
}

#[test]
fn a_place_that_cannot_hold_a_file_is_refused() {
    let directory = directory();
    let missing = directory.path().join("no/such/directory/sabakan.db");
    for path in [missing.as_path(), directory.path()] {
        let error = EmbeddedStore::open(path).unwrap_err();
        assert!(matches!(error, OpenError::Io { .. }), "{error:?}");
        assert!(std::error::Error::source(&error).is_some(), "{error:?} does not tell why");
    }
    assert!(matches!(check(&missing), Err(OpenError::Io { .. })));
}
