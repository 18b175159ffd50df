//! The planner a second time, written from the rules alone: lists and loops, and everything counted anew whenever it is needed. It
//! has no report and takes its time; it exists so that the other one has somebody to agree with.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
};

use sabakan_domain::{
    cluster::{
        input::{Input, ListedMachine},
        report::{Operation, Purpose, Source},
        template::NodeTemplate,
    },
    lifecycle::HealthState,
    words::Serial,
};
use serde_json::{Value, json};

/// What it comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Nothing,
    Change {
        operation: Operation,
        document: Value,
    },
    TooManyGone,
    NoMachine {
        operation: Operation,
        purpose: Purpose,
        role: Option<String>,
        have: usize,
        want: u32,
    },
    NoTemplate(Serial),
    /// A node would have no name in Kubernetes, or that of another.
    Invalid,
}

/// Somebody was taken: everybody who could have been, the best first.
#[derive(Debug, Clone, PartialEq)]
pub struct Choice {
    pub purpose: Purpose,
    pub source: Source,
    pub ranking: Vec<(Serial, i64)>,
}

type Machines<'a> = Vec<&'a ListedMachine>;
type Step = Result<Option<Operation>, Answer>;

struct Slow<'a> {
    input: Input<'a>,
    listed: BTreeMap<Ipv4Addr, &'a ListedMachine>,
    control_planes: Machines<'a>,
    workers: Machines<'a>,
    unused: Machines<'a>,
    choices: Vec<Choice>,
}

/// One round.
pub fn plan(input: Input<'_>) -> (Answer, Vec<Choice>) {
    let mut slow = Slow {
        input,
        listed: listed(input.machines),
        control_planes: Vec::new(),
        workers: Vec::new(),
        unused: Vec::new(),
        choices: Vec::new(),
    };
    let answer = match slow.round() {
        Ok(None) => Answer::Nothing,
        Ok(Some(operation)) => slow.render().map_or_else(|no| no, |document| Answer::Change { operation, document }),
        Err(blocked) => blocked,
    };
    (answer, slow.choices)
}

/// Machines by address. Of two with one address the one with the smaller serial counts.
fn listed(machines: &[ListedMachine]) -> BTreeMap<Ipv4Addr, &ListedMachine> {
    let mut sorted: Machines<'_> = machines.iter().collect();
    sorted.sort_by(|a, b| b.serial.cmp(&a.serial));
    sorted.into_iter().filter_map(|machine| Some((machine.address?, machine))).collect()
}

/// Section 6.2, with a day of exactly 24 hours.
pub fn score(machine: &ListedMachine, same: usize, now: jiff::Timestamp) -> i64 {
    let left = machine.retire_date.timestamp().as_nanosecond() - now.as_nanosecond();
    let days = left / (24 * 60 * 60 * 1_000_000_000);
    let mut score = (100 - i64::try_from(same).expect("small")) * 10;
    for edge in [250, 500, 1_000] {
        if days > edge {
            score += 1;
        }
        if days < -edge {
            score -= 1;
        }
    }
    score
}

impl<'a> Slow<'a> {
    fn round(&mut self) -> Step {
        let Some(current) = self.input.current else {
            self.unused = self.listed.values().copied().filter(|machine| machine.is_healthy()).collect();
            return self.fill(Operation::New);
        };
        self.unused = self
            .listed
            .iter()
            .filter(|(address, machine)| {
                machine.is_healthy() && !current.nodes.iter().any(|node| node.address == IpAddr::V4(**address))
            })
            .map(|(_, machine)| *machine)
            .collect();
        let mut gone = 0;
        for node in &current.nodes {
            match self.machine_at(node.address) {
                Some(machine) if node.control_plane => self.control_planes.push(machine),
                Some(machine) => self.workers.push(machine),
                None => gone += 1,
            }
        }
        let before = current.nodes.iter().filter(|node| node.control_plane).count();
        if 2 * self.control_planes.len() <= before {
            return Err(Answer::TooManyGone);
        }
        if gone > 0 {
            return self.fill(Operation::RemoveNonExistent);
        }
        let count = self.input.constraints.control_plane_count as usize;
        if self.control_planes.len() < count {
            return self.fill(Operation::IncreaseControlPlane);
        }
        if self.control_planes.len() > count {
            return self.decrease_control_planes(before, count);
        }
        for step in [Slow::replace, Slow::increase_workers, Slow::decrease_workers, Slow::taints] {
            if let Some(operation) = step(self)? {
                return Ok(Some(operation));
            }
        }
        if self.input.template_changed { self.fill(Operation::Regenerate) } else { Ok(None) }
    }

    fn machine_at(&self, address: IpAddr) -> Option<&'a ListedMachine> {
        match address {
            IpAddr::V4(address) => self.listed.get(&address).copied(),
            IpAddr::V6(_) => None,
        }
    }

    fn has_room(&self) -> bool {
        let maximum = self.input.constraints.maximum_workers as usize;
        maximum == 0 || self.workers.len() < maximum
    }

    /// Section 7.4, a minority in one round and at least one.
    fn decrease_control_planes(&mut self, before: usize, count: usize) -> Step {
        let most = std::cmp::max(1, (before - 1) / 2);
        for _ in 0..most {
            if self.control_planes.len() == count {
                break;
            }
            let counted = self.control_planes.clone();
            let now = self.input.now;
            let mut ranking: Vec<(i64, &ListedMachine)> = counted
                .iter()
                .map(|machine| {
                    let bonus = if machine.is_healthy() { 1_000 } else { 0 };
                    (score(machine, in_rack(&counted, machine), now) + bonus, *machine)
                })
                .collect();
            ranking.sort_by_key(|(score, machine)| (*score, order(machine)));
            self.note(Purpose::LeaveControlPlane, Source::ControlPlanes, &ranking);
            let leaving = ranking[0].1;
            self.control_planes.retain(|machine| machine.serial != leaving.serial);
            if self.has_room() {
                self.workers.push(leaving);
            } else {
                self.unused.push(leaving);
            }
        }
        self.fill(Operation::DecreaseControlPlane)
    }

    /// Section 7.5.
    fn replace(&mut self) -> Step {
        if self.control_planes.len() < 2 {
            return Ok(None);
        }
        let bad = |machine: &&ListedMachine| {
            !matches!(machine.state, HealthState::Healthy | HealthState::Updating | HealthState::Uninitialized)
                || self.is_tainted(machine)
        };
        let Some(place) = self.control_planes.iter().position(bad) else { return Ok(None) };
        let bad = self.control_planes.remove(place);
        if self.has_room() {
            self.workers.push(bad);
        } else if let Some(worker) = self.select_control_plane(Source::Workers) {
            self.workers.retain(|machine| machine.serial != worker.serial);
            self.control_planes.push(worker);
            self.workers.push(bad);
        }
        self.fill(Operation::ReplaceControlPlane)
    }

    /// Section 7.6.
    fn increase_workers(&mut self) -> Step {
        let minimum = self.input.constraints.minimum_workers as usize;
        let healthy = self.workers.iter().filter(|machine| machine.is_healthy()).count();
        let mut added = 0;
        for _ in healthy..minimum {
            if !self.has_room() || !self.add_worker() {
                break;
            }
            added += 1;
        }
        if added > 0 { self.fill(Operation::IncreaseWorker) } else { Ok(None) }
    }

    /// Section 7.7.
    fn decrease_workers(&mut self) -> Step {
        let retired =
            |machine: &&ListedMachine| machine.state == HealthState::Retired && machine.seconds_in_state > 300.0;
        let Some(place) = self.workers.iter().position(retired) else { return Ok(None) };
        let somebody = !self.worker_candidates().is_empty();
        if !somebody && self.workers.len() - 1 < self.input.constraints.minimum_workers as usize {
            return Ok(None);
        }
        self.workers.remove(place);
        self.fill(Operation::DecreaseWorker)
    }

    /// Section 7.8.
    fn taints(&mut self) -> Step {
        let current = self.input.current.expect("a round without a cluster ended");
        let wrong = current.nodes.iter().any(|node| {
            let machine = self.machine_at(node.address).expect("those without left in the first step");
            let stored = node.taints.iter().find(|taint| taint.key == "cke.cybozu.com/state");
            let stored = stored.map(|taint| (taint.value.as_str(), taint.effect.as_str()));
            stored != state_taint(machine.state)
        });
        if wrong { self.fill(Operation::TaintNodes) } else { Ok(None) }
    }

    /// Section 6.5, steps 1 and 2.
    fn fill(&mut self, operation: Operation) -> Step {
        let want = self.input.constraints.control_plane_count;
        let minimum = self.input.constraints.minimum_workers;
        while self.control_planes.len() < want as usize {
            if let Some(machine) = self.select_control_plane(Source::Unused) {
                self.unused.retain(|other| other.serial != machine.serial);
                self.control_planes.push(machine);
                continue;
            }
            let promoted =
                if self.workers.len() > minimum as usize { self.select_control_plane(Source::Workers) } else { None };
            let Some(machine) = promoted else {
                let role = self.input.template.control_plane.role.clone();
                let (purpose, have) = (Purpose::ControlPlane, self.control_planes.len());
                return Err(Answer::NoMachine { operation, purpose, role, have, want });
            };
            self.workers.retain(|other| other.serial != machine.serial);
            self.control_planes.push(machine);
        }
        while self.workers.len() < minimum as usize {
            if !self.add_worker() {
                let role = self.due().role.clone();
                let (purpose, have) = (Purpose::Worker, self.workers.len());
                return Err(Answer::NoMachine { operation, purpose, role, have, want: minimum });
            }
        }
        Ok(Some(operation))
    }

    /// Section 6.1.
    fn due(&self) -> &'a NodeTemplate {
        let mut best: Option<(f64, &NodeTemplate)> = None;
        for template in &self.input.template.workers {
            let role = template.role.clone().unwrap_or_default();
            let count = self.workers.iter().filter(|machine| machine.role.as_str() == role).count();
            let ratio = f64::from(u32::try_from(count).expect("small")) / template.weight;
            if best.is_none_or(|(smallest, _)| ratio < smallest) {
                best = Some((ratio, template));
            }
        }
        best.expect("a template has workers").1
    }

    fn worker_candidates(&self) -> Machines<'a> {
        let due = self.due();
        let fits = |machine: &&ListedMachine| {
            machine.is_healthy() && due.role.as_deref().is_none_or(|role| role == machine.role.as_str())
        };
        self.unused.iter().copied().filter(fits).collect()
    }

    fn add_worker(&mut self) -> bool {
        let due = self.due();
        let mut counted = self.workers.clone();
        counted.retain(|machine| due.role.as_deref().is_none_or(|role| role == machine.role.as_str()));
        let candidates = self.worker_candidates();
        let Some(machine) = self.best(Purpose::Worker, Source::Unused, &candidates, &counted) else { return false };
        self.unused.retain(|other| other.serial != machine.serial);
        self.workers.push(machine);
        true
    }

    fn select_control_plane(&mut self, source: Source) -> Option<&'a ListedMachine> {
        let role = self.input.template.control_plane.role.as_deref();
        let list = if source == Source::Unused { &self.unused } else { &self.workers };
        let candidates: Machines<'a> = list
            .iter()
            .copied()
            .filter(|machine| machine.is_healthy() && role.is_none_or(|role| role == machine.role.as_str()))
            .filter(|machine| !self.is_tainted(machine))
            .collect();
        let counted = self.control_planes.clone();
        self.best(Purpose::ControlPlane, source, &candidates, &counted)
    }

    fn best(
        &mut self,
        purpose: Purpose,
        source: Source,
        candidates: &[&'a ListedMachine],
        counted: &[&ListedMachine],
    ) -> Option<&'a ListedMachine> {
        let now = self.input.now;
        let mut ranking: Vec<(i64, &'a ListedMachine)> =
            candidates.iter().map(|machine| (score(machine, in_rack(counted, machine), now), *machine)).collect();
        ranking.sort_by_key(|(score, machine)| (Reverse(*score), order(machine)));
        let best = ranking.first()?.1;
        self.note(purpose, source, &ranking);
        Some(best)
    }

    fn note(&mut self, purpose: Purpose, source: Source, ranking: &[(i64, &ListedMachine)]) {
        let ranking = ranking.iter().map(|(score, machine)| (machine.serial.clone(), *score)).collect();
        self.choices.push(Choice { purpose, source, ranking });
    }

    /// Section 2.4, and the taints that the template itself gives to control planes.
    fn is_tainted(&self, machine: &ListedMachine) -> bool {
        let address = machine.address.expect("it is listed by its address");
        let template = self.input.template;
        let tolerated = |key: &str| {
            key.starts_with("node.kubernetes.io/")
                || key == "cke.cybozu.com/state"
                || key == "cke.cybozu.com/master"
                || template.tolerations.contains(key)
                || template.control_plane.taints.iter().any(|taint| taint.key == key)
        };
        let keys = self.input.taints.get(&IpAddr::V4(address));
        keys.is_some_and(|keys| keys.iter().any(|key| !tolerated(key)))
    }

    /// Section 6.5, steps 3 and 4.
    fn render(&self) -> Result<Value, Answer> {
        let template = self.input.template;
        let mut nodes: Vec<Value> =
            self.control_planes.iter().map(|machine| node(machine, &template.control_plane, true)).collect();
        for machine in &self.workers {
            let found = match template.workers.as_slice() {
                [only] => Some(only),
                several => several.iter().find(|template| template.role.as_deref() == Some(machine.role.as_str())),
            };
            let Some(found) = found else { return Err(Answer::NoTemplate(machine.serial.clone())) };
            nodes.push(node(machine, found, false));
        }
        let names: Vec<&str> = nodes.iter().map(|node| &node["hostname"]).filter_map(Value::as_str).collect();
        let names: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
        let different: BTreeSet<&str> = names.iter().copied().collect();
        if different.len() != names.len() || names.iter().any(|name| !is_name(name)) {
            return Err(Answer::Invalid);
        }
        let mut document = template.rest.clone();
        document.insert("nodes".to_owned(), Value::Array(nodes));
        Ok(Value::Object(document))
    }
}

fn in_rack(counted: &[&ListedMachine], machine: &ListedMachine) -> usize {
    counted.iter().filter(|other| other.rack == machine.rack).count()
}

/// Who comes first among equals.
fn order(machine: &ListedMachine) -> (u32, u32, Option<Ipv4Addr>, Serial) {
    (machine.rack.0, machine.index_in_rack, machine.address, machine.serial.clone())
}

/// Section 10.
fn state_taint(state: HealthState) -> Option<(&'static str, &'static str)> {
    match state {
        HealthState::Retiring => Some(("retiring", "NoExecute")),
        HealthState::Retired => Some(("retired", "NoExecute")),
        _ => None,
    }
}

/// Whether Kubernetes takes it: letters or digits, with `-` inside, in parts with `.` between.
fn is_name(text: &str) -> bool {
    let inside = |part: &str| part.chars().all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-'));
    let edges = |part: &str| !part.is_empty() && !part.starts_with('-') && !part.ends_with('-');
    text.len() <= 253 && text.split('.').all(|part| inside(part) && edges(part))
}

/// The pattern of the template, one placeholder after another.
fn hostname(machine: &ListedMachine, template: &NodeTemplate) -> String {
    let Some(pattern) = &template.hostname else { return String::new() };
    let address = machine.address.expect("it is listed by its address").to_string();
    let name = pattern.to_string().replace("{rack}", &machine.rack.0.to_string());
    let name = name.replace("{index-in-rack}", &machine.index_in_rack.to_string());
    let name = name.replace("{role}", machine.role.as_str()).replace("{serial}", machine.serial.as_str());
    let name = name.replace("{address}", &address).replace("{address-dashed}", &address.replace('.', "-"));
    name.to_lowercase()
}

/// Section 9.
fn node(machine: &ListedMachine, template: &NodeTemplate, control_plane: bool) -> Value {
    let seconds = |text: String| match (text.find('.'), text.rfind(['Z', '+', '-'])) {
        (Some(dot), Some(zone)) => format!("{}{}", &text[..dot], &text[zone..]),
        _ => text,
    };
    let (registered, retires) = (machine.register_date.to_string(), machine.retire_date.to_string());
    let mut annotations: BTreeMap<String, String> = template.annotations.clone();
    annotations.insert("cke.cybozu.com/serial".into(), machine.serial.to_string());
    annotations.insert("cke.cybozu.com/register-date".into(), seconds(registered.clone()));
    annotations.insert("cke.cybozu.com/retire-date".into(), seconds(retires.clone()));
    let mut labels = BTreeMap::new();
    for (name, value) in machine.labels.iter() {
        labels.insert(format!("sabakan.cke.cybozu.com/{name}"), value.to_string());
    }
    for (key, value) in &template.labels {
        labels.insert(key.clone(), value.clone());
    }
    let zone = format!("rack{}", machine.rack.0);
    for (key, value) in [
        ("cke.cybozu.com/rack", machine.rack.0.to_string()),
        ("cke.cybozu.com/index-in-rack", machine.index_in_rack.to_string()),
        ("cke.cybozu.com/role", machine.role.to_string()),
        ("cke.cybozu.com/register-month", registered[..7].to_owned()),
        ("cke.cybozu.com/retire-month", retires[..7].to_owned()),
        (&format!("node-role.kubernetes.io/{}", machine.role), "true".to_owned()),
        ("topology.kubernetes.io/zone", zone.clone()),
        ("failure-domain.beta.kubernetes.io/zone", zone),
    ] {
        labels.insert(key.to_owned(), value);
    }
    if control_plane {
        labels.insert("node-role.kubernetes.io/master".into(), "true".into());
        labels.insert("node-role.kubernetes.io/control-plane".into(), "true".into());
    }
    let mut taints: Vec<Value> = template
        .taints
        .iter()
        .map(|taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect.as_str()}))
        .collect();
    if let Some((value, effect)) = state_taint(machine.state) {
        taints.push(json!({"key": "cke.cybozu.com/state", "value": value, "effect": effect}));
    }
    json!({
        "address": machine.address.expect("it is listed by its address").to_string(),
        "hostname": hostname(machine, template),
        "user": template.user,
        "control_plane": control_plane,
        "annotations": annotations,
        "labels": labels,
        "taints": if taints.is_empty() { Value::Null } else { Value::Array(taints) },
    })
}
