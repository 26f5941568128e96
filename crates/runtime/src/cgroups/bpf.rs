//! Loads device programs and attaches them to cgroups of version 2.

#![expect(unsafe_code, reason = "no dependency wraps bpf(2)")]

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::{io, ptr};

use super::device_program::Instruction;

const LOAD: libc::c_int = 5;
const ATTACH: libc::c_int = 8;
const TYPE_CGROUP_DEVICE: u32 = 15;
const ATTACH_CGROUP_DEVICE: u32 = 6;
const ALLOW_MULTIPLE: u32 = 2;
/// The kernel asks to try again while it verifies another program.
const TRIES: usize = 30;

/// The part of `union bpf_attr` that loading needs.
#[repr(C)]
struct LoadArguments {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

#[repr(C)]
struct AttachArguments {
    cgroup: u32,
    program: u32,
    attach_type: u32,
    flags: u32,
}

/// Attaches a program, which stays as long as the cgroup. Programs of ancestors apply too.
pub(super) fn attach(cgroup: BorrowedFd<'_>, program: &[Instruction]) -> io::Result<()> {
    let program = load(program)?;
    let number = |descriptor: RawFd| u32::try_from(descriptor).map_err(io::Error::other);
    let arguments = AttachArguments {
        cgroup: number(cgroup.as_raw_fd())?,
        program: number(program.as_raw_fd())?,
        attach_type: ATTACH_CGROUP_DEVICE,
        flags: ALLOW_MULTIPLE,
    };
    // SAFETY: the arguments are valid for their size during the call.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, ATTACH, ptr::from_ref(&arguments), size_of::<AttachArguments>())
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn load(program: &[Instruction]) -> io::Result<OwnedFd> {
    let arguments = LoadArguments {
        program_type: TYPE_CGROUP_DEVICE,
        instruction_count: u32::try_from(program.len()).map_err(io::Error::other)?,
        instructions: program.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    for _ in 0..TRIES {
        // SAFETY: the arguments, the program and the license are valid during the call.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, LOAD, ptr::from_ref(&arguments), size_of::<LoadArguments>())
        };
        if let Ok(descriptor) = RawFd::try_from(result)
            && descriptor >= 0
        {
            // SAFETY: the kernel made a new descriptor, which has no other owner.
            return Ok(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EAGAIN) {
            return Err(error);
        }
    }
    Err(io::Error::from_raw_os_error(libc::EAGAIN))
}
