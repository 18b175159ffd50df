//! Configuration of IPAM and DHCP.

use std::convert::Infallible;

use sabakan_domain::{dhcp::DhcpConfig, ipam::IpamConfig};

use super::{ChangeError, change};
use crate::{
    Compare, Op, Range, Store, Txn,
    keys::Keys,
    records::{self, DhcpRecord, IpamRecord},
};

/// Addresses of registered machines were computed from the present configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("machines already exists")]
pub struct MachinesExist;

/// Sets the IPAM configuration, unless a machine is registered.
pub async fn put_ipam(store: &dyn Store, keys: &Keys, config: &IpamConfig) -> Result<(), ChangeError<MachinesExist>> {
    let plan = || async {
        let machines = store.list(Range { limit: 1, ..Range::first(keys.machines()) }).await?;
        if !machines.items.is_empty() {
            return Err(ChangeError::Refused(MachinesExist));
        }
        let txn = Txn {
            when: vec![Compare::NoneWithPrefix(keys.machines())],
            then: vec![Op::put(keys.ipam(), records::encode(&IpamRecord::from(config)))],
        };
        Ok((txn, ()))
    };
    change(store, plan).await
}

/// Sets the DHCP configuration.
pub async fn put_dhcp(store: &dyn Store, keys: &Keys, config: &DhcpConfig) -> Result<(), ChangeError<Infallible>> {
    let put = Op::put(keys.dhcp(), records::encode(&DhcpRecord::from(config)));
    change(store, || async { Ok((Txn { when: vec![], then: vec![put.clone()] }, ())) }).await
}
