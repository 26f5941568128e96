//! Signals as values: they are blocked for the whole process and taken one by one.
//!
//! Blocking matters for process 1 of a PID namespace: the kernel drops signals that it neither
//! blocks nor handles, so an unprepared `sleep` could only be killed.
#![expect(unsafe_code, reason = "the standard library has no signal API; each call is one libc function")]

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// What arrived, or that the time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// SIGTERM or SIGINT: the container is asked to stop.
    Stop,
    /// SIGCHLD: at least one child ended and was reaped.
    Child,
    /// Nothing arrived within the time given.
    Timeout,
}

/// Blocks the signals that [`next`] returns.
pub(crate) fn hold() -> io::Result<()> {
    let set = held();
    // SAFETY: `set` is an initialised signal set and the old mask is not asked for.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Waits for the next signal, without end when `limit` is `None`.
pub(crate) fn next(limit: Option<Duration>) -> Arrival {
    let set = held();
    let limit = limit.unwrap_or(Duration::from_secs(365 * 24 * 3600));
    let time = libc::timespec {
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: libc::c_long::from(limit.subsec_nanos()),
    };
    // SAFETY: both pointers are to initialised values that outlive the call; no siginfo is asked for.
    match unsafe { libc::sigtimedwait(&raw const set, std::ptr::null_mut(), &raw const time) } {
        libc::SIGCHLD => {
            reap();
            Arrival::Child
        }
        libc::SIGTERM | libc::SIGINT => Arrival::Stop,
        _ => Arrival::Timeout,
    }
}

fn reap() {
    // SAFETY: waitpid with a null status pointer writes nothing.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

fn held() -> libc::sigset_t {
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
