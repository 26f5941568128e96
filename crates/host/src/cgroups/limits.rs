//! Reads and writes the limit files of a cgroup.

#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};

use model::{CgroupLimits, HugepageLimits};
use ports::host::pod_folders::FileError;
use rustix::io::Errno;

use crate::errors::{IfExists, OnPath};

/// The kernel's default period in microseconds.
const DEFAULT_PERIOD: u64 = 100_000;
/// Larger than any real limit.
const NO_LIMIT: u64 = 1 << 62;
/// v1 memory limits from here on mean no limit.
const V1_NO_MEMORY_LIMIT: u64 = 0x7fff_ffff_0000_0000;

/// Sets the limits of the controllers of a v1 hierarchy.
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

/// Sets the limits of the controllers that are delegated to a v2 cgroup.
pub(super) fn set_v2(cgroup: &Path, limits: &CgroupLimits) -> Result<(), FileError> {
    set(cgroup, "cpu.weight", limits.cpu_shares.map(cpu_weight))?;
    set(cgroup, "cpu.max", cpu_max(limits))?;
    set(cgroup, "cpuset.cpus", limits.cpus.as_ref())?;
    set_bytes(&cgroup.join("memory.max"), limits.memory)?;
    set_bytes(&cgroup.join("memory.min"), limits.memory_min)?;
    set_bytes(&cgroup.join("memory.low"), limits.memory_low)?;
    set(cgroup, "pids.max", limits.pids)?;
    set_hugepages(cgroup, ".max", &limits.hugepages)
}

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

/// A number in a file; `None` if the file is missing or contains text such as `max`.
pub(super) fn read_number(file: &Path) -> Result<Option<u64>, FileError> {
    Ok(read_text(file)?.and_then(|text| text.parse().ok()))
}

fn read_text(file: &Path) -> Result<Option<String>, FileError> {
    let text = fs::read_to_string(file).if_exists().on_path("read cgroup limit", file)?;
    Ok(text.map(|text| text.trim().to_owned()))
}

/// Converts a v2 weight to v1 shares, with the kubelet's formula.
pub(crate) fn cpu_shares(weight: u64) -> u64 {
    weight.clamp(1, 10_000).saturating_sub(1) * 262_142 / 9_999 + 2
}

/// Converts v1 shares (2 to 262144) to a v2 weight (1 to 10000), with the kubelet's formula.
pub(crate) fn cpu_weight(shares: u64) -> u64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9_999 / 262_142
}

fn cpu_max(limits: &CgroupLimits) -> Option<String> {
    let quota = limits.cpu_quota?;
    let period = limits.cpu_period.unwrap_or(DEFAULT_PERIOD);
    Some(if quota < 0 { format!("max {period}") } else { format!("{quota} {period}") })
}

/// Sets the period first, unless the kernel rejects it because the old quota does not fit into it.
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

/// Sets the limit of every page size of the kernel, to 0 for sizes that `limits` does not list; likewise for
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
                let is_set = |text: &str| text.parse().is_ok_and(|found: u64| found >= NO_LIMIT);
                write_if_changed(entry.path(), &NO_LIMIT.to_string(), is_set)?;
            }
            HugepageLimits::Sizes(sizes) => {
                let limit = sizes.iter().find(|limit| limit.page_size == size).map_or(0, |limit| limit.limit);
                set_rounded(&entry.path(), limit, page_bytes(size).unwrap_or(1))?;
            }
        }
    }
    Ok(())
}

/// Parses a page size such as `2MB`.
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

/// Sets a value that the kernel rounds down to whole pages.
fn set_rounded(file: &Path, desired: u64, page: u64) -> Result<(), FileError> {
    let is_set = |text: &str| text.parse().is_ok_and(|found: u64| found == desired - desired % page);
    write_if_changed(file.to_path_buf(), &desired.to_string(), is_set)
}

fn set<T: ToString>(cgroup: &Path, file: &str, desired: Option<T>) -> Result<(), FileError> {
    let Some(desired) = desired.map(|desired| desired.to_string()) else { return Ok(()) };
    write_if_changed(cgroup.join(file), &desired, |text| text == desired)
}

/// Writes the value unless the file is missing or `is_set` accepts its content.
fn write_if_changed(
    file: PathBuf,
    desired: &str,
    is_set: impl FnOnce(&str) -> bool,
) -> Result<(), FileError> {
    match read_text(&file)? {
        Some(text) if !is_set(&text) => fs::write(&file, desired).on_path("set cgroup limit", file),
        Some(_) | None => Ok(()),
    }
}
