//! Image pulls: their records, and the sources of registry credentials.

mod credential_files;
mod credential_programs;
mod pull_records;

pub use credential_files::NodeCredentialFiles;
pub use credential_programs::{ExecCredentialPrograms, check_program};
