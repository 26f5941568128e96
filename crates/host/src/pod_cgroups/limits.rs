//! Limits as the files of a cgroup.

#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use model::{CgroupLimits, HugepageLimits};
use ports::pod_folders::FileError;
use rustix::io::Errno;

use crate::failure::OnPath;

/// The kernel's period where none is asked for, in microseconds.
const DEFAULT_PERIOD: u64 = 100_000;
/// More pages than any machine has.
const NO_LIMIT: u64 = 1 << 62;
/// From here on a v1 memory limit is none.
const V1_NO_MEMORY_LIMIT: u64 = 0x7fff_ffff_0000_0000;

/// Sets what the controllers of a v1 hierarchy limit.
pub(super) fn set_v1(cgroup: &Path, controllers: &[String], limits: &CgroupLimits) -> Result<(), FileError> {
    for controller in controllers {
        match controller.as_str() {
            "cpu" => {
                set(cgroup, "cpu.shares", limits.cpu_shares)?;
                set_v1_bandwidth(cgroup, limits)?;
            }
            "memory" => set_bytes(&cgroup.join("memory.limit_in_bytes"), limits.memory)?,
            "pids" => set(cgroup, "pids.max", limits.pids)?,
            "hugetlb" => set_hugepages(cgroup, ".limit_in_bytes", &limits.hugepages)?,
            _ => {}
        }
    }
    Ok(())
}

/// Sets what the controllers that reach a v2 cgroup limit.
pub(super) fn set_v2(cgroup: &Path, limits: &CgroupLimits) -> Result<(), FileError> {
    set(cgroup, "cpu.weight", limits.cpu_shares.map(cpu_weight))?;
    set(cgroup, "cpu.max", cpu_max(limits))?;
    set_bytes(&cgroup.join("memory.max"), limits.memory)?;
    set(cgroup, "pids.max", limits.pids)?;
    set_hugepages(cgroup, ".max", &limits.hugepages)
}

/// Reads CPU and memory limits from a v1 hierarchy.
pub(super) fn read_v1(cgroup: &Path, controllers: &[String]) -> Result<CgroupLimits, FileError> {
    let mut limits = CgroupLimits::default();
    for controller in controllers {
        match controller.as_str() {
            "cpu" => {
                limits.cpu_shares = read_number(&cgroup.join("cpu.shares"))?;
                limits.cpu_quota =
                    read_text(&cgroup.join("cpu.cfs_quota_us"))?.and_then(|text| text.parse().ok());
                limits.cpu_period = read_number(&cgroup.join("cpu.cfs_period_us"))?;
            }
            "memory" => {
                let bytes = read_number(&cgroup.join("memory.limit_in_bytes"))?;
                let bytes = bytes.filter(|bytes| *bytes < V1_NO_MEMORY_LIMIT);
                limits.memory = bytes.and_then(|bytes| i64::try_from(bytes).ok());
            }
            _ => {}
        }
    }
    Ok(limits)
}

/// Reads CPU and memory limits from a v2 cgroup.
pub(super) fn read_v2(cgroup: &Path) -> Result<CgroupLimits, FileError> {
    let bandwidth = read_text(&cgroup.join("cpu.max"))?.unwrap_or_default();
    let (quota, period) = bandwidth.split_once(' ').unwrap_or_default();
    let memory = read_number(&cgroup.join("memory.max"))?;
    Ok(CgroupLimits {
        cpu_shares: read_number(&cgroup.join("cpu.weight"))?.map(cpu_shares),
        cpu_quota: if quota == "max" { Some(-1) } else { quota.parse().ok() },
        cpu_period: period.parse().ok(),
        memory: memory.and_then(|bytes| i64::try_from(bytes).ok()),
        ..CgroupLimits::default()
    })
}

/// A number in a file; `None` without the file, and for a word such as `max`.
pub(super) fn read_number(file: &Path) -> Result<Option<u64>, FileError> {
    Ok(read_text(file)?.and_then(|text| text.parse().ok()))
}

fn read_text(file: &Path) -> Result<Option<String>, FileError> {
    match fs::read_to_string(file) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).on_path("read cgroup limit", file),
    }
}

/// The shares of v1 for a weight of v2, back in the kubelet's proportion.
pub(crate) fn cpu_shares(weight: u64) -> u64 {
    weight.clamp(1, 10_000).saturating_sub(1) * 262_142 / 9_999 + 2
}

/// The weight of v2 (1 to 10000) for the shares of v1 (2 to 262144), in the kubelet's proportion.
pub(crate) fn cpu_weight(shares: u64) -> u64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9_999 / 262_142
}

fn cpu_max(limits: &CgroupLimits) -> Option<String> {
    let quota = limits.cpu_quota?;
    let period = limits.cpu_period.unwrap_or(DEFAULT_PERIOD);
    Some(if quota < 0 { format!("max {period}") } else { format!("{quota} {period}") })
}

/// The period comes first, unless the kernel refuses it because the old quota would not fit into it.
fn set_v1_bandwidth(cgroup: &Path, limits: &CgroupLimits) -> Result<(), FileError> {
    let set_period = || set(cgroup, "cpu.cfs_period_us", limits.cpu_period);
    let period = set_period();
    if let Err(error) = &period
        && error.source.raw_os_error() != Some(Errno::INVAL.raw_os_error())
    {
        return period;
    }
    set(cgroup, "cpu.cfs_quota_us", limits.cpu_quota)?;
    period.or_else(|_| set_period())
}

/// Every page size that the kernel has gets its limit, those not asked for none at all; likewise for
/// reservations (`hugetlb.2MB.rsvd.max`).
fn set_hugepages(cgroup: &Path, suffix: &str, limits: &HugepageLimits) -> Result<(), FileError> {
    if *limits == HugepageLimits::Unchanged {
        return Ok(());
    }
    for entry in fs::read_dir(cgroup).on_path("list cgroup", cgroup)? {
        let entry = entry.on_path("list cgroup", cgroup)?;
        let name = entry.file_name();
        let size = name.to_str().and_then(|name| name.strip_prefix("hugetlb.")?.strip_suffix(suffix));
        let Some(size) = size.map(|size| size.strip_suffix(".rsvd").unwrap_or(size)) else { continue };
        match limits {
            HugepageLimits::Unchanged => {}
            HugepageLimits::Unlimited => {
                let is_set =
                    |text: &str| text == "max" || text.parse().is_ok_and(|found: u64| found >= NO_LIMIT);
                bring_to(entry.path(), &NO_LIMIT.to_string(), is_set)?;
            }
            HugepageLimits::Sizes(sizes) => {
                let limit = sizes.iter().find(|limit| limit.page_size == size).map_or(0, |limit| limit.limit);
                set_rounded(&entry.path(), limit, page_bytes(size).unwrap_or(1))?;
            }
        }
    }
    Ok(())
}

/// Bytes of a page size such as `2MB`.
fn page_bytes(size: &str) -> Option<u64> {
    let number = size.trim_end_matches(|letter: char| letter.is_ascii_uppercase());
    let shift = match size.strip_prefix(number)? {
        "KB" => 10,
        "MB" => 20,
        "GB" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn set_bytes(file: &Path, bytes: Option<i64>) -> Result<(), FileError> {
    let page = u64::try_from(rustix::param::page_size()).unwrap_or(1);
    match bytes.map(u64::try_from) {
        Some(Ok(bytes)) => set_rounded(file, bytes, page),
        Some(Err(_)) | None => Ok(()),
    }
}

/// Sets a number that the kernel rounds down to whole pages.
fn set_rounded(file: &Path, wanted: u64, page: u64) -> Result<(), FileError> {
    let is_set = |text: &str| text.parse().is_ok_and(|found: u64| found == wanted - wanted % page);
    bring_to(file.to_path_buf(), &wanted.to_string(), is_set)
}

fn set<T: ToString>(cgroup: &Path, file: &str, wanted: Option<T>) -> Result<(), FileError> {
    let Some(wanted) = wanted.map(|wanted| wanted.to_string()) else { return Ok(()) };
    bring_to(cgroup.join(file), &wanted, |text| text == wanted)
}

/// Writes unless the file says so already, or does not exist.
fn bring_to(file: PathBuf, wanted: &str, is_set: impl FnOnce(&str) -> bool) -> Result<(), FileError> {
    match fs::read_to_string(&file) {
        Ok(text) if is_set(text.trim()) => Ok(()),
        Ok(_) => fs::write(&file, wanted).on_path("set cgroup limit", file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).on_path("read cgroup limit", file),
    }
}
