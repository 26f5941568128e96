//! Rules for cgroups and the agent's own process.

use values::duration::GoDuration;

use super::{CgroupVersion, Checker};
use crate::{configuration::Cgroups, gates::Gate};

pub(super) fn check(checker: &mut Checker<'_>, cgroups: &Cgroups) {
    let on_v1 = checker.cgroup == CgroupVersion::V1;
    checker.rule(
        !(on_v1 && cgroups.fail_cgroup_v1),
        "failCgroupV1",
        "this host uses cgroup v1, which is deprecated; set failCgroupV1 to false to start anyway",
    );
    checker.rule(
        !(on_v1 && cgroups.single_process_oom_kill == Some(false)),
        "singleProcessOOMKill",
        "cannot be false on cgroup v1",
    );
    let system = cgroups.system_cgroups.as_str();
    checker.rule(
        system.is_empty() || !cgroups.cgroup_root.is_empty(),
        "systemCgroups",
        "requires cgroupRoot to be set",
    );
    checker.rule(system != "/", "systemCgroups", "cannot be the root cgroup");
    check_cpu_quota(checker, cgroups.cpu_cfs_quota_period);
    checker.in_range(cgroups.oom_score_adj, -1000..=1000, "oomScoreAdj");
    checker.not_negative(cgroups.max_open_files, "maxOpenFiles");
}

fn check_cpu_quota(checker: &mut Checker<'_>, period: GoDuration) {
    const FIELD: &str = "cpuCFSQuotaPeriod";
    let default = Cgroups::default().cpu_cfs_quota_period;
    checker.requires_gate(Gate::CustomCPUCFSQuotaPeriod, period != default, FIELD);
    let range = GoDuration::from_millis(1)..=GoDuration::from_secs(1);
    checker.rule(range.contains(&period), FIELD, format!("{period} must be between 1ms and 1s"));
}
