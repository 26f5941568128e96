//! Rules about cgroups and the agent's own process.

use super::{CgroupVersion, Check};
use crate::{configuration::Cgroups, duration::GoDuration, gates::Gate};

pub(super) fn check(check: &mut Check<'_>, cgroups: &Cgroups) {
    let on_v1 = check.cgroup == CgroupVersion::V1;
    check.rule(
        !(on_v1 && cgroups.fail_cgroup_v1),
        "failCgroupV1",
        "this host uses cgroup v1, which is on its way out; set it to false to run here anyway",
    );
    check.rule(
        !(on_v1 && cgroups.single_process_oom_kill == Some(false)),
        "singleProcessOOMKill",
        "cannot be false on cgroup v1",
    );
    let system = cgroups.system_cgroups.as_str();
    check.rule(
        system.is_empty() || !cgroups.cgroup_root.is_empty(),
        "systemCgroups",
        "needs cgroupRoot to be set",
    );
    check.rule(system != "/", "systemCgroups", "cannot be the root cgroup");
    cpu_quota(check, cgroups.cpu_cfs_quota_period);
    check.in_range(cgroups.oom_score_adj, -1000..=1000, "oomScoreAdj");
    check.not_negative(cgroups.max_open_files, "maxOpenFiles");
}

fn cpu_quota(check: &mut Check<'_>, period: GoDuration) {
    const FIELD: &str = "cpuCFSQuotaPeriod";
    let default = Cgroups::default().cpu_cfs_quota_period;
    check.needs_gate(Gate::CustomCPUCFSQuotaPeriod, period != default, FIELD);
    let range = GoDuration::from_millis(1)..=GoDuration::from_secs(1);
    check.rule(range.contains(&period), FIELD, format!("{period} must be between 1ms and 1s"));
}
