//! The locks that keep two agents apart.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use config::Loaded;
use host::{LockError, LockFile};

use super::stop::Stop;
use super::with_cause;

/// Time between two attempts to take a lock that is held.
const LOCK_PERIOD: Duration = Duration::from_millis(200);

/// The lock on the agent's state: two agents on one root folder would fight over every pod.
pub(super) fn own(state: &Path) -> anyhow::Result<LockFile> {
    std::fs::create_dir_all(state).with_context(|| format!("make the folder {}", state.display()))?;
    LockFile::acquire(&state.join("lock")).map_err(|error| {
        anyhow::anyhow!("{}; is another podward running on this root folder?", with_cause(&error))
    })
}

/// Has the agent stop when somebody else wants its `--lock-file`, if that is configured.
pub(super) fn watch_contention(loaded: &Loaded, stop: &mut Stop) -> anyhow::Result<()> {
    if let Some(path) = loaded.flags.lock_file.as_ref().filter(|_| loaded.flags.exit_on_lock_contention) {
        let contention = host::lock_contention(path)
            .with_context(|| format!("--exit-on-lock-contention: watch {}", path.display()))?;
        stop.contention = Some(Box::pin(contention));
    }
    Ok(())
}

/// Takes the lock, waiting for whoever holds it. `None` when told to stop meanwhile.
pub(super) async fn await_lock(path: &Path, stop: &mut Stop) -> anyhow::Result<Option<LockFile>> {
    let mut told = false;
    loop {
        match LockFile::acquire(path) {
            Ok(lock) => return Ok(Some(lock)),
            Err(LockError::Held { .. }) => {
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(lock = %path.display(), "--lock-file is held by another process; waiting for it");
                }
            }
            Err(error @ LockError::File { .. }) => bail!("--lock-file: {}", with_cause(&error)),
        }
        tokio::select! {
            name = stop.next() => {
                tracing::info!(signal = name, "stopping");
                return Ok(None);
            }
            () = tokio::time::sleep(LOCK_PERIOD) => {}
        }
    }
}
