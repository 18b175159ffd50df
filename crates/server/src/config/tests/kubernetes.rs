//! How the Kubernetes of the cluster is named.

use super::*;
use crate::cluster::{KubernetesAccess, KubernetesSettings};

fn load(args: &[&str]) -> Result<Option<KubernetesSettings>, String> {
    let config = Case::new().load(args).map_err(|error| error.to_string())?;
    Ok(config.cluster.kubernetes)
}

#[test]
fn a_file_or_the_pod_itself() {
    let file = || KubernetesAccess::Kubeconfig("/etc/kubeconfig".into());
    for (args, access, apply) in [
        (&["--cluster-kubeconfig=/etc/kubeconfig"][..], file(), false),
        (&["--cluster-kubeconfig=/etc/kubeconfig", "--cluster-apply"], file(), true),
        (&["--cluster-kubeconfig=/etc/kubeconfig", "--cluster-apply=false"], file(), false),
        (&["--cluster-kubeconfig=in-cluster", "--cluster-apply=true"], KubernetesAccess::InCluster, true),
    ] {
        assert_eq!(load(args), Ok(Some(KubernetesSettings { access, apply })), "{args:?}");
    }
    assert_eq!(load(&[]), Ok(None));
    assert_eq!(load(&["--cluster-apply=false"]), Ok(None));
}

#[test]
fn applying_needs_to_know_to_what() {
    let error = load(&["--cluster-apply"]).expect_err("to what");
    assert!(error.contains("--cluster-apply: needs --cluster-kubeconfig"), "{error}");
    let error = load(&["--cluster-kubeconfig="]).expect_err("no file");
    assert!(error.contains("--cluster-kubeconfig"), "{error}");
}

#[test]
fn both_are_shown() {
    let shown = |args: &[&str]| describe(&Case::new().load(args).expect("valid"));
    let page = shown(&["--cluster-kubeconfig=/etc/kubeconfig", "--cluster-apply"]);
    assert!(page.contains("cluster-kubeconfig: /etc/kubeconfig\n") && page.contains("cluster-apply: true\n"), "{page}");
    assert!(shown(&["--cluster-kubeconfig=in-cluster"]).contains("cluster-kubeconfig: in-cluster\n"));
}
