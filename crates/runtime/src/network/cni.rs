//! Networks that CNI plugins make.

use std::fs;
use std::path::PathBuf;

use super::errors::NetworkFailure;

/// The folder of configurations.
#[derive(Clone, Debug)]
pub(super) struct ConfigFolder(pub(super) PathBuf);

impl ConfigFolder {
    /// An error if there is a configuration: plugins are not executed yet.
    pub(super) fn check(&self) -> Result<(), NetworkFailure> {
        let Ok(entries) = fs::read_dir(&self.0) else { return Ok(()) };
        let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
        let is_configuration = |path: &PathBuf| {
            path.extension()
                .is_some_and(|kind| ["conf", "conflist", "json"].iter().any(|known| kind == *known))
        };
        let Some(path) = paths.into_iter().find(is_configuration) else { return Ok(()) };
        let reason = "CNI plugins are not executed yet";
        Err(NetworkFailure::Invalid {
            field: "network configuration",
            value: path.display().to_string(),
            reason,
        })
    }
}
