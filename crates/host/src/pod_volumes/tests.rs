use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use model::{FsGroupChange, ProjectedFile};
use ports::pod_volumes::HostPathKind;
use rustix::mount::MountFlags;

use super::*;
use crate::mount_table;
use crate::scratch::{Scratch, is_root};

struct Host {
    scratch: Scratch,
    volumes: HostPodVolumes,
    uid: PodUid,
}

impl Host {
    fn new() -> Self {
        let scratch = Scratch::new();
        let volumes = HostPodVolumes::new(scratch.path().join("kubelet"));
        Self { scratch, volumes, uid: PodUid::from("u1") }
    }

    fn at(&self, relative: &str) -> PathBuf {
        self.scratch.path().join(relative)
    }

    fn pod(&self, relative: &str) -> PathBuf {
        self.at("kubelet/pods/u1").join(relative)
    }

    fn empty_dir(&self, name: &str) -> PathBuf {
        self.pod("volumes").join(EMPTY_DIR).join(name)
    }

    async fn set_up(&self, plan: VolumePlan) -> Result<(), VolumeError> {
        self.set_up_for(plan, None).await
    }

    async fn set_up_for(&self, plan: VolumePlan, gid: Option<u32>) -> Result<(), VolumeError> {
        let fs_group = gid.map(|gid| FsGroup { gid, change: FsGroupChange::Always });
        let volume = PlannedVolume { name: "v".to_owned(), plan, fs_group };
        self.volumes.set_up(&self.uid, &volume, &Progress::default()).await
    }

    async fn set_up_disk(&self, name: &str) -> PathBuf {
        let path = self.empty_dir(name);
        self.set_up(VolumePlan::EmptyDir { path: path.clone() }).await.unwrap();
        path
    }

    async fn set_up_memory(&self, name: &str, size_limit: Option<u64>) -> PathBuf {
        let path = self.empty_dir(name);
        self.set_up(VolumePlan::MemoryDir { path: path.clone(), size_limit }).await.unwrap();
        path
    }

    async fn host_path(&self, path: &Path, kind: HostPathKind) -> Result<(), VolumeError> {
        self.set_up(VolumePlan::HostPath { path: path.to_path_buf(), kind, read_only: false }).await
    }

    fn mounts(&self) -> Vec<mount_table::Mount> {
        let mounts = mount_table::read(Path::new(mount_table::OWN)).unwrap();
        mount_table::at_or_below(&mounts, self.scratch.path()).into_iter().cloned().collect()
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn an_empty_dir_is_open_to_all_and_kept_when_ready() {
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
async fn volumes_outside_their_pod_are_refused() {
    let host = Host::new();
    let outside = host.at("outside");
    fs::create_dir(&outside).unwrap();
    for path in [
        outside.join("x"),
        host.at("kubelet/pods/u2/volumes/kubernetes.io~empty-dir/x"),
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
async fn a_memory_dir_is_one_tmpfs_of_the_size_asked_for() {
    if !is_root() {
        return;
    }
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
async fn a_memory_dir_is_not_mounted_over_another_file_system() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    let path = host.empty_dir("shm");
    let other = host.at("other");
    fs::create_dir_all(&path).unwrap();
    fs::create_dir(&other).unwrap();
    rustix::mount::mount_bind(&other, &path).unwrap();
    let plan = VolumePlan::MemoryDir { path, size_limit: None };
    assert!(host.set_up(plan).await.is_err());
    assert_eq!(host.mounts().len(), 1);
}

#[tokio::test]
async fn tear_down_removes_own_content_and_spares_everything_else() {
    let host = Host::new();
    host.volumes.tear_down(&host.uid).await.unwrap();
    let precious = host.at("precious");
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
async fn tear_down_unmounts_before_it_deletes() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    let precious = host.at("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("data"), "x").unwrap();
    let memory = host.set_up_memory("shm", None).await;
    fs::write(memory.join("file"), "x").unwrap();
    let disk = host.set_up_disk("cache").await;
    let share = host.pod("volumes/kubernetes.io~nfs/share");
    let subpath = host.pod("volume-subpaths/cache/main/0");
    // Bind mounts in a volume, as a container with two-way propagation leaves them, one on top of another.
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
async fn tear_down_does_not_unmount_through_a_planted_symlink() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    let disk = host.set_up_disk("cache").await;
    let inside = disk.join("sub/mounted");
    let outside = host.at("outside/mounted");
    for target in [&inside, &outside] {
        fs::create_dir_all(target).unwrap();
        rustix::mount::mount("tmpfs", target, "tmpfs", MountFlags::empty(), None).unwrap();
    }
    // As if swapped just after the mount table was read: the old path now leads outside.
    fs::rename(disk.join("sub"), disk.join("moved")).unwrap();
    symlink(host.at("outside"), disk.join("sub")).unwrap();
    let folder = Folder::open(&disk).unwrap().unwrap();
    assert!(tear_down::unmount(&folder, Path::new("sub/mounted")).is_err());
    assert_eq!(host.mounts().len(), 2);
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts().len(), 1);
    assert_eq!(host.mounts()[0].mount_point, outside);
}

#[tokio::test]
async fn host_paths_are_checked_by_type() {
    let host = Host::new();
    let (folder, file, socket) = (host.at("folder"), host.at("file"), host.at("socket"));
    fs::create_dir(&folder).unwrap();
    fs::write(&file, "x").unwrap();
    let _listener = UnixListener::bind(&socket).unwrap();
    let (device, missing) = (PathBuf::from("/dev/null"), host.at("missing"));
    let link = host.at("link");
    symlink(&folder, &link).unwrap();
    let all = [&folder, &link, &file, &socket, &device, &missing];
    for (kind, good, words) in [
        (HostPathKind::Any, &all[..], ""),
        (HostPathKind::Directory, &[&folder, &link], "is not a directory"),
        (HostPathKind::File, &[&file], "is not a file"),
        (HostPathKind::Socket, &[&socket], "is not a socket file"),
        (HostPathKind::CharDevice, &[&device], "is not a character device"),
        (HostPathKind::BlockDevice, &[], "is not a block device"),
    ] {
        for path in all {
            match host.host_path(path, kind).await {
                Ok(()) => assert!(good.contains(&path), "{kind:?} took {}", path.display()),
                Err(error) => {
                    assert!(!good.contains(&path), "{kind:?} refused {}", path.display());
                    assert_eq!(
                        error.to_string(),
                        format!("hostPath type check failed: {} {words}", path.display())
                    );
                }
            }
        }
    }
    assert!(!missing.exists());
}

#[tokio::test]
async fn host_paths_are_made_only_when_asked() {
    let host = Host::new();
    let folder = host.at("a/b");
    let file = host.at("a/file");
    assert!(host.host_path(&file, HostPathKind::FileOrCreate).await.is_err(), "parents are not made");
    for _ in 0..2 {
        host.host_path(&folder, HostPathKind::DirectoryOrCreate).await.unwrap();
        host.host_path(&file, HostPathKind::FileOrCreate).await.unwrap();
    }
    assert!(host.host_path(&file, HostPathKind::DirectoryOrCreate).await.is_err());
    assert!(host.host_path(&folder, HostPathKind::FileOrCreate).await.is_err());
    assert_eq!((mode(&folder), mode(&file)), (0o755, 0o644));
}

fn secret(host: &Host, content: &str) -> VolumePlan {
    VolumePlan::Files {
        path: host.pod("volumes/kubernetes.io~secret/v"),
        storage: FileStorage::Memory { size_limit: Some(1 << 20) },
        files: vec![ProjectedFile {
            path: "dir/token".into(),
            content: content.into(),
            mode: 0o400,
            owner: None,
        }],
        mount_points: vec!["nested/deep".into(), "dir".into()],
    }
}

#[tokio::test]
async fn files_in_memory_are_replaced_and_taken_down() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    for content in ["one", "one", "two"] {
        host.set_up_for(secret(&host, content), Some(4321)).await.unwrap();
        let folder = host.pod("volumes/kubernetes.io~secret/v");
        let token = folder.join("dir/token");
        assert_eq!(fs::read_to_string(&token).unwrap(), content);
        assert_eq!(
            (fs::metadata(&token).unwrap().gid(), fs::metadata(&token).unwrap().mode() & 0o7777),
            (4321, 0o440)
        );
        assert_eq!(mode(&folder), 0o3777);
        assert!(folder.join("nested/deep").is_dir());
        assert_eq!(host.mounts().len(), 1, "one tmpfs");
    }
    assert!(host.pod("plugins/kubernetes.io~empty-dir/wrapped_v/ready").is_file());
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts(), []);
    assert!(!host.pod("volumes/kubernetes.io~secret").exists());
    assert!(!host.pod("plugins/kubernetes.io~empty-dir").exists());
}

#[tokio::test]
async fn an_empty_dir_belongs_to_the_group_of_its_pod() {
    if !is_root() {
        return;
    }
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
async fn a_mounted_but_unfinished_memory_dir_is_finished() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    let path = host.set_up_memory("m", None).await;
    // Killed between the mount and the mark.
    fs::remove_file(host.pod("plugins/kubernetes.io~empty-dir/m/ready")).unwrap();
    let plan = VolumePlan::MemoryDir { path: path.clone(), size_limit: None };
    host.set_up_for(plan, Some(4321)).await.unwrap();
    assert_eq!((host.mounts().len(), fs::metadata(&path).unwrap().gid()), (1, 4321));
}

fn journal(host: &Host) -> Vec<String> {
    let text = fs::read_to_string(host.pod("mounts")).unwrap_or_default();
    text.lines().skip(1).map(str::to_owned).collect()
}

fn part(host: &Host, name: &str, path: &str) -> SubPath {
    SubPath {
        volume: name.into(),
        volume_path: host.empty_dir(name),
        path: path.into(),
        container: "main".into(),
        index: 0,
    }
}

#[tokio::test]
async fn mounts_are_written_down_before_and_struck_out_after() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    host.set_up_memory("m", None).await;
    host.set_up_disk("d").await;
    host.volumes.bind_sub_path(&host.uid, &part(&host, "d", "x")).await.unwrap();
    let entries = ["tmpfs\tvolumes/kubernetes.io~empty-dir/m", "bind\tvolume-subpaths/d/main/0"];
    assert_eq!(journal(&host), entries);
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(journal(&host), [""; 0]);
    assert_eq!(host.mounts(), []);
}

#[tokio::test]
async fn at_start_the_journal_is_brought_in_line_with_the_mounts() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    assert_eq!(host.volumes.reconcile_mounts().await.unwrap(), MountReport::default());
    let memory = host.set_up_memory("m", None).await;
    host.set_up_disk("d").await;
    // Killed between the journal and the mount.
    fs::write(
        host.pod("mounts"),
        "podward mounts 1\ntmpfs\tvolumes/kubernetes.io~empty-dir/m\nbind\tvolume-subpaths/d/main/0\n",
    )
    .unwrap();
    // Mounted by another agent; and by a container, which is not ours to write down.
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

#[tokio::test]
async fn a_hostile_volume_cannot_turn_its_clean_up_against_the_host() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    let precious = host.at("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("data"), "x").unwrap();
    let disk = host.set_up_disk("d").await;
    fs::create_dir(disk.join("sub")).unwrap();
    host.volumes.bind_sub_path(&host.uid, &part(&host, "d", "sub")).await.unwrap();
    // The part is deleted and its name leads elsewhere, while it is bound.
    fs::remove_dir(disk.join("sub")).unwrap();
    symlink(&precious, disk.join("sub")).unwrap();
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts(), []);
    assert!(precious.join("data").exists());
    assert!(!disk.exists());
}

/// A `mount` that notes its arguments and then does what the script says.
fn fake_mount(host: &mut Host, script: &str) {
    let program = host.at("mount");
    let text = format!("#!/bin/sh\necho \"$@\" > {}\n{script}\n", host.at("arguments").display());
    // Written by another process: a program that this one has open for writing cannot be run.
    let write = "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\"";
    let status = std::process::Command::new("/bin/sh").args(["-c", write]).arg(&program).arg(text).status();
    assert!(status.unwrap().success());
    host.volumes.mount_program = program.into();
}

fn share(host: &Host) -> VolumePlan {
    let path = host.pod("volumes/kubernetes.io~nfs/v");
    VolumePlan::Nfs { path, source: "nas:/export".to_owned(), read_only: true, options: vec![] }
}

#[tokio::test]
async fn a_share_is_mounted_by_the_hosts_mount_and_detached() {
    if !is_root() {
        return;
    }
    let mut host = Host::new();
    // The last argument is the target.
    fake_mount(&mut host, "for target; do :; done; exec mount -t tmpfs tmpfs \"$target\"");
    for _ in 0..2 {
        host.set_up(share(&host)).await.unwrap();
    }
    let target = host.pod("volumes/kubernetes.io~nfs/v");
    let arguments = fs::read_to_string(host.at("arguments")).unwrap();
    assert_eq!(arguments, format!("-t nfs -o ro nas:/export {}\n", target.display()));
    assert_eq!(host.mounts().len(), 1);
    assert_eq!(journal(&host), ["nfs\tvolumes/kubernetes.io~nfs/v"]);
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts(), []);
    assert!(!target.exists());
}

#[tokio::test]
async fn a_share_that_cannot_be_mounted_is_told_in_full() {
    let mut host = Host::new();
    fake_mount(&mut host, "echo 'bad option; you might need a helper program'; exit 32");
    let text = host.set_up(share(&host)).await.unwrap_err().text();
    let target = host.pod("volumes/kubernetes.io~nfs/v");
    assert_eq!(
        text,
        format!(
            "mount failed: exit status 32\nMounting command: {}\nMounting arguments: -t nfs -o ro nas:/export {}\n\
             Output: bad option; you might need a helper program\n",
            host.at("mount").display(),
            target.display()
        )
    );
    assert!(!target.exists(), "the mount point stays");
    host.volumes.mount_program = host.at("missing").into();
    let text = host.set_up(share(&host)).await.unwrap_err().text();
    assert!(text.contains("executable file not found in $PATH"), "{text}");
}

#[tokio::test]
async fn a_mount_that_hangs_holds_up_its_own_pod_only() {
    let mut host = Host::new();
    let gate = host.at("gate");
    fake_mount(&mut host, &format!("while [ ! -e {} ]; do sleep 0.05; done; exit 1", gate.display()));
    let volumes = host.volumes.clone();
    let volume = PlannedVolume { name: "v".to_owned(), plan: share(&host), fs_group: None };
    let uid = host.uid.clone();
    let hanging = tokio::spawn(async move { volumes.set_up(&uid, &volume, &Progress::default()).await });
    while !host.at("arguments").exists() {
        tokio::task::yield_now().await;
    }
    let other = PodUid::from("u2");
    let path = host.at("kubelet/pods/u2/volumes").join(EMPTY_DIR).join("d");
    let disk = PlannedVolume { name: "d".to_owned(), plan: VolumePlan::EmptyDir { path }, fs_group: None };
    host.volumes.set_up(&other, &disk, &Progress::default()).await.unwrap();
    assert!(!hanging.is_finished());
    fs::write(gate, "").unwrap();
    assert!(hanging.await.unwrap().is_err());
}

#[tokio::test]
async fn huge_pages_are_mounted_by_their_size() {
    if !is_root() || !Path::new("/sys/kernel/mm/hugepages/hugepages-2048kB").exists() {
        return;
    }
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

#[tokio::test]
async fn files_of_a_kept_group_are_left_alone_unless_the_top_differs() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    let disk = host.set_up_disk("d").await;
    fs::create_dir_all(disk.join("a/b")).unwrap();
    fs::write(disk.join("a/b/file"), "x").unwrap();
    fs::set_permissions(disk.join("a/b/file"), fs::Permissions::from_mode(0o600)).unwrap();
    let precious = host.at("precious");
    fs::write(&precious, "x").unwrap();
    symlink(&precious, disk.join("a/link")).unwrap();
    let folder = Folder::open(&disk).unwrap().unwrap();
    let give = |change| {
        let progress = Progress::default();
        let group = FsGroup { gid: 4321, change };
        give_to_group(&folder, group, Access::ReadWrite, &progress).unwrap();
        progress.files()
    };
    assert_eq!(give(FsGroupChange::OnRootMismatch), 5, "the top did not fit");
    let file = fs::metadata(disk.join("a/b/file")).unwrap();
    assert_eq!((file.gid(), file.mode() & 0o7777), (4321, 0o660));
    assert_eq!(mode(&disk.join("a/b")), 0o2775);
    assert_eq!(fs::metadata(&precious).unwrap().gid(), 0, "a symlink was followed");
    assert_eq!(fs::symlink_metadata(disk.join("a/link")).unwrap().gid(), 4321);
    assert_eq!(give(FsGroupChange::OnRootMismatch), 0);
    assert_eq!(give(FsGroupChange::Always), 5);
}

fn local(host: &Host, read_only: bool) -> VolumePlan {
    let path = host.pod("volumes/kubernetes.io~local-volume/pv");
    VolumePlan::Local { path, source: host.at("disk"), read_only, options: vec![] }
}

#[tokio::test]
async fn a_local_volume_is_bound_and_its_files_outlive_the_pod() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    let missing = host.set_up(local(&host, false)).await.unwrap_err().text();
    assert!(missing.contains("does not exist"), "{missing}");
    fs::create_dir(host.at("disk")).unwrap();
    fs::write(host.at("disk/kept"), "x").unwrap();
    for _ in 0..2 {
        host.set_up_for(local(&host, false), Some(1234)).await.unwrap();
    }
    let path = host.pod("volumes/kubernetes.io~local-volume/pv");
    fs::write(path.join("written"), "y").unwrap();
    assert_eq!(fs::metadata(host.at("disk/kept")).unwrap().gid(), 1234);
    assert_eq!(host.mounts().len(), 1);
    assert_eq!(journal(&host), ["bind\tvolumes/kubernetes.io~local-volume/pv"]);
    // A second pod with another group finds the first one's.
    let other = PodUid::from("u2");
    let plan = VolumePlan::Local {
        path: host.at("kubelet/pods/u2/volumes/kubernetes.io~local-volume/pv"),
        source: host.at("disk"),
        read_only: true,
        options: vec![],
    };
    let group = Some(FsGroup { gid: 77, change: FsGroupChange::Always });
    let volume = PlannedVolume { name: "v".to_owned(), plan, fs_group: group };
    host.volumes.set_up(&other, &volume, &Progress::default()).await.unwrap();
    assert_eq!(fs::metadata(host.at("disk/kept")).unwrap().gid(), 1234);
    let refused = fs::write(volume.plan.host_path().unwrap().join("more"), "z").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    for uid in [&host.uid, &other] {
        host.volumes.tear_down(uid).await.unwrap();
    }
    assert_eq!(host.mounts(), []);
    assert!(!path.exists());
    assert_eq!(fs::read_to_string(host.at("disk/written")).unwrap(), "y");
}

#[tokio::test]
async fn options_of_a_local_volume_are_put_in_force_or_told_of() {
    if !is_root() {
        return;
    }
    let mut host = Host::new();
    fs::create_dir(host.at("disk")).unwrap();
    let plan = |options: &[&str]| VolumePlan::Local {
        path: host.pod("volumes/kubernetes.io~local-volume/pv"),
        source: host.at("disk"),
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
async fn a_device_is_linked_and_unlinked() {
    if !is_root() {
        return;
    }
    let host = Host::new();
    let device = host.at("device");
    let path = host.pod("volumeDevices/kubernetes.io~local-volume/pv");
    let plan =
        |source: &Path| VolumePlan::Device { path: path.clone(), source: source.into(), read_only: false };
    fs::write(host.at("file"), "").unwrap();
    for (source, text) in [(host.at("missing"), "does not exist"), (host.at("file"), "is no block device")] {
        let refused = host.set_up(plan(&source)).await.unwrap_err().text();
        assert!(refused.contains(text), "{refused}");
    }
    let node = rustix::fs::makedev(7, 200);
    let (mode, kind) = (rustix::fs::Mode::RUSR, rustix::fs::FileType::BlockDevice);
    rustix::fs::mknodat(rustix::fs::CWD, &device, kind, mode, node).unwrap();
    symlink(host.at("old"), {
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
