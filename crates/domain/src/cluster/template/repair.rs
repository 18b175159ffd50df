//! How nodes are rebooted and broken machines repaired: what a template may say about it.

use serde_json::{Map, Value};

use super::tables::SELECTOR;
use crate::cluster::shape::{Checker, Field, Object, Place, Rule, Shape, items, quote, repeats, rules::NOT_EMPTY};
use crate::repair::procedure::{Action, HealthCheck};

/// What a repair step can do by itself, instead of a command.
const ACTIONS: [&str; Action::ALL.len()] = {
    let [a, b, c, d, e] = Action::ALL;
    [a.as_str(), b.as_str(), c.as_str(), d.as_str(), e.as_str()]
};

/// Who says whether a machine is healthy, instead of a command.
const HEALTH_CHECKS: [&str; 1] = [HealthCheck::REGISTRY];

const SECONDS: Shape = Shape::at_least(0);
const COUNT: Shape = Shape::at_least(0);
const POSITIVE: Shape = Shape::at_least(1);
/// A program and its arguments. Only the program must not be empty, which [`check_command`] sees to.
const COMMAND: Shape = Shape::some(&Shape::Text(&ARGUMENT));
const ARGUMENT: Rule =
    Rule { name: "argument", text: "any text without NUL characters", accepts: |text| !text.contains('\0') };

/// How nodes are rebooted.
pub(super) const REBOOT: Object = Object::new(
    "Reboot",
    "How nodes are rebooted. Without both commands nothing is rebooted. Commands are run without a shell; the address of the node \
     is added as an argument.",
    &[
        &[
            Field::optional("reboot_command", COMMAND, "Reboots a node."),
            Field::optional(
                "boot_check_command",
                COMMAND,
                "Prints `true` when a node has booted; also gets the time of the reboot in Unix seconds.",
            ),
            Field::optional("max_concurrent_reboots", POSITIVE, "How many nodes at the same time.").means("1"),
            Field::optional("command_timeout_seconds", SECONDS, "How long a command may take; 0: as long as it likes.")
                .means("0"),
            Field::optional("command_retries", COUNT, "How often a failed command is run again; more than 100 counts as 100.")
                .means("0"),
            Field::optional("command_interval", SECONDS, "Seconds between attempts; at least one is waited.").means("0"),
        ],
        DRAIN,
    ],
)
.checked(|members, place, checker| check_commands(members, &["reboot_command", "boot_check_command"], place, checker));

/// How broken machines are repaired.
pub(super) const REPAIR: Object = Object::new(
    "Repair",
    "How broken machines are repaired. A machine type belongs to one procedure only.",
    &[
        &[
            Field::optional(
                "repair_procedures",
                Shape::list(&Shape::Object(&PROCEDURE)),
                "What is done for which machines.",
            ),
            Field::optional("max_concurrent_repairs", POSITIVE, "How many machines at the same time.").means("1"),
        ],
        DRAIN,
    ],
)
.checked(check_repair);

const DRAIN: &[Field] = &[
    Field::optional(
        "protected_namespaces",
        Shape::Object(&SELECTOR),
        "Namespaces whose pods are never deleted by force.",
    )
    .means("all"),
    Field::optional("evict_retries", COUNT, "How often the eviction of a pod is tried again.").means("0"),
    Field::optional("evict_interval", SECONDS, "Seconds between those attempts.").means("0"),
    Field::optional("eviction_timeout_seconds", POSITIVE, "How long it may take until a node is empty.").means("600"),
    Field::optional("protected_job_pods", Shape::Object(&SELECTOR), "Pods of jobs that are never deleted.")
        .means("all"),
];

const PROCEDURE: Object = Object::new(
    "Repair procedure",
    "What is done for some types of machines. Every operation has another name.",
    &[&[
        Field::required("machine_types", Shape::some(&Shape::Text(&NOT_EMPTY)), "BMC types of the machines it is for."),
        Field::required(
            "repair_operations",
            Shape::some(&Shape::Object(&OPERATION)),
            "What is done for which trouble.",
        ),
    ]],
)
.checked(check_procedure);

const OPERATION: Object = Object::new(
    "Repair operation",
    "What is done for one kind of trouble, and who says whether the machine is healthy again: either a command or the registry. \
     Commands are run without a shell; the address of the machine is added as their last argument.",
    &[&[
        Field::required("operation", Shape::Text(&NOT_EMPTY), "The trouble, such as `unreachable`."),
        Field::required("repair_steps", Shape::some(&Shape::Object(&STEP)), "What is tried, in order."),
        Field::optional("health_check_command", COMMAND, "Prints `true` when the machine is healthy."),
        Field::or_empty(
            "health_check",
            Shape::Word(&HEALTH_CHECKS),
            "What is asked instead of a command. `registry`: the machine's state there; nothing is left to repair when it is healthy, \
             retiring, retired or no longer registered.",
        ),
        Field::optional(
            "command_timeout_seconds",
            SECONDS,
            "How long the check may take; 0: as long as it likes.",
        )
        .means("30"),
        Field::optional("success_command", COMMAND, "Is run once the machine is healthy."),
        Field::optional("success_command_timeout", SECONDS, "How long it may take, in seconds; 0: as long as it likes.")
            .means("30"),
    ]],
)
.checked(check_operation);

const STEP: Object = Object::new(
    "Repair step",
    "One attempt to repair a machine: either a command or a built-in action.",
    &[&[
        Field::optional("repair_command", COMMAND, "Repairs the machine."),
        Field::or_empty("action", Shape::Word(&ACTIONS), "What is done instead of a command."),
        Field::optional("command_timeout_seconds", SECONDS, "How long an attempt may take; 0: as long as it likes.")
            .means("30; 3600 for `rebuild`"),
        Field::optional(
            "command_retries",
            COUNT,
            "How often a failed attempt is repeated; more than 100 counts as 100.",
        )
        .means("0"),
        Field::optional(
            "command_interval",
            SECONDS,
            "Seconds after each failed attempt; at least one is waited before the next.",
        )
        .means("0"),
        Field::optional("need_drain", Shape::Bool, "The node is emptied first.").means("false"),
        Field::optional("watch_seconds", SECONDS, "How long the machine is given to become healthy.").means("0"),
    ]],
)
.checked(check_step);

fn check_operation(members: &Map<String, Value>, place: &Place<'_>, checker: &mut Checker) {
    check_commands(members, &["health_check_command", "success_command"], place, checker);
    check_either(members, "health_check_command", ("health_check", &HEALTH_CHECKS), place, checker);
}

fn check_step(members: &Map<String, Value>, place: &Place<'_>, checker: &mut Checker) {
    check_commands(members, &["repair_command"], place, checker);
    check_either(members, "repair_command", ("action", &ACTIONS), place, checker);
}

/// A command, or a word for something built in: exactly one of them.
fn check_either(
    members: &Map<String, Value>,
    command: &str,
    (word, words): (&str, &[&str]),
    place: &Place<'_>,
    checker: &mut Checker,
) {
    let given = |name: &str| members.get(name).is_some_and(|value| !value.is_null() && value != "");
    match (given(command), given(word)) {
        (true, true) => checker.problem(&place.key(word), format!("excludes {command}: give one of them")),
        (false, false) => {
            checker.problem(&place.key(command), format!("is missing; or give {word}: {}", words.join(", ")));
        }
        _ => {}
    }
}

fn check_commands(members: &Map<String, Value>, names: &[&str], place: &Place<'_>, checker: &mut Checker) {
    for name in names {
        if items(members, name).first().and_then(Value::as_str) == Some("") {
            checker.problem(&place.key(name).index(0), "the program is empty");
        }
    }
}

fn check_procedure(members: &Map<String, Value>, place: &Place<'_>, checker: &mut Checker) {
    let operations = items(members, "repair_operations");
    let name = |index: usize| operations[index].get("operation").and_then(Value::as_str);
    for (index, first) in repeats((0..operations.len()).map(name)) {
        let reason =
            format!("{} is the operation of repair_operations[{first}] too", quote(name(index).unwrap_or_default()));
        checker.problem(&place.key("repair_operations").index(index).key("operation"), reason);
    }
}

fn check_repair(members: &Map<String, Value>, place: &Place<'_>, checker: &mut Checker) {
    let procedures = items(members, "repair_procedures");
    let types = |procedure: &Value| procedure.get("machine_types").and_then(Value::as_array).map_or(0, Vec::len);
    let places: Vec<(usize, usize)> = (0..procedures.len())
        .flat_map(|procedure| (0..types(&procedures[procedure])).map(move |index| (procedure, index)))
        .collect();
    let name = |(procedure, index): (usize, usize)| procedures[procedure]["machine_types"][index].as_str();
    for (later, first) in repeats(places.iter().map(|place| name(*place))) {
        let ((procedure, index), (first, _)) = (places[later], places[first]);
        let kind = quote(name((procedure, index)).unwrap_or_default());
        let reason = format!("{kind} belongs to repair_procedures[{first}] already; a type has one procedure");
        let place = place.key("repair_procedures");
        checker.problem(&place.index(procedure).key("machine_types").index(index), reason);
    }
}
