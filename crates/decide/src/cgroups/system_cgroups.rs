//! Which processes outside of pods must be moved to another cgroup.

use model::{PidNamespace, ProcessKind, SystemProcesses};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemCgroupSettings {
    /// Cgroup of the agent; `None` leaves the agent where it was started.
    pub agent: Option<String>,
    /// Cgroup for processes of the root cgroup; `None` leaves them in place.
    pub system: Option<String>,
}

impl SystemCgroupSettings {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A process that must be moved to another cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessMove {
    pub pid: u32,
    pub to: String,
}

/// The processes to move now; empty once all are in place.
///
/// Kernel threads stay: limiting them would slow down the programs that depend on them. Process 1 stays as well.
pub fn process_moves(processes: &SystemProcesses, settings: &SystemCgroupSettings) -> Vec<ProcessMove> {
    let own = &processes.own;
    // In a container the PID would belong to another process.
    let agent = settings.agent.as_ref().filter(|_| own.namespace == PidNamespace::Machine);
    let mut moves = Vec::new();
    if let Some(to) = agent
        && own.cgroups.iter().any(|cgroup| rooted(cgroup) != rooted(to))
    {
        moves.push(ProcessMove { pid: own.pid, to: rooted(to) });
    }
    if let Some(to) = &settings.system {
        let stays = |pid: u32| pid <= 1 || (agent.is_some() && pid == own.pid);
        let programs = processes.in_root.iter().filter(|process| process.kind == ProcessKind::Program);
        let programs = programs.filter(|process| !stays(process.pid));
        moves.extend(programs.map(|process| ProcessMove { pid: process.pid, to: rooted(to) }));
    }
    moves
}

fn rooted(path: &str) -> String {
    format!("/{}", path.trim_matches('/'))
}

#[cfg(test)]
mod tests {
    use model::{OwnProcess, RootProcess};

    use super::*;

    fn moved(
        own: (&[&str], PidNamespace),
        in_root: &[(u32, ProcessKind)],
        settings: [&str; 2],
    ) -> Vec<(u32, String)> {
        let cgroups = own.0.iter().map(|cgroup| (*cgroup).to_owned()).collect();
        let processes = SystemProcesses {
            own: OwnProcess { pid: 7, cgroups, namespace: own.1 },
            in_root: in_root.iter().map(|(pid, kind)| RootProcess { pid: *pid, kind: *kind }).collect(),
        };
        let [agent, system] = settings.map(|path| Some(path.to_owned()).filter(|path| !path.is_empty()));
        let found = process_moves(&processes, &SystemCgroupSettings { agent, system });
        found.into_iter().map(|one| (one.pid, one.to)).collect()
    }

    #[test]
    fn moves_agent_unless_in_place_or_in_container() {
        use PidNamespace::{Machine, Other};
        let moved_agent = vec![(7, "/a".to_owned())];
        for (cgroups, namespace, settings, expected) in [
            (&["/"] as &[&str], Machine, "/a", moved_agent.clone()),
            (&["/b", "/b"], Machine, "a/", moved_agent.clone()),
            (&["/a", "/b"], Machine, "/a", moved_agent),
            (&["/a", "/a"], Machine, "a", vec![]),
            (&["/b"], Other, "/a", vec![]),
            (&["/b"], Machine, "", vec![]),
        ] {
            assert_eq!(moved((cgroups, namespace), &[], [settings, ""]), expected, "{cgroups:?} {settings}");
        }
    }

    #[test]
    fn moves_programs_out_of_root_but_not_kernel_threads_or_init() {
        use ProcessKind::{Kernel, Program};
        let in_root = [(0, Program), (1, Program), (2, Kernel), (7, Program), (9, Program)];
        let at = |pids: &[u32]| pids.iter().map(|pid| (*pid, "/s".to_owned())).collect::<Vec<_>>();
        let own = (&["/"] as &[&str], PidNamespace::Machine);
        assert_eq!(moved(own, &in_root, ["", "/s"]), at(&[7, 9]));
        let both = [vec![(7, "/a".to_owned())], at(&[9])].concat();
        assert_eq!(moved(own, &in_root, ["/a", "s"]), both);
        assert_eq!(moved(own, &in_root, ["", ""]), []);
        assert_eq!(moved(own, &in_root[..3], ["", "/s"]), []);
    }
}
