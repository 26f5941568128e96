//! Any bytes: a manifest yields pods with an identity or errors with a message, deterministically.
#![no_main]

use libfuzzer_sys::fuzz_target;
use manifest::{ManifestLocation, ManifestRules, ManifestSource, ObjectSource, read};

fuzz_target!(|text: &[u8]| {
    let origin = ManifestSource {
        node: "node-a",
        location: ManifestLocation::File("/etc/kubernetes/manifests/pod.yaml"),
    };
    let result = read(text, &origin, &ManifestRules::default());
    match &result {
        Ok(manifest) => {
            for pod in &manifest.pods {
                let metadata = &pod.pod.metadata;
                assert!(metadata.uid.as_ref().is_some_and(|uid| !uid.is_empty()), "a static pod has a UID");
                assert!(
                    metadata.name.as_ref().is_some_and(|name| name.ends_with("-node-a")),
                    "and its node's name"
                );
                assert!(metadata.namespace.as_ref().is_some_and(|namespace| !namespace.is_empty()));
                assert!(pod.line > 0);
            }
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "refused without a reason");
            assert!(problems.iter().all(|problem| !problem.to_string().is_empty()));
        }
    }
    assert_eq!(result, read(text, &origin, &ManifestRules::default()));
    // The same text on a node that reads ConfigMaps and Secrets from its manifests.
    let local = ManifestRules { objects: ObjectSource::Manifests, ..ManifestRules::default() };
    match read(text, &origin, &local) {
        Ok(manifest) => {
            for object in &manifest.objects {
                assert!(!object.name.is_empty() && !object.namespace.is_empty() && object.line > 0);
                let size: usize = object.data.values().chain(object.binary_data.values()).map(Vec::len).sum();
                assert!(size <= 1 << 20, "larger than an object may be");
            }
        }
        Err(problems) => assert!(!problems.is_empty(), "refused without a reason"),
    }
});
