//! System calls that no dependency wraps. Each function is one call; nothing here decides anything.

#![expect(unsafe_code, reason = "system calls without a safe wrapper")]

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_uint};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

use rustix::io::{Errno, Result};
use rustix::process::Pid;

use super::seccomp::Instruction;

/// Attributes of a mount for `mount_setattr`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MountAttributes<'a> {
    pub set: u64,
    pub propagation: u64,
    /// The namespace whose ids the files have on disk. Needs `MOUNT_ATTR_IDMAP` in `set`.
    pub user_namespace: Option<BorrowedFd<'a>>,
}

/// The two sides of a new process.
pub(crate) enum Forked {
    Parent(Pid, OwnedFd),
    Child,
}

/// `clone3` without a new stack: the child continues here, with a copy of the memory.
///
/// The caller guarantees that this process has one thread; otherwise locks of other threads stay locked in the child.
pub(crate) fn clone_process(namespaces: c_uint) -> Result<Forked> {
    clone3(u64::from(namespaces), libc::SIGCHLD)
}

/// Like [`clone_process`], but the new process is a child of this process's parent.
pub(crate) fn clone_sibling(namespaces: c_uint) -> Result<Forked> {
    clone3(u64::from(namespaces) | libc::CLONE_PARENT as u64, 0)
}

fn clone3(flags: u64, exit_signal: i32) -> Result<Forked> {
    let mut pidfd: RawFd = -1;
    // SAFETY: `clone_args` is a plain struct of integers, for which zero is valid.
    let mut arguments: libc::clone_args = unsafe { std::mem::zeroed() };
    arguments.flags = flags | libc::CLONE_PIDFD as u64;
    arguments.exit_signal = u64::from(exit_signal.unsigned_abs());
    arguments.pidfd = ptr::from_mut(&mut pidfd) as u64;
    // SAFETY: the arguments are valid for their size; without CLONE_VM the child has its own memory and stack.
    let result = unsafe {
        libc::syscall(libc::SYS_clone3, ptr::from_mut(&mut arguments), size_of::<libc::clone_args>())
    };
    match check(result)? {
        0 => Ok(Forked::Child),
        pid => {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?;
            // SAFETY: the kernel stored a new descriptor, which has no other owner.
            Ok(Forked::Parent(pid, unsafe { OwnedFd::from_raw_fd(pidfd) }))
        }
    }
}

/// Moves this process to new namespaces.
pub(crate) fn unshare(namespaces: c_int) -> Result<()> {
    // SAFETY: takes no memory. The flags name namespaces only, so nothing that Rust relies on changes.
    check(c_long::from(unsafe { libc::unshare(namespaces) })).map(drop)
}

/// Ends this process without running exit handlers, which belong to the parent.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: takes no memory.
    unsafe { libc::_exit(code) }
}

pub(crate) fn mount_setattr(
    mount: BorrowedFd<'_>,
    attributes: MountAttributes<'_>,
    recursive: bool,
) -> Result<()> {
    let namespace = attributes.user_namespace.map_or(0, |namespace| namespace.as_raw_fd().unsigned_abs());
    let arguments = [attributes.set, 0, attributes.propagation, u64::from(namespace)];
    let mut flags = libc::AT_EMPTY_PATH;
    if recursive {
        flags |= libc::AT_RECURSIVE;
    }
    // SAFETY: `arguments` has the layout and size of `struct mount_attr`; the path is an empty C string.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            arguments.as_ptr(),
            size_of_val(&arguments),
        )
    };
    check(result).map(drop)
}

/// Closes all descriptors from `first` to `last`.
pub(crate) fn close_range(first: c_uint, last: c_uint) -> Result<()> {
    // SAFETY: takes no memory. The caller does not use the closed descriptors again: it is about to execute a program.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) }).map(drop)
}

/// Gives this process a new session keyring that only its possessor may use or see.
pub(crate) fn new_session_keyring(name: &CStr) -> Result<()> {
    const POSSESSOR_ALL: c_long = 0x3f00_0000;
    // SAFETY: the name is a C string.
    let key =
        check(unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_JOIN_SESSION_KEYRING, name.as_ptr()) })?;
    // SAFETY: takes no memory.
    let result = unsafe { libc::syscall(libc::SYS_keyctl, libc::KEYCTL_SETPERM, key, POSSESSOR_ALL) };
    check(result).map(drop)
}

/// Installs a seccomp filter in this thread.
pub(crate) fn install_filter(program: &[Instruction], flags: u32) -> Result<()> {
    let length = libc::c_ushort::try_from(program.len()).map_err(|_| Errno::INVAL)?;
    // `Instruction` has the layout of `sock_filter`; the kernel only reads the program.
    let program = libc::sock_fprog { len: length, filter: program.as_ptr().cast_mut().cast() };
    // SAFETY: the program is valid for its length during the call.
    let result = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, ptr::from_ref(&program))
    };
    check(result).map(drop)
}

/// Executes a program; returns only if that fails.
pub(crate) fn execute(program: &CStr, arguments: &[CString], environment: &[CString]) -> Errno {
    let pointers = |list: &[CString]| -> Vec<*const c_char> {
        list.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let (arguments, environment) = (pointers(arguments), pointers(environment));
    // SAFETY: both lists end with a null pointer, and their strings live until the call returns.
    unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), environment.as_ptr()) };
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

/// Replaces standard input, output and error.
pub(crate) fn replace_stdio(streams: [BorrowedFd<'_>; 3]) -> Result<()> {
    for (target, stream) in (0..).zip(streams) {
        // SAFETY: takes no memory; descriptors 0 to 2 are not owned by any Rust object.
        check(c_long::from(unsafe { libc::dup2(stream.as_raw_fd(), target) }))?;
    }
    Ok(())
}

/// Sends a signal, also a real-time one.
pub(crate) fn pidfd_send_signal(process: BorrowedFd<'_>, signal: i32) -> Result<()> {
    // SAFETY: the information of the signal is left out; takes no other memory.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            process.as_raw_fd(),
            signal,
            ptr::null::<libc::siginfo_t>(),
            0,
        )
    };
    check(result).map(drop)
}

/// A child that has ended and was not waited for, if there is one.
pub(crate) fn ended_child() -> Option<Pid> {
    // SAFETY: zero is a valid value of the structure, which the next call fills in.
    let mut information: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `information` is valid during the call.
    let result = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut information, options) };
    // SAFETY: a successful call has set the field, or left it zero if there is no such child.
    let pid = (result == 0).then(|| unsafe { information.si_pid() })?;
    Pid::from_raw(pid)
}

/// A descriptor that becomes readable when a child ends. The signal stays blocked in this process.
pub(crate) fn exit_signals() -> Result<OwnedFd> {
    // SAFETY: zero is a valid value of the set, which the next two calls fill in and read.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a valid signal set during all three calls.
    let result = unsafe {
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
        libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK)
    };
    let descriptor = check(c_long::from(result))?;
    let descriptor = RawFd::try_from(descriptor).map_err(|_| Errno::INVAL)?;
    // SAFETY: the kernel made a new descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Gives all signals their default action and blocks none. Rust programs ignore SIGPIPE, and a program that is executed would
/// inherit that.
pub(crate) fn reset_signals() -> Result<()> {
    // `struct sigaction` of the kernel: handler, flags, restorer and mask. The C library's call refuses its own two signals.
    let default = [libc::SIG_DFL as u64, 0, 0, 0];
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: `default` is large enough on all architectures; the default action runs no code of this process. The call fails for
        // SIGKILL and SIGSTOP.
        unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                ptr::null::<u64>(),
                size_of::<u64>(),
            )
        };
    }
    // SAFETY: zero is a valid value of the set, which the next call fills in.
    let mut none: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `none` is a valid signal set during both calls.
    let result = unsafe {
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut())
    };
    check(c_long::from(result)).map(drop)
}

fn check(result: c_long) -> Result<c_long> {
    if result >= 0 {
        return Ok(result);
    }
    Err(std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
}
