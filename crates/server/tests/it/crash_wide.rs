//! `kill -9` while requests register more machines than etcd takes operations in one transaction: each request is there whole or not
//! at all, whichever of the two dies, the server or etcd.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use sabakan_testkit::{
    client::Client,
    etcd::Etcd,
    fixtures::{self, machine},
    process::Process,
    wait_for,
};
use sabakan_wire::rest::MachineInput;

use crate::{SABAKAN, crash::kill};

const ROUNDS: u32 = 6;
const WRITERS: u32 = 2;
/// Machines of one request: several racks, some 400 operations.
const MACHINES: u32 = 150;
const RACKS: u32 = 6;

/// How long anything may take that must happen, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_wide_registration_is_whole_or_absent() {
    let etcd = Etcd::start();
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let endpoints = etcd.endpoints().join(",");
    let start = || Process::start(SABAKAN, &data, ["--log-level", "error", "--etcd-endpoints", &endpoints]);
    let (next, acknowledged) = (AtomicU32::new(0), Mutex::new(Vec::new()));
    for round in 0..ROUNDS {
        let server = start();
        let client = Client::new(&server.url()).expect("a URL");
        if round == 0 {
            client.put_ipam(&fixtures::wide_ipam()).expect("ipam");
        }
        let before = acknowledged.lock().expect("the list").len();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| write(&client, &next, &acknowledged, &over));
            }
            wait_for("some registrations", SOON, || {
                (acknowledged.lock().expect("the list").len() >= before + 2).then_some(())
            });
            if round % 2 == 0 {
                kill(server.id());
            } else {
                etcd.kill_member(0);
            }
            over.store(true, Ordering::SeqCst);
        });
        server.kill();
        if round % 2 == 1 {
            etcd.restart_member(0);
        }
        let server = start();
        verify(&Client::new(&server.url()).expect("a URL"), &acknowledged.lock().expect("the list"));
        server.terminate();
    }
    println!("{ROUNDS} kills, {} wide registrations acknowledged", acknowledged.into_inner().expect("the list").len());
}

fn request(number: u32) -> Vec<MachineInput> {
    (0..MACHINES).map(|n| machine(format!("q{number}-{n:03}"), number * RACKS + n % RACKS, "worker")).collect()
}

/// Registers until something dies. What is refused or unanswered may be there or not, but not in part.
fn write(client: &Client, next: &AtomicU32, acknowledged: &Mutex<Vec<u32>>, over: &AtomicBool) {
    while !over.load(Ordering::SeqCst) {
        let number = next.fetch_add(1, Ordering::SeqCst);
        if client.create_machines(&request(number)).is_ok() {
            acknowledged.lock().expect("the list").push(number);
        }
    }
}

fn verify(client: &Client, acknowledged: &[u32]) {
    let mut found: BTreeMap<u32, u32> = BTreeMap::new();
    for machine in client.list_machines(&Default::default()).expect("machines") {
        let number = machine.spec.serial.trim_start_matches('q').split('-').next().and_then(|text| text.parse().ok());
        *found.entry(number.expect("the number of a request")).or_default() += 1;
    }
    for (number, count) in &found {
        assert_eq!(*count, MACHINES, "request {number} is there in part");
    }
    for number in acknowledged {
        assert!(found.contains_key(number), "request {number} was acknowledged and is lost");
    }
}
