//! Kernel features that matter for containers.

use std::path::Path;

use model::{CgroupVersion, HostCapabilities};
use rustix::fs::StatVfsMountFlags;

use crate::machine::selinux_policy::container_labels;
use crate::mount_table;

/// `sys` is usually `/sys`, `proc` `/proc` and `root` `/`. A feature that cannot be read counts as absent, because
/// kernels may be built without it.
#[must_use]
pub fn host_capabilities(
    sys: &Path,
    proc: &Path,
    root: &Path,
    cgroup_version: CgroupVersion,
) -> HostCapabilities {
    HostCapabilities {
        cgroup_version,
        swap_controller: swap_controller(&sys.join("fs/cgroup"), proc, cgroup_version),
        hugepage_sizes: names_in(&sys.join("kernel/mm/hugepages"))
            .iter()
            .filter_map(|name| hugepage_size(name))
            .collect(),
        masked_cpu_paths: thermal_paths(&sys.join("devices/system/cpu")),
        selinux: selinux_enabled(proc).then(|| container_labels(root)),
    }
}

/// On v2 the root cgroup has no limits, so the agent's own cgroup is checked.
fn swap_controller(root: &Path, proc: &Path, version: CgroupVersion) -> bool {
    match version {
        CgroupVersion::V1 => root.join("memory/memory.memsw.limit_in_bytes").exists(),
        CgroupVersion::V2 => {
            let text = std::fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
            let own = text.lines().find_map(|line| line.strip_prefix("0::/"));
            own.is_some_and(|own| root.join(own).join("memory.swap.max").exists())
        }
    }
}

/// Converts `hugepages-2048kB` to `2MB`.
fn hugepage_size(folder: &str) -> Option<String> {
    let kilobytes: u64 = folder.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    Some(match kilobytes {
        0..1024 => format!("{kilobytes}KB"),
        1024..0x10_0000 => format!("{}MB", kilobytes >> 10),
        _ => format!("{}GB", kilobytes >> 20),
    })
}

/// Returns the paths as containers see them, independent of `cpus`.
fn thermal_paths(cpus: &Path) -> Vec<String> {
    let mut numbers: Vec<u32> = names_in(cpus)
        .iter()
        .filter(|name| cpus.join(name).join("thermal_throttle").exists())
        .filter_map(|name| name.strip_prefix("cpu")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers.iter().map(|cpu| format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle")).collect()
}

/// A read-only selinuxfs means that this is a container that must not use labels. Without a policy every process has
/// the label `kernel`.
pub(crate) fn selinux_enabled(proc: &Path) -> bool {
    let mounts = mount_table::read(&proc.join("self/mountinfo")).unwrap_or_default();
    let writable = mounts.iter().filter(|mount| mount.fs_type == "selinuxfs").any(|mount| {
        rustix::fs::statvfs(&mount.mount_point)
            .is_ok_and(|found| !found.f_flag.contains(StatVfsMountFlags::RDONLY))
    });
    let label = std::fs::read_to_string(proc.join("self/attr/current")).unwrap_or_default();
    writable && label.trim_end_matches(['\0', '\n']) != "kernel"
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::Scratch;

    fn write(scratch: &Scratch, path: &str, text: &str) {
        let path = scratch.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn found(scratch: &Scratch, version: CgroupVersion) -> HostCapabilities {
        host_capabilities(&scratch.path().join("sys"), &scratch.path().join("proc"), scratch.path(), version)
    }

    #[test]
    fn minimal_kernel_has_no_features() {
        let scratch = Scratch::new();
        for cgroup_version in [CgroupVersion::V1, CgroupVersion::V2] {
            let nothing = HostCapabilities {
                cgroup_version,
                swap_controller: false,
                hugepage_sizes: Vec::new(),
                masked_cpu_paths: Vec::new(),
                selinux: None,
            };
            assert_eq!(found(&scratch, cgroup_version), nothing);
        }
    }

    #[test]
    fn page_sizes_have_the_names_of_the_runtime() {
        for (folder, name) in [
            ("hugepages-64kB", Some("64KB")),
            ("hugepages-2048kB", Some("2MB")),
            ("hugepages-524288kB", Some("512MB")),
            ("hugepages-1048576kB", Some("1GB")),
            ("hugepages-2048", None),
            ("other", None),
        ] {
            assert_eq!(hugepage_size(folder).as_deref(), name, "{folder}");
        }
        let scratch = Scratch::new();
        write(&scratch, "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0");
        assert_eq!(found(&scratch, CgroupVersion::V2).hugepage_sizes, ["2MB"]);
    }

    #[test]
    fn detects_swap_controller_of_each_version() {
        let scratch = Scratch::new();
        write(&scratch, "sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "0");
        assert!(found(&scratch, CgroupVersion::V1).swap_controller);
        assert!(!found(&scratch, CgroupVersion::V2).swap_controller);
        write(&scratch, "proc/self/cgroup", "0::/system.slice/agent.service\n");
        assert!(!found(&scratch, CgroupVersion::V2).swap_controller);
        write(&scratch, "sys/fs/cgroup/system.slice/agent.service/memory.swap.max", "max");
        assert!(found(&scratch, CgroupVersion::V2).swap_controller);
    }

    #[test]
    fn masks_cpus_with_thermal_counters_in_numeric_order() {
        let scratch = Scratch::new();
        for cpu in ["cpu10", "cpu2", "cpufreq"] {
            write(&scratch, &format!("sys/devices/system/cpu/{cpu}/thermal_throttle/count"), "0");
        }
        write(&scratch, "sys/devices/system/cpu/cpu3/online", "1");
        assert_eq!(
            found(&scratch, CgroupVersion::V2).masked_cpu_paths,
            [2, 10].map(|cpu| format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle"))
        );
    }

    #[test]
    fn selinux_needs_selinuxfs_and_a_policy() {
        let scratch = Scratch::new();
        let line = |kind| format!("30 20 0:22 / {} rw - {kind} none rw\n", scratch.path().display());
        let enabled = || found(&scratch, CgroupVersion::V2).selinux.is_some();
        write(&scratch, "proc/self/mountinfo", &line("tmpfs"));
        assert!(!enabled());
        write(&scratch, "proc/self/mountinfo", &line("selinuxfs"));
        assert!(enabled());
        write(&scratch, "proc/self/attr/current", "kernel\0");
        assert!(!enabled());
        write(&scratch, "proc/self/attr/current", "system_u:system_r:kubelet_t:s0\0");
        assert!(enabled());
    }
}
