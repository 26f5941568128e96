//! Runs credential provider programs.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use model::CredentialProvider;
use ports::host::credential_sources::{CredentialPrograms, ProgramError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

const PROVIDER_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_RESPONSE_BYTES: u64 = 10 << 20;
/// How much of stderr the error includes.
const MAX_STDERR_BYTES: u64 = 2048;

/// Checks that a program exists and is executable.
///
/// # Errors
/// If there is no such file, or it is not executable.
pub fn check_program(path: &Path) -> std::io::Result<()> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("not a file"));
    }
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).map_err(Into::into)
}

/// Runs the provider programs of one folder.
#[derive(Clone, Debug)]
pub struct ExecCredentialPrograms {
    folder: PathBuf,
    timeout: Duration,
}

impl ExecCredentialPrograms {
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), timeout: PROVIDER_TIMEOUT }
    }
}

#[async_trait]
impl CredentialPrograms for ExecCredentialPrograms {
    async fn run(&self, provider: &CredentialProvider, request: Vec<u8>) -> Result<Vec<u8>, ProgramError> {
        let fail = |reason: String| ProgramError { provider: provider.name.clone(), reason };
        let mut command = Command::new(self.folder.join(&provider.name));
        command
            .args(&provider.args)
            .envs(&provider.env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        match tokio::time::timeout(self.timeout, exchange(command, &request)).await {
            Ok(Ok(result)) => result.map_err(fail),
            Ok(Err(error)) => Err(fail(error.to_string())),
            Err(_) => Err(fail(format!("no response within {:?}", self.timeout))),
        }
    }
}

/// Returns the response of the program, or why it failed.
async fn exchange(mut command: Command, request: &[u8]) -> std::io::Result<Result<Vec<u8>, String>> {
    let mut child = command.spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write_request = async {
        if let Some(mut stdin) = stdin {
            // A program may respond without reading its input.
            let _ = stdin.write_all(request).await;
        }
    };
    let read_response = async {
        let mut response = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(MAX_RESPONSE_BYTES).read_to_end(&mut response).await?;
        }
        std::io::Result::Ok(response)
    };
    let read_stderr = async {
        let mut text = Vec::new();
        if let Some(mut stderr) = stderr {
            (&mut stderr).take(MAX_STDERR_BYTES).read_to_end(&mut text).await?;
            // The program would block on a full pipe.
            tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await?;
        }
        std::io::Result::Ok(text)
    };
    let ((), response, stderr) = tokio::join!(write_request, read_response, read_stderr);
    let (response, stderr) = (response?, stderr?);
    let status = child.wait().await?;
    let failure = || format!("{status}: {}", String::from_utf8_lossy(&stderr));
    Ok(if status.success() { Ok(response) } else { Err(failure()) })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn programs(script: &str) -> (tempfile::TempDir, ExecCredentialPrograms, CredentialProvider) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("helper");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let programs = ExecCredentialPrograms::new(folder.path());
        let provider = CredentialProvider {
            name: "helper".into(),
            match_images: Vec::new(),
            default_cache_duration: Duration::ZERO,
            api_version: String::new(),
            args: vec!["one; two".into()],
            env: BTreeMap::from([("WHO".to_owned(), "me".to_owned())]),
            token: None,
        };
        (folder, programs, provider)
    }

    #[tokio::test]
    async fn passes_request_arguments_and_environment_and_returns_the_response() {
        let (_folder, programs, provider) = programs(r#"cat; printf '%s' "|$1|$WHO|$PATH""#);
        let answer = programs.run(&provider, b"request".to_vec()).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("request|one; two|me|/"), "{answer}");
    }

    #[tokio::test]
    async fn failure_includes_stderr() {
        let (_folder, programs, provider) = programs("echo out of order >&2; exit 3");
        let error = programs.run(&provider, Vec::new()).await.unwrap_err();
        assert!(error.reason.contains("exit status: 3") && error.reason.contains("out of order"), "{error}");
    }

    #[tokio::test]
    async fn hanging_program_times_out() {
        let (_folder, mut programs, provider) = programs("exec sleep 100");
        programs.timeout = Duration::from_millis(200);
        let error = programs.run(&provider, Vec::new()).await.unwrap_err();
        assert!(error.reason.contains("no response"), "{error}");
    }
}
