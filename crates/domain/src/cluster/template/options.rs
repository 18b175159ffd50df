//! Settings of the components of a cluster. They are passed on to whoever runs the components; only what would stop those from
//! starting is refused.

use serde_json::{Map, Value};

use super::tables::TAINT;
use crate::cluster::{
    names::rules::DNS_SUBDOMAIN,
    shape::{Checker, Field, Object, Place, Rule, Shape, quote, rules::*, text},
};

const TEXT_SHAPE: Shape = Shape::Text(&TEXT);

/// Settings of all components.
pub(super) const OPTIONS: Object = Object::new(
    "Options",
    "Settings of the components of the cluster.",
    &[&[
        Field::optional("etcd", Shape::Object(&ETCD), "The store of the cluster."),
        Field::optional("etcd-rivers", Shape::Object(&SERVICE), "The proxy in front of etcd."),
        Field::optional("rivers", Shape::Object(&SERVICE), "The proxy in front of the API servers."),
        Field::optional("kube-api", Shape::Object(&API_SERVER), "The API server."),
        Field::optional("kube-controller-manager", Shape::Object(&SERVICE), "The controllers."),
        Field::optional("kube-scheduler", Shape::Object(&SCHEDULER), "The scheduler."),
        Field::optional("kube-proxy", Shape::Object(&PROXY), "The proxy for services."),
        Field::optional("kubelet", Shape::Object(&KUBELET), "The agent on every node."),
    ]],
);

const PARAMETERS: &[Field] = &[
    Field::optional("extra_args", Shape::list(&TEXT_SHAPE), "More arguments on its command line."),
    Field::optional(
        "extra_binds",
        Shape::list(&Shape::Object(&MOUNT)),
        "More files and directories of the node it sees.",
    ),
    Field::optional(
        "extra_env",
        Shape::Map { key: &VARIABLE, value: &TEXT_SHAPE },
        "More variables of its environment.",
    ),
];

const SERVICE: Object = Object::new("Component", "A component without settings of its own.", &[PARAMETERS]);

const MOUNT: Object = Object::new(
    "Mount",
    "A file or directory of the node, seen inside a component.",
    &[&[
        Field::required("source", Shape::Text(&ABSOLUTE_PATH), "Where it is on the node."),
        Field::required("destination", Shape::Text(&ABSOLUTE_PATH), "Where the component sees it."),
        Field::optional("read_only", Shape::Bool, "It cannot be changed.").means("false"),
        Field::or_empty(
            "propagation",
            Shape::Word(&["shared", "slave", "private", "rshared", "rslave", "rprivate"]),
            "Which later mounts are seen on the other side.",
        ),
        Field::or_empty("selinux_label", Shape::Word(&["z", "Z"]), "Its SELinux label: `z` is shared, `Z` is not."),
    ]],
);

const ETCD: Object = Object::new(
    "etcd",
    "The store of the cluster.",
    &[
        &[Field::optional("volume_name", Shape::Text(&NOT_EMPTY), "The volume with its data.").filled("etcd-cke")],
        PARAMETERS,
    ],
);

const API_SERVER: Object = Object::new(
    "kube-api",
    "The API server. `audit_log_enabled` needs `audit_log_policy`.",
    &[
        &[
            Field::optional("audit_log_enabled", Shape::Bool, "Requests are logged.").means("false"),
            Field::or_empty("audit_log_policy", TEXT_SHAPE, "What is logged: the YAML text of an audit policy."),
            Field::or_empty("audit_log_path", TEXT_SHAPE, "Where the log is written.").means("standard output"),
        ],
        PARAMETERS,
    ],
)
.checked(check_audit);

const SCHEDULER: Object = Object::new(
    "kube-scheduler",
    "The scheduler.",
    &[&[Field::optional("config", Shape::Object(&SCHEDULER_CONFIG), "Its configuration.")], PARAMETERS],
);

const SCHEDULER_CONFIG: Object = Object::new(
    "Scheduler configuration",
    "A part of a `KubeSchedulerConfiguration`. Other keys are passed on.",
    &[&[
        Field::required("apiVersion", Shape::Word(&["kubescheduler.config.k8s.io/v1"]), "Its version."),
        Field::required("kind", Shape::Word(&["KubeSchedulerConfiguration"]), "Its kind."),
    ]],
)
.open();

const PROXY: Object = Object::new(
    "kube-proxy",
    "The proxy for services.",
    &[
        &[
            Field::optional("disable", Shape::Bool, "It is not run; something else does its work.").means("false"),
            Field::optional("config", Shape::Object(&PROXY_CONFIG), "Its configuration."),
        ],
        PARAMETERS,
    ],
);

const PROXY_CONFIG: Object = Object::new(
    "Proxy configuration",
    "A part of a `KubeProxyConfiguration`. Other keys are passed on.",
    &[&[
        Field::required("apiVersion", Shape::Word(&["kubeproxy.config.k8s.io/v1alpha1"]), "Its version."),
        Field::required("kind", Shape::Word(&["KubeProxyConfiguration"]), "Its kind."),
        Field::or_empty("mode", Shape::Word(&["userspace", "iptables", "ipvs"]), "How it forwards."),
    ]],
)
.open();

const KUBELET: Object = Object::new(
    "kubelet",
    "The agent on every node.",
    &[
        &[
            Field::optional(
                "boot_taints",
                Shape::list(&Shape::Object(&TAINT)),
                "Taints a node gets whenever it boots; somebody has to take them away.",
            ),
            Field::optional("cni_conf_file", Shape::Object(&CNI_FILE), "The configuration of its network."),
            Field::optional("config", Shape::Object(&KUBELET_CONFIG), "Its configuration."),
            Field::optional("cri_endpoint", Shape::Text(&NOT_EMPTY), "The socket of the container runtime.")
                .filled("/run/containerd/containerd.sock"),
            Field::optional("in_place_update", Shape::Bool, "A new version replaces the old one on running nodes.")
                .means("false"),
        ],
        PARAMETERS,
    ],
);

const KUBELET_CONFIG: Object = Object::new(
    "Kubelet configuration",
    "A part of a `KubeletConfiguration`. Other keys are passed on.",
    &[&[
        Field::required("apiVersion", Shape::Word(&["kubelet.config.k8s.io/v1beta1"]), "Its version."),
        Field::required("kind", Shape::Word(&["KubeletConfiguration"]), "Its kind."),
        Field::or_empty("clusterDomain", Shape::Text(&DNS_SUBDOMAIN), "The domain of the cluster."),
    ]],
)
.open();

const CNI_FILE: Object = Object::new(
    "CNI file",
    "A file below `/etc/cni/net.d`. Its content is JSON: a network configuration list if the name ends in `.conflist`, one network \
     otherwise. Name and content are given together.",
    &[&[
        Field::or_empty("name", Shape::Text(&FILE_NAME), "Its name."),
        Field::or_empty("content", TEXT_SHAPE, "What is in it."),
    ]],
)
.checked(check_cni);

const FILE_NAME: Rule = Rule {
    name: "file name",
    text: "letters, digits, `_`, `.` and `-`",
    accepts: |text| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-'))
    },
};

const CNI_LIST: Object = Object::new(
    "CNI network list",
    "Networks of a node.",
    &[&[
        Field::required("name", Shape::Text(&NOT_EMPTY), "Its name."),
        Field::required("plugins", Shape::some(&Shape::Object(&CNI_NETWORK)), "Its networks."),
    ]],
)
.open();

const CNI_NETWORK: Object = Object::new(
    "CNI network",
    "A network of a node.",
    &[&[Field::required("type", Shape::Text(&NOT_EMPTY), "The program that sets it up.")]],
)
.open();

fn check_audit(members: &Map<String, Value>, place: &Place<'_>, checker: &mut Checker) {
    let enabled = members.get("audit_log_enabled") == Some(&Value::Bool(true));
    if enabled && members.get("audit_log_policy").is_none_or(|policy| policy.is_null() || policy == "") {
        checker.problem(&place.key("audit_log_policy"), "is missing: audit_log_enabled needs a policy");
    }
}

fn check_cni(members: &Map<String, Value>, place: &Place<'_>, checker: &mut Checker) {
    let (name, content) = (text(members, "name"), text(members, "content"));
    let (name_place, content_place) = (place.key("name"), place.key("content"));
    match (name.is_empty(), content.is_empty()) {
        (true, true) => return,
        (true, false) => return checker.problem(&name_place, "is missing: the content needs one"),
        (false, true) => return checker.problem(&content_place, format!("is missing: {} would be empty", quote(name))),
        (false, false) => {}
    }
    let table = if name.ends_with(".conflist") { &CNI_LIST } else { &CNI_NETWORK };
    match serde_json::from_str(content) {
        Ok(document) => checker.object(&content_place, table, &document),
        Err(error) => checker.problem(&content_place, format!("is not JSON: {error}")),
    }
}
