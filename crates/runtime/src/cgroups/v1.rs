//! Limits in the files of cgroup v1.

use super::resources::{FileWrite, Resources, ResourcesError, check_page_size};

/// Writes in their order. `current_swap_limit` is what `memory.memsw.limit_in_bytes` has now: memory must never be above it.
pub(super) fn writes(
    resources: &Resources,
    current_swap_limit: Option<u64>,
) -> Result<Vec<FileWrite>, ResourcesError> {
    if let Some(name) = resources.unified.keys().next() {
        return Err(ResourcesError::NeedsV2(name.clone()));
    }
    let mut writes = memory(resources, current_swap_limit)?;
    let mut add = |controller, file, value: Option<String>| {
        writes.extend(value.map(|value| FileWrite::new(controller, file, &value)));
    };
    add(
        "cpu",
        "cpu.shares",
        resources.cpu_shares.filter(|shares| *shares != 0).map(|shares| shares.to_string()),
    );
    // The period first: a quota is checked against it.
    add(
        "cpu",
        "cpu.cfs_period_us",
        resources.cpu_period.filter(|period| *period != 0).map(|period| period.to_string()),
    );
    add(
        "cpu",
        "cpu.cfs_quota_us",
        resources.cpu_quota.filter(|quota| *quota != 0).map(|quota| quota.max(-1).to_string()),
    );
    add("cpuset", "cpuset.cpus", resources.cpuset_cpus.clone().filter(|cpus| !cpus.is_empty()));
    add("cpuset", "cpuset.mems", resources.cpuset_mems.clone().filter(|mems| !mems.is_empty()));
    for (size, limit) in &resources.hugepage_limits {
        check_page_size(size)?;
        let write = |file: String| FileWrite::new("hugetlb", &file, &limit.to_string()).if_present();
        writes.push(write(format!("hugetlb.{size}.limit_in_bytes")));
        writes.push(write(format!("hugetlb.{size}.rsvd.limit_in_bytes")));
    }
    Ok(writes)
}

fn memory(resources: &Resources, current: Option<u64>) -> Result<Vec<FileWrite>, ResourcesError> {
    let memory = resources.memory_limit.filter(|limit| *limit != 0);
    let memory =
        memory.map(|limit| FileWrite::new("memory", "memory.limit_in_bytes", &limit.max(-1).to_string()));
    let swap_limit = resources.effective_swap_limit()?;
    // The file is missing if the kernel does not count swap.
    let swap = swap_limit.map(|limit| {
        FileWrite::new("memory", "memory.memsw.limit_in_bytes", &limit.max(-1).to_string()).if_present()
    });
    let raised = swap_limit.is_some_and(|limit| match u64::try_from(limit) {
        Ok(limit) => current.is_none_or(|current| limit > current),
        Err(_) => true,
    });
    let writes = if raised { [swap, memory] } else { [memory, swap] };
    Ok(writes.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(resources: &Resources, current: Option<u64>, expected: &[&str]) {
        let writes = writes(resources, current).unwrap();
        let shown: Vec<String> =
            writes.iter().map(|write| format!("{}={}", write.file, write.value)).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn request_without_values_writes_nothing() {
        check(&Resources::default(), None, &[]);
        let zeros = Resources {
            cpu_shares: Some(0),
            cpu_quota: Some(0),
            cpu_period: Some(0),
            memory_limit: Some(0),
            memory_swap_limit: Some(0),
            cpuset_cpus: Some(String::new()),
            ..Resources::default()
        };
        check(&zeros, None, &[]);
    }

    #[test]
    fn memory_limit_without_swap_limit_forbids_swap() {
        let resources = Resources { memory_limit: Some(100), ..Resources::default() };
        check(&resources, Some(50), &["memory.memsw.limit_in_bytes=100", "memory.limit_in_bytes=100"]);
    }

    #[test]
    fn lowered_limit_is_written_before_that_of_memory_and_swap() {
        let resources =
            Resources { memory_limit: Some(100), memory_swap_limit: Some(150), ..Resources::default() };
        check(&resources, Some(400), &["memory.limit_in_bytes=100", "memory.memsw.limit_in_bytes=150"]);
    }

    #[test]
    fn removed_limit_is_written_to_memory_and_swap_first() {
        let resources =
            Resources { memory_limit: Some(-1), memory_swap_limit: Some(-1), ..Resources::default() };
        check(&resources, Some(400), &["memory.memsw.limit_in_bytes=-1", "memory.limit_in_bytes=-1"]);
    }

    #[test]
    fn processor_limits_are_written_period_first() {
        let resources = Resources {
            cpu_shares: Some(512),
            cpu_quota: Some(50_000),
            cpu_period: Some(100_000),
            cpuset_cpus: Some("0-1".to_owned()),
            ..Resources::default()
        };
        check(
            &resources,
            None,
            &["cpu.shares=512", "cpu.cfs_period_us=100000", "cpu.cfs_quota_us=50000", "cpuset.cpus=0-1"],
        );
    }

    #[test]
    fn files_of_the_other_version_are_refused() {
        let resources = Resources {
            unified: [("memory.high".to_owned(), "1".to_owned())].into(),
            ..Resources::default()
        };
        assert_eq!(writes(&resources, None), Err(ResourcesError::NeedsV2("memory.high".to_owned())));
    }

    #[test]
    fn page_size_cannot_lead_to_another_file() {
        let resources =
            Resources { hugepage_limits: [("../x".to_owned(), 1)].into(), ..Resources::default() };
        assert!(matches!(writes(&resources, None), Err(ResourcesError::FileName(_))));
    }

    #[test]
    fn swap_limit_below_memory_limit_is_refused() {
        let resources =
            Resources { memory_limit: Some(100), memory_swap_limit: Some(50), ..Resources::default() };
        assert!(matches!(writes(&resources, None), Err(ResourcesError::SwapBelowMemory { .. })));
    }
}
