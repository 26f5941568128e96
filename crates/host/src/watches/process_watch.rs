//! Waits for the exit of processes, through pidfds.

use std::io;
use std::os::fd::OwnedFd;

use async_trait::async_trait;
use ports::host::process_watch::ProcessWatch;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// [`ProcessWatch`] through pidfds (Linux 5.3 and later). A zombie counts as exited.
#[derive(Clone, Copy, Debug, Default)]
pub struct PidfdProcessWatch;

#[async_trait]
impl ProcessWatch for PidfdProcessWatch {
    async fn exited(&self, pid: u32) -> Result<(), io::Error> {
        let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => process,
            Err(Errno::SRCH) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        watchable(process)?.readable().await?.retain_ready();
        Ok(())
    }
}

#[expect(unsafe_code, reason = "tokio has no safe function to register an owned descriptor")]
pub(crate) fn watchable(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` stays open and refers to the same descriptor as long as it lives, and the `AsyncFd` owns it
    // from here on.
    let registered = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    Ok(registered?)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn returns_only_after_the_process_is_killed() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id();
        let watch = tokio::spawn(async move { PidfdProcessWatch.exited(pid).await });
        let early = timeout(Duration::from_millis(50), PidfdProcessWatch.exited(pid)).await;
        child.kill().unwrap();
        assert!(early.is_err(), "returned while the process ran");
        timeout(TIMEOUT, watch).await.unwrap().unwrap().unwrap();
        // A zombie counts as exited.
        timeout(TIMEOUT, PidfdProcessWatch.exited(pid)).await.unwrap().unwrap();
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn returns_at_once_without_such_a_process() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        for pid in [child.id(), 0, u32::MAX, 0x7fff_ffff] {
            timeout(TIMEOUT, PidfdProcessWatch.exited(pid)).await.unwrap().unwrap();
        }
    }
}
