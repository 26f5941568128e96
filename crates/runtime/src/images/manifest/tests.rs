use serde_json::{Value, json};

use super::*;

fn descriptor(media_type: &str) -> Value {
    json!({"mediaType": media_type, "digest": Digest::of(media_type.as_bytes()), "size": 3})
}

fn read(value: &Value, media_type: &str) -> Result<Document, ManifestError> {
    parse_document(&serde_json::to_vec(value).unwrap(), media_type)
}

#[test]
fn manifest_with_layers_and_manifests_is_rejected() {
    let both = json!({"schemaVersion": 2, "config": descriptor("c"), "layers": [], "manifests": []});
    assert!(matches!(read(&both, ""), Err(ManifestError::Ambiguous)));
    let index = json!({"schemaVersion": 2, "manifests": []});
    assert!(matches!(read(&index, OCI_MANIFEST), Err(ManifestError::Ambiguous)));
    assert!(matches!(read(&json!({"schemaVersion": 2}), ""), Err(ManifestError::Empty)));
}

#[test]
fn media_type_inside_must_equal_the_one_of_the_response() {
    let manifest =
        json!({"schemaVersion": 2, "mediaType": OCI_INDEX, "config": descriptor("c"), "layers": []});
    assert!(matches!(read(&manifest, OCI_MANIFEST), Err(ManifestError::MediaTypeMismatch { .. })));
}

#[test]
fn schema_1_manifest_is_rejected_by_name() {
    let manifest = json!({"schemaVersion": 1, "fsLayers": []});
    assert!(matches!(read(&manifest, ""), Err(ManifestError::Schema1)));
}

#[test]
fn layer_types_other_than_tar_are_rejected() {
    for (media_type, accepted) in [
        ("application/vnd.oci.image.layer.v1.tar+zstd", true),
        ("application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", true),
        ("application/vnd.docker.image.rootfs.diff.tar.gzip", true),
        ("application/vnd.cncf.helm.chart.content.v1.tar+gzip", false),
        ("application/wasm", false),
    ] {
        let manifest =
            json!({"schemaVersion": 2, "config": descriptor("c"), "layers": [descriptor(media_type)]});
        let Document::Manifest(manifest) = read(&manifest, OCI_MANIFEST).unwrap() else {
            panic!("no manifest")
        };
        assert_eq!(manifest.check_layers().is_ok(), accepted, "{media_type}");
    }
}

#[test]
fn config_with_null_fields_has_empty_values() {
    let text =
        br#"{"architecture":"x86_64","os":"linux","config":{"Env":null,"Cmd":null,"Volumes":{"/data":{}}},
        "rootfs":{"type":"layers","diff_ids":null}}"#;
    let config = parse_config(text, 0).unwrap();
    assert_eq!(config.platform.architecture, "amd64");
    assert_eq!(config.config.volumes, ["/data"]);
    assert!(config.config.env.is_empty());
}

#[test]
fn config_with_another_number_of_layers_is_rejected() {
    let text = br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#;
    assert!(matches!(parse_config(text, 2), Err(ManifestError::LayerCount { layers: 2, diff_ids: 0 })));
}

#[test]
fn oversized_document_is_rejected() {
    let content = vec![b' '; usize::try_from(MAX_DOCUMENT_SIZE).unwrap() + 1];
    assert!(matches!(parse_document(&content, ""), Err(ManifestError::TooLarge { .. })));
}
