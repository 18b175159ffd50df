//! The alerts that users load into Prometheus: that Prometheus takes them, that each fires when it should and not otherwise, that they
//! ask for what this program tells, and that the page about them says the same.
//!
//! The rules are `docs/operations/alerts.yml`; what they are tried on is in `alerts/*.yml`, in the format of `promtool test rules`.

mod promql;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use promql::{Condition, Selector, asked};
use sabakan_domain::{lifecycle::HealthState, repair::entry::Status};
use sabakan_service::metrics::catalogue::{CATALOGUE, Kind};
use sabakan_wire::rest::ErrorKind;
use serde::Deserialize;

const RULES: &str = "docs/operations/alerts.yml";
const PAGE: &str = "docs/operations/alerts.md";

/// Labels that Prometheus itself adds to what it reads.
const TARGET_LABELS: [&str; 2] = ["job", "instance"];

#[derive(Deserialize)]
struct Rules {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    name: String,
    rules: Vec<Alert>,
}

#[derive(Deserialize)]
struct Alert {
    alert: String,
    expr: String,
    #[serde(default, rename = "for")]
    pending: String,
    labels: Labels,
    annotations: Annotations,
}

#[derive(Deserialize)]
struct Labels {
    severity: String,
}

#[derive(Deserialize)]
struct Annotations {
    summary: String,
    runbook: String,
}

/// A file for `promtool test rules`, as far as it is looked at here.
#[derive(Deserialize)]
struct Trials {
    tests: Vec<Trial>,
}

#[derive(Deserialize)]
struct Trial {
    input_series: Vec<Series>,
    alert_rule_test: Vec<Expectation>,
}

#[derive(Deserialize)]
struct Series {
    series: String,
}

#[derive(Deserialize)]
struct Expectation {
    eval_time: String,
    alertname: String,
    exp_alerts: Vec<serde_json::Value>,
}

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn rules() -> Rules {
    serde_saphyr::from_str(&read(&top().join(RULES))).expect("rules of Prometheus")
}

fn alerts() -> Vec<Alert> {
    rules().groups.into_iter().flat_map(|group| group.rules).collect()
}

fn trial_files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/alerts");
    let files = fs::read_dir(dir).expect("the trials").map(|entry| entry.expect("a file").path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "yml")).collect();
    files.sort();
    files
}

fn trials() -> Vec<Trial> {
    let read = |path: &PathBuf| serde_saphyr::from_str::<Trials>(&read(path)).expect("trials of rules").tests;
    trial_files().iter().flat_map(read).collect()
}

fn promtool(arguments: &[&str], files: &[PathBuf]) {
    let output = Command::new("promtool").args(arguments).args(files).output();
    let output = output.expect("promtool, of the Debian package prometheus; `cargo xtask ci setup` installs it");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "promtool {}:\n{out}\n{err}", arguments.join(" "));
}

#[test]
fn prometheus_takes_the_rules() {
    promtool(&["check", "rules", "--lint=all", "--lint-fatal"], &[top().join(RULES)]);
}

#[test]
fn every_alert_fires_when_it_should_and_not_otherwise() {
    promtool(&["test", "rules"], &trial_files());
}

/// Whether each alert was seen to fire. And whether it was seen not to, on what it asks for and after it would have fired: silence
/// about series that are not there, or before the time is over, shows nothing.
#[test]
fn every_alert_is_tried_both_ways() {
    let trials = trials();
    let names: BTreeSet<String> = alerts().into_iter().map(|alert| alert.alert).collect();
    let expectations =
        trials.iter().flat_map(|trial| trial.alert_rule_test.iter().map(move |expected| (trial, expected)));
    let expectations: Vec<(&Trial, &Expectation)> = expectations.collect();
    for (_, expected) in &expectations {
        assert!(names.contains(&expected.alertname), "there is no alert {}", expected.alertname);
    }
    for alert in alerts() {
        let name = &alert.alert;
        let own = || expectations.iter().filter(|(_, expected)| expected.alertname == *name);
        assert!(own().any(|(_, expected)| !expected.exp_alerts.is_empty()), "no trial makes {name} fire");
        let wanted: BTreeSet<String> = asked(&alert.expr).selectors.into_iter().map(|selector| selector.name).collect();
        let silent = own().filter(|(trial, expected)| {
            let told: BTreeSet<String> = trial.input_series.iter().map(|each| series(&each.series).name).collect();
            expected.exp_alerts.is_empty()
                && seconds(&expected.eval_time) > seconds(&alert.pending)
                && wanted.is_subset(&told)
        });
        assert!(silent.count() > 0, "no trial shows that {name} does not fire when all is well");
    }
}

/// A duration as Prometheus writes them, such as `1h30m`.
fn seconds(text: &str) -> u64 {
    let (mut sum, mut number) = (0, 0);
    for sign in text.chars() {
        let unit = match sign {
            's' => 1,
            'm' => 60,
            'h' => 60 * 60,
            'd' => 24 * 60 * 60,
            digit => {
                let digit = digit.to_digit(10).unwrap_or_else(|| panic!("{text} is no duration"));
                number = number * 10 + u64::from(digit);
                continue;
            }
        };
        sum += number * unit;
        number = 0;
    }
    assert_eq!(number, 0, "{text} has no unit");
    sum
}

fn series(text: &str) -> Selector {
    let mut selectors = asked(text).selectors;
    assert_eq!(selectors.len(), 1, "{text} is no series");
    selectors.remove(0)
}

/// A metric that was renamed, or lost a label, must not leave an alert behind that never fires again.
#[test]
fn alerts_ask_for_what_the_program_tells() {
    for alert in alerts() {
        let asked = asked(&alert.expr);
        assert!(!asked.selectors.is_empty(), "{} asks for nothing", alert.alert);
        let mut known: BTreeSet<&str> = TARGET_LABELS.into();
        for selector in &asked.selectors {
            let labels =
                labels_of(&selector.name).unwrap_or_else(|| panic!("{}: no metric {}", alert.alert, selector.name));
            known.extend(&labels);
            for condition in &selector.conditions {
                let is_label = labels.contains(&&*condition.label) || TARGET_LABELS.contains(&&*condition.label);
                assert!(is_label, "{}: {} has no label {}", alert.alert, selector.name, condition.label);
                check_values(selector, condition);
            }
            // Every program tells how many files it has open.
            let is_ours = selector.name.starts_with("sabakan_") || selector.name.starts_with("cke_");
            let is_confined = selector.conditions.iter().any(|each| each.label == "job" && each.value == "sabakan");
            assert!(is_ours || is_confined, "{}: {} is told by other programs too", alert.alert, selector.name);
        }
        for label in &asked.groupings {
            assert!(known.contains(&**label), "{} groups by {label}, which nothing in it has", alert.alert);
        }
    }
}

#[test]
fn alerts_are_tried_on_what_the_program_tells() {
    for text in trials().iter().flat_map(|trial| &trial.input_series) {
        let selector = series(&text.series);
        let mut labels = labels_of(&selector.name).unwrap_or_else(|| panic!("no metric {}", selector.name));
        labels.extend(TARGET_LABELS);
        labels.sort_unstable();
        let mut written: Vec<&str> = selector.conditions.iter().map(|condition| &*condition.label).collect();
        written.sort_unstable();
        assert_eq!(written, labels, "labels of {}", text.series);
        selector.conditions.iter().for_each(|condition| check_values(&selector, condition));
    }
}

/// The labels of a metric, if there is such a metric.
fn labels_of(name: &str) -> Option<Vec<&'static str>> {
    // What Prometheus tells about each server it asks.
    if name == "up" {
        return Some(Vec::new());
    }
    let find = |name: &str| CATALOGUE.iter().find(|metric| metric.name == name);
    if let Some(metric) = find(name) {
        // A histogram has no series under its own name.
        return (metric.kind != Kind::Histogram).then(|| metric.labels.to_vec());
    }
    let part = |end: &str| find(name.strip_suffix(end)?).filter(|metric| metric.kind == Kind::Histogram);
    if let Some(metric) = part("_bucket") {
        return Some([metric.labels, &["le"]].concat());
    }
    part("_sum").or_else(|| part("_count")).map(|metric| metric.labels.to_vec())
}

/// That a label has a value that occurs. A pattern is looked at piece by piece.
fn check_values(selector: &Selector, condition: &Condition) {
    let Some(words) = vocabulary(&selector.name, &condition.label) else { return };
    let values: Vec<&str> =
        if condition.is_pattern { condition.value.split('|').collect() } else { vec![&*condition.value] };
    for value in values {
        assert!(words.contains(&value), "{}: {} is never {value:?}", selector.name, condition.label);
    }
}

/// The values a label can have; `None`: it depends on the site.
fn vocabulary(metric: &str, label: &str) -> Option<Vec<&'static str>> {
    match label {
        "kind" => Some(ErrorKind::ALL.map(ErrorKind::as_str).to_vec()),
        "status" if metric.starts_with("sabakan_machine") => {
            Some(HealthState::ALL.iter().map(|state| state.as_str()).collect())
        }
        "status" if metric.contains("_repair_") => Some(Status::ALL.map(Status::as_str).to_vec()),
        // These have no list that is public; the catalogue names them all.
        "operation" | "outcome" | "task" | "room" | "reason" => {
            let base = metric.trim_end_matches("_bucket");
            let note = CATALOGUE.iter().find(|metric| metric.name == base).map_or("", |metric| metric.note);
            Some(note.split('`').skip(1).step_by(2).collect())
        }
        "job" | "instance" | "le" | "role" | "rack" | "serial" | "address" | "machine_type" => None,
        label => panic!("which values has {label} of {metric}?"),
    }
}

#[test]
fn every_alert_says_what_happened_and_where_to_read_on() {
    let page = read(&top().join(PAGE));
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let alerts = alerts();
    let names: Vec<&str> = alerts.iter().map(|alert| &*alert.alert).collect();
    assert_eq!(sections, names, "sections of {PAGE}, and alerts of {RULES}");
    for Alert { alert, labels, annotations, .. } in &alerts {
        assert!(matches!(&*labels.severity, "critical" | "warning"), "severity of {alert}");
        assert_eq!(annotations.runbook, format!("{PAGE}#{}", alert.to_lowercase()));
        assert!(annotations.summary.ends_with('.'), "the summary of {alert} is a sentence");
    }
}

/// `SABAKAN_GOLDEN=write` rewrites the tables of the page.
#[test]
fn golden_tables_of_the_page_are_those_of_the_rules() {
    let path = top().join(PAGE);
    let written = read(&path);
    let mut page = written.clone();
    for group in rules().groups {
        page = with_table(&page, &group);
    }
    if std::env::var("SABAKAN_GOLDEN").as_deref() == Ok("write") && page != written {
        fs::write(&path, &page).expect("the sources can be written");
        return;
    }
    assert!(page == written, "{PAGE} is not what {RULES} says; run `cargo xtask golden`");
}

/// The page with the table of a group between its marks.
fn with_table(page: &str, group: &Group) -> String {
    let begin = format!("<!-- {}, made from alerts.yml; do not edit -->\n", group.name);
    let parts = page.split_once(&begin).and_then(|(before, rest)| Some((before, rest.split_once("<!-- end -->")?.1)));
    let (before, after) = parts.unwrap_or_else(|| panic!("{PAGE} has no place for the table of {}", group.name));
    let rows: String = group.rules.iter().map(row).collect();
    format!("{before}{begin}\n| Alert | Severity | Expression | For |\n|---|---|---|---|\n{rows}\n<!-- end -->{after}")
}

fn row(alert: &Alert) -> String {
    let Alert { alert: name, expr, pending, labels, .. } = alert;
    let words: Vec<&str> = expr.split_whitespace().collect();
    // A bar would end the cell.
    let expression = words.join(" ").replace("( ", "(").replace(" )", ")").replace('|', "\\|");
    let pending = if pending.is_empty() { "0m" } else { pending };
    format!("| [{name}](#{}) | {} | `{expression}` | {pending} |\n", name.to_lowercase(), labels.severity)
}
