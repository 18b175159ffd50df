//! Automatic repair: `/api/v1/auto-repair/…`, `/api/v1/repair-queue`, `/api/v1/reboot-queue` and `/api/v1/incidents`.

use std::collections::BTreeMap;

use sabakan_wire::rest::{
    cluster::{EnabledJson, VariablesJson, WarningsJson},
    paths,
    repair::{
        AcknowledgeJson, IncidentJson, IncidentSummaryJson, IndexesJson, NewRepairJson, RebootEntryJson,
        RepairEntryJson, RepairExplanationJson, RepairStatusJson, SettingJson,
    },
};

use crate::{
    client::Client,
    cluster::Sent,
    error::Error,
    machines::{one, two},
};

/// A part of repair that can be switched off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairSwitch {
    /// Broken machines come into the repair queue by themselves.
    Automatic,
    /// Repairs are begun.
    RepairQueue,
    /// Reboots are begun.
    RebootQueue,
}

impl RepairSwitch {
    fn path(self) -> String {
        match self {
            RepairSwitch::Automatic => paths::AUTO_REPAIR_ENABLED.to_owned(),
            RepairSwitch::RepairQueue => one(paths::REPAIR_QUEUE, "enabled"),
            RepairSwitch::RebootQueue => one(paths::REBOOT_QUEUE, "enabled"),
        }
    }
}

/// What is done with many entries of the repair queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepairSweep {
    /// Those that have ended go.
    DeleteFinished,
    /// All others are cancelled.
    DeleteUnfinished,
    /// Drains that failed are tried at once.
    ResetBackoff,
}

impl Client {
    /// Whether a part of repair works.
    pub fn repair_enabled(&self, switch: RepairSwitch) -> Result<Sent<EnabledJson>, Error> {
        self.get_sent(&switch.path(), &[])
    }

    /// Has a part of repair work, or not.
    pub fn set_repair_enabled(&self, switch: RepairSwitch, enabled: bool) -> Result<Sent<EnabledJson>, Error> {
        let path = switch.path();
        self.sent(&path, self.exchange_json("PUT", &path, &EnabledJson { enabled })?)
    }

    /// Which machines count as broken.
    pub fn repair_variables(&self) -> Result<Sent<VariablesJson>, Error> {
        self.get_sent(paths::AUTO_REPAIR_VARIABLES, &[])
    }

    /// Says which machines count as broken. The text is kept byte for byte.
    pub fn put_repair_variables(&self, text: &[u8]) -> Result<Sent<WarningsJson>, Error> {
        self.exchange_sent("PUT", paths::AUTO_REPAIR_VARIABLES, "application/json", text)
    }

    /// Lets those count as broken that do by default.
    pub fn reset_repair_variables(&self) -> Result<Sent<WarningsJson>, Error> {
        self.sent(paths::AUTO_REPAIR_VARIABLES, self.delete(paths::AUTO_REPAIR_VARIABLES)?)
    }

    /// What an operator chose, and could choose.
    pub fn repair_settings(&self) -> Result<Sent<Vec<SettingJson>>, Error> {
        self.get_sent(paths::AUTO_REPAIR_SETTINGS, &[])
    }

    /// Changes settings, all of the given ones or none.
    pub fn set_repair_settings(&self, values: &BTreeMap<String, String>) -> Result<Sent<WarningsJson>, Error> {
        let path = paths::AUTO_REPAIR_SETTINGS;
        self.sent(path, self.exchange_json("PUT", path, values)?)
    }

    /// Changes one setting.
    pub fn set_repair_setting(&self, name: &str, value: &str) -> Result<Sent<WarningsJson>, Error> {
        let path = one(paths::AUTO_REPAIR_SETTINGS, name);
        self.sent(&path, self.exchange_json("PUT", &path, &value)?)
    }

    /// How repair is doing, with at most so many broken machines by name.
    pub fn repair_status(&self, machines: usize) -> Result<Sent<RepairStatusJson>, Error> {
        self.get_sent(paths::AUTO_REPAIR_STATUS, &[("machines".to_owned(), machines.to_string())])
    }

    /// Why a machine is, or is not, being repaired.
    pub fn explain_repair(&self, serial: &str) -> Result<Sent<RepairExplanationJson>, Error> {
        self.get_sent(&one(paths::AUTO_REPAIR_EXPLAIN, serial), &[])
    }

    /// Every entry of the repair queue, by index.
    pub fn repairs(&self) -> Result<Sent<Vec<RepairEntryJson>>, Error> {
        self.get_sent(paths::REPAIR_QUEUE, &[])
    }

    /// One entry of the repair queue.
    pub fn repair(&self, index: u64) -> Result<Sent<RepairEntryJson>, Error> {
        self.get_sent(&one(paths::REPAIR_QUEUE, &index.to_string()), &[])
    }

    /// Asks for a repair.
    pub fn add_repair(&self, wish: &NewRepairJson) -> Result<Sent<RepairEntryJson>, Error> {
        self.sent(paths::REPAIR_QUEUE, self.exchange_json("POST", paths::REPAIR_QUEUE, wish)?)
    }

    /// Clears a repair that has ended, cancels any other.
    pub fn delete_repair(&self, index: u64) -> Result<Sent<IndexesJson>, Error> {
        let path = one(paths::REPAIR_QUEUE, &index.to_string());
        self.sent(&path, self.delete(&path)?)
    }

    /// Does something with every repair it concerns; which.
    pub fn sweep_repairs(&self, sweep: RepairSweep) -> Result<Sent<IndexesJson>, Error> {
        let name = match sweep {
            RepairSweep::DeleteFinished => "delete-finished",
            RepairSweep::DeleteUnfinished => "delete-unfinished",
            RepairSweep::ResetBackoff => "reset-backoff",
        };
        self.post_sent(&one(paths::REPAIR_QUEUE, name))
    }

    /// Every entry of the reboot queue, by index.
    pub fn reboots(&self) -> Result<Sent<Vec<RebootEntryJson>>, Error> {
        self.get_sent(paths::REBOOT_QUEUE, &[])
    }

    /// Asks for reboots, all of them or none: an object with `nodes`, or a text with one address in each line.
    pub fn add_reboots(&self, nodes: &[u8]) -> Result<Sent<IndexesJson>, Error> {
        self.exchange_sent("POST", paths::REBOOT_QUEUE, "text/plain", nodes)
    }

    /// Cancels a reboot.
    pub fn cancel_reboot(&self, index: u64) -> Result<Sent<IndexesJson>, Error> {
        let path = one(paths::REBOOT_QUEUE, &index.to_string());
        self.sent(&path, self.delete(&path)?)
    }

    /// Cancels every reboot; which.
    pub fn cancel_reboots(&self) -> Result<Sent<IndexesJson>, Error> {
        self.post_sent(&one(paths::REBOOT_QUEUE, "cancel-all"))
    }

    /// Lets drains before reboots that failed be tried at once; of which entries.
    pub fn reset_reboot_backoff(&self) -> Result<Sent<IndexesJson>, Error> {
        self.post_sent(&one(paths::REBOOT_QUEUE, "reset-backoff"))
    }

    /// What failed together, the newest first.
    pub fn incidents(&self, open: bool) -> Result<Sent<Vec<IncidentSummaryJson>>, Error> {
        let open = open.then(|| ("open".to_owned(), "true".to_owned()));
        self.get_sent(paths::INCIDENTS, open.as_slice())
    }

    /// One incident, with its machines.
    pub fn incident(&self, number: u64) -> Result<Sent<IncidentJson>, Error> {
        self.get_sent(&one(paths::INCIDENTS, &number.to_string()), &[])
    }

    /// Says that a person has looked: the machines may be repaired.
    pub fn acknowledge_incident(&self, number: u64, reason: &str) -> Result<Sent<IncidentSummaryJson>, Error> {
        let path = two(paths::INCIDENTS, &number.to_string(), "acknowledge");
        let wish = AcknowledgeJson { reason: reason.to_owned() };
        self.sent(&path, self.exchange_json("POST", &path, &wish)?)
    }

    fn post_sent(&self, path: &str) -> Result<Sent<IndexesJson>, Error> {
        self.exchange_sent("POST", path, "application/json", b"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    fn check(answer: &'static str, ask: impl FnOnce(&Client) -> Result<String, Error>, line: &str, end: &str) {
        let (url, request) = fake::answer(200, answer);
        assert_eq!(ask(&Client::new(&url).unwrap()).unwrap(), answer);
        let request = request.join().unwrap();
        assert!(request.starts_with(&format!("{line} HTTP/1.1\r\n")), "{request}");
        assert!(request.ends_with(&format!("\r\n\r\n{end}")), "{request}");
    }

    #[test]
    fn every_switch_has_its_path() {
        for (switch, path) in [
            (RepairSwitch::Automatic, "/api/v1/auto-repair/enabled"),
            (RepairSwitch::RepairQueue, "/api/v1/repair-queue/enabled"),
            (RepairSwitch::RebootQueue, "/api/v1/reboot-queue/enabled"),
        ] {
            let answer = r#"{"enabled":false}"#;
            let set = |client: &Client| client.set_repair_enabled(switch, false).map(|sent| sent.text);
            check(answer, set, &format!("PUT {path}"), answer);
            let get = |client: &Client| client.repair_enabled(switch).map(|sent| sent.text);
            check(answer, get, &format!("GET {path}"), "");
        }
    }

    #[test]
    fn what_is_asked_stands_in_path_and_body() {
        let indexes = r#"{"indexes":["3"]}"#;
        let delete = |client: &Client| client.delete_repair(3).map(|sent| sent.text);
        check(indexes, delete, "DELETE /api/v1/repair-queue/3", "");
        for (sweep, name) in [
            (RepairSweep::DeleteFinished, "delete-finished"),
            (RepairSweep::DeleteUnfinished, "delete-unfinished"),
            (RepairSweep::ResetBackoff, "reset-backoff"),
        ] {
            let ask = |client: &Client| client.sweep_repairs(sweep).map(|sent| sent.text);
            check(indexes, ask, &format!("POST /api/v1/repair-queue/{name}"), "");
        }
        let add = |client: &Client| client.add_reboots(b"10.0.0.1\n").map(|sent| sent.text);
        check(indexes, add, "POST /api/v1/reboot-queue", "10.0.0.1\n");
        let cancel = |client: &Client| client.cancel_reboots().map(|sent| sent.text);
        check(indexes, cancel, "POST /api/v1/reboot-queue/cancel-all", "");
        check("[]", |client| client.incidents(true).map(|sent| sent.text), "GET /api/v1/incidents?open=true", "");
        check("[]", |client| client.incidents(false).map(|sent| sent.text), "GET /api/v1/incidents", "");
        let set = |client: &Client| client.set_repair_setting("windows-minutes", "10,60").map(|sent| sent.text);
        check(r#"{"warnings":[]}"#, set, "PUT /api/v1/auto-repair/settings/windows-minutes", r#""10,60""#);
        let incident = r#"{"number":4,"group":{"kind":"rack","value":"1"},"phase":"open","holds":true,"opened":"x","because":"","member_count":2}"#;
        let seen = |client: &Client| client.acknowledge_incident(4, "seen").map(|sent| sent.text);
        check(incident, seen, "POST /api/v1/incidents/4/acknowledge", r#"{"reason":"seen"}"#);
    }
}
