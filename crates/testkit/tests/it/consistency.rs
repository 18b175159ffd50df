//! A read never misses a write that was acknowledged before it began, on any server.

use std::sync::atomic::{AtomicBool, Ordering};

use sabakan_testkit::{
    Backend, TestServer,
    fixtures::{self, machine},
};
use sabakan_wire::rest::QueryParams;

on_both_stores!(a_reader_sees_what_was_acknowledged);

fn find(serial: &str) -> QueryParams {
    [("serial".to_owned(), serial.to_owned())].into_iter().collect()
}

fn a_reader_sees_what_was_acknowledged(backend: Backend) {
    let server = TestServer::start(backend);
    server.client().put_ipam(&fixtures::wide_ipam()).expect("ipam");
    let other = (backend == Backend::Etcd).then(|| server.start_sibling());
    let client = server.client();
    let readers = [Some(server.client()), other.as_ref().map(TestServer::client)];
    // Writers keep both views busy meanwhile.
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (client, done) = (server.client(), &done);
            scope.spawn(move || {
                let mut n = 0;
                while !done.load(Ordering::Relaxed) {
                    let busy = machine(format!("busy-{writer}-{n}"), 1_000 + writer * 1_000 + n / 28, "worker");
                    client.create_machines(&[busy]).expect("registered");
                    n += 1;
                }
            });
        }
        for n in 0..100 {
            let serial = format!("seen-{n:03}");
            client.create_machines(&[machine(serial.clone(), n / 28, "worker")]).expect("registered");
            for reader in readers.iter().flatten() {
                let found = reader.list_machines(&find(&serial));
                assert_eq!(found.map(|list| list.len()).unwrap_or_else(|error| panic!("{serial}: {error}")), 1);
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn two_servers_on_one_etcd_share_everything() {
    let first = TestServer::start(Backend::Etcd);
    first.client().put_ipam(&fixtures::ipam()).expect("ipam");
    let second = first.start_sibling();
    assert_eq!(second.client().get_ipam().expect("ipam"), fixtures::ipam());
    second.client().create_machines(&[machine("a", 0, "boot")]).expect("registered");
    let error = first.client().create_machines(&[machine("b", 0, "boot")]).expect_err("one boot machine in a rack");
    assert_eq!(error.status(), Some(409), "{error}");
    assert_eq!(first.client().list_machines(&find("a")).expect("found").len(), 1);
}

#[test]
fn keys_of_others_in_the_same_etcd_do_not_hold_readers_up() {
    let server = TestServer::start(Backend::Etcd);
    server.client().put_ipam(&fixtures::ipam()).expect("ipam");
    let etcd = server.etcd.as_ref().expect("on etcd");
    for n in 0..20 {
        etcd.etcdctl(&["put", "/somebody/else", &n.to_string()]);
        assert_eq!(server.client().get_ipam().expect("answered"), fixtures::ipam());
    }
}
