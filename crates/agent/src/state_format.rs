//! The checkpoints in Podward's own format, and their versions.
//!
//! Each checkpoint is JSON with a field `version`. docs/upgrade.md lists all files and what happens to one of a newer
//! release. Checkpoints in upstream's format are not here: they have upstream's versions and checksums.

use ports::host::checkpoints::Checkpoints;
use ports::host::pod_folders::FileError;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use values::format_version::{FormatVersion, NewerFormat};

#[derive(Clone, Copy, Debug)]
pub struct StateFormat {
    /// The name of the checkpoint.
    pub name: &'static str,
    version: FormatVersion,
}

/// The last good pods of the static sources.
pub const DESIRED_PODS: StateFormat = StateFormat::new("desired_pods", 1);
/// The last good ConfigMaps and Secrets of the static sources.
pub const OBJECTS: StateFormat = StateFormat::new("objects", 1);
pub const PROBE_RESULTS: StateFormat = StateFormat::new("probes", 1);
pub const IMAGE_USE: StateFormat = StateFormat::new("image-use", 1);
pub const VOLUME_CLAIMS: StateFormat = StateFormat::new("volume_claims_state", 1);
/// All sets of the offline cache, each of which has its own name.
pub const OFFLINE_CACHE: StateFormat = StateFormat::new("api", 1);

/// Without these, a broken manifest or an unreachable URL would end running pods, whose last good version only they have.
const REQUIRED: [StateFormat; 2] = [DESIRED_PODS, OBJECTS];

/// Contains no content of the file, which may be secret.
#[derive(Debug, Error)]
pub enum StateError {
    #[error(transparent)]
    Newer(#[from] NewerFormat),
    #[error("invalid content at line {line}, column {column}")]
    Invalid { line: usize, column: usize },
}

impl From<serde_json::Error> for StateError {
    fn from(error: serde_json::Error) -> Self {
        Self::Invalid { line: error.line(), column: error.column() }
    }
}

#[derive(Debug, Error)]
#[error("checkpoint {name}")]
pub struct NewerState {
    pub name: &'static str,
    #[source]
    pub source: NewerFormat,
}

#[derive(Deserialize)]
struct VersionField {
    version: u32,
}

impl StateFormat {
    const fn new(name: &'static str, newest: u32) -> Self {
        Self { name, version: FormatVersion::new(newest) }
    }

    /// The version that this release writes.
    #[must_use]
    pub const fn version(self) -> u32 {
        self.version.newest()
    }

    /// Decodes a checkpoint that this or an older release wrote.
    ///
    /// # Errors
    /// If the content is of a newer release or invalid.
    pub fn decode<T: DeserializeOwned>(self, content: &[u8]) -> Result<T, StateError> {
        self.check(content)?;
        Ok(serde_json::from_slice(content)?)
    }

    fn check(self, content: &[u8]) -> Result<u32, StateError> {
        let VersionField { version } = serde_json::from_slice(content)?;
        Ok(self.version.check(version)?)
    }
}

/// Finds a checkpoint of a newer release without which the agent must not start. Damaged checkpoints are reported by the
/// stages that load them.
///
/// # Errors
/// The first such checkpoint.
pub async fn refuse_newer_state(checkpoints: &dyn Checkpoints) -> Result<(), NewerState> {
    for format in REQUIRED {
        let found = match checkpoints.load(format.name).await {
            Ok(None) => continue,
            Ok(Some(content)) => match format.check(&content) {
                Err(StateError::Newer(newer)) => Some(newer),
                Ok(_) | Err(StateError::Invalid { .. }) => None,
            },
            Err(error) => newer_format(&error),
        };
        if let Some(source) = found {
            return Err(NewerState { name: format.name, source });
        }
    }
    Ok(())
}

/// The version of a file whose header is of a newer release.
fn newer_format(error: &FileError) -> Option<NewerFormat> {
    error.source.get_ref()?.downcast_ref::<NewerFormat>().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_checkpoints::Files;

    #[derive(Debug, Deserialize)]
    struct Content {
        pods: Vec<String>,
    }

    #[test]
    fn decodes_known_versions_and_names_newer_ones() {
        let read = |text: &str| DESIRED_PODS.decode::<Content>(text.as_bytes());
        assert_eq!(read(r#"{"version":1,"pods":["a"]}"#).unwrap().pods, ["a"]);
        // The content of a newer version may have another structure.
        let newer = read(r#"{"version":7,"pods":{}}"#).unwrap_err();
        assert!(matches!(newer, StateError::Newer(NewerFormat { found: 7, supported: 1 })));
        for invalid in ["", "x", "{}", r#"{"version":1,"pods":"secret"}"#] {
            let error = read(invalid).unwrap_err();
            assert!(matches!(error, StateError::Invalid { .. }), "{invalid}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[tokio::test]
    async fn refuses_start_only_with_newer_checkpoints_that_pods_need() {
        let files = Files::default();
        let save = async |name, text: &str| files.save(name, text.as_bytes().to_vec()).await.unwrap();
        assert!(refuse_newer_state(&files).await.is_ok());
        save(DESIRED_PODS.name, r#"{"version":1,"sources":{}}"#).await;
        save(OBJECTS.name, "damaged").await;
        save(PROBE_RESULTS.name, r#"{"version":2}"#).await;
        assert!(refuse_newer_state(&files).await.is_ok());
        save(OBJECTS.name, r#"{"version":2}"#).await;
        let error = refuse_newer_state(&files).await.unwrap_err();
        assert_eq!((error.name, error.source), ("objects", NewerFormat { found: 2, supported: 1 }));
    }
}
