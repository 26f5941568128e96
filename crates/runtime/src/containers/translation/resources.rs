//! Limits of a container.

use cri::v1::LinuxContainerResources;

use crate::cgroups::Resources;
use crate::errors::ServiceError;

/// The limits for the cgroups. Zero and empty fields leave the kernel's value.
pub(crate) fn resources(requested: &LinuxContainerResources) -> Result<Resources, ServiceError> {
    let positive = |field: &'static str, value: i64| {
        let problem = || ServiceError::setting(field, format!("{value} is negative"));
        u64::try_from(value).map_err(|_| problem()).map(Some)
    };
    let text = |text: &String| (!text.is_empty()).then(|| text.clone());
    Ok(Resources {
        cpu_shares: positive("cpu_shares", requested.cpu_shares)?,
        cpu_quota: Some(requested.cpu_quota),
        cpu_period: positive("cpu_period", requested.cpu_period)?,
        cpuset_cpus: text(&requested.cpuset_cpus),
        cpuset_mems: text(&requested.cpuset_mems),
        memory_limit: Some(requested.memory_limit_in_bytes),
        memory_swap_limit: Some(requested.memory_swap_limit_in_bytes),
        hugepage_limits: requested
            .hugepage_limits
            .iter()
            .map(|limit| (limit.page_size.clone(), limit.limit))
            .collect(),
        unified: requested.unified.clone().into_iter().collect(),
    })
}

/// The limits after an update: its fields that have a value replace those of `current`.
pub(crate) fn merge(
    current: &LinuxContainerResources,
    update: &LinuxContainerResources,
) -> LinuxContainerResources {
    let number = |current: i64, update: i64| if update == 0 { current } else { update };
    let text = |current: &String, update: &String| {
        if update.is_empty() { current.clone() } else { update.clone() }
    };
    let mut unified = current.unified.clone();
    unified.extend(update.unified.clone());
    LinuxContainerResources {
        cpu_period: number(current.cpu_period, update.cpu_period),
        cpu_quota: number(current.cpu_quota, update.cpu_quota),
        cpu_shares: number(current.cpu_shares, update.cpu_shares),
        memory_limit_in_bytes: number(current.memory_limit_in_bytes, update.memory_limit_in_bytes),
        oom_score_adj: number(current.oom_score_adj, update.oom_score_adj),
        cpuset_cpus: text(&current.cpuset_cpus, &update.cpuset_cpus),
        cpuset_mems: text(&current.cpuset_mems, &update.cpuset_mems),
        hugepage_limits: if update.hugepage_limits.is_empty() {
            current.hugepage_limits.clone()
        } else {
            update.hugepage_limits.clone()
        },
        unified,
        memory_swap_limit_in_bytes: number(
            current.memory_swap_limit_in_bytes,
            update.memory_swap_limit_in_bytes,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn update_changes_only_fields_with_a_value() {
        let current = LinuxContainerResources {
            cpu_shares: 100,
            cpuset_cpus: "0".into(),
            unified: [("memory.high".to_owned(), "1".to_owned())].into(),
            ..LinuxContainerResources::default()
        };
        let update = LinuxContainerResources {
            memory_limit_in_bytes: 5,
            cpuset_cpus: "1".into(),
            unified: [("memory.min".to_owned(), "2".to_owned())].into(),
            ..LinuxContainerResources::default()
        };
        let merged = merge(&current, &update);
        assert_eq!((merged.cpu_shares, merged.memory_limit_in_bytes), (100, 5));
        assert_eq!((merged.cpuset_cpus.as_str(), merged.unified.len()), ("1", 2));
    }

    #[test]
    fn negative_shares_are_refused() {
        let requested = LinuxContainerResources { cpu_shares: -1, ..LinuxContainerResources::default() };
        assert!(resources(&requested).unwrap_err().to_string().contains("cpu_shares"));
    }
}
