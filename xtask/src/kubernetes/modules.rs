//! From the module description of Kubernetes to ours. Kubernetes builds its staging modules from its own tree, which only its
//! own module may do; each of them is also published, under a number of its own.

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Where the description of the downloaded module is, out of what `go mod download -json` prints.
pub fn location(answer: &[u8]) -> Result<String> {
    let answer: Value =
        serde_json::from_slice(answer).context("`go mod download` printed something that is not JSON")?;
    match answer["GoMod"].as_str() {
        Some(path) => Ok(path.to_owned()),
        None => bail!("`go mod download` did not say where the module is: {answer}"),
    }
}

/// Our `go.mod`: the versions Kubernetes was released with, and the published staging modules.
pub fn go_mod(upstream: &str, version: &str) -> Result<String> {
    let staging = staging_version(version)?;
    let mut text = String::from("module kubelab\n\n");
    let directives = upstream.lines().filter(|line| line.starts_with("go ") || line.starts_with("godebug "));
    directives.for_each(|line| text.push_str(&format!("{line}\n")));
    text.push_str(&format!("\nrequire k8s.io/kubernetes v{version}\n\nrequire (\n"));
    for line in block(upstream, "require (").filter(|line| !line.ends_with(" v0.0.0")) {
        text.push_str(&format!("\t{line}\n"));
    }
    text.push_str(")\n\nreplace (\n");
    let mut replaced = 0;
    for line in block(upstream, "replace (") {
        let Some((module, _)) = line.split_once(" => ./staging/") else { continue };
        text.push_str(&format!("\t{module} => {module} {staging}\n"));
        replaced += 1;
    }
    text.push_str(")\n");
    if replaced == 0 {
        bail!("the description of k8s.io/kubernetes {version} names no staging module");
    }
    Ok(text)
}

/// What makes the program say which version it is. By itself it says v0.0.0.
pub fn linker_flags(version: &str) -> String {
    let package = "k8s.io/component-base/version";
    let mut numbers = version.split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    let set = |name: &str, value: &str| format!(" -X {package}.{name}={value}");
    let mut flags = String::from("-s -w");
    flags.push_str(&set("gitVersion", &format!("v{version}")));
    flags.push_str(&set("gitMajor", major));
    flags.push_str(&set("gitMinor", minor));
    flags.push_str(&set("gitTreeState", "clean"));
    flags.push_str(&format!(" -X k8s.io/client-go/pkg/version.gitVersion=v{version}"));
    flags
}

fn staging_version(version: &str) -> Result<String> {
    let rest = version.strip_prefix("1.").with_context(|| format!("Kubernetes {version} is not 1.x"))?;
    Ok(format!("v0.{rest}"))
}

/// Lines of all blocks that begin with a line, without it and the closing one.
fn block<'a>(text: &'a str, begin: &'a str) -> impl Iterator<Item = &'a str> {
    let mut is_inside = false;
    text.lines().map(str::trim).filter(move |line| {
        let was_inside = is_inside;
        is_inside = *line == begin || (is_inside && *line != ")");
        was_inside && is_inside && !line.is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPSTREAM: &str = "module k8s.io/kubernetes\n\ngo 1.24.0\n\ngodebug default=go1.24\n\nrequire (\n\texample.com/a v1.2.3\n\
        \tk8s.io/api v0.0.0\n)\n\nrequire (\n\texample.com/b v0.0.0-2020 // indirect\n)\n\nreplace (\n\
        \tk8s.io/api => ./staging/src/k8s.io/api\n\texample.com/c => example.com/d v1.0.0\n)\n";

    #[test]
    fn staging_modules_come_from_where_they_are_published() {
        let expected = "module kubelab\n\ngo 1.24.0\ngodebug default=go1.24\n\nrequire k8s.io/kubernetes v1.34.4\n\n\
            require (\n\texample.com/a v1.2.3\n\texample.com/b v0.0.0-2020 // indirect\n)\n\n\
            replace (\n\tk8s.io/api => k8s.io/api v0.34.4\n)\n";
        assert_eq!(go_mod(UPSTREAM, "1.34.4").unwrap(), expected);
    }

    #[test]
    fn description_of_something_else_is_refused() {
        assert!(go_mod("module x\n", "1.34.4").unwrap_err().to_string().contains("no staging module"));
        assert!(go_mod(UPSTREAM, "2.0.0").is_err());
    }

    #[test]
    fn module_is_where_go_says() {
        assert_eq!(location(br#"{"Path":"p","GoMod":"/m/p.mod"}"#).unwrap(), "/m/p.mod");
        assert!(location(br#"{"Error":"no network"}"#).unwrap_err().to_string().contains("no network"));
        assert!(location(b"").is_err());
    }

    #[test]
    fn program_knows_its_version() {
        let flags = linker_flags("1.34.4");
        for expected in ["-s -w", "version.gitVersion=v1.34.4", "version.gitMajor=1", "version.gitMinor=34"] {
            assert!(flags.contains(expected), "{flags}");
        }
    }
}
