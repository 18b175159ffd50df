//! Entries of the queues that cannot be read, such as one that was edited by hand. Which machine such an entry is about nobody knows, so
//! it is not left out of the queue: a person is told which it is, and may have it discarded.

use std::convert::Infallible;

use sabakan_domain::repair::{entry::Entry, reboot::RebootEntry};

use super::{act, change, read};
use crate::{
    Compare, KeyValue, Op, Store, StoreError, Txn,
    keys::Keys,
    records::{self, RebootRecord, RepairRecord},
    repo::{ChangeError, audit::By},
};

/// One of the queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// Machines that are repaired.
    Repairs,
    /// Nodes that are rebooted.
    Reboots,
}

impl Queue {
    /// The entry that is stored under a key: its queue and its index.
    pub fn locate(keys: &Keys, key: &str) -> Option<(Queue, u64)> {
        let (_, digits) = key.rsplit_once('/')?;
        let index = u64::from_str_radix(digits, 16).ok()?;
        [Queue::Repairs, Queue::Reboots]
            .into_iter()
            .map(|queue| (queue, index))
            .find(|(queue, index)| queue.key(keys, *index) == key)
    }

    fn key(self, keys: &Keys, index: u64) -> String {
        match self {
            Queue::Repairs => keys.repair(index),
            Queue::Reboots => keys.reboot(index),
        }
    }

    fn is_readable(self, kv: &KeyValue) -> bool {
        match self {
            Queue::Repairs => records::decode::<RepairRecord, Entry>(kv).is_ok(),
            Queue::Reboots => records::decode::<RebootRecord, RebootEntry>(kv).is_ok(),
        }
    }
}

/// Takes an entry that cannot be read out of its queue. One that can be read is not touched: it is cancelled, not discarded.
pub async fn discard(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    queue: Queue,
    index: u64,
) -> Result<(), ChangeError<Infallible>> {
    let plan = || async {
        let key = queue.key(keys, index);
        let found = store.get_many(vec![key.clone()]).await?.values.into_iter().flatten().next();
        let kv = found.ok_or(ChangeError::NotFound)?;
        if queue.is_readable(&kv) {
            // Somebody mended it meanwhile.
            return Err(StoreError::Conflict { attempts: 1 }.into());
        }
        let when = vec![Compare::ModRevision(key.clone(), kv.mod_revision)];
        let mut txn = Txn { when, then: vec![Op::Delete(key)] };
        let name = match queue {
            Queue::Repairs => "repair-queue",
            Queue::Reboots => "reboot-queue",
        };
        by.log(&mut txn, keys, act(name, "discard", format!("entry {index}, which could not be read")));
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// What of repair cannot be read, the first of it: nothing is repaired before that is mended.
pub(crate) async fn check(store: &dyn Store, keys: &Keys) -> Result<Option<String>, StoreError> {
    match read(store, keys).await {
        Ok(_) => Ok(None),
        Err(error @ StoreError::Corrupt { .. }) => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_which_entry_is_meant() {
        let keys = Keys::new("/sabakan/", "/states/");
        let check = |key: &str, expected| assert_eq!(Queue::locate(&keys, key), expected, "{key}");
        check("/sabakan/repairs/data/000000000000001f", Some((Queue::Repairs, 31)));
        check("/sabakan/reboots/data/0000000000000000", Some((Queue::Reboots, 0)));
        check("/sabakan/repairs/data/1f", None);
        check("/sabakan/repairs/data/000000000000001F", None);
        check("/sabakan/incidents/data/0000000000000003", None);
        check("/other/repairs/data/000000000000001f", None);
        // A row whose checksum is wrong is told in other words, and is not for discarding.
        check("key /sabakan/repairs/data/000000000000001f", None);
        check("", None);
    }
}
