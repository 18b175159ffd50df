//! The checker, defaults and the page, on a table of its own.

use serde_json::json;

use super::{page::page, *};
use crate::limits::{PROBLEMS_SHOWN_MAX, TEMPLATE_DEPTH_MAX};

const INNER: Object = Object::new(
    "Inner thing",
    "Something inside.",
    &[&[
        Field::required("path", Shape::Text(&rules::ABSOLUTE_PATH), "Where."),
        Field::optional("kind", Shape::Text(&rules::NOT_EMPTY), "Which.").filled("usual"),
    ]],
);

const OUTER: Object = Object::new(
    "Outer",
    "Not both of `flag` and `word`.",
    &[
        &[
            Field::optional("flag", Shape::Bool, "A flag.").means("false"),
            Field::or_empty("word", Shape::Word(&["red", "green"]), "A word."),
        ],
        &[
            Field::optional("number", Shape::Integer { min: -1, max: 3 }, "A number."),
            Field::optional("texts", Shape::some(&Shape::Text(&rules::TEXT)), "Texts."),
            Field::optional("things", Shape::List { of: &Shape::Object(&INNER), min: 0, max: 2 }, "Things."),
            Field::optional("env", Shape::Map { key: &rules::VARIABLE, value: &Shape::Bool }, "Pairs | more."),
            Field::optional("inner", Shape::Object(&INNER), "A thing."),
            Field::optional("free", Shape::Any, "Anything."),
        ],
    ],
)
.checked(|members, place, checker| {
    if members.contains_key("flag") && members.contains_key("word") {
        checker.problem(place, "flag and word");
    }
});

fn problems(document: &Value) -> Vec<String> {
    check(&OUTER, document).iter().map(Problem::to_string).collect()
}

#[test]
fn what_is_right() {
    for document in [
        json!({}),
        json!({ "flag": null, "number": null, "things": null, "inner": null, "free": null }),
        json!({ "word": "" }),
        json!({ "word": "red", "number": -1, "texts": [""], "things": [{ "path": "/" }], "env": { "a": true }, "free": [{}] }),
    ] {
        assert_eq!(problems(&document), [""; 0], "{document}");
    }
}

#[test]
fn what_is_wrong_and_where() {
    let check = |document: Value, expected: &[&str]| assert_eq!(problems(&document), expected, "{document}");
    check(json!([]), &["must be an object, is a list"]);
    check(json!({ "flag": 1 }), &["flag: must be true or false, is a number"]);
    check(json!({ "word": "blue" }), &["word: \"blue\" is not one of red, green"]);
    check(json!({ "word": true }), &["word: must be one of red, green, is true or false"]);
    for (number, shown) in
        [(json!(4), "4"), (json!(-2), "-2"), (json!(1.5), "1.5"), (json!(u64::MAX), "18446744073709551615")]
    {
        check(json!({ "number": number }), &[&format!("number: {shown} is not a whole number from -1 to 3")]);
    }
    check(json!({ "number": "1" }), &["number: must be a whole number from -1 to 3, is a text"]);
    check(json!({ "texts": [] }), &["texts: has 0 entries; at least 1 is needed"]);
    check(
        json!({ "texts": ["a", null, 1] }),
        &["texts[1]: must be a text, is null", "texts[2]: must be a text in quotes, is a number"],
    );
    check(json!({ "things": [{}, {}, {}] }), &["things: has 3 entries; at most 2 are allowed"]);
    check(
        json!({ "things": [{ "path": "a" }] }),
        &["things[0].path: \"a\" is not a valid absolute path: a path that begins with `/`"],
    );
    check(json!({ "inner": {} }), &["inner.path: is missing. Where."]);
    check(
        json!({ "inner": { "path": null, "kind": "" } }),
        &["inner.path: is missing. Where.", "inner.kind: \"\" is not a valid non-empty text: at least one character"],
    );
    check(
        json!({ "env": { "a=b": true, "c": 1 } }),
        &[
            "env[\"a=b\"]: \"a=b\" is not a valid environment variable: at least one character, none of them `=` or NUL",
            "env.c: must be true or false, is a number",
        ],
    );
    check(
        json!({ "flag": true, "word": "red", "number": 9 }),
        &["number: 9 is not a whole number from -1 to 3", "flag and word"],
    );
}

#[test]
fn an_unknown_key_is_told_with_the_nearest_known_one() {
    let known = "flag, word, number, texts, things, env, inner, free";
    for (key, path, hint) in [
        ("flags", "flags", "did you mean flag? Known"),
        ("Numbre", "Numbre", "did you mean number? Known"),
        ("colour", "colour", "known"),
        ("", "[\"\"]", "known"),
        ("a.b", "[\"a.b\"]", "known"),
    ] {
        assert_eq!(problems(&json!({ key: 1 })), [format!("{path}: unknown key; {hint}: {known}")]);
    }
    let long = "x".repeat(10_000);
    let problem = &problems(&json!({ long: 1 }))[0];
    assert!(problem.len() < 300 && problem.contains("x\"…]: unknown key"), "{problem}");
    let long = "é".repeat(10_000);
    let problem = &problems(&json!({ "word": long }))[0];
    assert!(problem.len() < 300 && problem.contains("é\"… is not one of"), "{problem}");
}

#[test]
fn problems_are_bounded() {
    let keys = |n: usize| Value::Object((0..n).map(|i| (format!("k{i:04}"), json!(1))).collect());
    assert_eq!(problems(&keys(PROBLEMS_SHOWN_MAX)).len(), PROBLEMS_SHOWN_MAX);
    let many = problems(&keys(PROBLEMS_SHOWN_MAX + 7));
    assert_eq!((many.len(), many.last().map(String::as_str)), (PROBLEMS_SHOWN_MAX + 1, Some("… and 7 more")));
}

#[test]
fn free_json_has_a_depth() {
    let nested = |depth: usize| {
        (0..depth).fold(json!(1), |inner, i| if i % 2 == 0 { json!([inner]) } else { json!({ "k": inner }) })
    };
    assert_eq!(problems(&json!({ "free": nested(TEMPLATE_DEPTH_MAX) })), [""; 0]);
    let problem = &problems(&json!({ "free": nested(TEMPLATE_DEPTH_MAX + 1) }))[0];
    assert!(problem.contains("is too deep; at most 32 levels"), "{problem}");
}

#[test]
fn defaults_are_put_where_they_belong() {
    let check = |document: Value, expected: Value| {
        let Value::Object(mut members) = document else { panic!("an object") };
        fill(&OUTER, &mut members);
        assert_eq!(Value::Object(members), expected);
    };
    check(json!({}), json!({ "inner": { "kind": "usual" } }));
    check(json!({ "inner": null }), json!({ "inner": { "kind": "usual" } }));
    check(json!({ "inner": { "kind": null, "path": "/" } }), json!({ "inner": { "kind": "usual", "path": "/" } }));
    check(json!({ "inner": { "kind": "other" } }), json!({ "inner": { "kind": "other" } }));
    check(json!({ "inner": 7 }), json!({ "inner": 7 }));
}

#[test]
fn repeats_name_the_first() {
    assert_eq!(repeats([Some("a"), None, Some("b"), Some("a"), None, Some("a")]), [(3, 0), (5, 0)]);
    assert_eq!(repeats::<u8>([]), []);
}

#[test]
fn rules() {
    use super::rules::*;
    let check = |rule: Rule, good: &[&str], bad: &[&str]| {
        good.iter().for_each(|text| assert!((rule.accepts)(text), "{text:?} is a {}", rule.name));
        bad.iter().for_each(|text| assert!(!(rule.accepts)(text), "{text:?} is no {}", rule.name));
    };
    check(TEXT, &["", "a"], &[]);
    check(NOT_EMPTY, &["a", " "], &[""]);
    check(
        ADDRESS,
        &["10.0.0.1", "::1", "fd00::1"],
        &["", "10.0.0", "10.0.0.256", "010.0.0.1", "a", "10.0.0.1/8", " 10.0.0.1"],
    );
    check(NETWORK, &["10.68.0.0/16", "10.68.1.1/16", "fd00::/108"], &["", "10.68.0.0", "10.68.0.0/33", "/16", "a/16"]);
    check(ABSOLUTE_PATH, &["/", "/a/b"], &["", "a", "./a", "~"]);
    check(VARIABLE, &["A", "a.b"], &["", "A=", "=", "A\0"]);
}

#[test]
fn a_page_shows_every_object_once() {
    let text = page("Things", "About things.", &[&OUTER, &INNER]);
    let expected = "\
# Things

Generated by `cargo xtask codegen`; do not edit.

About things.

## Outer

Not both of `flag` and `word`.

| key | value | needed | default | meaning |
| --- | --- | --- | --- | --- |
| `flag` | true or false | no | false | A flag. |
| `word` | one of `red`, `green` | no |  | A word. |
| `number` | whole number, -1 to 3 | no |  | A number. |
| `texts` | list of at least one text | no |  | Texts. |
| `things` | list of [Inner thing](#inner-thing) | no |  | Things. |
| `env` | object: environment variable to true or false | no |  | Pairs \\| more. |
| `inner` | [Inner thing](#inner-thing) | no |  | A thing. |
| `free` | any JSON | no |  | Anything. |

## Inner thing

Something inside.

| key | value | needed | default | meaning |
| --- | --- | --- | --- | --- |
| `path` | absolute path | yes |  | Where. |
| `kind` | non-empty text | no | `usual` | Which. |

## Texts

| what | how it looks |
| --- | --- |
| text | any text |
| absolute path | a path that begins with `/` |
| non-empty text | at least one character |
| environment variable | at least one character, none of them `=` or NUL |
";
    assert_eq!(text, expected);
}
