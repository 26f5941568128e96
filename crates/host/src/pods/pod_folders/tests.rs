use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use model::PodFullName;

use super::*;
use crate::test_folder::{Scratch, require_root};

struct Host {
    scratch: Scratch,
    folders: HostPodFolders,
    uid: PodUid,
}

impl Host {
    fn new() -> Self {
        let scratch = Scratch::new();
        let path_of = |name: &str| scratch.path().join(name);
        let folders =
            HostPodFolders::new(path_of("lib/kubelet"), path_of("log/pods"), path_of("log/containers"));
        Self { scratch, folders, uid: PodUid::from("u1") }
    }

    fn root(&self) -> PathBuf {
        self.scratch.path().join("lib/kubelet")
    }

    fn pod(&self, relative: &str) -> PathBuf {
        self.root().join("pods/u1").join(relative)
    }

    fn log(&self, relative: &str) -> PathBuf {
        self.scratch.path().join("log").join(relative)
    }

    async fn write(&self, relative: &str, content: &str, mode: u32) -> Result<PathBuf, FileError> {
        self.folders.write_pod_file(&self.uid, Path::new(relative), content.as_bytes(), mode).await
    }

    /// Removal must fail with an error about `path`, and keep `kept`.
    async fn check_removal_fails(&self, path: &Path, kept: &Path) {
        let error = self.folders.remove_pod_folder(&self.uid).await.unwrap_err();
        assert_eq!(error.path, path, "{error}: {}", error.source);
        assert!(kept.exists());
        assert!(self.pod("etc-hosts").exists(), "something was removed");
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn log_folder() -> LogFolder {
    let full_name = PodFullName { namespace: "ns".into(), name: "web".into() };
    LogFolder { uid: "u1".into(), full_name }
}

#[tokio::test]
async fn pod_folders_are_private() {
    let host = Host::new();
    for _ in 0..2 {
        host.folders.make_pod_folders(&host.uid).await.unwrap();
    }
    for path in
        [host.root(), host.root().join("pods"), host.pod(""), host.pod("volumes"), host.pod("plugins")]
    {
        assert_eq!(mode(&path), 0o750, "{}", path.display());
    }
    assert_eq!(host.folders.list_pod_folders().await.unwrap(), [PodUid::from("u1")]);
}

#[tokio::test]
async fn lists_are_empty_without_folders() {
    let host = Host::new();
    assert!(host.folders.list_pod_folders().await.unwrap().is_empty());
    assert!(host.folders.list_log_folders().await.unwrap().is_empty());
    host.folders.remove_pod_folder(&host.uid).await.unwrap();
    host.folders.remove_log_folder(&log_folder()).await.unwrap();
    host.folders.remove_dead_log_links().await.unwrap();
    assert!(!host.root().exists());
}

#[tokio::test]
async fn unchanged_file_keeps_its_inode() {
    let host = Host::new();
    let path = host.write("etc-hosts", "127.0.0.1 localhost\n", 0o644).await.unwrap();
    assert_eq!(path, host.pod("etc-hosts"));
    let before = fs::metadata(&path).unwrap().ino();
    host.write("etc-hosts", "127.0.0.1 localhost\n", 0o600).await.unwrap();
    assert_eq!((fs::metadata(&path).unwrap().ino(), mode(&path)), (before, 0o600));
    for (content, requested_mode) in [("longer than it was before\n", 0o644), ("", 0o666)] {
        let open_file = fs::File::open(&path).unwrap();
        host.write("etc-hosts", content, requested_mode).await.unwrap();
        assert_ne!(fs::metadata(&path).unwrap().ino(), open_file.metadata().unwrap().ino());
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), (content, requested_mode));
    }
    assert_eq!(host.pod("").read_dir().unwrap().count(), 1, "a temporary file was left");
    let path = host.write("containers/main/0a1b2c3d", "", 0o666).await.unwrap();
    assert_eq!((mode(&path), mode(&host.pod("containers/main"))), (0o666, 0o750));
}

#[tokio::test]
async fn rejects_writes_through_symlinks_and_outside_of_the_pod() {
    let host = Host::new();
    host.folders.make_pod_folders(&host.uid).await.unwrap();
    let outside = host.scratch.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("passwd"), "root").unwrap();
    symlink(&outside, host.pod("containers")).unwrap();
    symlink(outside.join("passwd"), host.pod("etc-hosts")).unwrap();
    fs::create_dir(host.pod("folder")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, host.pod("fifo"), 0o600.into()).unwrap();
    for path in [
        "containers/main/log",
        "containers/passwd",
        "etc-hosts",
        "folder",
        "fifo",
        "../u2/file",
        "/etc/evil",
        "",
        "a/../../b",
    ] {
        assert!(host.write(path, "evil", 0o644).await.is_err(), "{path:?}");
    }
    for uid in ["", "..", "../x", "/", "a/b"] {
        let uid = PodUid::from(uid);
        assert!(host.folders.make_pod_folders(&uid).await.is_err(), "{uid}");
        assert!(host.folders.remove_pod_folder(&uid).await.is_err(), "{uid}");
    }
    assert_eq!(fs::read_to_string(outside.join("passwd")).unwrap(), "root");
    assert_eq!(outside.read_dir().unwrap().count(), 1);
    assert!(!host.root().join("pods/u2").exists());
}

#[tokio::test]
async fn removes_a_pod_folder_with_files_of_the_agent() {
    let host = Host::new();
    host.folders.make_pod_folders(&host.uid).await.unwrap();
    host.write("etc-hosts", "x", 0o644).await.unwrap();
    host.write("containers/main/0a1b2c3d", "bye", 0o666).await.unwrap();
    host.write("plugins/kubernetes.io~empty-dir/cache/ready", "", 0o644).await.unwrap();
    host.write("volume-subpaths/cache/main/0", "", 0o644).await.unwrap();
    fs::create_dir_all(host.pod("volume-subpaths/cache/main/1")).unwrap();
    fs::create_dir_all(host.pod("volumes/kubernetes.io~empty-dir/cache")).unwrap();
    fs::create_dir_all(host.pod("volumes/kubernetes.io~secret")).unwrap();
    let outside = host.scratch.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "x").unwrap();
    symlink(&outside, host.pod("containers/main/link")).unwrap();
    for _ in 0..2 {
        host.folders.remove_pod_folder(&host.uid).await.unwrap();
    }
    assert!(!host.pod("").exists());
    assert!(outside.join("file").exists());
}

#[tokio::test]
async fn keeps_a_pod_folder_while_a_volume_has_data() {
    let host = Host::new();
    host.folders.make_pod_folders(&host.uid).await.unwrap();
    host.write("etc-hosts", "x", 0o644).await.unwrap();
    let volume = host.pod("volumes/kubernetes.io~nfs/share");
    fs::create_dir_all(&volume).unwrap();
    fs::write(volume.join("data"), "precious").unwrap();
    host.check_removal_fails(&volume, &volume.join("data")).await;
    fs::remove_file(volume.join("data")).unwrap();

    let stray = host.pod("volumes/kubernetes.io~nfs/file");
    fs::write(&stray, "x").unwrap();
    host.check_removal_fails(&stray, &stray).await;
    fs::remove_file(&stray).unwrap();

    let subpath = host.pod("volume-subpaths/share/main/0");
    fs::create_dir_all(&subpath).unwrap();
    fs::write(subpath.join("data"), "precious").unwrap();
    host.check_removal_fails(&subpath, &subpath.join("data")).await;
    fs::remove_file(subpath.join("data")).unwrap();
    host.folders.remove_pod_folder(&host.uid).await.unwrap();
}

#[tokio::test]
#[ignore = "needs root"]
async fn keeps_a_pod_folder_with_a_mount_below() {
    require_root();
    let host = Host::new();
    host.folders.make_pod_folders(&host.uid).await.unwrap();
    host.write("etc-hosts", "x", 0o644).await.unwrap();
    let outside = host.scratch.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("file"), "x").unwrap();
    let mounted = host.pod("containers/with space");
    fs::create_dir_all(&mounted).unwrap();
    rustix::mount::mount_bind(&outside, &mounted).unwrap();
    host.check_removal_fails(&mounted, &outside.join("file")).await;
    rustix::mount::unmount(&mounted, rustix::mount::UnmountFlags::empty()).unwrap();
    host.folders.remove_pod_folder(&host.uid).await.unwrap();
    assert!(outside.join("file").exists());
}

#[tokio::test]
#[ignore = "needs root"]
async fn symlinked_root_folder_is_protected_too() {
    require_root();
    let host = Host::new();
    fs::create_dir_all(host.scratch.path().join("lib")).unwrap();
    fs::create_dir_all(host.scratch.path().join("data")).unwrap();
    symlink("../data", host.root()).unwrap();
    host.folders.make_pod_folders(&host.uid).await.unwrap();
    host.write("etc-hosts", "x", 0o644).await.unwrap();
    let real = host.scratch.path().join("data/pods/u1/volumes");
    rustix::mount::mount_bind(&real, &real).unwrap();
    host.check_removal_fails(&real, &real).await;
}

#[tokio::test]
async fn finds_logs_by_folder_name() {
    let host = Host::new();
    let folder = log_folder();
    assert_eq!(host.folders.highest_log_number(&folder, "main").await.unwrap(), None);
    host.folders.make_log_folder(&folder, "main").await.unwrap();
    assert_eq!(host.folders.highest_log_number(&folder, "main").await.unwrap(), None);
    for name in ["0.log", "2.log", "10.log.20260101-000000", "x"] {
        fs::write(host.log("pods/ns_web_u1/main").join(name), "").unwrap();
    }
    assert_eq!(host.folders.highest_log_number(&folder, "main").await.unwrap(), Some(10));
    assert_eq!((mode(&host.log("pods")), mode(&host.log("pods/ns_web_u1/main"))), (0o750, 0o755));
    fs::create_dir(host.log("pods/unrelated")).unwrap();
    assert_eq!(host.folders.list_log_folders().await.unwrap(), std::slice::from_ref(&folder));
    host.folders.remove_log_folder(&folder).await.unwrap();
    assert!(host.folders.list_log_folders().await.unwrap().is_empty());
    assert!(host.folders.make_log_folder(&folder, "../../x").await.is_err());
}

#[tokio::test]
async fn replaces_and_removes_only_own_log_links() {
    let host = Host::new();
    let long = "l".repeat(255);
    host.folders.make_log_folder(&log_folder(), "main").await.unwrap();
    let logs = host.log("pods/ns_web_u1/main");
    for number in 0..2 {
        let target = logs.join(format!("{number}.log"));
        fs::write(&target, "").unwrap();
        for _ in 0..2 {
            host.folders.link_container_log(&long, &target).await.unwrap();
        }
        assert_eq!(fs::read_link(host.log("containers").join(&long)).unwrap(), target);
    }
    assert_eq!(mode(&host.log("containers")), 0o755);
    host.folders.link_container_log("dead", &logs.join("7.log")).await.unwrap();
    host.folders.link_container_log("rotating", &logs.join("8.log")).await.unwrap();
    fs::write(logs.join("8.log.20260101-000000"), "").unwrap();
    symlink("/nowhere/x.log", host.log("containers/foreign")).unwrap();
    symlink(logs.join("../../../elsewhere.log"), host.log("containers/escaping")).unwrap();
    fs::write(host.log("containers/file"), "").unwrap();
    assert!(host.folders.link_container_log("file", &logs.join("0.log")).await.is_err());
    host.folders.remove_dead_log_links().await.unwrap();
    let mut left: Vec<_> =
        fs::read_dir(host.log("containers")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["escaping", "file", "foreign", long.as_str(), "rotating"]);
}

#[tokio::test]
async fn file_grown_by_a_container_is_not_read_completely() {
    let host = Host::new();
    let path = host.write("etc-hosts", "content", 0o644).await.unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    host.write("etc-hosts", "content", 0o644).await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "content");
}

#[tokio::test]
async fn log_operations_never_leave_the_log_folder() {
    let host = Host::new();
    let outside = host.scratch.path().join("outside");
    fs::create_dir_all(outside.join("main")).unwrap();
    fs::write(outside.join("main/7.log"), "kept").unwrap();
    fs::create_dir_all(host.log("pods")).unwrap();
    let planted = host.log("pods/ns_web_u1");
    symlink(&outside, &planted).unwrap();
    let folders = &host.folders;
    assert!(folders.make_log_folder(&log_folder(), "main").await.is_err());
    assert!(folders.make_log_folder(&log_folder(), "../main").await.is_err());
    assert!(folders.highest_log_number(&log_folder(), "main").await.is_err());
    let log = planted.join("main/7.log");
    assert!(folders.remove_log(&log, "link").await.is_err());
    assert!(folders.remove_log(&outside.join("main/7.log"), "link").await.is_err());
    assert_eq!(folders.list_log_folders().await.unwrap(), [], "a link is not a folder");
    folders.remove_log_folder(&log_folder()).await.unwrap();
    assert!(fs::symlink_metadata(&planted).is_err(), "the link itself is removed");
    fs::create_dir(&planted).unwrap();
    symlink(outside.join("main"), planted.join("main")).unwrap();
    assert!(folders.make_log_folder(&log_folder(), "main").await.is_err());
    assert!(folders.highest_log_number(&log_folder(), "main").await.is_err());
    folders.remove_log_folder(&log_folder()).await.unwrap();
    assert_eq!(fs::read_to_string(outside.join("main/7.log")).unwrap(), "kept");
}
