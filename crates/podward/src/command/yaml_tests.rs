use model::yaml::to_yaml;
use serde_json::json;

#[test]
fn yaml_round_trips() {
    let value = json!({"a": [[1, 2], [], {"x": ["- y", "z: ", "#", "&a", "*b", "!c", "%d", "@e", "`f"]}],
        "b": "x\n\n", "c": "x", "d": "line\n  indented\n", "0": "a", "e": {"f": {"g": []}}});
    let text = to_yaml(&value);
    let read = document::parse(text.as_bytes()).unwrap();
    assert_eq!(*read[0].value(), value, "{text}");
}
