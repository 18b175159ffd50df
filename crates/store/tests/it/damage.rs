//! Damage is found and named, never handed out as data.

use std::path::Path;

use sabakan_store::{
    Range, Revision, Store, StoreError,
    embedded::{CheckReport, check},
};

use crate::support::{directory, file, open, put};

/// Inverts one bit of the only place that holds `text`.
fn flip(path: &Path, text: &str) {
    let mut bytes = std::fs::read(path).unwrap();
    let places: Vec<_> = bytes
        .windows(text.len())
        .enumerate()
        .filter(|(_, window)| *window == text.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert_eq!(places.len(), 1, "{text} is there {} times", places.len());
    bytes[places[0] + text.len() / 2] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

fn problems(path: &Path) -> CheckReport {
    let report = check(path).unwrap();
    assert!(!report.is_clean(), "{report:?}");
    assert_eq!(report.problem_count, report.problems.len() as u64);
    report
}

async fn filled(path: &Path) {
    let store = open(path);
    for name in ["good", "bad", "other"] {
        put(&*store, &format!("/key/{name}"), &format!("the value of {name}, somewhere in the file")).await;
    }
}

#[tokio::test]
async fn a_flipped_bit_in_a_value_is_corrupt_and_names_the_key() {
    let directory = directory();
    let path = file(&directory);
    filled(&path).await;
    assert!(check(&path).unwrap().is_clean());
    flip(&path, "the value of bad");
    let report = problems(&path);
    assert!(report.problems.iter().any(|problem| problem.contains("key /key/bad")), "{report:?}");
    assert_eq!((report.rows, report.revision), (3, Revision(3)));

    let store = open(&path);
    let is_named = |error: &StoreError| matches!(error, StoreError::Corrupt { place, .. } if place == "key /key/bad");
    let error = store.get_many(vec!["/key/good".to_owned(), "/key/bad".to_owned()]).await.unwrap_err();
    assert!(is_named(&error), "{error}");
    let error = store.list(Range::first("/key/")).await.unwrap_err();
    assert!(is_named(&error), "{error}");
    let error = store.watch("/".to_owned(), Revision(1)).await.unwrap().next().await.unwrap_err();
    assert!(is_named(&error), "{error}");
    // The rest can still be read, and the key can be put again.
    assert_eq!(store.get_many(vec!["/key/good".to_owned()]).await.unwrap().values.len(), 1);
    put(&*store, "/key/bad", "repaired").await;
    assert_eq!(store.list(Range::first("/key/")).await.unwrap().items.len(), 3);
}

#[tokio::test]
async fn check_finds_rows_that_are_gone_moved_or_swapped() {
    let check_after = async |sql: &str, expected: &str| {
        let directory = directory();
        let path = file(&directory);
        filled(&path).await;
        let store = open(&path);
        put(&*store, "/key/good", "changed").await;
        drop(store);
        rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        let report = problems(&path);
        assert!(report.problems.iter().any(|problem| problem.contains(expected)), "{sql}: {report:?}");
    };
    check_after("DELETE FROM entry WHERE key = '/key/bad'", "changes are missing before change 0 of revision 3").await;
    check_after("UPDATE entry SET id = id + 1 WHERE key = '/key/other'", "key /key/other").await;
    check_after(
        "UPDATE entry SET value = (SELECT value FROM entry WHERE key = '/key/other') WHERE key = '/key/bad'",
        "key /key/bad",
    )
    .await;
    check_after("UPDATE entry SET create_revision = 2 WHERE id >> 20 = 4", "key /key/good").await;
    check_after(
        "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'CREATE INDEX entry_by_key ON entry (id, key, create_revision)'
         WHERE name = 'entry_by_key'",
        "entry_by_key",
    )
    .await;
}

#[tokio::test]
async fn a_page_that_was_overwritten_is_found() {
    let directory = directory();
    let path = file(&directory);
    {
        let store = open(&path);
        for number in 0..500 {
            put(&*store, &format!("/key/{number}"), &"x".repeat(300)).await;
        }
    }
    let mut bytes = std::fs::read(&path).unwrap();
    let page = bytes.len() / 4096 / 2;
    bytes[page * 4096..(page + 1) * 4096].fill(0x55);
    std::fs::write(&path, bytes).unwrap();
    problems(&path);
    let store = open(&path);
    let mut range = Range::first("/key/");
    let error = loop {
        match store.list(range.clone()).await {
            Err(error) => break error,
            Ok(page) if !page.more => panic!("the damage was not noticed"),
            Ok(page) => range.after = page.items.last().map(|kv| kv.key.clone()),
        }
    };
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
}
