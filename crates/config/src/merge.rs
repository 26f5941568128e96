//! Applies drop-in files (RFC 7386 merge patches) and flags to a JSON configuration.

use document::drop_nulls;
use serde_json::{Map, Value};

/// Applies a merge patch: objects are merged, null removes a field, every other value replaces it.
///
/// RFC 7386 copies lists unchanged; like upstream's library, this also removes nulls from the objects in them.
pub(crate) fn merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        drop_nulls(target);
        return;
    };
    for (key, value) in patch {
        let fields = as_object(target);
        if value.is_null() {
            fields.remove(key);
        } else {
            merge_patch(fields.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
    as_object(target);
}

/// The value at a dotted path of plain keys; missing objects on the path are created.
pub(crate) fn value_at_path<'a>(value: &'a mut Value, path: &str) -> &'a mut Value {
    path.split('.')
        .fold(value, |current, key| as_object(current).entry(key.to_owned()).or_insert(Value::Null))
}

/// The value as an object; any other value is replaced by an empty object first.
fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    #[expect(clippy::expect_used, reason = "a value that is not an object was replaced by one above")]
    value.as_object_mut().expect("an object")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn merges_like_the_examples_in_rfc_7386() {
        let table = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
            // Not from the RFC.
            (json!({}), json!({"a": [{"b": null, "c": 1}, null]}), json!({"a": [{"c": 1}, null]})),
            (json!({"a": [1]}), json!({"a": [[{"b": null}]]}), json!({"a": [[{}]]})),
        ];
        for (mut target, patch, expected) in table {
            let before = target.clone();
            merge_patch(&mut target, &patch);
            assert_eq!(target, expected, "{before} <- {patch}");
        }
    }

    #[test]
    fn creates_missing_objects_on_the_path() {
        let mut value = json!({"a": {"b": 1}});
        *value_at_path(&mut value, "a.c.d") = json!(2);
        assert_eq!(value, json!({"a": {"b": 1, "c": {"d": 2}}}));
    }
}
