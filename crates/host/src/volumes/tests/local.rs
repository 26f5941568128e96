//! Local volumes.

use model::LocalSource;
use ports::host::pod_folders::PodFolders;
use ports::host::pod_volumes::VolumeStep;

use super::*;
use crate::HostPodFolders;

fn source(path: PathBuf) -> LocalSource {
    LocalSource { path, fs_type: "ext4".to_owned(), claimed: None }
}

fn local(host: &Host, read_only: bool) -> VolumePlan {
    let path = host.pod("volumes/kubernetes.io~local-volume/pv");
    VolumePlan::Local { path, source: source(host.path_of("disk")), read_only, options: vec![] }
}

#[tokio::test]
#[ignore = "needs root"]
async fn device_is_formatted_shared_by_pods_and_unmounted_with_the_last() {
    require_root();
    let mut host = Host::new();
    let device = LoopDisk::new(&host, "image");
    symlink(&device.device, host.path_of("disk")).unwrap();
    let (volume, mount_point) =
        ("volumes/kubernetes.io~local-volume/pv", "kubelet/plugins/kubernetes.io/local-volume/mounts/pv");
    let mount_point = host.path_of(mount_point);
    let unformatted = host.set_up(local(&host, true)).await.unwrap_err();
    assert_eq!(unformatted.step(), VolumeStep::MountDevice);
    assert!(unformatted.text().starts_with("local: failed to mount device "), "{}", unformatted.text());
    assert_eq!((host.mounts(), mount_point.exists()), (vec![], false));
    for _ in 0..2 {
        host.set_up_for(local(&host, false), Some(4321)).await.unwrap();
    }
    fs::write(host.pod(volume).join("kept"), "x").unwrap();
    assert_eq!(fs::metadata(host.pod(volume)).unwrap().gid(), 4321, "the group is set");
    assert!(mount_point.join("kept").exists(), "mounted in upstream's location");
    assert_eq!(journal(&host), [format!("bind\t{volume}")]);
    // A second pod uses the disk: tearing down the first pod does not unmount it.
    let first = std::mem::replace(&mut host.uid, PodUid::from("u2"));
    let path = host.path_of("kubelet/pods/u2").join(volume);
    let plan = VolumePlan::Local {
        path: path.clone(),
        source: source(host.path_of("disk")),
        read_only: false,
        options: vec![],
    };
    host.set_up(plan).await.unwrap();
    host.volumes.tear_down(&first).await.unwrap();
    assert!(path.join("kept").exists() && mount_point.join("kept").exists());
    // A restarted agent finds all state on disk.
    host.volumes = HostPodVolumes::new(host.path_of("kubelet"));
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!((host.mounts(), mount_point.exists()), (vec![], false), "nothing is left");
    // The data is still there the next time.
    host.uid = first;
    host.set_up(local(&host, true)).await.unwrap();
    assert_eq!(fs::read_to_string(host.pod(volume).join("kept")).unwrap(), "x");
    assert!(fs::write(host.pod(volume).join("kept"), "y").is_err());
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts(), []);
}

/// Whether this process may resize mounted file systems (CAP_SYS_RESOURCE).
fn may_resize() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(line.trim(), 16).unwrap() & (1 << 24) != 0
}

#[tokio::test]
#[ignore = "needs root"]
async fn grows_the_file_system_with_its_disk() {
    require_root();
    let host = Host::new();
    let device = LoopDisk::new(&host, "image");
    symlink(&device.device, host.path_of("disk")).unwrap();
    host.set_up(local(&host, false)).await.unwrap();
    let path = host.pod("volumes/kubernetes.io~local-volume/pv");
    fs::write(path.join("kept"), "x").unwrap();
    let size = || {
        let found = rustix::fs::statvfs(&path).unwrap();
        found.f_blocks * found.f_frsize
    };
    let before = size();
    fs::OpenOptions::new().write(true).open(host.path_of("image")).unwrap().set_len(64 << 20).unwrap();
    assert!(Command::new("losetup").arg("-c").arg(&device.device).status().unwrap().success());
    let volume = PlannedVolume {
        name: "v".to_owned(),
        plan: local(&host, false),
        fs_group: None,
        label: model::VolumeLabel::None,
    };
    for _ in 0..2 {
        let grown = host.volumes.grow(&host.uid, &volume, (16 << 20, 64 << 20)).await;
        if may_resize() {
            grown.unwrap();
            assert!(size() > before + (32 << 20), "{before} {}", size());
        } else {
            // In a container without the capability the kernel refuses.
            let text = grown.unwrap_err().text();
            assert!(
                text.contains("resize2fs output") && text.contains("Permission denied to resize"),
                "{text}"
            );
        }
    }
    assert_eq!(fs::read_to_string(path.join("kept")).unwrap(), "x");
    host.volumes.tear_down(&host.uid).await.unwrap();
}

#[tokio::test]
#[ignore = "needs root"]
async fn reports_a_disk_with_another_file_system() {
    require_root();
    let host = Host::new();
    let device = LoopDisk::new(&host, "image");
    let made = Command::new("mkfs.ext2").args(["-q", "-F"]).arg(&device.device).status().unwrap();
    assert!(made.success());
    symlink(&device.device, host.path_of("disk")).unwrap();
    let VolumePlan::Local { path, mut source, .. } = local(&host, false) else { unreachable!() };
    source.fs_type = "xfs".to_owned();
    let plan = VolumePlan::Local { path, source, read_only: false, options: vec![] };
    let error = host.set_up(plan).await.unwrap_err();
    assert!(matches!(error, VolumeError::OtherFileSystem(_)), "{error:?}");
    assert_eq!(error.step(), VolumeStep::MountDevice);
    host.volumes.tear_down(&host.uid).await.unwrap();
}

#[tokio::test]
#[ignore = "needs root"]
async fn does_not_use_a_locked_device() {
    require_root();
    let host = Host::new();
    let device = LoopDisk::new(&host, "image");
    symlink(&device.device, host.path_of("disk")).unwrap();
    let locked = fs::File::open(&device.device).unwrap();
    rustix::fs::flock(&locked, rustix::fs::FlockOperation::LockShared).unwrap();
    let busy = host.set_up(local(&host, false)).await.unwrap_err();
    assert!(matches!(busy, VolumeError::InProgress), "{busy:?}");
    drop(locked);
    fs::remove_file(host.path_of("disk")).unwrap();
    fs::write(host.path_of("disk"), "").unwrap();
    let file = host.set_up(local(&host, false)).await.unwrap_err().text();
    assert_eq!(file, "only directory and block device are supported");
    host.volumes.tear_down(&host.uid).await.unwrap();
}

#[tokio::test]
#[ignore = "needs root"]
async fn local_volume_is_bound_and_keeps_its_files() {
    require_root();
    let host = Host::new();
    let missing = host.set_up(local(&host, false)).await.unwrap_err().text();
    assert!(missing.contains("does not exist"), "{missing}");
    fs::create_dir(host.path_of("disk")).unwrap();
    fs::write(host.path_of("disk/kept"), "x").unwrap();
    for _ in 0..2 {
        host.set_up_for(local(&host, false), Some(1234)).await.unwrap();
    }
    let path = host.pod("volumes/kubernetes.io~local-volume/pv");
    fs::write(path.join("written"), "y").unwrap();
    assert_eq!(fs::metadata(host.path_of("disk/kept")).unwrap().gid(), 1234);
    assert_eq!(host.mounts().len(), 1);
    assert_eq!(journal(&host), ["bind\tvolumes/kubernetes.io~local-volume/pv"]);
    let folders = HostPodFolders::new(host.path_of("kubelet"), host.path_of("logs"), host.path_of("links"));
    assert_eq!(folders.shared_group(&host.uid, &path).await.unwrap(), None);
    // A second pod with another group gets the group of the first.
    let other = PodUid::from("u2");
    let plan = VolumePlan::Local {
        path: host.path_of("kubelet/pods/u2/volumes/kubernetes.io~local-volume/pv"),
        source: source(host.path_of("disk")),
        read_only: true,
        options: vec![],
    };
    let group = Some(FsGroup { gid: 77, change: FsGroupChange::Always });
    let volume =
        PlannedVolume { name: "v".to_owned(), plan, fs_group: group, label: model::VolumeLabel::None };
    host.volumes.set_up(&other, &volume, &Progress::default()).await.unwrap();
    let found = folders.shared_group(&other, volume.plan.host_path().unwrap()).await.unwrap();
    assert_eq!(found, Some(1234));
    assert_eq!(fs::metadata(host.path_of("disk/kept")).unwrap().gid(), 1234);
    let refused = fs::write(volume.plan.host_path().unwrap().join("more"), "z").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    for uid in [&host.uid, &other] {
        host.volumes.tear_down(uid).await.unwrap();
    }
    assert_eq!(host.mounts(), []);
    assert!(!path.exists());
    assert_eq!(fs::read_to_string(host.path_of("disk/written")).unwrap(), "y");
}

#[tokio::test]
#[ignore = "needs root"]
async fn applies_or_reports_options_of_a_local_volume() {
    require_root();
    let mut host = Host::new();
    fs::create_dir(host.path_of("disk")).unwrap();
    let plan = |options: &[&str]| VolumePlan::Local {
        path: host.pod("volumes/kubernetes.io~local-volume/pv"),
        source: source(host.path_of("disk")),
        read_only: false,
        options: options.iter().map(|option| (*option).to_owned()).collect(),
    };
    let (good, bad) = (plan(&["noexec", "ro"]), plan(&["noexec"]));
    host.set_up(good).await.unwrap();
    let path = host.pod("volumes/kubernetes.io~local-volume/pv");
    assert!(fs::write(path.join("x"), "").is_err());
    host.volumes.tear_down(&host.uid).await.unwrap();
    fake_mount(&mut host, "exit 32");
    let text = host.set_up(bad).await.unwrap_err().text();
    assert!(text.contains("Mounting arguments: -o remount,bind,noexec"), "{text}");
    assert_eq!(host.mounts(), []);
}

#[tokio::test]
#[ignore = "needs root"]
async fn links_and_unlinks_a_device() {
    require_root();
    let host = Host::new();
    let device = host.path_of("device");
    let path = host.pod("volumeDevices/kubernetes.io~local-volume/pv");
    let plan =
        |source: &Path| VolumePlan::Device { path: path.clone(), source: source.into(), read_only: false };
    fs::write(host.path_of("file"), "").unwrap();
    for (source, text) in
        [(host.path_of("missing"), "does not exist"), (host.path_of("file"), "is not a block device")]
    {
        let refused = host.set_up(plan(&source)).await.unwrap_err().text();
        assert!(refused.contains(text), "{refused}");
    }
    let node = rustix::fs::makedev(7, 200);
    let (mode, kind) = (rustix::fs::Mode::RUSR, rustix::fs::FileType::BlockDevice);
    rustix::fs::mknodat(rustix::fs::CWD, &device, kind, mode, node).unwrap();
    symlink(host.path_of("old"), {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        &path
    })
    .unwrap();
    for _ in 0..2 {
        host.set_up(plan(&device)).await.unwrap();
    }
    assert_eq!(fs::read_link(&path).unwrap(), device);
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert!(fs::symlink_metadata(&path).is_err());
    assert!(device.exists());
}
