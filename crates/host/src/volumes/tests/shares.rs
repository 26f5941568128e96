//! NFS volumes.

use super::*;

fn share(host: &Host) -> VolumePlan {
    let path = host.pod("volumes/kubernetes.io~nfs/v");
    VolumePlan::Nfs { path, source: "nas:/export".to_owned(), read_only: true, options: vec![] }
}

#[tokio::test]
#[ignore = "needs root"]
async fn mounts_a_share_with_the_hosts_mount_and_detaches_it() {
    require_root();
    let mut host = Host::new();
    // The last argument is the target.
    fake_mount(&mut host, "for target; do :; done; exec mount -t tmpfs tmpfs \"$target\"");
    for _ in 0..2 {
        host.set_up(share(&host)).await.unwrap();
    }
    let target = host.pod("volumes/kubernetes.io~nfs/v");
    let arguments = fs::read_to_string(host.path_of("arguments")).unwrap();
    assert_eq!(arguments, format!("-t nfs -o ro -- nas:/export {}\n", target.display()));
    assert_eq!(host.mounts().len(), 1);
    assert_eq!(journal(&host), ["nfs\tvolumes/kubernetes.io~nfs/v"]);
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts(), []);
    assert!(!target.exists());
}

#[tokio::test]
async fn reports_a_failed_mount_like_upstream() {
    let mut host = Host::new();
    fake_mount(&mut host, "echo 'bad option; you might need a helper program'; exit 32");
    let text = host.set_up(share(&host)).await.unwrap_err().text();
    let target = host.pod("volumes/kubernetes.io~nfs/v");
    assert_eq!(
        text,
        format!(
            "mount failed: exit status 32\nMounting command: {}\nMounting arguments: -t nfs -o ro nas:/export {}\n\
             Output: bad option; you might need a helper program\n",
            host.path_of("mount").display(),
            target.display()
        )
    );
    assert!(!target.exists(), "the mount point was kept");
    host.volumes.mount_program = host.path_of("missing").into();
    let text = host.set_up(share(&host)).await.unwrap_err().text();
    assert!(text.contains("executable file not found in $PATH"), "{text}");
}

#[tokio::test]
async fn hanging_mount_blocks_only_its_own_pod() {
    let mut host = Host::new();
    let gate = host.path_of("gate");
    fake_mount(&mut host, &format!("while [ ! -e {} ]; do sleep 0.05; done; exit 1", gate.display()));
    let volumes = host.volumes.clone();
    let volume = PlannedVolume {
        name: "v".to_owned(),
        plan: share(&host),
        fs_group: None,
        label: model::VolumeLabel::None,
    };
    let uid = host.uid.clone();
    let hanging = tokio::spawn(async move { volumes.set_up(&uid, &volume, &Progress::default()).await });
    while !host.path_of("arguments").exists() {
        tokio::task::yield_now().await;
    }
    let other = PodUid::from("u2");
    let path = host.path_of("kubelet/pods/u2/volumes").join(EMPTY_DIR).join("d");
    let disk = PlannedVolume {
        name: "d".to_owned(),
        plan: VolumePlan::EmptyDir { path },
        fs_group: None,
        label: model::VolumeLabel::None,
    };
    host.volumes.set_up(&other, &disk, &Progress::default()).await.unwrap();
    assert!(!hanging.is_finished());
    fs::write(gate, "").unwrap();
    assert!(hanging.await.unwrap().is_err());
}
