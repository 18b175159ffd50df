//! Which crate may depend on which. The table is the architecture; the manifests have to agree with it.

use anyhow::{Context, Result};
use serde_json::Value;

use super::Finding;

/// A crate, and the crates of the workspace it may use. One direction only; a new row needs a decision record.
const MAY_USE: &[(&str, &[&str])] = &[
    ("sabakan-domain", &[]),
    ("sabakan-wire", &["sabakan-domain"]),
    ("sabakan-store", &["sabakan-domain"]),
    ("sabakan-store-etcd", &["sabakan-store"]),
    ("sabakan-drivers", &["sabakan-domain"]),
    ("sabakan-kube", &["sabakan-domain", "sabakan-drivers"]),
    ("sabakan-service", &["sabakan-domain", "sabakan-store", "sabakan-drivers"]),
    ("sabakan-graphql", &["sabakan-domain", "sabakan-service"]),
    (
        "sabakan",
        &[
            "sabakan-domain",
            "sabakan-drivers",
            "sabakan-graphql",
            "sabakan-kube",
            "sabakan-service",
            "sabakan-store",
            "sabakan-store-etcd",
            "sabakan-wire",
        ],
    ),
    ("sabakan-client", &["sabakan-domain", "sabakan-wire"]),
    ("sabactl", &["sabakan-client", "sabakan-wire", "sabakan-domain"]),
    ("sabakan-cryptsetup", &["sabakan-client", "sabakan-wire", "sabakan-domain"]),
    ("xtask", &[]),
];

/// May use everything, and nobody may use it except in tests.
const TESTKIT: &str = "sabakan-testkit";

/// A crate, the only third-party crates it may use, and why.
const ONLY: &[(&str, &[&str], &str)] = &[
    ("sabakan-domain", &["serde", "thiserror", "jiff", "ipnet", "serde_json"], "the rules stay pure"),
    ("xtask", &["anyhow", "serde_json"], "a fresh clone builds this first"),
];

/// A crate, third-party crates it must not use, and why.
const NEVER: &[(&str, &[&str], &str)] = &[(
    "sabakan-service",
    &["axum", "http", "hyper", "kube", "rusqlite", "tonic"],
    "use cases see neither HTTP nor a database",
)];

/// Errors without kinds are for programs; in a library somebody has to act on the kind.
const ANYHOW_USERS: &[&str] = &["sabakan", "sabactl", "xtask", TESTKIT];

/// What the rule needs to know about a package of the workspace.
#[derive(Debug)]
pub struct Package {
    pub name: String,
    /// The manifest, from the top of the repository.
    pub manifest: String,
    pub manifest_text: String,
    pub dependencies: Vec<Dependency>,
}

#[derive(Debug)]
pub struct Dependency {
    pub name: String,
    /// How the manifest spells it, if it renames it.
    pub written: String,
    pub is_dev: bool,
    pub is_ours: bool,
}

/// Reads the packages out of `cargo metadata --no-deps`. `read` gives the text of a manifest by its absolute path.
pub fn packages(metadata: &Value, root: &str, read: impl Fn(&str) -> Result<String>) -> Result<Vec<Package>> {
    let list = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    list.iter()
        .map(|package| {
            let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
            let manifest = text("manifest_path");
            let dependencies = package["dependencies"].as_array().into_iter().flatten();
            Ok(Package {
                name: text("name"),
                manifest_text: read(&manifest)?,
                manifest: manifest.trim_start_matches(root).trim_start_matches('/').to_owned(),
                dependencies: dependencies.map(dependency).collect(),
            })
        })
        .collect()
}

fn dependency(value: &Value) -> Dependency {
    let name = value["name"].as_str().unwrap_or_default().to_owned();
    Dependency {
        written: value["rename"].as_str().unwrap_or(&name).to_owned(),
        is_dev: value["kind"] == "dev",
        is_ours: value["path"].is_string(),
        name,
    }
}

pub fn check(packages: &[Package]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        if row(&package.name).is_none() && package.name != TESTKIT {
            let advice = format!(
                "crate `{}` is not in the table of xtask/src/tidy/directions.rs; add it, and write a record in docs/adr \
                 that says which of the four reasons for a crate it has",
                package.name
            );
            findings.push(Finding::new(&package.manifest, 1, "directions", advice));
            continue;
        }
        findings.extend(package.dependencies.iter().filter_map(|dependency| {
            let advice = refusal(&package.name, dependency)?;
            let line = line_of_dependency(&package.manifest_text, &dependency.written);
            Some(Finding::new(&package.manifest, line, "directions", advice))
        }));
        findings.extend(manifest(package));
    }
    findings
}

fn row(name: &str) -> Option<&'static [&'static str]> {
    MAY_USE.iter().find(|(package, _)| *package == name).map(|(_, uses)| *uses)
}

/// Why this dependency is not allowed, and what to do; nothing if it is.
fn refusal(package: &str, dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    if dependency.is_ours {
        return our_refusal(package, dependency);
    }
    if dependency.is_dev {
        return None;
    }
    if let Some((_, allowed, why)) = ONLY.iter().find(|(only, ..)| *only == package)
        && !allowed.contains(&name)
    {
        let allowed = allowed.join(", ");
        return Some(format!("`{package}` must not use `{name}`, because {why}; it may use: {allowed}"));
    }
    if let Some((_, banned, why)) = NEVER.iter().find(|(never, ..)| *never == package)
        && banned.contains(&name)
    {
        return Some(format!("`{package}` must not use `{name}`: {why}; move that part to the crate that may"));
    }
    let is_anyhow = name == "anyhow" && !ANYHOW_USERS.contains(&package);
    is_anyhow.then(|| format!("`{package}` must not use `anyhow`: callers need kinds; write an error enum"))
}

fn our_refusal(package: &str, dependency: &Dependency) -> Option<String> {
    let name = dependency.name.as_str();
    if package == TESTKIT || (dependency.is_dev && (name == TESTKIT || name == package)) {
        return None;
    }
    if name == TESTKIT {
        return Some(format!("`{TESTKIT}` is for tests; move the line to [dev-dependencies]"));
    }
    let allowed = row(package).unwrap_or_default();
    // A test may also name what comes with an allowed crate anyway.
    if allowed.contains(&name) || (dependency.is_dev && allowed.iter().any(|allowed| reaches(allowed, name))) {
        return None;
    }
    let uses = if allowed.is_empty() { "no crate of the workspace".to_owned() } else { allowed.join(", ") };
    Some(format!(
        "`{package}` must not depend on `{name}`; it may use {uses}. Move the code, or decide anew in docs/adr"
    ))
}

fn reaches(from: &str, to: &str) -> bool {
    row(from).unwrap_or_default().iter().any(|next| *next == to || reaches(next, to))
}

/// Versions, features and lints stand once, in the top manifest: otherwise dependencies are built twice, and `unsafe`
/// is forbidden in some crates only.
fn manifest(package: &Package) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut section = "";
    let mut inherits_lints = false;
    for (line, text) in (1..).zip(package.manifest_text.lines()) {
        let text = text.split('#').next().unwrap_or_default().trim();
        if text.starts_with('[') {
            section = text.trim_matches(['[', ']']);
        } else if section == "lints" && text.replace(' ', "") == "workspace=true" {
            inherits_lints = true;
        } else if section.ends_with("dependencies") && text.contains('=') {
            let dense = text.replace(' ', "");
            if !dense.contains("workspace=true") && !dense.contains("path=") {
                let advice =
                    "take the version from [workspace.dependencies] of the top manifest: `name.workspace = true`";
                findings.push(Finding::new(&package.manifest, line, "directions", advice));
            }
        }
    }
    if !inherits_lints {
        let advice = "the lints of the workspace are not inherited; add `[lints]` with `workspace = true`";
        findings.push(Finding::new(&package.manifest, 1, "directions", advice));
    }
    findings
}

fn line_of_dependency(manifest: &str, name: &str) -> usize {
    let is_it = |line: &str| {
        let rest = line.trim_start().trim_start_matches('"').strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=', '"']))
    };
    (1..).zip(manifest.lines()).find(|(_, line)| is_it(line)).map_or(1, |(line, _)| line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let dependency = |(name, is_dev): &(&str, bool)| Dependency {
            name: (*name).to_owned(),
            written: (*name).to_owned(),
            is_dev: *is_dev,
            is_ours: name.starts_with("saba"),
        };
        let lines = dependencies.iter().map(|(name, _)| format!("{name}.workspace = true\n")).collect::<String>();
        Package {
            name: name.to_owned(),
            manifest: "crates/x/Cargo.toml".to_owned(),
            manifest_text: format!("[lints]\nworkspace = true\n[dependencies]\n{lines}"),
            dependencies: dependencies.iter().map(dependency).collect(),
        }
    }

    fn found(name: &str, dependencies: &[(&str, bool)]) -> Vec<String> {
        check(&[package(name, dependencies)]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn allowed_directions_pass() {
        for (name, dependencies) in [
            ("sabakan-service", &[("sabakan-domain", false), ("sabakan-store", false)][..]),
            ("sabakan-store", &[("sabakan-store", true), ("sabakan-testkit", true), ("proptest", true)]),
            ("sabakan-store-etcd", &[("sabakan-domain", true)]),
            ("sabakan-testkit", &[("sabakan", false), ("anyhow", false)]),
            ("sabakan-domain", &[("jiff", false), ("serde_json", false), ("proptest", true)]),
            ("sabakan-wire", &[("anyhow", true)]),
            ("sabactl", &[("anyhow", false)]),
        ] {
            assert_eq!(found(name, dependencies), [""; 0], "{name}");
        }
    }

    #[test]
    fn forbidden_directions_are_found() {
        for (name, dependency) in [
            ("sabakan-domain", "sabakan-wire"),
            ("sabakan-store", "sabakan-service"),
            ("sabakan-store-etcd", "sabakan-domain"),
            ("sabactl", "sabakan-store"),
            ("sabakan-service", "sabakan-testkit"),
            ("xtask", "sabakan-domain"),
            ("xtask", "clap"),
            ("sabakan-domain", "uuid"),
            ("sabakan-service", "axum"),
            ("sabakan-service", "rusqlite"),
            ("sabakan-store", "anyhow"),
            ("sabakan-cryptsetup", "anyhow"),
        ] {
            let found = found(name, &[("serde_json", false), (dependency, false)]);
            assert_eq!(found.len(), 1, "{name} -> {dependency}: {found:?}");
            assert!(found[0].starts_with("crates/x/Cargo.toml:5: directions: "), "{}", found[0]);
        }
        assert_eq!(found("sabakan-wire", &[("sabakan-store", true)]).len(), 1);
    }

    #[test]
    fn unknown_crate_needs_a_decision() {
        let found = found("sabakan-extra", &[]);
        assert!(found[0].contains("add it") && found[0].contains("docs/adr"), "{found:?}");
    }

    #[test]
    fn versions_and_lints_come_from_the_top() {
        let with = |text: &str| {
            let package = Package { manifest_text: text.to_owned(), ..package("xtask", &[]) };
            manifest(&package).iter().map(|finding| finding.line).collect::<Vec<_>>()
        };
        let lints = "[lints]\nworkspace = true\n";
        assert_eq!(with(&format!("{lints}[dependencies]\na.workspace = true\nb = {{ path = \".\" }}\n")), [0; 0]);
        assert_eq!(with(&format!("{lints}[dependencies]\na = \"1\" # why\n")), [4]);
        assert_eq!(with(&format!("{lints}[target.x.dev-dependencies]\na = {{ version = \"1\" }}\n")), [4]);
        assert_eq!(with("[package]\nversion = \"1\"\n"), [1]);
    }

    #[test]
    fn packages_are_read_from_metadata() {
        let metadata = serde_json::json!({ "packages": [{
            "name": "sabakan-wire", "manifest_path": "/r/crates/wire/Cargo.toml",
            "dependencies": [
                { "name": "serde", "rename": null, "kind": null },
                { "name": "sabakan-domain", "rename": "domain", "kind": "dev", "path": "/r/crates/domain" },
            ],
        }]});
        let packages = packages(&metadata, "/r", |_| Ok("text".to_owned())).unwrap();
        assert_eq!(packages[0].manifest, "crates/wire/Cargo.toml");
        let [serde, domain] = packages[0].dependencies.as_slice() else { panic!("two dependencies") };
        assert!(!serde.is_dev && !serde.is_ours);
        assert!(domain.is_dev && domain.is_ours && domain.written == "domain");
    }
}
