//! The locks that prevent two agents on one root folder.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use config::LoadedConfig;
use host::{LockError, LockFile};

use super::stop::Stop;
use super::with_cause;

/// Time between two attempts to take a lock that is held.
const LOCK_RETRY_PERIOD: Duration = Duration::from_millis(200);

/// A process that a killed agent was starting holds the agent's lock until it executes its program.
const LOCK_RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// The lock on the agent's state: two agents on one root folder would fight over every pod.
pub(crate) async fn lock_state(state: &Path) -> anyhow::Result<LockFile> {
    std::fs::create_dir_all(state)
        .with_context(|| format!("failed to create the folder {}", state.display()))?;
    let deadline = tokio::time::Instant::now() + LOCK_RELEASE_TIMEOUT;
    loop {
        match LockFile::acquire(&state.join("lock")) {
            Err(LockError::Held { .. }) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(LOCK_RETRY_PERIOD).await;
            }
            result => {
                return result.map_err(|error| {
                    anyhow::anyhow!("{}; is another podward running on this root folder?", with_cause(&error))
                });
            }
        }
    }
}

/// Stops the agent when another process opens its `--lock-file`, if `--exit-on-lock-contention` is set.
pub(super) fn watch_contention(loaded: &LoadedConfig, stop: &mut Stop) -> anyhow::Result<()> {
    if let Some(path) = loaded.flags.lock_file.as_ref().filter(|_| loaded.flags.exit_on_lock_contention) {
        let contention = host::lock_contention(path)
            .with_context(|| format!("--exit-on-lock-contention: watch {}", path.display()))?;
        stop.contention = Some(Box::pin(contention));
    }
    Ok(())
}

/// Acquires the lock, waiting while another process holds it. `None` when the agent is stopped meanwhile.
pub(super) async fn await_lock(path: &Path, stop: &mut Stop) -> anyhow::Result<Option<LockFile>> {
    let mut logged = false;
    loop {
        match LockFile::acquire(path) {
            Ok(lock) => return Ok(Some(lock)),
            Err(LockError::Held { .. }) => {
                if !std::mem::replace(&mut logged, true) {
                    tracing::warn!(lock = %path.display(), "--lock-file is held by another process, waiting for it");
                }
            }
            Err(error @ LockError::File { .. }) => bail!("--lock-file: {}", with_cause(&error)),
        }
        tokio::select! {
            name = stop.next() => {
                tracing::info!(signal = name, "stopping");
                return Ok(None);
            }
            () = tokio::time::sleep(LOCK_RETRY_PERIOD) => {}
        }
    }
}
