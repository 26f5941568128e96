use model::{HugepageLimit, LinuxResources};

use super::labels::to_hash_map;
use crate::v1;

pub(crate) fn to_cri(resources: &LinuxResources) -> v1::LinuxContainerResources {
    let pages =
        |page: &HugepageLimit| v1::HugepageLimit { page_size: page.page_size.clone(), limit: page.limit };
    v1::LinuxContainerResources {
        cpu_period: resources.cpu_period,
        cpu_quota: resources.cpu_quota,
        cpu_shares: resources.cpu_shares,
        memory_limit_in_bytes: resources.memory_limit_bytes,
        oom_score_adj: resources.oom_score_adj,
        cpuset_cpus: resources.cpuset_cpus.clone(),
        cpuset_mems: resources.cpuset_mems.clone(),
        hugepage_limits: resources.hugepages.iter().map(pages).collect(),
        unified: to_hash_map(&resources.unified),
        memory_swap_limit_in_bytes: resources.memory_swap_limit_bytes,
    }
}

pub(super) fn from_cri(limits: v1::LinuxContainerResources) -> LinuxResources {
    let pages = |page: v1::HugepageLimit| HugepageLimit { page_size: page.page_size, limit: page.limit };
    LinuxResources {
        cpu_period: limits.cpu_period,
        cpu_quota: limits.cpu_quota,
        cpu_shares: limits.cpu_shares,
        memory_limit_bytes: limits.memory_limit_in_bytes,
        memory_swap_limit_bytes: limits.memory_swap_limit_in_bytes,
        oom_score_adj: limits.oom_score_adj,
        cpuset_cpus: limits.cpuset_cpus,
        cpuset_mems: limits.cpuset_mems,
        hugepages: limits.hugepage_limits.into_iter().map(pages).collect(),
        unified: limits.unified.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_round_trip() {
        let resources = LinuxResources {
            cpu_period: 1,
            cpu_quota: 2,
            cpu_shares: 3,
            memory_limit_bytes: 4,
            memory_swap_limit_bytes: 5,
            oom_score_adj: 6,
            cpuset_cpus: "7".into(),
            cpuset_mems: "8".into(),
            hugepages: vec![HugepageLimit { page_size: "2MB".into(), limit: 9 }],
            unified: [("memory.high".to_owned(), "10".to_owned())].into(),
        };
        let sent = to_cri(&resources);
        assert_eq!((sent.memory_limit_in_bytes, sent.memory_swap_limit_in_bytes), (4, 5));
        assert_eq!(from_cri(sent), resources);
    }
}
