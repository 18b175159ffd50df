//! Configuration of IPAM and DHCP.

use std::convert::Infallible;

use sabakan_domain::{
    audit::Category,
    dhcp::DhcpConfig,
    ipam::{IpamConfig, StoredIpam},
};

use super::{
    ChangeError,
    audit::{Act, By},
    change, get_one,
};
use crate::{
    Compare, Op, Range, Store, Txn,
    keys::Keys,
    records::{self, DhcpRecord, IpamRecord},
};

/// Addresses of registered machines were computed from the present configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("machines already exists")]
pub struct MachinesExist;

/// Sets the IPAM configuration, unless a machine is registered. One of an older service that cannot be used, or not even be read, may be
/// replaced all the same: nothing can be registered under it, and machines keep the addresses they have.
pub async fn put_ipam(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    config: &IpamConfig,
) -> Result<(), ChangeError<MachinesExist>> {
    let value = records::encode(&IpamRecord::from(config));
    let plan = || async {
        let present = get_one(store, keys.ipam()).await?;
        let usable = |kv| records::decode::<IpamRecord, StoredIpam>(kv).is_ok_and(|stored| stored.usable().is_ok());
        let when = match present.as_ref().filter(|kv| !usable(kv)) {
            Some(unusable) => Compare::ModRevision(unusable.key.clone(), unusable.mod_revision),
            None => {
                let machines = store.list(Range { limit: 1, ..Range::first(keys.machines()) }).await?;
                if !machines.items.is_empty() {
                    return Err(ChangeError::Refused(MachinesExist));
                }
                Compare::NoneWithPrefix(keys.machines())
            }
        };
        let mut txn = Txn { when: vec![when], then: vec![Op::put(keys.ipam(), value.clone())] };
        by.log(&mut txn, keys, put(Category::Ipam, &value));
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// Sets the DHCP configuration.
pub async fn put_dhcp(
    store: &dyn Store,
    keys: &Keys,
    by: &By,
    config: &DhcpConfig,
) -> Result<(), ChangeError<Infallible>> {
    let value = records::encode(&DhcpRecord::from(config));
    let plan = || async {
        let mut txn = Txn { when: vec![], then: vec![Op::put(keys.dhcp(), value.clone())] };
        by.log(&mut txn, keys, put(Category::Dhcp, &value));
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// The log shows what was stored.
fn put(category: Category, value: &[u8]) -> Act {
    let detail = String::from_utf8_lossy(value).into_owned();
    Act { category, instance: "config".to_owned(), action: "put", detail }
}
