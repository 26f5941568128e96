//! Disks of a Fibre Channel network: loop devices stand for disks, imitated folders for the kernel and udev.

use model::{DiskUse, FcDisk, FcName};

use super::*;

/// Lets a disk be known by a link below `dev/disk`.
fn show(host: &Host, link: &str, disk: &Disk) -> PathBuf {
    let name = disk.device.file_name().unwrap();
    let link = host.at("dev/disk").join(link);
    fs::create_dir_all(link.parent().unwrap()).unwrap();
    symlink(&disk.device, link).unwrap();
    symlink(&disk.device, host.at("dev").join(name)).unwrap();
    let delete = host.at("sys/block").join(name).join("device/delete");
    fs::create_dir_all(delete.parent().unwrap()).unwrap();
    fs::write(&delete, "").unwrap();
    delete
}

fn fake_network(host: &mut Host) {
    fs::create_dir_all(host.at("sys/class/scsi_host/host3")).unwrap();
    fs::write(host.at("sys/class/scsi_host/host3/scan"), "").unwrap();
    let note = |name: &str| format!("#!/bin/sh\necho \"$@\" >> {}\n", host.at(name).display());
    let multipath = program(&host.at("multipath"), &note("flushed"));
    let blockdev = program(&host.at("blockdev"), &note("written"));
    let (dev, sys) = (host.at("dev"), host.at("sys"));
    let fc = &mut host.volumes.fc;
    (fc.disks.devices, fc.disks.kernel) = (dev, sys);
    fc.disks.multipath_program = multipath.into();
    fc.flush_program = blockdev.into();
    fc.patience = Duration::from_millis(200);
}

fn files() -> DiskUse {
    DiskUse::Files { fs_type: "ext4".to_owned(), options: Vec::new() }
}

fn targets() -> FcName {
    FcName::Targets { names: vec!["5006".to_owned(), "5007".to_owned()], lun: 2 }
}

fn disk(host: &Host, uid: &str, name: FcName, use_as: DiskUse) -> PlannedVolume {
    let folder = if use_as == DiskUse::Device { "volumeDevices" } else { "volumes" };
    let path = host.at("kubelet/pods").join(uid).join(folder).join("kubernetes.io~fc/data");
    let plan =
        VolumePlan::Fc(Box::new(FcDisk { path, name, attachment: String::new(), use_as, read_only: false }));
    PlannedVolume { name: "data".to_owned(), plan, fs_group: None, label: model::VolumeLabel::None }
}

async fn set_up(host: &Host, uid: &str, name: FcName, use_as: DiskUse) -> Result<(), VolumeError> {
    let volume = disk(host, uid, name, use_as);
    host.volumes.set_up(&PodUid::from(uid), &volume, &Progress::default()).await
}

#[tokio::test]
async fn a_disk_is_mounted_once_shared_and_forgotten_with_its_last_pod() {
    require_root();
    let mut host = Host::new();
    fake_network(&mut host);
    let missing = set_up(&host, "u1", targets(), files()).await.unwrap_err();
    assert_eq!(missing.text(), "no fc disk found");
    assert_eq!(missing.step(), ports::pod_volumes::VolumeStep::WaitForAttach);
    let scan = host.at("sys/class/scsi_host/host3/scan");
    assert_eq!(fs::read_to_string(scan).unwrap(), "- - -", "it is looked for");
    let place = host.at("kubelet/plugins/kubernetes.io/fc/5006-5007-lun-2");
    assert!(!place.exists());
    let device = Disk::new(&host, "disk");
    let delete = show(&host, "by-path/pci-0000:01:00.0-fc-0x5007-lun-2", &device);
    for uid in ["u1", "u1", "u2"] {
        set_up(&host, uid, targets(), files()).await.unwrap();
    }
    let (first, second) = (host.pod("volumes/kubernetes.io~fc/data"), PodUid::from("u2"));
    fs::write(first.join("kept"), "x").unwrap();
    assert!(place.join("kept").exists(), "mounted where upstream has it");
    assert_eq!(journal(&host), ["bind\tvolumes/kubernetes.io~fc/data"]);
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert!(!first.exists() && place.join("kept").exists());
    assert_eq!(fs::read_to_string(&delete).unwrap(), "");
    // A killed agent's successor finds everything it needs on disk.
    let fc = host.volumes.fc.clone();
    host.volumes = HostPodVolumes::new(host.at("kubelet"));
    host.volumes.fc = fc;
    host.volumes.tear_down(&second).await.unwrap();
    assert_eq!((host.mounts(), place.exists()), (vec![], false), "nothing is left");
    assert_eq!(fs::read_to_string(&delete).unwrap(), "1", "the kernel forgets the disk");
    let name = device.device.file_name().unwrap();
    let flushed = format!("--flushbufs {}\n", host.at("dev").join(name).display());
    assert_eq!(fs::read_to_string(host.at("written")).unwrap(), flushed);
}

#[tokio::test]
async fn a_disk_is_mounted_with_the_label_that_is_asked_for() {
    require_root();
    let mut host = Host::new();
    fake_network(&mut host);
    let (told, mount) = noting_mount(&host);
    host.volumes.fc.mount_program = mount;
    let device = Disk::new(&host, "disk");
    show(&host, "by-path/fc-0x5006-lun-2", &device);
    let label = "system_u:object_r:container_file_t:s0:c1,c2";
    let with = |uid: &str, label| PlannedVolume { label, ..disk(&host, uid, targets(), files()) };
    let plain = with("u1", VolumeLabel::OfFiles);
    let labelled = with("u2", VolumeLabel::OfMount(label.to_owned()));
    let (first, second, progress) = (PodUid::from("u1"), PodUid::from("u2"), Progress::default());
    assert_eq!(host.volumes.mounted_label(&first, &plain).await.unwrap(), None);
    host.volumes.set_up(&first, &plain, &progress).await.unwrap();
    assert_eq!(host.volumes.mounted_label(&first, &plain).await.unwrap(), Some(VolumeLabel::OfFiles));
    let waits = host.volumes.set_up(&second, &labelled, &progress).await.unwrap_err();
    assert!(matches!(waits, VolumeError::OtherLabel(_)), "{waits:?}");
    host.volumes.set_up(&first, &plain, &progress).await.unwrap();
    assert_eq!(fs::read_to_string(&told).unwrap(), "rw\n");
    // As if the agent had ended before it let go of the disk.
    let bound = host.pod("volumes/kubernetes.io~fc/data");
    rustix::mount::unmount(bound, rustix::mount::UnmountFlags::empty()).unwrap();
    host.volumes.set_up(&second, &labelled, &progress).await.unwrap();
    assert_eq!(fs::read_to_string(&told).unwrap(), format!("rw\nrw,context=\"{label}\"\n"));
    for uid in [&first, &second] {
        host.volumes.tear_down(uid).await.unwrap();
    }
    assert_eq!(host.mounts(), []);
}

#[tokio::test]
async fn several_ways_to_a_disk_are_taken_apart_together() {
    require_root();
    let mut host = Host::new();
    fake_network(&mut host);
    let (way, other, joined) = (Disk::new(&host, "a"), Disk::new(&host, "b"), Disk::new(&host, "joined"));
    let deletes = [show(&host, "by-id/scsi-3600_x", &way), show(&host, "by-path/fc-0x5006-lun-2", &other)];
    for disk in [&way, &other] {
        let slave = host.at("sys/block/dm-1/slaves").join(disk.device.file_name().unwrap());
        fs::create_dir_all(slave).unwrap();
    }
    symlink(&joined.device, host.at("dev/dm-1")).unwrap();
    let name = FcName::Ids(vec!["3600_x".to_owned()]);
    set_up(&host, "u1", name, files()).await.unwrap();
    assert_eq!(
        fs::read_to_string(host.at("sys/class/scsi_host/host3/scan")).unwrap(),
        "",
        "all ways are known"
    );
    let minor = joined.device.to_str().unwrap().trim_start_matches("/dev/loop").to_owned();
    assert!(host.mounts().iter().all(|mount| mount.device == format!("7:{minor}")), "{:?}", host.mounts());
    assert!(host.at("kubelet/plugins/kubernetes.io/fc/3600_x").exists());
    host.volumes.tear_down(&host.uid).await.unwrap();
    let flushed = format!("-f {}\n", host.at("dev/dm-1").display());
    assert_eq!(fs::read_to_string(host.at("flushed")).unwrap(), flushed);
    for delete in deletes {
        assert_eq!(fs::read_to_string(delete).unwrap(), "1");
    }
    assert_eq!(host.mounts(), []);
}

#[tokio::test]
async fn a_disk_as_a_device_is_linked_and_forgotten_with_its_last_pod() {
    require_root();
    let mut host = Host::new();
    fake_network(&mut host);
    let device = Disk::new(&host, "disk");
    let delete = show(&host, "by-path/fc-0x5006-lun-2", &device);
    for uid in ["u1", "u2", "u1"] {
        set_up(&host, uid, targets(), DiskUse::Device).await.unwrap();
    }
    let link = host.pod("volumeDevices/kubernetes.io~fc/data");
    let map = host.at("kubelet/plugins/kubernetes.io/fc/volumeDevices/5006-5007-lun-2");
    for link in [&link, &map.join("u1"), &map.join("u2")] {
        assert_eq!(fs::read_link(link).unwrap(), device.device);
    }
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert!(!link.exists() && map.join("u2").exists() && fs::read_to_string(&delete).unwrap().is_empty());
    host.volumes.tear_down(&PodUid::from("u2")).await.unwrap();
    assert!(!map.exists() && fs::read_to_string(&delete).unwrap() == "1");
}
