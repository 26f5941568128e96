//! Fibre Channel disks, with loop devices and fake `/sys` and `/dev` folders.

use model::{DiskUse, FcDisk, FcName};

use super::*;

/// Adds a disk with a link below `dev/disk`; returns its `delete` file.
fn add_disk(host: &Host, link: &str, disk: &LoopDisk) -> PathBuf {
    let name = disk.device.file_name().unwrap();
    let link = host.path_of("dev/disk").join(link);
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink(&disk.device, link).unwrap();
    symlink(&disk.device, host.path_of("dev").join(name)).unwrap();
    let delete = host.path_of("sys/block").join(name).join("device/delete");
    fs::create_dir_all(delete.parent().unwrap()).unwrap();
    fs::write(&delete, "").unwrap();
    delete
}

fn fake_network(host: &mut Host) {
    fs::create_dir_all(host.path_of("sys/class/scsi_host/host3")).unwrap();
    fs::write(host.path_of("sys/class/scsi_host/host3/scan"), "").unwrap();
    let recorder = |name: &str| format!("#!/bin/sh\necho \"$@\" >> {}\n", host.path_of(name).display());
    let multipath = program(&host.path_of("multipath"), &recorder("flushed"));
    let blockdev = program(&host.path_of("blockdev"), &recorder("written"));
    let (dev, sys) = (host.path_of("dev"), host.path_of("sys"));
    let fc = &mut host.volumes.fc;
    (fc.disks.devices, fc.disks.kernel) = (dev, sys);
    fc.disks.multipath_program = multipath.into();
    fc.flush_program = blockdev.into();
    fc.attach_timeout = Duration::from_millis(200);
}

fn files() -> DiskUse {
    DiskUse::Files { fs_type: "ext4".to_owned(), options: Vec::new() }
}

fn targets() -> FcName {
    FcName::Targets { names: vec!["5006".to_owned(), "5007".to_owned()], lun: 2 }
}

fn disk(host: &Host, uid: &str, name: FcName, use_as: DiskUse) -> PlannedVolume {
    let folder = if use_as == DiskUse::Device { "volumeDevices" } else { "volumes" };
    let path = host.path_of("kubelet/pods").join(uid).join(folder).join("kubernetes.io~fc/data");
    let plan =
        VolumePlan::Fc(Box::new(FcDisk { path, name, attachment: String::new(), use_as, read_only: false }));
    PlannedVolume { name: "data".to_owned(), plan, fs_group: None, label: model::VolumeLabel::None }
}

async fn set_up(host: &Host, uid: &str, name: FcName, use_as: DiskUse) -> Result<(), VolumeError> {
    let volume = disk(host, uid, name, use_as);
    host.volumes.set_up(&PodUid::from(uid), &volume, &Progress::default()).await
}

#[tokio::test]
#[ignore = "needs root"]
async fn disk_is_mounted_once_and_detached_with_its_last_pod() {
    require_root();
    let mut host = Host::new();
    fake_network(&mut host);
    let missing = set_up(&host, "u1", targets(), files()).await.unwrap_err();
    assert_eq!(missing.text(), "no fc disk found");
    assert_eq!(missing.step(), ports::host::pod_volumes::VolumeStep::WaitForAttach);
    let scan = host.path_of("sys/class/scsi_host/host3/scan");
    assert_eq!(fs::read_to_string(scan).unwrap(), "- - -", "the host is rescanned");
    let mount_point = host.path_of("kubelet/plugins/kubernetes.io/fc/5006-5007-lun-2");
    assert!(!mount_point.exists());
    let device = LoopDisk::new(&host, "disk");
    let delete = add_disk(&host, "by-path/pci-0000:01:00.0-fc-0x5007-lun-2", &device);
    for uid in ["u1", "u1", "u2"] {
        set_up(&host, uid, targets(), files()).await.unwrap();
    }
    let (first, second) = (host.pod("volumes/kubernetes.io~fc/data"), PodUid::from("u2"));
    fs::write(first.join("kept"), "x").unwrap();
    assert!(mount_point.join("kept").exists(), "mounted in upstream's location");
    assert_eq!(journal(&host), ["bind\tvolumes/kubernetes.io~fc/data"]);
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert!(!first.exists() && mount_point.join("kept").exists());
    assert_eq!(fs::read_to_string(&delete).unwrap(), "");
    // A restarted agent finds all state on disk.
    let fc = host.volumes.fc.clone();
    host.volumes = HostPodVolumes::new(host.path_of("kubelet"));
    host.volumes.fc = fc;
    host.volumes.tear_down(&second).await.unwrap();
    assert_eq!((host.mounts(), mount_point.exists()), (vec![], false), "nothing is left");
    assert_eq!(fs::read_to_string(&delete).unwrap(), "1", "the disk is removed from the kernel");
    let name = device.device.file_name().unwrap();
    let flushed = format!("--flushbufs {}\n", host.path_of("dev").join(name).display());
    assert_eq!(fs::read_to_string(host.path_of("written")).unwrap(), flushed);
}

#[tokio::test]
#[ignore = "needs root"]
async fn mounts_disk_with_the_requested_label() {
    require_root();
    let mut host = Host::new();
    fake_network(&mut host);
    let (recorded, mount) = recording_mount(&host);
    host.volumes.fc.mount_program = mount;
    let device = LoopDisk::new(&host, "disk");
    add_disk(&host, "by-path/fc-0x5006-lun-2", &device);
    let label = "system_u:object_r:container_file_t:s0:c1,c2";
    let with = |uid: &str, label| PlannedVolume { label, ..disk(&host, uid, targets(), files()) };
    let plain = with("u1", VolumeLabel::OfFiles);
    let labelled = with("u2", VolumeLabel::OfMount(label.to_owned()));
    let (first, second, progress) = (PodUid::from("u1"), PodUid::from("u2"), Progress::default());
    assert_eq!(host.volumes.mounted_label(&first, &plain).await.unwrap(), None);
    host.volumes.set_up(&first, &plain, &progress).await.unwrap();
    assert_eq!(host.volumes.mounted_label(&first, &plain).await.unwrap(), Some(VolumeLabel::OfFiles));
    let conflict = host.volumes.set_up(&second, &labelled, &progress).await.unwrap_err();
    assert!(matches!(conflict, VolumeError::OtherLabel(_)), "{conflict:?}");
    host.volumes.set_up(&first, &plain, &progress).await.unwrap();
    assert_eq!(fs::read_to_string(&recorded).unwrap(), "rw\n");
    // As if the agent had stopped before it detached the disk.
    let bound = host.pod("volumes/kubernetes.io~fc/data");
    rustix::mount::unmount(bound, rustix::mount::UnmountFlags::empty()).unwrap();
    host.volumes.set_up(&second, &labelled, &progress).await.unwrap();
    assert_eq!(fs::read_to_string(&recorded).unwrap(), format!("rw\nrw,context=\"{label}\"\n"));
    for uid in [&first, &second] {
        host.volumes.tear_down(uid).await.unwrap();
    }
    assert_eq!(host.mounts(), []);
}

#[tokio::test]
#[ignore = "needs root"]
async fn detaches_all_paths_of_a_multipath_disk() {
    require_root();
    let mut host = Host::new();
    fake_network(&mut host);
    let (path, other, multipath) =
        (LoopDisk::new(&host, "a"), LoopDisk::new(&host, "b"), LoopDisk::new(&host, "combined"));
    let deletes =
        [add_disk(&host, "by-id/scsi-3600_x", &path), add_disk(&host, "by-path/fc-0x5006-lun-2", &other)];
    for disk in [&path, &other] {
        let slave = host.path_of("sys/block/dm-1/slaves").join(disk.device.file_name().unwrap());
        fs::create_dir_all(slave).unwrap();
    }
    symlink(&multipath.device, host.path_of("dev/dm-1")).unwrap();
    let name = FcName::Ids(vec!["3600_x".to_owned()]);
    set_up(&host, "u1", name, files()).await.unwrap();
    assert_eq!(
        fs::read_to_string(host.path_of("sys/class/scsi_host/host3/scan")).unwrap(),
        "",
        "no rescan with a multipath device"
    );
    let minor = multipath.device.to_str().unwrap().trim_start_matches("/dev/loop").to_owned();
    assert!(host.mounts().iter().all(|mount| mount.device == format!("7:{minor}")), "{:?}", host.mounts());
    assert!(host.path_of("kubelet/plugins/kubernetes.io/fc/3600_x").exists());
    host.volumes.tear_down(&host.uid).await.unwrap();
    let flushed = format!("-f -- {}\n", host.path_of("dev/dm-1").display());
    assert_eq!(fs::read_to_string(host.path_of("flushed")).unwrap(), flushed);
    for delete in deletes {
        assert_eq!(fs::read_to_string(delete).unwrap(), "1");
    }
    assert_eq!(host.mounts(), []);
}

#[tokio::test]
#[ignore = "needs root"]
async fn raw_fc_device_is_linked_and_detached_with_its_last_pod() {
    require_root();
    let mut host = Host::new();
    fake_network(&mut host);
    let device = LoopDisk::new(&host, "disk");
    let delete = add_disk(&host, "by-path/fc-0x5006-lun-2", &device);
    for uid in ["u1", "u2", "u1"] {
        set_up(&host, uid, targets(), DiskUse::Device).await.unwrap();
    }
    let link = host.pod("volumeDevices/kubernetes.io~fc/data");
    let map = host.path_of("kubelet/plugins/kubernetes.io/fc/volumeDevices/5006-5007-lun-2");
    for link in [&link, &map.join("u1"), &map.join("u2")] {
        assert_eq!(fs::read_link(link).unwrap(), device.device);
    }
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert!(!link.exists() && map.join("u2").exists() && fs::read_to_string(&delete).unwrap().is_empty());
    host.volumes.tear_down(&PodUid::from("u2")).await.unwrap();
    assert!(!map.exists() && fs::read_to_string(&delete).unwrap() == "1");
}
