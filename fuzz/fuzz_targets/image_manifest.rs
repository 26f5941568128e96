//! Any bytes as a manifest, index or configuration of an image: refused, or values within the limits.
#![no_main]

use libfuzzer_sys::fuzz_target;
use runtime::images::{Document, parse_config, parse_document};

const MEDIA_TYPES: [&str; 4] = [
    "",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

fuzz_target!(|content: &[u8]| {
    for media_type in MEDIA_TYPES {
        match parse_document(content, media_type) {
            Ok(Document::Manifest(manifest)) => {
                assert!(manifest.layers.len() <= 400);
                for descriptor in manifest.layers.iter().chain([&manifest.config]) {
                    // A digest becomes the name of a file.
                    assert!(descriptor.digest.hex().bytes().all(|byte| byte.is_ascii_hexdigit()));
                }
            }
            Ok(Document::Index(entries)) => assert!(entries.len() <= 1000),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    for layers in 0..3 {
        if let Ok(config) = parse_config(content, layers) {
            assert_eq!(config.diff_ids.len(), layers);
        }
    }
});
