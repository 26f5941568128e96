//! The part of the host that a machine in namespaces must not change: mounts, network, packet filter, cgroups, folders and kernel
//! settings of the host.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// Settings that an agent changes at its start, and that no namespace separates.
const KERNEL_SETTINGS: [&str; 6] = [
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
];
/// Folders that a cluster's programs create and fill.
const FOLDERS: [&str; 16] = [
    "/etc/cni",
    "/etc/kubernetes",
    "/opt",
    "/opt/cni",
    "/run",
    "/run/containerd",
    "/run/netns",
    "/usr/libexec",
    "/usr/libexec/kubernetes",
    "/var/lib",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/etcd",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
];

/// One line per fact.
#[derive(Clone, Debug)]
pub struct HostState(BTreeSet<String>);

impl HostState {
    pub fn read() -> Result<Self> {
        let mut facts = BTreeSet::new();
        facts.extend(process::mount_points().into_iter().map(|point| format!("mount {point}")));
        for mount in process::cgroup_mounts() {
            facts.extend(entries(mount).into_iter().map(|path| format!("cgroup {}", path.display())));
        }
        for folder in FOLDERS {
            facts.extend(entries(folder.into()).into_iter().map(|path| format!("file {}", path.display())));
        }
        for setting in KERNEL_SETTINGS {
            facts.insert(format!("setting {setting} = {}", read_setting(setting)?));
        }
        for (kind, command) in [
            ("device", ["ip", "-oneline", "link"].as_slice()),
            ("address", ["ip", "-oneline", "address"].as_slice()),
            ("route", ["ip", "route"].as_slice()),
            ("rule", ["iptables-save"].as_slice()),
        ] {
            facts.extend(lines_of(command)?.into_iter().map(|line| format!("{kind} {line}")));
        }
        Ok(Self(facts))
    }

    /// Facts that are new or gone since `earlier`, without those of other tests that run at the same time. `own` are
    /// the instances of the test that asks.
    pub fn changes_since(&self, earlier: &Self, own: &[String]) -> Vec<String> {
        let added = self.0.difference(&earlier.0).map(|fact| format!("added {fact}"));
        let removed = earlier.0.difference(&self.0).map(|fact| format!("removed {fact}"));
        let is_own = |change: &str| own.iter().any(|id| change.contains(id.as_str()));
        added.chain(removed).filter(|change| is_own(change) || !is_of_other_test(change)).collect()
    }
}

/// Restores the kernel's settings on drop.
#[derive(Debug)]
pub struct KernelSettings(Vec<(&'static str, String)>);

impl KernelSettings {
    pub fn save() -> Result<Self> {
        let values = KERNEL_SETTINGS.into_iter().map(|setting| Ok((setting, read_setting(setting)?)));
        Ok(Self(values.collect::<Result<_>>()?))
    }
}

impl Drop for KernelSettings {
    fn drop(&mut self) {
        for (setting, value) in &self.0 {
            if let Err(error) = fs::write(format!("/proc/sys/{setting}"), value) {
                println!("restore {setting}: {error}");
            }
        }
    }
}

fn read_setting(setting: &str) -> Result<String> {
    let text = fs::read_to_string(format!("/proc/sys/{setting}"));
    Ok(text.with_context(|| format!("read the kernel's setting {setting}"))?.trim().to_owned())
}

fn entries(folder: PathBuf) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Lines of a command's output without counters, times and comments.
fn lines_of(command: &[&str]) -> Result<Vec<String>> {
    let (program, arguments) = command.split_first().context("an empty command")?;
    let output =
        Command::new(program).args(arguments).output().with_context(|| format!("start {program}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    Ok(lines.map(|line| line.split(" [").next().unwrap_or(line).to_owned()).collect())
}

/// Whether a change is about another test's node: its folder, cgroups and bridge are named after its instance, and the
/// ports that containerd publishes for it have rules of the CNI plugins.
fn is_of_other_test(change: &str) -> bool {
    let named = ["/tmp/pw-", "/pw-", ": pw", " dev pw", " master pw", ": veth", "CNI-"];
    named.iter().any(|mark| change.contains(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(facts: &[&str]) -> HostState {
        HostState(facts.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn reports_leftovers_of_own_instances_only() {
        let before = state(&["mount /", "mount /tmp/pw-other1/x"]);
        let after = state(&["mount /", "mount /tmp/pw-mine11/x", "mount /tmp/pw-other2/x"]);
        assert_eq!(after.changes_since(&before, &["mine11".to_owned()]), ["added mount /tmp/pw-mine11/x"]);
    }

    #[test]
    fn reports_changes_of_the_host() {
        let before = state(&["file /etc/cni/net.d", "setting kernel/panic = 1"]);
        let after = state(&["file /etc/cni/net.d", "file /etc/kubernetes/pki", "setting kernel/panic = 10"]);
        assert_eq!(
            after.changes_since(&before, &[]),
            [
                "added file /etc/kubernetes/pki",
                "added setting kernel/panic = 10",
                "removed setting kernel/panic = 1"
            ]
        );
    }
}
