//! Every route that may change something, as `METHOD path`.

use std::{collections::BTreeSet, fs, path::Path};

/// Methods that change something.
const METHODS: [&str; 4] = ["put", "post", "patch", "delete"];

/// Those of the REST API, from its own document.
pub(super) fn rest() -> BTreeSet<String> {
    let document = sabakan::rest::document();
    let paths = document["paths"].as_object().expect("paths");
    let routes = |(path, item): (&String, &serde_json::Value)| {
        let methods = METHODS.into_iter().filter(|method| item.get(method).is_some());
        methods.map(|method| format!("{} {path}", method.to_uppercase())).collect::<Vec<_>>()
    };
    paths.iter().flat_map(routes).collect()
}

/// Those of the provisioning API, from the source: a router does not tell its routes. Of `lookup`, which is a `GET`, everybody has to
/// know that it writes.
pub(super) fn provisioning() -> BTreeSet<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src/ironic");
    let mut found = BTreeSet::from(["GET /v1/lookup".to_owned()]);
    for file in fs::read_dir(&dir).expect("the sources of the provisioning API") {
        let text = fs::read_to_string(file.expect("a file").path()).expect("UTF-8");
        // Routes made in a loop have no literal path, and only lists are made so.
        for call in text.split(".route(\"").skip(1) {
            let (path, rest) = call.split_once('"').expect("a literal ends");
            let methods = &rest[..end_of_call(rest)];
            for method in METHODS {
                if methods.contains(&format!("{method}(")) {
                    found.insert(format!("{} {path}", method.to_uppercase()));
                }
            }
            if methods.contains(" any(") {
                found.insert(format!("ANY {path}"));
            }
        }
    }
    assert!(found.len() > 40, "the routes were not found: {found:?}");
    found
}

/// Where the arguments of a call end whose parenthesis is open.
fn end_of_call(text: &str) -> usize {
    let mut open = 1;
    text.bytes()
        .position(|byte| {
            open += match byte {
                b'(' => 1,
                b')' => -1,
                _ => 0,
            };
            open == 0
        })
        .unwrap_or(text.len())
}
