//! Tear-down of volumes.

use super::*;

#[tokio::test]
async fn tear_down_removes_own_content_and_keeps_everything_else() {
    let host = Host::new();
    host.volumes.tear_down(&host.uid).await.unwrap();
    let precious = host.path_of("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("data"), "x").unwrap();
    let disk = host.set_up_disk("cache").await;
    fs::create_dir_all(disk.join("a/b")).unwrap();
    fs::write(disk.join("a/b/file"), "x").unwrap();
    symlink(&precious, disk.join("a/link")).unwrap();
    let foreign = host.pod("volumes/vendor~driver/v");
    fs::create_dir_all(&foreign).unwrap();
    fs::write(foreign.join("data"), "x").unwrap();
    for _ in 0..2 {
        host.volumes.tear_down(&host.uid).await.unwrap();
    }
    assert!(!host.pod("volumes/kubernetes.io~empty-dir").exists());
    assert!(!host.pod("plugins/kubernetes.io~empty-dir").exists());
    assert!(precious.join("data").exists() && foreign.join("data").exists());

    let share = host.pod("volumes/kubernetes.io~nfs/share");
    fs::create_dir_all(&share).unwrap();
    fs::write(share.join("data"), "x").unwrap();
    let VolumeError::File(error) = host.volumes.tear_down(&host.uid).await.unwrap_err() else {
        panic!("unexpected class of error");
    };
    assert_eq!(error.path, share);
    assert!(share.join("data").exists());
}

#[tokio::test]
#[ignore = "needs root"]
async fn tear_down_unmounts_before_it_deletes() {
    require_root();
    let host = Host::new();
    let precious = host.path_of("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("data"), "x").unwrap();
    let memory = host.set_up_memory("shm", None).await;
    fs::write(memory.join("file"), "x").unwrap();
    let disk = host.set_up_disk("cache").await;
    let share = host.pod("volumes/kubernetes.io~nfs/share");
    let subpath = host.pod("volume-subpaths/cache/main/0");
    // Stacked bind mounts in a volume, as a container with bidirectional mount propagation leaves them.
    for target in [disk.join("in/side"), disk.join("in/side"), share, subpath.clone(), memory.join("deep")] {
        fs::create_dir_all(&target).unwrap();
        rustix::mount::mount_bind(&precious, &target).unwrap();
    }
    let busy = fs::File::open(memory.join("file")).unwrap();
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts(), []);
    assert_eq!(busy.metadata().unwrap().size(), 1);
    assert!(!host.pod("volumes/kubernetes.io~empty-dir").exists());
    assert!(!host.pod("volumes/kubernetes.io~nfs").exists());
    assert!(precious.join("data").exists());
}

#[tokio::test]
#[ignore = "needs root"]
async fn tear_down_does_not_unmount_through_a_planted_symlink() {
    require_root();
    let host = Host::new();
    let disk = host.set_up_disk("cache").await;
    let inside = disk.join("sub/mounted");
    let outside = host.path_of("outside/mounted");
    for target in [&inside, &outside] {
        fs::create_dir_all(target).unwrap();
        rustix::mount::mount("tmpfs", target, "tmpfs", MountFlags::empty(), None).unwrap();
    }
    // As if swapped right after the mount table was read: the old path now resolves to the outside.
    fs::rename(disk.join("sub"), disk.join("moved")).unwrap();
    symlink(host.path_of("outside"), disk.join("sub")).unwrap();
    let folder = Folder::open(&disk).unwrap().unwrap();
    assert!(tear_down::unmount(&folder, Path::new("sub/mounted")).is_err());
    assert_eq!(host.mounts().len(), 2);
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts().len(), 1);
    assert_eq!(host.mounts()[0].mount_point, outside);
}

#[tokio::test]
#[ignore = "needs root"]
async fn hostile_volume_cannot_redirect_its_tear_down() {
    require_root();
    let host = Host::new();
    let precious = host.path_of("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("data"), "x").unwrap();
    let disk = host.set_up_disk("d").await;
    fs::create_dir(disk.join("sub")).unwrap();
    host.volumes.bind_sub_path(&host.uid, &sub_path(&host, "d", "sub")).await.unwrap();
    // While the subpath is bound, it is replaced with a link to another folder.
    fs::remove_dir(disk.join("sub")).unwrap();
    symlink(&precious, disk.join("sub")).unwrap();
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts(), []);
    assert!(precious.join("data").exists());
    assert!(!disk.exists());
}
