//! Credential provider programs.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use model::CredentialProvider;
use ports::credential_sources::{CredentialPrograms, ProgramError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

/// How long a program may take.
const DEADLINE: Duration = Duration::from_secs(60);
/// No answer is larger.
const LARGEST_ANSWER: u64 = 10 << 20;
/// As much of stderr goes into the error.
const LARGEST_COMPLAINT: u64 = 2048;

/// Whether a program can be run.
///
/// # Errors
/// When there is no such file, or it is not executable.
pub fn check_program(path: &Path) -> std::io::Result<()> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("not a file"));
    }
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).map_err(Into::into)
}

/// Runs programs of one folder.
#[derive(Clone, Debug)]
pub struct ExecCredentialPrograms {
    folder: PathBuf,
    deadline: Duration,
}

impl ExecCredentialPrograms {
    /// Programs of that folder.
    #[must_use]
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), deadline: DEADLINE }
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
        match tokio::time::timeout(self.deadline, exchange(command, &request)).await {
            Ok(Ok(exchanged)) if exchanged.success => Ok(exchanged.answer),
            Ok(Ok(exchanged)) => Err(fail(exchanged.complaint)),
            Ok(Err(error)) => Err(fail(error.to_string())),
            Err(_) => Err(fail(format!("no answer in {:?}", self.deadline))),
        }
    }
}

struct Exchanged {
    success: bool,
    answer: Vec<u8>,
    complaint: String,
}

async fn exchange(mut command: Command, request: &[u8]) -> std::io::Result<Exchanged> {
    let mut child = command.spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let say = async {
        if let Some(mut stdin) = stdin {
            // A program may answer without reading; that is its business.
            let _ = stdin.write_all(request).await;
        }
    };
    let hear = async {
        let mut answer = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(LARGEST_ANSWER).read_to_end(&mut answer).await?;
        }
        std::io::Result::Ok(answer)
    };
    let hear_complaint = async {
        let mut complaint = Vec::new();
        if let Some(mut stderr) = stderr {
            (&mut stderr).take(LARGEST_COMPLAINT).read_to_end(&mut complaint).await?;
            // What is not read would block the program.
            tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await?;
        }
        std::io::Result::Ok(complaint)
    };
    let ((), answer, complaint) = tokio::join!(say, hear, hear_complaint);
    let (answer, complaint) = (answer?, complaint?);
    let status = child.wait().await?;
    let complaint = format!("{status}: {}", String::from_utf8_lossy(&complaint));
    Ok(Exchanged { success: status.success(), answer, complaint })
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
    async fn passes_request_arguments_and_environment_and_returns_the_answer() {
        let (_folder, programs, provider) = programs(r#"cat; printf '%s' "|$1|$WHO|$PATH""#);
        let answer = programs.run(&provider, b"request".to_vec()).await.unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("request|one; two|me|/"), "{answer}");
    }

    #[tokio::test]
    async fn a_failure_tells_what_the_program_said() {
        let (_folder, programs, provider) = programs("echo out of order >&2; exit 3");
        let error = programs.run(&provider, Vec::new()).await.unwrap_err();
        assert!(error.reason.contains("exit status: 3") && error.reason.contains("out of order"), "{error}");
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_given_up() {
        let (_folder, mut programs, provider) = programs("exec sleep 100");
        programs.deadline = Duration::from_millis(200);
        let error = programs.run(&provider, Vec::new()).await.unwrap_err();
        assert!(error.reason.contains("no answer"), "{error}");
    }
}
