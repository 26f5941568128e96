//! A runtime for tests with an image of busybox, in separate folders and cgroups. Everything is removed at the end, also when a test fails.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use cri::v1::image_service_client::ImageServiceClient;
use cri::v1::runtime_service_client::RuntimeServiceClient;
use cri::v1::*;
use runtime::images::{Digest, ImageStore};
use runtime::network::NetworkSettings;
use runtime::services::{RuntimeOptions, RuntimeServices, Serving};
use tonic::transport::Channel;

const TIMEOUT: Duration = Duration::from_secs(30);
const APPLETS: &[&str] = &[
    "sh", "cat", "ls", "echo", "id", "sleep", "mkdir", "mount", "touch", "true", "grep", "kill", "ps", "dd",
    "chmod", "stat", "hostname", "wc", "head", "printf", "env", "pwd", "ip", "trap", "rm", "sync", "df",
];
pub(crate) const IMAGE: &str = "docker.io/library/busybox:test";
static NEXT: AtomicU32 = AtomicU32::new(0);

pub(crate) fn require_root() {
    assert!(rustix::process::geteuid().is_root(), "this test needs root");
}

pub(crate) struct Node {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) cgroup_parent: String,
    image: String,
    network: Option<NetworkSettings>,
    services: Option<RuntimeServices>,
    serving: Option<Serving>,
}

impl Node {
    pub(crate) async fn start() -> Self {
        require_root();
        let folder = tempfile::tempdir().unwrap();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let cgroup_parent = format!("/podward-services-{}-{number}", std::process::id());
        let mut node = Self {
            folder,
            cgroup_parent,
            image: IMAGE.to_owned(),
            network: None,
            services: None,
            serving: None,
        };
        let store = ImageStore::open(&node.root().join("images"), Vec::new()).unwrap();
        store.import(image_archive().as_slice()).unwrap();
        node.open().await;
        node
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    async fn open(&mut self) {
        let now = || {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
            now.tv_sec * 1_000_000_000 + now.tv_nsec
        };
        let services = RuntimeServices::open(RuntimeOptions {
            root: self.root(),
            state: self.state(),
            keeper_program: env!("CARGO_BIN_EXE_podward-keeper").into(),
            hosts_folder: None,
            network: self.network.clone(),
            streaming_address: "127.0.0.1:0".parse().unwrap(),
            cdi_folders: vec![self.folder.path().join("cdi")],
            pinned_images: Vec::new(),
            shared_images: None,
            now: Arc::new(now),
        })
        .await
        .unwrap();
        self.serving = Some(services.serve_in_memory());
        self.services = Some(services);
    }

    /// Drops the runtime without a word to the keepers, and opens it again.
    pub(crate) async fn restart(&mut self) {
        self.stop();
        self.open().await;
    }

    /// Opens the runtime again, with a pod network.
    pub(crate) async fn use_network(&mut self, settings: NetworkSettings) {
        self.network = Some(settings);
        self.restart().await;
    }

    pub(crate) fn stop(&mut self) {
        self.serving = None;
        self.services = None;
    }

    pub(crate) async fn open_again(&mut self) {
        self.open().await;
    }

    pub(crate) fn runtime(&self) -> RuntimeServiceClient<Channel> {
        RuntimeServiceClient::new(self.serving.as_ref().unwrap().channel())
    }

    pub(crate) fn images(&self) -> ImageServiceClient<Channel> {
        ImageServiceClient::new(self.serving.as_ref().unwrap().channel())
    }

    /// A sandbox whose containers each have a PID namespace, as kubelets request.
    pub(crate) fn sandbox_config(&self, name: &str) -> PodSandboxConfig {
        let metadata = PodSandboxMetadata {
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            namespace: "default".to_owned(),
            attempt: 0,
        };
        let options = NamespaceOption { pid: NamespaceMode::Container.into(), ..NamespaceOption::default() };
        let security = LinuxSandboxSecurityContext {
            namespace_options: Some(options),
            ..LinuxSandboxSecurityContext::default()
        };
        PodSandboxConfig {
            metadata: Some(metadata),
            hostname: name.to_owned(),
            log_directory: self.folder.path().join("logs").join(name).to_string_lossy().into_owned(),
            labels: [("app".to_owned(), name.to_owned())].into(),
            annotations: [("note".to_owned(), "as given".to_owned())].into(),
            linux: Some(LinuxPodSandboxConfig {
                cgroup_parent: self.cgroup_parent.clone(),
                security_context: Some(security),
                ..LinuxPodSandboxConfig::default()
            }),
            ..PodSandboxConfig::default()
        }
    }

    pub(crate) fn container_config(&self, name: &str, script: &str) -> ContainerConfig {
        let options = NamespaceOption { pid: NamespaceMode::Container.into(), ..NamespaceOption::default() };
        let security = LinuxContainerSecurityContext {
            namespace_options: Some(options),
            ..LinuxContainerSecurityContext::default()
        };
        ContainerConfig {
            metadata: Some(ContainerMetadata { name: name.to_owned(), attempt: 0 }),
            image: Some(ImageSpec { image: self.image.clone(), ..ImageSpec::default() }),
            command: ["sh", "-c", script].map(str::to_owned).into(),
            log_path: format!("{name}/0.log"),
            labels: [("container".to_owned(), name.to_owned())].into(),
            linux: Some(LinuxContainerConfig {
                security_context: Some(security),
                ..LinuxContainerConfig::default()
            }),
            ..ContainerConfig::default()
        }
    }

    pub(crate) async fn run_sandbox(&self, config: &PodSandboxConfig) -> String {
        let request = RunPodSandboxRequest { config: Some(config.clone()), ..Default::default() };
        self.runtime().run_pod_sandbox(request).await.unwrap().into_inner().pod_sandbox_id
    }

    pub(crate) async fn create(
        &self,
        sandbox: &str,
        config: &ContainerConfig,
    ) -> Result<String, tonic::Status> {
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.to_owned(),
            config: Some(config.clone()),
            sandbox_config: None,
        };
        Ok(self.runtime().create_container(request).await?.into_inner().container_id)
    }

    pub(crate) async fn start_container(&self, id: &str) -> Result<(), tonic::Status> {
        let request = StartContainerRequest { container_id: id.to_owned() };
        self.runtime().start_container(request).await.map(drop)
    }

    /// Creates and starts a container.
    pub(crate) async fn run(&self, sandbox: &str, config: &ContainerConfig) -> String {
        let id = self.create(sandbox, config).await.unwrap();
        self.start_container(&id).await.unwrap();
        id
    }

    pub(crate) async fn status(&self, id: &str) -> ContainerStatus {
        let request = ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        self.runtime().container_status(request).await.unwrap().into_inner().status.unwrap()
    }

    pub(crate) async fn sandbox_status(&self, id: &str) -> PodSandboxStatus {
        let request = PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        self.runtime().pod_sandbox_status(request).await.unwrap().into_inner().status.unwrap()
    }

    /// Waits until a container has ended.
    pub(crate) async fn exited(&self, id: &str) -> ContainerStatus {
        until(|| async {
            let status = self.status(id).await;
            (status.state() == ContainerState::ContainerExited).then_some(status)
        })
        .await
    }

    pub(crate) async fn stop_container(&self, id: &str, timeout: i64) {
        let request = StopContainerRequest { container_id: id.to_owned(), timeout };
        self.runtime().stop_container(request).await.unwrap();
    }

    pub(crate) async fn remove_container(&self, id: &str) {
        let request = RemoveContainerRequest { container_id: id.to_owned() };
        self.runtime().remove_container(request).await.unwrap();
    }

    pub(crate) async fn stop_sandbox(&self, id: &str) {
        let request = StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.runtime().stop_pod_sandbox(request).await.unwrap();
    }

    pub(crate) async fn remove_sandbox(&self, id: &str) {
        let request = RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        self.runtime().remove_pod_sandbox(request).await.unwrap();
    }

    pub(crate) async fn exec(
        &self,
        id: &str,
        script: &str,
        timeout: i64,
    ) -> Result<ExecSyncResponse, tonic::Status> {
        let cmd = ["sh", "-c", script].map(str::to_owned).into();
        let request = ExecSyncRequest { container_id: id.to_owned(), cmd, timeout };
        Ok(self.runtime().exec_sync(request).await?.into_inner())
    }

    /// Standard output of a script that must succeed.
    pub(crate) async fn exec_output(&self, id: &str, script: &str) -> String {
        let output = self.exec(id, script, 10).await.unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.exit_code, 0, "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// Runs a script in a new container; returns its exit code and its output.
    pub(crate) async fn output(&self, sandbox: &str, config: &ContainerConfig) -> (i32, String) {
        let id = Box::pin(self.run(sandbox, config)).await;
        let status = Box::pin(self.exited(&id)).await;
        let log = log_text(Path::new(&status.log_path));
        Box::pin(self.remove_container(&id)).await;
        (status.exit_code, log)
    }

    /// Mounts and processes that belong to this runtime, and files that it left.
    pub(crate) fn left_overs(&self) -> BTreeSet<String> {
        let folder = self.folder.path().to_string_lossy().into_owned();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let mut found: BTreeSet<String> =
            mounts.lines().filter(|line| line.contains(&folder)).map(str::to_owned).collect();
        for cgroup in cgroup_folders(&self.cgroup_parent) {
            for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    found.insert(entry.path().display().to_string());
                }
            }
        }
        for process in keepers_of(&folder) {
            found.insert(format!("keeper {process}"));
        }
        for path in [
            self.root().join("sandboxes"),
            self.root().join("containers"),
            self.root().join("images/roots"),
            self.state(),
        ] {
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                found.insert(entry.path().display().to_string());
            }
        }
        found
    }

    /// Checks that nothing is left of all pods.
    pub(crate) fn assert_empty(&self) {
        assert_eq!(self.left_overs(), BTreeSet::new());
    }

    pub(crate) fn keepers(&self) -> Vec<i32> {
        keepers_of(&self.folder.path().to_string_lossy())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop();
        for pid in self.keepers() {
            kill(pid);
        }
        let cgroups = cgroup_folders(&self.cgroup_parent);
        for cgroup in &cgroups {
            kill_below(cgroup);
        }
        let folder = self.folder.path().to_string_lossy().into_owned();
        // Several mounts may cover one place.
        for _ in 0..5 {
            let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            let paths = mounts.lines().filter_map(|line| line.split(' ').nth(4));
            for path in paths.filter(|path| path.starts_with(&folder)) {
                let _ = rustix::mount::unmount(path, rustix::mount::UnmountFlags::DETACH);
            }
        }
        for cgroup in cgroups {
            remove_cgroup(&cgroup);
        }
    }
}

fn keepers_of(folder: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        if command.contains("podward-keeper") && command.contains(folder) {
            found.push(pid);
        }
    }
    found
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

/// The folder of a cgroup in each hierarchy.
fn cgroup_folders(path: &str) -> Vec<PathBuf> {
    let path = path.trim_start_matches('/');
    let mut found = vec![Path::new("/sys/fs/cgroup").join(path)];
    for entry in fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
        found.push(entry.path().join(path));
    }
    found.retain(|folder| folder.exists());
    found
}

fn kill_below(cgroup: &Path) {
    for pid in fs::read_to_string(cgroup.join("cgroup.procs")).unwrap_or_default().lines() {
        kill(pid.parse().unwrap());
    }
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            kill_below(&entry.path());
        }
    }
}

fn remove_cgroup(cgroup: &Path) {
    for entry in fs::read_dir(cgroup).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            remove_cgroup(&entry.path());
        }
    }
    for _ in 0..100 {
        if fs::remove_dir(cgroup).is_ok() || !cgroup.exists() {
            return;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// Asks again until there is a result.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(mut ask: impl FnMut() -> F) -> T {
    let asking = async {
        loop {
            if let Some(result) = ask().await {
                return result;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(TIMEOUT, asking).await.unwrap()
}

/// The lines of a log without times; those of standard error begin with `E`.
pub(crate) fn log_text(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = |line: &str| {
        let fields: Vec<&str> = line.splitn(4, ' ').collect();
        format!("{}{}\n", if fields[1] == "stderr" { "E " } else { "" }, fields[3])
    };
    text.lines().map(line).collect()
}

/// A `docker save` archive of an image with busybox.
pub(crate) fn image_archive() -> Vec<u8> {
    let mut layer = tar::Builder::new(Vec::new());
    let mut folder = |path: &str, mode: u32| {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_mode(mode);
        header.set_size(0);
        layer.append_data(&mut header, path, std::io::empty()).unwrap();
    };
    for (path, mode) in
        [("bin/", 0o755), ("etc/", 0o755), ("tmp/", 0o1777), ("root/", 0o700), ("data/", 0o755)]
    {
        folder(path, mode);
    }
    let mut file = |path: &str, mode: u32, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        layer.append_data(&mut header, path, content).unwrap();
    };
    file("bin/busybox", 0o755, &fs::read("/bin/busybox").unwrap());
    file("data/declared", 0o644, b"from the image\n");
    file("etc/passwd", 0o644, b"root:x:0:0:root:/root:/bin/sh\napp:x:1000:1000:app:/tmp:/bin/sh\n");
    file("etc/group", 0o644, b"root:x:0:\napp:x:1000:\nlogs:x:50000:app\n");
    for applet in APPLETS {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_mode(0o777);
        header.set_size(0);
        layer.append_link(&mut header, format!("bin/{applet}"), "busybox").unwrap();
    }
    let layer = layer.into_inner().unwrap();
    let config = serde_json::json!({
        "architecture": match std::env::consts::ARCH { "aarch64" => "arm64", _ => "amd64" },
        "os": "linux",
        "config": {"Env": ["PATH=/bin", "FROM_IMAGE=yes"], "Cmd": ["sh", "-c", "echo default"], "Volumes": {"/data": {}}},
        "rootfs": {"type": "layers", "diff_ids": [Digest::of(&layer).to_string()]},
    });
    let manifest =
        serde_json::json!([{"Config": "config.json", "RepoTags": [IMAGE], "Layers": ["layer.tar"]}]);
    let mut archive = tar::Builder::new(Vec::new());
    for (path, content) in [
        ("config.json", config.to_string().into_bytes()),
        ("manifest.json", manifest.to_string().into_bytes()),
        ("layer.tar", layer),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, path, content.as_slice()).unwrap();
    }
    let mut bytes = archive.into_inner().unwrap();
    bytes.flush().unwrap();
    bytes
}
