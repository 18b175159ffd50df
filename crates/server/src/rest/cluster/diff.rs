//! What a plan changes in the configuration, as a unified diff of its YAML. Nodes are compared by address, one hunk for each: what a
//! comparison of whole texts would call a change of place is none.

use std::collections::HashMap;

use sabakan_domain::cluster::config::{Configuration, Node};
use serde_json::Value;

use super::document::to_yaml;
use crate::limits;

/// The difference; empty if there is none.
pub(super) fn diff(before: Option<&Configuration>, after: &Configuration) -> String {
    let documents = (before.map(Configuration::document), after.document());
    let mut text = Text::default();
    let settings = |document: &Value| {
        let mut rest = document.as_object().cloned().unwrap_or_default();
        rest.remove("nodes");
        if rest.is_empty() { Vec::new() } else { lines(&Value::Object(rest)) }
    };
    text.hunk("settings", &documents.0.as_ref().map(settings).unwrap_or_default(), &settings(&documents.1));
    let no_nodes = Vec::new();
    let old = before.map_or(&no_nodes, |before| &before.nodes);
    let old_documents = documents.0.as_ref().map_or(&Value::Null, |document| &document["nodes"]);
    let places: HashMap<_, usize> = old.iter().enumerate().map(|(place, node)| (node.address, place)).collect();
    let kept: HashMap<_, ()> = after.nodes.iter().map(|node| (node.address, ())).collect();
    for (place, node) in old.iter().enumerate().filter(|(_, node)| !kept.contains_key(&node.address)) {
        text.hunk(&title(node), &node_lines(&old_documents[place]), &[]);
    }
    for (place, node) in after.nodes.iter().enumerate() {
        let earlier = places.get(&node.address);
        if earlier.is_some_and(|earlier| old[*earlier] == *node) {
            continue;
        }
        let earlier = earlier.map(|earlier| node_lines(&old_documents[*earlier])).unwrap_or_default();
        text.hunk(&title(node), &earlier, &node_lines(&documents.1["nodes"][place]));
    }
    text.finish()
}

fn title(node: &Node) -> String {
    let place = if node.control_plane { "control plane" } else { "worker" };
    format!("node {} ({place})", node.address)
}

fn lines(document: &Value) -> Vec<String> {
    to_yaml(document).lines().map(str::to_owned).collect()
}

/// A node as it stands in the list.
fn node_lines(document: &Value) -> Vec<String> {
    lines(&Value::Array(vec![document.clone()]))
}

/// A diff that grows to its bound.
#[derive(Default)]
struct Text {
    lines: Vec<String>,
    /// Hunks that did not fit.
    left_out: usize,
}

impl Text {
    fn hunk(&mut self, title: &str, before: &[String], after: &[String]) {
        if before == after {
            return;
        }
        if self.lines.len() >= limits::DIFF_LINES_MAX {
            self.left_out += 1;
            return;
        }
        self.lines.push(format!("@@ {title} @@"));
        let edits = edits(before, after);
        let near = |place: usize| {
            let from = place.saturating_sub(limits::DIFF_CONTEXT);
            let to = (place + limits::DIFF_CONTEXT + 1).min(edits.len());
            edits[from..to].iter().any(|(sign, _)| *sign != ' ')
        };
        let mut gap = false;
        for (place, (sign, line)) in edits.iter().enumerate() {
            if near(place) {
                if std::mem::take(&mut gap) {
                    self.lines.push("@@".to_owned());
                }
                self.lines.push(format!("{sign}{line}"));
            } else {
                // Lines left out before the first change need no mark.
                gap = place > 0 && edits[..place].iter().any(|(sign, _)| *sign != ' ');
            }
        }
    }

    fn finish(self) -> String {
        if self.lines.is_empty() {
            return String::new();
        }
        let mut text = String::from("--- present\n+++ planned\n");
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        if self.left_out > 0 {
            text.push_str(&format!("@@ {} more are not shown @@\n", self.left_out));
        }
        text
    }
}

/// Lines that stay, go and come, in order: the longest common subsequence, as long as that is little work.
fn edits<'a>(before: &'a [String], after: &'a [String]) -> Vec<(char, &'a str)> {
    let start = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let end = before[start..].iter().rev().zip(after[start..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (old, new) = (&before[start..before.len() - end], &after[start..after.len() - end]);
    let mut edits: Vec<(char, &str)> = before[..start].iter().map(|line| (' ', line.as_str())).collect();
    if old.len().saturating_mul(new.len()) > limits::DIFF_WORK_MAX {
        edits.extend(old.iter().map(|line| ('-', line.as_str())));
        edits.extend(new.iter().map(|line| ('+', line.as_str())));
    } else {
        common(old, new, &mut edits);
    }
    edits.extend(before[before.len() - end..].iter().map(|line| (' ', line.as_str())));
    edits
}

fn common<'a>(old: &'a [String], new: &'a [String], edits: &mut Vec<(char, &'a str)>) {
    // best[i][j]: how many lines the rest of both has in common.
    let width = new.len() + 1;
    let mut best = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            best[i * width + j] = if old[i] == new[j] {
                best[(i + 1) * width + j + 1] + 1
            } else {
                best[(i + 1) * width + j].max(best[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            edits.push((' ', &old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && best[(i + 1) * width + j] >= best[i * width + j + 1]) {
            edits.push(('-', &old[i]));
            i += 1;
        } else {
            edits.push(('+', &new[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn configuration(nodes: &[(&str, bool, &str)], subnet: &str) -> Configuration {
        let node = |(address, control_plane, label): &(&str, bool, &str)| json!({ "address": address, "user": "u", "control_plane": control_plane, "labels": { "a": label } });
        let nodes: Vec<Value> = nodes.iter().map(node).collect();
        Configuration::parse(json!({ "name": "x", "service_subnet": subnet, "nodes": nodes })).expect("a configuration")
    }

    #[test]
    fn only_what_changes_is_shown() {
        let before =
            configuration(&[("10.0.0.1", true, "1"), ("10.0.0.2", false, "2"), ("10.0.0.3", false, "3")], "10.0.0.0/8");
        let same = diff(Some(&before), &before);
        assert_eq!(same, "");
        // The order of nodes alone is no change.
        let mut turned = before.clone();
        turned.nodes.reverse();
        assert_eq!(diff(Some(&before), &turned), "");
        let after =
            configuration(&[("10.0.0.1", true, "1"), ("10.0.0.3", true, "3"), ("10.0.0.4", false, "4")], "11.0.0.0/8");
        let text = diff(Some(&before), &after);
        let marked: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
        let expected = [
            "--- present",
            "+++ planned",
            "@@ settings @@",
            "-service_subnet: 10.0.0.0/8",
            "+service_subnet: 11.0.0.0/8",
            "@@ node 10.0.0.2 (worker) @@",
        ];
        assert_eq!(marked[..6], expected, "{text}");
        assert!(
            text.contains("\n-- address: \"10.0.0.2\"\n") && text.contains("\n+- address: \"10.0.0.4\"\n"),
            "{text}"
        );
        assert!(text.contains("-  control_plane: false\n+  control_plane: true\n"), "{text}");
        assert!(!text.contains("10.0.0.1"), "{text}");
    }

    #[test]
    fn a_new_cluster_is_all_new() {
        let text = diff(None, &configuration(&[("10.0.0.1", true, "1")], "10.0.0.0/8"));
        assert!(text.lines().skip(2).all(|line| line.starts_with('+') || line.starts_with("@@")), "{text}");
    }

    #[test]
    fn lines_are_paired() {
        let all = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        let check = |before: &str, after: &str, expected: &str| {
            let (before, after) = (all(before), all(after));
            let shown: String = edits(&before, &after).iter().map(|(sign, line)| format!("{sign}{line}")).collect();
            assert_eq!(shown, expected);
        };
        check("abc", "abc", " a b c");
        check("abc", "axc", " a-b+x c");
        check("abcd", "bcde", "-a b c d+e");
        check("", "ab", "+a+b");
        check("ab", "", "-a-b");
    }

    #[test]
    fn a_large_difference_is_cut() {
        let addresses: Vec<String> = (0..2_000).map(|n| format!("10.1.{}.{}", n / 200, n % 200)).collect();
        let nodes: Vec<(&str, bool, &str)> = addresses.iter().map(|address| (address.as_str(), false, "x")).collect();
        let text = diff(None, &configuration(&nodes, "10.0.0.0/8"));
        assert!(text.lines().count() < limits::DIFF_LINES_MAX + 100);
        assert!(text.lines().last().is_some_and(|line| line.ends_with("more are not shown @@")));
    }
}
