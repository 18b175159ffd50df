//! Differences that show in many commands: each is a rule about a pair of lines, with one reason. What a rule explains is not listed
//! command by command; each scenario lists which rules it needed, so that a rule nobody needs any more is found out.

/// A recorded line and ours that may stand in its place.
pub struct Rule {
    /// The word for it in the lists.
    pub name: &'static str,
    /// Why.
    pub reason: &'static str,
    explains: fn(&str, &str) -> bool,
}

/// Every rule.
pub const RULES: &[Rule] = &[
    Rule {
        name: "power",
        reason: "the power of a machine is known as soon as its credentials are proven; the original's fake machine has none until it is \
                 switched",
        explains: is_power,
    },
    Rule {
        name: "firmware",
        reason: "how a simulated machine starts is known; the original's fake machine does not say",
        explains: |recorded, ours| {
            let known = [
                ("\"boot_mode\": null", "\"boot_mode\": \"uefi\""),
                ("\"secure_boot\": null", "\"secure_boot\": false"),
            ];
            known.iter().any(|(unknown, known)| recorded.contains(unknown) && recorded.replace(unknown, known) == ours)
        },
    },
    Rule {
        name: "lock",
        reason: "the original shows the lock of the change itself",
        explains: |recorded, ours| {
            let locked = "\"reservation\": \"conductor-1\"";
            recorded.contains(locked) && recorded.replace(locked, "\"reservation\": null") == ours
        },
    },
    Rule {
        name: "accepted",
        reason: "a refusal says what is accepted instead",
        explains: |recorded, ours| without_sentence(ours, " Accepted: ").is_some_and(|rest| rest == recorded),
    },
    Rule {
        name: "passed over",
        reason: "an allocation that found no node says why it took none of those there are",
        explains: |recorded, ours| without_sentence(ours, " Passed over: ").is_some_and(|rest| rest == recorded),
    },
    Rule {
        name: "order",
        reason: "members that can be changed are listed by name",
        explains: |recorded, ours| {
            let members = |line: &str| {
                let (before, members) = line.split_once("Only the following can be updated: ")?;
                let mut members: Vec<String> =
                    members.split(", ").map(|name| name.trim_matches('"').to_owned()).collect();
                members.sort();
                Some((before.to_owned(), members))
            };
            members(recorded).is_some() && members(recorded) == members(ours)
        },
    },
];

/// A line without the sentence that begins so.
fn without_sentence(line: &str, begins: &str) -> Option<String> {
    let (before, rest) = line.split_once(begins)?;
    let (_, after) = rest.split_once('.')?;
    Some(format!("{before}{after}"))
}

fn is_power(recorded: &str, ours: &str) -> bool {
    let states = ["power off", "power on"];
    if recorded.contains("\"power_state\": null") {
        return states.iter().any(|state| recorded.replace("null", &format!("\"{state}\"")) == ours);
    }
    // In a table only the place tells which column it is: one cell differs, and it says the power.
    let (recorded, ours): (Vec<&str>, Vec<&str>) = (recorded.split(" | ").collect(), ours.split(" | ").collect());
    let mut others = recorded.iter().zip(&ours).filter(|(recorded, ours)| recorded != ours);
    let is_power = others.next().is_some_and(|(recorded, ours)| *recorded == "None" && states.contains(ours));
    recorded.len() == ours.len() && is_power && others.next().is_none()
}

/// Takes out the pairs of lines that a rule explains, and names the rules.
pub fn explain(lines: Vec<String>) -> (Vec<String>, Vec<String>) {
    let mut left: Vec<Option<String>> = lines.into_iter().map(Some).collect();
    let mut used = Vec::new();
    for at in 0..left.len() {
        let Some(recorded) = left[at].clone().and_then(|line| line.strip_prefix('-').map(str::to_owned)) else {
            continue;
        };
        let pair = (at + 1..left.len()).find_map(|other| {
            let ours = left[other].as_deref()?.strip_prefix('+')?;
            RULES.iter().find(|rule| (rule.explains)(&recorded, ours)).map(|rule| (other, rule.name))
        });
        if let Some((other, name)) = pair {
            (left[at], left[other]) = (None, None);
            used.push(name.to_owned());
        }
    }
    (left.into_iter().flatten().collect(), used)
}

#[test]
fn rules_explain_what_they_say_and_nothing_else() {
    let check = |recorded: &str, ours: &str, rule: Option<&str>| {
        let (left, used) = explain(vec![format!("-{recorded}"), format!("+{ours}")]);
        assert_eq!(used.first().map(String::as_str), rule, "{recorded} {ours}");
        assert_eq!(left.len(), if rule.is_some() { 0 } else { 2 });
    };
    check("| hostname | a |", "| hostname | a |", None);
    check("  \"power_state\": null,", "  \"power_state\": \"power on\",", Some("power"));
    check("  \"target_power_state\": null,", "  \"target_power_state\": \"power on\",", None);
    check("| a | None | None | enroll |", "| a | None | power off | enroll |", Some("power"));
    check("| a | None | None | enroll |", "| a | None | power off | manageable |", None);
    check("\"reservation\": \"conductor-1\",", "\"reservation\": null,", Some("lock"));
    let refusal = |accepted: &str| format!("not while it is in state \"active\".{accepted} (HTTP 400)");
    check(&refusal(""), &refusal(" Accepted: rebuild, deleted."), Some("accepted"));
    check("no node.", "no node. Passed over: 1 in maintenance.", Some("passed over"));
    check("no node.", "no node. Passed: 1 in maintenance.", None);
    let updated = |members: &str| format!("\"Only the following can be updated: {members}\"");
    check(&updated("name, extra"), &updated("extra, name"), Some("order"));
    check(&updated("name, extra"), &updated("extra"), None);
    check("\"boot_mode\": null,", "\"boot_mode\": \"uefi\",", Some("firmware"));
}
