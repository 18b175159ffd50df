//! Query parameters of `GET /api/v1/machines`. Values are comma-separated; an empty value counts as not given, because older clients
//! always send every parameter.

use std::{collections::BTreeSet, str::FromStr};

use sabakan_domain::{
    lifecycle::HealthState,
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
    /// A value that no machine can have: the search would find nothing and look as if there were nothing to find.
    #[error("{parameter}: {value:?} is not {expected}")]
    Value {
        /// Which parameter.
        parameter: String,
        /// What was given.
        value: String,
        /// What is allowed.
        expected: String,
    },
    /// A parameter nobody knows: ignored, it would find machines that were not asked for.
    #[error("unknown query parameter {parameter:?}{}; known are {}, and without- before each", meant(.nearest.as_deref()), QueryParams::NAMES.join(", "))]
    Unknown {
        /// What was given.
        parameter: String,
        /// Which one may have been meant.
        nearest: Option<String>,
    },
    /// Only the first of them would count.
    #[error("the query parameter {0} is given more than once; separate its values by commas")]
    Repeated(String),
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// What becomes of parameters that are not ours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UnknownParameters {
    /// They are refused, and so is a parameter that comes twice.
    #[default]
    Refuse,
    /// They count as not given, as in the older service; of a parameter that comes twice the first counts.
    Ignore,
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

    /// What the parameters mean.
    pub fn query(&self, unknown: UnknownParameters) -> Result<Query, QueryError> {
        if unknown == UnknownParameters::Refuse {
            self.check_names()?;
        }
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

    /// Refuses values that no machine can have, for those who want to know before they ask.
    pub fn check_values(&self) -> Result<(), QueryError> {
        self.criteria("").and(self.criteria("without-")).map(drop)
    }

    fn check_names(&self) -> Result<(), QueryError> {
        let mut given = BTreeSet::new();
        for (parameter, _) in &self.0 {
            if !QueryParams::NAMES.contains(&bare(parameter)) {
                return Err(QueryError::Unknown { parameter: quoted(parameter), nearest: nearest(parameter) });
            }
            if !given.insert(parameter) {
                return Err(QueryError::Repeated(parameter.clone()));
            }
        }
        Ok(())
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
        let states = || format!("a state; they are {}", HealthState::ALL.map(HealthState::as_str).join(", "));
        Ok(Criteria {
            serials: texts("serial"),
            racks: self.parsed(prefix, "rack", || "a rack number, such as 0 or 17".to_owned())?,
            indices: self.parsed(prefix, "index-in-rack", || "an index in a rack, such as 4".to_owned())?,
            roles: texts("role"),
            ipv4: self.parsed(prefix, "ipv4", || "an IPv4 address, such as 10.69.0.4".to_owned())?,
            ipv6: self.parsed(prefix, "ipv6", || "an IPv6 address, such as fd00::4".to_owned())?,
            bmc_types: texts("bmc-type"),
            states: self.values(prefix, "state", |text| text.parse().map_err(|_| states()))?,
            // Also what a machine must not have: `without-labels=a=1,b=2` leaves out only machines with both.
            labels: LabelCondition::AllOf(labels),
            days_left: None,
        })
    }

    /// Values that equal a machine's only if they are written as the machine's are: `01` is no rack, and is told how to be one.
    fn parsed<T: FromStr + ToString>(
        &self,
        prefix: &str,
        name: &str,
        expected: impl Fn() -> String,
    ) -> Result<Option<Vec<T>>, QueryError> {
        self.values(prefix, name, |text| {
            let value: T = text.parse().map_err(|_| expected())?;
            let canonical = value.to_string();
            if canonical == text { Ok(value) } else { Err(format!("spelled as machines have it; write {canonical}")) }
        })
    }

    /// The values of a parameter, each read by `rule`. Empty ones, as behind a last comma, are none.
    fn values<T>(
        &self,
        prefix: &str,
        name: &str,
        rule: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<Vec<T>>, QueryError> {
        let parameter = format!("{prefix}{name}");
        let Some(value) = self.find(&parameter) else { return Ok(None) };
        let wrong = |text: &str, expected| {
            let (parameter, value) = (parameter.clone(), quoted(text));
            QueryError::Value { parameter, value, expected }
        };
        let texts = value.split(',').filter(|text| !text.is_empty());
        let values: Vec<T> =
            texts.map(|text| rule(text).map_err(|expected| wrong(text, expected))).collect::<Result<_, _>>()?;
        if values.is_empty() {
            return Err(wrong(value, "a list of values".to_owned()));
        }
        Ok(Some(values))
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

/// The name of a parameter without its negation.
fn bare(parameter: &str) -> &str {
    parameter.strip_prefix("without-").unwrap_or(parameter)
}

/// Longest part of a caller's text that is repeated to it.
const QUOTED_CHARS_MAX: usize = 64;

fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The parameter that may have been meant: at most a third of its letters differ, or it is plural or singular of the other.
fn nearest(parameter: &str) -> Option<String> {
    let negation = if parameter.starts_with("without-") { "without-" } else { "" };
    let name = bare(parameter).replace('_', "-").to_ascii_lowercase();
    if name.len() > QUOTED_CHARS_MAX {
        return None;
    }
    let near = |known: &&str| distance(known, &name) <= known.len().div_ceil(3);
    let known = QueryParams::NAMES.into_iter().filter(near).min_by_key(|known| distance(known, &name))?;
    Some(format!("{negation}{known}"))
}

/// How many letters have to be changed, added or taken away (Levenshtein). Both texts are short.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use sabakan_domain::machine::Rack;

    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Result<Query, String> {
        let params: QueryParams = pairs.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        params.query(UnknownParameters::Refuse).map_err(|e| e.to_string())
    }

    #[test]
    fn empty_parameters_are_no_condition() {
        assert_eq!(query(&[("serial", ""), ("without-rack", ""), ("foo", "")]), Ok(Query::default()));
    }

    #[test]
    fn unknown_parameters_are_refused_with_the_nearest_known_one() {
        let known = "; known are serial, rack, role, labels, ipv4, ipv6, bmc-type, state, index-in-rack, datacenter, product, and \
            without- before each";
        let rows = [
            ("foo", ""),
            ("Rack", "; did you mean rack?"),
            ("racks", "; did you mean rack?"),
            ("label", "; did you mean labels?"),
            ("without-states", "; did you mean without-state?"),
            ("bmc_type", "; did you mean bmc-type?"),
            ("index", ""),
        ];
        for (name, nearest) in rows {
            let expected = format!("unknown query parameter {name:?}{nearest}{known}");
            assert_eq!(query(&[("rack", "1"), (name, "x")]), Err(expected));
            let pairs = [("rack", "1"), (name, "x"), ("rack", "2")].map(|(n, v)| (n.to_owned(), v.to_owned()));
            let lenient = QueryParams::from_iter(pairs).query(UnknownParameters::Ignore).expect("ignored");
            assert_eq!(lenient.having.racks, Some(vec![Rack(1)]), "{name}");
        }
        let long = query(&[(&"x".repeat(100_000), "1")]).expect_err("unknown");
        assert!(long.len() < 400, "{long}");
        let twice = query(&[("rack", "1"), ("rack", "2")]).expect_err("twice");
        assert_eq!(twice, "the query parameter rack is given more than once; separate its values by commas");
    }

    #[test]
    fn values_no_machine_can_have_are_refused_with_what_is_allowed() {
        let rows = [
            ("state", "dead,broken", "state: \"broken\" is not a state; they are uninitialized, healthy, "),
            ("without-state", "HEALTHY", "without-state: \"HEALTHY\" is not a state; they are "),
            ("rack", "1,x", "rack: \"x\" is not a rack number, such as 0 or 17"),
            ("rack", "4294967296", "rack: \"4294967296\" is not a rack number"),
            ("without-rack", "01", "without-rack: \"01\" is not spelled as machines have it; write 1"),
            ("rack", ",", "rack: \",\" is not a list of values"),
            ("ipv4", "010.0.0.1", "ipv4: \"010.0.0.1\" is not an IPv4 address"),
            ("ipv6", "FD00::1", "ipv6: \"FD00::1\" is not spelled as machines have it; write fd00::1"),
            ("index-in-rack", "-1", "index-in-rack: \"-1\" is not an index in a rack"),
        ];
        for (name, value, expected) in rows {
            let error = query(&[(name, value)]).expect_err(value);
            assert!(error.starts_with(expected), "{error}");
            let params = QueryParams(vec![(name.to_owned(), value.to_owned())]);
            assert_eq!(params.check_values().map_err(|error| error.to_string()), Err(error), "{name}");
        }
    }

    #[test]
    fn values_become_conditions() {
        let parsed = query(&[
            ("rack", "1,,17,"),
            ("state", "dead,updating"),
            ("ipv4", "10.0.0.1"),
            ("labels", "a=1,b="),
            ("datacenter", "ty3"),
            ("without-role", "boot"),
            ("without-index-in-rack", "3"),
        ])
        .expect("valid");
        assert_eq!(parsed.having.racks, Some(vec![Rack(1), Rack(17)]));
        assert_eq!(parsed.having.states, Some(vec![HealthState::Unreachable, HealthState::Updating]));
        assert_eq!(parsed.having.ipv4, Some(vec!["10.0.0.1".parse().expect("address")]));
        let labels: Vec<_> = parsed.having.labels.pairs().iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!(labels, ["a=1", "b=", "datacenter=ty3"]);
        assert_eq!(parsed.not_having.roles, Some(vec!["boot".to_owned()]));
        assert_eq!(parsed.not_having.indices, Some(vec![3]));
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
