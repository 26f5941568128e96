//! Keeps the agent in the cgroup that was configured for it (`kubeletCgroups`), and the programs of the root cgroup in
//! theirs (`systemCgroups`). Looks each minute: new programs may have started in the root.

use std::sync::Arc;
use std::time::Duration;

use decide::system_cgroups::{WantedCgroups, moves};
use ports::pod_folders::FileError;
use ports::system_cgroups::SystemCgroups;
use tokio_util::sync::CancellationToken;

/// Time between two looks.
const PERIOD: Duration = Duration::from_secs(60);
/// Programs start others while they are moved; so often it is looked again at once.
const ROUNDS: usize = 11;

/// Runs until cancelled.
pub async fn run(cgroups: Arc<dyn SystemCgroups>, wanted: WantedCgroups, cancel: CancellationToken) {
    // The problem that was told last; the same one is not told again.
    let mut told = None;
    loop {
        let problem = keep(cgroups.as_ref(), &wanted).await.err();
        let problem = problem.map(|error| format!("{error}: {}", error.source));
        if let Some(problem) = problem.as_ref().filter(|_| problem != told) {
            tracing::warn!(
                %problem,
                "processes cannot be kept in kubeletCgroups or systemCgroups; trying again each minute"
            );
        }
        told = problem;
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

/// Moves what is not in its place. One that cannot be moved does not hold up the others; the last failure is told.
async fn keep(cgroups: &dyn SystemCgroups, wanted: &WantedCgroups) -> Result<(), FileError> {
    let mut outcome = Ok(());
    for _ in 0..ROUNDS {
        let moves = moves(&cgroups.processes().await?, wanted);
        if moves.is_empty() {
            return Ok(());
        }
        outcome = Ok(());
        let mut moved = 0;
        for one in moves {
            match cgroups.enter(one.pid, &one.to).await {
                Ok(()) => moved += 1,
                Err(error) => outcome = Err(error),
            }
        }
        if moved == 0 {
            break;
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;

    use async_trait::async_trait;
    use model::{OwnProcess, PidNamespace, ProcessKind, RootProcess, SystemProcesses};

    use super::*;

    /// A machine on which a move shows at once.
    #[derive(Default)]
    struct Machine {
        processes: Mutex<SystemProcesses>,
        /// One that the kernel does not let go.
        stuck: Option<u32>,
        tries: Mutex<usize>,
    }

    #[async_trait]
    impl SystemCgroups for Machine {
        async fn processes(&self) -> Result<SystemProcesses, FileError> {
            Ok(self.processes.lock().unwrap().clone())
        }

        async fn enter(&self, pid: u32, path: &str) -> Result<(), FileError> {
            *self.tries.lock().unwrap() += 1;
            if self.stuck == Some(pid) {
                let source = io::Error::from(io::ErrorKind::ResourceBusy);
                return Err(FileError { operation: "move a process into", path: path.into(), source });
            }
            let mut processes = self.processes.lock().unwrap();
            if pid == processes.own.pid {
                processes.own.cgroups = vec![path.to_owned()];
            }
            processes.in_root.retain(|process| process.pid != pid);
            Ok(())
        }
    }

    fn machine(pids: &[u32], stuck: Option<u32>) -> Arc<Machine> {
        let in_root = pids.iter().map(|pid| RootProcess { pid: *pid, kind: ProcessKind::Program }).collect();
        let own = OwnProcess { pid: 7, cgroups: vec!["/".to_owned()], namespace: PidNamespace::Machine };
        let processes = Mutex::new(SystemProcesses { own, in_root });
        Arc::new(Machine { processes, stuck, tries: Mutex::default() })
    }

    fn wanted() -> WantedCgroups {
        WantedCgroups { agent: Some("/agent".to_owned()), system: Some("/system".to_owned()) }
    }

    #[tokio::test(start_paused = true)]
    async fn processes_are_moved_once_and_new_ones_within_a_minute() {
        let (machine, cancel) = (machine(&[1, 7, 8, 9], None), CancellationToken::new());
        let stage = tokio::spawn(run(machine.clone(), wanted(), cancel.clone()));
        let seen = || {
            let processes = machine.processes.lock().unwrap().clone();
            (processes.own.cgroups, processes.in_root.iter().map(|process| process.pid).collect::<Vec<_>>())
        };
        tokio::time::sleep(PERIOD * 3).await;
        assert_eq!(seen(), (vec!["/agent".to_owned()], vec![1]));
        assert_eq!(*machine.tries.lock().unwrap(), 3);
        machine.processes.lock().unwrap().in_root.push(RootProcess { pid: 20, kind: ProcessKind::Program });
        tokio::time::sleep(PERIOD).await;
        assert_eq!(seen().1, [1]);
        cancel.cancel();
        stage.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_stuck_holds_up_nobody() {
        let machine = machine(&[8, 9], Some(8));
        assert!(keep(machine.as_ref(), &wanted()).await.is_err());
        let left: Vec<u32> = machine.processes.lock().unwrap().in_root.iter().map(|one| one.pid).collect();
        assert_eq!((left, *machine.tries.lock().unwrap()), (vec![8], 4));
    }
}
