//! What enters the dependency graph: licences, banned packages and where packages come from. The policy is `deny.toml`;
//! this is the part of `cargo deny` that needs no further tool and no network.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;

use super::Finding;
use super::policy::Policy;
use super::spdx;

const LOCK: &str = "Cargo.lock";

/// A package of the graph, ours or not.
#[derive(Debug, Clone)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub licence: Option<String>,
    /// Nothing for our own packages.
    pub source: Option<String>,
    /// Names of the packages that depend on it directly.
    pub users: Vec<String>,
}

/// Reads the graph out of `cargo metadata`.
pub fn packages(metadata: &Value) -> Result<Vec<Package>> {
    let list = metadata["packages"].as_array().context("`cargo metadata` lists no packages")?;
    let nodes = metadata["resolve"]["nodes"].as_array().context("`cargo metadata` resolves nothing")?;
    let name_of: BTreeMap<&str, &str> =
        list.iter().filter_map(|package| Some((package["id"].as_str()?, package["name"].as_str()?))).collect();
    let mut users: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for node in nodes {
        let user = node["id"].as_str().and_then(|id| name_of.get(id)).context("an unknown package is resolved")?;
        for used in node["deps"].as_array().into_iter().flatten().filter_map(|dependency| dependency["pkg"].as_str()) {
            users.entry(used).or_default().push((*user).to_owned());
        }
    }
    let package = |package: &Value| {
        let text = |field: &str| package[field].as_str().map(ToOwned::to_owned);
        Some(Package {
            name: text("name")?,
            version: text("version")?,
            licence: text("license"),
            source: text("source"),
            users: users.get(package["id"].as_str()?).cloned().unwrap_or_default(),
        })
    };
    list.iter().map(|value| package(value).context("a package has no name, version or id")).collect()
}

/// `lock` is the text of `Cargo.lock`, where findings point to.
pub fn check(packages: &[Package], policy: &Policy, lock: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in packages {
        let mut problems: Vec<(&'static str, String)> = Vec::new();
        if let Some(source) = &package.source {
            problems.extend(licence_problem(package, policy).map(|text| ("licences", text)));
            if !policy.registries.contains(source) {
                let text = format!("comes from `{source}`; deny.toml allows the default registry only");
                problems.push(("sources", text));
            }
        }
        problems.extend(ban_problem(package, policy).map(|text| ("bans", text)));
        findings.extend(problems.into_iter().map(|(rule, text)| {
            let text = format!("{} {}: {text}", package.name, package.version);
            Finding::new(LOCK, line_of_package(lock, package), rule, text)
        }));
    }
    findings
}

fn licence_problem(package: &Package, policy: &Policy) -> Option<String> {
    let Some(expression) = &package.licence else {
        return Some("names no licence; use another crate".to_owned());
    };
    match spdx::is_satisfied(expression, &policy.licences) {
        Ok(true) => None,
        Ok(false) => Some(format!(
            "licence `{expression}` cannot be met with licenses.allow of deny.toml; use another crate (needed by {})",
            package.users.join(", ")
        )),
        Err(why) => Some(format!("licence `{expression}` is not an SPDX expression: {why}")),
    }
}

fn ban_problem(package: &Package, policy: &Policy) -> Option<String> {
    let ban = policy.bans.iter().find(|ban| ban.package == package.name)?;
    let users: Vec<&str> =
        package.users.iter().map(String::as_str).filter(|user| !ban.wrappers.contains(*user)).collect();
    if users.is_empty() && !ban.wrappers.is_empty() {
        return None;
    }
    let advice = if ban.wrappers.is_empty() {
        "Find the feature that brings it and turn it off."
    } else {
        "Our own crates must not use it; a third-party crate that does is added to its `wrappers` in deny.toml."
    };
    Some(format!("is banned: {}. Needed by {}. {advice}", ban.reason, users.join(", ")))
}

fn line_of_package(lock: &str, package: &Package) -> usize {
    let (name, version) = (format!("name = \"{}\"", package.name), format!("version = \"{}\"", package.version));
    let lines: Vec<&str> = lock.lines().collect();
    lines.windows(2).position(|pair| pair[0] == name && pair[1] == version).map_or(1, |at| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::policy::Ban;

    const REGISTRY: &str = "registry+https://example.com/index";

    fn policy() -> Policy {
        let ban = |package: &str, wrappers: &[&str]| Ban {
            package: package.to_owned(),
            reason: "because".to_owned(),
            wrappers: wrappers.iter().map(ToString::to_string).collect(),
        };
        Policy {
            licences: ["MIT".to_owned()].into(),
            bans: vec![ban("openssl-sys", &[]), ban("once_cell", &["rustls"])],
            registries: [REGISTRY.to_owned()].into(),
        }
    }

    fn package(name: &str) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.2.3".to_owned(),
            licence: Some("MIT OR GPL-3.0".to_owned()),
            source: Some(REGISTRY.to_owned()),
            users: vec!["rustls".to_owned()],
        }
    }

    fn found(package: Package) -> Vec<String> {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\n[[package]]\nname = \"a\"\nversion = \"1.2.3\"\n";
        check(&[package], &policy(), lock).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn licence_has_to_be_allowed() {
        assert_eq!(found(package("a")), [""; 0]);
        let text = found(Package { licence: Some("GPL-3.0".to_owned()), ..package("a") });
        assert!(text[0].starts_with("Cargo.lock:6: licences: a 1.2.3: licence `GPL-3.0` cannot be met"), "{text:?}");
        assert!(found(Package { licence: None, ..package("a") })[0].contains("names no licence"));
        assert!(found(Package { licence: Some("MIT OR".to_owned()), ..package("a") })[0].contains("not an SPDX"));
        assert_eq!(found(Package { licence: None, source: None, ..package("sabakan") }), [""; 0]);
    }

    #[test]
    fn source_has_to_be_the_registry() {
        let text = found(Package { source: Some("git+https://example.com/a".to_owned()), ..package("a") });
        assert!(text[0].contains("sources: a 1.2.3: comes from `git+"), "{text:?}");
    }

    #[test]
    fn banned_package_is_named_with_its_users() {
        let text = found(package("openssl-sys"));
        assert!(text[0].contains("bans: openssl-sys 1.2.3: is banned: because. Needed by rustls."), "{text:?}");
    }

    #[test]
    fn wrappers_may_use_a_banned_package_and_we_may_not() {
        assert_eq!(found(package("once_cell")), [""; 0]);
        let users = vec!["rustls".to_owned(), "sabakan-wire".to_owned()];
        let text = found(Package { users, ..package("once_cell") });
        assert!(text[0].contains("Needed by sabakan-wire."), "{text:?}");
    }

    #[test]
    fn graph_is_read_from_metadata() {
        let metadata = serde_json::json!({
            "packages": [
                { "id": "1", "name": "sabakan", "version": "0.1.0", "license": null, "source": null },
                { "id": "2", "name": "serde", "version": "1.0.0", "license": "MIT", "source": REGISTRY },
            ],
            "resolve": { "nodes": [{ "id": "1", "deps": [{ "pkg": "2" }] }, { "id": "2", "deps": [] }] },
        });
        let packages = packages(&metadata).unwrap();
        assert_eq!(packages[1].users, ["sabakan"]);
        assert_eq!((packages[1].licence.as_deref(), packages[0].source.as_deref()), (Some("MIT"), None));
        assert!(super::packages(&serde_json::json!({})).is_err());
    }
}
