//! FlexVolume drivers, as scripts that really mount.

use model::{CsiPod, FlexVolume, VolumeSecret};

use super::super::flex::FlexDrivers;
use super::*;

/// Writes a driver that records its calls; `cases` are arms of a shell `case` on the command.
fn write_driver(host: &Host, cases: &str) {
    let folder = host.path_of("exec/acme~disk");
    fs::create_dir_all(&folder).unwrap();
    let calls = host.path_of("calls");
    let text = format!(
        "#!/bin/sh\necho \"$@\" >> {}\ncase \"$1\" in\n{cases}\n*) echo '{{\"status\": \"Not supported\"}}'; exit 1 ;;\nesac\n",
        calls.display()
    );
    // A new file: a replaced program counts as another driver.
    let _ = fs::remove_file(folder.join("disk"));
    program(&folder.join("disk"), &text);
}

fn flex(host: &Host, uid: &str, name: &str) -> PlannedVolume {
    let path = host.path_of("kubelet/pods").join(uid).join("volumes/acme~disk").join(name);
    let pod = CsiPod {
        name: "pod".to_owned(),
        namespace: "ns".to_owned(),
        uid: PodUid::from(uid),
        service_account: "account".to_owned(),
    };
    let volume = FlexVolume {
        path,
        name: name.to_owned(),
        driver: "acme/disk".to_owned(),
        fs_type: "ext4".to_owned(),
        read_only: false,
        options: [("size".to_owned(), "1m".to_owned())].into(),
        secret: VolumeSecret::Given([("key".to_owned(), "word".to_owned())].into()),
        pod,
        device: None,
        size: None,
    };
    let fs_group = Some(FsGroup { gid: 4321, change: FsGroupChange::Always });
    PlannedVolume {
        name: name.to_owned(),
        plan: VolumePlan::Flex(Box::new(volume)),
        fs_group,
        label: model::VolumeLabel::None,
    }
}

fn host_with_drivers(attach_as: Option<&str>) -> Host {
    let mut host = Host::new();
    host.volumes.flex = FlexDrivers::new(host.path_of("exec"), attach_as.map(str::to_owned));
    host
}

fn calls(host: &Host, command: &str) -> Vec<String> {
    let text = fs::read_to_string(host.path_of("calls")).unwrap_or_default();
    text.lines().filter(|line| line.split(' ').next() == Some(command)).map(str::to_owned).collect()
}

async fn set_up(host: &Host, uid: &str, volume: &PlannedVolume) -> Result<(), VolumeError> {
    host.volumes.set_up(&PodUid::from(uid), volume, &Progress::default()).await
}

#[tokio::test]
#[ignore = "needs root"]
async fn mounting_driver_is_called_per_pod_and_found_without_restart() {
    require_root();
    let mut host = host_with_drivers(None);
    let volume = flex(&host, "u1", "data");
    let missing = set_up(&host, "u1", &volume).await.unwrap_err().text();
    assert!(missing.contains("no volume plugin matched: acme/disk"), "{missing}");
    write_driver(
        &host,
        "init) echo '{\"status\": \"Success\", \"capabilities\": {\"attach\": false}}' ;;
mount) echo '{\"status\": \"Failure\", \"message\": \"no disk\"}'; exit 1 ;;",
    );
    let failed = set_up(&host, "u1", &volume).await.unwrap_err().text();
    assert_eq!(failed, "mount command failed, status: Failure, reason: no disk (exit status 1)");
    let path = host.pod("volumes/acme~disk/data");
    assert!(!path.exists());
    write_driver(
        &host,
        "init) echo '{\"status\": \"Success\", \"capabilities\": {\"attach\": false}}' ;;
mount) mount -t tmpfs tmpfs \"$2\" && echo '{\"status\": \"Success\"}' ;;
expandfs) echo '{\"status\": \"Success\"}' ;;
unmount) umount \"$2\" && echo '{\"status\": \"Success\"}' ;;",
    );
    for _ in 0..2 {
        set_up(&host, "u1", &volume).await.unwrap();
    }
    fs::write(path.join("file"), "x").unwrap();
    assert_eq!(fs::metadata(&path).unwrap().gid(), 4321, "the group is set");
    assert_eq!(journal(&host), ["flexvolume\tvolumes/acme~disk/data"]);
    assert_eq!(
        (calls(&host, "init").len(), calls(&host, "mount").len()),
        (2, 2),
        "once per version of the driver"
    );
    let mount_call = calls(&host, "mount").pop().unwrap();
    for part in [
        "\"kubernetes.io/pod.name\":\"pod\"",
        "\"kubernetes.io/mounterArgs.FsGroup\":\"4321\"",
        "\"kubernetes.io/secret/key\":\"d29yZA==\"",
        "\"kubernetes.io/readwrite\":\"rw\"",
        "\"size\":\"1m\"",
    ] {
        assert!(mount_call.contains(part), "{part} is not in {mount_call}");
    }
    host.volumes.grow(&host.uid, &volume, (1, 2)).await.unwrap();
    let grown = calls(&host, "expandfs").pop().unwrap();
    assert!(grown.ends_with(&format!(" {} 2 1", path.display())), "{grown}");
    // A restarted agent finds all state on disk.
    let flex = host.volumes.flex.folder.clone();
    host.volumes = HostPodVolumes::new(host.path_of("kubelet"));
    host.volumes.flex = FlexDrivers::new(flex, None);
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!((host.mounts(), path.exists()), (vec![], false));
    assert_eq!(calls(&host, "unmount"), [format!("unmount {}", path.display())]);
}

#[tokio::test]
#[ignore = "needs root"]
async fn agent_mounts_volumes_of_attaching_driver() {
    require_root();
    let host = host_with_drivers(Some("node"));
    let disk = LoopDisk::new(&host, "image");
    let cases = format!(
        "init) echo '{{\"status\": \"Success\"}}' ;;
attach) echo '{{\"status\": \"Success\", \"device\": \"{}\"}}' ;;
detach) echo '{{\"status\": \"Success\"}}' ;;",
        disk.device.display()
    );
    write_driver(&host, &cases);
    for uid in ["u1", "u2"] {
        set_up(&host, uid, &flex(&host, uid, "data")).await.unwrap();
    }
    let mount_point = host.path_of("kubelet/plugins/kubernetes.io/flexvolume/acme/disk/mounts/data");
    fs::write(host.pod("volumes/acme~disk/data/kept"), "x").unwrap();
    assert!(mount_point.join("kept").exists(), "mounted in upstream's location");
    assert_eq!((calls(&host, "attach").len(), calls(&host, "mountdevice").len()), (1, 1));
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert!(mount_point.join("kept").exists() && calls(&host, "detach").is_empty());
    host.volumes.tear_down(&PodUid::from("u2")).await.unwrap();
    assert_eq!((host.mounts(), mount_point.exists()), (vec![], false));
    assert_eq!(calls(&host, "detach"), ["detach data node"]);
}

#[tokio::test]
#[ignore = "needs root"]
async fn waits_for_attachment_by_the_controller() {
    require_root();
    let host = host_with_drivers(None);
    let disk = LoopDisk::new(&host, "image");
    write_driver(
        &host,
        "init) echo '{\"status\": \"Success\"}' ;;
waitforattach) echo \"{\\\"status\\\": \\\"Success\\\", \\\"device\\\": \\\"$2\\\"}\" ;;",
    );
    let mut volume = flex(&host, "u1", "data");
    let not_attached = set_up(&host, "u1", &volume).await.unwrap_err();
    assert_eq!(not_attached.text(), "Volume not attached according to node status");
    assert_eq!(not_attached.step(), ports::host::pod_volumes::VolumeStep::WaitForAttach);
    let VolumePlan::Flex(plan) = &mut volume.plan else { unreachable!() };
    plan.device = Some(disk.device.to_str().unwrap().to_owned());
    set_up(&host, "u1", &volume).await.unwrap();
    assert!(calls(&host, "attach").is_empty());
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts(), []);
}
