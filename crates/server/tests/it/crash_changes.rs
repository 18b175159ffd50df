//! `kill -9` in the middle of random changes, again and again: registrations, states, labels and disk keys that were acknowledged are
//! there, one that was not is there whole or not at all (G4), and a reader of the event feed that lives through all of it gets
//! every event once (G11).

use std::{
    collections::BTreeMap,
    io,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use sabakan_testkit::{
    client::{Client, Error, FeedEnd, FeedPosition},
    fixtures::{self, machine},
    process::{Process, run},
    wait_for,
};

use sabakan_wire::rest::{ErrorKind, MachineJson, QueryParams};

use crate::{SABAKAN, crash::kill};

/// Kills of an ordinary run.
const CYCLES: usize = 50;
/// `cargo xtask soak crash` asks for more.
const CYCLES_VARIABLE: &str = "SABAKAN_CRASH_CYCLES";
/// Where the random numbers begin, unless this says otherwise.
const SEED: usize = 20;
const SEED_VARIABLE: &str = "SABAKAN_CRASH_SEED";
const WRITERS: usize = 4;
/// Of all writers together; the server dies before the last of them.
const WRITES: usize = 200;

#[test]
fn changes_survive_and_the_feed_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let (cycles, seed) = (asked(CYCLES_VARIABLE, CYCLES), asked(SEED_VARIABLE, SEED));
    let mut writers: Vec<Writer> = (0..WRITERS).map(|name| Writer::new(name, seed)).collect();
    let mut feed = Feed::default();
    let mut random = Random(seed as u64);
    for round in 0..=cycles {
        let server = Process::start(SABAKAN, &data, ["--log-level", "error"]);
        let client = Client::new(&server.url()).expect("a URL");
        if round == 0 {
            client.put_ipam(&fixtures::wide_ipam()).expect("ipam");
        }
        writers.iter_mut().for_each(|writer| writer.verify(&client));
        if round == cycles {
            finish(&client, &mut feed, &writers);
            println!("{cycles} kills, seed {seed}");
            server.terminate();
            break;
        }
        let made = AtomicUsize::new(0);
        let enough = random.index(WRITES - 2 * WRITERS) + 1;
        std::thread::scope(|scope| {
            let _at_the_end = Kill(server.id());
            for writer in &mut writers {
                scope.spawn(|| writer.write_until_it_dies(&client, &made));
            }
            scope.spawn(|| feed.read(&client, true));
            wait_for("some changes", Duration::from_secs(60), || (made.load(Ordering::SeqCst) >= enough).then_some(()));
        });
        server.kill();
    }
    let check = run(SABAKAN, ["store", "check", "--data-dir", data.to_str().expect("UTF-8")]);
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

/// A number from the environment; what is not a number above 0 is a mistake of whoever set it.
fn asked(variable: &str, otherwise: usize) -> usize {
    let Ok(text) = std::env::var(variable) else { return otherwise };
    let number = text.parse().ok().filter(|number| (1..1 << 32).contains(number));
    number.unwrap_or_else(|| panic!("{variable} is {text:?}, not a number between 1 and 2^32"))
}

/// Kills a process, also when the test fails: those who wait for its death would wait for ever.
struct Kill(u32);

impl Drop for Kill {
    fn drop(&mut self) {
        kill(self.0);
    }
}

/// Everything is there, and the feed told all of it once.
fn finish(client: &Client, feed: &mut Feed, writers: &[Writer]) {
    let all = states_and_labels(client);
    for writer in writers {
        for (serial, expected) in &writer.machines {
            assert_eq!(&look(client, &all, serial), expected, "{serial} at the end");
        }
    }
    feed.read(client, false);
    let mut whole = Feed::default();
    whole.read(client, false);
    let places = |feed: &Feed| feed.lines.iter().map(|line| place_of(line)).collect::<Vec<_>>();
    assert_eq!(places(feed), places(&whole), "a reader that was cut off gets what one that was not gets");
    let (mut changes, mut unknown) = (BTreeMap::new(), BTreeMap::new());
    for writer in writers {
        writer.changes.iter().for_each(|(kind, count)| *changes.entry(*kind).or_insert(0) += count);
        writer.unknown.iter().for_each(|kind| *unknown.entry(*kind).or_insert(0) += 1);
    }
    for (kind, count) in &changes {
        let told = feed.lines.iter().filter(|line| place_of(line).1 == *kind).count();
        let most = count + unknown.get(kind).unwrap_or(&0);
        assert!((*count..=most).contains(&told), "{kind}: {told} in the feed, {count} to {most} were made");
    }
    println!("{changes:?} acknowledged and there, {unknown:?} cut off, {} events, each once", feed.lines.len());
}

/// One reader of the feed, over all lives of the server.
struct Feed {
    position: FeedPosition,
    lines: Vec<String>,
}

impl Default for Feed {
    fn default() -> Feed {
        Feed { position: FeedPosition::after(Some(0)), lines: Vec::new() }
    }
}

impl Feed {
    fn read(&mut self, client: &Client, follow: bool) {
        let lines = &mut self.lines;
        let visited = client.visit_events(&mut self.position, follow, |line| {
            lines.push(line.to_owned());
            io::Result::Ok(())
        });
        match visited {
            Ok((end, _)) => assert!(matches!(end, FeedEnd::Complete | FeedEnd::Broken(_)), "{end:?}"),
            Err(error) => assert!(follow && error.status().is_none(), "{error}"),
        }
    }
}

/// What a line of the feed is about.
fn place_of(line: &str) -> (u64, String, String) {
    let json: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
    (json["revision"].as_u64().expect("a revision"), text("kind"), text("serial"))
}

/// A machine as far as this test changes it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Known {
    state: String,
    labels: BTreeMap<String, String>,
    keys: BTreeMap<String, Vec<u8>>,
}

#[derive(Debug, Clone)]
enum Change {
    Register,
    State(&'static str),
    Label(String, String),
    RemoveLabel(String),
    PutKey(String, Vec<u8>),
    Erase,
}

/// Changes machines that nobody else changes, and remembers what it was told.
struct Writer {
    name: usize,
    random: Random,
    /// Nothing: registration was tried and is not known to have happened.
    machines: BTreeMap<String, Option<Known>>,
    /// Sent when the server died.
    cut_off: Option<(String, Change)>,
    touched: Vec<String>,
    changes: BTreeMap<&'static str, usize>,
    unknown: Vec<&'static str>,
}

impl Writer {
    fn new(name: usize, seed: usize) -> Writer {
        let random = Random(((seed << 16) + 0x5eed + name) as u64);
        Writer {
            name,
            random,
            machines: BTreeMap::new(),
            cut_off: None,
            touched: Vec::new(),
            changes: BTreeMap::new(),
            unknown: Vec::new(),
        }
    }

    fn write_until_it_dies(&mut self, client: &Client, made: &AtomicUsize) {
        for _ in 0..WRITES / WRITERS {
            let (serial, change) = self.choose();
            self.touched.push(serial.clone());
            match send(client, self.name, &serial, &change) {
                Ok(()) => {
                    let machine = self.machines.entry(serial).or_default();
                    let before = machine.clone();
                    apply(machine, &change);
                    if *machine != before {
                        *self.changes.entry(kind_of(&change)).or_default() += 1;
                    }
                }
                // A rule forbids it; what is there must not have changed.
                Err(error) if error.status().is_some() => {
                    let kind = error.kind().unwrap_or_else(|| panic!("{change:?}: {error}"));
                    let refused = [ErrorKind::Refused, ErrorKind::Conflict, ErrorKind::NotFound, ErrorKind::Invalid];
                    assert!(refused.contains(&kind), "{change:?} of {serial}: {error}");
                }
                Err(_) => {
                    self.unknown.push(kind_of(&change));
                    self.machines.entry(serial.clone()).or_default();
                    self.cut_off = Some((serial, change));
                    return;
                }
            }
            made.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn choose(&mut self) -> (String, Change) {
        let registered: Vec<_> =
            self.machines.iter().filter(|(_, known)| known.is_some()).map(|(s, _)| s.clone()).collect();
        if registered.is_empty() || self.random.below(10) == 0 {
            return (format!("c{}-{}", self.name, self.machines.len()), Change::Register);
        }
        let serial = registered[self.random.index(registered.len())].clone();
        let number = self.random.below(1_000_000);
        let (label, disk) = (format!("l{}", number % 3), format!("d{}", number % 3));
        let change = match self.random.below(10) {
            0..3 => Change::State(STATES[self.random.index(STATES.len())]),
            3..6 => Change::Label(label, number.to_string()),
            6 => Change::RemoveLabel(label),
            7 | 8 => Change::PutKey(disk, number.to_string().into_bytes()),
            _ => Change::Erase,
        };
        (serial, change)
    }

    /// What was acknowledged is there; what was cut off is there whole or not at all, and is known from now on.
    fn verify(&mut self, client: &Client) {
        let all = states_and_labels(client);
        let cut_off = self.cut_off.take();
        for serial in std::mem::take(&mut self.touched) {
            let found = look(client, &all, &serial);
            let expected = self.machines.entry(serial.clone()).or_default();
            if let Some((_, change)) = cut_off.as_ref().filter(|(cut_off, _)| *cut_off == serial) {
                let mut after = expected.clone();
                apply(&mut after, change);
                if found == after {
                    *expected = after;
                }
            }
            assert_eq!(found, *expected, "{serial}, cut off: {cut_off:?}");
        }
    }
}

const STATES: [&str; 5] = ["healthy", "unhealthy", "retiring", "retired", "uninitialized"];

fn send(client: &Client, writer: usize, serial: &str, change: &Change) -> Result<(), Error> {
    match change {
        Change::Register => {
            // One rack for twenty machines of one writer.
            let number: usize = serial.rsplit('-').next().and_then(|n| n.parse().ok()).expect("a number");
            let rack = u32::try_from(writer * 1_000 + number / 20).expect("a rack");
            client.create_machines(&[machine(serial, rack, "worker")])
        }
        Change::State(state) => client.put_state(serial, state, false),
        Change::Label(name, value) => client.put_label(serial, name, value),
        Change::RemoveLabel(name) => client.remove_label(serial, name),
        Change::PutKey(disk, key) => client.put_key(serial, disk, key),
        Change::Erase => client.delete_keys(serial).map(drop),
    }
}

fn kind_of(change: &Change) -> &'static str {
    match change {
        Change::Register => "machines.register",
        Change::State(_) => "machines.set-state",
        Change::Label(..) => "machines.put-label",
        Change::RemoveLabel(_) => "machines.delete-label",
        Change::PutKey(..) => "crypts.put",
        Change::Erase => "crypts.delete",
    }
}

/// What a change that happens makes of a machine.
fn apply(machine: &mut Option<Known>, change: &Change) {
    let known = machine.get_or_insert_with(|| Known { state: "uninitialized".to_owned(), ..Known::default() });
    match change {
        Change::Register => {}
        Change::State(state) => known.state = (*state).to_owned(),
        Change::Label(name, value) => drop(known.labels.insert(name.clone(), value.clone())),
        Change::RemoveLabel(name) => drop(known.labels.remove(name)),
        Change::PutKey(disk, key) => drop(known.keys.insert(disk.clone(), key.clone())),
        Change::Erase => {
            known.keys.clear();
            known.state = "retired".to_owned();
        }
    }
}

fn states_and_labels(client: &Client) -> BTreeMap<String, Known> {
    let machines = match client.list_machines(&QueryParams::default()) {
        Ok(machines) => machines,
        Err(error) if error.status() == Some(404) => Vec::new(),
        Err(error) => panic!("{error}"),
    };
    let known = |m: MachineJson| {
        let labels = m.spec.labels.unwrap_or_default();
        (m.spec.serial, Known { state: m.status.state, labels, keys: BTreeMap::new() })
    };
    machines.into_iter().map(known).collect()
}

fn look(client: &Client, all: &BTreeMap<String, Known>, serial: &str) -> Option<Known> {
    let mut known = all.get(serial).cloned()?;
    for disk in ["d0", "d1", "d2"] {
        match client.get_key(serial, disk) {
            Ok(key) => drop(known.keys.insert(disk.to_owned(), key)),
            Err(error) if error.status() == Some(404) => {}
            Err(error) => panic!("{serial} {disk}: {error}"),
        }
    }
    Some(known)
}

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    /// A number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        // Xorshift; the state must not be 0.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("an index")
    }
}
