#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

use serde_json::{Value, json};

use super::super::csi::missing_driver_error;
use super::super::{VolumeFiles, plan_volumes};
use super::*;
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects::pod;
use model::{CsiAccess, CsiLifecycle, CsiVolume, HostPathKind, LocalSource, VolumePlan, VolumeStep};

fn merged(mut base: Value, with: Value) -> Value {
    for (key, value) in with.as_object().cloned().unwrap_or_default() {
        base[key] = if base[&key].is_object() && value.is_object() {
            merged(base[&key].clone(), value)
        } else {
            value
        };
    }
    base
}

fn claim(with: Value) -> PersistentVolumeClaim {
    let base = json!({
        "metadata": {"name": "c", "namespace": "default", "uid": "claim-uid"},
        "spec": {"volumeName": "pv"},
        "status": {"phase": "Bound"},
    });
    serde_json::from_value(merged(base, with)).unwrap()
}

fn persistent(spec: Value) -> PersistentVolume {
    let base = json!({"claimRef": {"uid": "claim-uid"}});
    serde_json::from_value(json!({"metadata": {"name": "pv"}, "spec": merged(base, spec)})).unwrap()
}

fn user(source: Value, used_as: Value) -> Pod {
    pod(json!({
        "serviceAccountName": "sa",
        "securityContext": {"fsGroup": 7, "fsGroupChangePolicy": "OnRootMismatch"},
        "containers": [merged(json!({"name": "k"}), used_as)],
        "volumes": [merged(json!({"name": "v"}), source)],
    }))
}

fn mounting() -> Value {
    json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})
}

fn claiming() -> Value {
    json!({"persistentVolumeClaim": {"claimName": "c"}})
}

/// The problem with a claim, without the common prefix.
fn refused(pod: &Pod, claim: PersistentVolumeClaim, volume: PersistentVolume) -> Result<String, String> {
    let named = &pod.spec.volumes.as_ref().unwrap()[0];
    let words = |problem: VolumeProblem| match problem {
        VolumeProblem::Unprocessed { reason, .. } => reason,
        other => other.to_string(),
    };
    let name = bound_volume_name(pod, named, &claim).map_err(words)?.to_owned();
    check_binding(pod, named, &ClaimedVolume { claim, volume }).map_err(words)?;
    Ok(name)
}

#[test]
fn claim_must_be_bound_and_match_its_volume() {
    let processing = |reason: &str| Err(format!("error processing PVC default/c: {reason}"));
    let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
    let kept = merged(going.clone(), json!({"finalizers": ["kubernetes.io/pvc-protection"]}));
    for (with, spec, expected) in [
        (json!({}), json!({}), Ok("pv".to_owned())),
        (json!({"status": {"phase": "Pending"}}), json!({}), processing("PVC is not bound")),
        (json!({"status": null}), json!({}), processing("PVC is not bound")),
        (json!({"spec": {"volumeName": ""}}), json!({}), processing("PVC has empty pvc.Spec.VolumeName")),
        (json!({"metadata": going}), json!({}), processing("PVC is being deleted")),
        (json!({"metadata": kept}), json!({}), Ok("pv".to_owned())),
        (
            json!({}),
            json!({"claimRef": null}),
            processing(
                "found PV object pv but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim",
            ),
        ),
        (
            json!({}),
            json!({"claimRef": {"uid": "other"}}),
            processing(
                "found PV object pv but its pv.Spec.ClaimRef.UID other does not point to claim.UID claim-uid",
            ),
        ),
        (
            json!({}),
            json!({"volumeMode": "Block"}),
            Err("volume v has volumeMode Block, but is specified in volumeMounts".to_owned()),
        ),
    ] {
        let found = refused(&user(claiming(), mounting()), claim(with.clone()), persistent(spec.clone()));
        assert_eq!(found, expected, "{with} {spec}");
    }
    let device = user(claiming(), json!({"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}));
    assert_eq!(
        refused(&device, claim(json!({})), persistent(json!({}))),
        Err("volume v has volumeMode Filesystem, but is specified in volumeDevices".to_owned())
    );
}

#[test]
fn generic_ephemeral_claim_must_be_owned_by_its_pod() {
    let pod = user(json!({"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}), mounting());
    assert_eq!(claim_name(&pod, &pod.spec.volumes.as_ref().unwrap()[0]).as_deref(), Some("p-v"));
    let owned = |uid: &str, controller: bool| {
        let owner =
            json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid, "controller": controller});
        claim(json!({"metadata": {"name": "p-v", "ownerReferences": [owner]}}))
    };
    assert_eq!(refused(&pod, owned("u", true), persistent(json!({}))), Ok("pv".to_owned()));
    for claim in [owned("u", false), owned("another", true), claim(json!({"metadata": {"name": "p-v"}}))] {
        assert_eq!(
            refused(&pod, claim, persistent(json!({}))),
            Err("PVC default/p-v was not created for pod default/p (pod is not owner)".to_owned())
        );
    }
}

fn planned(pod: &Pod, spec: Value) -> Result<(VolumePlan, Option<model::FsGroup>), String> {
    planned_of(pod, persistent(spec))
}

fn planned_of(pod: &Pod, volume: PersistentVolume) -> Result<(VolumePlan, Option<model::FsGroup>), String> {
    let claim = claim(json!({"status": {"capacity": {"storage": "1Gi"}}}));
    let claimed = [("v".to_owned(), ClaimedVolume { claim, volume })].into();
    let volumes = plan_volumes(pod, &settings(), &VolumeFiles::new(), &claimed);
    volumes.map(|mut volumes| volumes.remove(0)).map(|v| (v.plan, v.fs_group)).map_err(|p| p.to_string())
}

#[test]
fn plans_volume_by_persistent_volume_source() {
    let writing = user(claiming(), mounting());
    let reading = user(json!({"persistentVolumeClaim": {"claimName": "c", "readOnly": true}}), mounting());
    let folder = |plugin: &str| format!("/var/lib/kubelet/pods/u/volumes/kubernetes.io~{plugin}/pv").into();
    let group = Some(model::FsGroup { gid: 7, change: model::FsGroupChange::OnRootMismatch });
    let local = |read_only, fs_type: &str| VolumePlan::Local {
        path: folder("local-volume"),
        source: LocalSource { path: "/mnt/disk".into(), fs_type: fs_type.to_owned(), claimed: None },
        read_only,
        options: vec![],
    };
    let disk = json!({"local": {"path": "/mnt/disk"}});
    assert_eq!(planned(&writing, disk.clone()), Ok((local(false, "ext4"), group)));
    assert_eq!(planned(&reading, disk), Ok((local(true, "ext4"), None)));
    let disk = json!({"local": {"path": "/mnt/disk", "fsType": "xfs"}});
    assert_eq!(planned(&writing, disk), Ok((local(false, "xfs"), group)));
    let host = json!({"hostPath": {"path": "/srv", "type": "Directory"}});
    let plan = VolumePlan::HostPath { path: "/srv".into(), kind: HostPathKind::Directory, read_only: true };
    assert_eq!(planned(&reading, host.clone()), Ok((plan, None)));
    let share = json!({"nfs": {"server": "nas", "path": "/e"}, "mountOptions": ["nolock"]});
    let plan = VolumePlan::Nfs {
        path: folder("nfs"),
        source: "nas:/e".into(),
        read_only: false,
        options: vec!["nolock".to_owned()],
    };
    assert_eq!(planned(&writing, share), Ok((plan, None)));
    assert_eq!(
        planned(&writing, merged(host, json!({"mountOptions": ["ro"]}))).unwrap_err(),
        "MountVolume.MountOptionSupport check failed for volume \"pv\" : Mount options are not supported for this \
         volume type"
    );
    assert!(
        planned(&writing, json!({"local": {"path": "/a/../b"}})).unwrap_err().contains("must not contain")
    );
    assert!(
        planned(&writing, json!({"rbd": {"image": "i", "monitors": []}}))
            .unwrap_err()
            .contains("no volume plugin")
    );
}

#[test]
fn plans_block_volume_as_link() {
    let pod = user(claiming(), json!({"volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}));
    let (plan, group) = planned(&pod, json!({"local": {"path": "/dev/sdb"}, "volumeMode": "Block"})).unwrap();
    let path = "/var/lib/kubelet/pods/u/volumeDevices/kubernetes.io~local-volume/pv".into();
    assert_eq!(plan, VolumePlan::Device { path, source: "/dev/sdb".into(), read_only: false });
    assert_eq!(group, None);
}

#[test]
fn csi_plan_has_driver_attributes() {
    let spec = json!({
        "csi": {"driver": "d", "volumeHandle": "h", "fsType": "ext4", "volumeAttributes": {"a": "b"},
            "nodeStageSecretRef": {"name": "s", "namespace": "n"}},
        "accessModes": ["ReadWriteOnce"], "mountOptions": ["noatime"], "capacity": {"storage": "2Gi"},
    });
    let pod = user(claiming(), mounting());
    let (VolumePlan::Csi(volume), _) = planned(&pod, spec).unwrap() else { panic!("another plan") };
    assert_eq!(volume.path.to_str().unwrap(), "/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/pv/mount");
    assert_eq!((volume.driver.as_str(), volume.handle.as_str()), ("d", "h"));
    assert_eq!(volume.access, CsiAccess::Files { fs_type: "ext4".into(), options: vec!["noatime".into()] });
    assert_eq!(volume.stage_secret.as_ref().unwrap().namespace, "n");
    let size = volume.size.as_ref().unwrap();
    assert_eq!((size.requested, size.known), (2 << 30, 1 << 30));

    for (access, is_there, step, words) in [
        (
            &volume.access,
            false,
            VolumeStep::MountDevice,
            "attacher.MountDevice failed to create newCsiDriverClient",
        ),
        (&volume.access, true, VolumeStep::SetUp, "mounter.SetUpAt failed to get CSI client"),
        (
            &CsiAccess::Block,
            false,
            VolumeStep::MountDevice,
            "blockMapper.SetUpDevice failed to get CSI client",
        ),
        (&CsiAccess::Block, true, VolumeStep::SetUp, "blockMapper.MapPodDevice failed to get CSI client"),
    ] {
        let volume = CsiVolume { access: access.clone(), ..(*volume).clone() };
        let error = missing_driver_error(&volume, is_there, "gone");
        assert_eq!(error, (step, format!("kubernetes.io/csi: {words}: gone")));
    }

    let inline = user(json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "s"}}}), mounting());
    let volumes = plan_volumes(&inline, &settings(), &VolumeFiles::new(), &ClaimedVolumes::new()).unwrap();
    let VolumePlan::Csi(volume) = &volumes[0].plan else { panic!("another plan") };
    assert_eq!(volume.lifecycle, CsiLifecycle::Ephemeral);
    assert_eq!(missing_driver_error(volume, false, "gone").0, VolumeStep::SetUp);
    // printf uv | sha256sum
    assert_eq!(volume.handle, "csi-e6184ce10e266134fdcfa401e8f1a95005bcd4f18d16b62b757323e2833fe9a9");
    assert_eq!(volume.publish_secret.as_ref().unwrap().namespace, "default");
}

#[test]
fn csi_volume_ignores_mount_options_annotation() {
    let pod = user(claiming(), mounting());
    let options = |source: Value| {
        let mut volume = persistent(merged(source, json!({"mountOptions": ["noatime"]})));
        let key = "volume.beta.kubernetes.io/mount-options".to_owned();
        volume.metadata.annotations = Some([(key, "sync,nodev".to_owned())].into());
        match planned_of(&pod, volume).unwrap().0 {
            VolumePlan::Nfs { options, .. } => options,
            VolumePlan::Csi(volume) => match volume.access {
                CsiAccess::Files { options, .. } => options,
                CsiAccess::Block => panic!("a device"),
            },
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(options(json!({"nfs": {"server": "nas", "path": "/e"}})), ["sync", "nodev"]);
    assert_eq!(options(json!({"csi": {"driver": "d", "volumeHandle": "h"}})), ["noatime"]);
}

#[test]
fn rwop_volume_has_only_that_mode() {
    for (modes, expected) in [
        (json!(["ReadWriteOncePod"]), true),
        (json!(["ReadWriteOnce"]), false),
        (json!(["ReadWriteOncePod", "ReadWriteOnce"]), false),
        (json!(null), false),
    ] {
        assert_eq!(is_for_one_pod(&persistent(json!({"accessModes": modes}))), expected, "{modes}");
    }
}

fn claimed(volume: PersistentVolume) -> ClaimedVolumes {
    ClaimedVolumes::from([("v".to_owned(), ClaimedVolume { claim: claim(json!({})), volume })])
}

#[test]
fn rejects_volume_of_another_node() {
    let labels = BTreeMap::from([("kubernetes.io/hostname".to_owned(), "node-1".to_owned())]);
    let of = |node: &str, mode: &str| {
        let requirement = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": [node]});
        let terms = json!([{"matchExpressions": [requirement]}]);
        let affinity = json!({"required": {"nodeSelectorTerms": terms}});
        claimed(persistent(json!({"nodeAffinity": affinity, "volumeMode": mode})))
    };
    assert_eq!(check_node_affinity(&claimed(persistent(json!({}))), &labels), Ok(()));
    assert_eq!(check_node_affinity(&of("node-1", "Filesystem"), &labels), Ok(()));
    for (mode, verb) in [("Filesystem", "MountVolume"), ("Block", "MapVolume")] {
        let problem = check_node_affinity(&of("node-2", mode), &labels).unwrap_err();
        assert_eq!(
            problem.to_string(),
            format!("{verb}.NodeAffinity check failed for volume \"pv\" : no matching NodeSelectorTerms")
        );
    }
}

#[test]
fn volume_annotation_adds_group() {
    let annotated = |text: &str| {
        let mut volume = persistent(json!({}));
        volume.metadata.annotations =
            Some([("pv.beta.kubernetes.io/gid".to_owned(), text.to_owned())].into());
        claimed(volume)
    };
    let mut pod = user(claiming(), mounting());
    assert_eq!(volume_groups(&pod, &annotated("1234")), [1234]);
    // The pod's fsGroup is named twice, as upstream does.
    assert_eq!(volume_groups(&pod, &annotated("7")), [7]);
    assert!(volume_groups(&pod, &annotated("wheel")).is_empty());
    assert!(volume_groups(&pod, &claimed(persistent(json!({})))).is_empty());
    pod.spec.security_context.as_mut().unwrap().supplemental_groups = Some(vec![1234]);
    assert!(volume_groups(&pod, &annotated("1234")).is_empty());
}
