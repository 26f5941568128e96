//! Volumes that are mounted with SELinux labels, on a machine that is made to look as if it had SELinux.

use std::fs;
use std::path::Path;

use agent::csi_volumes::CsiVolumes;
use decide::volumes::{ClaimedVolume, plan_volumes};
use host::host_capabilities;
use model::{CgroupVersion, NodeSettings, PlannedVolume, Pod, PodSource, PodUid, VolumeLabel};
use ports::pod_volumes::{PodVolumes, Progress, VolumeError};
use serde_json::{Value, json};
use testkit::csi_driver::{Ability, Trouble};
use tonic::Code;

use crate::fixture::{Node, require_root};

const STAGES: &[Ability] = &[Ability::StageUnstageVolume];
const METRICS: &str = "volume_manager_selinux_";

/// A driver that mounts with labels.
fn labelling() -> Node {
    Node::new(json!({"attachRequired": false, "seLinuxMount": true}))
}

/// The settings of a node with the files of an SELinux policy below a folder.
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

/// The volume of a pod whose containers have these levels, as the agent plans it.
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
async fn a_volume_for_one_pod_is_staged_and_published_with_its_label_also_by_the_next_agent() {
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
    // In the pod's own spelling, by which upstream knows it.
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
    // Whatever it would do with a new pod, the next agent leaves this one as it is.
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
async fn a_pod_with_another_label_waits_until_the_volume_is_unmounted() {
    require_root();
    let node = labelling();
    let driver = node.driver("d.example", STAGES);
    let settings = settings(&node, false);
    let volume = |uid, level| planned(&settings, uid, &[level], "ReadWriteOncePod", json!(null));
    let (first, second) = (volume("u1", "s0:c1"), volume("u2", "s0:c2"));
    let agent = node.agent();
    set_up(&agent, "u1", &first).await.unwrap();
    let told = set_up(&agent, "u2", &second).await.unwrap_err();
    let conflict =
        format!("conflicting SELinux labels of volume h: {:?} and {:?}", label("s0:c1"), label("s0:c2"));
    assert!(matches!(told, VolumeError::NoLabel(_)) && told.text() == conflict, "{told:?}");
    let errors = node.counted("volume_manager_selinux_volume_context_mismatch_errors_total{");
    assert!(errors.iter().all(|line| line.ends_with("} 1")) && errors.len() == 1, "{errors:?}");
    // An agent that knows only what is on disk sees it as well, and so does one whose first pod is on its way out.
    driver.trouble("NodeUnstageVolume", Some(Trouble::Fails(Code::Internal)));
    assert!(agent.tear_down(&PodUid::from("u1")).await.is_err());
    for agent in [&node.agent(), &agent] {
        let told = set_up(agent, "u2", &second).await.unwrap_err();
        let waits = "waiting for unmount of volume \"kubernetes.io/csi/d.example^h\", because it is already mounted to \
                     a different pod with a different SELinux label";
        assert!(matches!(told, VolumeError::OtherLabel(_)) && told.text() == waits, "{told:?}");
    }
    driver.trouble("NodeUnstageVolume", None);
    agent.tear_down(&PodUid::from("u1")).await.unwrap();
    set_up(&agent, "u2", &second).await.unwrap();
    assert!(driver.last("NodeStageVolume").unwrap().flags.contains(&flag("s0:c2")));
    agent.tear_down(&PodUid::from("u2")).await.unwrap();
    node.assert_clean();
}

#[tokio::test]
async fn two_spellings_of_one_label_do_not_keep_pods_apart() {
    require_root();
    let node = labelling();
    let driver = node.driver("d.example", STAGES);
    let settings = settings(&node, true);
    let volume = |uid, level| planned(&settings, uid, &[level], "ReadWriteOnce", json!(null));
    let agent = node.agent();
    set_up(&agent, "u1", &volume("u1", "s0:c26,c5")).await.unwrap();
    set_up(&agent, "u2", &volume("u2", "s0:c5,c26")).await.unwrap();
    // Nor does an agent that knows the first only from its record keep them apart.
    set_up(&node.agent(), "u3", &volume("u3", "s0:c5,c26")).await.unwrap();
    assert!(!driver.call_names().iter().any(|call| call.contains("Un")), "{:?}", driver.call_names());
    for uid in ["u1", "u2", "u3"] {
        agent.tear_down(&PodUid::from(uid)).await.unwrap();
    }
    node.assert_clean();
}

/// As a power cut leaves a record that was not flushed.
fn cut(path: &Path) {
    fs::write(path.with_file_name("vol_data.json"), "{\"driverName\":\"d.ex").unwrap();
}

#[tokio::test]
async fn a_staging_record_that_was_cut_off_makes_the_volume_be_staged_anew() {
    require_root();
    let node = labelling();
    let driver = node.driver("d.example", STAGES);
    let settings = settings(&node, false);
    let volume = planned(&settings, "u1", &["s0:c1"], "ReadWriteOncePod", json!(null));
    driver.trouble("NodePublishVolume", Some(Trouble::Fails(Code::Internal)));
    assert!(set_up(&node.agent(), "u1", &volume).await.is_err());
    driver.trouble("NodePublishVolume", None);
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
async fn a_pod_whose_record_was_cut_off_keeps_the_label_of_its_mount_and_others_wait() {
    require_root();
    let node = labelling();
    let driver = node.driver("d.example", STAGES);
    let settings = settings(&node, false);
    let volume = |uid, level| planned(&settings, uid, &[level], "ReadWriteOncePod", json!(null));
    let (first, second) = (volume("u1", "s0:c1"), volume("u2", "s0:c2"));
    set_up(&node.agent(), "u1", &first).await.unwrap();
    cut(first.plan.host_path().unwrap());
    // Where it is staged tells that it has another label.
    let next = node.agent();
    let told = set_up(&next, "u2", &second).await.unwrap_err();
    assert!(matches!(told, VolumeError::OtherLabel(_)), "{told:?}");
    assert_eq!(driver.call_names(), ["NodeStageVolume", "NodePublishVolume"]);
    // This machine's kernel has no labels, and so the mount has none, whatever the pod wants.
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
async fn what_is_staged_with_another_label_and_used_by_nobody_is_staged_anew() {
    require_root();
    let node = labelling();
    let driver = node.driver("d.example", STAGES);
    let settings = settings(&node, false);
    let volume = |policy| planned(&settings, "u1", &["s0:c1"], "ReadWriteOncePod", policy);
    // An agent that ends before anything is published, and a pod that is another one by then.
    driver.trouble("NodePublishVolume", Some(Trouble::Fails(Code::Internal)));
    assert!(set_up(&node.agent(), "u1", &volume(json!(null))).await.is_err());
    driver.trouble("NodePublishVolume", None);
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
async fn other_access_modes_are_only_counted_unless_the_gate_is_on() {
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
        // What is refused is counted with each try, what is put up with once.
        let (word, times) = if gate { ("errors", 2) } else { ("warnings", 1) };
        // A label that cannot be told is another one than the first pod's.
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
async fn a_driver_that_does_not_ask_for_labels_and_a_node_without_selinux_have_none() {
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
