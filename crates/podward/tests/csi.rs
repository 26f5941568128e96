//! CSI volumes with a small real driver and real mounts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "csi/fixture.rs"]
mod fixture;
#[path = "csi/labels.rs"]
mod labels;

use std::fs;
use std::time::Duration;

use anyhow::Context;
use fixture::{Node, require_root, volume};
use model::{CsiAccess, CsiLifecycle, CsiSize, CsiVolume, FsGroup, FsGroupChange, PodUid, SecretReference};
use ports::host::pod_volumes::{PodVolumes, VolumeError, VolumeStep};
use ports::plugins::csi::CsiConnector;
use serde_json::json;
use testkit::csi_driver::{Ability, CsiFault};
use testkit::poll::eventually;
use tonic::Code;

const STAGES: &[Ability] = &[Ability::StageUnstageVolume];

#[tokio::test]
#[ignore = "needs root"]
async fn stages_once_publishes_per_pod_and_undoes_in_reverse() {
    require_root();
    let node = Node::new(json!({"attachRequired": false}));
    let driver = node.driver("d.example", STAGES);
    let (one, two) = (volume(&node, "u1", "h"), volume(&node, "u2", "h"));
    let agent = node.agent();
    node.set_up(&agent, "u1", &one, None).await.unwrap();
    fs::write(one.path.join("written"), "x").unwrap();
    node.set_up(&agent, "u2", &two, None).await.unwrap();
    node.set_up(&agent, "u1", &one, None).await.unwrap();
    assert_eq!(fs::read_to_string(two.path.join("written")).unwrap(), "x");
    assert_eq!(driver.call_names(), ["NodeStageVolume", "NodePublishVolume", "NodePublishVolume"]);
    agent.tear_down(&PodUid::from("u1")).await.unwrap();
    assert_eq!(driver.call_names()[3..], ["NodeUnpublishVolume"]);
    assert_eq!(fs::read_to_string(two.path.join("written")).unwrap(), "x");
    for _ in 0..2 {
        agent.tear_down(&PodUid::from("u2")).await.unwrap();
    }
    assert_eq!(driver.call_names()[4..], ["NodeUnpublishVolume", "NodeUnstageVolume"]);
    node.assert_clean();
    assert!(node.has_counted("unmount_device") && !node.has_counted("verify_controller_attached_volume"));
    assert_eq!(fs::read_to_string(driver.volume("h").join("written")).unwrap(), "x");
}

#[tokio::test]
#[ignore = "needs root"]
async fn unreadable_record_does_not_block_other_pods() {
    require_root();
    let node = Node::new(json!({"attachRequired": false}));
    let driver = node.driver("d.example", STAGES);
    let (one, two) = (volume(&node, "u1", "h"), volume(&node, "u2", "g"));
    let agent = node.agent();
    node.set_up(&agent, "u1", &one, None).await.unwrap();
    node.set_up(&agent, "u2", &two, None).await.unwrap();
    // Like an unflushed file after a power failure.
    fs::write(two.path.with_file_name("vol_data.json"), "").unwrap();
    let next = node.agent();
    let (first, second) = ("kubernetes.io/csi/d.example^h", "kubernetes.io/csi/d.example^g");
    next.restore().await.unwrap();
    assert_eq!(
        *node.in_use().borrow(),
        None,
        "who does not know all must not say that the rest may be detached"
    );
    node.show_in_use(&[first, second]);
    next.restore().await.unwrap();
    assert_eq!(node.in_use().borrow().clone().unwrap(), [second, first]);
    next.tear_down(&PodUid::from("u1")).await.unwrap();
    assert_eq!(driver.call_names()[4..], ["NodeUnpublishVolume", "NodeUnstageVolume"]);
    let error = next.tear_down(&PodUid::from("u2")).await.unwrap_err();
    assert!(error.text().contains("u2/volumes/kubernetes.io~csi/g/vol_data.json"), "{}", error.text());
    // A running pod writes its record again.
    node.set_up(&next, "u2", &two, None).await.unwrap();
    next.tear_down(&PodUid::from("u2")).await.unwrap();
    node.assert_clean();
}

#[tokio::test]
#[ignore = "needs root"]
async fn next_agent_continues_after_kill_between_stage_and_publish() {
    require_root();
    let node = Node::new(json!({"attachRequired": false}));
    let driver = node.driver("d.example", STAGES);
    let one = volume(&node, "u1", "h");
    driver.set_fault("NodePublishVolume", Some(CsiFault::Hangs));
    let agent = node.agent();
    {
        let set_up = node.set_up(&agent, "u1", &one, None);
        tokio::pin!(set_up);
        // Killed as soon as the driver received the publish call.
        let published = eventually("the driver is asked to publish", Duration::from_secs(20), || async {
            driver.last("NodePublishVolume").context("not yet")
        });
        tokio::select! {
            _ = &mut set_up => panic!("a driver that hangs has answered"),
            published = published => { published.unwrap(); }
        }
    }
    drop(agent);
    driver.set_fault("NodePublishVolume", None);
    let next = node.agent();
    node.set_up(&next, "u1", &one, None).await.unwrap();
    assert!(fs::write(one.path.join("x"), "").is_ok());
    next.tear_down(&PodUid::from("u1")).await.unwrap();
    node.assert_clean();
}

#[tokio::test]
#[ignore = "needs root"]
async fn next_agent_cleans_up_after_failed_call() {
    require_root();
    for (call, fault) in [
        ("NodeStageVolume", CsiFault::Fails(Code::Internal)),
        ("NodeStageVolume", CsiFault::FailsAfter(Code::Unavailable)),
        ("NodePublishVolume", CsiFault::Fails(Code::Internal)),
        ("NodePublishVolume", CsiFault::FailsAfter(Code::Aborted)),
    ] {
        let node = Node::new(json!({"attachRequired": false}));
        let driver = node.driver("d.example", STAGES);
        let one = volume(&node, "u1", "h");
        driver.set_fault(call, Some(fault));
        let failed = node.set_up(&node.agent(), "u1", &one, None).await.unwrap_err();
        assert!(failed.text().contains("desc = injected failure"), "{}", failed.text());
        let step = if call == "NodeStageVolume" { VolumeStep::MountDevice } else { VolumeStep::SetUp };
        assert_eq!(failed.step(), step);
        driver.set_fault(call, None);
        // The pod was removed meanwhile, and the agent is killed twice during the cleanup.
        let next = node.agent();
        for undo in ["NodeUnpublishVolume", "NodeUnstageVolume"] {
            driver.set_fault(undo, Some(CsiFault::FailsAfter(Code::Unavailable)));
            assert!(next.tear_down(&PodUid::from("u1")).await.is_err(), "{call} {undo}");
            driver.set_fault(undo, None);
        }
        node.agent().tear_down(&PodUid::from("u1")).await.unwrap();
        node.assert_clean();
    }
}

#[tokio::test]
#[ignore = "needs root"]
async fn restages_volume_after_uncertain_unstage() {
    require_root();
    let node = Node::new(json!({"attachRequired": false}));
    let driver = node.driver("d.example", STAGES);
    let one = volume(&node, "u1", "h");
    let agent = node.agent();
    node.set_up(&agent, "u1", &one, None).await.unwrap();
    // The driver succeeded, but its answer was lost.
    driver.set_fault("NodeUnstageVolume", Some(CsiFault::FailsAfter(Code::Unavailable)));
    assert!(agent.tear_down(&PodUid::from("u1")).await.is_err());
    driver.set_fault("NodeUnstageVolume", None);
    node.set_up(&agent, "u1", &one, None).await.unwrap();
    assert_eq!(
        driver.call_names()[2..],
        ["NodeUnpublishVolume", "NodeUnstageVolume", "NodeStageVolume", "NodePublishVolume"]
    );
    agent.tear_down(&PodUid::from("u1")).await.unwrap();
    node.assert_clean();
}

#[tokio::test]
#[ignore = "needs root"]
async fn hanging_driver_blocks_only_its_own_volume() {
    require_root();
    let node = Node::new(json!({"attachRequired": false}));
    let (stuck, fine) = (node.driver("stuck.example", STAGES), node.driver("d.example", STAGES));
    stuck.set_fault("NodeStageVolume", Some(CsiFault::Hangs));
    let hanging = CsiVolume { driver: "stuck.example".to_owned(), ..volume(&node, "u1", "h") };
    let other = volume(&node, "u2", "h");
    let agent = node.agent();
    let stuck_pod = node.set_up(&agent, "u1", &hanging, None);
    tokio::pin!(stuck_pod);
    tokio::select! {
        _ = &mut stuck_pod => panic!("a driver that hangs has answered"),
        done = node.set_up(&agent, "u2", &other, None) => done.unwrap(),
    }
    assert_eq!(fine.call_names(), ["NodeStageVolume", "NodePublishVolume"]);
    stuck.set_fault("NodeStageVolume", None);
    stuck_pod.await.unwrap();
    for uid in ["u1", "u2"] {
        agent.tear_down(&PodUid::from(uid)).await.unwrap();
    }
    node.assert_clean();
}

#[tokio::test]
#[ignore = "needs root"]
async fn publishes_inline_volume_with_requested_pod_information() {
    require_root();
    let node = Node::new(json!({
        "volumeLifecycleModes": ["Ephemeral"], "podInfoOnMount": true, "requiresRepublish": true,
        "tokenRequests": [{"audience": "vault"}],
    }));
    let driver = node.driver("d.example", STAGES);
    let inline = CsiVolume {
        lifecycle: CsiLifecycle::Ephemeral,
        publish_secret: Some(SecretReference { namespace: "n".to_owned(), name: "s".to_owned() }),
        ..volume(&node, "u1", "csi-inline")
    };
    let agent = node.agent();
    for _ in 0..2 {
        node.set_up(&agent, "u1", &inline, None).await.unwrap();
    }
    assert_eq!(
        driver.call_names(),
        ["NodePublishVolume", "NodePublishVolume"],
        "published again, never staged"
    );
    let call = driver.last("NodePublishVolume").unwrap();
    assert_eq!(call.context["csi.storage.k8s.io/pod.name"], "p");
    assert_eq!(call.context["csi.storage.k8s.io/ephemeral"], "true");
    let tokens = &call.context["csi.storage.k8s.io/serviceAccount.tokens"];
    let tokens: serde_json::Value = serde_json::from_str(tokens).unwrap();
    assert_eq!(tokens["vault"]["token"], "token-for-vault");
    assert_eq!(tokens["vault"]["expirationTimestamp"], "2096-10-02T07:06:40Z");
    assert_eq!(node.tokens(), 1, "a token that is good is not asked for again");
    assert_eq!(call.secrets["key"], "value of n/s");
    agent.tear_down(&PodUid::from("u1")).await.unwrap();
    node.assert_clean();
}

#[tokio::test]
#[ignore = "needs root"]
async fn fs_group_is_applied_by_driver_or_agent() {
    require_root();
    let group = Some(FsGroup { gid: 4242, change: FsGroupChange::Always });
    for (abilities, by_driver) in
        [(STAGES, false), (&[Ability::StageUnstageVolume, Ability::VolumeMountGroup][..], true)]
    {
        let node = Node::new(json!({"attachRequired": false, "fsGroupPolicy": "File"}));
        let driver = node.driver("d.example", abilities);
        let one = volume(&node, "u1", "h");
        let agent = node.agent();
        node.set_up(&agent, "u1", &one, group).await.unwrap();
        let reported = if by_driver { "4242" } else { "" };
        assert_eq!(driver.last("NodeStageVolume").unwrap().group, reported);
        assert_eq!(driver.last("NodePublishVolume").unwrap().group, reported);
        let owner = std::os::unix::fs::MetadataExt::gid(&fs::metadata(&one.path).unwrap());
        assert_eq!(owner == 4242, !by_driver);
        agent.tear_down(&PodUid::from("u1")).await.unwrap();
        node.assert_clean();
    }
}

#[tokio::test]
#[ignore = "needs root"]
async fn publishes_block_volume_and_links_it_into_pods() {
    require_root();
    let node = Node::new(json!({"attachRequired": false}));
    let driver = node.driver("d.example", STAGES);
    let link = node.root().join("pods/u1/volumeDevices/kubernetes.io~csi/h");
    let block = CsiVolume { access: CsiAccess::Block, path: link.clone(), ..volume(&node, "u1", "h") };
    let agent = node.agent();
    node.set_up(&agent, "u1", &block, None).await.unwrap();
    let devices = node.root().join("plugins/kubernetes.io/csi/volumeDevices");
    assert_eq!(fs::read_link(&link).unwrap(), devices.join("publish/h/u1"));
    assert_eq!(
        fs::read(&link).unwrap().len(),
        4096,
        "what the driver has published is read through the link"
    );
    assert!(devices.join("h/data/vol_data.json").exists());
    let of_pod = link.parent().unwrap();
    let reported: Vec<String> =
        node.events().iter().map(|event| format!("{} {}", event.reason, event.message)).collect();
    let words = "SuccessfulMountVolume MapVolume.MapPodDevice succeeded for volume \"h\"";
    assert_eq!(
        reported,
        [
            format!("{words} globalMapPath {:?}", devices.join("h/dev")),
            format!("{words} volumeMapPath {of_pod:?}")
        ]
    );
    agent.tear_down(&PodUid::from("u1")).await.unwrap();
    assert_eq!(
        driver.call_names(),
        ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]
    );
    let staging = driver.last("NodeStageVolume").unwrap().path;
    assert_eq!(driver.last("NodePublishVolume").unwrap().staging, staging);
    assert!(!devices.join("h").exists() && fs::symlink_metadata(&link).is_err());
    assert!(node.has_counted("unmap_device"));
    node.assert_clean();
}

#[tokio::test]
#[ignore = "needs root"]
async fn publishes_block_volume_with_staging_path_and_without_tokens() {
    require_root();
    let node = Node::new(json!({
        "attachRequired": false, "podInfoOnMount": true, "tokenRequests": [{"audience": "vault"}],
    }));
    let driver = node.driver("d.example", &[]);
    let link = node.root().join("pods/u1/volumeDevices/kubernetes.io~csi/h");
    let block = CsiVolume { access: CsiAccess::Block, path: link, ..volume(&node, "u1", "h") };
    let agent = node.agent();
    node.set_up(&agent, "u1", &block, None).await.unwrap();
    assert_eq!(driver.call_names(), ["NodePublishVolume"]);
    let call = driver.last("NodePublishVolume").unwrap();
    assert!(call.staging.ends_with("/plugins/kubernetes.io/csi/volumeDevices/staging/h"), "{}", call.staging);
    assert_eq!(call.context["csi.storage.k8s.io/pod.name"], "p");
    assert!(!call.context.contains_key("csi.storage.k8s.io/serviceAccount.tokens") && node.tokens() == 0);
    agent.tear_down(&PodUid::from("u1")).await.unwrap();
    node.assert_clean();
}

#[tokio::test]
#[ignore = "needs root"]
async fn reports_attachable_volume_in_use_and_waits_for_attachment() {
    require_root();
    let node = Node::new(json!({"attachRequired": true}));
    let driver = node.driver("d.example", STAGES);
    let one = volume(&node, "u1", "h");
    let agent = node.agent();
    let mut in_use = node.in_use();
    let set_up = node.set_up(&agent, "u1", &one, None);
    tokio::pin!(set_up);
    let name = "kubernetes.io/csi/d.example^h".to_owned();
    tokio::select! {
        _ = &mut set_up => panic!("mounted what nobody attached"),
        reported = in_use.wait_for(|reported| reported.as_ref() == Some(&vec![name.clone()])) => { reported.unwrap(); }
    }
    assert_eq!(driver.call_names(), [""; 0]);
    node.show_in_use(&[&name]);
    node.attach(&json!({"attached": true, "attachmentMetadata": {"device": "sdx"}}));
    set_up.await.unwrap();
    assert!(node.has_counted("verify_controller_attached_volume"));
    assert_eq!(driver.last("NodeStageVolume").unwrap().publish_context["device"], "sdx");
    assert_eq!(driver.last("NodePublishVolume").unwrap().publish_context["device"], "sdx");
    // The next agent reports it at start.
    let next = node.agent();
    next.restore().await.unwrap();
    assert_eq!(*node.in_use().borrow(), Some(vec![name]));
    next.tear_down(&PodUid::from("u1")).await.unwrap();
    assert_eq!(*node.in_use().borrow(), Some(vec![]));
    node.assert_clean();
}

#[tokio::test]
async fn reports_exceeded_attach_limit() {
    for (period, code, is_full) in [(60, 8, true), (60, 13, false), (0, 8, false)] {
        let object = match period {
            0 => json!({"attachRequired": true}),
            period => json!({"attachRequired": true, "nodeAllocatableUpdatePeriodSeconds": period}),
        };
        let node = Node::new(object);
        let _driver = node.driver("d.example", STAGES);
        node.show_in_use(&["kubernetes.io/csi/d.example^h"]);
        let error = json!({"message": "no more", "errorCode": code});
        node.attach(&json!({"attached": false, "attachError": error}));
        let (agent, one, mut in_use) = (node.agent(), volume(&node, "u1", "h"), node.in_use());
        let set_up = node.set_up(&agent, "u1", &one, None);
        tokio::pin!(set_up);
        // From here on only time passes.
        tokio::select! {
            _ = &mut set_up => panic!("mounted what nobody attached"),
            reported = in_use.wait_for(|reported| reported.as_ref().is_some_and(|names| !names.is_empty())) => {
                reported.unwrap();
            }
        }
        tokio::time::pause();
        let failed = set_up.await.unwrap_err();
        tokio::time::resume();
        assert_eq!(matches!(failed, VolumeError::NodeIsFull(_)), is_full, "{period} {code} {failed:?}");
        assert_eq!((failed.step(), failed.text().as_str()), (VolumeStep::WaitForAttach, "no more"));
        assert_eq!(
            node.refresh_requests().contains("d.example"),
            is_full,
            "the cluster learns at once how many fit"
        );
    }
}

/// A claim of 1 GiB that requests a larger size.
fn size(gib: i64) -> CsiSize {
    CsiSize {
        namespace: "n".to_owned(),
        claim: "c".to_owned(),
        uid: "c-uid".to_owned(),
        requested: gib << 30,
        known: 1 << 30,
        wanted_text: format!("{gib}Gi"),
        asked: gib << 30,
        allocated: None,
        state: String::new(),
        grows_on_each_node: false,
    }
}

#[tokio::test]
#[ignore = "needs root"]
async fn expands_grown_volume_once_on_the_node() {
    require_root();
    let node = Node::new(json!({"attachRequired": false}));
    let driver = node.driver("d.example", &[Ability::ExpandVolume]);
    let size = size(2);
    let small = volume(&node, "u1", "h");
    let agent = node.agent();
    node.set_up(&agent, "u1", &small, None).await.unwrap();
    let grown = CsiVolume { size: Some(size), ..small };
    for _ in 0..2 {
        node.set_up(&agent, "u1", &grown, None).await.unwrap();
    }
    assert_eq!(driver.call_names(), ["NodePublishVolume", "NodeExpandVolume"]);
    let call = driver.last("NodeExpandVolume").unwrap();
    assert_eq!(call.bytes, 2 << 30);
    assert!(call.staging.ends_with("/globalmount"), "{}", call.staging);
    assert_eq!(driver.last("NodePublishVolume").unwrap().staging, "", "nothing was staged");
    assert!(node.has_counted("volume_fs_resize"));
    assert_eq!(node.patches()[0]["status"]["capacity"]["storage"], "2Gi");
    let reported: Vec<String> =
        node.events().iter().map(|event| format!("{} {}", event.reason, event.message)).collect();
    let words = "FileSystemResizeSuccessful MountVolume.NodeExpandVolume succeeded for volume \"h\" n1";
    assert_eq!(reported, [words, words], "one for the pod, one for the claim");
    driver.set_fault("NodeExpandVolume", Some(CsiFault::Fails(Code::Internal)));
    let mut more = grown.clone();
    more.size.as_mut().unwrap().requested = 3 << 30;
    node.set_up(&agent, "u1", &more, None).await.unwrap_err();
    assert_eq!(node.events().last().unwrap().reason, "VolumeResizeFailed");
    agent.tear_down(&PodUid::from("u1")).await.unwrap();
    node.assert_clean();
}

#[tokio::test]
#[ignore = "needs root"]
async fn updates_claim_during_expansion() {
    require_root();
    let node = Node::new(json!({"attachRequired": false}));
    let driver = node.driver("d.example", &[Ability::ExpandVolume]);
    let size = CsiSize {
        asked: 2 << 30,
        allocated: Some((2 << 30, "2Gi".to_owned())),
        state: "NodeResizePending".to_owned(),
        ..size(3)
    };
    let grows = CsiVolume { size: Some(size), ..volume(&node, "u1", "h") };
    let agent = node.agent();
    driver.set_fault("NodeExpandVolume", Some(CsiFault::Fails(Code::Internal)));
    node.set_up(&agent, "u1", &grows, None).await.unwrap_err();
    driver.set_fault("NodeExpandVolume", Some(CsiFault::Fails(Code::InvalidArgument)));
    node.set_up(&agent, "u1", &grows, None).await.unwrap_err();
    driver.set_fault("NodeExpandVolume", Some(CsiFault::Fails(Code::FailedPrecondition)));
    for _ in 0..2 {
        node.set_up(&agent, "u1", &grows, None).await.unwrap();
    }
    let states = |patch: &serde_json::Value| patch["status"]["allocatedResourceStatuses"]["storage"].clone();
    let reported: Vec<_> = node.patches().iter().map(states).collect();
    let begun = json!("NodeResizeInProgress");
    let failed = serde_json::Value::Null;
    assert_eq!(
        reported,
        [&begun, &failed, &begun, &json!("NodeResizeInfeasible"), &begun, &failed].map(Clone::clone)
    );
    assert_eq!(node.patches()[1]["status"]["conditions"][0]["type"], "NodeResizeError");
    assert_eq!(driver.last("NodeExpandVolume").unwrap().bytes, 2 << 30, "what was allocated counts");
    // A new agent retries.
    driver.set_fault("NodeExpandVolume", None);
    node.set_up(&node.agent(), "u1", &grows, None).await.unwrap();
    let last = node.patches().pop().unwrap();
    assert_eq!(last["status"]["capacity"]["storage"], "2Gi");
    let read_only = CsiVolume { read_only: true, ..grows };
    node.set_up(&node.agent(), "u1", &read_only, None).await.unwrap();
    let event = node.events().pop().unwrap();
    assert_eq!(
        (event.reason.as_str(), event.message.as_str()),
        (
            "FileSystemResizeFailed",
            "MountVolume.NodeExpandVolume failed for volume \"h\" requested read-only file system"
        )
    );
    node.agent().tear_down(&PodUid::from("u1")).await.unwrap();
}

#[tokio::test]
#[ignore = "needs root"]
async fn reads_volume_statistics_from_driver() {
    require_root();
    let node = Node::new(json!({"attachRequired": false}));
    let driver = node.driver("d.example", &[Ability::GetVolumeStats]);
    let client = plugins::GrpcCsiConnector.connect(driver.endpoint());
    assert!(client.capabilities().await.unwrap().stats);
    let usage = client.usage("h", node.root()).await.unwrap().usage;
    assert!(!usage[0].is_inodes && usage[0].total >= usage[0].used && usage[0].total > 0);
}

#[tokio::test]
async fn tears_down_volume_without_its_driver() {
    let node = Node::new(json!({"attachRequired": false}));
    let one = volume(&node, "u1", "h");
    let agent = node.agent();
    let failed = node.set_up(&agent, "u1", &one, None).await.unwrap_err();
    assert_eq!(failed.step(), VolumeStep::MountDevice);
    assert_eq!(
        failed.text(),
        "kubernetes.io/csi: attacher.MountDevice failed to create newCsiDriverClient: driver name d.example not found \
         in the list of registered CSI drivers"
    );
    agent.tear_down(&PodUid::from("u1")).await.unwrap();
}

#[tokio::test]
async fn driver_registration_follows_its_socket() {
    let node = Node::new(json!({}));
    let mut driver = node.unregistered_driver("d.example", STAGES);
    let cancel = tokio_util::sync::CancellationToken::new();
    let (stage, drivers, cluster) = node.registry(cancel.clone());
    let watched = async {
        let folder = node.root().join("plugins_registry/below");
        fs::create_dir_all(&folder).unwrap();
        // Longer than the detection of the folder, shorter than the relist interval.
        tokio::time::sleep(Duration::from_secs(1)).await;
        driver.register(&folder).unwrap();
        let reported = tokio::time::timeout(Duration::from_secs(6), driver.registered()).await;
        reported.expect("a folder below is not watched").unwrap();
        assert!(drivers.get("d.example").is_ok());
        let entry = cluster.csi_node().unwrap().spec.drivers.remove(0);
        assert_eq!((entry.name.as_str(), entry.node_id.as_str()), ("d.example", "d.example-node"));
        assert_eq!(entry.topology_keys.unwrap(), ["topology.d.example/node"]);
        assert_eq!(entry.allocatable.unwrap().count, Some(16));
        let shown = cluster.node();
        assert_eq!(shown["metadata"]["labels"]["topology.d.example/node"], "here");
        assert_eq!(
            shown["metadata"]["annotations"]["csi.volume.kubernetes.io/nodeid"],
            "{\"d.example\":\"d.example-node\"}"
        );
        driver.unregister();
        let gone = eventually("the driver is gone", Duration::from_secs(20), || async {
            let reported = cluster.csi_node().is_some_and(|object| object.spec.drivers.is_empty());
            (reported && drivers.get("d.example").is_err()).then_some(()).context("still there")
        });
        gone.await.unwrap();
        cancel.cancel();
    };
    tokio::join!(stage, watched);
}

#[tokio::test]
#[ignore = "needs root"]
async fn updates_claim_of_grown_local_volume() {
    require_root();
    let node = Node::new(json!({}));
    let source = node.root().parent().unwrap().join("disk");
    std::fs::create_dir(&source).unwrap();
    let pod = volume(&node, "u1", "h").pod;
    let claimed = |requested: i64| {
        let claimed = model::ClaimedSize { name: "pv".to_owned(), size: size(requested), pod: pod.clone() };
        let source = model::LocalSource {
            path: source.clone(),
            fs_type: "ext4".to_owned(),
            claimed: Some(Box::new(claimed)),
        };
        let path = node.root().join("pods/u1/volumes/kubernetes.io~local-volume/pv");
        let plan = model::VolumePlan::Local { path, source, read_only: false, options: vec![] };
        model::PlannedVolume { name: "v".to_owned(), plan, fs_group: None, label: model::VolumeLabel::None }
    };
    let (agent, uid, progress) = (node.agent(), PodUid::from("u1"), Default::default());
    for _ in 0..2 {
        agent.set_up(&uid, &claimed(2), &progress).await.unwrap();
    }
    assert_eq!(node.patches().len(), 1);
    assert_eq!(node.patches()[0]["status"]["capacity"]["storage"], "2Gi");
    let words = "MountVolume.NodeExpandVolume succeeded for volume \"pv\" n1";
    let reported: Vec<String> = node.events().into_iter().map(|event| event.message).collect();
    assert_eq!(reported, [words, words], "one for the pod, one for the claim");
    assert!(node.has_counted_of("kubernetes.io/local-volume", "volume_fs_resize"));
    agent.tear_down(&uid).await.unwrap();
}

#[tokio::test]
async fn waits_until_disk_is_attached_to_the_node() {
    let node = Node::new(json!({}));
    let name = "kubernetes.io/iscsi/192.0.2.1:iqn.none:0";
    let disk = model::IscsiDisk {
        path: node.root().join("pods/u1/volumes/kubernetes.io~iscsi/pv"),
        name: "pv".to_owned(),
        portals: vec!["192.0.2.1:3260".to_owned()],
        target: "iqn.none".to_owned(),
        lun: 0,
        interface: "no-such-interface".to_owned(),
        initiator: None,
        chap: model::Chap::default(),
        attachment: name.to_owned(),
        use_as: model::DiskUse::Files { fs_type: "ext4".to_owned(), options: vec![] },
        read_only: false,
    };
    let plan = model::VolumePlan::Iscsi(Box::new(disk));
    let volume =
        model::PlannedVolume { name: "v".to_owned(), plan, fs_group: None, label: model::VolumeLabel::None };
    let (agent, uid, progress) = (node.agent(), PodUid::from("u1"), Default::default());
    let set_up = || agent.set_up(&uid, &volume, &progress);
    let managed = json!({"annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}});
    node.show(&json!({"metadata": managed, "status": {}}));
    let in_use = node.in_use();
    assert!(tokio::time::timeout(Duration::from_millis(300), set_up()).await.is_err(), "it waits");
    assert_eq!(in_use.borrow().clone(), Some(vec![name.to_owned()]));
    // Attached by the controller, or without a controller, the target is contacted.
    let attached = json!([{"name": name, "devicePath": ""}]);
    for shown in [json!({"metadata": managed, "status": {"volumesAttached": attached}}), json!({})] {
        node.show(&shown);
        let missing = set_up().await.unwrap_err().text();
        assert!(missing.contains("could not read iface no-such-interface"), "{missing}");
    }
    agent.tear_down(&uid).await.unwrap();
    assert_eq!(in_use.borrow().clone(), Some(vec![]));
}
