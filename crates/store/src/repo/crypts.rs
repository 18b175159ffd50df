//! Disk keys, sealed before they come here. A key and a state never contradict each other (G1): putting a key compares the machine
//! it was judged by, deleting keys moves the machine in the same transaction.

use bytes::Bytes;
use sabakan_domain::{
    audit::Category,
    crypt::{self, DiskPath, KeyRefusal},
    machine::Status,
    provision::guards::{self, ProvisionRefusal},
    words::Serial,
};

use super::{
    ChangeError,
    audit::{Act, By},
    change, get_one,
    machines::{get, put as put_machine, with_node},
};
use crate::{Compare, KeyValue, Op, Range, Store, StoreError, Txn, keys::Keys, records::is_sealed_key};

/// A sealed key as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredKey {
    /// Which disk of the machine.
    pub disk: DiskPath,
    /// The sealed bytes.
    pub sealed: Bytes,
}

/// Why keys are not deleted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EraseRefusal {
    /// The lifecycle forbids it.
    #[error(transparent)]
    Key(#[from] KeyRefusal),
    /// Provisioning forbids it.
    #[error(transparent)]
    Provision(#[from] ProvisionRefusal),
}

/// Stores a key. Refused for a machine that is leaving, and where a key is.
pub async fn put(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    serial: &Serial,
    disk: &DiskPath,
    sealed: &Bytes,
) -> Result<(), ChangeError<KeyRefusal>> {
    let key = keys.crypt(serial, disk);
    let plan = || async {
        let stored = get(store, keys, serial).await?;
        let present = list(store, keys, serial).await?;
        if present.iter().any(|key| key.disk == *disk) {
            return Err(ChangeError::Refused(KeyRefusal::Exists(disk.clone())));
        }
        // The count is not compared: those who put at the same moment may exceed it by their own number.
        crypt::check_put(stored.machine.status.state, present.len()).map_err(ChangeError::Refused)?;
        let mut txn = Txn {
            when: vec![stored.unchanged(keys), Compare::Missing(key.clone())],
            then: vec![Op::put(key.clone(), sealed.clone())],
        };
        by.log(&mut txn, keys, act(serial, "put", disk.to_string()));
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// Whether any machine has a key that is sealed.
pub async fn any_sealed(store: &dyn Store, keys: &Keys) -> Result<bool, StoreError> {
    let mut range = Range::first(keys.all_crypts());
    loop {
        let page = store.list(range.clone()).await?;
        if page.items.iter().any(|kv| is_sealed_key(&kv.value)) {
            return Ok(true);
        }
        let Some(last) = page.items.last().filter(|_| page.more) else { return Ok(false) };
        range = Range { after: Some(last.key.clone()), at: Some(page.revision), ..range };
    }
}

/// Names, machine and disk, of all keys that are not sealed.
pub async fn list_raw(store: &dyn Store, keys: &Keys) -> Result<Vec<String>, StoreError> {
    let prefix = keys.all_crypts();
    let (mut names, mut range) = (Vec::new(), Range::first(prefix.clone()));
    loop {
        let page = store.list(range.clone()).await?;
        let raw = page.items.iter().filter(|kv| !is_sealed_key(&kv.value));
        names.extend(raw.filter_map(|kv| kv.key.strip_prefix(&prefix).map(str::to_owned)));
        let Some(last) = page.items.last().filter(|_| page.more) else { return Ok(names) };
        range = Range { after: Some(last.key.clone()), at: Some(page.revision), ..range };
    }
}

/// Notes in the log that keys are sealed under another key from now on, or that one was forgotten.
pub async fn note(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    key_id: &str,
    action: &'static str,
) -> Result<(), StoreError> {
    let mut txn = Txn::default();
    let note = Act { category: Category::Crypts, instance: String::new(), action, detail: format!("key {key_id}") };
    by.log(&mut txn, keys, note);
    match store.commit(txn).await? {
        crate::TxnOutcome::Committed(_) => Ok(()),
        crate::TxnOutcome::Conflicted => Err(StoreError::Conflict { attempts: 1 }),
    }
}

/// Reads a sealed key.
pub async fn find(
    store: &dyn Store,
    keys: &Keys,
    serial: &Serial,
    disk: &DiskPath,
) -> Result<Option<Bytes>, StoreError> {
    Ok(get_one(store, keys.crypt(serial, disk)).await?.map(|kv| kv.value))
}

/// Deletes every key of a retiring machine, which makes it retired, and leaves a record of what was erased in the log. `describe`
/// says of the keys what the record may say.
pub async fn erase(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    serial: &Serial,
    describe: impl Fn(&[StoredKey]) -> String,
) -> Result<Vec<DiskPath>, ChangeError<EraseRefusal>> {
    let plan = || async {
        let (stored, provisioned) = with_node(store, keys, serial).await?;
        let state = crypt::check_delete(stored.machine.status.state).map_err(EraseRefusal::from);
        let state = state.map_err(ChangeError::Refused)?;
        guards::check_idle(&provisioned.node).map_err(EraseRefusal::from).map_err(ChangeError::Refused)?;
        let unchanged = [stored.unchanged(keys), provisioned.unchanged];
        let erased = list(store, keys, serial).await?;
        let mut machine = stored.machine;
        machine.status = Status { state, since: by.now };
        // The machine is retiring at the revision compared: nobody could have added a key since, and nobody erased one without
        // moving it. Those read are all, and the transaction stays as small as it is however many they are.
        let mut txn = Txn { when: unchanged.to_vec(), then: vec![Op::DeletePrefix(keys.crypts(serial))] };
        put_machine(&mut txn, keys, &machine);
        by.log(&mut txn, keys, act(serial, "delete", describe(&erased)));
        Ok((txn, erased.into_iter().map(|key| key.disk).collect()))
    };
    change(store, plan).await
}

/// The keys of a machine.
pub(super) async fn list(store: &dyn Store, keys: &Keys, serial: &Serial) -> Result<Vec<StoredKey>, StoreError> {
    let prefix = keys.crypts(serial);
    let mut found = Vec::new();
    let mut range = Range::first(prefix.clone());
    loop {
        let page = store.list(range.clone()).await?;
        for kv in &page.items {
            let disk = kv.key.strip_prefix(&prefix).and_then(|disk| DiskPath::stored(disk).ok());
            let disk = disk.ok_or_else(|| StoreError::Corrupt {
                place: kv.key.clone(),
                reason: "not the name of a disk".to_owned(),
            })?;
            found.push(StoredKey { disk, sealed: kv.value.clone() });
        }
        match page.items.last() {
            Some(last) if page.more => {
                range = Range { after: Some(last.key.clone()), at: Some(page.revision), ..range };
            }
            _ => return Ok(found),
        }
    }
}

/// One page of all sealed keys of all machines, for sealing them anew: serial, disk, value and the revision it was read at.
pub async fn reseal_page(
    store: &dyn Store,
    keys: &Keys,
    after: Option<String>,
    reseal: impl Fn(&Serial, &DiskPath, &Bytes) -> Result<Option<Bytes>, StoreError>,
) -> Result<(usize, Option<String>), StoreError> {
    let prefix = keys.all_crypts();
    let page = store.list(Range { after, limit: RESEAL_AT_ONCE, ..Range::first(prefix.clone()) }).await?;
    let mut resealed = 0;
    for kv in &page.items {
        let (serial, disk) = named(&prefix, kv)?;
        if let Some(value) = reseal(&serial, &disk, &kv.value)? {
            let txn = Txn {
                when: vec![Compare::ModRevision(kv.key.clone(), kv.mod_revision)],
                then: vec![Op::put(kv.key.clone(), value)],
            };
            // Deleted meanwhile: nothing is left to seal.
            if matches!(store.commit(txn).await?, crate::TxnOutcome::Committed(_)) {
                resealed += 1;
            }
        }
    }
    let next = page.items.last().filter(|_| page.more).map(|kv| kv.key.clone());
    Ok((resealed, next))
}

/// The machine and disk a key is named after. A serial of the older service may have slashes, the name of a disk has none.
fn named(prefix: &str, kv: &KeyValue) -> Result<(Serial, DiskPath), StoreError> {
    let parts = kv.key.strip_prefix(prefix).and_then(|rest| rest.rsplit_once('/'));
    let named = parts.and_then(|(serial, disk)| Some((Serial::stored(serial), DiskPath::stored(disk).ok()?)));
    let corrupt = || StoreError::Corrupt { place: kv.key.clone(), reason: "names no disk of a machine".to_owned() };
    named.ok_or_else(corrupt)
}

const RESEAL_AT_ONCE: usize = 200;

pub(super) fn act(serial: &Serial, action: &'static str, detail: String) -> Act {
    Act { category: Category::Crypts, instance: serial.to_string(), action, detail }
}
