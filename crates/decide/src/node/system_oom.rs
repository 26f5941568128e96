//! Detects system-wide out-of-memory kills in the kernel log. Containers that exceed their own limit are not reported
//! here; their status shows it.

const REPORT_START: &str = "invoked oom-killer:";

#[derive(Clone, Debug, Default)]
pub struct SystemOomParser {
    /// Inside a report: whether it is system-wide, judged by the records so far.
    report: Option<bool>,
}

impl SystemOomParser {
    /// Parses the next record; returns the event message when it completes a system-wide report.
    pub fn read(&mut self, record: &str) -> Option<String> {
        let text = record.split_once(';').map_or(record, |(_, text)| text);
        if text.contains(REPORT_START) {
            self.report = Some(true);
            return None;
        }
        let is_system_wide = self.report?;
        if let Some((cgroup, victim)) = parse_oom_kill(text) {
            self.report = None;
            return (cgroup == "/").then(|| message(victim));
        }
        if let Some(cgroup) = text.split_once(" killed as a result of limit of ").map(|(_, cgroup)| cgroup) {
            self.report = Some(text.contains("Task in ") && cgroup.trim_matches('/').is_empty());
            return None;
        }
        let victim = killed_process(text)?;
        self.report = None;
        is_system_wide.then(|| message(Some(victim)))
    }
}

fn message(victim: Option<(&str, &str)>) -> String {
    match victim {
        Some((name, pid)) => format!("System OOM encountered, victim process: {name}, pid: {pid}"),
        None => "System OOM encountered".to_owned(),
    }
}

/// The cgroup whose limit was reached and the victim, in the format of Linux 5.0 and later.
fn parse_oom_kill(text: &str) -> Option<(&str, Option<(&str, &str)>)> {
    let report = text.split_once("oom-kill:constraint=")?.1;
    let (cgroup, rest) = report.split_once(",oom_memcg=")?.1.split_once(",task_memcg=")?;
    let victim = || {
        let (name, rest) = rest.split_once(",task=")?.1.rsplit_once(",pid=")?;
        let pid = rest.split_once(",uid=")?.0;
        Some((name, pid)).filter(|(name, pid)| !name.is_empty() && pid.parse::<u32>().is_ok())
    };
    Some((cgroup, victim()))
}

/// Name and PID of the killed process.
fn killed_process(text: &str) -> Option<(&str, &str)> {
    let (pid, rest) = text.split_once("Killed process ")?.1.split_once(" (")?;
    let name = rest.rsplit_once(')')?.0;
    (!name.is_empty() && pid.parse::<u32>().is_ok()).then_some((name, pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(records: &[&str]) -> Vec<String> {
        let mut reader = SystemOomParser::default();
        records.iter().filter_map(|record| reader.read(record)).collect()
    }

    const INVOKED: &str =
        "4,900,71,-;web invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0";

    #[test]
    fn reports_system_oom_with_victim() {
        let records = [
            INVOKED,
            " SUBSYSTEM=memory",
            "6,901,72,-;Tasks state (memory values in pages):",
            "6,902,73,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,\
             task_memcg=/user.slice,task=stress ng,pid=4711,uid=0",
            "3,903,74,-;Out of memory: Killed process 4711 (stress (ng)) total-vm:8kB, UID:0 oom_score_adj:0",
            "3,904,75,-;Out of memory: Killed process 1 (nobody asked) total-vm:8kB",
        ];
        assert_eq!(read(&records), ["System OOM encountered, victim process: stress (ng), pid: 4711"]);
    }

    #[test]
    fn ignores_oom_kills_of_cgroup_limits() {
        let limit = |cgroup: &str| {
            format!(
                "6,902,73,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c,mems_allowed=0,\
                 oom_memcg={cgroup},task_memcg=/kubepods/pod1/c,task=web,pid=12,uid=0"
            )
        };
        let killed = "3,903,74,-;Memory cgroup out of memory: Killed process 12 (web) total-vm:8kB";
        assert!(read(&[INVOKED, &limit("/kubepods/pod1"), killed]).is_empty());
        let root = "System OOM encountered, victim process: web, pid: 12";
        assert_eq!(read(&[INVOKED, &limit("/"), killed]), [root]);
    }

    #[test]
    fn parses_format_of_older_kernels() {
        let killed = "3,903,74,-;Killed process 12 (web) total-vm:8kB";
        let task =
            |limit: &str| format!("6,902,73,-;Task in /kubepods/pod1 killed as a result of limit of {limit}");
        assert!(read(&[INVOKED, &task("/kubepods/pod1"), killed]).is_empty());
        let expected = "System OOM encountered, victim process: web, pid: 12";
        assert_eq!(read(&[INVOKED, &task("/"), killed]), [expected]);
        assert_eq!(read(&[INVOKED, killed, INVOKED, killed]), [expected, expected]);
        assert!(read(&[killed]).is_empty());
    }
}
