//! Members of the etcd below a server stop and come back while clients write: whoever cannot be served is told so clearly and soon,
//! nothing acknowledged is lost, nothing refused is there, and the server goes on without a restart.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use sabakan_testkit::{
    TestServer,
    client::{Client, Error},
    etcd::{Etcd, EtcdOptions},
    fixtures::{self, machine},
    wait_for,
};
use sabakan_wire::rest::{ErrorKind, QueryParams};

const WRITERS: u32 = 4;

/// How long anything may take that must happen: elections and restarts on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// The 5 s that are promised, and two more for a busy machine. The longest of both is printed.
const ANSWER_MAX: Duration = Duration::from_secs(7);

/// What the clients of the server saw.
#[derive(Default)]
struct Seen {
    acknowledged: Mutex<BTreeSet<String>>,
    refused: Mutex<BTreeSet<String>>,
    unknown: AtomicUsize,
    reads: AtomicUsize,
    unread: AtomicUsize,
    slowest_write: Mutex<Duration>,
    slowest_read: Mutex<Duration>,
    done: AtomicBool,
}

#[test]
fn members_stop_and_come_back_under_writes() {
    let etcd = Arc::new(Etcd::start_with(&EtcdOptions { members: 3, ..EtcdOptions::default() }));
    let server = TestServer::start_on(Some(Arc::clone(&etcd)), |_| {});
    server.client().put_ipam(&fixtures::wide_ipam()).expect("ipam");
    let seen = Seen::default();
    std::thread::scope(|scope| {
        let _end = EndWriters(&seen);
        for writer in 0..WRITERS {
            let (client, seen) = (server.client(), &seen);
            scope.spawn(move || write(&client, writer, seen));
        }
        scope.spawn(|| read(&server.client(), &seen));
        more_is_acknowledged("with all members", &seen);
        let first = etcd.leader();
        etcd.kill_member(first);
        more_is_acknowledged("with two members of three", &seen);
        let second = (first + 1) % 3;
        etcd.kill_member(second);
        let (writes, reads) = (failed_writes(&seen) + 6, seen.unread.load(Ordering::SeqCst) + 2);
        wait_for("clear answers with one member of three", SOON, || {
            (failed_writes(&seen) >= writes && seen.unread.load(Ordering::SeqCst) >= reads).then_some(())
        });
        etcd.restart_member(second);
        more_is_acknowledged("with two members again", &seen);
        etcd.restart_member(first);
        more_is_acknowledged("with all members again", &seen);
    });
    let registered = server.client().list_machines(&QueryParams::default()).expect("machines");
    let registered: BTreeSet<String> = registered.into_iter().map(|machine| machine.spec.serial).collect();
    let (acknowledged, refused) = (seen.acknowledged.into_inner(), seen.refused.into_inner());
    let (acknowledged, refused) = (acknowledged.expect("a list"), refused.expect("a list"));
    let lost: Vec<_> = acknowledged.difference(&registered).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let there: Vec<_> = refused.intersection(&registered).collect();
    assert!(there.is_empty(), "said not to have happened, and there: {there:?}");
    let (unknown, reads, unread) = (seen.unknown.into_inner(), seen.reads.into_inner(), seen.unread.into_inner());
    let (write, read) = (seen.slowest_write.into_inner(), seen.slowest_read.into_inner());
    let (write, read) = (write.expect("a time"), read.expect("a time"));
    println!(
        "{} writes acknowledged, none lost; {} refused, {unknown} unknown; \
         {reads} reads answered, {unread} refused; slowest write {write:?}, slowest read {read:?}",
        acknowledged.len(),
        refused.len(),
    );
    assert!(write.max(read) < ANSWER_MAX, "a write took {write:?}, a read {read:?}");
}

/// Ends the clients even when the test fails, so that it fails instead of hanging.
struct EndWriters<'a>(&'a Seen);

impl Drop for EndWriters<'_> {
    fn drop(&mut self) {
        self.0.done.store(true, Ordering::SeqCst);
    }
}

fn more_is_acknowledged(when: &str, seen: &Seen) {
    let count = || seen.acknowledged.lock().expect("a list").len();
    let (writes, reads) = (count() + 20, seen.reads.load(Ordering::SeqCst) + 5);
    wait_for(&format!("writes and reads {when}"), SOON, || {
        (count() >= writes && seen.reads.load(Ordering::SeqCst) >= reads).then_some(())
    });
}

fn failed_writes(seen: &Seen) -> usize {
    seen.refused.lock().expect("a list").len() + seen.unknown.load(Ordering::SeqCst)
}

/// Registers machines, each in its own transaction with its own name, whatever becomes of them.
fn write(client: &Client, writer: u32, seen: &Seen) {
    for n in 0.. {
        if seen.done.load(Ordering::SeqCst) {
            return;
        }
        let serial = format!("w{writer}-{n:05}");
        match timed(&seen.slowest_write, || {
            client.create_machines(&[machine(serial.clone(), writer * 1_000 + n / 20, "worker")])
        }) {
            Ok(()) => add(&seen.acknowledged, serial),
            Err(error) if is(&error, 504, ErrorKind::OutcomeUnknown) => count(&seen.unknown),
            Err(error) if is(&error, 503, ErrorKind::Unavailable) => add(&seen.refused, serial),
            Err(error) => panic!("{serial}: {error:?}"),
        }
    }
}

fn read(client: &Client, seen: &Seen) {
    let query: QueryParams = [("serial".to_owned(), "w0-00000".to_owned())].into_iter().collect();
    while !seen.done.load(Ordering::SeqCst) {
        match timed(&seen.slowest_read, || client.list_machines(&query)) {
            Ok(_) => count(&seen.reads),
            // Before the first write has come.
            Err(error) if error.status() == Some(404) => {}
            Err(error) if is(&error, 503, ErrorKind::Unavailable) => count(&seen.unread),
            Err(error) => panic!("a read: {error:?}"),
        }
    }
}

fn add(list: &Mutex<BTreeSet<String>>, serial: String) {
    list.lock().expect("a list").insert(serial);
}

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::SeqCst);
}

/// A body of ours that says what happened and what to do.
fn is(error: &Error, status: u16, kind: ErrorKind) -> bool {
    error.status() == Some(status)
        && error.kind() == Some(kind)
        && error.json().is_some_and(|json| json.error.contains("try"))
}

fn timed<T>(slowest: &Mutex<Duration>, call: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = call();
    let mut slowest = slowest.lock().expect("a time");
    *slowest = began.elapsed().max(*slowest);
    result
}
