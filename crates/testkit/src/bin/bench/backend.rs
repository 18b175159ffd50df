//! The real program on either store, with a fleet that grows from one measurement to the next.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use sabakan_client::Client;
use sabakan_testkit::{
    etcd::{Etcd, EtcdOptions},
    fixtures,
    process::Process,
};
use sabakan_wire::rest::MachineInput;

use crate::fleet::BATCH;

/// What etcd must allow so that a batch is registered in one transaction.
const ETCD_TXN_OPS: u32 = 8_192;
const ETCD_REQUEST_BYTES: u32 = 16 * 1024 * 1024;

/// Where a server keeps its data.
pub struct Backend {
    program: PathBuf,
    data_dir: PathBuf,
    etcd: Option<Etcd>,
    loaded: usize,
}

impl Backend {
    /// The embedded store, in a directory.
    pub fn embedded(program: &Path, dir: &Path) -> Backend {
        Backend { program: program.to_owned(), data_dir: dir.join("embedded"), etcd: None, loaded: 0 }
    }

    /// An etcd of one member on this machine.
    pub fn etcd(program: &Path, dir: &Path) -> Backend {
        let options = EtcdOptions {
            max_txn_ops: Some(ETCD_TXN_OPS),
            max_request_bytes: Some(ETCD_REQUEST_BYTES),
            ..EtcdOptions::default()
        };
        let etcd = Some(Etcd::start_with(&options));
        Backend { program: program.to_owned(), data_dir: dir.join("etcd"), etcd, loaded: 0 }
    }

    /// What the store is called.
    pub fn name(&self) -> &'static str {
        if self.etcd.is_some() { "etcd" } else { "embedded" }
    }

    /// Starts a server with more flags.
    pub fn start(&self, flags: &[&str]) -> Process {
        let mut args = vec!["--log-level".to_owned(), "error".to_owned()];
        if let Some(etcd) = &self.etcd {
            let (ops, bytes) = (ETCD_TXN_OPS.to_string(), ETCD_REQUEST_BYTES.to_string());
            let endpoints = etcd.endpoints().join(",");
            let settings =
                [("--etcd-endpoints", endpoints), ("--etcd-max-txn-ops", ops), ("--etcd-max-request-bytes", bytes)];
            args.extend(settings.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]));
        }
        args.extend(flags.iter().map(ToString::to_string));
        Process::start(&self.program, &self.data_dir, args)
    }

    /// Registers the machines of `fleet` that are not there yet. The server that does so is stopped again: what loading needed must
    /// not count as memory of what follows.
    pub fn grow(&mut self, fleet: &[MachineInput]) -> anyhow::Result<()> {
        let process = self.start(&[]);
        let client = Client::new(&process.url())?;
        if self.loaded == 0 {
            client.put_ipam(&fixtures::wide_ipam())?;
        }
        for (number, batch) in fleet[self.loaded..].chunks(BATCH).enumerate() {
            client.create_machines(batch).with_context(|| format!("batch {number} after {}", self.loaded))?;
        }
        self.loaded = fleet.len();
        ensure!(process.terminate().success(), "the server did not stop cleanly");
        Ok(())
    }
}
