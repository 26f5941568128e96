//! The machine: commands, files, waiting.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// Emulation on a busy host is slow; only a failing check waits that long.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(900);

pub(crate) fn boot() -> u32 {
    std::env::var("VM_BOOT").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

pub(crate) fn files() -> PathBuf {
    std::env::var_os("VM_FILES").map_or("/mnt/files".into(), PathBuf::from)
}

pub(crate) fn results() -> PathBuf {
    std::env::var_os("VM_RESULTS").map_or("/var/lib/vm/results".into(), PathBuf::from)
}

/// Runs a shell command with a time limit and returns its output; a failure contains both streams.
pub(crate) fn sh(command: &str) -> Result<String> {
    let output = Command::new("timeout")
        .args([&TIMEOUT.as_secs().to_string(), "sh", "-c", command])
        .output()
        .with_context(|| format!("start {command}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command}: {}\n{text}{errors}", output.status);
    Ok(text)
}

pub(crate) fn write(path: impl AsRef<Path>, text: &str) -> Result<()> {
    let path = path.as_ref();
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    }
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

pub(crate) fn read(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

/// Retries until the answer is `Ok`, for at most [`TIMEOUT`].
pub(crate) fn eventually<T>(what: &str, mut question: impl FnMut() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    loop {
        match question() {
            Ok(answer) => return Ok(answer),
            Err(error) if start.elapsed() >= TIMEOUT => {
                return Err(error).with_context(|| format!("{what}: not within {TIMEOUT:?}"));
            }
            // More questions would take processor time from the answer, in emulation.
            Err(_) => pause(Duration::from_secs(1)),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this program has no async runtime")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Ends this boot; the program is started again in the next one.
pub(crate) fn power_off() -> Result<()> {
    sh("vm-power-off")?;
    pause(Duration::from_secs(600));
    bail!("the machine did not power off within 10 minutes")
}
