#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

use serde_json::{Value, json};

use super::*;

fn source_of(found: PersistentVolume) -> Value {
    serde_json::to_value(found.spec.unwrap().csi.unwrap()).unwrap()
}

/// A PersistentVolume with this source and these labels, annotations and access modes.
fn translated(source: Value, metadata: Value) -> Result<Value, String> {
    let mut object = json!({"metadata": {"name": "pv"}, "spec": {"claimRef": {"namespace": "ns"}}});
    object["spec"].as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
    object["metadata"].as_object_mut().unwrap().extend(metadata.as_object().unwrap().clone());
    persistent(&serde_json::from_value(object).unwrap()).map(|found| source_of(found.unwrap()))
}

#[test]
fn translates_each_kind_to_its_driver() {
    let zone = |zone: &str| json!({"labels": {"topology.kubernetes.io/zone": zone}});
    let none = || json!({});
    let secret = json!({"name": "s", "namespace": "n"});
    for (source, metadata, expected) in [
        (
            json!({"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1", "fsType": "ext4", "readOnly": true}}),
            none(),
            json!({"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1", "fsType": "ext4", "readOnly": true,
                "volumeAttributes": {"partition": "0"}}),
        ),
        (
            json!({"gcePersistentDisk": {"pdName": "d", "partition": 2}}),
            none(),
            json!({"driver": "pd.csi.storage.gke.io",
                "volumeHandle": "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
                "volumeAttributes": {"partition": "2"}}),
        ),
        (
            json!({"gcePersistentDisk": {"pdName": "d"}}),
            zone("us-east1-b"),
            json!({"driver": "pd.csi.storage.gke.io",
                "volumeHandle": "projects/UNSPECIFIED/zones/us-east1-b/disks/d",
                "volumeAttributes": {"partition": ""}}),
        ),
        (
            json!({"gcePersistentDisk": {"pdName": "d"}}),
            zone("us-east1-b__us-east1-c"),
            json!({"driver": "pd.csi.storage.gke.io",
                "volumeHandle": "projects/UNSPECIFIED/regions/us-east1/disks/d",
                "volumeAttributes": {"partition": ""}}),
        ),
        (
            json!({"azureDisk": {"diskName": "d", "diskURI": "/s/d", "cachingMode": "ReadOnly", "fsType": "xfs"}}),
            none(),
            json!({"driver": "disk.csi.azure.com", "volumeHandle": "/s/d", "fsType": "xfs",
                "volumeAttributes": {"kind": "Managed", "cachingmode": "ReadOnly", "fstype": "xfs"}}),
        ),
        (
            json!({"azureFile": {"secretName": "azure-storage-account-acc-secret", "shareName": "share"}}),
            json!({"annotations": {"kubernetes.io/azure-file-resource-group": "rg"}}),
            json!({"driver": "file.csi.azure.com", "volumeHandle": "rg#acc#share#pv#ns",
                "nodeStageSecretRef": {"name": "azure-storage-account-acc-secret", "namespace": "ns"},
                "volumeAttributes": {"sharename": "share"}}),
        ),
        (
            json!({"cinder": {"volumeID": "c", "fsType": "ext4"}}),
            none(),
            json!({"driver": "cinder.csi.openstack.org", "volumeHandle": "c", "fsType": "ext4", "volumeAttributes": {}}),
        ),
        (
            json!({"vsphereVolume": {"volumePath": "[ds] v.vmdk", "storagePolicyName": "gold"}}),
            none(),
            json!({"driver": "csi.vsphere.vmware.com", "volumeHandle": "[ds] v.vmdk",
                "volumeAttributes": {"storagepolicyname": "gold"}}),
        ),
        (
            json!({"portworxVolume": {"volumeID": "p"}}),
            json!({"annotations": {"openstorage.io/auth-secret-name": "s", "openstorage.io/auth-secret-namespace": "n"}}),
            json!({"driver": "pxd.portworx.com", "volumeHandle": "p", "volumeAttributes": {},
                "nodeStageSecretRef": secret, "nodePublishSecretRef": secret, "nodeExpandSecretRef": secret}),
        ),
    ] {
        assert_eq!(translated(source.clone(), metadata), Ok(expected), "{source}");
    }
    let csi = json!({"csi": {"driver": "d", "volumeHandle": "h"}});
    let own: PersistentVolume = serde_json::from_value(json!({"metadata": {}, "spec": csi})).unwrap();
    assert_eq!(persistent(&own), Ok(None));
}

#[test]
fn untranslatable_volume_is_an_error() {
    for (source, words) in [
        (json!({"awsElasticBlockStore": {"volumeID": "aws://zone/snap-1"}}), "Invalid format for AWS volume"),
        (
            json!({"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Dedicated"}}),
            "kind(Dedicated) is not supported",
        ),
    ] {
        let problem = translated(source, json!({})).unwrap_err();
        assert!(problem.contains(words), "{problem}");
    }
}

#[test]
fn translates_topology_labels() {
    let requirement = json!({"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z"]});
    let affinity = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}});
    let object = json!({"metadata": {"name": "pv"}, "spec": {
        "gcePersistentDisk": {"pdName": "d"}, "nodeAffinity": affinity, "accessModes": ["ReadWriteMany"]}});
    let spec = persistent(&serde_json::from_value(object).unwrap()).unwrap().unwrap().spec.unwrap();
    let required = spec.node_affinity.unwrap().required.unwrap();
    let key = &required.node_selector_terms[0].match_expressions.as_ref().unwrap()[0].key;
    assert_eq!(key, "topology.gke.io/zone");
    assert_eq!(spec.access_modes.unwrap(), ["ReadWriteOnce"]);
}

#[test]
fn inline_volume_gets_a_unique_name() {
    for (source, name, handle, mode) in [
        (
            json!({"awsElasticBlockStore": {"volumeID": "vol-1"}}),
            "ebs.csi.aws.com-vol-1",
            "vol-1",
            "ReadWriteOnce",
        ),
        (
            json!({"gcePersistentDisk": {"pdName": "d", "readOnly": true}}),
            "pd.csi.storage.gke.io-d",
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
            "ReadOnlyMany",
        ),
        (json!({"azureDisk": {"diskName": "d", "diskURI": "/s/d"}}), "~s~d", "/s/d", "ReadWriteOnce"),
        (
            json!({"azureFile": {"secretName": "s", "shareName": "share"}}),
            "#s#share#v#ns",
            "#s#share#v#ns",
            "ReadWriteMany",
        ),
    ] {
        let mut object = json!({"name": "v"});
        object.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        let found = inline(&serde_json::from_value(object).unwrap(), "ns").unwrap().unwrap();
        assert_eq!(found.metadata.name.as_deref(), Some(name));
        let spec = found.spec.unwrap();
        assert_eq!(spec.access_modes.unwrap(), [mode]);
        assert_eq!(spec.csi.unwrap().volume_handle, handle);
    }
    assert_eq!(inline(&Volume { name: "v".into(), ..Volume::default() }, "ns"), Ok(None));
}
