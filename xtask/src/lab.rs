//! `cargo xtask lab`: prepares the Redfish emulator that tests talk to, in `target/lab`. A Python environment of its own, so that
//! nothing of the system is changed, made once and reused. The emulator is started by the tests themselves.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{no_arguments, process, setup};

/// The emulator, at the version its behaviour was looked at.
const EMULATOR: &str = "sushy-tools==2.2.0";

/// What is needed to make an environment, as Debian calls it.
const PACKAGES: &[&str] = &["python3", "python3-venv"];

/// Written when everything is installed; says what.
const STAMP: &str = "installed";

pub fn run(arguments: &[String]) -> Result<()> {
    no_arguments("lab", arguments)?;
    prepare()
}

/// Makes sure that the emulator is there. Needs the network the first time only.
pub fn prepare() -> Result<()> {
    let environment = process::root().join("target/lab/python");
    if is_ready(&environment) {
        println!("lab: {EMULATOR} is ready");
        return Ok(());
    }
    if !can_make_environments() {
        setup::install_packages(PACKAGES).context("the Redfish emulator needs Python with its module venv")?;
    }
    if !can_make_environments() {
        bail!("python3 has no module venv, also after installing {}", PACKAGES.join(" "));
    }
    println!("lab: installing {EMULATOR} into target/lab");
    // Whatever half an installation left behind.
    if environment.exists() {
        fs::remove_dir_all(&environment).context("cannot remove the old environment in target/lab")?;
    }
    process::run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", EMULATOR];
    let mut install = Command::new(environment.join("bin/python"));
    process::run(install.args(pip)).context("cannot download the Redfish emulator; pip needs a package index")?;
    fs::write(environment.join(STAMP), EMULATOR).context("cannot write to target/lab")?;
    println!("lab: {EMULATOR} is ready");
    Ok(())
}

fn is_ready(environment: &Path) -> bool {
    let stamp = fs::read_to_string(environment.join(STAMP));
    // The interpreter it was made with may be gone; then its own does not run any more.
    let runs = || {
        let mut python = Command::new(environment.join("bin/python"));
        python.args(["-c", "import sushy_tools, bcrypt"]).stdout(Stdio::null()).stderr(Stdio::null());
        python.status().is_ok_and(|status| status.success())
    };
    stamp.is_ok_and(|stamp| stamp == EMULATOR) && environment.join("bin/sushy-emulator").is_file() && runs()
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
    fn environment_of_another_version_is_not_ready() {
        let dir = std::env::temp_dir().join(format!("xtask-lab-{}", std::process::id()));
        fs::create_dir_all(dir.join("bin")).unwrap();
        let write = r#"printf '#!/bin/sh\nexit 0\n' > "$1/bin/python" && chmod 755 "$1/bin/python" && : > "$1/bin/sushy-emulator""#;
        process::run(Command::new("sh").args(["-c", write, "sh"]).arg(&dir)).unwrap();
        assert!(!is_ready(&dir));
        fs::write(dir.join(STAMP), "sushy-tools==1.0.0").unwrap();
        assert!(!is_ready(&dir));
        fs::write(dir.join(STAMP), EMULATOR).unwrap();
        assert!(is_ready(&dir));
        fs::remove_file(dir.join("bin/sushy-emulator")).unwrap();
        assert!(!is_ready(&dir));
        fs::remove_dir_all(dir).unwrap();
    }
}
