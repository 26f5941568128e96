//! Limits in the files of cgroup v2.

use super::resources::{FileWrite, Resources, ResourcesError, check_page_size};

const DEFAULT_PERIOD: u64 = 100_000;

/// Writes in their order; the files that a request names itself come last, so that they win.
pub(super) fn writes(resources: &Resources) -> Result<Vec<FileWrite>, ResourcesError> {
    let mut writes = memory(resources)?;
    if let Some(shares) = resources.cpu_shares.filter(|shares| *shares != 0) {
        writes.push(FileWrite::new("cpu", "cpu.weight", &weight(shares).to_string()));
    }
    let quota = resources.cpu_quota.filter(|quota| *quota != 0);
    let period = resources.cpu_period.filter(|period| *period != 0);
    if quota.is_some() || period.is_some() {
        let quota =
            quota.filter(|quota| *quota > 0).map_or_else(|| "max".to_owned(), |quota| quota.to_string());
        let value = format!("{quota} {}", period.unwrap_or(DEFAULT_PERIOD));
        writes.push(FileWrite::new("cpu", "cpu.max", &value));
    }
    for (file, value) in [("cpuset.cpus", &resources.cpuset_cpus), ("cpuset.mems", &resources.cpuset_mems)] {
        if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
            writes.push(FileWrite::new("cpuset", file, value));
        }
    }
    for (size, limit) in &resources.hugepage_limits {
        check_page_size(size)?;
        let write = |file: String| FileWrite::new("hugetlb", &file, &limit.to_string()).if_present();
        writes.push(write(format!("hugetlb.{size}.max")));
        writes.push(write(format!("hugetlb.{size}.rsvd.max")));
    }
    for (file, value) in &resources.unified {
        let valid = file.contains('.') && !file.starts_with('.') && !file.contains(['/', '\0']);
        // Processes are put into cgroups by the launcher alone.
        if !valid || file.starts_with("cgroup.") {
            return Err(ResourcesError::FileName(file.clone()));
        }
        let controller = file.split('.').next().unwrap_or_default();
        writes.push(FileWrite::new(controller, file, value));
    }
    Ok(writes)
}

fn memory(resources: &Resources) -> Result<Vec<FileWrite>, ResourcesError> {
    let text = |limit: i64| if limit < 0 { "max".to_owned() } else { limit.to_string() };
    let mut writes = Vec::new();
    let memory = resources.memory_limit.filter(|limit| *limit != 0);
    if let Some(limit) = memory {
        writes.push(FileWrite::new("memory", "memory.max", &text(limit)));
    }
    if let Some(both) = resources.effective_swap_limit()? {
        // Here swap is counted alone.
        let swap = match memory {
            Some(memory) if memory >= 0 && both >= 0 => both - memory,
            Some(_) | None => both,
        };
        let write = FileWrite::new("memory", "memory.swap.max", &text(swap));
        // Without the file there is no swap to limit.
        writes.push(if swap <= 0 { write.if_present() } else { write });
    }
    Ok(writes)
}

/// The weight for shares of cgroup v1: 2 becomes 1, 1024 becomes 100, 262144 becomes 10000.
fn weight(shares: u64) -> u64 {
    const MOST_SHARES: u64 = 262_144;
    if shares <= 2 {
        return 1;
    }
    if shares >= MOST_SHARES {
        return 10_000;
    }
    #[expect(clippy::cast_precision_loss, reason = "shares are below 2^18")]
    let power = (shares as f64).log2();
    let exponent = (power * power + 125.0 * power) / 612.0 - 7.0 / 34.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 10000")]
    let weight = 10_f64.powf(exponent).ceil() as u64;
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(resources: &Resources, expected: &[&str]) {
        let shown: Vec<String> = writes(resources)
            .unwrap()
            .iter()
            .map(|write| format!("{}={}", write.file, write.value))
            .collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn shares_become_weights_like_those_of_other_runtimes() {
        for (shares, expected) in
            [(1, 1), (2, 1), (512, 59), (1024, 100), (262_144, 10_000), (u64::MAX, 10_000)]
        {
            assert_eq!(weight(shares), expected, "{shares}");
        }
    }

    #[test]
    fn swap_is_limited_without_memory() {
        let resources =
            Resources { memory_limit: Some(100), memory_swap_limit: Some(150), ..Resources::default() };
        check(&resources, &["memory.max=100", "memory.swap.max=50"]);
        let resources = Resources { memory_limit: Some(100), ..Resources::default() };
        check(&resources, &["memory.max=100", "memory.swap.max=0"]);
        let resources =
            Resources { memory_limit: Some(-1), memory_swap_limit: Some(-1), ..Resources::default() };
        check(&resources, &["memory.max=max", "memory.swap.max=max"]);
    }

    #[test]
    fn quota_and_period_share_a_file() {
        let resources = Resources { cpu_quota: Some(50_000), ..Resources::default() };
        check(&resources, &["cpu.max=50000 100000"]);
        let resources = Resources { cpu_quota: Some(-1), cpu_period: Some(20_000), ..Resources::default() };
        check(&resources, &["cpu.max=max 20000"]);
    }

    #[test]
    fn named_files_are_written_last() {
        let resources = Resources {
            memory_limit: Some(-1),
            unified: [("memory.oom.group".to_owned(), "1".to_owned())].into(),
            ..Resources::default()
        };
        check(&resources, &["memory.max=max", "memory.swap.max=max", "memory.oom.group=1"]);
    }

    #[test]
    fn named_file_must_be_a_limit_in_this_cgroup() {
        for file in ["../memory.max", "memory/x.y", "cgroup.procs", "memory", ""] {
            let resources =
                Resources { unified: [(file.to_owned(), "1".to_owned())].into(), ..Resources::default() };
            assert!(writes(&resources).is_err(), "{file}");
        }
    }
}
