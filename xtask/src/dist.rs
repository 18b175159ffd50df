//! `cargo xtask dist [--target TRIPLE]`: the archive that people download, and its checksum.
//!
//! Two runs over the same commit and toolchain give the same archive: names are sorted, owners and times are fixed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

use crate::{Usage, process};

const BINARIES: &[&str] = &["sabakan", "sabactl"];

/// Shell, and the file name under which that shell looks for completions of `sabactl`.
const COMPLETIONS: &[(&str, &str)] = &[("bash", "sabactl.bash"), ("zsh", "_sabactl"), ("fish", "sabactl.fish")];

/// How the files begin in which packages keep their licence texts.
const LICENCE_FILES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

pub fn run(arguments: &[String]) -> Result<()> {
    let chosen = match arguments {
        [] => None,
        [flag, triple] if flag == "--target" => Some(triple.as_str()),
        _ => return Err(Usage("usage: cargo xtask dist [--target TRIPLE]".to_owned()).into()),
    };
    let target = chosen.map_or_else(host, |triple| Ok(triple.to_owned()))?;
    let metadata = process::metadata(&["--locked", "--filter-platform", &target])?;
    let name = format!("sabakan-{}-{target}", version(&metadata)?);

    let mut build = vec!["--profile", "dist"];
    build.extend(BINARIES.iter().flat_map(|binary| ["--package", binary]));
    build.extend(chosen.into_iter().flat_map(|triple| ["--target", triple]));
    let binaries = process::build_binaries(&build)?;

    let directory = Path::new(metadata["target_directory"].as_str().unwrap_or("target")).join("dist");
    let stage = directory.join(&name);
    if stage.exists() {
        fs::remove_dir_all(&stage).context("cannot remove what an earlier run left")?;
    }
    fill(&stage, &binaries, &metadata)?;
    let archive = pack(&directory, &name)?;
    println!("dist: wrote {} and its .sha256", archive.display());
    Ok(())
}

/// The platform that this toolchain builds for when nobody says otherwise.
fn host() -> Result<String> {
    let text = String::from_utf8(process::output(Command::new("rustc").arg("-vV"))?)?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("`rustc -vV` names no host")?.to_owned())
}

fn version(metadata: &Value) -> Result<&str> {
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    let package = packages.iter().find(|package| package["name"] == "sabakan");
    package.and_then(|package| package["version"].as_str()).context("the workspace has no package `sabakan`")
}

fn fill(stage: &Path, binaries: &[(String, PathBuf)], metadata: &Value) -> Result<()> {
    for name in BINARIES {
        let found = binaries.iter().find(|(binary, _)| binary == name);
        let (_, path) = found.ok_or_else(|| anyhow!("the build made no binary `{name}`"))?;
        copy(path, &stage.join("bin").join(name))?;
    }
    for name in ["LICENSE", "README.md"] {
        copy(Path::new(name), &stage.join(name))?;
    }
    if Path::new("CHANGELOG.md").exists() {
        copy(Path::new("CHANGELOG.md"), &stage.join("CHANGELOG.md"))?;
    }
    copy(Path::new("docs"), &stage.join("docs"))?;
    completions(stage)?;
    third_party_licences(stage, metadata)
}

/// Asks the program itself. This needs a target whose programs run here, which holds for every target we publish.
fn completions(stage: &Path) -> Result<()> {
    let directory = stage.join("completions");
    fs::create_dir_all(&directory)?;
    for (shell, file) in COMPLETIONS {
        let text = process::output(Command::new(stage.join("bin/sabactl")).args(["completion", shell]))?;
        fs::write(directory.join(file), text)?;
    }
    Ok(())
}

/// Copies the licence texts of all packages in the graph: most of those licences ask for it.
fn third_party_licences(stage: &Path, metadata: &Value) -> Result<()> {
    let packages = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    for package in packages.iter().filter(|package| !package["source"].is_null()) {
        let field = |name: &str| package[name].as_str().unwrap_or_default();
        let source = Path::new(field("manifest_path")).parent().unwrap_or(Path::new("."));
        let to = stage.join("licences").join(format!("{}-{}", field("name"), field("version")));
        fs::create_dir_all(&to)?;
        // The expression stands in for a text where the package ships none.
        fs::write(to.join("expression.txt"), format!("{}\n", field("license")))?;
        for entry in fs::read_dir(source).with_context(|| format!("cannot read {}", source.display()))? {
            let entry = entry?;
            if is_licence_file(&entry.file_name().to_string_lossy()) && entry.file_type()?.is_file() {
                copy(&entry.path(), &to.join(entry.file_name()))?;
            }
        }
    }
    Ok(())
}

fn is_licence_file(name: &str) -> bool {
    let name = name.to_uppercase();
    LICENCE_FILES.iter().any(|start| name.starts_with(start))
}

/// Copies a file or a whole directory, creating the directories above it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let context = || format!("cannot copy {}", from.display());
    if from.is_dir() {
        fs::create_dir_all(to).with_context(context)?;
        for entry in fs::read_dir(from).with_context(context)? {
            let entry = entry.with_context(context)?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    fs::create_dir_all(to.parent().unwrap_or(Path::new("."))).with_context(context)?;
    fs::copy(from, to).with_context(context)?;
    Ok(())
}

fn pack(directory: &Path, name: &str) -> Result<PathBuf> {
    let archive = format!("{name}.tar.gz");
    let mut tar = Command::new("tar");
    tar.current_dir(directory).args([
        "--sort=name",
        "--owner=0",
        "--group=0",
        "--numeric-owner",
        "--mode=u+w,go-w,a+rX",
    ]);
    tar.arg(format!("--mtime=@{}", source_time()));
    // Without -n gzip writes the time into its header.
    tar.args(["--use-compress-program=gzip -n -9", "-cf", &archive, name]);
    process::run(&mut tar)?;

    let sum = process::output(Command::new("sha256sum").current_dir(directory).arg(&archive))?;
    if sum.is_empty() {
        bail!("`sha256sum` printed nothing");
    }
    fs::write(directory.join(format!("{archive}.sha256")), sum)?;
    Ok(directory.join(archive))
}

/// When the sources were made, in seconds: what the packager says, else the last commit, else the beginning of time.
fn source_time() -> u64 {
    let said = std::env::var("SOURCE_DATE_EPOCH").ok();
    let commit = || process::output(Command::new("git").args(["log", "-1", "--format=%ct"])).ok();
    let text = said.or_else(|| commit().and_then(|bytes| String::from_utf8(bytes).ok()));
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("xtask-dist-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn licence_files_are_recognised_by_name() {
        assert!(is_licence_file("LICENSE-MIT") && is_licence_file("license.txt") && is_licence_file("COPYING"));
        assert!(!is_licence_file("README.md") && !is_licence_file("Cargo.toml"));
    }

    #[test]
    fn licence_texts_of_third_parties_are_collected() {
        let dir = scratch("licences");
        fs::create_dir_all(dir.join("serde")).unwrap();
        fs::write(dir.join("serde/LICENSE-MIT"), "text").unwrap();
        fs::write(dir.join("serde/build.rs"), "").unwrap();
        let manifest = dir.join("serde/Cargo.toml");
        let metadata = serde_json::json!({ "packages": [
            { "name": "serde", "version": "1.0.0", "source": "registry", "license": "MIT", "manifest_path": manifest },
            { "name": "sabakan", "version": "0.1.0", "source": null, "manifest_path": "/x/Cargo.toml" },
        ]});
        third_party_licences(&dir.join("stage"), &metadata).unwrap();
        let to = dir.join("stage/licences/serde-1.0.0");
        assert_eq!(fs::read_to_string(to.join("LICENSE-MIT")).unwrap(), "text");
        assert_eq!(fs::read_to_string(to.join("expression.txt")).unwrap(), "MIT\n");
        assert!(!to.join("build.rs").exists());
        assert_eq!(fs::read_dir(dir.join("stage/licences")).unwrap().count(), 1);
        assert_eq!(version(&metadata).unwrap(), "0.1.0");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn archive_of_the_same_content_has_the_same_bytes() {
        let dir = scratch("pack");
        let mut archives = Vec::new();
        for round in ["one", "two"] {
            fs::create_dir_all(dir.join(round).join("x")).unwrap();
            fs::write(dir.join(round).join("x/file"), "content").unwrap();
            archives.push(fs::read(pack(&dir.join(round), "x").unwrap()).unwrap());
            let sum = fs::read_to_string(dir.join(round).join("x.tar.gz.sha256")).unwrap();
            assert!(sum.ends_with("  x.tar.gz\n"), "{sum}");
        }
        assert_eq!(archives[0], archives[1]);
        fs::remove_dir_all(dir).unwrap();
    }
}
