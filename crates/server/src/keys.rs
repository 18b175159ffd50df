//! `sabakan keys …`: the keys that disk keys and credentials of nodes are sealed under.

use std::process::ExitCode;

use anyhow::bail;
use sabakan_domain::{audit::Actor, provision::node::Node};
use sabakan_service::{
    Clock as _, ServiceError, SystemClock, Vault,
    seal::{KeyId, KeyRing, SealedKey},
};
use sabakan_store::{
    StoreError,
    keys::Keys,
    records::is_sealed_key,
    repo::{audit::By, crypts, nodes},
};

use crate::{
    config::ServerConfig,
    run::{self, OpenStore},
};

/// Shows the keys, never what they are.
pub fn list(config: &ServerConfig) -> anyhow::Result<ExitCode> {
    let ring = KeyRing::open_file(&config.key_file)?;
    for (id, created) in ring.list() {
        let current = if id == ring.current() { "  current" } else { "" };
        println!("{id}  {created}{current}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes a new key and seals every stored disk key and every credential of a node under it. Interrupted, it can be run again; the old keys stay in the file until
/// somebody forgets them.
pub fn rotate(config: &ServerConfig) -> anyhow::Result<ExitCode> {
    let mut ring = KeyRing::open_file(&config.key_file)?;
    run::block_on(async {
        // The store first: a rotation that could not seal anything anew would only add a key.
        let store = run::open_store(config).await?;
        let id = ring.rotate(&config.key_file, SystemClock.now())?;
        eprintln!("new key {id}; sealing stored disk keys under it");
        note(config, &store, &id, "rotate-key").await?;
        let (resealed, raw) = reseal(config, &store, &ring).await?;
        let secrets = reseal_nodes(config, &store, &ring).await?;
        close(store).await;
        name_raw(&raw, "are left as they are");
        println!(
            "{resealed} disk keys and {secrets} BMC credentials are sealed under {id} now; older keys open nothing any more"
        );
        println!("backups made before need the older keys: keep them, or run `sabakan keys forget ID`");
        Ok(ExitCode::SUCCESS)
    })
}

/// Drops a key from the file, if no stored disk key and no credential of a node needs it.
pub fn forget(config: &ServerConfig, id: &str) -> anyhow::Result<ExitCode> {
    let Some(id) = KeyId::parse(id) else { bail!("{id:?} is not the id of a key; `sabakan keys list` shows them") };
    let mut ring = KeyRing::open_file(&config.key_file)?;
    run::block_on(async {
        let store = run::open_store(config).await?;
        let left = needing(config, &store, &id).await? + nodes_needing(config, &store, &id).await?;
        if left > 0 {
            bail!("{left} disk keys or BMC credentials are sealed under {id}; run `sabakan keys rotate` first");
        }
        ring.forget(&config.key_file, &id)?;
        note(config, &store, &id, "forget-key").await?;
        close(store).await;
        println!("key {id} is forgotten; backups that hold disk keys sealed under it can no longer be opened");
        Ok(ExitCode::SUCCESS)
    })
}

/// Seals every stored disk key under the current key. Those the older service stored raw are not touched, and named: machine and disk.
async fn reseal(config: &ServerConfig, store: &OpenStore, ring: &KeyRing) -> anyhow::Result<(usize, Vec<String>)> {
    let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
    let (mut resealed, mut after) = (0, None);
    let raw = std::cell::RefCell::new(Vec::new());
    loop {
        let (count, next) = crypts::reseal_page(&*store.store(), &keys, after, |serial, disk, value| {
            if !is_sealed_key(value) {
                raw.borrow_mut().push(format!("{serial}/{disk}"));
                return Ok(None);
            }
            let damaged = |error: sabakan_service::seal::SealError| StoreError::Corrupt {
                place: format!("the key of disk {disk} of machine {serial}"),
                reason: error.to_string(),
            };
            let sealed = SealedKey::from_bytes(value).map_err(damaged)?;
            Ok(ring.reseal(serial, disk, &sealed).map_err(damaged)?.map(|sealed| sealed.to_bytes().into()))
        })
        .await?;
        resealed += count;
        match next {
            Some(next) => after = Some(next),
            None => return Ok((resealed, raw.into_inner())),
        }
    }
}

/// Tells of raw keys that a command met.
pub(crate) fn name_raw(raw: &[String], what: &str) {
    if !raw.is_empty() {
        eprintln!("{} raw keys of the older service {what}; they wait to be imported:", raw.len());
    }
    for name in raw {
        eprintln!("  {}", name.escape_debug());
    }
}

async fn note(config: &ServerConfig, store: &OpenStore, id: &KeyId, action: &'static str) -> anyhow::Result<()> {
    let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
    let by = By { actor: Actor::internal("sabakan keys"), host: run::host_name(), now: SystemClock.now() };
    Ok(crypts::note(&*store.store(), &keys, &by, id.as_str(), action).await?)
}

/// How many stored disk keys are sealed under a key.
async fn needing(config: &ServerConfig, store: &OpenStore, id: &KeyId) -> anyhow::Result<usize> {
    let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
    let count = std::cell::Cell::new(0);
    let mut after = None;
    loop {
        let (_, next) = crypts::reseal_page(&*store.store(), &keys, after, |_, _, value| {
            if SealedKey::from_bytes(value).is_ok_and(|sealed| sealed.key_id() == id) {
                count.set(count.get() + 1);
            }
            Ok(None)
        })
        .await?;
        match next {
            Some(next) => after = Some(next),
            None => return Ok(count.get()),
        }
    }
}

/// Seals the credentials of all nodes under the current key.
async fn reseal_nodes(config: &ServerConfig, store: &OpenStore, ring: &KeyRing) -> anyhow::Result<usize> {
    let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
    let reseal = |node: &Node| {
        let mut secrets = node.driver_secrets.clone();
        for (setting, sealed) in &mut secrets {
            let damaged = |error: ServiceError| StoreError::Corrupt {
                place: format!("the secret {setting} of node {}", node.name),
                reason: error.to_string(),
            };
            if let Some(again) = Vault::reseal(ring, &node.name, setting, sealed).map_err(damaged)? {
                *sealed = again;
            }
        }
        Ok((secrets != node.driver_secrets).then_some(secrets))
    };
    let (mut resealed, mut after) = (0, None);
    loop {
        let (count, next) = nodes::reseal_page(&*store.store(), &keys, after, reseal).await?;
        resealed += count;
        match next {
            Some(next) => after = Some(next),
            None => return Ok(resealed),
        }
    }
}

/// How many credentials of nodes are sealed under a key. One that cannot be read counts: nobody knows what it needs.
async fn nodes_needing(config: &ServerConfig, store: &OpenStore, id: &KeyId) -> anyhow::Result<usize> {
    let keys = Keys::new(&config.etcd_prefix, &config.states_prefix);
    let count = std::cell::Cell::new(0);
    let mut after = None;
    loop {
        let (_, next) = nodes::reseal_page(&*store.store(), &keys, after, |node| {
            // The token of a ramdisk is never sealed anew: it is gone when the work is.
            let ramdisk = node.operation.as_ref().and_then(|operation| operation.ramdisk.as_ref());
            let token = ramdisk.and_then(|contact| contact.token.as_ref());
            let sealed = node.driver_secrets.values().chain(token);
            let needing = sealed.filter(|sealed| Vault::key_of(sealed).is_none_or(|key| key == *id));
            count.set(count.get() + needing.count());
            Ok(None)
        })
        .await?;
        match next {
            Some(next) => after = Some(next),
            None => return Ok(count.get()),
        }
    }
}

async fn close(store: OpenStore) {
    if let OpenStore::Embedded(store) = store {
        store.shutdown().await;
    }
}
