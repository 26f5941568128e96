//! A test machine in namespaces: mounts, network, host name and processes are private; the kernel and the
//! cgroup hierarchies are the host's.
//!
//! It has a containerd at its usual place and an agent under the name `kubelet`, which kubeadm starts and stops through
//! a `systemctl` of the machine. Every folder of the system is an overlay, so nothing that runs inside changes the
//! host. Dropping it kills its first process, and the kernel ends all others with it; the mounts and network devices
//! vanish with their namespaces.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::agent_process::{Agent, make_cgroup_root};
use crate::containerd::{Running, tail};
use crate::control_plane::program;
use crate::instance::Instance;
use crate::poll::{block, eventually};
use crate::process;

mod commands;
mod containerd;
mod images;

pub use images::{CONTROL_PLANE_COMPONENTS, IMAGE_REPOSITORY, control_plane_image};

const BOOT: &str = include_str!("machine/boot.sh");
const SYSTEMCTL: &str = include_str!("machine/systemctl.sh");
const BOOT_TIMEOUT: Duration = Duration::from_secs(60);
/// Programs from the cache of built tools that a machine needs.
const PROGRAMS: [&str; 5] = ["containerd", "ctr", "etcd", "kubeadm", "kubectl"];

#[derive(Debug)]
pub struct Machine {
    // Before `instance`: the processes end before their folder and cgroups are removed.
    namespaces: Namespaces,
    name: String,
    address: String,
    instance: Instance,
}

impl Machine {
    /// Boots a machine with the given host name and address and waits for its containerd with
    /// the test images. The agent does not run yet.
    pub async fn boot(name: &str, address: &str, agent: Agent) -> Result<Self> {
        for program in PROGRAMS {
            ensure!(program::built(program).exists(), "{program} is not built: run make kubeadm");
        }
        let instance = Instance::create()?;
        make_cgroup_root(&instance)?;
        install_programs(&instance, agent)?;
        containerd::write_configuration(&instance.path("containerd.toml"))?;
        fs::write(instance.path("boot.sh"), BOOT).context("write boot.sh")?;
        let namespaces = Namespaces::enter(&instance, name)?;
        let machine = Self { namespaces, name: name.to_owned(), address: address.to_owned(), instance };
        eventually("machine booted", BOOT_TIMEOUT, async || {
            ensure!(machine.instance.path("booted").exists(), "boot.log: {}", machine.log("boot", 5));
            machine.run("ctr", &["version"]).await.map(drop)
        })
        .await?;
        machine.import_test_images().await?;
        Ok(machine)
    }

    /// Connects two machines with a cable, and gives each its address and the names of both.
    pub async fn connect(&self, other: &Self) -> Result<()> {
        let (here, there) = (self.namespaces.init.to_string(), other.namespaces.init.to_string());
        let cable =
            ["link", "add", "eth0", "netns", &here, "type", "veth", "peer", "name", "eth0", "netns", &there];
        let output = Command::new("ip").args(cable).output().context("start ip")?;
        ensure!(output.status.success(), "connect machines: {}", String::from_utf8_lossy(&output.stderr));
        for (machine, peer) in [(self, other), (other, self)] {
            let hosts = format!(
                "127.0.0.1 localhost\n{} {}\n{} {}\n",
                machine.address, machine.name, peer.address, peer.name
            );
            machine.write_file("/etc/hosts", &hosts)?;
            let address = format!("{}/24", machine.address);
            machine.run("ip", &["address", "add", &address, "dev", "eth0"]).await?;
            machine.run("ip", &["link", "set", "eth0", "up"]).await?;
            // Programs look for the default route to find the machine's own address.
            machine.run("ip", &["route", "add", "default", "dev", "eth0"]).await?;
        }
        Ok(())
    }

    /// Replaces the agent's program while its service is stopped.
    pub async fn switch_agent(&self, agent: Agent) -> Result<()> {
        self.run("systemctl", &["stop", "kubelet"]).await?;
        install_agent(&self.instance, agent)?;
        self.run("systemctl", &["start", "kubelet"]).await.map(drop)
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Cgroup below which the machine's agent places pods.
    pub fn cgroup_root(&self) -> String {
        self.instance.cgroup_root()
    }

    pub fn id(&self) -> &str {
        self.instance.id()
    }

    /// Writes a file of the machine, and the folders above it.
    pub fn write_file(&self, path: &str, text: &str) -> Result<()> {
        let path = self.host_path(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        }
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    pub fn read_file(&self, path: &str) -> Result<String> {
        let path = self.host_path(path);
        fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    }

    /// End of a log of the machine: `kubelet`, `containerd` or `boot`.
    pub fn log(&self, name: &str, lines: usize) -> String {
        tail(&self.instance.path(&format!("{name}.log")), lines)
    }

    /// A path of the machine as the host sees it.
    fn host_path(&self, path: &str) -> PathBuf {
        Path::new(&format!("/proc/{}/root", self.namespaces.init)).join(path.trim_start_matches('/'))
    }
}

/// The namespaces of a machine, which exist as long as its first process.
#[derive(Debug)]
struct Namespaces {
    launcher: Option<Running>,
    /// Process ID of the first process, as the host sees it.
    init: u32,
}

impl Namespaces {
    fn enter(instance: &Instance, name: &str) -> Result<Self> {
        let log = fs::File::create(instance.path("boot.log")).context("create boot.log")?;
        let launcher = Command::new("unshare")
            .args(["--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child"])
            .args(["--propagation", "private", "/bin/sh"])
            .arg(instance.path("boot.sh"))
            .arg(instance.folder())
            .arg(name)
            .env("PATH", commands::search_path(instance))
            .stdin(Stdio::null())
            .stdout(log.try_clone().context("share boot.log")?)
            .stderr(log)
            .spawn()
            .context("start unshare")?;
        let launcher = Running(launcher);
        let init = only_child(launcher.0.id())?;
        Ok(Self { launcher: Some(launcher), init })
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        drop(self.launcher.take());
        // The first process has ended when the kernel has ended all others of the namespace.
        for _ in 0..600 {
            if process::is_zombie(self.init) {
                break;
            }
            block(Duration::from_millis(50));
        }
    }
}

/// The process that a just started launcher forks.
fn only_child(launcher: u32) -> Result<u32> {
    let file = format!("/proc/{launcher}/task/{launcher}/children");
    for _ in 0..200 {
        let children = fs::read_to_string(&file).with_context(|| format!("read {file}"))?;
        if let Some(child) = children.split_whitespace().next() {
            return child.parse().context("read the first process's ID");
        }
        block(Duration::from_millis(25));
    }
    bail!("unshare started no process")
}

/// Puts the agent and `systemctl` into the machine's first folder of programs.
fn install_programs(instance: &Instance, agent: Agent) -> Result<()> {
    fs::create_dir_all(instance.path("bin")).context("create the folder of programs")?;
    install_agent(instance, agent)?;
    let systemctl = instance.path("bin/systemctl");
    fs::write(&systemctl, SYSTEMCTL).context("write systemctl")?;
    fs::set_permissions(&systemctl, fs::Permissions::from_mode(0o755)).context("make systemctl executable")
}

fn install_agent(instance: &Instance, agent: Agent) -> Result<()> {
    let kubelet = instance.path("bin/kubelet");
    if kubelet.is_symlink() {
        fs::remove_file(&kubelet).context("remove the agent")?;
    }
    symlink(agent.program()?, kubelet).context("install the agent")
}
