//! One part of the suite on its own machine: namespaces with a registry, a runtime and critest.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use testkit::containerd::Containerd;
use testkit::control_plane::built;
use testkit::images;
use testkit::instance::Instance;
use testkit::registry::Registry;
use testkit::runtime_process::RuntimeProcess;
use tokio::process::Command;

use super::report::Report;
use super::{Runtime, Transport};

/// First argument of the process inside the namespaces.
pub(crate) const INSIDE: &str = "--inside";

/// The digest of `test-image-digest` in the source of critest. The program gets that of our image instead.
const PUBLIC_DIGEST: &str = "9700f9a2f5bf2c45f2f605a0bd3bce7cf37420ec9d3ed50ac2758413308766bf";
const REGISTRIES: [&str; 3] = ["registry.k8s.io", "k8s.gcr.io", "gcr.io"];

/// Propagation of mounts is a subject of the suite, so the mounts of the machine are shared among its own namespaces.
const ENTER: &str = "mount --make-rshared / && ip link set lo up && exec \"$@\"";

#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) runtime: Runtime,
    pub(crate) transport: Transport,
    /// Start of the names of report and logs.
    pub(crate) output: PathBuf,
    /// Source files of the specs.
    pub(crate) files: Vec<String>,
    pub(crate) words: Vec<String>,
}

impl Job {
    /// Runs this program again in new namespaces, which end with it.
    pub(crate) async fn run(&self) -> Result<Report> {
        let report = self.output.with_extension("json");
        let log = self.output.with_extension("log");
        let _ = std::fs::remove_file(&report);
        let output = std::fs::File::create(&log).with_context(|| format!("create {}", log.display()))?;
        let status = Command::new("unshare")
            // Not the processes: the owner of an instance must be visible to other tests, which remove those of dead owners.
            .args(["--mount", "--net", "--uts", "--ipc", "--propagation", "private", "sh", "-c", ENTER, "sh"])
            .arg(std::env::current_exe().context("find this program")?)
            .args([INSIDE, self.runtime.name(), self.transport.name()])
            .arg(&self.output)
            .args(self.files.iter().map(|file| format!("-ginkgo.focus-file={file}")))
            .args(self.words.iter().map(|word| format!("-ginkgo.focus={word}")))
            .stdin(Stdio::null())
            .stdout(output.try_clone().context("share the log")?)
            .stderr(output)
            .kill_on_drop(true)
            .status()
            .await
            .context("start unshare")?;
        ensure!(status.success(), "{status}: see {}", log.display());
        let text =
            std::fs::read_to_string(&report).with_context(|| format!("no report: see {}", log.display()))?;
        Report::parse(&text)
    }
}

/// Runs a part of the suite; the arguments are those that [`Job::run`] gives.
pub(crate) async fn run_inside(arguments: Vec<String>) -> Result<()> {
    let mut arguments = arguments.into_iter();
    let runtime = arguments.next().context("no runtime")?;
    let transport = arguments.next().context("no transport")?;
    let output = PathBuf::from(arguments.next().context("no output")?);
    let archive = images::write_critest_images(&images::workspace().join("target/test-images"))?;
    let registry = Registry::start_with(&archive).await?;
    let instance = Instance::create()?;
    write_mirrors(&instance, &registry)?;
    let program = critest_for(&instance, &registry)?;
    let mut critest = Command::new(program);
    critest
        .arg(format!("--runtime-endpoint=unix://{}", instance.socket().display()))
        .arg(format!("-ginkgo.json-report={}", output.with_extension("json").display()))
        .arg("-ginkgo.no-color")
        .args(arguments)
        .stdin(Stdio::null());
    if transport == Transport::WebSocket.name() {
        critest.args(["--websocket-exec", "--websocket-attach", "--websocket-portforward"]);
    }
    let log = output.with_extension("runtime.log");
    if runtime == Runtime::Containerd.name() {
        let containerd = Containerd::start_in(instance, Path::new("/usr/bin/containerd")).await?;
        // It fails if a spec failed; the report has the results.
        critest.status().await.context("start critest")?;
        return save(&containerd.instance().path("containerd.log"), &log);
    }
    let process = RuntimeProcess::start_in(instance).await?;
    critest.status().await.context("start critest")?;
    save(&process.log(), &log)?;
    process.finish().await
}

fn save(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).map(drop).with_context(|| format!("copy {}", from.display()))
}

/// Settings that take the images of the public registries from the local one.
fn write_mirrors(instance: &Instance, registry: &Registry) -> Result<()> {
    for name in REGISTRIES {
        let folder = instance.path("hosts").join(name);
        std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
        let text = format!("[host.\"http://{}\"]\ncapabilities = [\"pull\", \"resolve\"]\n", registry.host());
        std::fs::write(folder.join("hosts.toml"), text).context("write hosts.toml")?;
    }
    Ok(())
}

/// A copy of critest that pulls our image by its digest instead of the published one, whose content is not ours to make.
fn critest_for(instance: &Instance, registry: &Registry) -> Result<PathBuf> {
    let program = built("critest");
    let mut content = std::fs::read(&program).with_context(|| {
        format!("{} is missing: run tools/build.sh critest, or make critest", program.display())
    })?;
    let digest = registry.digest(images::DIGEST_IMAGE).context("the image that is pulled by its digest")?;
    ensure!(digest.len() == PUBLIC_DIGEST.len(), "{digest} is not a SHA-256 digest");
    let found = content
        .windows(PUBLIC_DIGEST.len())
        .position(|window| window == PUBLIC_DIGEST.as_bytes())
        .with_context(|| format!("{} does not contain {PUBLIC_DIGEST}", program.display()))?;
    content
        .get_mut(found..found + PUBLIC_DIGEST.len())
        .context("the digest in critest")?
        .copy_from_slice(digest.as_bytes());
    let copy = instance.path("critest");
    std::fs::write(&copy, content).with_context(|| format!("write {}", copy.display()))?;
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755))
        .context("make critest executable")?;
    Ok(copy)
}
