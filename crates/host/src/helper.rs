//! Programs of the host that do one job, such as `mount`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};

/// How long a killed program may take to go; one that waits inside the kernel does not go at all.
const AFTER_KILL: Duration = Duration::from_secs(2);
/// The most of a program's words that is kept.
const LONGEST_OUTPUT: u64 = 16 * 1024;

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Why it counts as failed, `None` on success.
    pub(crate) failure: Option<String>,
    /// What it wrote, standard output and error together.
    pub(crate) output: String,
}

/// Why a program that is not there could not be run.
pub(crate) const NOT_INSTALLED: &str = "executable file not found in $PATH";

/// Runs a program to its end; for blocking threads. One that takes longer than `deadline` is killed with everything it
/// started.
pub(crate) fn run(program: &OsStr, arguments: &[OsString], deadline: Duration) -> Ended {
    match try_run(program, arguments, deadline) {
        Ok(ended) => ended,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let failure = format!("exec: {program:?}: {NOT_INSTALLED}");
            Ended { failure: Some(failure), output: String::new() }
        }
        Err(error) => Ended { failure: Some(error.to_string()), output: String::new() },
    }
}

/// Programs that were killed and were still there: they are waited for when the next one runs, or they would stay in the
/// kernel's table for ever.
static LINGERING: Mutex<Vec<Child>> = Mutex::new(Vec::new());

fn lingering() -> MutexGuard<'static, Vec<Child>> {
    LINGERING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bury() {
    lingering().retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

fn try_run(program: &OsStr, arguments: &[OsString], deadline: Duration) -> io::Result<Ended> {
    bury();
    // A file, not a pipe: whoever inherits it and lives on cannot keep us waiting for its end.
    let mut output = File::from(rustix::fs::memfd_create("output", rustix::fs::MemfdFlags::CLOEXEC)?);
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0)
        .spawn()?;
    let failure = match wait(&mut child, deadline)? {
        Some(status) if status.success() => None,
        Some(status) => Some(describe(status)),
        None => {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            if wait(&mut child, AFTER_KILL)?.is_none() {
                lingering().push(child);
            }
            Some(format!("killed after {}s", deadline.as_secs()))
        }
    };
    let mut text = Vec::new();
    output.rewind()?;
    output.take(LONGEST_OUTPUT).read_to_end(&mut text)?;
    Ok(Ended { failure, output: String::from_utf8_lossy(&text).into_owned() })
}

/// Waits for the end, `None` if it does not come in time.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return child.wait().map(Some);
    };
    let watched = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let limit = Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    let mut fds = [PollFd::new(&watched, PollFlags::IN)];
    loop {
        match rustix::event::poll(&mut fds, Some(&limit)) {
            Ok(0) => return Ok(None),
            Ok(_) => return child.wait().map(Some),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// In the words upstream's messages use.
fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, deadline: Duration) -> Ended {
        run(OsStr::new("/bin/sh"), &["-c".into(), script.into()], deadline)
    }

    #[test]
    fn output_and_failure_are_told() {
        let ended = shell("echo out; echo err >&2; exit 32", Duration::from_secs(60));
        assert_eq!((ended.failure.as_deref(), ended.output.as_str()), (Some("exit status 32"), "out\nerr\n"));
        assert!(shell("true", Duration::from_secs(60)).failure.is_none());
        let missing = run(OsStr::new("no-such-helper"), &[], Duration::from_secs(60));
        let text = "exec: \"no-such-helper\": executable file not found in $PATH";
        assert_eq!(missing.failure.as_deref(), Some(text));
    }

    #[test]
    fn a_program_that_hangs_is_killed_with_its_children() {
        let ended = shell("echo begun; sleep 1000 & sleep 1000", Duration::from_millis(300));
        assert_eq!((ended.failure.as_deref(), ended.output.as_str()), (Some("killed after 0s"), "begun\n"));
    }

    #[test]
    fn a_program_that_outlived_its_kill_is_waited_for_later() {
        let child = Command::new("/bin/sh").args(["-c", "exit 3"]).spawn().unwrap();
        let pid = Pid::from_child(&child);
        lingering().push(child);
        let gone = || {
            shell("true", Duration::from_secs(60));
            // Only a process that was waited for has no such descriptor.
            rustix::process::pidfd_open(pid, PidfdFlags::empty()).is_err()
        };
        assert!((0..1000).any(|_| gone()), "it stays a zombie");
    }
}
