use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::Command;

use model::{FsGroupChange, ProjectedFile};
use ports::host::pod_volumes::HostPathKind;
use rustix::mount::MountFlags;

use super::*;
use crate::mount_table;
use crate::test_folder::{Scratch, require_root};

mod clean_up;
mod empty_dirs;
mod fc;
mod flex;
mod groups;
mod host_paths;
mod hostile_values;
mod iscsi;
mod journals;
mod local;
mod secrets;
mod shares;

/// A fake `mount` that records its options and drops labels, which the kernel of this machine may not support.
fn recording_mount(host: &Host) -> (PathBuf, OsString) {
    let recorded = host.path_of("mounted");
    let text = format!(
        "#!/bin/sh\necho \"$4\" >> {}\nexec mount -t \"$2\" -o \"${{4%%,*}}\" \"$6\" \"$7\"\n",
        recorded.display()
    );
    let mount = program(&host.path_of("mount"), &text);
    (recorded, mount.into())
}

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

    fn path_of(&self, relative: &str) -> PathBuf {
        self.scratch.path().join(relative)
    }

    fn pod(&self, relative: &str) -> PathBuf {
        self.path_of("kubelet/pods/u1").join(relative)
    }

    fn empty_dir(&self, name: &str) -> PathBuf {
        self.pod("volumes").join(EMPTY_DIR).join(name)
    }

    async fn set_up(&self, plan: VolumePlan) -> Result<(), VolumeError> {
        self.set_up_for(plan, None).await
    }

    async fn set_up_for(&self, plan: VolumePlan, gid: Option<u32>) -> Result<(), VolumeError> {
        let fs_group = gid.map(|gid| FsGroup { gid, change: FsGroupChange::Always });
        let volume = PlannedVolume { name: "v".to_owned(), plan, fs_group, label: model::VolumeLabel::None };
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

/// A loop device, removed when dropped.
struct LoopDisk {
    device: PathBuf,
}

impl LoopDisk {
    fn new(host: &Host, name: &str) -> Self {
        let file = host.path_of(name);
        fs::File::create(&file).unwrap().set_len(16 << 20).unwrap();
        let made = Command::new("losetup").args(["-f", "--show"]).arg(&file).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Self { device: String::from_utf8(made.stdout).unwrap().trim().into() }
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("-d").arg(&self.device).status();
    }
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
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

fn journal(host: &Host) -> Vec<String> {
    let text = fs::read_to_string(host.pod("mounts")).unwrap_or_default();
    text.lines().skip(1).map(str::to_owned).collect()
}

fn sub_path(host: &Host, name: &str, path: &str) -> SubPath {
    SubPath {
        volume: name.into(),
        volume_path: host.empty_dir(name),
        path: path.into(),
        container: "main".into(),
        index: 0,
    }
}

/// Installs a fake `mount` that records its arguments and then runs the script.
fn fake_mount(host: &mut Host, script: &str) {
    let text = format!("#!/bin/sh\necho \"$@\" > {}\n{script}\n", host.path_of("arguments").display());
    host.volumes.mount_program = program(&host.path_of("mount"), &text).into();
}

/// Writes a program from another process, because a file that this process has open for writing cannot be executed.
fn program(path: &Path, text: &str) -> PathBuf {
    let write = "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\"";
    let status = std::process::Command::new("/bin/sh").args(["-c", write]).arg(path).arg(text).status();
    assert!(status.unwrap().success());
    path.to_path_buf()
}
