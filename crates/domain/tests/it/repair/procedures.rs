//! Procedures as stories and properties write them: a few steps for a kind of machine and a kind of trouble.

use sabakan_domain::repair::procedure::Procedures;
use serde_json::{Value, json};

/// What is tried for one kind of trouble.
#[derive(Debug, Clone)]
pub struct Operation {
    pub machine_type: String,
    pub name: String,
    pub steps: Vec<Value>,
}

/// The whole of them, as the template of a cluster would hold it.
pub fn procedures(operations: &[Operation], concurrent_max: usize) -> Procedures {
    let types: std::collections::BTreeSet<&str> = operations.iter().map(|known| known.machine_type.as_str()).collect();
    let procedure = |machine_type: &str| {
        let own = operations.iter().filter(|known| known.machine_type == machine_type);
        let own: Vec<Value> = own
            .map(|known| json!({ "operation": known.name, "health_check_command": ["check"], "repair_steps": known.steps }))
            .collect();
        json!({ "machine_types": [machine_type], "repair_operations": own })
    };
    let all: Vec<Value> = types.into_iter().map(procedure).collect();
    let document = json!({ "repair": { "max_concurrent_repairs": concurrent_max, "repair_procedures": all } });
    Procedures::of(document.as_object().expect("an object"))
}
