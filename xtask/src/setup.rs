//! The `setup` step of CI: installs the programs that the build and the tests run, through Debian's package client.
//!
//! Programs already in PATH are left alone, however they came there; a machine that has them all needs no network.

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process;

/// A program that the build or tests run, and the Debian package that brings it.
const NEEDED: &[(&str, &str)] = &[
    // The allocator's build runs it.
    ("make", "make"),
    ("etcd", "etcd-server"),
    ("etcdctl", "etcd-client"),
    ("curl", "curl"),
    ("ipmitool", "ipmitool"),
    ("ipmi_sim", "openipmi"),
    // Only the program that checks rules is used; the server of the package is never started.
    ("promtool", "prometheus"),
];

/// Debian asks this program whether a freshly installed service may start.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Arguments: the policy file, then the packages. Tests start their own servers, so packaged services must stay down:
/// while the installation runs, a policy forbids every start. One that was there before is respected and kept.
const INSTALL: &str = r#"
set -eu
policy=$1
shift
if [ ! -e "$policy" ]; then
    trap 'rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM HUP
    printf '#!/bin/sh\nexit 101\n' > "$policy"
    chmod 755 "$policy"
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends "$@"
"#;

pub fn run() -> Result<()> {
    let packages = missing(|program| process::find_program(program).is_some());
    if packages.is_empty() {
        println!("setup: nothing to install");
        return Ok(());
    }
    install_packages(&packages)?;
    match missing(|program| process::find_program(program).is_some()).as_slice() {
        [] => Ok(()),
        left => bail!("installed, but the programs of {} are not in PATH", left.join(" ")),
    }
}

/// Installs Debian packages without starting their services, as root or through sudo; says what to do where that is not possible.
pub fn install_packages(packages: &[&str]) -> Result<()> {
    let by_hand = format!("install by hand what provides these Debian packages: {}", packages.join(" "));
    if process::find_program("apt-get").is_none() {
        bail!("this system has no apt-get; {by_hand}");
    }
    let is_root = process::output(Command::new("id").arg("-u"))? == b"0\n";
    if !is_root && process::find_program("sudo").is_none() {
        bail!("installing packages needs root, and there is no sudo; {by_hand}");
    }
    println!("setup: installing {}", packages.join(" "));
    process::run(&mut install(is_root, POLICY, packages)).with_context(|| by_hand)
}

/// The packages of those programs that are not `present`.
fn missing(present: impl Fn(&str) -> bool) -> Vec<&'static str> {
    NEEDED.iter().filter(|(program, _)| !present(program)).map(|(_, package)| *package).collect()
}

fn install(is_root: bool, policy: &str, packages: &[&str]) -> Command {
    let mut command = Command::new(if is_root { "sh" } else { "sudo" });
    if !is_root {
        command.arg("sh");
    }
    command.args(["-c", INSTALL, "setup", policy]).args(packages);
    command
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn only_packages_of_missing_programs_are_installed() {
        assert_eq!(missing(|_| true), [""; 0]);
        assert_eq!(missing(|program| program != "etcdctl"), ["etcd-client"]);
        assert_eq!(
            missing(|_| false),
            ["make", "etcd-server", "etcd-client", "curl", "ipmitool", "openipmi", "prometheus"]
        );
    }

    #[test]
    fn root_installs_directly_and_others_through_sudo() {
        assert_eq!(install(true, "/p", &["curl"]).get_program(), "sh");
        let command = install(false, "/p", &["curl"]);
        assert_eq!(command.get_program(), "sudo");
        assert_eq!(command.get_args().next().unwrap(), "sh");
    }

    /// A directory with an `apt-get` that writes down its arguments and what the policy says at that moment.
    fn scratch(name: &str, exit: u8) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("xtask-setup-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let script = "#!/bin/sh\ncd DIR\necho \"$@\" >> log\ncat policy >> log 2>&1\nexit EXIT\n";
        let script = script.replace("DIR", dir.to_str().unwrap()).replace("EXIT", &exit.to_string());
        // A shell writes it: if this process had the file open for writing while another test starts a program, that
        // program would inherit it for a moment, and ours could not be executed ("text file busy").
        let write = r#"printf %s "$1" > "$2" && chmod 755 "$2""#;
        process::run(Command::new("sh").args(["-c", write, "sh", &script]).arg(dir.join("apt-get"))).unwrap();
        dir
    }

    fn install_in(dir: &Path) -> Result<()> {
        let path = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
        process::run(install(true, dir.join("policy").to_str().unwrap(), &["curl"]).env("PATH", path))
    }

    #[test]
    fn services_may_not_start_while_packages_are_installed() {
        let dir = scratch("forbids", 0);
        install_in(&dir).unwrap();
        let log = fs::read_to_string(dir.join("log")).unwrap();
        let policy = "#!/bin/sh\nexit 101\n";
        assert_eq!(log, format!("update\n{policy}install -y --no-install-recommends curl\n{policy}"));
        assert!(!dir.join("policy").exists());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn failed_installation_removes_its_policy_and_fails() {
        let dir = scratch("fails", 100);
        assert!(install_in(&dir).is_err());
        assert!(dir.join("log").exists() && !dir.join("policy").exists());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn policy_of_the_system_is_kept() {
        let dir = scratch("keeps", 0);
        fs::write(dir.join("policy"), "mine\n").unwrap();
        install_in(&dir).unwrap();
        assert_eq!(fs::read_to_string(dir.join("policy")).unwrap(), "mine\n");
        fs::remove_dir_all(dir).unwrap();
    }
}
