//! Which processes that belong to no pod are to be in which cgroup.

use model::{PidNamespace, ProcessKind, SystemProcesses};

/// The cgroups that the configuration names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedCgroups {
    /// Of the agent itself; none leaves it where it was started.
    pub agent: Option<String>,
    /// Of the processes in the root cgroup; none leaves them there.
    pub system: Option<String>,
}

impl WantedCgroups {
    /// Whether all processes may stay where they are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A process that is not where it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessMove {
    /// The process.
    pub pid: u32,
    /// The cgroup it belongs in.
    pub to: String,
}

/// What is to be moved now; nothing once everything is in place.
///
/// Threads of the kernel stay: a quota of programs would slow down what those programs wait for. Process 1 is left to
/// whoever started the machine.
#[must_use]
pub fn moves(processes: &SystemProcesses, wanted: &WantedCgroups) -> Vec<ProcessMove> {
    let own = &processes.own;
    // In a container the number would be another process's.
    let agent = wanted.agent.as_ref().filter(|_| own.namespace == PidNamespace::Machine);
    let mut moves = Vec::new();
    if let Some(to) = agent
        && own.cgroups.iter().any(|cgroup| rooted(cgroup) != rooted(to))
    {
        moves.push(ProcessMove { pid: own.pid, to: rooted(to) });
    }
    if let Some(to) = &wanted.system {
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
        wanted: [&str; 2],
    ) -> Vec<(u32, String)> {
        let cgroups = own.0.iter().map(|cgroup| (*cgroup).to_owned()).collect();
        let processes = SystemProcesses {
            own: OwnProcess { pid: 7, cgroups, namespace: own.1 },
            in_root: in_root.iter().map(|(pid, kind)| RootProcess { pid: *pid, kind: *kind }).collect(),
        };
        let [agent, system] = wanted.map(|path| Some(path.to_owned()).filter(|path| !path.is_empty()));
        let found = moves(&processes, &WantedCgroups { agent, system });
        found.into_iter().map(|one| (one.pid, one.to)).collect()
    }

    #[test]
    fn the_agent_is_moved_unless_it_is_there_or_in_a_container() {
        use PidNamespace::{Machine, Other};
        let there = vec![(7, "/a".to_owned())];
        for (cgroups, namespace, wanted, expected) in [
            (&["/"] as &[&str], Machine, "/a", there.clone()),
            (&["/b", "/b"], Machine, "a/", there.clone()),
            (&["/a", "/b"], Machine, "/a", there),
            (&["/a", "/a"], Machine, "a", vec![]),
            (&["/b"], Other, "/a", vec![]),
            (&["/b"], Machine, "", vec![]),
        ] {
            assert_eq!(moved((cgroups, namespace), &[], [wanted, ""]), expected, "{cgroups:?} {wanted}");
        }
    }

    #[test]
    fn programs_leave_the_root_and_the_kernel_and_the_first_process_stay() {
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
