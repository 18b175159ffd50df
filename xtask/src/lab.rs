//! `cargo xtask lab`: prepares the programs that tests talk to, in `target/lab`: a Redfish emulator, the stock clients of the
//! provisioning API, and a client that tries what the OpenAPI document says. A Python environment of its own, so that nothing of the system is changed, made once and reused. Whatever runs
//! in it is started by the tests themselves.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{no_arguments, process, setup};

/// Everything the environment has, at the versions whose behaviour was looked at.
const REQUIREMENTS: &str = include_str!("../lab-requirements.txt");

/// What tests start.
const PROGRAMS: &[&str] = &["sushy-emulator", "baremetal", "openstack", "schemathesis"];

/// What tests import.
const MODULES: &str = "import sushy_tools, bcrypt, ironicclient, openstackclient, openstack, oslotest, schemathesis";

/// What is needed to make an environment, as Debian calls it.
const PACKAGES: &[&str] = &["python3", "python3-venv"];

/// Written when everything is installed; says what.
const STAMP: &str = "installed";

pub fn run(arguments: &[String]) -> Result<()> {
    no_arguments("lab", arguments)?;
    prepare()
}

/// Makes sure that everything is there. Needs the network the first time only.
pub fn prepare() -> Result<()> {
    let environment = process::root().join("target/lab/python");
    if is_ready(&environment) {
        println!("lab: ready");
        return Ok(());
    }
    println!("lab: installing xtask/lab-requirements.txt into target/lab");
    make_environment(&environment)?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    let mut install = Command::new(environment.join("bin/python"));
    install.args(pip).arg(process::root().join("xtask/lab-requirements.txt"));
    process::run(&mut install).context("cannot download what the lab consists of; pip needs a package index")?;
    fs::write(environment.join(STAMP), REQUIREMENTS).context("cannot write to target/lab")?;
    println!("lab: ready");
    Ok(())
}

/// Makes an empty Python environment, in place of whatever half an installation left behind.
pub fn make_environment(environment: &Path) -> Result<()> {
    if !can_make_environments() {
        setup::install_packages(PACKAGES).context("Python with its module venv is needed")?;
    }
    if !can_make_environments() {
        bail!("python3 has no module venv, also after installing {}", PACKAGES.join(" "));
    }
    if environment.exists() {
        fs::remove_dir_all(environment).with_context(|| format!("cannot remove {}", environment.display()))?;
    }
    process::run(Command::new("python3").args(["-m", "venv"]).arg(environment))
}

fn is_ready(environment: &Path) -> bool {
    let stamp = fs::read_to_string(environment.join(STAMP));
    // The interpreter it was made with may be gone; then its own does not run any more.
    let runs = || {
        let mut python = Command::new(environment.join("bin/python"));
        python.args(["-c", MODULES]).stdout(Stdio::null()).stderr(Stdio::null());
        python.status().is_ok_and(|status| status.success())
    };
    let programs = || PROGRAMS.iter().all(|program| environment.join("bin").join(program).is_file());
    stamp.is_ok_and(|stamp| stamp == REQUIREMENTS) && programs() && runs()
}

fn can_make_environments() -> bool {
    let mut python = Command::new("python3");
    python.args(["-c", "import venv, ensurepip"]).stdout(Stdio::null()).stderr(Stdio::null());
    python.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_of_other_versions_is_not_ready() {
        let dir = std::env::temp_dir().join(format!("xtask-lab-{}", std::process::id()));
        fs::create_dir_all(dir.join("bin")).unwrap();
        let write = r#"printf '#!/bin/sh\nexit 0\n' > "$1/bin/python" && chmod 755 "$1/bin/python""#;
        process::run(Command::new("sh").args(["-c", write, "sh"]).arg(&dir)).unwrap();
        PROGRAMS.iter().for_each(|program| fs::write(dir.join("bin").join(program), "").unwrap());
        assert!(!is_ready(&dir));
        fs::write(dir.join(STAMP), REQUIREMENTS.replace("sushy-tools==", "sushy-tools==1.")).unwrap();
        assert!(!is_ready(&dir));
        fs::write(dir.join(STAMP), REQUIREMENTS).unwrap();
        assert!(is_ready(&dir));
        fs::remove_file(dir.join("bin").join(PROGRAMS[0])).unwrap();
        assert!(!is_ready(&dir));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn every_version_is_pinned() {
        let lines = REQUIREMENTS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let loose: Vec<&str> = lines.filter(|line| !line.contains("==")).collect();
        assert!(loose.is_empty(), "{loose:?}");
    }
}
