//! Moves the agent into its configured cgroup (`kubeletCgroups`), and the processes of the root cgroup into another one
//! (`systemCgroups`). Repeats this every minute, because new processes may have started in the root cgroup.

use std::sync::Arc;
use std::time::Duration;

use decide::cgroups::system_cgroups::{SystemCgroupSettings, process_moves};
use ports::host::pod_folders::FileError;
use ports::host::system_cgroups::SystemCgroups;
use tokio_util::sync::CancellationToken;

const PERIOD: Duration = Duration::from_secs(60);
/// Processes may start children while they are moved, so a move is repeated until nothing is left, at most this often.
const MAX_PASSES: usize = 11;

/// Runs until cancelled.
pub async fn run(cgroups: Arc<dyn SystemCgroups>, settings: SystemCgroupSettings, cancel: CancellationToken) {
    // Prevents logging the same error again.
    let mut last_error = None;
    loop {
        let error = move_processes(cgroups.as_ref(), &settings).await.err().map(|error| error.text());
        if let Some(error) = error.as_ref().filter(|_| error != last_error) {
            tracing::warn!(
                %error,
                "failed to move processes into kubeletCgroups or systemCgroups, retrying every minute"
            );
        }
        last_error = error;
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

/// A process that cannot be moved does not prevent the move of others. Returns the last error.
async fn move_processes(
    cgroups: &dyn SystemCgroups,
    settings: &SystemCgroupSettings,
) -> Result<(), FileError> {
    let mut result = Ok(());
    for _ in 0..MAX_PASSES {
        let moves = process_moves(&cgroups.processes().await?, settings);
        if moves.is_empty() {
            return Ok(());
        }
        result = Ok(());
        let mut moved = 0;
        for one in moves {
            match cgroups.enter(one.pid, &one.to).await {
                Ok(()) => moved += 1,
                Err(error) => result = Err(error),
            }
        }
        if moved == 0 {
            break;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::io;

    use async_trait::async_trait;
    use model::{OwnProcess, PidNamespace, ProcessKind, RootProcess, SystemProcesses};

    use super::*;

    /// A machine on which moves take effect immediately.
    #[derive(Default)]
    struct Machine {
        processes: Mutex<SystemProcesses>,
        /// A process that cannot be moved.
        stuck: Option<u32>,
        attempts: Mutex<usize>,
    }

    #[async_trait]
    impl SystemCgroups for Machine {
        async fn processes(&self) -> Result<SystemProcesses, FileError> {
            Ok(self.processes.lock().clone())
        }

        async fn enter(&self, pid: u32, path: &str) -> Result<(), FileError> {
            *self.attempts.lock() += 1;
            if self.stuck == Some(pid) {
                let source = io::Error::from(io::ErrorKind::ResourceBusy);
                return Err(FileError { operation: "move a process into", path: path.into(), source });
            }
            let mut processes = self.processes.lock();
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
        Arc::new(Machine { processes, stuck, attempts: Mutex::default() })
    }

    fn settings() -> SystemCgroupSettings {
        SystemCgroupSettings { agent: Some("/agent".to_owned()), system: Some("/system".to_owned()) }
    }

    #[tokio::test(start_paused = true)]
    async fn moves_processes_once_and_new_ones_within_a_minute() {
        let (machine, cancel) = (machine(&[1, 7, 8, 9], None), CancellationToken::new());
        let stage = tokio::spawn(run(machine.clone(), settings(), cancel.clone()));
        let state = || {
            let processes = machine.processes.lock().clone();
            (processes.own.cgroups, processes.in_root.iter().map(|process| process.pid).collect::<Vec<_>>())
        };
        tokio::time::sleep(PERIOD * 3).await;
        assert_eq!(state(), (vec!["/agent".to_owned()], vec![1]));
        assert_eq!(*machine.attempts.lock(), 3);
        machine.processes.lock().in_root.push(RootProcess { pid: 20, kind: ProcessKind::Program });
        tokio::time::sleep(PERIOD).await;
        assert_eq!(state().1, [1]);
        cancel.cancel();
        stage.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn immovable_process_does_not_block_others() {
        let machine = machine(&[8, 9], Some(8));
        assert!(move_processes(machine.as_ref(), &settings()).await.is_err());
        let left: Vec<u32> = machine.processes.lock().in_root.iter().map(|one| one.pid).collect();
        assert_eq!((left, *machine.attempts.lock()), (vec![8], 4));
    }
}
