use serde_json::{Value, json};

use super::{accepts, rejects, with_spec};

fn with_volume(source: &Value) -> Value {
    let mut volume = json!({ "name": "v" });
    super::merge(&mut volume, source);
    with_spec(&json!({ "volumes": [volume] }))
}

#[track_caller]
fn rejects_volume(source: &Value, expected: &str) {
    rejects(&with_volume(source), &format!("spec.volumes[0]{expected}"));
}

#[test]
fn validates_volume_names_and_sources() {
    rejects_volume(&json!({ "name": "" }), ".name: Required value");
    rejects_volume(&json!({ "name": "a.b" }), ".name: Invalid value: \"a.b\"");
    rejects(
        &with_spec(&json!({ "volumes": [{ "name": "v" }, { "name": "v" }] })),
        "spec.volumes[1].name: Duplicate value: \"v\"",
    );
    rejects_volume(
        &json!({ "emptyDir": {}, "hostPath": { "path": "/a" } }),
        ".hostPath: Forbidden: may not specify more than 1 volume type",
    );
}

#[test]
fn validates_local_volume_sources() {
    for source in [
        json!({ "emptyDir": { "medium": "Memory", "sizeLimit": "1Mi" } }),
        json!({ "hostPath": { "path": "/a", "type": "DirectoryOrCreate" } }),
        json!({ "secret": { "secretName": "s", "items": [{ "key": "k", "path": "a/b", "mode": 0 }] } }),
        json!({ "downwardAPI": { "items": [{ "path": "a", "fieldRef": { "fieldPath": "metadata.labels" } }] } }),
        json!({ "projected": { "sources": [{ "configMap": { "name": "c" } }] } }),
        json!({ "image": { "reference": "a" } }),
    ] {
        accepts(&with_volume(&source));
    }
    for (source, expected) in [
        (json!({ "emptyDir": { "sizeLimit": "-1" } }), ".emptyDir.sizeLimit: Forbidden"),
        (json!({ "emptyDir": { "medium": "Disk" } }), ".emptyDir.medium: Unsupported value: \"Disk\""),
        (json!({ "hostPath": {} }), ".hostPath.path: Required value"),
        (
            json!({ "hostPath": { "path": "/a/../b" } }),
            ".hostPath.path: Invalid value: \"/a/../b\": must not contain '..'",
        ),
        (
            json!({ "hostPath": { "path": "/a", "type": "Dir" } }),
            ".hostPath.type: Unsupported value: \"Dir\"",
        ),
        (json!({ "secret": {} }), ".secret.secretName: Required value"),
        (
            json!({ "secret": { "secretName": "s", "defaultMode": 512 } }),
            ".secret.defaultMode: Invalid value: 512",
        ),
        (json!({ "configMap": {} }), ".configMap.name: Required value"),
        (
            json!({ "configMap": { "name": "c", "items": [{ "path": "a" }] } }),
            ".configMap.items[0].key: Required value",
        ),
        (
            json!({ "configMap": { "name": "c", "items": [{ "key": "k", "path": "/a" }] } }),
            ".configMap.items[0].path: Invalid value",
        ),
        (
            json!({ "downwardAPI": { "items": [{ "path": "a" }] } }),
            ".downwardAPI.items[0]: Required value: one of fieldRef",
        ),
        (
            json!({ "downwardAPI": { "items": [{ "path": "a", "fieldRef": { "fieldPath": "status.podIP" } }] } }),
            ".downwardAPI.items[0].fieldRef.fieldPath: Unsupported",
        ),
        (
            json!({ "downwardAPI": { "items": [{ "path": "a", "resourceFieldRef": { "resource": "limits.cpu" } }] } }),
            ".downwardAPI.items[0].resourceFieldRef.containerName: Required",
        ),
        (json!({ "image": {} }), ".image.reference: Required value"),
        (json!({ "ephemeral": {} }), ".ephemeral.volumeClaimTemplate: Required value"),
        (json!({ "gitRepo": { "repository": "r", "directory": "/a" } }), ".gitRepo.directory: Invalid value"),
    ] {
        rejects_volume(&source, expected);
    }
}

#[test]
fn validates_projected_volume_sources() {
    let projected = |sources: Value| json!({ "projected": { "sources": sources } });
    for (sources, expected) in [
        (json!([{}]), "[0]: Required value"),
        (
            json!([{ "secret": { "name": "a" }, "configMap": { "name": "b" } }]),
            "[0]: Forbidden: may not specify more than 1",
        ),
        (json!([{ "secret": {} }]), "[0].secret.name: Required value"),
        (
            json!([
                { "secret": { "name": "a", "items": [{ "key": "k", "path": "p" }] } },
                { "configMap": { "name": "a", "items": [{ "key": "k", "path": "p" }] } },
            ]),
            "[1].configMap.items[0].path: Invalid value: \"p\": conflicting duplicate paths",
        ),
        (
            json!([{ "serviceAccountToken": { "path": "t" } }]),
            "[0].serviceAccountToken: Forbidden: must not be specified",
        ),
        (json!([{ "clusterTrustBundle": { "path": "t" } }]), "[0].clusterTrustBundle: Required value"),
        (
            json!([{ "podCertificate": { "signerName": "a.b/c", "keyType": "ED25519" } }]),
            "[0].podCertificate: Required value",
        ),
    ] {
        rejects_volume(&projected(sources), &format!(".projected.sources{expected}"));
    }
}

#[test]
fn validates_network_volume_sources() {
    let iscsi = |patch: Value| {
        let mut source = json!({ "targetPortal": "p", "iqn": "iqn.2001-04.com.example:disk", "lun": 0 });
        super::merge(&mut source, &patch);
        json!({ "iscsi": source })
    };
    accepts(&with_volume(&json!({ "nfs": { "server": "s", "path": "/p" } })));
    accepts(&with_volume(&iscsi(json!({}))));
    accepts(&with_volume(&json!({ "csi": { "driver": "Driver.example.com" } })));
    for (source, expected) in [
        (json!({ "nfs": { "path": "/p" } }), ".nfs.server: Required value"),
        (
            json!({ "nfs": { "server": "s", "path": "p" } }),
            ".nfs.path: Invalid value: \"p\": must be an absolute path",
        ),
        (
            iscsi(json!({ "iqn": "x" })),
            ".iscsi.iqn: Invalid value: \"x\": must be valid format starting with",
        ),
        (iscsi(json!({ "iqn": "iqn.x" })), ".iscsi.iqn: Invalid value: \"iqn.x\": must be valid format"),
        (iscsi(json!({ "lun": 256 })), ".iscsi.lun: Invalid value: 256"),
        (iscsi(json!({ "chapAuthSession": true })), ".iscsi.secretRef: Required value"),
        (json!({ "fc": { "targetWWNs": ["w"] } }), ".fc.lun: Required value"),
        (json!({ "fc": {} }), ".fc.targetWWNs: Required value"),
        (json!({ "rbd": { "image": "i" } }), ".rbd.monitors: Required value"),
        (json!({ "cephfs": {} }), ".cephfs.monitors: Required value"),
        (json!({ "cinder": {} }), ".cinder.volumeID: Required value"),
        (json!({ "glusterfs": { "endpoints": "e" } }), ".glusterfs.path: Required value"),
        (json!({ "flocker": {} }), ".flocker: Required value"),
        (json!({ "quobyte": { "registry": "r", "volume": "v" } }), ".quobyte.registry: Invalid value"),
        (
            json!({ "flexVolume": { "driver": "d", "options": { "kubernetes.io/x": "y" } } }),
            ".flexVolume.options[kubernetes.io/x]: Invalid value",
        ),
        (json!({ "azureFile": { "secretName": "s" } }), ".azureFile.shareName: Required value"),
        (
            json!({ "azureDisk": { "diskName": "d", "diskURI": "u" } }),
            ".azureDisk.diskURI: Unsupported value",
        ),
        (json!({ "vsphereVolume": {} }), ".vsphereVolume.volumePath: Required value"),
        (json!({ "photonPersistentDisk": {} }), ".photonPersistentDisk.pdID: Required value"),
        (json!({ "portworxVolume": {} }), ".portworxVolume.volumeID: Required value"),
        (json!({ "scaleIO": { "gateway": "g", "system": "s" } }), ".scaleIO.volumeName: Required value"),
        (json!({ "storageos": { "volumeName": "A" } }), ".storageos.volumeName: Invalid value"),
        (json!({ "csi": { "driver": "-" } }), ".csi.driver: Invalid value"),
        (
            json!({ "gcePersistentDisk": { "pdName": "d", "partition": 256 } }),
            ".gcePersistentDisk.partition: Invalid value: 256",
        ),
        (json!({ "awsElasticBlockStore": {} }), ".awsElasticBlockStore.volumeID: Required value"),
        (json!({ "persistentVolumeClaim": {} }), ".persistentVolumeClaim.claimName: Required value"),
    ] {
        rejects_volume(&source, expected);
    }
}
