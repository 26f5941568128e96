use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use super::*;

fn values(text: &str) -> Vec<Value> {
    parse(text.as_bytes()).unwrap().into_iter().map(Document::into_value).collect()
}

fn error(text: &str) -> String {
    parse(text.as_bytes()).unwrap_err().to_string()
}

fn line_and_column(document: &Document, path: &str) -> (usize, usize) {
    let position = document.position(&path.parse().unwrap()).unwrap();
    (position.line, position.column)
}

#[test]
fn parses_yaml_and_json() {
    let table = [
        ("", vec![]),
        ("# only a comment\n", vec![]),
        ("---\n---\n# nothing\n---\na: 1\n...\n---\n", vec![json!({"a": 1})]),
        ("a: 1\n---\nb: 2\n", vec![json!({"a": 1}), json!({"b": 2})]),
        ("\u{feff}a: 1\r\nb: [x, \"1\"]\r\n", vec![json!({"a": 1, "b": ["x", "1"]})]),
        ("a:\t1\t# tab\n", vec![json!({"a": 1})]),
        ("\u{feff} \n{\"a\": 1e2}", vec![json!({"a": 100.0})]),
        ("{a: b, c: [1, 2,]}", vec![json!({"a": "b", "c": [1, 2]})]),
        ("[1, null]", vec![json!([1, null])]),
        (r#"{"a": "\ud83d\ude00\u0000\/"}"#, vec![json!({"a": "😀\0/"})]),
        ("a: |\n  x\n  y\nb: >-\n  x\n  y\n", vec![json!({"a": "x\ny\n", "b": "x y"})]),
        ("1: a\ntrue: b\n0x10: c\n1.5: d\n", vec![json!({"1": "a", "true": "b", "16": "c", "1.5": "d"})]),
        ("a: !!str 1\nb: !!int \"2\"\nc: !custom 3\n", vec![json!({"a": "1", "b": 2, "c": "3"})]),
        ("a:\n- b\n- c:\n", vec![json!({"a": ["b", {"c": null}]})]),
    ];
    for (text, expected) in table {
        assert_eq!(values(text), expected, "{text:?}");
    }
}

#[test]
fn expands_aliases_and_merge_keys() {
    let table = [
        ("a: &x [1, 2]\nb: *x\n", json!({"a": [1, 2], "b": [1, 2]})),
        (
            "base: &b {x: 1, z: 2}\nc:\n  z: 3\n  <<: *b\n",
            json!({"base": {"x": 1, "z": 2}, "c": {"x": 1, "z": 3}}),
        ),
        (
            "a: &a {x: 1}\nb: &b {x: 2, z: 2}\nc: {<<: [*a, *b]}\n",
            json!({"a": {"x": 1}, "b": {"x": 2, "z": 2}, "c": {"x": 1, "z": 2}}),
        ),
        ("a: {\"<<\": 1}\n", json!({"a": {"<<": 1}})),
        ("&k key: *k\n", json!({"key": "key"})),
    ];
    for (text, expected) in table {
        assert_eq!(values(text), [expected], "{text:?}");
    }
}

#[test]
fn syntax_errors_contain_position_and_reason() {
    let table = [
        ("a: 1\nb: 2\na: 3\n", "line 3, column 1: field \"a\" is already set on line 1"),
        ("{\"a\": 1,\n \"a\": 2}", "line 2, column 2: field \"a\" is already set on line 1"),
        ("1: a\n\"1\": b\n", "line 2, column 1: field \"1\" is already set on line 1"),
        ("a: .inf\n", "line 1, column 4: infinity and NaN are not supported"),
        ("~: 1\n", "line 1, column 1: a key must be a string, a number or a boolean"),
        ("[a]: 1\n", "line 1, column 1: a mapping or list cannot be a key"),
        ("a: &x [*x]\n", "line 1, column 8: an alias must not refer to a value that contains it"),
        ("<<: 1\n", "line 1, column 1: a merge key (<<) takes a mapping or a list of mappings"),
        ("a: !!int x\n", "line 1, column 4: the value is not an integer, as its tag requires"),
        ("a: 1\nb: \0\n", "line 2, column 4: control characters are not allowed"),
        ("{\"ä\": 1, \"b\" 2}", "line 1, column 14: expected ':' after the field name"),
    ];
    for (text, expected) in table {
        assert_eq!(error(text), expected, "{text:?}");
    }
    assert_eq!(parse(b"a: \xff").unwrap_err().to_string(), "line 1, column 4: the text is not valid UTF-8");
    assert!(error("a: *nope\n").starts_with("line 1, column 4: "));
    assert!(error("a:\n\t- b\n").starts_with("line 2"), "{}", error("a:\n\t- b\n"));
}

#[test]
fn rejects_texts_that_exceed_the_bounds() {
    let mut laughs = String::from("a0: &a0 [lol, lol]\n");
    for i in 1..40 {
        laughs += &format!("a{i}: &a{i} [*a{0}, *a{0}]\n", i - 1);
    }
    assert!(error(&laughs).contains("aliases"));

    let long = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(1 << 20), "*a, ".repeat(100));
    assert!(error(&long).contains("aliases expand"));

    let nested =
        format!("a: &a {}1{}\nb: {}*a{}\n", "[".repeat(40), "]".repeat(40), "[".repeat(40), "]".repeat(40));
    assert!(error(&nested).contains("levels deep"));

    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let text = |depth| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        assert_eq!(values(&text(MAX_DEPTH)).len(), 1);
        assert!(error(&text(MAX_DEPTH + 1)).contains("levels deep"));
        assert_eq!(values(&text(MAX_DEPTH).replace("\"a\":", "a: ")).len(), 1);
        assert!(error(&text(MAX_DEPTH + 1).replace("\"a\":", "a: ")).contains("levels deep"));
        assert!(parse(text(100_000).replace("\"a\":", "a: ").as_bytes()).is_err());
    }
}

#[test]
fn records_the_position_of_every_field() {
    let yaml = "kind: Pod\nspec:\n  containers:\n  - name: a\n    image: b\n  - {name: c}\n";
    let documents = parse(yaml.as_bytes()).unwrap();
    let document = &documents[0];
    for (path, expected) in [
        ("", (1, 1)),
        ("kind", (1, 1)),
        ("spec.containers", (3, 3)),
        ("spec.containers[0]", (4, 5)),
        ("spec.containers[0].image", (5, 5)),
        ("spec.containers[1].name", (6, 6)),
        ("spec.containers[1].image", (6, 5)),
        ("spec.nothing.here", (2, 1)),
    ] {
        assert_eq!(line_and_column(document, path), expected, "{path}");
    }
    let json = parse("{\n  \"ä\": {\"b\":\n [1, 2]}}".as_bytes()).unwrap();
    assert_eq!(line_and_column(&json[0], "[\"ä\"].b"), (2, 9));
    assert_eq!(line_and_column(&json[0], "[\"ä\"].b[1]"), (3, 6));
}

#[test]
fn gets_and_removes_fields() {
    let mut document = parse(b"a: {b: null, c: [1, {d: null}]}\ne: null\n").unwrap().remove(0);
    assert_eq!(document.get(&"a.c[0]".parse().unwrap()), Some(&json!(1)));
    assert_eq!(document.get(&"a.x.y".parse().unwrap()), None);
    document.drop_nulls();
    assert_eq!(document.value(), &json!({"a": {"c": [1, {}]}}));
    assert!(document.remove(&"a.c".parse().unwrap()));
    assert!(!document.remove(&"a.c".parse().unwrap()));
    assert!(!document.remove(&FieldPath::root()));
    assert_eq!(document.value(), &json!({"a": {}}));
    assert_eq!(line_and_column(&document, "a.c[1]"), (1, 21));
}

#[derive(Debug, Deserialize, PartialEq)]
struct Pod {
    name: String,
    #[serde(default)]
    containers: Vec<Container>,
}

#[derive(Debug, Deserialize, PartialEq)]
struct Container {
    image: String,
    port: Option<u16>,
}

#[test]
fn decode_errors_name_field_and_line() {
    let decode = |text: &str| parse(text.as_bytes()).unwrap()[0].decode::<Pod>().map_err(|e| e.to_string());
    assert!(decode("name: a\nmore: 1\n").is_ok());
    let table = [
        ("containers: []\n", "line 1: name: required field is missing"),
        ("name: a\ncontainers:\n- port: 1\n", "line 3: containers[0].image: required field is missing"),
        (
            "name: a\ncontainers:\n- image: b\n  port: x\n",
            "line 4: containers[0].port: invalid type: string \"x\", expected u16",
        ),
        ("[]", "line 1: invalid length 0, expected struct Pod with 2 elements"),
    ];
    for (text, expected) in table {
        assert_eq!(decode(text).unwrap_err(), expected);
    }
}

#[test]
fn strict_decoding_reports_every_unknown_field() {
    let text = "name: a\nextra: 1\ncontainers:\n- image: b\n  prot: 1\n  port: 1\n- image: b\n  aport: 1\n  port: -1\n";
    let errors = parse(text.as_bytes()).unwrap()[0].decode_strict::<Pod>().unwrap_err();
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "line 5: containers[0].prot: unknown field",
            "line 8: containers[1].aport: unknown field",
            "line 9: containers[1].port: invalid value: integer `-1`, expected u16",
        ]
    );
    let text = "zeta: 1\nname: a\nalpha: 1\n";
    let errors = parse(text.as_bytes()).unwrap()[0].decode_strict::<Pod>().unwrap_err();
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["line 1: zeta: unknown field", "line 3: alpha: unknown field"]);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..8)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn parses_any_serialized_json_back(value in any_json()) {
        let value = json!([value]);
        for text in [value.to_string(), format!("{value:#}")] {
            let documents = parse(text.as_bytes()).unwrap();
            prop_assert_eq!(documents.len(), 1);
            prop_assert_eq!(documents[0].value(), &value);
        }
    }

    #[test]
    fn never_panics_on_arbitrary_bytes(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&text);
    }

    #[test]
    fn never_panics_on_yaml_like_text(text in "[-a-c0-9:,\\[\\]{}&*!|><?%@#'\"~. \\t\\n\\\\\r]{0,80}") {
        let _ = parse(text.as_bytes());
    }
}
