//! Moving data between stores: complete, verified, and safe to interrupt.

use std::{
    io::Cursor,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sabakan_store::{
    LeaseId, Op, Page, Range, Revision, Snapshot, Store, StoreError, StoreFuture, Txn, TxnLimits, TxnOutcome, Watch,
    embedded::EmbeddedStore,
    transfer::{self, Contents, FileError, ImportError, Imported, Stage},
};
use tempfile::TempDir;

use crate::support::{commit, directory, file, get, open, put};

const PREFIXES: [&str; 2] = ["/sabakan/", "/states/"];

fn prefixes() -> Vec<String> {
    PREFIXES.map(str::to_owned).to_vec()
}

async fn export(store: &dyn Store) -> String {
    let mut out = Vec::new();
    transfer::export(store, &prefixes(), &mut out, &mut |_| {}).await.unwrap();
    String::from_utf8(out).unwrap()
}

async fn import(store: &dyn Store, text: &str) -> Result<Imported, ImportError> {
    transfer::import(store, &prefixes(), &mut Cursor::new(text), &mut |_| {}).await
}

fn verify(text: &str) -> Result<Contents, FileError> {
    transfer::verify(&mut text.as_bytes())
}

/// The lines of the keys, without header and end.
fn keys(text: &str) -> Vec<&str> {
    let lines: Vec<_> = text.lines().collect();
    lines[1..lines.len() - 1].to_vec()
}

fn empty() -> (TempDir, Arc<EmbeddedStore>) {
    let directory = directory();
    let store = open(&file(&directory));
    (directory, store)
}

/// A store with every kind of value, history, removed keys and keys of others.
async fn filled() -> (TempDir, Arc<EmbeddedStore>) {
    let (directory, store) = empty();
    for start in (0..2_500).step_by(500) {
        let puts = (start..start + 500)
            .map(|number| Op::put(format!("/sabakan/machines/{number:04}"), format!("{{\"n\":{number}}}")));
        commit(&*store, puts.collect()).await;
    }
    let odd = vec![
        Op::put("/sabakan/empty", ""),
        Op::put("/sabakan/bytes", vec![0xff, 0, 0xfe]),
        Op::put("/sabakan/text ü \"quoted\"\n", "line\nbreak \u{2028} \\ \u{1}"),
        Op::put("/sabakan/large", vec![0; 1024 * 1024]),
        Op::put("/states/1234abcd", "healthy"),
        Op::put("/statesx", "not ours"),
        Op::put("/other/key", "not ours"),
    ];
    commit(&*store, odd).await;
    commit(&*store, vec![Op::DeletePrefix("/sabakan/machines/24".to_owned())]).await;
    put(&*store, "/sabakan/machines/0000", "changed").await;
    let lease = store.grant_lease(Duration::from_secs(600)).await.unwrap();
    commit(&*store, vec![Op::Put { key: "/sabakan/leader".to_owned(), value: "me".into(), lease: Some(lease) }]).await;
    (directory, store)
}

#[tokio::test]
async fn what_was_exported_and_imported_exports_the_same_lines() {
    let (_source, store) = filled().await;
    let mut stages = Vec::new();
    let mut out = Vec::new();
    let exported =
        transfer::export(&*store, &prefixes(), &mut out, &mut |progress| stages.push(progress)).await.unwrap();
    let first = String::from_utf8(out).unwrap();
    assert_eq!((exported.keys, exported.leased), (2_405, 1));
    assert_eq!(exported.revision, store.latest_commit().await.unwrap());
    assert!(stages.len() >= 3 && stages.iter().all(|progress| progress.stage == Stage::Export), "{stages:?}");
    assert!(first.contains(r#"{"key":"/sabakan/bytes","base64":"/wD+"}"#));
    assert!(first.contains(r#"{"key":"/states/1234abcd","value":"healthy"}"#));
    assert!(!first.contains("not ours") && !first.contains("leader"));
    let header = format!(
        r#"{{"format":"sabakan-store","version":1,"revision":{},"prefixes":["/sabakan/","/states/"]}}"#,
        exported.revision
    );
    assert_eq!(first.lines().next(), Some(&*header));

    let (_target, other) = empty();
    put(&*other, "/other/key", "of somebody else").await;
    let mut stages = Vec::new();
    let imported =
        transfer::import(&*other, &prefixes(), &mut Cursor::new(&first), &mut |progress| stages.push(progress))
            .await
            .unwrap();
    assert_eq!((imported.keys, imported.resumed, imported.exported_revision), (2_405, false, exported.revision));
    assert_eq!(
        stages.last().map(|last| (last.stage, last.keys, last.total)),
        Some((Stage::Import, 2_405, Some(2_405)))
    );
    assert_eq!(keys(&export(&*other).await), keys(&first));
    assert_eq!(get(&*other, "/sabakan/empty").await.as_deref(), Some(""));
    assert!(!transfer::interrupted_import(&*other, "/sabakan/").await.unwrap());
    let contents = verify(&first).unwrap();
    assert_eq!((contents.keys, contents.revision), (2_405, exported.revision));
}

#[tokio::test]
async fn a_file_that_is_not_as_written_is_refused_with_its_line_and_nothing_is_written() {
    let (_source, store) = filled().await;
    let good = export(&*store).await;
    let lines: Vec<_> = good.lines().collect();
    let last = lines.len();
    let (_target, target) = empty();
    let line = |number: usize| format!("{}\n", lines[number - 1]);
    let table = [
        ("empty", String::new(), "it is empty"),
        ("no header", good.replacen("sabakan-store", "something", 1), "not an export"),
        ("not ours", "hello\n".repeat(5), "not an export"),
        ("newer", good.replacen("\"version\":1", "\"version\":2", 1), "version 2"),
        ("cut between lines", lines[..10].join("\n") + "\n", "ends at line 10"),
        ("cut in a line", good[..good.len() / 2].to_owned(), "was cut off"),
        ("cut in the end line", good[..good.len() - 5].to_owned(), &format!("line {last}")),
        ("a line is missing", good.replacen(&line(7), "", 1), "the export was changed"),
        ("a value was edited", good.replacen("healthy", "retired", 1), &format!("its end line {last}")),
        ("not JSON", good.replacen(&line(9), "{\"key\":\n", 1), "line 9 of the export is damaged"),
        ("no value", good.replacen(&line(9), "{\"key\":\"/sabakan/x\"}\n", 1), "line 9 of the export is damaged"),
        ("a line twice", good.replacen(&line(9), &(line(9) + &line(9)), 1), "line 10 of the export is damaged"),
        ("more after the end", good.clone() + "{}\n", &format!("line {}", last + 1)),
        ("bad base64", good.replacen("/wD+", "/wD", 1), "base64"),
        ("other keys", good.replacen("/sabakan/empty", "/elsewhere", 1), "none of the prefixes"),
    ];
    for (what, text, expected) in table {
        let error = verify(&text).unwrap_err();
        assert!(error.to_string().contains(expected), "{what}: {error}");
        let error = import(&*target, &text).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{what}: {error}");
        assert_eq!(target.latest_commit().await.unwrap(), Revision::NONE, "{what}: something was written");
    }
    import(&*target, &good).await.unwrap();
}

#[tokio::test]
async fn a_store_that_is_not_empty_is_refused() {
    let (_source, store) = filled().await;
    let text = export(&*store).await;
    for prefix in PREFIXES {
        let (_target, target) = empty();
        let key = format!("{prefix}key");
        let at = put(&*target, &key, "x").await;
        match import(&*target, &text).await.unwrap_err() {
            ImportError::NotEmpty { key: found } => assert_eq!(found, key),
            other => panic!("{other}"),
        }
        assert_eq!(target.latest_commit().await.unwrap(), at);
    }
}

#[tokio::test]
async fn a_file_of_other_prefixes_is_refused() {
    let (_source, store) = filled().await;
    let text = export(&*store).await;
    let (_target, target) = empty();
    let other = ["/sabakan2/".to_owned(), "/states/".to_owned()];
    let error = transfer::import(&*target, &other, &mut Cursor::new(&text), &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, ImportError::OtherPrefixes { .. }), "{error}");
    // The order does not matter.
    let turned = ["/states/".to_owned(), "/sabakan/".to_owned()];
    transfer::import(&*target, &turned, &mut Cursor::new(&text), &mut |_| {}).await.unwrap();
}

/// A store that accepts little at once and fails when it is told to.
struct Narrow {
    inner: Arc<EmbeddedStore>,
    limits: TxnLimits,
    commits: AtomicUsize,
    fail_at: usize,
}

impl Narrow {
    fn new(inner: &Arc<EmbeddedStore>, ops_max: usize, bytes_max: usize, fail_at: usize) -> Narrow {
        let limits = TxnLimits { ops_max, bytes_max, value_bytes_max: 1024 * 1024, hint: "" };
        Narrow { inner: Arc::clone(inner), limits, commits: AtomicUsize::new(0), fail_at }
    }
}

impl Store for Narrow {
    fn commit(&self, txn: Txn) -> StoreFuture<'_, TxnOutcome> {
        Box::pin(async move {
            sabakan_store::check_limits(&txn, &self.limits)?;
            if self.commits.fetch_add(1, Ordering::Relaxed) == self.fail_at {
                return Err(StoreError::OutcomeUnknown { reason: "pulled the plug".to_owned() });
            }
            self.inner.commit(txn).await
        })
    }

    fn get_many(&self, keys: Vec<String>) -> StoreFuture<'_, Snapshot> {
        self.inner.get_many(keys)
    }

    fn list(&self, range: Range) -> StoreFuture<'_, Page> {
        self.inner.list(range)
    }

    fn latest_commit(&self) -> StoreFuture<'_, Revision> {
        self.inner.latest_commit()
    }

    fn watch(&self, prefix: String, from: Revision) -> StoreFuture<'_, Watch> {
        self.inner.watch(prefix, from)
    }

    fn grant_lease(&self, ttl: Duration) -> StoreFuture<'_, LeaseId> {
        self.inner.grant_lease(ttl)
    }

    fn keep_alive(&self, lease: LeaseId) -> StoreFuture<'_, bool> {
        self.inner.keep_alive(lease)
    }

    fn revoke_lease(&self, lease: LeaseId) -> StoreFuture<'_, ()> {
        self.inner.revoke_lease(lease)
    }

    fn compact(&self, revision: Revision) -> StoreFuture<'_, ()> {
        self.inner.compact(revision)
    }

    fn limits(&self) -> TxnLimits {
        self.limits
    }
}

#[tokio::test]
async fn an_import_keeps_the_limits_of_the_target() {
    let (_source, store) = filled().await;
    let text = export(&*store).await;
    let (_target, inner) = empty();
    let target = Narrow::new(&inner, 128, 1_200_000, usize::MAX);
    let imported = import(&target, &text).await.unwrap();
    assert!(imported.transactions >= 2_405 / 128, "{imported:?}");
    assert_eq!(keys(&export(&*inner).await), keys(&text));

    let (_target, inner) = empty();
    match import(&Narrow::new(&inner, 128, 1_000_000, usize::MAX), &text).await.unwrap_err() {
        ImportError::TooLarge { key, line, .. } => {
            assert_eq!(key, "/sabakan/large");
            assert!(text.lines().nth(usize::try_from(line).unwrap() - 1).unwrap().contains(&key));
        }
        other => panic!("{other}"),
    }
    assert_eq!(inner.latest_commit().await.unwrap(), Revision::NONE);
}

#[tokio::test]
async fn an_interrupted_import_is_recognised_and_finished_by_running_it_again() {
    let (_source, store) = filled().await;
    let text = export(&*store).await;
    let small = {
        let (_directory, store) = empty();
        put(&*store, "/sabakan/one", "1").await;
        export(&*store).await
    };
    // The first transaction, one in the middle, the last key, the removal of the mark.
    let transactions = {
        let (_target, inner) = empty();
        usize::try_from(import(&Narrow::new(&inner, 100, 2_000_000, usize::MAX), &text).await.unwrap().transactions)
            .unwrap()
    };
    for fail_at in [1, transactions / 2, transactions - 1, transactions] {
        let (_target, inner) = empty();
        let error = import(&Narrow::new(&inner, 100, 2_000_000, fail_at), &text).await.unwrap_err();
        assert!(matches!(error, ImportError::Store(_)), "{error}");
        assert!(error.to_string().contains("run the import again"), "{error}");
        assert!(transfer::interrupted_import(&*inner, "/sabakan/").await.unwrap(), "stopped at {fail_at}");
        let error = transfer::export(&*inner, &prefixes(), &mut Vec::new(), &mut |_| {}).await.unwrap_err();
        assert!(matches!(error, transfer::ExportError::Interrupted), "{error}");
        let error = import(&*inner, &small).await.unwrap_err();
        assert!(matches!(error, ImportError::OtherImport { .. }), "{error}");

        let imported = import(&*inner, &text).await.unwrap();
        assert!(imported.resumed);
        assert!(!transfer::interrupted_import(&*inner, "/sabakan/").await.unwrap());
        assert_eq!(keys(&export(&*inner).await), keys(&text), "stopped at {fail_at}");
        let error = import(&*inner, &text).await.unwrap_err();
        assert!(matches!(error, ImportError::NotEmpty { .. }), "{error}");
    }
}

#[tokio::test]
async fn an_import_stops_when_another_one_takes_over() {
    let (_source, store) = filled().await;
    let text = export(&*store).await;
    let (_target, inner) = empty();
    // Stopped in the middle, then taken over and finished by another; the first has lost its mark.
    let slow = Narrow::new(&inner, 100, 2_000_000, 5);
    import(&slow, &text).await.unwrap_err();
    let mark = inner.get_many(vec!["/sabakan/importing".to_owned()]).await.unwrap().values.remove(0).unwrap();
    import(&*inner, &text).await.unwrap();
    let when = vec![sabakan_store::Compare::ModRevision(mark.key, mark.mod_revision)];
    let late = inner.commit(Txn { when, then: vec![Op::put("/sabakan/late", "x")] }).await.unwrap();
    assert_eq!(late, TxnOutcome::Conflicted);
}

#[tokio::test]
async fn an_export_shows_one_revision_while_writers_go_on() {
    let (_source, store) = filled().await;
    let before = export(&*store).await;
    let at = store.latest_commit().await.unwrap();
    let mut out = Vec::new();
    let mut changes = Vec::new();
    let exported = {
        // Every page that is written changes what the next ones would show.
        let writer = Arc::clone(&store);
        let handle = tokio::runtime::Handle::current();
        let mut round = 0;
        let mut progress = |_| {
            round += 1;
            let (writer, key) = (Arc::clone(&writer), format!("/sabakan/machines/{:04}", 2_300 + round));
            changes.push(handle.spawn(async move { put(&*writer, &key, "late").await }));
        };
        transfer::export(&*store, &prefixes(), &mut out, &mut progress).await.unwrap()
    };
    for change in changes {
        assert!(change.await.unwrap() > at);
    }
    let during = String::from_utf8(out).unwrap();
    assert_eq!(exported.revision, at);
    assert_eq!(keys(&during), keys(&before));
    assert_ne!(keys(&export(&*store).await), keys(&before));
}

#[tokio::test]
async fn no_prefix_is_no_export() {
    let (_source, store) = empty();
    let error = transfer::export(&*store, &[], &mut Vec::new(), &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, transfer::ExportError::NoPrefix), "{error}");
    let text = export(&*store).await;
    assert_eq!(keys(&text), [""; 0]);
    let (_target, target) = empty();
    assert_eq!(import(&*target, &text).await.unwrap().keys, 0);
}
