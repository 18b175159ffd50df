//! What the commands of a repair scenario do.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use sabakan_domain::{
    lifecycle::HealthState,
    machine::Rack,
    repair::{
        enqueue::{Decision, Verdict},
        entry::{Backoff, Entry, Status, StepStatus},
        guard::{Census, Failure, SecondOpinion, Traits},
        incident::{Incident, Judgement, Phase},
        procedure::Procedures,
        queue::{Act, Next},
    },
    words::Serial,
};
use serde_json::{Value, json};

use super::{
    machinery::{Facts, Machinery, blank},
    procedures::{Operation, procedures},
    reboots::RebootFacts,
};

mod reboots;

/// Everything told so far.
pub struct Story {
    now: Timestamp,
    machines: BTreeMap<String, (Option<Ipv4Addr>, Traits)>,
    /// Broken machines in the order they were reported: who, what, since when.
    broken: Vec<(String, HealthState, Timestamp)>,
    opinions: BTreeMap<String, SecondOpinion>,
    /// `None`: there is no cluster. Otherwise who is not in it, and its control planes.
    cluster: Option<BTreeSet<String>>,
    control_planes: BTreeSet<String>,
    operations: Vec<Operation>,
    concurrent_max: usize,
    facts: Facts,
    reboots: RebootFacts,
    machinery: Machinery,
}

impl Default for Story {
    fn default() -> Story {
        Story {
            now: "2026-01-01T00:00:00Z".parse().expect("a time"),
            machines: BTreeMap::new(),
            broken: Vec::new(),
            opinions: BTreeMap::new(),
            cluster: Some(BTreeSet::new()),
            control_planes: BTreeSet::new(),
            operations: Vec::new(),
            concurrent_max: 1,
            facts: Facts::default(),
            reboots: RebootFacts::default(),
            machinery: Machinery::default(),
        }
    }
}

type Told = Result<Vec<String>, String>;

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number"))
}

/// `30s`, `10m`, `2h`, `3d`.
fn time(text: &str) -> Result<Duration, String> {
    let (count, unit) = text.split_at(text.len().saturating_sub(1));
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(format!("{text:?} is no time such as 30s, 10m, 2h or 3d")),
    };
    Ok(Duration::from_secs(number::<u64>(count)? * unit))
}

fn signed(text: &str) -> Result<SignedDuration, String> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    Ok(SignedDuration::try_from(time(text)?).map_err(|error| error.to_string())? * sign)
}

fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" | "yes" => Ok(true),
        "off" | "no" => Ok(false),
        _ => Err(format!("{text:?} is neither yes nor no")),
    }
}

fn names(text: &str) -> BTreeSet<String> {
    text.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

impl Story {
    /// Carries out one command; what it says, if it says anything.
    pub fn tell(&mut self, line: &str) -> Told {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words: Vec<&str> = rest.split_whitespace().collect();
        match (command, words.as_slice()) {
            ("look", []) => return self.round(false),
            ("round", []) => return self.round(true),
            ("next", []) => return self.pass(false),
            ("pass", []) => return self.pass(true),
            ("queue", []) => return Ok(self.show_queue()),
            ("incidents", []) => return Ok(self.show_incidents()),
            ("machine", [name, options @ ..]) => self.machine(name, options)?,
            ("rack", [rack, size]) => self.rack(number(rack)?, number(size)?)?,
            ("racks", [first, last, size]) => {
                for rack in number::<u32>(first)?..=number(last)? {
                    self.rack(rack, number(size)?)?;
                }
            }
            ("report", [who, state, options @ ..]) => self.report(who, state, options)?,
            ("steps", [machine_type, name, ..]) => self.steps(machine_type, name, rest)?,
            ("entry", [name, options @ ..]) => self.entry(name, options)?,
            ("reboot", [name, status, options @ ..]) => self.reboot(name, status, options)?,
            ("next-reboot", []) => return self.pass_reboots(false),
            ("pass-reboot", []) => return self.pass_reboots(true),
            ("reboots", []) => return Ok(self.show_reboots()),
            ("acknowledge", [number, ..]) => self.acknowledge(self::number(number)?, rest)?,
            ("delete", [index]) => {
                let entry = self.machinery.entries.get_mut(&number(index)?).ok_or("there is no such entry")?;
                entry.deleted = true;
            }
            _ => self.set(command, rest)?,
        }
        Ok(Vec::new())
    }

    /// Commands that set one thing.
    fn set(&mut self, command: &str, rest: &str) -> Result<(), String> {
        let settings = &mut self.machinery.settings;
        match command {
            "time" => self.now = rest.parse().map_err(|_| format!("{rest:?} is no time"))?,
            "wait" => self.now += signed(rest)?,
            "guard" => settings.guard.enabled = switch(rest)?,
            "enabled" => settings.enabled = switch(rest)?,
            "maximum-repair-queue-entries" => settings.entries_max = number(rest)?,
            "wait-to-repair-rebooting" => settings.wait_rebooting = time(rest)?,
            "finished-count" => settings.finished_counts = if rest == "ever" { None } else { Some(time(rest)?) },
            "max-concurrent-repairs" => self.concurrent_max = number(rest)?,
            "no-steps" => self.operations.clear(),
            "no-cluster" => self.cluster = None,
            "out-of-cluster" => self.cluster = Some(names(rest)),
            "control-planes" => self.control_planes = names(rest),
            "etcd-good" => self.facts.blocked = (!switch(rest)?).then(|| "etcd is not in order".to_owned()),
            "blocked" => self.facts.blocked = Some(rest.to_owned()),
            "healthy" => self.facts.healthy = self.addresses(rest)?,
            "drained" => self.facts.drained = self.addresses(rest)?,
            "cordoned" => self.machinery.cordoned = self.addresses(rest)?,
            _ => return self.set_reboots(command, rest),
        }
        Ok(())
    }

    fn address(&self, name: &str) -> Result<Ipv4Addr, String> {
        let (address, _) = self.machines.get(name).ok_or_else(|| format!("there is no machine {name:?}"))?;
        address.ok_or_else(|| format!("machine {name} has no address"))
    }

    fn addresses(&self, list: &str) -> Result<BTreeSet<Ipv4Addr>, String> {
        names(list).iter().map(|name| self.address(name)).collect()
    }

    fn name(&self, address: Ipv4Addr) -> &str {
        let found = self.machines.iter().find(|(_, (known, _))| *known == Some(address));
        found.map_or("?", |(name, _)| name)
    }

    fn machine(&mut self, name: &str, options: &[&str]) -> Result<(), String> {
        let next = u32::try_from(self.machines.len()).unwrap_or(0) + 1;
        let mut address = Some(Ipv4Addr::from(0x0a00_0000 + next));
        let mut traits = Traits {
            rack: Rack(0),
            role: "cs".into(),
            machine_type: "type1".into(),
            version: None,
            power_domain: None,
        };
        for option in options {
            match option.split_once('=').ok_or_else(|| format!("{option:?} says nothing about a machine"))? {
                ("address", "none") => address = None,
                ("address", other) => address = Some(self.address(other)?),
                ("rack", rack) => traits.rack = Rack(number(rack)?),
                ("role", role) => traits.role = role.to_owned(),
                ("type", machine_type) => traits.machine_type = machine_type.to_owned(),
                ("version", version) => traits.version = Some(version.to_owned()),
                ("power", domain) => traits.power_domain = Some(domain.to_owned()),
                _ => return Err(format!("{option:?} says nothing about a machine")),
            }
        }
        self.machines.insert(name.to_owned(), (address, traits));
        Ok(())
    }

    fn rack(&mut self, rack: u32, size: u32) -> Result<(), String> {
        for place in 1..=size {
            self.machine(&format!("r{rack}-{place:02}"), &[&format!("rack={rack}")])?;
        }
        Ok(())
    }

    /// Machines by name; `r7-*` are those of a rack, `r7-01..05` some of them, `*` all.
    fn chosen(&self, who: &str) -> Result<Vec<String>, String> {
        if let Some(prefix) = who.strip_suffix('*') {
            return Ok(self.machines.keys().filter(|name| name.starts_with(prefix)).cloned().collect());
        }
        let Some((first, last)) = who.split_once("..") else {
            return Ok(who.split(',').map(str::to_owned).collect());
        };
        let (rack, _) = first.split_once('-').ok_or("a range is r7-01..05")?;
        let (first, last) = (first.to_owned(), format!("{rack}-{last}"));
        Ok(self.machines.range(first..=last).map(|(name, _)| name.clone()).collect())
    }

    /// `report r7-* unreachable 5m bmc=yes lease=no`.
    fn report(&mut self, who: &str, state: &str, options: &[&str]) -> Result<(), String> {
        let state: HealthState = state.parse().map_err(|_| format!("{state:?} is no state"))?;
        let (mut since, mut opinion) = (self.now, SecondOpinion::default());
        for option in options {
            match option.split_once('=') {
                Some(("bmc", answer)) => opinion.bmc_answers = Some(switch(answer)?),
                Some(("lease", answer)) => opinion.lease_renewed = Some(switch(answer)?),
                Some(_) => return Err(format!("{option:?} says nothing about a report")),
                None => since = self.now - signed(option)?,
            }
        }
        for name in self.chosen(who)? {
            if !self.machines.contains_key(&name) {
                return Err(format!("there is no machine {name:?}"));
            }
            self.broken.retain(|(other, ..)| *other != name);
            self.opinions.insert(name.clone(), opinion);
            if state != HealthState::Healthy {
                self.broken.push((name, state, since));
            }
        }
        Ok(())
    }

    /// `steps type1 unhealthy reset watch=600s; drain shutdown`: what is tried, in order.
    fn steps(&mut self, machine_type: &str, name: &str, rest: &str) -> Result<(), String> {
        let text = rest.splitn(3, ' ').nth(2).unwrap_or_default();
        let mut steps: Vec<Value> = Vec::new();
        for step in text.split(';').map(str::trim) {
            let mut members = json!({});
            for word in step.split_whitespace() {
                match word.split_once('=') {
                    Some(("watch", value)) => members["watch_seconds"] = json!(time(value)?.as_secs()),
                    Some(_) => return Err(format!("{word:?} says nothing about a step")),
                    None if word == "drain" => members["need_drain"] = json!(true),
                    None => members["repair_command"] = json!([word]),
                }
            }
            steps.push(members);
        }
        self.operations.retain(|known| (known.machine_type.as_str(), known.name.as_str()) != (machine_type, name));
        self.operations.push(Operation { machine_type: machine_type.to_owned(), name: name.to_owned(), steps });
        Ok(())
    }

    /// `entry n4 processing draining step=1 for=300s`.
    fn entry(&mut self, name: &str, options: &[&str]) -> Result<(), String> {
        let (_, traits) = self.machines.get(name).ok_or_else(|| format!("there is no machine {name:?}"))?;
        let mut entry = blank(self.address(name)?, traits.machine_type.clone(), "op1".to_owned(), self.now);
        for option in options {
            match option.split_once('=') {
                Some(("type", machine_type)) => entry.machine_type = machine_type.to_owned(),
                Some(("operation", operation)) => entry.operation = operation.to_owned(),
                Some(("step", step)) => entry.step = number(step)?,
                Some(("for", since)) => entry.changed_at = Some(self.now - signed(since)?),
                Some(("backoff", until)) => {
                    entry.backoff = Backoff { count: 1, until: Some(self.now + signed(until)?) };
                }
                Some(_) => return Err(format!("{option:?} says nothing about an entry")),
                None if *option == "deleted" => entry.deleted = true,
                None if *option == "automatic" => entry.serial = Some(serial(name)?),
                None => match (Status::parse(option), StepStatus::parse(option)) {
                    (Some(status), _) => entry.status = status,
                    (_, Some(status)) => entry.step_status = status,
                    _ => return Err(format!("{option:?} says nothing about an entry")),
                },
            }
        }
        self.machinery.add(entry);
        Ok(())
    }

    fn acknowledge(&mut self, number: u64, reason: &str) -> Result<(), String> {
        let found =
            self.machinery.incidents.iter_mut().find(|incident| incident.number == number && incident.is_open());
        let incident = found.ok_or("there is no such open incident")?;
        incident.phase = Phase::Acknowledged { by: "operator".into(), at: self.now, reason: reason.to_owned() };
        Ok(())
    }

    fn procedures(&self) -> Procedures {
        procedures(&self.operations, self.concurrent_max)
    }

    fn failures(&self) -> Result<Vec<Failure>, String> {
        let failure = |(name, state, since): &(String, HealthState, Timestamp)| {
            let (address, traits) = &self.machines[name];
            let age = Duration::try_from(self.now.duration_since(*since)).unwrap_or_default();
            let opinion = self.opinions[name];
            let (address, traits) = (*address, traits.clone());
            Ok(Failure {
                serial: serial(name)?,
                address,
                state: *state,
                age,
                broken_before: Duration::ZERO,
                traits,
                opinion,
                hands_off: None,
            })
        };
        self.broken.iter().map(failure).collect()
    }

    fn judgement(&self, failures: &[Failure]) -> Judgement {
        let census = Census::of(self.machines.values().map(|(_, traits)| traits));
        self.machinery.judge(failures, &census, self.now)
    }

    /// Nodes, and whether each is a control plane.
    fn nodes(&self) -> BTreeMap<Ipv4Addr, bool> {
        let Some(outside) = &self.cluster else { return BTreeMap::new() };
        let inside = self.machines.iter().filter(|(name, _)| !outside.contains(*name));
        inside.filter_map(|(name, (address, _))| Some(((*address)?, self.control_planes.contains(name)))).collect()
    }

    fn round(&mut self, done: bool) -> Told {
        let failures = self.failures()?;
        let judgement = self.judgement(&failures);
        let nodes: BTreeSet<Ipv4Addr> = self.nodes().into_keys().collect();
        let cluster = self.cluster.is_some().then_some(&nodes);
        let decision = self.machinery.decide(&failures, &judgement, cluster, &self.procedures(), self.now);
        if done {
            self.machinery.put_round(&failures, &judgement, &decision, self.now);
        }
        Ok(show_round(&judgement, &decision))
    }

    fn pass(&mut self, done: bool) -> Told {
        let judgement = self.judgement(&self.failures()?);
        self.facts.nodes = self.nodes();
        let next = self.machinery.next(&self.facts, &judgement, &self.procedures(), self.now);
        let shown = self.show_next(&next);
        if done {
            self.machinery.cordoned.retain(|address| !next.uncordon.contains(address));
            let procedures = self.procedures();
            for (index, act) in &next.acts {
                self.machinery.put(*index, act, &procedures, self.now, 0);
            }
        }
        Ok(shown)
    }

    fn show_next(&self, next: &Next) -> Vec<String> {
        let who = |index: &u64| self.name(self.machinery.entries[index].address);
        let mut lines: Vec<String> =
            next.uncordon.iter().map(|address| format!("uncordon {}", self.name(*address))).collect();
        for (index, act) in &next.acts {
            let act = match act {
                Act::Remove => "remove".to_owned(),
                Act::Finish { healthy: true, because } => format!("succeeded: {because}"),
                Act::Finish { healthy: false, because } => format!("failed: {because}"),
                Act::StartDrain { step } => format!("drain, before step {step}"),
                Act::GiveUpDrain { because } => format!("give up the drain: {because}"),
                Act::WatchAgain => "watch again".to_owned(),
                Act::Execute { step } => format!("execute step {step}"),
            };
            lines.push(format!("{} {act}", who(index)));
        }
        if lines.is_empty() {
            lines.push("nothing is done".to_owned());
        }
        lines.push(format!("reboots {}", if next.active { "wait" } else { "may go on" }));
        lines.extend(next.waits.iter().map(|(index, reason)| format!("{}: {reason}", who(index))));
        lines
    }

    fn show_queue(&self) -> Vec<String> {
        let show = |entry: &Entry| {
            let Entry { index, address, operation, status, step, step_status, backoff, .. } = entry;
            let pause = backoff.until.map(|until| format!(", not before {until}")).unwrap_or_default();
            let name = self.name(*address);
            format!("{index} {name} {operation}: {status}/{}, step {step}{pause}", step_status.as_str())
        };
        let lines: Vec<String> = self.machinery.entries.values().map(show).collect();
        if lines.is_empty() { vec!["empty".to_owned()] } else { lines }
    }

    fn show_incidents(&self) -> Vec<String> {
        let show = |incident: &Incident| {
            let Incident { number, group, because, members, phase, .. } = incident;
            format!("{number} {group}: {}, {} machines: {because}", phase.as_str(), members.len())
        };
        let lines: Vec<String> = self.machinery.incidents.iter().map(show).collect();
        if lines.is_empty() { vec!["none".to_owned()] } else { lines }
    }
}

fn serial(name: &str) -> Result<Serial, String> {
    Serial::new(name).map_err(|error| error.to_string())
}

fn show_round(judgement: &Judgement, decision: &Decision) -> Vec<String> {
    let Decision { enqueue, verdicts, entries, max, finished, needed: _ } = decision;
    let new: Vec<&str> = enqueue.iter().map(|new| new.serial.as_ref().map_or("?", Serial::as_str)).collect();
    let first = if new.is_empty() { "nothing is enqueued".to_owned() } else { format!("enqueued: {}", new.join(", ")) };
    let mut lines = vec![first, format!("{entries} of {max} entries, {finished} of them finished")];
    lines.extend(judgement.opened.iter().map(|found| format!("incident: {found}")));
    lines.extend(judgement.recovered.iter().map(|number| format!("incident {number} is over")));
    let others = verdicts.iter().filter(|(_, verdict)| *verdict != Verdict::Enqueue);
    lines.extend(others.map(|(serial, verdict)| format!("{serial}: {verdict}")));
    lines
}
