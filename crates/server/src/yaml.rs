//! The one place where YAML is read, within bounds. YAML is slow to read, and a small text can stand for a large one: without bounds
//! a kilobyte of aliases takes seconds, and a request of eighty megabytes takes a gigabyte. Where it is read is up to the caller; a
//! text from outside belongs on a thread that serves no connections (`rest::cluster::document`).

use serde::de::DeserializeOwned;
use serde_saphyr::{Error, budget::BudgetBreach};

use crate::limits;

/// Why a text is not read.
#[derive(Debug)]
pub(crate) enum YamlRefusal {
    /// It exceeds a bound; which, for people.
    Bound(String),
    /// It is not YAML, or not what was expected.
    Malformed(Box<Error>),
}

/// Reads a text of YAML.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, YamlRefusal> {
    if text.len() > limits::YAML_BYTES_MAX {
        let (size, max) = (text.len(), limits::YAML_BYTES_MAX);
        let text =
            format!("has {size} bytes, and at most {max} are read as YAML; write it as JSON, which may be larger");
        return Err(YamlRefusal::Bound(text));
    }
    let budget = serde_saphyr::budget! {
        max_nodes: limits::YAML_VALUES_MAX,
        max_events: 3 * limits::YAML_VALUES_MAX,
        max_total_scalar_bytes: limits::YAML_BYTES_MAX,
        max_depth: limits::YAML_DEPTH_MAX,
        flow_nesting_limit: limits::YAML_DEPTH_MAX,
        // Two: the second is met and refused as such.
        max_documents: 2,
        max_aliases: limits::YAML_ALIASES_MAX,
        max_anchors: limits::YAML_ALIASES_MAX,
        max_merge_keys: limits::YAML_ALIASES_MAX,
        max_recorded_anchor_events: limits::YAML_REPLAYED_MAX,
        max_recorded_anchor_bytes: limits::YAML_BYTES_MAX,
        // People who repeat one anchor a hundred times mean it; what it amounts to is bounded above.
        enforce_alias_anchor_ratio: false,
    };
    let aliases = serde_saphyr::alias_limits! {
        max_total_replayed_events: limits::YAML_REPLAYED_MAX,
        max_replay_stack_depth: limits::YAML_DEPTH_MAX,
    };
    let options = serde_saphyr::options! { with_snippet: false, budget: budget, alias_limits: aliases };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| match exceeded(&error) {
        Some(bound) => YamlRefusal::Bound(bound),
        None => YamlRefusal::Malformed(Box::new(error)),
    })
}

/// The bound an error is about, in words.
fn exceeded(error: &Error) -> Option<String> {
    let more = |max: usize, what: &str| Some(format!("has more than {max} {what}"));
    match error.without_snippet() {
        Error::Budget { breach, .. } => match breach {
            BudgetBreach::Nodes { .. } | BudgetBreach::Events { .. } => more(limits::YAML_VALUES_MAX, "values"),
            BudgetBreach::Depth { .. } => more(limits::YAML_DEPTH_MAX, "levels"),
            BudgetBreach::Aliases { .. } => more(limits::YAML_ALIASES_MAX, "aliases"),
            BudgetBreach::Anchors { .. } => more(limits::YAML_ALIASES_MAX, "anchors"),
            BudgetBreach::MergeKeys { .. } => more(limits::YAML_ALIASES_MAX, "merge keys"),
            BudgetBreach::Documents { .. } => more(1, "document"),
            BudgetBreach::RecordedAnchorEvents { .. } => more(limits::YAML_REPLAYED_MAX, "values behind its anchors"),
            BudgetBreach::ScalarBytes { .. } | BudgetBreach::RecordedAnchorBytes { .. } => {
                more(limits::YAML_BYTES_MAX, "bytes of text once its aliases are replaced by what they stand for")
            }
            _ => Some("exceeds a bound of the reader of YAML".to_owned()),
        },
        Error::AliasReplayLimitExceeded { .. } | Error::AliasReplayCounterOverflow { .. } => {
            more(limits::YAML_REPLAYED_MAX, "values once its aliases are replaced by what they stand for")
        }
        Error::AliasReplayStackDepthExceeded { .. } => more(limits::YAML_DEPTH_MAX, "aliases inside each other"),
        Error::AliasError { error, .. } => exceeded(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use serde_json::Value;

    use super::*;

    /// Far more than any of these takes, also in a debug build on a busy machine; without bounds they take minutes.
    const SOON: Duration = Duration::from_secs(10);

    /// Anchors that each stand for ten of the one before.
    fn bomb(levels: usize, flow: bool) -> String {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..levels {
            let before = level - 1;
            if flow {
                text.push_str(&format!("a{level}: &a{level} [{}]\n", vec![format!("*a{before}"); 10].join(", ")));
            } else {
                text.push_str(&format!("a{level}: &a{level}\n{}", format!("- *a{before}\n").repeat(10)));
            }
        }
        text
    }

    #[test]
    fn bombs_are_refused_soon_and_named() {
        let merges: String = (1..2_000).map(|n| format!("k{n}: {{<<: *m}}\n")).collect();
        let check = |name: &str, text: &str, expected: &str| {
            let begun = Instant::now();
            let bound = match parse::<Value>(text).expect_err(name) {
                YamlRefusal::Bound(bound) => bound,
                // Brackets are counted before there are any values.
                YamlRefusal::Malformed(error) => error.to_string(),
            };
            assert!(bound.contains(expected), "{name}: {bound}");
            assert!(begun.elapsed() < SOON, "{name} took {:?}", begun.elapsed());
        };
        check("aliases in flow style", &bomb(9, true), "anchors");
        check("aliases in block style", &bomb(9, false), "anchors");
        check("many aliases", &format!("a: &a x\nb: [{}]\n", "*a,".repeat(5_000)), "aliases");
        check("many anchors", &(0..5_000).map(|n| format!("- &n{n} x\n")).collect::<String>(), "anchors");
        check("many merge keys", &format!("m: &m {{a: 1}}\n{merges}"), "merge keys");
        check("brackets", &"[".repeat(100_000), "recursion limit exceeded");
        check("braces", &"{a: ".repeat(100_000), "recursion limit exceeded");
        let nested = |n: usize| format!("{}a:\n", " ".repeat(n));
        check("indentation", &(0..1_000).map(nested).collect::<String>(), "levels");
        check("empty values", &"-\n".repeat(1_500_000), "values");
        check("commas", &format!("[{}]", "1,".repeat(1_500_000)), "values");
        check("size", &"# nothing\n".repeat(1_000_000), "bytes");
        check("one long text", &format!("a: {}", "x".repeat(limits::YAML_BYTES_MAX)), "bytes");
    }

    #[test]
    fn large_documents_that_people_write_are_read() {
        let begun = Instant::now();
        let node = |n: usize| {
            let labels: String = (0..10).map(|label| format!("    label-{label}: value-{n}\n")).collect();
            format!("- address: 10.0.{}.{}\n  <<: *common\n  labels:\n{labels}", n / 250, n % 250)
        };
        let nodes: String = (0..limits::YAML_ALIASES_MAX).map(node).collect();
        let text = format!("common: &common\n  user: u\n  taints: []\nnodes:\n{nodes}");
        let read: Value = parse(&text).expect("a configuration with aliases");
        assert_eq!(read["nodes"].as_array().map(Vec::len), Some(limits::YAML_ALIASES_MAX));
        let plain: String = (0..8_000).map(|n| node(n).replace("  <<: *common\n", "  user: u\n")).collect();
        let text = format!("nodes:\n{plain}");
        assert!(text.len() > limits::YAML_BYTES_MAX / 2, "{}", text.len());
        let read: Value = parse(&text).expect("a configuration of a large cluster");
        assert_eq!(read["nodes"][7_999]["user"], "u");
        assert!(begun.elapsed() < SOON * 3, "{:?}", begun.elapsed());
    }
}
