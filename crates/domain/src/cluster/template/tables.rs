//! What a cluster template and a cluster configuration may say, as tables. They differ in their nodes only.

use serde_json::{Map, Value};

use super::{
    options::OPTIONS,
    repair::{REBOOT, REPAIR},
};
use crate::{
    cluster::{
        config::STATE_TAINT,
        names::{self, rules::*},
        shape::{self, Checker, Field, Object, Place, Rule, Shape, rules::*},
    },
    limits::{CLUSTER_NODES_MAX, NODE_TEMPLATES_MAX, TEMPLATE_ITEMS_MAX, TEMPLATE_TAINTS_MAX},
};

const TEXT_SHAPE: Shape = Shape::Text(&TEXT);

/// A template, as people write it.
pub(in crate::cluster) const TEMPLATE: Object = Object::new(
    "Cluster template",
    "What a cluster shall look like. `nodes` has exactly one template for control planes and one or more for workers; two or more \
     worker templates need a role each, all different.",
    &[
        &[Field::required(
            "nodes",
            Shape::List { of: &Shape::Object(&NODE_TEMPLATE), min: 0, max: NODE_TEMPLATES_MAX },
            "What each kind of node looks like.",
        )],
        CLUSTER,
    ],
)
.checked(check_cluster);

/// A configuration, as it is generated, or written by hand.
pub(in crate::cluster) const CONFIGURATION: Object = Object::new(
    "Cluster configuration",
    "A cluster with its machines: what is generated from a template, or written by hand. No two nodes have the same address.",
    &[
        &[Field::required(
            "nodes",
            Shape::List { of: &Shape::Object(&NODE), min: 0, max: CLUSTER_NODES_MAX },
            "The machines of the cluster.",
        )],
        CLUSTER,
    ],
)
.checked(check_cluster);

/// Everything of a configuration but its nodes.
pub(in crate::cluster) const WITHOUT_NODES: Object =
    Object::new("Cluster", "A cluster without its nodes.", &[CLUSTER]).checked(check_cluster);

const CLUSTER: &[Field] = &[
    Field::required("name", Shape::Text(&NOT_EMPTY), "The name of the cluster."),
    Field::optional(
        "taint_control_plane",
        Shape::Bool,
        "Control planes get the taint `cke.cybozu.com/master:PreferNoSchedule`.",
    )
    .means("false"),
    Field::optional(
        "control_plane_tolerations",
        Shape::list(&Shape::Text(&LABEL_KEY)),
        "Keys of taints that control planes may carry. A machine with any other taint is not made one, and one that gets it is \
         replaced. Taints of the control plane's own template are tolerated anyway.",
    ),
    Field::required("service_subnet", Shape::Text(&NETWORK), "Addresses of Kubernetes services."),
    Field::optional("dns_servers", Shape::list(&Shape::Text(&ADDRESS)), "DNS servers that the cluster asks."),
    Field::or_empty(
        "dns_service",
        Shape::Text(&NAMESPACED_NAME),
        "A service in the cluster that is asked instead of `dns_servers`.",
    ),
    Field::optional("reboot", Shape::Object(&REBOOT), "How nodes are rebooted."),
    Field::optional("repair", Shape::Object(&REPAIR), "How broken machines are repaired."),
    Field::optional("sabakan", Shape::Object(&SABAKAN), "For the generator of later versions of CKE."),
    Field::optional(
        "trusted_rest_mappings",
        Shape::list(&Shape::Object(&REST_MAPPING)),
        "Custom resources whose definitions the API server may not have yet.",
    ),
    Field::optional("options", Shape::Object(&OPTIONS), "Settings of the components of the cluster."),
];

const NODE_TEMPLATE: Object = Object::new(
    "Node template",
    "What nodes of one kind look like. The label `cke.cybozu.com/role` says which machines it is for (none: any), \
     `cke.cybozu.com/weight` which share of the workers it gets: a number greater than 0, 1 if there is none. The taint \
     `cke.cybozu.com/state` is refused: it tells the state of a machine and is set by the generator.",
    &[
        &[
            Field::or_empty("address", Shape::Text(&NOTHING), "Stays empty: every node gets that of its machine."),
            Field::or_empty(
                "hostname",
                TEXT_SHAPE,
                "How nodes are called in Kubernetes: small letters, digits, `-` and `.`, with `{serial}`, `{rack}`, \
                 `{index-in-rack}`, `{role}`, `{address}` and `{address-dashed}` (`10-0-0-1`) of the machine. It needs \
                 `{serial}`, an address, or both `{rack}` and `{index-in-rack}`, so that every name is another one. Capital \
                 letters of a machine become small ones.",
            )
            .means("its address"),
        ],
        ATTRIBUTES,
        &[taints(TEMPLATE_TAINTS_MAX)],
    ],
)
.checked(check_node_template);

const NODE: Object = Object::new(
    "Node",
    "One machine of a cluster.",
    &[
        &[
            Field::required("address", Shape::Text(&ADDRESS), "Its address, which is also its name in Kubernetes."),
            Field::or_empty("hostname", TEXT_SHAPE, "Another name in Kubernetes."),
        ],
        ATTRIBUTES,
        &[taints(TEMPLATE_ITEMS_MAX)],
    ],
)
.checked(check_annotations);

const ATTRIBUTES: &[Field] = &[
    Field::required("user", Shape::Text(&NOT_EMPTY), "Who logs in on it."),
    Field::optional("control_plane", Shape::Bool, "It runs the control plane.").means("false"),
    Field::optional(
        "annotations",
        Shape::Map { key: &ANNOTATION_KEY, value: &TEXT_SHAPE },
        "Annotations in Kubernetes; together at most 256 KiB.",
    ),
    Field::optional(
        "labels",
        Shape::Map { key: &LABEL_KEY, value: &Shape::Text(&LABEL_VALUE) },
        "Labels in Kubernetes. Every value is a text: write numbers in quotes.",
    ),
];

const fn taints(max: usize) -> Field {
    Field::optional("taints", Shape::List { of: &Shape::Object(&TAINT), min: 0, max }, "Taints in Kubernetes.")
}

/// A taint.
pub(super) const TAINT: Object = Object::new(
    "Taint",
    "Keeps pods away from a node.",
    &[&[
        Field::required("key", Shape::Text(&LABEL_KEY), "What it is about."),
        Field::or_empty("value", Shape::Text(&LABEL_VALUE), "More about it."),
        Field::required(
            "effect",
            Shape::Word(&["NoSchedule", "PreferNoSchedule", "NoExecute"]),
            "What it does to pods.",
        ),
    ]],
);

const NOTHING: Rule = Rule { name: "address in a template", text: "it must be empty", accepts: |text| text.is_empty() };

const SABAKAN: Object = Object::new(
    "Sabakan",
    "Passed on; this version does not use it.",
    &[&[Field::or_empty("spare_node_taint_key", Shape::Text(&LABEL_KEY), "The taint of spare machines.")]],
);

const REST_MAPPING: Object = Object::new(
    "Trusted REST mapping",
    "A custom resource. No two are for the same group, version and kind.",
    &[&[
        Field::or_empty("group", TEXT_SHAPE, "Its API group; empty: the core."),
        Field::required("version", Shape::Text(&NOT_EMPTY), "Its version, such as `v1`."),
        Field::required("kind", Shape::Text(&NOT_EMPTY), "Its kind."),
        Field::required("resource", Shape::Text(&NOT_EMPTY), "Its plural name."),
        Field::optional("namespaced", Shape::Bool, "It belongs to a namespace.").means("false"),
    ]],
);

/// Which things of Kubernetes are meant.
pub(super) const SELECTOR: Object = Object::new(
    "Label selector",
    "Things of Kubernetes by their labels, as in Kubernetes itself. Everything must hold.",
    &[&[
        Field::optional(
            "matchLabels",
            Shape::Map { key: &LABEL_KEY, value: &Shape::Text(&LABEL_VALUE) },
            "Labels it must have.",
        ),
        Field::optional("matchExpressions", Shape::list(&Shape::Object(&REQUIREMENT)), "More conditions."),
    ]],
);

const REQUIREMENT: Object = Object::new(
    "Label requirement",
    "A condition on a label. `In` and `NotIn` need values, `Exists` and `DoesNotExist` must have none.",
    &[&[
        Field::required("key", Shape::Text(&LABEL_KEY), "The label."),
        Field::required("operator", Shape::Word(&["In", "NotIn", "Exists", "DoesNotExist"]), "What must hold."),
        Field::optional("values", Shape::list(&Shape::Text(&LABEL_VALUE)), "Values to compare with."),
    ]],
)
.checked(check_requirement);

fn check_requirement(members: &Map<String, Value>, place: &Place<'_>, checker: &mut Checker) {
    let none = shape::items(members, "values").is_empty();
    match shape::text(members, "operator") {
        "In" | "NotIn" if none => {
            checker.problem(&place.key("values"), "is missing: In and NotIn compare with at least one");
        }
        "Exists" | "DoesNotExist" if !none => {
            checker.problem(&place.key("values"), "must be empty: Exists and DoesNotExist compare with nothing");
        }
        _ => {}
    }
}

fn check_node_template(members: &Map<String, Value>, place: &Place<'_>, checker: &mut Checker) {
    check_annotations(members, place, checker);
    for (index, taint) in shape::items(members, "taints").iter().enumerate() {
        if taint.get("key").and_then(Value::as_str) == Some(STATE_TAINT) {
            let reason = format!("{STATE_TAINT} is set by the generator and must not be in a template");
            checker.problem(&place.key("taints").index(index).key("key"), reason);
        }
    }
}

fn check_annotations(members: &Map<String, Value>, place: &Place<'_>, checker: &mut Checker) {
    let Some(Value::Object(annotations)) = members.get("annotations") else { return };
    let pairs = annotations.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    if !names::annotations_fit(pairs) {
        checker.problem(&place.key("annotations"), ANNOTATIONS_TOO_LARGE);
    }
}

/// What to say about annotations that are too large together.
pub(in crate::cluster) const ANNOTATIONS_TOO_LARGE: &str = "are too large: at most 256 KiB together are allowed";

fn check_cluster(members: &Map<String, Value>, place: &Place<'_>, checker: &mut Checker) {
    let mappings = shape::items(members, "trusted_rest_mappings");
    let text = |mapping: &Value, name| mapping.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let keys = mappings.iter().map(|mapping| {
        let key = ["group", "version", "kind"].map(|name| text(mapping, name));
        (!key[1].is_empty() && !key[2].is_empty()).then_some(key)
    });
    for (index, first) in shape::repeats(keys) {
        let reason = format!("has the group, version and kind of trusted_rest_mappings[{first}]");
        checker.problem(&place.key("trusted_rest_mappings").index(index), reason);
    }
}
