//! Exits of processes by pidfd.

use std::io;
use std::os::fd::OwnedFd;

use async_trait::async_trait;
use ports::process_watch::ProcessWatch;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// [`ProcessWatch`] by pidfd (Linux 5.3 and later). A process that has exited but was not waited for counts
/// as exited.
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

#[expect(unsafe_code, reason = "tokio offers no safe way to register a descriptor that is owned")]
pub(crate) fn watchable(process: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is open for as long as it lives, always names the same descriptor, and lives in
    // the `AsyncFd` from here on.
    let registered = unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) };
    Ok(registered?)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(60);

    #[tokio::test]
    async fn returns_when_the_process_is_killed_and_not_before() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = child.id();
        let watch = tokio::spawn(async move { PidfdProcessWatch.exited(pid).await });
        let early = timeout(Duration::from_millis(50), PidfdProcessWatch.exited(pid)).await;
        child.kill().unwrap();
        assert!(early.is_err(), "returned while the process ran");
        timeout(SOON, watch).await.unwrap().unwrap().unwrap();
        // Not waited for yet: a zombie has exited too.
        timeout(SOON, PidfdProcessWatch.exited(pid)).await.unwrap().unwrap();
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn returns_at_once_when_there_is_no_such_process() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        for pid in [child.id(), 0, u32::MAX, 0x7fff_ffff] {
            timeout(SOON, PidfdProcessWatch.exited(pid)).await.unwrap().unwrap();
        }
    }
}
