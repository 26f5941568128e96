//! Any bytes: parsing terminates within its depth limit, and the result round-trips through JSON.
#![no_main]

use document::MAX_DEPTH;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|text: &[u8]| {
    let documents = match document::parse(text) {
        Ok(documents) => documents,
        Err(error) => {
            assert!(!error.reason.is_empty() && error.position.line > 0 && error.position.column > 0);
            return;
        }
    };
    for document in documents {
        let value = document.into_value();
        assert!(depth(&value) <= MAX_DEPTH, "deeper than {MAX_DEPTH}");
        if has_float(&value) || !(value.is_object() || value.is_array()) {
            continue;
        }
        let again = document::parse(value.to_string().as_bytes()).expect("our own JSON is readable");
        let again: Vec<Value> = again.into_iter().map(|document| document.into_value()).collect();
        assert_eq!(again, [value]);
    }
});

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The last digit of a float may change in the round trip.
fn has_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_float),
        Value::Object(fields) => fields.values().any(has_float),
        _ => false,
    }
}
