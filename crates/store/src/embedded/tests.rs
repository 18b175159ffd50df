//! What can only be shown from inside: how the file is written, and a disk that is full at the wrong moment.

use std::sync::Arc;

use super::{EmbeddedStore, open};
use crate::{Op, Revision, Store, StoreError, Txn, TxnOutcome};

fn put(key: &str, size: usize) -> Txn {
    Txn { when: Vec::new(), then: vec![Op::put(key, vec![7; size])] }
}

fn sound(path: &std::path::Path) -> open::Opened {
    match open::open(path).unwrap() {
        open::FileStart::Sound(opened) => opened,
        open::FileStart::Damaged { reason, .. } => panic!("a new file is damaged: {reason}"),
    }
}

/// Killing a process cannot show this, only a power failure could.
#[test]
fn every_commit_is_flushed() {
    let directory = tempfile::tempdir().unwrap();
    let opened = sound(&directory.path().join("sabakan.db"));
    let synchronous: i64 = opened.db.pragma_query_value(None, "synchronous", |row| row.get(0)).unwrap();
    let journal: String = opened.db.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!((synchronous, journal.as_str()), (2, "wal"), "2 is FULL");
}

#[tokio::test]
async fn a_full_disk_refuses_the_change_and_the_writer_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sabakan.db");
    let opened = sound(&path);
    opened.db.pragma_update(None, "max_page_count", 40).unwrap();
    let store = Arc::new(EmbeddedStore::start(&path, opened).unwrap());
    assert_eq!(store.commit(put("/small", 10)).await.unwrap(), TxnOutcome::Committed(Revision(1)));
    let mut watch = store.watch("/".to_owned(), Revision(2)).await.unwrap();

    // The second write of the transaction does not fit; the first must be undone with it.
    let mut txn = put("/first", 10);
    txn.then.extend(put("/large", 1_000_000).then);
    match store.commit(txn).await {
        Err(StoreError::CannotWrite { reason }) => assert!(reason.contains("space"), "{reason}"),
        other => panic!("a full disk gave {other:?}"),
    }
    // Who asks is told at once, and is told otherwise when a change succeeds or the writer finds out by itself.
    let refused = store.check_writable().await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "the store cannot write: no space is left on the disk of the data directory; nothing was changed"
    );
    let found = store.get_many(vec!["/small".to_owned(), "/first".to_owned(), "/large".to_owned()]).await.unwrap();
    assert_eq!(found.values.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(store.latest_commit().await.unwrap(), Revision(1));

    // The revision was not used up, and no watcher saw what did not happen.
    assert_eq!(store.commit(put("/after", 10)).await.unwrap(), TxnOutcome::Committed(Revision(2)));
    store.check_writable().await.unwrap();
    let batch = watch.next().await.unwrap();
    assert_eq!(batch.events.iter().map(|event| event.key()).collect::<Vec<_>>(), ["/after"]);
    drop(store);
    assert!(super::check(&path).unwrap().is_clean());
}
