//! Runs programs of the host, such as `mount`, with a timeout.

mod arguments;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};

pub(crate) use arguments::Arguments;

/// How long to wait for a killed program to exit; one that is blocked inside the kernel may never exit.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_OUTPUT_BYTES: u64 = 16 * 1024;

#[derive(Debug)]
pub(crate) struct HelperOutcome {
    /// The reason, in upstream's words; `None` on success.
    pub(crate) failure: Option<String>,
    /// Standard output and standard error together.
    pub(crate) output: String,
}

/// The end of the failure text if the program does not exist.
pub(crate) const NOT_INSTALLED: &str = "executable file not found in $PATH";

/// Runs a program to its end; for blocking threads. Kills the program and its children after `timeout`. Does not start
/// it with unsafe arguments.
pub(crate) fn run(program: &OsStr, arguments: &Arguments, timeout: Duration) -> HelperOutcome {
    match try_run(program, arguments, timeout) {
        Ok(outcome) => outcome,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let failure = format!("exec: {program:?}: {NOT_INSTALLED}");
            HelperOutcome { failure: Some(failure), output: String::new() }
        }
        Err(error) => HelperOutcome { failure: Some(error.to_string()), output: String::new() },
    }
}

/// Killed programs that had not exited yet. They are reaped when the next program runs, so that they do not stay
/// zombies.
static UNREAPED: Mutex<Vec<Child>> = Mutex::new(Vec::new());

fn try_run(program: &OsStr, arguments: &Arguments, timeout: Duration) -> io::Result<HelperOutcome> {
    let arguments = match arguments.accepted() {
        Ok(arguments) => arguments,
        Err(refusal) => return Err(io::Error::new(io::ErrorKind::InvalidInput, refusal.to_owned())),
    };
    UNREAPED.lock().retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    // A file, not a pipe: a surviving child that inherited it cannot block the read.
    let mut output = File::from(rustix::fs::memfd_create("output", rustix::fs::MemfdFlags::CLOEXEC)?);
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0)
        .spawn()?;
    let failure = match wait(&mut child, timeout)? {
        Some(status) if status.success() => None,
        Some(status) => Some(describe(status)),
        None => {
            let _ = rustix::process::kill_process_group(Pid::from_child(&child), Signal::KILL);
            if wait(&mut child, KILL_TIMEOUT)?.is_none() {
                UNREAPED.lock().push(child);
            }
            Some(format!("killed after {}s", timeout.as_secs()))
        }
    };
    let mut text = Vec::new();
    output.rewind()?;
    output.take(MAX_OUTPUT_BYTES).read_to_end(&mut text)?;
    Ok(HelperOutcome { failure, output: String::from_utf8_lossy(&text).into_owned() })
}

/// Waits for the exit, `None` after `limit`.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let watched = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
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

/// The exit status in upstream's words.
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

    fn shell(script: &str, timeout: Duration) -> HelperOutcome {
        run(OsStr::new("/bin/sh"), &Arguments::new(&["-c"]).operand(script), timeout)
    }

    #[test]
    fn returns_output_and_failure() {
        let outcome = shell("echo out; echo err >&2; exit 32", Duration::from_secs(60));
        assert_eq!(
            (outcome.failure.as_deref(), outcome.output.as_str()),
            (Some("exit status 32"), "out\nerr\n")
        );
        assert!(shell("true", Duration::from_secs(60)).failure.is_none());
        let missing = run(OsStr::new("no-such-helper"), &Arguments::default(), Duration::from_secs(60));
        let text = "exec: \"no-such-helper\": executable file not found in $PATH";
        assert_eq!(missing.failure.as_deref(), Some(text));
        let refused = run(OsStr::new("touch"), &Arguments::default().operand("--help"), Duration::ZERO);
        let text = "argument \"--help\" begins with a dash";
        assert_eq!((refused.failure.as_deref(), refused.output.as_str()), (Some(text), ""));
    }

    #[test]
    fn kills_hanging_program_with_its_children() {
        let outcome = shell("echo begun; sleep 1000 & sleep 1000", Duration::from_millis(300));
        assert_eq!(
            (outcome.failure.as_deref(), outcome.output.as_str()),
            (Some("killed after 0s"), "begun\n")
        );
    }

    #[test]
    fn reaps_killed_program_later() {
        let child = Command::new("/bin/sh").args(["-c", "exit 3"]).spawn().unwrap();
        let pid = Pid::from_child(&child);
        UNREAPED.lock().push(child);
        let is_reaped = || {
            shell("true", Duration::from_secs(60));
            // Only a process that was waited for has no such descriptor.
            rustix::process::pidfd_open(pid, PidfdFlags::empty()).is_err()
        };
        assert!((0..1000).any(|_| is_reaped()), "it stays a zombie");
    }
}
