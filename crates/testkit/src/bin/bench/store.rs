//! Durable changes at the embedded store, beside what the disk can do, and how fast watchers learn of them.

use std::{
    fs::File,
    io::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use sabakan_store::{Event, Op, Revision, Store, Txn, TxnOutcome, embedded::EmbeddedStore};

use crate::table::{Row, median, quantile};

/// How long one measurement lasts.
const SPAN: Duration = Duration::from_secs(3);

/// How often each is repeated, alternating with the others.
const ROUNDS: usize = 3;

/// About the size of a machine record.
const VALUE_BYTES: usize = 900;

pub fn run() -> anyhow::Result<Vec<Row>> {
    let dir = tempfile::tempdir_in(".").context("a directory on the disk under test")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (mut raw, mut one, mut many) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        eprintln!("store: round {} of {ROUNDS}", round + 1);
        raw.push(raw_fsync(dir.path(), SPAN)?);
        let path = dir.path().join(format!("bench-{round}.db"));
        let store = Arc::new(EmbeddedStore::open(&path)?);
        one.push(runtime.block_on(commits(&store, 1))?);
        many.push(runtime.block_on(commits(&store, 64))?);
        runtime.block_on(store.shutdown());
    }
    let ratios = |rates: &[f64]| median(rates.iter().zip(&raw).map(|(rate, raw)| rate / raw).collect());
    let (single, grouped) = (ratios(&one), ratios(&many));
    let store = Arc::new(EmbeddedStore::open(&dir.path().join("watch.db"))?);
    let latencies = runtime.block_on(watch_latencies(&store))?;
    let (half, p99) = (median(latencies.clone()), quantile(latencies, 0.99));
    let rates = |rates: Vec<f64>| format!("{:.0}/s", median(rates));
    Ok(vec![
        Row::figure("raw append of a record + fdatasync", rates(raw)),
        Row::figure("durable change at the store, 1 writer", rates(one)),
        Row::figure("durable change at the store, 64 writers", rates(many)),
        Row::target("ratio to raw, 1 writer", format!("{single:.2} ×"), "≥ 0.5 ×", single >= 0.5),
        Row::target("ratio to raw, 64 writers", format!("{grouped:.2} ×"), "≥ 4 ×", grouped >= 4.0),
        Row::target(
            "change → watcher at the store, p50 / p99",
            format!("{:.2} / {:.2} ms", half * 1e3, p99 * 1e3),
            "p99 ≤ 20 ms",
            p99 <= 0.020,
        ),
    ])
}

/// Appends of one record, each flushed, per second.
pub fn raw_fsync(dir: &Path, span: Duration) -> anyhow::Result<f64> {
    let mut file = File::create(dir.join("raw"))?;
    let record = vec![b'x'; VALUE_BYTES];
    let begun = Instant::now();
    let mut done = 0_u32;
    while begun.elapsed() < span {
        file.write_all(&record)?;
        file.sync_data()?;
        done += 1;
    }
    ensure!(done > 0, "not one flush was measured");
    Ok(f64::from(done) / begun.elapsed().as_secs_f64())
}

/// Compare-and-swap changes of `writers` tasks, each of its own key, per second.
async fn commits(store: &Arc<EmbeddedStore>, writers: usize) -> anyhow::Result<f64> {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..writers).map(|n| tokio::spawn(writer(Arc::clone(store), n, begun))).collect();
    let mut done = 0_u32;
    for task in tasks {
        done += task.await??;
    }
    ensure!(done > 0, "not one change was measured");
    Ok(f64::from(done) / begun.elapsed().as_secs_f64())
}

async fn writer(store: Arc<EmbeddedStore>, number: usize, begun: Instant) -> anyhow::Result<u32> {
    let key = format!("/bench/{number}/{begun:?}");
    let value = bytes::Bytes::from(vec![b'x'; VALUE_BYTES]);
    let (mut at, mut done) = (Revision::NONE, 0);
    while begun.elapsed() < SPAN {
        let txn = Txn {
            when: vec![sabakan_store::Compare::ModRevision(key.clone(), at)],
            then: vec![Op::put(key.clone(), value.clone())],
        };
        match store.commit(txn).await? {
            TxnOutcome::Committed(revision) => at = revision,
            TxnOutcome::Conflicted => anyhow::bail!("nobody else writes this key"),
        }
        done += 1;
    }
    Ok(done)
}

/// Seconds from the begin of a change until a watcher has it.
async fn watch_latencies(store: &Arc<EmbeddedStore>) -> anyhow::Result<Vec<f64>> {
    let mut watch = store.watch("/bench/".into(), Revision(1)).await?;
    let mut latencies = Vec::new();
    for n in 0..2_000_u32 {
        let begun = Instant::now();
        let txn = Txn { when: vec![], then: vec![Op::put("/bench/watched", n.to_string())] };
        let writing = tokio::spawn({
            let store = Arc::clone(store);
            async move { store.commit(txn).await }
        });
        let expected = n.to_string();
        loop {
            let batch =
                tokio::time::timeout(Duration::from_secs(5), watch.next()).await.context("a watcher waits")??;
            let seen = |event: &Event| matches!(event, Event::Put(kv) if kv.value == expected.as_bytes());
            if batch.events.iter().any(seen) {
                break;
            }
        }
        latencies.push(begun.elapsed().as_secs_f64());
        ensure!(matches!(writing.await??, TxnOutcome::Committed(_)), "an unconditional change conflicts with nothing");
    }
    Ok(latencies)
}
