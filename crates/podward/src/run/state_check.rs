//! Refuses the state of a newer release, before anything starts.

use std::path::Path;

use agent::state_format::refuse_newer_state;
use host::FileCheckpoints;

/// # Errors
/// If a newer release wrote state without which pods could be ended. Other state of a newer release is ignored, with a
/// warning of the stage that loads it.
pub(super) async fn check_state(state: &Path) -> anyhow::Result<()> {
    let checked = refuse_newer_state(&FileCheckpoints::new(state)).await;
    checked.map_err(|newer| {
        anyhow::anyhow!(
            "{} has {}; install the newer release again, or move the file away to start without it: pods whose manifest is \
             invalid or unreachable now would then end",
            state.join(newer.name).display(),
            newer.source
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn refuses_newer_state_with_file_versions_and_advice() {
        let state = tempfile::tempdir().unwrap();
        assert!(check_state(state.path()).await.is_ok());
        let path = state.path().join("desired_pods");
        std::fs::write(&path, "podward-checkpoint v3 0 0\n").unwrap();
        let message = check_state(state.path()).await.unwrap_err().to_string();
        let expected = format!(
            "{} has format version 3 of a newer release, while this release reads versions up to 1; \
             install the newer release again, or move the file away",
            path.display()
        );
        assert!(message.starts_with(&expected), "{message}");
        assert!(path.exists());
    }
}
