//! Capacity of the node.

use std::io;
use std::path::Path;

use model::{AppArmor, KernelVersion, ResourceAmounts};
use values::quantity::binary_si;

/// `ephemeral-storage` of the file system of `root`, `pid` and `hugepages-<size>`. `sys` is usually `/sys` and `proc`
/// `/proc`. Omits values that cannot be read.
#[must_use]
pub fn node_capacity(sys: &Path, proc: &Path, root: &Path) -> ResourceAmounts {
    let storage = rustix::fs::statvfs(root).ok().map(|found| found.f_blocks.saturating_mul(found.f_frsize));
    let storage = storage.and_then(|bytes| i64::try_from(bytes).ok());
    let processes = max_processes(proc);
    let mut amounts = huge_pages(&sys.join("kernel/mm/hugepages"));
    amounts.extend(storage.map(|bytes| ("ephemeral-storage".to_owned(), bytes)));
    amounts.extend(processes.map(|count| ("pid".to_owned(), count)));
    amounts
}

/// The online CPUs as a list such as `0-3,8`; empty if it cannot be read. `sys` is usually `/sys`.
#[must_use]
pub fn online_cpus(sys: &Path) -> String {
    let text = std::fs::read_to_string(sys.join("devices/system/cpu/online"));
    text.unwrap_or_default().trim().to_owned()
}

#[must_use]
pub fn kernel_version() -> KernelVersion {
    parse_version(&rustix::system::uname().release().to_string_lossy()).unwrap_or_default()
}

/// Whether the kernel enforces AppArmor profiles. `sys` is usually `/sys`.
#[must_use]
pub fn apparmor(sys: &Path) -> AppArmor {
    let enabled = std::fs::read_to_string(sys.join("module/apparmor/parameters/enabled"));
    if sys.join("kernel/security/apparmor").exists() && enabled.is_ok_and(|text| text.starts_with('Y')) {
        AppArmor::Enabled
    } else {
        AppArmor::Disabled
    }
}

/// Parses `6.1.0-13-amd64` as 6.1.
fn parse_version(release: &str) -> Option<KernelVersion> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some(KernelVersion { major: numbers.next()?.parse().ok()?, minor: numbers.next()?.parse().ok()? })
}

/// The kernel counts threads as processes, so both limits apply.
fn max_processes(proc: &Path) -> Option<i64> {
    let limits = ["sys/kernel/pid_max", "sys/kernel/threads-max"].map(|name| number(&proc.join(name)).ok());
    limits.into_iter().flatten().min()
}

fn huge_pages(folder: &Path) -> ResourceAmounts {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let pages = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let kilobytes: i64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let count = number(&entry.path().join("nr_hugepages")).ok()?;
        let page_size = kilobytes.checked_mul(1024)?;
        Some((format!("hugepages-{}", binary_si(page_size)), page_size.checked_mul(count)?))
    });
    pages.collect()
}

fn number(path: &Path) -> io::Result<i64> {
    let text = std::fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Size of a memory page in bytes.
#[must_use]
pub fn page_size() -> i64 {
    i64::try_from(rustix::param::page_size()).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_folder::Scratch;

    #[test]
    fn reads_huge_pages_pid_limit_and_storage() {
        let scratch = Scratch::new();
        let root = scratch.path();
        scratch.write("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "3\n");
        scratch.write("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "0\n");
        scratch.write("proc/sys/kernel/pid_max", "4194304\n");
        scratch.write("proc/sys/kernel/threads-max", "100\n");
        let mut found = node_capacity(&root.join("sys"), &root.join("proc"), root);
        assert!(found.remove("ephemeral-storage").unwrap() > 0);
        let expected = [("hugepages-1Gi", 0), ("hugepages-2Mi", 6 << 20), ("pid", 100)];
        assert_eq!(found, expected.map(|(name, amount)| (name.to_owned(), amount)).into());
    }

    #[test]
    fn missing_files_are_omitted() {
        let scratch = Scratch::new();
        let missing = scratch.path().join("missing");
        assert_eq!(node_capacity(&missing, &missing, &missing), ResourceAmounts::new());
        assert_eq!(apparmor(&missing), AppArmor::Disabled);
    }

    #[test]
    fn apparmor_needs_securityfs_and_its_module_parameter() {
        let scratch = Scratch::new();
        scratch.write("module/apparmor/parameters/enabled", "Y\n");
        assert_eq!(apparmor(scratch.path()), AppArmor::Disabled);
        scratch.write("kernel/security/apparmor/profiles", "");
        assert_eq!(apparmor(scratch.path()), AppArmor::Enabled);
        scratch.write("module/apparmor/parameters/enabled", "N\n");
        assert_eq!(apparmor(scratch.path()), AppArmor::Disabled);
    }

    #[test]
    fn parses_kernel_releases() {
        for (release, version) in [("6.1.0-13-amd64", Some((6, 1))), ("5.10", Some((5, 10))), ("x", None)] {
            let found = parse_version(release).map(|version| (version.major, version.minor));
            assert_eq!(found, version, "{release}");
        }
        assert!(kernel_version() > KernelVersion::default());
    }
}
