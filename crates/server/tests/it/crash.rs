//! `kill -9` at any moment: every acknowledged registration is there afterwards, and none is there in part (G3, G4).

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use sabakan_testkit::{
    client::Client,
    fixtures::{self, machine},
    process::{Process, run},
    wait_for,
};

use crate::SABAKAN;

const ROUNDS: u32 = 12;
const WRITERS: u32 = 4;

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_half_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let next = AtomicU32::new(0);
    let acknowledged: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    for round in 0..ROUNDS {
        let server = Process::start(SABAKAN, &data, ["--log-level", "error"]);
        let client = Client::new(&server.url()).expect("a URL");
        if round == 0 {
            client.put_ipam(&fixtures::wide_ipam()).expect("ipam");
        }
        verify(&client, &acknowledged.lock().expect("the list"), next.load(Ordering::SeqCst));
        let before = acknowledged.lock().expect("the list").len();
        std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| write_until_it_dies(&server.url(), &next, &acknowledged));
            }
            // Somewhere in the middle of things, another place in every round.
            let enough = before + 3 + (round as usize * 7) % 20;
            wait_for("some registrations", Duration::from_secs(60), || {
                (acknowledged.lock().expect("the list").len() >= enough).then_some(())
            });
            kill(server.id());
        });
        server.kill();
    }
    let server = Process::start(SABAKAN, &data, ["--log-level", "error"]);
    let client = Client::new(&server.url()).expect("a URL");
    let acknowledged = acknowledged.into_inner().expect("the list");
    verify(&client, &acknowledged, next.load(Ordering::SeqCst));
    println!("{ROUNDS} kills, {} registrations acknowledged, none lost", acknowledged.len());
    server.terminate();
    let check = run(SABAKAN, ["store", "check", "--data-dir", data.to_str().expect("UTF-8")]);
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stdout));
}

/// Registers racks of five, each its own, until the server is gone.
fn write_until_it_dies(url: &str, next: &AtomicU32, acknowledged: &Mutex<Vec<u32>>) {
    let client = Client::new(url).expect("a URL");
    loop {
        let rack = next.fetch_add(1, Ordering::SeqCst);
        let batch: Vec<_> = (0..5).map(|n| machine(format!("r{rack}-{n}"), rack, "worker")).collect();
        match client.create_machines(&batch) {
            Ok(()) => acknowledged.lock().expect("the list").push(rack),
            Err(error) if error.status().is_none() => return,
            Err(error) => panic!("rack {rack}: {error}"),
        }
    }
}

/// Acknowledged racks are whole; the others are whole or absent.
fn verify(client: &Client, acknowledged: &[u32], tried: u32) {
    for rack in 0..tried {
        let query = [("rack".to_owned(), rack.to_string())].into_iter().collect();
        let found = match client.list_machines(&query) {
            Ok(machines) => machines.len(),
            Err(error) if error.status() == Some(404) => 0,
            Err(error) => panic!("rack {rack}: {error}"),
        };
        let expected = if acknowledged.contains(&rack) { &[5][..] } else { &[0, 5] };
        assert!(expected.contains(&found), "rack {rack} has {found} machines");
    }
}

pub fn kill(id: u32) {
    let sent = std::process::Command::new("kill").args(["-KILL", &id.to_string()]).status().expect("kill runs");
    assert!(sent.success());
}
