//! Volumes with SELinux labels, with a fake SELinux policy.

use std::fs;
use std::path::Path;

use agent::volumes::csi_volumes::CsiVolumes;
use decide::volumes::{ClaimedVolume, plan_volumes};
use host::host_capabilities;
use model::{CgroupVersion, NodeSettings, PlannedVolume, Pod, PodSource, PodUid, VolumeLabel};
use ports::host::pod_volumes::{PodVolumes, Progress, VolumeError};
use serde_json::{Value, json};
use testkit::csi_driver::{Ability, CsiFault};
use tonic::Code;

use crate::fixture::{Node, require_root};

const STAGES: &[Ability] = &[Ability::StageUnstageVolume];
const METRICS: &str = "volume_manager_selinux_";

/// A node whose driver supports labels.
fn labelling() -> Node {
    Node::new(json!({"attachRequired": false, "seLinuxMount": true}))
}

/// Settings of a node with the policy files in its folder.
fn settings(node: &Node, gate: bool) -> NodeSettings {
    let root = node.root().parent().unwrap().join("machine");
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("etc/selinux/config", "SELINUX=enforcing\nSELINUXTYPE=targeted\n");
    write(
        "etc/selinux/targeted/contexts/lxc_contexts",
        "process = \"system_u:system_r:container_t:s0\"\nfile = \"system_u:object_r:container_file_t:s0\"\n",
    );
    write("proc/self/mountinfo", &format!("30 20 0:22 / {} rw - selinuxfs none rw\n", root.display()));
    let capabilities = host_capabilities(Path::new("/no"), &root.join("proc"), &root, CgroupVersion::V2);
    assert!(capabilities.selinux.is_some());
    let mut settings = testkit::fakes::node_settings();
    settings.root_dir = node.root().to_path_buf();
    settings.gates.selinux_mount = gate;
    NodeSettings { capabilities, ..settings }
}

fn label(level: &str) -> String {
    format!("system_u:object_r:container_file_t:{level}")
}

fn flag(level: &str) -> String {
    format!("context=\"{}\"", label(level))
}

/// The planned volume of a pod whose containers have these levels.
#[expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]
fn planned(settings: &NodeSettings, uid: &str, levels: &[&str], mode: &str, policy: Value) -> PlannedVolume {
    let containers: Vec<Value> = levels
        .iter()
        .enumerate()
        .map(|(number, level)| {
            json!({
                "name": format!("c{number}"), "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "securityContext": {"seLinuxOptions": {"level": level}},
            })
        })
        .collect();
    let object = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": uid},
        "spec": {"containers": containers, "securityContext": {"seLinuxChangePolicy": policy},
                 "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    });
    let pod = Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::Api).unwrap();
    let volume = json!({"metadata": {"name": "h"}, "spec": {
        "accessModes": [mode], "mountOptions": ["noatime"],
        "csi": {"driver": "d.example", "volumeHandle": "h"},
    }});
    let behind = ClaimedVolume { claim: Default::default(), volume: serde_json::from_value(volume).unwrap() };
    let claimed = [("v".to_owned(), behind)].into();
    plan_volumes(&pod, settings, &Default::default(), &claimed).unwrap().remove(0)
}

async fn set_up(agent: &CsiVolumes, uid: &str, volume: &PlannedVolume) -> Result<(), VolumeError> {
    agent.set_up(&PodUid::from(uid), volume, &Progress::default()).await
}

async fn mounted(agent: &CsiVolumes, uid: &str, volume: &PlannedVolume) -> Option<VolumeLabel> {
    agent.mounted_label(&PodUid::from(uid), volume).await.unwrap()
}

fn record(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path.with_file_name("vol_data.json")).unwrap()).unwrap()
}

#[tokio::test]
#[ignore = "needs root"]
async fn rwop_volume_keeps_its_label_across_agents() {
    require_root();
    let node = labelling();
    let driver = node.driver("d.example", STAGES);
    let settings = settings(&node, false);
    let volume = planned(&settings, "u1", &["s0:c2,c1", "s0:c1,c2"], "ReadWriteOncePod", json!(null));
    let agent = node.agent();
    set_up(&agent, "u1", &volume).await.unwrap();
    for call in ["NodeStageVolume", "NodePublishVolume"] {
        assert_eq!(driver.last(call).unwrap().flags, ["noatime".to_owned(), flag("s0:c2,c1")], "{call}");
    }
    // In the spelling of the pod, as upstream records it.
    let with_label = Some(VolumeLabel::OfMount(label("s0:c2,c1")));
    assert_eq!(mounted(&agent, "u1", &volume).await, with_label);
    let staging = driver.last("NodeStageVolume").unwrap().path;
    for path in [Path::new(&staging), volume.plan.host_path().unwrap()] {
        assert_eq!(record(path)["seLinuxMountContext"], label("s0:c2,c1"));
    }
    let admitted = format!(
        "{METRICS}volumes_admitted_total{{access_mode=\"RWOP\",volume_plugin=\"kubernetes.io/csi/d.example\"}} 1"
    );
    assert_eq!(node.counted(METRICS), [admitted]);
    // The next agent does not change the mount of this pod.
    let next = node.agent();
    let without = planned(&settings, "u1", &["s0:c9"], "ReadWriteOncePod", json!("Recursive"));
    for volume in [&volume, &without] {
        set_up(&next, "u1", volume).await.unwrap();
        assert_eq!(mounted(&next, "u1", volume).await, with_label);
        assert_eq!(driver.last("NodePublishVolume").unwrap().flags, ["noatime".to_owned(), flag("s0:c2,c1")]);
    }
    assert!(!driver.call_names().iter().any(|call| call.contains("Un")), "{:?}", driver.call_names());
    next.tear_down(&PodUid::from("u1")).await.unwrap();
    assert_eq!(mounted(&next, "u1", &volume).await, None);
    node.assert_clean();
}

#[tokio::test]
#[ignore = "needs root"]
async fn pod_with_another_label_waits_for_unmount() {
    require_root();
    let node = labelling();
    let driver = node.driver("d.example", STAGES);
    let settings = settings(&node, false);
    let volume = |uid, level| planned(&settings, uid, &[level], "ReadWriteOncePod", json!(null));
    let (first, second) = (volume("u1", "s0:c1"), volume("u2", "s0:c2"));
    let agent = node.agent();
    set_up(&agent, "u1", &first).await.unwrap();
    let error = set_up(&agent, "u2", &second).await.unwrap_err();
    let conflict =
        format!("conflicting SELinux labels of volume h: {:?} and {:?}", label("s0:c1"), label("s0:c2"));
    assert!(matches!(error, VolumeError::NoLabel(_)) && error.text() == conflict, "{error:?}");
    let errors = node.counted("volume_manager_selinux_volume_context_mismatch_errors_total{");
    assert!(errors.iter().all(|line| line.ends_with("} 1")) && errors.len() == 1, "{errors:?}");
    // An agent with only the state on disk detects it, too, also while the first pod is being torn down.
    driver.set_fault("NodeUnstageVolume", Some(CsiFault::Fails(Code::Internal)));
    assert!(agent.tear_down(&PodUid::from("u1")).await.is_err());
    for agent in [&node.agent(), &agent] {
        let error = set_up(agent, "u2", &second).await.unwrap_err();
        let waits = "waiting for unmount of volume \"kubernetes.io/csi/d.example^h\", because it is already mounted to \
                     a different pod with a different SELinux label";
        assert!(matches!(error, VolumeError::OtherLabel(_)) && error.text() == waits, "{error:?}");
    }
    driver.set_fault("NodeUnstageVolume", None);
    agent.tear_down(&PodUid::from("u1")).await.unwrap();
    set_up(&agent, "u2", &second).await.unwrap();
    assert!(driver.last("NodeStageVolume").unwrap().flags.contains(&flag("s0:c2")));
    agent.tear_down(&PodUid::from("u2")).await.unwrap();
    node.assert_clean();
}

#[tokio::test]
#[ignore = "needs root"]
async fn different_spellings_of_a_label_are_equal() {
    require_root();
    let node = labelling();
    let driver = node.driver("d.example", STAGES);
    let settings = settings(&node, true);
    let volume = |uid, level| planned(&settings, uid, &[level], "ReadWriteOnce", json!(null));
    let agent = node.agent();
    set_up(&agent, "u1", &volume("u1", "s0:c26,c5")).await.unwrap();
    set_up(&agent, "u2", &volume("u2", "s0:c5,c26")).await.unwrap();
    // Also with an agent that has the first label only from its record.
    set_up(&node.agent(), "u3", &volume("u3", "s0:c5,c26")).await.unwrap();
    assert!(!driver.call_names().iter().any(|call| call.contains("Un")), "{:?}", driver.call_names());
    for uid in ["u1", "u2", "u3"] {
        agent.tear_down(&PodUid::from(uid)).await.unwrap();
    }
    node.assert_clean();
}

/// Truncates a record like a power failure.
fn cut(path: &Path) {
    fs::write(path.with_file_name("vol_data.json"), "{\"driverName\":\"d.ex").unwrap();
}

#[tokio::test]
#[ignore = "needs root"]
async fn truncated_staging_record_causes_restaging() {
    require_root();
    let node = labelling();
    let driver = node.driver("d.example", STAGES);
    let settings = settings(&node, false);
    let volume = planned(&settings, "u1", &["s0:c1"], "ReadWriteOncePod", json!(null));
    driver.set_fault("NodePublishVolume", Some(CsiFault::Fails(Code::Internal)));
    assert!(set_up(&node.agent(), "u1", &volume).await.is_err());
    driver.set_fault("NodePublishVolume", None);
    cut(Path::new(&driver.last("NodeStageVolume").unwrap().path));
    let next = node.agent();
    set_up(&next, "u1", &volume).await.unwrap();
    assert_eq!(
        driver.call_names()[2..],
        ["NodeUnstageVolume", "NodeStageVolume", "NodePublishVolume"],
        "with which label it was staged nobody knows"
    );
    next.tear_down(&PodUid::from("u1")).await.unwrap();
    node.assert_clean();
}

#[tokio::test]
#[ignore = "needs root"]
async fn pod_with_truncated_record_keeps_its_mount_label() {
    require_root();
    let node = labelling();
    let driver = node.driver("d.example", STAGES);
    let settings = settings(&node, false);
    let volume = |uid, level| planned(&settings, uid, &[level], "ReadWriteOncePod", json!(null));
    let (first, second) = (volume("u1", "s0:c1"), volume("u2", "s0:c2"));
    set_up(&node.agent(), "u1", &first).await.unwrap();
    cut(first.plan.host_path().unwrap());
    // The staging record has another label.
    let next = node.agent();
    let error = set_up(&next, "u2", &second).await.unwrap_err();
    assert!(matches!(error, VolumeError::OtherLabel(_)), "{error:?}");
    assert_eq!(driver.call_names(), ["NodeStageVolume", "NodePublishVolume"]);
    // Without SELinux in the kernel, the mount has no label.
    set_up(&next, "u1", &first).await.unwrap();
    assert_eq!(mounted(&next, "u1", &first).await, Some(VolumeLabel::OfFiles));
    assert_eq!(driver.last("NodePublishVolume").unwrap().flags, ["noatime"]);
    assert_eq!(record(first.plan.host_path().unwrap())["seLinuxMountContext"], Value::Null);
    for uid in ["u1", "u2"] {
        next.tear_down(&PodUid::from(uid)).await.unwrap();
    }
    node.assert_clean();
}

#[tokio::test]
#[ignore = "needs root"]
async fn restages_unused_volume_with_another_label() {
    require_root();
    let node = labelling();
    let driver = node.driver("d.example", STAGES);
    let settings = settings(&node, false);
    let volume = |policy| planned(&settings, "u1", &["s0:c1"], "ReadWriteOncePod", policy);
    // The agent ends before it publishes, and another pod follows.
    driver.set_fault("NodePublishVolume", Some(CsiFault::Fails(Code::Internal)));
    assert!(set_up(&node.agent(), "u1", &volume(json!(null))).await.is_err());
    driver.set_fault("NodePublishVolume", None);
    let next = node.agent();
    let recursive = volume(json!("Recursive"));
    set_up(&next, "u1", &recursive).await.unwrap();
    assert_eq!(
        driver.call_names(),
        ["NodeStageVolume", "NodePublishVolume", "NodeUnstageVolume", "NodeStageVolume", "NodePublishVolume"]
    );
    for call in ["NodeStageVolume", "NodePublishVolume"] {
        assert_eq!(driver.last(call).unwrap().flags, ["noatime"], "{call}");
    }
    assert_eq!(mounted(&next, "u1", &recursive).await, Some(VolumeLabel::OfFiles));
    assert_eq!(record(recursive.plan.host_path().unwrap())["seLinuxMountContext"], Value::Null);
    next.tear_down(&PodUid::from("u1")).await.unwrap();
    node.assert_clean();
}

#[tokio::test]
#[ignore = "needs root"]
async fn other_access_modes_are_only_counted_without_the_gate() {
    require_root();
    let plugin = "volume_plugin=\"kubernetes.io/csi/d.example\"";
    for gate in [false, true] {
        let node = labelling();
        let driver = node.driver("d.example", STAGES);
        let settings = settings(&node, gate);
        let volume = |uid, levels: &[&str]| planned(&settings, uid, levels, "ReadWriteOnce", json!(null));
        let agent = node.agent();
        set_up(&agent, "u1", &volume("u1", &["s0:c1"])).await.unwrap();
        let flags = driver.last("NodePublishVolume").unwrap().flags;
        assert_eq!(flags.contains(&flag("s0:c1")), gate, "{flags:?}");
        for _ in 0..2 {
            let other = set_up(&agent, "u2", &volume("u2", &["s0:c2"])).await;
            let several = set_up(&agent, "u3", &volume("u3", &["s0:c1", "s0:c2"])).await;
            let odd = set_up(&agent, "u4", &volume("u4", &["\""])).await;
            assert_eq!([other.is_err(), several.is_err(), odd.is_err()], [gate; 3]);
        }
        // Conflicts that block a pod are counted with each attempt, others once.
        let (word, times) = if gate { ("errors", 2) } else { ("warnings", 1) };
        // An unknown label differs from the label of the first pod.
        let differ = if gate { 2 } else { 2 * times };
        assert_eq!(
            node.counted(METRICS),
            [
                format!("{METRICS}container_{word}_total{{access_mode=\"RWO\"}} {times}"),
                format!("{METRICS}pod_context_mismatch_{word}_total{{access_mode=\"RWO\"}} {times}"),
                format!(
                    "{METRICS}volume_context_mismatch_{word}_total{{access_mode=\"RWO\",{plugin}}} {differ}"
                ),
                format!("{METRICS}volumes_admitted_total{{access_mode=\"RWO\",{plugin}}} 1"),
            ]
        );
        for uid in ["u1", "u2", "u3", "u4"] {
            agent.tear_down(&PodUid::from(uid)).await.unwrap();
        }
        node.assert_clean();
    }
}

#[tokio::test]
#[ignore = "needs root"]
async fn no_labels_without_driver_support_or_selinux() {
    require_root();
    for (object, has_selinux) in [
        (json!({"attachRequired": false}), true),
        (json!({"attachRequired": false, "seLinuxMount": false}), true),
        (json!({"attachRequired": false, "seLinuxMount": true}), false),
    ] {
        let node = Node::new(object);
        let driver = node.driver("d.example", STAGES);
        let mut settings = settings(&node, true);
        if !has_selinux {
            settings.capabilities.selinux = None;
        }
        let volume = planned(&settings, "u1", &["s0:c1"], "ReadWriteOncePod", json!(null));
        let agent = node.agent();
        set_up(&agent, "u1", &volume).await.unwrap();
        for call in ["NodeStageVolume", "NodePublishVolume"] {
            assert_eq!(driver.last(call).unwrap().flags, ["noatime"], "{call}");
        }
        assert_eq!(record(volume.plan.host_path().unwrap())["seLinuxMountContext"], Value::Null);
        assert_eq!(node.counted(METRICS), Vec::<String>::new());
        agent.tear_down(&PodUid::from("u1")).await.unwrap();
        node.assert_clean();
    }
}
