//! Every feature gate is used, or listed as having no effect.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use config::{FeatureGates, GateEffect};

/// Collects the gates that the sources below a folder mention.
fn collect_gates(folder: &Path, skip: &dyn Fn(&Path) -> bool, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if skip(&path) {
            continue;
        }
        if path.is_dir() {
            collect_gates(&path, skip, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            for rest in text.split("Gate::").skip(1) {
                let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
                found.insert(rest[..end].to_owned());
            }
        }
    }
}

#[test]
fn every_gate_is_used_or_listed_without_effect() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let lists = |path: &Path| path.starts_with(crates.join("config/src/gates")) || path.ends_with("gates.rs");
    let (mut anywhere, mut outside) = (BTreeSet::new(), BTreeSet::new());
    collect_gates(crates, &lists, &mut anywhere);
    collect_gates(crates, &|path| lists(path) || path.ends_with("config"), &mut outside);
    for (name, effect) in FeatureGates::effects() {
        match effect {
            GateEffect::Locked => {}
            GateEffect::Used => assert!(anywhere.contains(name), "{name} is not used"),
            GateEffect::NoEffect => assert!(!outside.contains(name), "{name} has an effect now"),
            GateEffect::Other => assert!(!anywhere.contains(name), "{name} is used"),
        }
    }
}
