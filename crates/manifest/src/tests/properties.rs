//! Property tests: no input panics, and published pods are accepted again.

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::Value;

use super::{FILE, WEB};
use crate::{ManifestRules, read};

/// The manifests in the static UID corpus.
fn corpus() -> Vec<String> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/static_uid");
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_manifest = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.ends_with(".yaml") || (name.ends_with(".json") && !name.ends_with(".defaulted.json"))
    };
    let mut texts: Vec<_> =
        paths.filter(is_manifest).map(|path| std::fs::read_to_string(path).unwrap()).collect();
    texts.sort();
    texts
}

/// A value that a field probably does not accept.
fn unexpected_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-zA-Z0-9./:_ =-]{0,12}".prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
        Just(serde_json::json!({})),
        Just(serde_json::json!([])),
        Just(serde_json::json!([null])),
        Just(serde_json::json!({ "name": "x", "value": 1 })),
    ]
}

/// Replaces the value that is reached after `steps` steps of a depth-first walk.
fn replace(value: &mut Value, steps: &mut usize, with: &Value) -> bool {
    if *steps == 0 {
        *value = with.clone();
        return true;
    }
    *steps -= 1;
    match value {
        Value::Object(fields) => fields.values_mut().any(|field| replace(field, steps, with)),
        Value::Array(items) => items.iter_mut().any(|item| replace(item, steps, with)),
        _ => false,
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes, &FILE, &ManifestRules::default());
    }

    #[test]
    fn text_after_a_valid_prefix_never_panics(text in "\\PC{0,60}", cut in 0..WEB.len()) {
        let _ = read(format!("{}{text}", &WEB[..cut]).as_bytes(), &FILE, &ManifestRules::default());
    }

    #[test]
    fn mutated_manifests_never_panic(
        pick in any::<prop::sample::Index>(),
        changes in prop::collection::vec((0_usize..200, unexpected_value()), 1..4),
    ) {
        let texts = corpus();
        let mut value = document::parse(pick.get(&texts).as_bytes()).unwrap().remove(0).into_value();
        for (mut steps, with) in changes {
            replace(&mut value, &mut steps, &with);
        }
        let rules = ManifestRules { prevent_api_references: false, ..ManifestRules::default() };
        if let Err(problems) = read(value.to_string().as_bytes(), &FILE, &rules) {
            prop_assert!(!problems.is_empty());
            prop_assert!(problems.iter().all(|problem| !problem.reason.is_empty()));
        }
    }
}

#[test]
fn reading_a_published_pod_again_only_changes_its_name() {
    let rules = ManifestRules { prevent_api_references: false, ..ManifestRules::default() };
    for text in corpus() {
        let Ok(first) = read(text.as_bytes(), &FILE, &rules) else { continue };
        let published = serde_json::to_string(&first.pods[0].pod).unwrap();
        let mut second = read(published.as_bytes(), &FILE, &rules).unwrap().pods.remove(0).pod;
        second.metadata.name.clone_from(&first.pods[0].pod.metadata.name);
        assert_eq!(second, first.pods[0].pod);
    }
}
