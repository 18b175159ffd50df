//! What the commands of a scenario do.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
};

use jiff::{SignedDuration, Timestamp};
use sabakan_domain::{
    cluster::{
        config::Configuration,
        constraints::Constraints,
        input::{ListedMachine, LiveTaints},
        plan::{Outcome, Plan, regenerate_only},
        template::Template,
    },
    lifecycle::HealthState,
    machine::{Labels, Rack},
    time::Moment,
};
use serde_json::{Value, json};

use super::show;
use crate::cluster::{
    slow::Choice,
    world::{World, state_taint, stored_node},
};

/// Everything told so far.
pub struct Story {
    now: Timestamp,
    /// Every machine ever mentioned, by name.
    machines: BTreeMap<String, ListedMachine>,
    /// Those that the registry does not list.
    away: BTreeSet<String>,
    /// Addresses by name; nodes need not have a machine.
    pub addresses: BTreeMap<String, Ipv4Addr>,
    control_plane: Value,
    workers: Vec<Value>,
    tolerations: Vec<String>,
    template_changed: bool,
    constraints: Constraints,
    current: Option<Configuration>,
    taints: LiveTaints,
    /// The last plan, and everybody who was ranked in it.
    last: Option<(World, Plan, Vec<Choice>)>,
}

impl Default for Story {
    fn default() -> Story {
        Story {
            now: "2024-01-01T00:00:00Z".parse().expect("a time"),
            machines: BTreeMap::new(),
            away: BTreeSet::new(),
            addresses: BTreeMap::new(),
            control_plane: json!({"user": "cybozu", "control_plane": true}),
            workers: Vec::new(),
            tolerations: Vec::new(),
            template_changed: false,
            constraints: Constraints::default(),
            current: None,
            taints: LiveTaints::new(),
            last: None,
        }
    }
}

type Told = Result<Vec<String>, String>;

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number"))
}

impl Story {
    /// Carries out one command; what it says, if it says anything.
    pub fn tell(&mut self, line: &str) -> Told {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        let words: Vec<&str> = rest.split_whitespace().collect();
        match (command, words.as_slice()) {
            ("time", [time]) => self.now = time.parse().map_err(|error| format!("{time}: {error}"))?,
            ("wait", [seconds]) => self.wait(number(seconds.trim_end_matches('s'))?),
            ("template", []) => (self.workers, self.control_plane) = (Vec::new(), Story::default().control_plane),
            ("template", ["changed"]) => self.template_changed = true,
            ("control-plane", words) => self.control_plane = node_template(words, true)?,
            ("worker", words) => self.workers.push(node_template(words, false)?),
            ("tolerate", [key]) => self.tolerations.push((*key).to_owned()),
            ("machine", [name, words @ ..]) => self.machine(name, words)?,
            ("rack", [rack, words @ ..]) => self.rack(number(rack)?, words)?,
            ("list", [names]) => self.list(&names.split(',').collect::<Vec<_>>()),
            ("cluster", _) => self.cluster(rest)?,
            ("stored-taint", [name, value]) => self.stored_taint(name, value)?,
            ("taint", [name, keys @ ..]) => {
                let address = IpAddr::V4(self.address(name));
                self.taints.insert(address, keys.iter().map(|key| (*key).to_owned()).collect());
            }
            ("constraints", [all]) => self.constrain(all)?,
            ("constraint", [name, value]) => {
                self.constraints = self.constraints.with(name, number(value)?).map_err(|error| error.to_string())?;
            }
            ("check", []) => return Ok(self.check()),
            ("plan", []) => return self.plan(),
            ("round", []) => return self.round(),
            ("take-over", []) => return self.take_over(),
            ("choices" | "rules" | "racks" | "totals", []) => return self.show(command, ""),
            ("standing" | "node", [name]) => return self.show(command, name),
            _ => return Err(format!("unknown command {line:?}")),
        }
        Ok(Vec::new())
    }

    fn wait(&mut self, seconds: u32) {
        self.now += SignedDuration::from_secs(i64::from(seconds));
        for machine in self.machines.values_mut() {
            machine.seconds_in_state += f64::from(seconds);
        }
    }

    /// The address of a machine, or one that no machine has.
    fn address(&mut self, name: &str) -> Ipv4Addr {
        let next = u8::try_from(self.addresses.len()).expect("few names");
        *self.addresses.entry(name.to_owned()).or_insert(Ipv4Addr::new(10, 255, 0, next))
    }

    fn machine(&mut self, name: &str, words: &[&str]) -> Result<(), String> {
        let mut machine = match self.machines.remove(name) {
            Some(machine) => machine,
            None => self.new_machine(name)?,
        };
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match (key, value) {
                ("address", "none") => machine.address = None,
                ("address", _) => machine.address = Some(value.parse().map_err(|_| format!("{value:?}: no address"))?),
                ("rack", _) => machine.rack = Rack(number(value)?),
                ("index", _) => machine.index_in_rack = number(value)?,
                ("role", _) => machine.role = value.parse().map_err(|_| format!("{value:?}: no role"))?,
                ("days", _) => machine.retire_date = Moment::from(self.now + days(number(value)?)),
                ("retires", _) => machine.retire_date = moment(value)?,
                ("registered", _) => machine.register_date = moment(value)?,
                ("for", _) => machine.seconds_in_state = number(value.trim_end_matches('s'))?,
                ("label", _) => {
                    let pair = value.split_once('=').ok_or_else(|| format!("{word:?}: label=NAME=VALUE"))?;
                    machine.labels = Labels::new([pair]).map_err(|error| error.to_string())?;
                }
                ("gone", "") => drop(self.away.insert(name.to_owned())),
                ("back", "") => drop(self.away.remove(name)),
                (state, "") => machine.state = state.parse().map_err(|_| format!("{state:?}: no state"))?,
                _ => return Err(format!("{word:?}: unknown")),
            }
        }
        if let Some(address) = machine.address {
            self.addresses.insert(name.to_owned(), address);
        }
        self.machines.insert(name.to_owned(), machine);
        Ok(())
    }

    fn new_machine(&self, name: &str) -> Result<ListedMachine, String> {
        let place = u16::try_from(self.machines.len() + 1).map_err(|_| "too many machines".to_owned())?;
        let [high, low] = place.to_be_bytes();
        Ok(ListedMachine {
            serial: name.parse().map_err(|error| format!("{name}: {error}"))?,
            labels: Labels::default(),
            rack: Rack(0),
            index_in_rack: u32::from(place),
            role: "cs".parse().expect("a role"),
            address: Some(Ipv4Addr::new(10, 0, high, low)),
            register_date: moment("2018-01-31")?,
            retire_date: Moment::from(self.now),
            state: HealthState::Healthy,
            machine_type: String::new(),
            seconds_in_state: 600.0,
        })
    }

    /// `rack 0 18 cs 10 ss` fills a rack, `rack 0 unhealthy` and `rack 0 gone` are about all of its machines.
    fn rack(&mut self, rack: u32, words: &[&str]) -> Result<(), String> {
        if let [all] = words {
            let there = |(_, machine): &(&String, &ListedMachine)| machine.rack == Rack(rack);
            let names: Vec<String> = self.machines.iter().filter(there).map(|(name, _)| name.clone()).collect();
            return names.iter().try_for_each(|name| self.machine(name, &[all]));
        }
        for pair in words.chunks(2) {
            let [count, role] = pair else { return Err("rack NUMBER COUNT ROLE...".to_owned()) };
            for n in 1..=number::<u32>(count)? {
                let place = [format!("rack={rack}"), format!("role={role}"), format!("index={n}")];
                let place: Vec<&str> = place.iter().map(String::as_str).collect();
                self.machine(&format!("r{rack}-{role}-{n:02}"), &place)?;
            }
        }
        Ok(())
    }

    fn list(&mut self, names: &[&str]) {
        self.away = self.machines.keys().filter(|name| !names.contains(&name.as_str())).cloned().collect();
    }

    fn cluster(&mut self, text: &str) -> Result<(), String> {
        if text == "none" {
            self.current = None;
            return Ok(());
        }
        let (control_planes, workers) = text.split_once(';').ok_or("cluster CONTROL,PLANES; WORK,ERS")?;
        let mut nodes = Vec::new();
        for (list, control_plane) in [(control_planes, true), (workers, false)] {
            for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                let state = self.machines.get(name).map(|machine| machine.state);
                nodes.push(stored_node(self.address(name), control_plane, state));
            }
        }
        self.current = Some(Configuration { nodes, rest: serde_json::Map::new() });
        Ok(())
    }

    fn stored_taint(&mut self, name: &str, value: &str) -> Result<(), String> {
        let address = IpAddr::V4(self.address(name));
        let nodes = self.current.iter_mut().flat_map(|current| &mut current.nodes);
        let node = nodes.into_iter().find(|node| node.address == address).ok_or("no such node")?;
        node.taints = if value == "none" { Vec::new() } else { vec![state_taint(value)] };
        Ok(())
    }

    /// `3/5/0`: control planes, minimum, maximum.
    fn constrain(&mut self, all: &str) -> Result<(), String> {
        let values: Vec<u32> = all.split('/').map(number).collect::<Result<_, _>>()?;
        let [control_plane_count, minimum_workers, maximum_workers] = values[..] else {
            return Err("constraints COUNT/MINIMUM/MAXIMUM".to_owned());
        };
        self.constraints = Constraints { control_plane_count, minimum_workers, maximum_workers, ..self.constraints };
        Ok(())
    }

    fn template(&self) -> Result<Template, Vec<String>> {
        let nodes: Vec<&Value> = std::iter::once(&self.control_plane).chain(&self.workers).collect();
        let document = json!({
            "name": "cluster",
            "service_subnet": "10.68.0.0/16",
            "control_plane_tolerations": self.tolerations,
            "nodes": nodes,
        });
        Template::parse(document).map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    /// What is wrong with the template and the constraints.
    fn check(&self) -> Vec<String> {
        let mut said: Vec<String> = Vec::new();
        said.extend(self.template().err().unwrap_or_default().into_iter().map(|text| format!("template: {text}")));
        said.extend(self.constraints.check().iter().map(|problem| format!("constraints: {problem}")));
        said.extend(self.constraints.warnings().iter().map(|problem| format!("warning: {problem}")));
        if said.is_empty() { vec!["ok".to_owned()] } else { said }
    }

    fn world(&self) -> Result<World, String> {
        let listed = self.machines.iter().filter(|(name, _)| !self.away.contains(*name));
        Ok(World {
            machines: listed.map(|(_, machine)| machine.clone()).collect(),
            template: self.template().map_err(|problems| problems.join("; "))?,
            template_changed: self.template_changed,
            constraints: self.constraints,
            current: self.current.clone(),
            taints: self.taints.clone(),
            now: self.now,
        })
    }

    fn plan(&mut self) -> Told {
        let world = self.world()?;
        let (plan, choices) = world.plan();
        let said = show::plan(self, &world, &plan);
        self.last = Some((world, plan, choices));
        Ok(said)
    }

    fn round(&mut self) -> Told {
        let said = self.plan()?;
        self.store();
        Ok(said)
    }

    /// The first round of a new leader.
    fn take_over(&mut self) -> Told {
        let world = self.world()?;
        let plan = regenerate_only(world.input());
        let said = show::plan(self, &world, &plan);
        self.last = Some((world, plan, Vec::new()));
        self.store();
        Ok(said)
    }

    fn store(&mut self) {
        if let Some((_, Plan { outcome: Outcome::Change(made), .. }, _)) = &self.last {
            self.current = Some(made.configuration.clone());
            self.template_changed = false;
        }
    }

    fn show(&self, command: &str, name: &str) -> Told {
        let (world, plan, choices) = self.last.as_ref().ok_or("nothing was planned yet")?;
        let after = plan.outcome.made().map(|made| &made.configuration).or(world.current.as_ref());
        let after = after.ok_or("there is no cluster");
        match command {
            "choices" => Ok(show::choices(plan, choices)),
            "rules" => Ok(show::rules(plan)),
            "racks" => Ok(show::racks(world, after?)),
            "totals" => Ok(vec![show::totals(&plan.report.totals)]),
            "standing" => show::standing(plan, name),
            _ => show::node(after?, *self.addresses.get(name).ok_or("no such machine")?),
        }
    }
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

/// A date, or a time with its offset.
fn moment(text: &str) -> Result<Moment, String> {
    let whole = if text.contains('T') { text.to_owned() } else { format!("{text}T00:00:00Z") };
    whole.parse().map_err(|error| format!("{error}"))
}

fn node_template(words: &[&str], control_plane: bool) -> Result<Value, String> {
    let (mut labels, mut annotations, mut taints) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let mut hostname = "";
    for word in words {
        match word.split_once('=').ok_or_else(|| format!("{word:?}: KEY=VALUE"))? {
            ("role", role) => drop(labels.insert("cke.cybozu.com/role", role)),
            ("weight", weight) => drop(labels.insert("cke.cybozu.com/weight", weight)),
            ("taint", key) => taints.push(json!({"key": key, "value": "", "effect": "NoSchedule"})),
            ("label", pair) => labels.extend(pair.split_once('=')),
            ("annotation", pair) => annotations.extend(pair.split_once('=')),
            ("hostname", pattern) => hostname = pattern,
            _ => return Err(format!("{word:?}: unknown")),
        }
    }
    let mut node = json!({"user": "cybozu", "control_plane": control_plane, "labels": labels, "taints": taints});
    node["annotations"] = json!(annotations);
    node["hostname"] = json!(hostname);
    Ok(node)
}
