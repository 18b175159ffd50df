//! The Kubernetes cluster: `/api/v1/cluster/…` and `/api/v1/constraints`.

use sabakan_wire::rest::{
    cluster::{
        ClusterStatusJson, ConstraintsJson, EnabledJson, ExplanationJson, KeptPlanJson, PlanJson, PlanSummaryJson,
        SimulationJson, VariablesJson, WarningsJson,
    },
    paths,
};
use serde::de::DeserializeOwned;

use crate::{client::Client, error::Error, limits, machines::one};

/// What the server sent, understood, and as it was: a newer server may say more than these types hold.
#[derive(Debug, Clone)]
pub struct Sent<T> {
    /// Understood.
    pub value: T,
    /// As it was.
    pub text: String,
}

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentFormat {
    /// For programs.
    Json,
    /// For people.
    Yaml,
}

/// What a document is called that says by itself whether it is JSON or YAML.
const ANY: &str = "application/octet-stream";

impl Client {
    /// The template. An error with status 404 until it is set.
    pub fn cluster_template(&self, format: DocumentFormat) -> Result<String, Error> {
        self.document(paths::CLUSTER_TEMPLATE, format)
    }

    /// Sets the template, JSON or YAML.
    pub fn put_cluster_template(&self, document: &[u8]) -> Result<Sent<WarningsJson>, Error> {
        self.exchange_sent("PUT", paths::CLUSTER_TEMPLATE, ANY, document)
    }

    /// Which machines the planner may use.
    pub fn cluster_variables(&self) -> Result<Sent<VariablesJson>, Error> {
        self.get_sent(paths::CLUSTER_VARIABLES, &[])
    }

    /// Says which machines the planner may use. The text is kept byte for byte.
    pub fn put_cluster_variables(&self, text: &[u8]) -> Result<Sent<WarningsJson>, Error> {
        self.exchange_sent("PUT", paths::CLUSTER_VARIABLES, "application/json", text)
    }

    /// Lets the planner use what it uses by default.
    pub fn reset_cluster_variables(&self) -> Result<Sent<WarningsJson>, Error> {
        self.sent(paths::CLUSTER_VARIABLES, self.delete(paths::CLUSTER_VARIABLES)?)
    }

    /// Whether the planner works.
    pub fn cluster_enabled(&self) -> Result<Sent<EnabledJson>, Error> {
        self.get_sent(paths::CLUSTER_ENABLED, &[])
    }

    /// Has the planner work, or not.
    pub fn set_cluster_enabled(&self, enabled: bool) -> Result<Sent<EnabledJson>, Error> {
        let wish = EnabledJson { enabled };
        self.sent(paths::CLUSTER_ENABLED, self.exchange_json("PUT", paths::CLUSTER_ENABLED, &wish)?)
    }

    /// The configuration. An error with status 404 while there is none.
    pub fn cluster_configuration(&self, format: DocumentFormat) -> Result<String, Error> {
        self.document(paths::CLUSTER_CONFIGURATION, format)
    }

    /// Stores a configuration written by hand, JSON or YAML.
    pub fn put_cluster_configuration(&self, document: &[u8]) -> Result<Sent<WarningsJson>, Error> {
        self.exchange_sent("PUT", paths::CLUSTER_CONFIGURATION, ANY, document)
    }

    /// What the next round would do, with every machine's reasons if they are wanted.
    pub fn plan_cluster(&self, machines: bool) -> Result<Sent<PlanJson>, Error> {
        self.get_sent(paths::CLUSTER_PLAN, &[("machines".to_owned(), machines.to_string())])
    }

    /// What the next rounds would do.
    pub fn simulate_cluster(&self, rounds: usize) -> Result<Sent<SimulationJson>, Error> {
        self.get_sent(paths::CLUSTER_SIMULATION, &[("rounds".to_owned(), rounds.to_string())])
    }

    /// Why a machine is, or is not, in the cluster.
    pub fn explain_cluster(&self, serial: &str) -> Result<Sent<ExplanationJson>, Error> {
        self.get_sent(&one(paths::CLUSTER_MACHINES, serial), &[])
    }

    /// Plans that were kept, the newest first; those before a number, if one is given.
    pub fn cluster_plans(&self, before: Option<u64>, limit: usize) -> Result<Sent<Vec<PlanSummaryJson>>, Error> {
        let limit = ("limit".to_owned(), limit.to_string());
        let before = before.map(|number| ("before".to_owned(), number.to_string()));
        self.get_sent(paths::CLUSTER_PLANS, &before.into_iter().chain([limit]).collect::<Vec<_>>())
    }

    /// One plan that was kept.
    pub fn cluster_plan(&self, number: u64) -> Result<Sent<KeptPlanJson>, Error> {
        self.get_sent(&one(paths::CLUSTER_PLANS, &number.to_string()), &[])
    }

    /// How the planner is doing.
    pub fn cluster_status(&self) -> Result<Sent<ClusterStatusJson>, Error> {
        self.get_sent(paths::CLUSTER_STATUS, &[])
    }

    /// What the cluster must keep to.
    pub fn constraints(&self) -> Result<Sent<ConstraintsJson>, Error> {
        self.get_sent(paths::CONSTRAINTS, &[])
    }

    /// Changes one constraint.
    pub fn set_constraint(&self, name: &str, value: u32) -> Result<Sent<WarningsJson>, Error> {
        let path = one(paths::CONSTRAINTS, name);
        self.sent(&path, self.exchange_json("PUT", &path, &value)?)
    }

    fn document(&self, path: &str, format: DocumentFormat) -> Result<String, Error> {
        let format = match format {
            DocumentFormat::Json => "json",
            DocumentFormat::Yaml => "yaml",
        };
        let body = self.get(path, &[("format".to_owned(), format.to_owned())], limits::LIST_BYTES_MAX)?;
        self.text(path, body)
    }

    pub(crate) fn get_sent<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(String, String)],
    ) -> Result<Sent<T>, Error> {
        self.sent(path, self.get(path, query, limits::LIST_BYTES_MAX)?)
    }

    pub(crate) fn exchange_sent<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<Sent<T>, Error> {
        self.sent(path, self.exchange_bytes(method, path, &[], content_type, body)?)
    }

    pub(crate) fn sent<T: DeserializeOwned>(&self, path: &str, body: Vec<u8>) -> Result<Sent<T>, Error> {
        Ok(Sent { value: self.decode(path, &body)?, text: self.text(path, body)? })
    }

    fn text(&self, path: &str, body: Vec<u8>) -> Result<String, Error> {
        String::from_utf8(body).map_err(|error| self.unexpected(path, &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn documents_go_as_they_are_and_come_as_asked() {
        let (url, request) = fake::answer(200, r#"{"warnings":[{"path":"a","reason":"b"}]}"#);
        let sent = Client::new(&url).unwrap().put_cluster_template(b"name: x\n").unwrap();
        assert_eq!(sent.value.warnings[0].path, "a");
        let request = request.join().unwrap();
        assert!(request.starts_with("PUT /api/v1/cluster/template HTTP/1.1\r\n"), "{request}");
        assert!(request.to_lowercase().contains("content-type: application/octet-stream\r\n"), "{request}");
        assert!(request.ends_with("\r\n\r\nname: x\n"), "{request}");
        let (url, request) = fake::answer(200, "name: x\n");
        let text = Client::new(&url).unwrap().cluster_configuration(DocumentFormat::Yaml).unwrap();
        assert_eq!(text, "name: x\n");
        assert!(request.join().unwrap().starts_with("GET /api/v1/cluster/configuration?format=yaml HTTP/1.1\r\n"));
    }

    #[test]
    fn what_is_asked_stands_in_the_path() {
        let check = |answer: &'static str, ask: fn(&Client) -> Result<String, Error>, line: &str| {
            let (url, request) = fake::answer(200, answer);
            assert_eq!(ask(&Client::new(&url).unwrap()).unwrap(), answer);
            let request = request.join().unwrap();
            assert!(request.starts_with(&format!("{line} HTTP/1.1\r\n")), "{request}");
        };
        check(
            r#"{"enabled":true}"#,
            |client| client.set_cluster_enabled(true).map(|sent| sent.text),
            "PUT /api/v1/cluster/enabled",
        );
        check(
            "[]",
            |client| client.cluster_plans(Some(7), 3).map(|sent| sent.text),
            "GET /api/v1/cluster/plans?before=7&limit=3",
        );
        check(
            r#"{"warnings":[]}"#,
            |client| client.set_constraint("minimum-workers", 3).map(|sent| sent.text),
            "PUT /api/v1/constraints/minimum-workers",
        );
        check(
            r#"{"warnings":[]}"#,
            |client| client.reset_cluster_variables().map(|sent| sent.text),
            "DELETE /api/v1/cluster/variables",
        );
    }
}
