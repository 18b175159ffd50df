//! A strict reader of Prometheus' text format 0.0.4, written from its description and not from our writer.

use std::collections::{BTreeMap, BTreeSet};

/// A whole answer.
pub struct Exposition {
    text: String,
    families: BTreeMap<String, Family>,
}

#[derive(Default)]
struct Family {
    kind: Option<String>,
    /// By name and labels.
    samples: BTreeMap<(String, Labels), f64>,
}

type Labels = BTreeMap<String, String>;

impl Exposition {
    /// Reads an answer; every line of it has to make sense, at its place.
    pub fn parse(text: &str) -> Result<Exposition, String> {
        if !text.ends_with('\n') {
            return Err("the last line has no end".to_owned());
        }
        let mut families: BTreeMap<String, Family> = BTreeMap::new();
        let mut current: Option<String> = None;
        for line in text.lines() {
            let wrong = |reason: &str| format!("{reason}: {line:?}");
            if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').ok_or_else(|| wrong("no help"))?;
                if help.is_empty() || !is_name(name) || families.insert(name.to_owned(), Family::default()).is_some() {
                    return Err(wrong("bad or repeated family"));
                }
                current = Some(name.to_owned());
            } else if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').ok_or_else(|| wrong("no type"))?;
                let family = families.get_mut(name).filter(|_| current.as_deref() == Some(name));
                let family = family.filter(|family| family.kind.is_none() && family.samples.is_empty());
                if !["gauge", "counter", "histogram"].contains(&kind) {
                    return Err(wrong("unknown type"));
                }
                family.ok_or_else(|| wrong("a type out of place"))?.kind = Some(kind.to_owned());
            } else {
                let (name, labels, value) = sample(line).map_err(wrong)?;
                let family = current.as_ref().and_then(|current| families.get_mut(current));
                let kind = family.as_ref().and_then(|family| family.kind.as_deref());
                let parts: &[&str] = if kind == Some("histogram") { &["_bucket", "_sum", "_count"] } else { &[""] };
                let owner = current.as_deref().unwrap_or_default();
                if kind.is_none() || !parts.iter().any(|part| name.strip_suffix(part) == Some(owner)) {
                    return Err(wrong("a sample out of place"));
                }
                let samples = &mut family.expect("it has a kind").samples;
                if samples.insert((name.to_owned(), labels), value).is_some() {
                    return Err(wrong("the same series twice"));
                }
            }
        }
        let page = Exposition { text: text.to_owned(), families };
        page.check_families()?;
        Ok(page)
    }

    fn check_families(&self) -> Result<(), String> {
        for (name, family) in &self.families {
            let kind = family.kind.as_deref().ok_or_else(|| format!("{name} has no type"))?;
            if kind != "gauge" && family.samples.values().any(|value| *value < 0.0) {
                return Err(format!("{name} is negative"));
            }
            let label_names: BTreeSet<Vec<&String>> =
                family.samples.keys().filter(|(n, _)| n == name).map(|(_, labels)| labels.keys().collect()).collect();
            if label_names.len() > 1 {
                return Err(format!("series of {name} have different labels"));
            }
            if kind == "histogram" {
                check_histogram(name, family)?;
            }
        }
        Ok(())
    }

    /// Values of all series of a family.
    pub fn family(&self, name: &str) -> Vec<f64> {
        self.families.get(name).map(|family| family.samples.values().copied().collect()).unwrap_or_default()
    }

    /// One series.
    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels: Labels = labels.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let key = (name.to_owned(), labels);
        self.families.values().find_map(|family| family.samples.get(&key)).copied()
    }

    /// How many series there are.
    pub fn series(&self) -> usize {
        self.families.values().map(|family| family.samples.len()).sum()
    }

    /// How long the answer is.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// Whether a text stands anywhere in it.
    pub fn contains(&self, text: &str) -> bool {
        self.text.contains(text)
    }
}

/// Buckets grow, the last is `+Inf`, and it is the count.
fn check_histogram(name: &str, family: &Family) -> Result<(), String> {
    let mut buckets: BTreeMap<Labels, Vec<(f64, f64)>> = BTreeMap::new();
    for ((sample, labels), value) in &family.samples {
        let mut labels = labels.clone();
        if *sample == format!("{name}_bucket") {
            let bound = labels.remove("le").ok_or_else(|| format!("a bucket of {name} has no bound"))?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().map_err(|_| bound)? };
            buckets.entry(labels).or_default().push((bound, *value));
        }
    }
    for (labels, mut buckets) in buckets {
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let last = buckets.last().copied();
        let count = family.samples.get(&(format!("{name}_count"), labels.clone()));
        let sum = family.samples.get(&(format!("{name}_sum"), labels.clone()));
        let grows = buckets.is_sorted_by(|a, b| a.1 <= b.1);
        if !grows || sum.is_none() || last != count.map(|count| (f64::INFINITY, *count)) {
            return Err(format!("{name}{labels:?}: {buckets:?} do not add up to {count:?}"));
        }
    }
    Ok(())
}

/// `name{label="value",…} number`
fn sample(line: &str) -> Result<(&str, Labels, f64), &'static str> {
    let end = line.find(['{', ' ']).ok_or("no value")?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name) {
        return Err("bad name");
    }
    let mut labels = Labels::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").ok_or("a label without a value")?;
            let (value, after) = unquoted(after)?;
            if !is_name(label) || label.contains(':') || labels.insert(label.to_owned(), value).is_some() {
                return Err("bad or repeated label");
            }
            match after.strip_prefix(',') {
                Some(after) => rest = after,
                None => {
                    rest = after.strip_prefix('}').ok_or("labels without an end")?;
                    break;
                }
            }
        }
    }
    let number = rest.strip_prefix(' ').ok_or("no blank before the value")?;
    let value: f64 = number.parse().map_err(|_| "not a number")?;
    Ok((name, labels, value))
}

/// The text up to the closing quote, and what stands behind it.
fn unquoted(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => value.push(match chars.next() {
                Some((_, 'n')) => '\n',
                Some((_, c @ ('"' | '\\'))) => c,
                _ => return Err("an escape that does not exist"),
            }),
            c => value.push(c),
        }
    }
    Err("a value without an end")
}

fn is_name(text: &str) -> bool {
    let first = |c: char| c.is_ascii_alphabetic() || c == '_' || c == ':';
    text.starts_with(first) && text.chars().all(|c| first(c) || c.is_ascii_digit())
}

#[test]
fn the_reader_refuses_what_prometheus_would() {
    let head = "# HELP a A.\n# TYPE a gauge\n";
    let refused = [
        ("a 1\n".to_owned(), "without a head"),
        (format!("{head}a 1"), "without an end"),
        (format!("{head}b 1\n"), "of another family"),
        (format!("{head}a 1\na 2\n"), "twice"),
        (format!("{head}a{{x=\"1\"}} 1\na{{x=\"1\"}} 2\n"), "twice, with labels"),
        (format!("{head}a{{x=\"1\"}} 1\na{{y=\"1\"}} 2\n"), "other labels"),
        (format!("{head}a{{x=\"1\",x=\"2\"}} 1\n"), "a label twice"),
        (format!("{head}a{{x=\"\\t\"}} 1\n"), "an unknown escape"),
        (format!("{head}a{{x=\"1}} 1\n"), "no quote"),
        (format!("{head}a one\n"), "no number"),
        (format!("{head}{head}"), "a family twice"),
        ("# HELP a A.\na 1\n".to_owned(), "no type"),
        ("# HELP a A.\n# TYPE a thing\na 1\n".to_owned(), "an unknown type"),
        ("# HELP a A.\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\na_count 1\n".to_owned(), "no +Inf"),
        ("# HELP a A.\n# TYPE a histogram\na_bucket{le=\"+Inf\"} 1\na_sum 1\na_count 2\n".to_owned(), "another count"),
    ];
    for (text, why) in refused {
        assert!(Exposition::parse(&text).is_err(), "{why}: {text}");
    }
    let good = format!("{head}a{{x=\"q\\\"b\\\\n\\n\",y=\"\"}} 1\na{{x=\"2\",y=\"\"}} 2.5\n");
    let page = Exposition::parse(&good).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(page.value("a", &[("x", "q\"b\\n\n"), ("y", "")]), Some(1.0));
    assert_eq!(page.series(), 2);
}
