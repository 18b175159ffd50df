//! The template of a cluster: what every kind of node looks like, and everything that is the same for all clusters made from it.
//!
//! What it may say is in the tables below this module; [`reference()`] prints them. JSON only: YAML is read by the transports.

mod options;
pub mod repair;
pub(super) mod tables;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{
    config::{self, ROLE, Taint, WEIGHT},
    hostname::HostnamePattern,
    shape::{self, Checker, Place, Problem, page, quote},
    variables::VARIABLES,
};

/// What a kind of node shall look like.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeTemplate {
    /// The role of the machines it is for; `None`: any.
    pub role: Option<String>,
    /// Its share among the workers.
    pub weight: f64,
    /// How its nodes are called in Kubernetes; `None`: by their addresses.
    pub hostname: Option<HostnamePattern>,
    /// Who logs in.
    pub user: String,
    /// Annotations that all of them get.
    pub annotations: BTreeMap<String, String>,
    /// Labels that all of them get, role and weight among them.
    pub labels: BTreeMap<String, String>,
    /// Taints that all of them get.
    pub taints: Vec<Taint>,
}

impl NodeTemplate {
    /// Whether it is for machines with this role.
    pub fn takes(&self, role: &str) -> bool {
        self.role.as_deref().is_none_or(|wanted| wanted == role)
    }
}

/// What a cluster shall look like.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// What control planes look like.
    pub control_plane: NodeTemplate,
    /// What workers look like, in order; at least one. Two or more have a role each, all different.
    pub workers: Vec<NodeTemplate>,
    /// Keys of taints that control planes may carry.
    pub tolerations: BTreeSet<String>,
    /// Everything but the nodes, copied into the configuration.
    pub rest: Map<String, Value>,
    /// As it was written, with defaults filled in.
    pub document: Value,
}

impl Template {
    /// Reads a template that somebody wrote, fills defaults in and refuses what cannot work, all of it at once.
    pub fn parse(document: Value) -> Result<Template, Vec<Problem>> {
        let mut checker = Checker::default();
        if let Some(Value::Array(nodes)) = document.get("nodes") {
            check_hostnames(nodes, &mut checker);
        }
        Template::read(document, checker)
    }

    /// Reads a template that was stored. Earlier versions took any `hostname` and ignored it; one that is no pattern is ignored
    /// still, because a template that cannot be read stops everything.
    pub fn stored(document: Value) -> Result<Template, Vec<Problem>> {
        Template::read(document, Checker::default())
    }

    fn read(mut document: Value, mut checker: Checker) -> Result<Template, Vec<Problem>> {
        if let Some(Value::Array(nodes)) = document.get("nodes") {
            check_nodes(nodes, &mut checker);
        }
        checker.object(&Place::ROOT, &tables::TEMPLATE, &document);
        let problems = checker.finish();
        let Value::Object(members) = &mut document else { return Err(problems) };
        if !problems.is_empty() {
            return Err(problems);
        }
        shape::fill(&tables::TEMPLATE, members);
        let mut rest = members.clone();
        rest.remove("nodes");
        let (control_planes, workers): (Vec<&Value>, Vec<&Value>) =
            shape::items(members, "nodes").iter().partition(|node| is_control_plane(node));
        let control_plane = NodeTemplate::of(control_planes.first().expect("there is exactly one"));
        let workers = workers.into_iter().map(NodeTemplate::of).collect();
        let tolerations = shape::items(members, "control_plane_tolerations").iter().filter_map(Value::as_str);
        // Control planes get their template's own taints; were those not tolerated, each would be replaced for ever.
        let own = control_plane.taints.iter().map(|taint| taint.key.as_str());
        let tolerations = tolerations.chain(own).map(str::to_owned).collect();
        Ok(Template { control_plane, workers, tolerations, rest, document })
    }

    /// What is allowed but doubtful.
    pub fn warnings(&self) -> Vec<Problem> {
        let differs = |worker: &&NodeTemplate| worker.hostname != self.control_plane.hostname;
        let reason = "a machine that becomes a control plane, or a worker again, gets another name in Kubernetes, because the \
                      node templates differ in `hostname`";
        self.workers.iter().find(differs).map(|_| Problem::new("nodes", reason)).into_iter().collect()
    }

    /// The audit policy of the API server, a YAML text that must be a mapping. Who can read YAML checks it.
    pub fn audit_log_policy(&self) -> Option<&str> {
        let policy = self.document.pointer("/options/kube-api/audit_log_policy")?.as_str()?;
        (!policy.is_empty()).then_some(policy)
    }
}

impl NodeTemplate {
    /// From a node of a template that was checked.
    fn of(node: &Value) -> NodeTemplate {
        let labels = config::pairs(node, "labels");
        NodeTemplate {
            role: labels.get(ROLE).filter(|role| !role.is_empty()).cloned(),
            weight: labels.get(WEIGHT).and_then(|weight| weight.parse().ok()).unwrap_or(1.0),
            hostname: hostname(node).and_then(|text| HostnamePattern::parse(text).ok()),
            user: node["user"].as_str().unwrap_or_default().to_owned(),
            annotations: config::pairs(node, "annotations"),
            labels,
            taints: config::taints(node),
        }
    }
}

/// The page about what people write: templates, configurations and the variables of queries, in Markdown.
pub fn reference() -> String {
    let introduction = "\
A cluster is generated from a template and the machines of the registry. A template looks like a configuration whose nodes have no
address. All problems of a document are told at once. `null` means the same as leaving a key out; a key that is not listed here is
refused.";
    let objects = [&tables::TEMPLATE, &tables::CONFIGURATION, &VARIABLES];
    page::page("Cluster template, configuration and variables", introduction, &objects)
}

fn is_control_plane(node: &Value) -> bool {
    node.get("control_plane") == Some(&Value::Bool(true))
}

fn label<'a>(node: &'a Value, key: &str) -> Option<&'a str> {
    node.get("labels")?.get(key)?.as_str()
}

/// The pattern of a node template, if it has one.
fn hostname(node: &Value) -> Option<&str> {
    node.get("hostname")?.as_str().filter(|text| !text.is_empty())
}

fn check_hostnames(nodes: &[Value], checker: &mut Checker) {
    for (index, node) in nodes.iter().enumerate() {
        if let Some(Err(error)) = hostname(node).map(HostnamePattern::parse) {
            checker.problem(&Place::ROOT.key("nodes").index(index).key("hostname"), error.to_string());
        }
    }
}

/// What holds for all node templates together.
fn check_nodes(nodes: &[Value], checker: &mut Checker) {
    let place = Place::ROOT.key("nodes");
    if nodes.len() < 2 {
        let reason = "at least 2 node templates are needed: one for control planes and one for workers";
        checker.problem(&place, format!("has {}; {reason}", nodes.len()));
    }
    let workers: Vec<usize> = (0..nodes.len()).filter(|index| !is_control_plane(&nodes[*index])).collect();
    for index in &workers {
        if let Some(problem) = label(&nodes[*index], WEIGHT).and_then(weight_problem) {
            at_label(*index, WEIGHT, checker, problem);
        }
    }
    let control_planes = nodes.len() - workers.len();
    if control_planes != 1 {
        let reason = format!("has {control_planes} templates with control_plane: true; exactly one is needed");
        checker.problem(&place, reason);
    }
    if workers.len() > 1 {
        check_roles(nodes, &workers, checker);
    }
}

/// A machine must find its template by its role alone.
fn check_roles(nodes: &[Value], workers: &[usize], checker: &mut Checker) {
    let role = |index: usize| label(&nodes[index], ROLE).filter(|role| !role.is_empty());
    for index in workers.iter().filter(|index| role(**index).is_none()) {
        at_label(*index, ROLE, checker, "is missing: two or more worker templates need a role each".to_owned());
    }
    for (place, first) in shape::repeats(workers.iter().map(|index| role(*index))) {
        let (index, first) = (workers[place], workers[first]);
        let role = quote(role(index).unwrap_or_default());
        at_label(
            index,
            ROLE,
            checker,
            format!("{role} is the role of nodes[{first}] too; every role has one template"),
        );
    }
}

fn at_label(index: usize, key: &str, checker: &mut Checker, reason: String) {
    checker.problem(&Place::ROOT.key("nodes").index(index).key("labels").key(key), reason);
}

fn weight_problem(weight: &str) -> Option<String> {
    match weight.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => None,
        Ok(_) => Some(format!("{} is not a number greater than 0", quote(weight))),
        Err(_) => {
            Some(format!("{} is not a number; a number greater than 0 is needed, such as \"1.5\"", quote(weight)))
        }
    }
}

#[cfg(test)]
mod tests;
