//! `cargo xtask etcd`: a throw-away etcd for trying things by hand. Tests start their own.

use std::net::TcpListener;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{no_arguments, process};

/// Arguments: client URL, peer URL. A shell is the whole program from here on, because it can catch Ctrl-C and remove
/// the directory, which Rust's standard library alone cannot.
const SERVE: &str = r#"
set -eu
client=$1
peer=$2
export ETCDCTL_API=3
dir=$(mktemp -d)
pid=
trap 'if [ -n "$pid" ]; then kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; fi; rm -rf "$dir"' EXIT
trap 'exit 0' INT TERM HUP
etcd --name throwaway --data-dir "$dir/data" --logger zap \
    --listen-client-urls "$client" --advertise-client-urls "$client" \
    --listen-peer-urls "$peer" --initial-advertise-peer-urls "$peer" \
    --initial-cluster "throwaway=$peer" > "$dir/log" 2>&1 &
pid=$!
until etcdctl --endpoints "$client" endpoint health > /dev/null 2>&1; do
    if ! kill -0 "$pid" 2>/dev/null; then
        echo "etcd did not start:" >&2
        tail -n 20 "$dir/log" >&2
        exit 1
    fi
    sleep 0.1
done
echo "endpoint:  $client"
echo "server:    cargo run -- --etcd-endpoints $client"
echo "look:      ETCDCTL_API=3 etcdctl --endpoints $client get --prefix /sabakan/"
echo "data:      $dir (removed at the end)"
echo "Ctrl-C stops it."
wait "$pid" || true
echo "etcd ended by itself:" >&2
tail -n 20 "$dir/log" >&2
exit 1
"#;

pub fn run(arguments: &[String]) -> Result<()> {
    no_arguments("etcd", arguments)?;
    for program in ["etcd", "etcdctl"] {
        if process::find_program(program).is_none() {
            bail!("`{program}` is not in PATH; `cargo xtask ci setup` installs it");
        }
    }
    let (client, peer) = free_ports().context("cannot find free ports")?;
    let url = |port: u16| format!("http://127.0.0.1:{port}");
    let mut command = Command::new("sh");
    command.args(["-c", SERVE, "etcd"]).args([url(client), url(peer)]);
    // Both programs read settings from the environment; what a person exported for a real cluster must not reach them.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("ETCD_") || name.starts_with("ETCDCTL_")) {
            command.env_remove(name);
        }
    }
    process::replace(&mut command)
}

/// Two different free ports. Somebody could take one before etcd does; then etcd says so, and one tries again.
fn free_ports() -> std::io::Result<(u16, u16)> {
    let (one, two) = (TcpListener::bind(("127.0.0.1", 0))?, TcpListener::bind(("127.0.0.1", 0))?);
    Ok((one.local_addr()?.port(), two.local_addr()?.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_ports_are_two_real_ports() {
        let (client, peer) = free_ports().unwrap();
        assert!(client != peer && client != 0 && peer != 0);
    }
}
