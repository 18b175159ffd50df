//! Query parameters of `GET /api/v1/machines`. Values are comma-separated; an empty value counts as not given, because older clients
//! always send every parameter.

use std::str::FromStr;

use sabakan_domain::{
    limits::{QUERY_LABELS_MAX, QUERY_VALUES_MAX},
    query::{Criteria, LabelCondition, Query},
};

/// Search parameters as texts: what the command line fills in and the URL carries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryParams(Vec<(String, String)>);

/// Why parameters were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// Both sides name the same thing.
    #[error("'with' and 'without' options about the same things are specified.")]
    BothSides,
    /// More values than anybody looks for.
    #[error("{parameter} has {count} values, at most {max} are allowed")]
    TooMany {
        /// Which parameter.
        parameter: String,
        /// How many values it has.
        count: usize,
        /// How many it may have.
        max: usize,
    },
    /// A label condition needs a name and a value.
    #[error("invalid query in {parameter}: {element:?}; name=value is expected")]
    Label {
        /// `labels` or `without-labels`.
        parameter: String,
        /// What was given.
        element: String,
    },
}

impl QueryParams {
    /// Every parameter, without its negation. The last three come from the oldest document; the first two of them are labels.
    pub const NAMES: [&'static str; 11] = [
        "serial",
        "rack",
        "role",
        "labels",
        "ipv4",
        "ipv6",
        "bmc-type",
        "state",
        "index-in-rack",
        "datacenter",
        "product",
    ];

    /// Adds a parameter; empty values are dropped.
    pub fn push(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let value = value.into();
        if !value.is_empty() {
            self.0.push((name.into(), value));
        }
    }

    /// Names and values, as they go into a URL.
    pub fn pairs(&self) -> &[(String, String)] {
        &self.0
    }

    /// What the parameters mean. Unknown ones are ignored.
    pub fn query(&self) -> Result<Query, QueryError> {
        for name in QueryParams::NAMES {
            if self.find(name).is_some() && self.find(&format!("without-{name}")).is_some() {
                return Err(QueryError::BothSides);
            }
        }
        for (parameter, value) in &self.0 {
            let count = value.split(',').count();
            let labels = matches!(parameter.as_str(), "labels" | "without-labels");
            let max = if labels { QUERY_LABELS_MAX } else { QUERY_VALUES_MAX };
            if count > max {
                return Err(QueryError::TooMany { parameter: parameter.clone(), count, max });
            }
        }
        Ok(Query { having: self.criteria("")?, not_having: self.criteria("without-")? })
    }

    fn criteria(&self, prefix: &str) -> Result<Criteria, QueryError> {
        let find = |name: &str| self.find(&format!("{prefix}{name}"));
        let texts = |name| find(name).map(|value| value.split(',').map(str::to_owned).collect());
        let mut labels = Vec::new();
        for element in find("labels").into_iter().flat_map(|value| value.split(',')) {
            let Some((name, value)) = element.split_once('=') else {
                return Err(QueryError::Label { parameter: format!("{prefix}labels"), element: element.to_owned() });
            };
            labels.push((name.to_owned(), value.to_owned()));
        }
        for name in ["datacenter", "product"] {
            labels.extend(find(name).map(|value| (name.to_owned(), value.to_owned())));
        }
        Ok(Criteria {
            serials: texts("serial"),
            racks: find("rack").map(parsed),
            indices: find("index-in-rack").map(parsed),
            roles: texts("role"),
            ipv4: find("ipv4").map(parsed),
            ipv6: find("ipv6").map(parsed),
            bmc_types: texts("bmc-type"),
            states: find("state").map(|value| value.split(',').filter_map(|text| text.parse().ok()).collect()),
            // Also what a machine must not have: `without-labels=a=1,b=2` leaves out only machines with both.
            labels: LabelCondition::AllOf(labels),
            days_left: None,
        })
    }

    fn find(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, v)| n == name && !v.is_empty()).map(|(_, v)| v.as_str())
    }
}

impl FromIterator<(String, String)> for QueryParams {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(pairs: I) -> QueryParams {
        let mut params = QueryParams::default();
        for (name, value) in pairs {
            params.push(name, value);
        }
        params
    }
}

/// The values whose canonical text was given. Others, such as `01` for a rack, equal no machine's and are dropped; the condition
/// itself stays.
fn parsed<T: FromStr + ToString>(value: &str) -> Vec<T> {
    value.split(',').filter_map(|text| text.parse::<T>().ok().filter(|v| v.to_string() == text)).collect()
}

#[cfg(test)]
mod tests {
    use sabakan_domain::{lifecycle::HealthState, machine::Rack};

    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Result<Query, String> {
        let params: QueryParams = pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        params.query().map_err(|e| e.to_string())
    }

    #[test]
    fn empty_and_unknown_parameters_are_no_condition() {
        assert_eq!(query(&[("serial", ""), ("without-rack", ""), ("foo", "x")]), Ok(Query::default()));
    }

    #[test]
    fn values_become_conditions() {
        let parsed = query(&[
            ("rack", "1,01,x,4294967296"),
            ("state", "dead,nonsense"),
            ("ipv4", "10.0.0.1,010.0.0.1"),
            ("labels", "a=1,b="),
            ("datacenter", "ty3"),
            ("without-role", "boot"),
            ("without-index-in-rack", "3"),
        ])
        .expect("valid");
        assert_eq!(parsed.having.racks, Some(vec![Rack(1)]));
        assert_eq!(parsed.having.states, Some(vec![HealthState::Unreachable]));
        assert_eq!(parsed.having.ipv4, Some(vec!["10.0.0.1".parse().expect("address")]));
        let labels: Vec<_> = parsed.having.labels.pairs().iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(labels, ["a=1", "b=", "datacenter=ty3"]);
        assert_eq!(parsed.not_having.roles, Some(vec!["boot".to_owned()]));
        assert_eq!(parsed.not_having.indices, Some(vec![3]));
        assert_eq!(query(&[("rack", "x")]).expect("valid").having.racks, Some(vec![]));
    }

    #[test]
    fn contradictions_and_bad_labels() {
        for name in QueryParams::NAMES {
            let negated = format!("without-{name}");
            let error = query(&[(name, "a=1"), (&negated, "b=2")]).expect_err(name);
            assert_eq!(error, "'with' and 'without' options about the same things are specified.");
        }
        let error = query(&[("without-serial", &"x,".repeat(10_000))]).expect_err("too many");
        assert_eq!(error, "without-serial has 10001 values, at most 10000 are allowed");
        let error = query(&[("labels", "a=1,b")]).expect_err("no value");
        assert_eq!(error, "invalid query in labels: \"b\"; name=value is expected");
        let error = query(&[("without-labels", "b")]).expect_err("no value");
        assert!(error.starts_with("invalid query in without-labels"), "{error}");
    }
}
