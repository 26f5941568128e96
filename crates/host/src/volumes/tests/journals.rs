//! The journal of mounts.

use super::*;

#[tokio::test]
#[ignore = "needs root"]
async fn journal_records_mounts_until_they_are_removed() {
    require_root();
    let host = Host::new();
    host.set_up_memory("m", None).await;
    host.set_up_disk("d").await;
    host.volumes.bind_sub_path(&host.uid, &sub_path(&host, "d", "x")).await.unwrap();
    let entries = ["tmpfs\tvolumes/kubernetes.io~empty-dir/m", "bind\tvolume-subpaths/d/main/0"];
    assert_eq!(journal(&host), entries);
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(journal(&host), [""; 0]);
    assert_eq!(host.mounts(), []);
}

#[tokio::test]
#[ignore = "needs root"]
async fn reconciles_the_journal_with_the_mount_table() {
    require_root();
    let host = Host::new();
    assert_eq!(host.volumes.reconcile_mounts().await.unwrap(), MountReport::default());
    let memory = host.set_up_memory("m", None).await;
    host.set_up_disk("d").await;
    // The agent was killed between the journal entry and the mount.
    fs::write(
        host.pod("mounts"),
        "podward mounts 1\ntmpfs\tvolumes/kubernetes.io~empty-dir/m\nbind\tvolume-subpaths/d/main/0\n",
    )
    .unwrap();
    // One mount by another agent, and one by a container, which is not recorded.
    let other = host.pod("volumes/kubernetes.io~secret/s");
    fs::create_dir_all(&other).unwrap();
    rustix::mount::mount("tmpfs", &other, "tmpfs", MountFlags::empty(), None).unwrap();
    fs::create_dir(memory.join("inner")).unwrap();
    rustix::mount::mount("tmpfs", memory.join("inner"), "tmpfs", MountFlags::empty(), None).unwrap();

    let report = host.volumes.reconcile_mounts().await.unwrap();
    assert_eq!(report, MountReport { live: 1, stale: 1, adopted: 1 });
    let entries = ["tmpfs\tvolumes/kubernetes.io~empty-dir/m", "tmpfs\tvolumes/kubernetes.io~secret/s"];
    assert_eq!(journal(&host), entries);
    let again = host.volumes.reconcile_mounts().await.unwrap();
    assert_eq!(again, MountReport { live: 2, stale: 0, adopted: 0 });
    fs::write(host.pod("mounts"), "something else").unwrap();
    assert_eq!(host.volumes.reconcile_mounts().await.unwrap().adopted, 2, "an unreadable journal");
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts(), []);
}
