//! Synchronous signal handling: signals are blocked in the whole process and received one by one.
//!
//! Process 1 of a PID namespace must block or handle signals: the kernel drops all others, so
//! that a plain `sleep` could only be killed with SIGKILL.
#![expect(unsafe_code, reason = "the standard library has no signal API; each call is one libc function")]

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// SIGTERM or SIGINT.
    Stop,
    /// SIGCHLD: at least one child exited and was reaped.
    Child,
    Timeout,
}

/// Blocks the signals that [`next`] returns.
pub(crate) fn block() -> io::Result<()> {
    let set = blocked_signals();
    // SAFETY: `set` is an initialised signal set, and the pointer for the old mask may be null.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Waits for the next signal, forever if `limit` is `None`.
pub(crate) fn next(limit: Option<Duration>) -> Event {
    let set = blocked_signals();
    let limit = limit.unwrap_or(Duration::from_secs(365 * 24 * 3600));
    let time = libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
    };
    // SAFETY: both pointers are valid for the call, and the pointer for the siginfo may be null.
    match unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const time) } {
        libc::SIGCHLD => {
            reap();
            Event::Child
        }
        libc::SIGTERM | libc::SIGINT => Event::Stop,
        _ => Event::Timeout,
    }
}

fn reap() {
    // SAFETY: waitpid with a null status pointer writes nothing.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

fn blocked_signals() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the whole set, sigaddset then only sets bits in it.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGCHLD] {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        set.assume_init()
    }
}
