//! Settings of the cluster.

use std::time::Duration;

use super::*;
use crate::cluster::RegistrySettings;

#[test]
fn the_server_plans_its_own_machines_unless_told_otherwise() {
    let case = Case::new();
    let config = case.load(&[]).expect("valid").cluster;
    assert_eq!(config, crate::cluster::ClusterConfig::default(), "the defaults in the help are those of the program");
    let args = [
        "--cluster-planner=false",
        "--cluster-period=5s",
        "--cluster-settle",
        "0",
        "--cluster-registry-url",
        "https://registry/sabakan/",
        "--cluster-registry-timeout=2s",
        "--cluster-mirror-prefix",
        "/cke/",
        "--etcd-endpoints",
        "h:1",
    ];
    let config = case.load(&args).expect("valid").cluster;
    assert!(!config.planner);
    assert_eq!((config.period, config.settle), (Duration::from_secs(5), Duration::ZERO));
    let registry = RegistrySettings { url: "https://registry/sabakan".into(), timeout: Duration::from_secs(2) };
    assert_eq!((config.registry, config.mirror_prefix.as_deref()), (Some(registry), Some("/cke/")));
    let shown = describe(&case.load(&args).expect("valid"));
    for line in
        ["cluster-registry-url: https://registry/sabakan", "cluster-mirror-prefix: /cke/", "cluster-settle: 0ns"]
    {
        assert!(shown.lines().any(|shown| shown == line), "{line} in {shown}");
    }
}

#[test]
fn what_is_wrong_with_them_is_said_with_its_place() {
    let case = Case::new();
    let yaml = "cluster-planner: perhaps\ncluster-period: 1ms\ncluster-settle: 2d\ncluster-registry-url: registry:80\n\
                cluster-registry-timeout: 1h\ncluster-mirror-prefix: /cke\n";
    let lines = case.lines(case.load_file(yaml, &[]));
    for place in 1..=6 {
        assert!(lines.iter().any(|line| line.starts_with(&format!("c.yml:{place}: cluster-"))), "{place} in {lines:?}");
    }
    assert_eq!(lines.len(), 6, "{lines:?}");
    let lines = case.lines(case.load(&["--cluster-registry-timeout=2s", "--cluster-mirror-prefix=/cke/"]));
    let expected = [
        "--cluster-registry-timeout: needs --cluster-registry-url",
        "--cluster-mirror-prefix: needs --etcd-endpoints: what is copied can only be read from etcd",
    ];
    assert_eq!(lines, expected);
    for prefix in ["/sabakan/cke/", "/", "/states/"] {
        let lines = case.lines(case.load(&["--etcd-endpoints=h:1", "--cluster-mirror-prefix", prefix]));
        assert!(lines.len() == 1 && lines[0].ends_with("stand inside each other"), "{lines:?}");
    }
}
