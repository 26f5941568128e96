//! Where credentials for pulls come from.

use async_trait::async_trait;
use model::{CredentialFile, CredentialProvider};

/// The node's own credential files.
#[async_trait]
pub trait CredentialFiles: Send + Sync {
    /// Every file that is there, in the order of upstream's lookup. What cannot be read is left out.
    async fn read(&self) -> Vec<CredentialFile>;
}

/// A credential provider program that gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error execing credential provider plugin {provider}: {reason}")]
pub struct ProgramError {
    /// Name of the provider.
    pub provider: String,
    /// Why, with what it wrote to stderr.
    pub reason: String,
}

/// Runs credential provider programs.
#[async_trait]
pub trait CredentialPrograms: Send + Sync {
    /// Gives a request to a program and returns what it printed. Never through a shell; has its own deadline, past
    /// which the program is killed.
    async fn run(&self, provider: &CredentialProvider, request: Vec<u8>) -> Result<Vec<u8>, ProgramError>;
}
