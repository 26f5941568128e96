//! emptyDir volumes on disk, in memory and on huge pages.

use super::*;

#[tokio::test]
async fn empty_dir_is_writable_for_all_and_kept_when_ready() {
    let host = Host::new();
    let path = host.set_up_disk("cache").await;
    assert_eq!(mode(&path), 0o777);
    let marker = host.pod("plugins/kubernetes.io~empty-dir/cache/ready");
    assert!(marker.is_file());
    fs::write(path.join("file"), "x").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o2770)).unwrap();
    host.set_up_disk("cache").await;
    assert_eq!(mode(&path), 0o2770, "a ready volume was changed");
    assert!(path.join("file").exists());
    fs::remove_dir_all(&path).unwrap();
    host.set_up_disk("cache").await;
    assert_eq!(mode(&path), 0o777);
}

#[tokio::test]
async fn rejects_volumes_outside_of_their_pod() {
    let host = Host::new();
    let outside = host.path_of("outside");
    fs::create_dir(&outside).unwrap();
    for path in [
        outside.join("x"),
        host.path_of("kubelet/pods/u2/volumes/kubernetes.io~empty-dir/x"),
        host.pod("plugins/x"),
        host.pod("volumes"),
        host.pod("volumes/a/../../../../x"),
    ] {
        let plan = VolumePlan::EmptyDir { path: path.clone() };
        assert!(host.set_up(plan).await.is_err(), "{}", path.display());
    }
    symlink(&outside, host.pod("volumes")).unwrap();
    let plan = VolumePlan::EmptyDir { path: host.empty_dir("x") };
    assert!(host.set_up(plan).await.is_err());
    assert_eq!(outside.read_dir().unwrap().count(), 0);
}

#[tokio::test]
#[ignore = "needs root"]
async fn memory_dir_is_one_tmpfs_with_the_requested_size() {
    require_root();
    let host = Host::new();
    let path = host.set_up_memory("shm", Some(1024 * 1024)).await;
    fs::write(path.join("file"), "x").unwrap();
    host.set_up_memory("shm", Some(1024 * 1024)).await;
    host.set_up_memory("unlimited", Some(0)).await;
    assert!(path.join("file").exists());
    let mounts = host.mounts();
    assert_eq!(mounts.len(), 2);
    assert_eq!((mounts[0].mount_point.as_path(), mounts[0].fs_type.as_str()), (path.as_path(), "tmpfs"));
    assert!(mounts[0].super_options.contains("size=1024k"), "{}", mounts[0].super_options);
    assert!(!mounts[1].super_options.contains("size="), "{}", mounts[1].super_options);
    assert_eq!(mode(&path), 0o1777);
}

#[tokio::test]
#[ignore = "needs root"]
async fn memory_dir_is_not_mounted_over_another_file_system() {
    require_root();
    let host = Host::new();
    let path = host.empty_dir("shm");
    let other = host.path_of("other");
    fs::create_dir_all(&path).unwrap();
    fs::create_dir(&other).unwrap();
    rustix::mount::mount_bind(&other, &path).unwrap();
    let plan = VolumePlan::MemoryDir { path, size_limit: None };
    assert!(host.set_up(plan).await.is_err());
    assert_eq!(host.mounts().len(), 1);
}

#[tokio::test]
#[ignore = "needs root"]
async fn completes_a_mounted_but_unfinished_memory_dir() {
    require_root();
    let host = Host::new();
    let path = host.set_up_memory("m", None).await;
    // The agent was killed between the mount and the marker.
    fs::remove_file(host.pod("plugins/kubernetes.io~empty-dir/m/ready")).unwrap();
    let plan = VolumePlan::MemoryDir { path: path.clone(), size_limit: None };
    host.set_up_for(plan, Some(4321)).await.unwrap();
    assert_eq!((host.mounts().len(), fs::metadata(&path).unwrap().gid()), (1, 4321));
}

#[tokio::test]
#[ignore = "needs root"]
async fn mounts_huge_pages_of_the_requested_size() {
    require_root();
    let pages = Path::new("/sys/kernel/mm/hugepages/hugepages-2048kB");
    assert!(pages.exists(), "this test needs a kernel with huge pages of 2 MiB");
    let host = Host::new();
    let plan = |page_size| VolumePlan::HugePagesDir { path: host.empty_dir("h"), page_size };
    for _ in 0..2 {
        host.set_up(plan(2 << 20)).await.unwrap();
    }
    let mounts = host.mounts();
    assert_eq!(mounts.len(), 1);
    assert_eq!(mounts[0].fs_type, "hugetlbfs");
    assert!(mounts[0].super_options.contains("pagesize=2M"), "{}", mounts[0].super_options);
    assert!(host.set_up(plan(1 << 30)).await.is_err(), "another size is mounted");
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts(), []);
}
