//! Credentials for image pulls.

use async_trait::async_trait;
use model::{CredentialFile, CredentialProvider};

/// The node's own credential files.
#[async_trait]
pub trait CredentialFiles: Send + Sync {
    /// Every existing file, in the order of upstream's lookup. Unreadable files are left out.
    async fn read(&self) -> Vec<CredentialFile>;
}

/// A credential provider program that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error execing credential provider plugin {provider}: {reason}")]
pub struct ProgramError {
    /// Name of the provider.
    pub provider: String,
    /// The reason, with its stderr.
    pub reason: String,
}

/// Runs credential provider programs.
#[async_trait]
pub trait CredentialPrograms: Send + Sync {
    /// Sends a request to a program and returns its output. Uses no shell; kills the program after a deadline.
    async fn run(&self, provider: &CredentialProvider, request: Vec<u8>) -> Result<Vec<u8>, ProgramError>;
}
