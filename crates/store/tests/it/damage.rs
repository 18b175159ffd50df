//! Damage is found and named, never handed out as data.

use std::path::Path;

use sabakan_store::{
    Op, Range, Revision, Store, StoreError, Txn,
    embedded::{CheckReport, EmbeddedStore, Inspection, check},
    transfer,
};

use crate::support::{commit, directory, file, open, put, wait_for};

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
    assert_eq!(report.problem_count.min(100), report.problems.len() as u64);
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
    // The rest can still be read, in lists as well. Nothing is written any more: a disk that changed one row may change others.
    assert_eq!(all(&*store).await, ["/key/good", "/key/other"]);
    assert_eq!(store.get_many(vec!["/key/good".to_owned()]).await.unwrap().values.len(), 1);
    assert!(
        refusal(&*store)
            .await
            .contains("the data file is damaged (a read met the stored data is damaged at key /key/bad")
    );
}

async fn all(store: &dyn Store) -> Vec<String> {
    let mut range = Range::first("/key/");
    let mut keys = Vec::new();
    loop {
        let page = store.list(range.clone()).await.unwrap();
        keys.extend(page.items.into_iter().map(|kv| kv.key));
        if !page.more {
            return keys;
        }
        range.after = keys.last().cloned();
    }
}

/// What a change is refused with, and whoever asks whether one could be made.
async fn refusal(store: &dyn Store) -> String {
    let put = Txn { when: Vec::new(), then: vec![Op::put("/key/new", "value")] };
    let refused = store.commit(put).await.unwrap_err();
    assert!(matches!(refused, StoreError::CannotWrite { .. }), "{refused}");
    assert_eq!(store.check_writable().await.unwrap_err().to_string(), refused.to_string());
    refused.to_string()
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

const PAGE: usize = 4096;
const KEYS: u32 = 3_000;

/// Several levels of pages, a compaction behind it.
async fn large(path: &Path) {
    let store = open(path);
    let mut last = Revision::NONE;
    for part in 0..KEYS / 100 {
        let puts = (0..100).map(|number| Op::put(format!("/key/{:04}", part * 100 + number), "x".repeat(1_500)));
        last = commit(&*store, puts.collect()).await;
    }
    put(&*store, "/key/0007", "changed").await;
    store.compact(last).await.unwrap();
    wait_for("compaction", || store.stats().swept == last).await;
}

/// Pages of a table or index of one kind, as SQLite lists them.
fn pages(path: &Path, name: &str, kind: &str) -> Vec<usize> {
    let db = rusqlite::Connection::open(path).unwrap();
    let mut statement =
        db.prepare("SELECT pageno FROM dbstat WHERE name = ?1 AND pagetype = ?2 ORDER BY path").unwrap();
    let pages = statement.query_map([name, kind], |row| row.get::<_, u32>(0)).unwrap();
    pages.map(|page| page.unwrap() as usize).collect()
}

fn overwrite(path: &Path, page: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[(page - 1) * PAGE..page * PAGE].fill(0x55);
    std::fs::write(path, bytes).unwrap();
}

fn cut(path: &Path, bytes: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - bytes).unwrap();
}

/// The file is read, not written; `check` names the page, and the rest can be saved and imported.
async fn is_served_and_saved(path: &Path, page: usize, lost: std::ops::RangeInclusive<usize>) {
    let before = std::fs::read(path).unwrap();
    let report = problems(path);
    let name = format!("page {page}");
    assert!(report.problems.iter().any(|problem| problem.starts_with(&name)), "{name}: {report:?}");
    {
        let store = open(path);
        let refused = refusal(&*store).await;
        assert!(refused.contains(&format!("damaged ({name}")), "{refused}");
        let found = all(&*store).await;
        assert!(lost.contains(&(KEYS as usize - found.len())), "{} are left", found.len());
        // What is lost is not taken for what never was.
        for number in 0..KEYS {
            let key = format!("/key/{number:04}");
            match store.get_many(vec![key.clone()]).await {
                Ok(read) => assert!(read.values[0].is_some() && found.contains(&key), "{key}"),
                Err(error) => assert!(matches!(error, StoreError::Corrupt { .. }) && !found.contains(&key), "{error}"),
            }
        }
        assert_eq!(store.get_many(vec!["/key/none".to_owned()]).await.unwrap().values, [None]);
    }
    let (store, saved) = EmbeddedStore::open_salvaged(path).unwrap();
    assert!(saved.names_all && lost.contains(&saved.lost.len()), "{saved:?}");
    assert_eq!(saved.keys + saved.lost.len() as u64, u64::from(KEYS));
    assert!(saved.pages.iter().any(|damaged| damaged.page == page as u64), "{saved:?}");
    let mut file = std::io::Cursor::new(Vec::new());
    let prefixes = ["/key/".to_owned()];
    assert_eq!(transfer::export(&store, &prefixes, &mut file, &mut |_| ()).await.unwrap().keys, saved.keys);
    drop(store);
    let fresh = directory();
    let imported = transfer::import(&*open(&super::support::file(&fresh)), &prefixes, &mut file, &mut |_| ()).await;
    assert_eq!(imported.unwrap().keys, saved.keys);
    assert!(std::fs::read(path).unwrap() == before, "a damaged file was changed");
}

#[tokio::test]
async fn a_file_with_one_damaged_page_is_read_and_not_written() {
    let check_page = async |name: &str, kind: &str, lost| {
        let directory = directory();
        let path = file(&directory);
        large(&path).await;
        let all = pages(&path, name, kind);
        assert!(all.len() > 1, "{name} has {all:?} of kind {kind}");
        // The first of them is the root if they are inner pages, and the file then has no order that is left.
        let page = all[all.len() / 2];
        overwrite(&path, page);
        is_served_and_saved(&path, page, lost).await;
    };
    check_page("entry", "leaf", 1..=3).await;
    check_page("entry", "internal", 10..=2_900).await;
    check_page("entry_by_key", "leaf", 0..=0).await;
}

#[tokio::test]
async fn a_file_that_was_cut_by_100_bytes_is_read_and_not_written() {
    let directory = directory();
    let path = file(&directory);
    large(&path).await;
    let last = std::fs::read(&path).unwrap().len() / PAGE;
    cut(&path, 100);
    is_served_and_saved(&path, last, 0..=20).await;
}

#[tokio::test]
async fn a_file_that_lacks_many_pages_is_not_served_and_can_be_saved() {
    let directory = directory();
    let path = file(&directory);
    large(&path).await;
    cut(&path, (PAGE * 100) as u64);
    let refused = EmbeddedStore::open(&path).unwrap_err().to_string();
    assert!(refused.contains("is damaged") && refused.contains("store export --salvage"), "{refused}");
    assert!(problems(&path).problems[0].contains("it was cut off in page"));
    let (_store, saved) = EmbeddedStore::open_salvaged(&path).unwrap();
    assert!(!saved.names_all && !saved.is_whole() && saved.keys > 500, "{} keys", saved.keys);
}

#[tokio::test]
async fn damage_is_found_while_the_store_is_open() {
    let directory = directory();
    let path = file(&directory);
    filled(&path).await;
    let store = open(&path);
    assert_eq!(store.inspect(|| true).unwrap(), Inspection::Sound);
    assert_eq!(store.damage(), None);
    drop(store);
    flip(&path, "the value of bad");
    let store = open(&path);
    assert_eq!(store.inspect(|| true).unwrap(), Inspection::Damaged);
    assert!(refusal(&*store).await.contains("the data file is damaged (the stored data is damaged at key /key/bad"));
    assert_eq!(all(&*store).await, ["/key/good", "/key/other"]);
}

#[tokio::test]
async fn a_look_for_damage_can_be_stopped() {
    let directory = directory();
    let path = file(&directory);
    large(&path).await;
    let store = open(&path);
    assert_eq!(store.inspect(|| false).unwrap(), Inspection::Unfinished);
    put(&*store, "/key/after", "written").await;
}

#[tokio::test]
async fn a_log_that_was_cut_ends_with_its_last_whole_change() {
    let source = directory();
    let path = file(&source);
    let store = open(&path);
    for number in 0..50 {
        put(&*store, &format!("/key/{number:02}"), &"x".repeat(2_000)).await;
    }
    // As a power failure would leave it: the log is not in the file yet.
    let copy = directory();
    let copied = file(&copy);
    std::fs::copy(&path, &copied).unwrap();
    let log = copied.with_extension("db-wal");
    std::fs::copy(path.with_extension("db-wal"), &log).unwrap();
    drop(store);
    cut(&log, 5_000);
    let store = open(&copied);
    let found = all(&*store).await;
    assert!(!found.is_empty() && found.len() < 50, "{found:?}");
    put(&*store, "/key/new", "written").await;
    assert_eq!(store.inspect(|| true).unwrap(), Inspection::Sound);
    drop(store);
    assert!(check(&copied).unwrap().is_clean());
}
