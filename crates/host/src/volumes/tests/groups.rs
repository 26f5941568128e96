//! The group of a volume's files.

use super::*;

#[tokio::test]
#[ignore = "needs root"]
async fn empty_dir_gets_the_group_of_its_pod() {
    require_root();
    let host = Host::new();
    for memory in [false, true] {
        let path = host.empty_dir(if memory { "m" } else { "d" });
        let plan = match memory {
            true => VolumePlan::MemoryDir { path: path.clone(), size_limit: None },
            false => VolumePlan::EmptyDir { path: path.clone() },
        };
        host.set_up_for(plan, Some(4321)).await.unwrap();
        assert_eq!(fs::metadata(&path).unwrap().gid(), 4321);
        assert_eq!(mode(&path), if memory { 0o3777 } else { 0o2777 });
    }
}

#[tokio::test]
#[ignore = "needs root"]
async fn on_root_mismatch_changes_files_only_if_the_top_folder_differs() {
    require_root();
    let host = Host::new();
    let disk = host.set_up_disk("d").await;
    fs::create_dir_all(disk.join("a/b")).unwrap();
    fs::write(disk.join("a/b/file"), "x").unwrap();
    fs::set_permissions(disk.join("a/b/file"), fs::Permissions::from_mode(0o600)).unwrap();
    let precious = host.path_of("precious");
    fs::write(&precious, "x").unwrap();
    symlink(&precious, disk.join("a/link")).unwrap();
    let folder = Folder::open(&disk).unwrap().unwrap();
    let give = |change| {
        let progress = Progress::default();
        let group = FsGroup { gid: 4321, change };
        set_group(&folder, group, Access::ReadWrite, &progress).unwrap();
        progress.files()
    };
    assert_eq!(give(FsGroupChange::OnRootMismatch), 5, "the top folder differed");
    let file = fs::metadata(disk.join("a/b/file")).unwrap();
    assert_eq!((file.gid(), file.mode() & 0o7777), (4321, 0o660));
    assert_eq!(mode(&disk.join("a/b")), 0o2775);
    assert_eq!(fs::metadata(&precious).unwrap().gid(), 0, "a symlink was followed");
    assert_eq!(fs::symlink_metadata(disk.join("a/link")).unwrap().gid(), 4321);
    assert_eq!(give(FsGroupChange::OnRootMismatch), 0);
    assert_eq!(give(FsGroupChange::Always), 5);
}
