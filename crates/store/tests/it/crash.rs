//! What was acknowledged is there after a crash, and nothing is there by half.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use sabakan_store::{
    Op, Range, Store,
    embedded::{EmbeddedStore, check},
};

use crate::support::{Random, commit, directory, file, open};

/// Names the data file to a child process; without it the child's test does nothing.
const CHILD: &str = "SABAKAN_STORE_TEST_CHILD";

/// How long a child lives if nobody kills it.
const CHILD_MAX: Duration = Duration::from_secs(60);

/// Keys of one numbered transaction: all or none must be there.
const PARTS: [&str; 3] = ["a", "b", "c"];

fn numbered(number: u64) -> Vec<Op> {
    let key = |part: &str| format!("/numbered/{number:08}/{part}");
    let mut ops: Vec<_> = PARTS.iter().map(|part| Op::put(key(part), format!("{part}{number}").repeat(20))).collect();
    // Something to supersede and something to remove, so that compaction has work.
    ops.push(Op::put("/newest", number.to_string()));
    ops.push(match number % 2 {
        0 => Op::put("/sometimes", number.to_string()),
        _ => Op::Delete("/sometimes".to_owned()),
    });
    ops
}

/// Which numbers are stored. Panics if one is there by half.
async fn stored(store: &dyn Store) -> Vec<u64> {
    let mut parts: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut range = Range::first("/numbered/");
    loop {
        let page = store.list(range.clone()).await.unwrap();
        for kv in &page.items {
            let (number, part) = kv.key.strip_prefix("/numbered/").unwrap().split_once('/').unwrap();
            let number: u64 = number.parse().unwrap();
            assert_eq!(kv.value, format!("{part}{number}").repeat(20), "{}", kv.key);
            parts.entry(number).or_default().push(part.to_owned());
        }
        if !page.more {
            break;
        }
        range.after = page.items.last().map(|kv| kv.key.clone());
    }
    for (number, parts) in &parts {
        assert_eq!(parts, &PARTS, "number {number} is there by half");
    }
    parts.into_keys().collect()
}

/// Not a test of its own: the process that `a_killed_process_loses_nothing` kills. It writes numbered transactions from
/// several tasks, compacts now and then, and prints each number once it is acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_writes_until_it_is_killed() {
    let Ok(path) = std::env::var(CHILD) else { return };
    say("opening");
    let store = open(Path::new(&path));
    say("open");
    let next = Arc::new(AtomicU64::new(stored(&*store).await.last().map_or(1, |last| last + 1)));
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (store, next) = (Arc::clone(&store), Arc::clone(&next));
        writers.spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let revision = commit(&*store, numbered(number)).await;
                say(&format!("acknowledged {number}"));
                if number.is_multiple_of(40) {
                    store.compact(revision).await.unwrap();
                }
            }
        });
    }
    // Nobody waits for it any longer when the test that started it is gone.
    let _ = tokio::time::timeout(CHILD_MAX, writers.join_next()).await;
}

fn say(line: &str) {
    // One write per line: a line is printed whole or not at all.
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Starts the test above in a process of its own.
pub fn spawn_child(path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child_that_writes_until_it_is_killed", "--nocapture", "--test-threads=1"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_loses_nothing() {
    let directory = directory();
    let path = file(&directory);
    let mut random = Random(0x5eed);
    let mut acknowledged = Vec::new();
    for round in 0..25 {
        let mut child = spawn_child(&path);
        // Some die while they open the file, the others after some acknowledged writes.
        let opening_only = round % 5 == 4;
        let kill_after = if opening_only { 0 } else { 1 + random.below(300) };
        let mut seen = 0;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if let Some(number) = line.strip_prefix("acknowledged ") {
                acknowledged.push(number.parse::<u64>().unwrap());
                seen += 1;
            }
            // The test harness prints the name of the test before our first line, without a newline.
            if (opening_only && line.ends_with("opening")) || (!opening_only && seen >= kill_after) {
                // SIGKILL. The loop goes on with what was printed before it.
                child.kill().unwrap();
            }
        }
        assert!(!child.wait().unwrap().success(), "the child ended by itself");
        assert!(seen >= kill_after, "the child of round {round} stopped after {seen} writes");

        if round > 0 {
            let report = check(&path).unwrap();
            assert!(report.is_clean(), "round {round}, before reopening: {report:?}");
        }
        let store = open(&path);
        let stored = stored(&*store).await;
        for number in &acknowledged {
            assert!(stored.binary_search(number).is_ok(), "round {round}: {number} was acknowledged and is gone");
        }
        drop(store);
        let report = check(&path).unwrap();
        assert!(report.is_clean(), "round {round}, after reopening: {report:?}");
    }
    assert!(acknowledged.len() > 100, "only {} writes", acknowledged.len());
}

/// What a power failure may leave of the last writes: the log cut anywhere, or with rubbish in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_cut_or_damaged_gives_a_prefix_of_what_was_written() {
    const WRITES: u64 = 60;
    let source = directory();
    let path = file(&source);
    // Opened and closed once, so that the main file is complete and the log has only what follows.
    drop(open(&path));
    let store = open(&path);
    for number in 1..=WRITES {
        commit(&*store, numbered(number)).await;
    }
    let main = std::fs::read(&path).unwrap();
    let log = std::fs::read(path.with_extension("db-wal")).unwrap();
    drop(store);
    assert!(log.len() > 100_000, "the log has {} bytes: the writes are elsewhere", log.len());

    let mut random = Random(0xcafe);
    let mut lengths = Vec::new();
    for round in 0..60 {
        let target = directory();
        let path = file(&target);
        let place = usize::try_from(random.below(log.len() as u64)).unwrap();
        let mut left = log.clone();
        match round % 2 {
            0 => left.truncate(place),
            _ => left[place] ^= 0x10,
        }
        std::fs::write(&path, &main).unwrap();
        std::fs::write(path.with_extension("db-wal"), &left).unwrap();
        let store = EmbeddedStore::open(&path).unwrap();
        let numbers = stored(&store).await;
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "round {round}: a hole");
        // It can be written again.
        commit(&store, numbered(numbers.len() as u64 + 1)).await;
        drop(store);
        let report = check(&path).unwrap();
        assert!(report.is_clean(), "round {round}: {report:?}");
        lengths.push(numbers.len() as u64);
    }
    assert!(lengths.iter().any(|length| *length > 0 && *length < WRITES), "nothing was cut in the middle: {lengths:?}");
}

fn directory_file(path: &Path) -> String {
    path.display().to_string()
}

#[tokio::test]
async fn a_file_in_use_by_another_process_names_it() {
    let directory = directory();
    let path = file(&directory);
    let mut child = spawn_child(&path);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "open"), "the child did not open the file");
    let error = EmbeddedStore::open(&path).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&format!("process {}", child.id())), "{text}");
    assert!(text.contains(&directory_file(&path)), "{text}");
    child.kill().unwrap();
    child.wait().unwrap();
    // The lock went with the process.
    drop(open(&path));
}
