//! The event feed (G11): no gap and no duplicate from whatever revision a reader goes on, and an honest word where it cannot.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use sabakan_client::{FeedEnd, FeedPosition};
use sabakan_testkit::{
    Backend, TestServer,
    client::Client,
    fixtures::{self, machine},
    raw::{connect, request},
    wait_for,
};
use sabakan_wire::rest::QueryParams;
use serde_json::{Value, json};

on_both_stores!(
    every_revision_is_a_place_to_go_on_from,
    a_follower_goes_on_after_a_restart,
    a_snapshot_and_what_follows_are_the_present,
    forgotten_history_is_told,
    a_hundred_followers_see_the_same,
    both_formats_say_the_same,
    no_secret_is_in_the_feed,
);

/// How long anything may take that should happen soon.
const SOON: Duration = Duration::from_secs(60);

fn started(backend: Backend) -> TestServer {
    let server = TestServer::start(backend);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    server
}

/// The lines of an answer that ends.
fn lines(server: &TestServer, query: &str) -> Vec<String> {
    let answer = request(&server.url(), "GET", &format!("/api/v1/events{query}"), &[], b"");
    assert_eq!(answer.status, 200, "{query}: {}", answer.body);
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    answer.body.lines().map(str::to_owned).collect()
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
}

/// What happened after a revision; the last line says how far that is.
fn changes_after(server: &TestServer, after: u64) -> (Vec<String>, u64) {
    let mut lines = lines(server, &format!("?after={after}"));
    let end = parse(&lines.pop().expect("a last line"));
    assert_eq!(end["kind"], "progress");
    (lines, end["revision"].as_u64().expect("a revision"))
}

/// One change of every kind.
fn make_history(client: &Client) {
    client.create_machines(&fixtures::workers(20, 0)).expect("registered");
    client.create_machines(&[machine("a", 2, "worker"), machine("ab", 2, "worker")]).expect("registered");
    let dhcp = serde_json::from_value(json!({"lease-minutes": 10, "gateway-offset": 1})).expect("JSON");
    client.put_dhcp(&dhcp).expect("dhcp");
    for n in 0..5 {
        client.put_label("a", "n", &n.to_string()).expect("label");
        client.put_label("ab", "n", &n.to_string()).expect("label");
    }
    client.remove_label("a", "n").expect("label");
    client.put_retire_date("a", "2031-01-01T00:00:00Z").expect("date");
    client.put_state("a", "healthy", false).expect("state");
    client.put_key("a", "disk0", b"0123456789").expect("key");
    let token = client.create_token("reader", "read").expect("token");
    client.revoke_token(&token.id).expect("revoked");
    client.put_state("a", "retiring", false).expect("state");
    client.delete_keys("a").expect("erased");
    client.remove_machine("a").expect("removed");
    client.create_machines(&[machine("a", 2, "worker")]).expect("registered again");
}

/// The machine of an event or of a list, without what depends on when it is looked at.
fn timeless(machine: &Value) -> Value {
    let mut machine = machine.clone();
    if let Some(status) = machine.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("duration");
    }
    machine
}

/// What a reader of the feed believes.
#[derive(Default)]
struct Believed(BTreeMap<String, Value>);

impl Believed {
    fn take(&mut self, event: &Value) {
        let (kind, serial) = (event["kind"].as_str().expect("kind"), event["serial"].as_str().unwrap_or_default());
        let (before, after) = (timeless(&event["before"]), timeless(&event["after"]));
        if kind == "snapshot" {
            self.0.insert(serial.to_owned(), after);
        } else if !(before.is_null() && after.is_null()) {
            let believed =
                if after.is_null() { self.0.remove(serial) } else { self.0.insert(serial.to_owned(), after) };
            assert_eq!(believed.unwrap_or_default(), before, "{event}");
        }
    }

    fn check(&self, server: &TestServer) {
        let machines = server.client().list_machines(&QueryParams::default()).expect("machines");
        let machines = machines
            .iter()
            .map(|machine| (machine.spec.serial.clone(), timeless(&serde_json::to_value(machine).expect("JSON"))));
        assert_eq!(self.0, machines.collect());
    }
}

fn every_revision_is_a_place_to_go_on_from(backend: Backend) {
    let server = started(backend);
    make_history(&server.client());
    let (all, newest) = changes_after(&server, 0);
    let events: Vec<Value> = all.iter().map(|line| parse(line)).collect();
    let revisions: Vec<u64> = events.iter().map(|event| event["revision"].as_u64().expect("revision")).collect();
    assert!(revisions.is_sorted(), "{revisions:?}");

    // The audit log knows of the same changes.
    let logs = server.client().list_logs(None, None).expect("logs");
    let mut told: Vec<Value> = Vec::new();
    for (n, event) in events.iter().enumerate() {
        let follows = revisions.get(n + 1) == Some(&revisions[n]);
        assert_eq!(event.get("more").is_some(), follows, "{event}");
        if !follows {
            let actor = &event["actor"];
            told.push(json!([event["revision"].to_string(), event["kind"], actor["name"], actor["ip"], event["time"]]));
        }
    }
    let mut logged: Vec<_> = logs
        .iter()
        .map(|entry| json!([entry.rev, format!("{}.{}", entry.category, entry.action), entry.user, entry.ip, entry.ts]))
        .collect();
    logged.sort_by_key(|entry| entry[0].as_str().and_then(|rev| rev.parse::<u64>().ok()));
    assert_eq!(told, logged);

    // Each change begins where the one before it ended, and the last one is the present.
    let mut believed = Believed::default();
    events.iter().for_each(|event| believed.take(event));
    believed.check(&server);

    // A reader may go on from anywhere, on a restarted server too, and gets the same bytes.
    let mut server = server;
    server.restart();
    for after in 0..=newest {
        let rest = revisions.partition_point(|revision| *revision <= after);
        assert_eq!(changes_after(&server, after), (all[rest..].to_vec(), newest), "after {after}");
    }
}

/// Reads on from a position until `last` has come.
fn read_until(client: &Client, position: &mut FeedPosition, seen: &mut Vec<String>, last: impl Fn(&str) -> bool) {
    let (end, _) = client
        .visit_events(position, true, |line| {
            seen.push(line.to_owned());
            if last(line) { Err(std::io::Error::other("enough")) } else { Ok(()) }
        })
        .expect("a feed");
    assert_eq!(end, FeedEnd::Stopped);
}

fn a_follower_goes_on_after_a_restart(backend: Backend) {
    let mut server = started(backend);
    let client = server.client();
    client.create_machines(&[machine("first", 9, "worker")]).expect("registered");
    let (sender, first) = mpsc::channel();
    let reading = thread::spawn(move || {
        let (mut position, mut seen) = (FeedPosition::after(Some(0)), Vec::new());
        let end = client.visit_events(&mut position, true, |line| {
            seen.push(line.to_owned());
            sender.send(()).map_err(std::io::Error::other)
        });
        (position, seen, end.map(|(end, _)| end))
    });
    // One that reads nothing must not hold the server up either.
    let mut silent = connect(&server.url());
    silent.write_all(b"GET /api/v1/events?follow=true HTTP/1.1\r\nhost: t\r\n\r\n").expect("sent");
    silent.read_exact(&mut [0; 8]).expect("the answer begins");
    first.recv_timeout(SOON).expect("ipam");
    first.recv_timeout(SOON).expect("registration");
    let begun = Instant::now();
    server.restart();
    assert!(begun.elapsed() < Duration::from_secs(15), "feeds held up the stop for {:?}", begun.elapsed());
    let (mut position, mut seen, end) = reading.join().expect("the reader");
    assert_eq!(end.expect("a clean end"), FeedEnd::Complete);

    make_history(&server.client());
    server.client().put_label("ab", "last", "1").expect("label");
    read_until(&server.client(), &mut position, &mut seen, |line| line.contains("\"last\":\"1\""));
    assert_eq!(seen, changes_after(&server, 0).0);
}

fn a_snapshot_and_what_follows_are_the_present(backend: Backend) {
    const WRITERS: u32 = 3;
    let server = started(backend);
    server.client().create_machines(&fixtures::workers(50, 0)).expect("registered");
    server.client().create_machines(&[machine("marker", 9, "worker")]).expect("registered");
    let write = |n: u32| {
        let client = server.client();
        thread::spawn(move || {
            for round in 0..15 {
                let serial = format!("w{n}-{round}");
                client.create_machines(&[machine(serial.clone(), 10 + n, "worker")]).expect("registered");
                client
                    .put_label(&format!("w00000-{:06}", (round * 7 + n) % 50), "n", &round.to_string())
                    .expect("label");
                if round % 3 == 0 {
                    client.put_state(&serial, "retiring", false).expect("state");
                    client.delete_keys(&serial).expect("erased");
                    client.remove_machine(&serial).expect("removed");
                }
            }
        })
    };
    let readers: Vec<JoinHandle<Vec<String>>> = (0..4)
        .map(|_| {
            let client = server.client();
            thread::spawn(move || {
                let mut seen = Vec::new();
                let last = |line: &str| line.contains("\"last\":\"1\"");
                read_until(&client, &mut FeedPosition::default(), &mut seen, last);
                seen
            })
        })
        .collect();
    let writers: Vec<_> = (0..WRITERS).map(write).collect();
    writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
    server.client().put_label("marker", "last", "1").expect("label");
    for reader in readers {
        let mut believed = Believed::default();
        let (mut ended, mut newest) = (false, 0);
        for event in reader.join().expect("a reader").iter().map(|line| parse(line)) {
            let revision = event["revision"].as_u64().expect("revision");
            assert!(revision >= newest, "{event}");
            newest = revision;
            match event["kind"].as_str() {
                Some("snapshot-end") => ended = true,
                kind => {
                    assert_eq!(kind == Some("snapshot"), !ended, "{event}");
                    believed.take(&event);
                }
            }
        }
        believed.check(&server);
    }
}

fn forgotten_history_is_told(backend: Backend) {
    let server = started(backend);
    make_history(&server.client());
    let (all, newest) = changes_after(&server, 0);
    let forgotten = newest - 5;
    server.compact(forgotten);
    let ask = |after: u64| request(&server.url(), "GET", &format!("/api/v1/events?after={after}"), &[], b"");
    for after in [0, 1, forgotten - 1] {
        let gone = ask(after);
        assert_eq!((gone.status, &gone.json()["kind"]), (410, &json!("gone")), "{after}: {}", gone.body);
        let expected = format!(
            "the changes after revision {after} are no longer kept, the oldest to go on after is {forgotten}; start again \
             without `after`"
        );
        assert_eq!(gone.error(), expected);
    }
    let kept: Vec<_> =
        all.into_iter().filter(|line| parse(line)["revision"].as_u64().expect("revision") > forgotten).collect();
    assert_eq!(changes_after(&server, forgotten), (kept, newest));
    let future = ask(newest + 1);
    assert_eq!((future.status, &future.json()["kind"]), (400, &json!("invalid")), "{}", future.body);
    assert!(future.error().contains("has not happened yet"), "{}", future.error());
    let mut believed = Believed::default();
    lines(&server, "")
        .iter()
        .map(|line| parse(line))
        .filter(|e| e["kind"] == "snapshot")
        .for_each(|e| believed.take(&e));
    believed.check(&server);
}

fn a_hundred_followers_see_the_same(backend: Backend) {
    let server = started(backend);
    let client = server.client();
    let (sender, ready) = mpsc::channel();
    let followers: Vec<JoinHandle<Vec<String>>> = (0..100)
        .map(|_| {
            let (client, sender) = (server.client(), sender.clone());
            thread::spawn(move || {
                let mut seen = Vec::new();
                let last = |line: &str| {
                    let _told = sender.send(());
                    line.contains("\"last\":\"1\"")
                };
                read_until(&client, &mut FeedPosition::after(Some(0)), &mut seen, last);
                seen
            })
        })
        .collect();
    // Each has the configuration: all of them follow.
    (0..100).for_each(|_| ready.recv_timeout(SOON).expect("a follower"));
    make_history(&client);
    client.put_label("ab", "last", "1").expect("label");
    let expected = changes_after(&server, 0).0;
    for follower in followers {
        assert_eq!(follower.join().expect("a follower"), expected);
    }
}

fn both_formats_say_the_same(backend: Backend) {
    let server = started(backend);
    make_history(&server.client());
    let ask = |query: &str, headers: &[(&str, &str)]| {
        let headers = [&[("accept", "text/event-stream")], headers].concat();
        let answer = request(&server.url(), "GET", &format!("/api/v1/events{query}"), &headers, b"");
        assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{}", answer.body);
        answer.body
    };
    for query in ["", "?after=0"] {
        let body = ask(query, &[]);
        let mut data = Vec::new();
        for event in body.strip_suffix("\n\n").expect("an end").split("\n\n") {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            let line = field("data").expect("data");
            let value = parse(line);
            assert_eq!(field("event"), value["kind"].as_str());
            let resume = value.get("more").is_none().then(|| value["revision"].to_string());
            assert_eq!(field("id"), resume.as_deref(), "{event}");
            data.push(line.to_owned());
        }
        assert_eq!(data, lines(&server, query), "{query}");
    }
    // A browser repeats its first URL and says how far it got.
    let (_, newest) = changes_after(&server, 0);
    let resumed = ask("?after=0", &[("last-event-id", &newest.to_string())]);
    let mark = json!({"kind": "progress", "revision": newest});
    assert_eq!(resumed, format!("id: {newest}\nevent: progress\ndata: {mark}\n\n"));
}

fn no_secret_is_in_the_feed(backend: Backend) {
    let server = started(backend);
    let client = server.client();
    client.create_machines(&[machine("a", 0, "worker")]).expect("registered");
    // Bytes whose texts in the usual writings are easy to find.
    let key = b"KEYKEYKEYKEYKEYKEYKEYKEYKEYKEYKE";
    let writings = ["KEYKEY", "4b45594b4559", "4B45594B4559", "S0VZS0VZ", "75,69,89,75,69,89"];
    client.put_key("a", "disk0", key).expect("key");
    let token = client.create_token("robot", "operator").expect("token");
    client.put_state("a", "retiring", false).expect("state");
    client.delete_keys("a").expect("erased");
    let changes = lines(&server, "?after=0").join("\n");
    for kind in ["crypts.put", "crypts.delete", "tokens.create"] {
        assert!(changes.contains(&format!("\"kind\":\"{kind}\"")), "{kind} is missing in {changes}");
    }
    let everything = changes + &lines(&server, "").join("\n");
    // The id is public; what stands behind it is not.
    let (_, secret) = token.token.split_once(&token.id).expect("the id is in the token");
    let secret = &secret[1..];
    assert!(secret.len() > 20, "{} has no secret", token.id);
    for text in writings.into_iter().chain([secret, "sealed", "nonce"]) {
        assert!(!everything.contains(text), "{text} is in {everything}");
    }
}

#[test]
fn a_reader_that_takes_nothing_is_dropped_and_others_go_on() {
    let server = TestServer::start_with(Backend::Embedded, |config| {
        config.feeds.feeds_max = 2;
        config.feeds.stall_max = Duration::from_secs(2);
    });
    let client = server.client();
    client.put_ipam(&fixtures::wide_ipam()).expect("ipam");
    // More than all buffers between the two ends hold.
    client.create_machines(&fixtures::workers(12_000, 0)).expect("registered");
    let newest = changes_after(&server, 0).1;
    let (sender, received) = mpsc::channel();
    let other = {
        let client = server.client();
        thread::spawn(move || {
            let mut seen = Vec::new();
            let last = |line: &str| {
                let _told = sender.send(());
                line.contains("\"last\":\"1\"")
            };
            read_until(&client, &mut FeedPosition::after(Some(newest)), &mut seen, last);
            seen
        })
    };
    client.put_label("w00000-000000", "first", "1").expect("label");
    received.recv_timeout(SOON).expect("the other one follows");
    let mut slow = connect(&server.url());
    slow.write_all(b"GET /api/v1/events?follow=true HTTP/1.0\r\n\r\n").expect("sent");
    slow.read_exact(&mut [0; 12]).expect("the answer begins");

    // A third one gets no place until the slow one has lost its own.
    let ask = || request(&server.url(), "GET", &format!("/api/v1/events?after={newest}"), &[], b"");
    let refused = ask();
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert_eq!(refused.error(), "all 2 event feeds are open or kept for others; try again later");
    let accepted = wait_for("a free place", SOON, || Some(ask()).filter(|answer| answer.status == 200));
    assert_eq!(accepted.body.lines().count(), 2);

    client.put_label("w00000-000000", "last", "1").expect("label");
    assert_eq!(other.join().expect("the other one").len(), 2);
    // When it reads after all, it learns why nothing more comes.
    let mut rest = String::new();
    slow.read_to_string(&mut rest).expect("what was sent before");
    let last = parse(rest.lines().last().expect("a last line"));
    assert_eq!((&last["kind"], &last["revision"]), (&json!("dropped"), &Value::Null), "{last}");
    assert!(last["error"].as_str().is_some_and(|text| text.starts_with("nothing was taken for 2 s")), "{last}");
    assert!(rest.lines().count() < 12_000, "it was dropped before everything was sent");

    // Nor does one hold up a server that stops.
    let mut slow = connect(&server.url());
    slow.write_all(b"GET /api/v1/events?follow=true HTTP/1.0\r\n\r\n").expect("sent");
    slow.read_exact(&mut [0; 12]).expect("the answer begins");
    let begun = Instant::now();
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(15), "the stop took {:?}", begun.elapsed());
}

#[test]
fn an_idle_feed_says_how_far_it_is() {
    let server = TestServer::start_with(Backend::Embedded, |config| {
        config.feeds.silence_max = Duration::from_millis(50);
    });
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    let (changes, newest) = changes_after(&server, 0);
    assert_eq!(changes.len(), 1);
    let mut stream = connect(&server.url());
    stream
        .write_all(format!("GET /api/v1/events?after={newest}&follow=true HTTP/1.0\r\n\r\n").as_bytes())
        .expect("sent");
    let mut body = BufReader::new(stream).lines().map(|line| line.expect("a line")).skip_while(|line| !line.is_empty());
    body.next();
    let mark = json!({"kind": "progress", "revision": newest}).to_string();
    assert_eq!((body.next(), body.next()), (Some(mark.clone()), Some(mark)));
}

#[test]
fn what_cannot_be_asked_for() {
    let server = TestServer::start(Backend::Embedded);
    for query in ["?after=x", "?after=-1", "?after=1.5", "?follow=maybe", "?after=18446744073709551616"] {
        let answer = request(&server.url(), "GET", &format!("/api/v1/events{query}"), &[], b"");
        assert_eq!((answer.status, &answer.json()["kind"]), (400, &json!("invalid")), "{query}");
    }
    assert_eq!(request(&server.url(), "POST", "/api/v1/events", &[], b"").status, 405);
    // Nothing is registered: a snapshot of nothing is an answer.
    let snapshot = lines(&server, "");
    assert_eq!((snapshot.len(), &parse(&snapshot[0])["kind"]), (1, &json!("snapshot-end")));
}

/// A reader that falls behind what the store has kept.
async fn history_vanishes_under_a_follower(store: Arc<dyn sabakan_store::Store>) {
    use sabakan_domain::{audit::Actor, ipam::OutsidePool};
    use sabakan_service::{Config, FeedEvent, Feeds, Foundation, Machines, SystemClock};
    let keys = sabakan_store::keys::Keys::new("/sabakan/", "/states/");
    let on = Foundation::open(Arc::clone(&store), keys, Arc::new(SystemClock), OutsidePool::Refuse, "h".into()).await;
    let on = Arc::new(on.expect("a foundation"));
    let actor = Actor::internal("test");
    let ipam = fixtures::ipam().try_into().expect("ipam");
    Config::new(Arc::clone(&on)).put_ipam(&actor, &ipam).await.expect("ipam");
    let machines = Machines::new(Arc::clone(&on));
    let new = sabakan_wire::rest::machines_from_input(vec![machine("a", 0, "worker")]).expect("a machine");
    machines.register(&actor, &new).await.expect("registered");
    let mut stream = Feeds::new(Arc::clone(&on)).open(None, true).await.expect("a feed");
    let snapshot = stream.next().await.expect("a snapshot");
    assert_eq!(snapshot.len(), 2);
    let reached = stream.reached().expect("the snapshot is complete");
    let (serial, name) = ("a".parse().expect("serial"), "n".parse().expect("name"));
    for value in ["1", "2", "3"] {
        machines.put_label(&actor, &serial, &name, &value.parse().expect("value")).await.expect("label");
    }
    let newest = store.latest_commit().await.expect("a revision");
    store.compact(newest).await.expect("compacted");
    let mut events = Vec::new();
    while let Some(next) = tokio::time::timeout(SOON, stream.next()).await.expect("an answer") {
        events.extend(next);
    }
    assert_eq!(events, [FeedEvent::Gone { revision: reached, oldest: newest }]);
}

#[tokio::test(flavor = "multi_thread")]
async fn history_vanishes_under_a_follower_of_the_embedded_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = sabakan_store::embedded::EmbeddedStore::open(&dir.path().join("db")).expect("a store");
    history_vanishes_under_a_follower(Arc::new(store)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn history_vanishes_under_a_follower_of_etcd() {
    let etcd = sabakan_testkit::etcd::Etcd::start();
    let store = sabakan_store_etcd::EtcdStore::connect(etcd.config("/sabakan/")).await.expect("etcd answers");
    history_vanishes_under_a_follower(Arc::new(store)).await;
}
