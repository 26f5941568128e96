//! Kernel samples of one thread, and the ring buffer that the kernel writes them to.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::registers;

/// Processor time between two samples of a thread, in nanoseconds: 100 Hz, like Go.
pub(super) const PERIOD_NANOS: u64 = 10_000_000;

/// How much of the stack a sample holds; enough for deep chains of futures.
const STACK_BYTES: u32 = 32 * 1024;

/// Room for seven samples, which a thread produces in 70 ms at the fastest.
const RING_BYTES: usize = 256 * 1024;

pub(super) struct ThreadEvents {
    ring: Ring,
    /// Closing the descriptor ends the sampling.
    _event: OwnedFd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Includes time in the kernel.
    All,
    /// Excludes time in the kernel, for processes without permission to sample it.
    OwnCode,
}

impl ThreadEvents {
    /// Starts to sample a thread of this process.
    pub(super) fn open(thread: u32, scope: Scope) -> io::Result<Self> {
        let event = open_event(thread, scope)?;
        Ok(Self { ring: Ring::map(&event)?, _event: event })
    }

    /// Replaces `into` with the bytes that the kernel wrote since the last call.
    pub(super) fn take(&mut self, into: &mut Vec<u8>) {
        self.ring.take(into);
    }
}

/// The kernel's `perf_event_attr`, version 5. A stable kernel interface.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    config_1: u64,
    config_2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_interrupt: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;
const SAMPLE_REGS_USER: u64 = 1 << 12;
const SAMPLE_STACK_USER: u64 = 1 << 13;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;

#[expect(unsafe_code, reason = "no dependency wraps this system call")]
fn open_event(thread: u32, scope: Scope) -> io::Result<OwnedFd> {
    let kernel = match scope {
        Scope::All => 0,
        Scope::OwnCode => EXCLUDE_KERNEL,
    };
    let attributes = Attributes {
        kind: SOFTWARE,
        size: u32::try_from(size_of::<Attributes>()).unwrap_or_default(),
        config: CPU_CLOCK,
        sample_period: PERIOD_NANOS,
        sample_type: SAMPLE_REGS_USER | SAMPLE_STACK_USER,
        flags: EXCLUDE_HYPERVISOR | kernel,
        sample_regs_user: registers::SAMPLED,
        sample_stack_user: STACK_BYTES,
        ..Attributes::default()
    };
    let thread = libc::pid_t::try_from(thread).map_err(io::Error::other)?;
    let (any_cpu, no_group): (libc::c_int, libc::c_int) = (-1, -1);
    // SAFETY: the kernel reads `size` bytes of the attributes and keeps no pointer to them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread,
            any_cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    let descriptor = i32::try_from(result).map_err(io::Error::other)?;
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Memory that the kernel writes and this process reads: a control page, then the ring.
struct Ring {
    start: NonNull<u8>,
    page: usize,
}

/// Offsets in the control page of the kernel's write position and of the reader's position.
const HEAD_OFFSET: usize = 1024;
const TAIL_OFFSET: usize = 1032;

#[expect(unsafe_code, reason = "memory shared with the kernel")]
// SAFETY: only the owner of the ring accesses its memory within this process.
unsafe impl Send for Ring {}

#[expect(unsafe_code, reason = "memory shared with the kernel")]
impl Ring {
    fn map(event: &OwnedFd) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses does not affect existing memory.
        let start =
            unsafe { mmap(std::ptr::null_mut(), page + RING_BYTES, access, MapFlags::SHARED, event, 0)? };
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Self { start, page })
    }

    fn counter(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: inside the control page, which lives as long as `self`; aligned; the kernel accesses it atomically.
        unsafe { AtomicU64::from_ptr(self.start.add(offset).cast().as_ptr()) }
    }

    fn take(&self, into: &mut Vec<u8>) {
        into.clear();
        let head = self.counter(HEAD_OFFSET).load(Ordering::Acquire);
        let tail = self.counter(TAIL_OFFSET).load(Ordering::Relaxed);
        let size = RING_BYTES as u64;
        // The kernel is never ahead by more than the size of the ring.
        let written = head.wrapping_sub(tail).min(size);
        let position = (tail % size) as usize;
        let (first, rest) = (
            (written as usize).min(RING_BYTES - position),
            (written as usize).saturating_sub(RING_BYTES - position),
        );
        into.reserve(first + rest);
        // SAFETY: both parts lie inside the ring, the kernel does not write between tail and head until the tail moves,
        // and the capacity was reserved above.
        unsafe {
            let ring = self.start.add(self.page).as_ptr();
            std::ptr::copy_nonoverlapping(ring.add(position), into.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(ring, into.as_mut_ptr().add(first), rest);
            into.set_len(first + rest);
        }
        self.counter(TAIL_OFFSET).store(head, Ordering::Release);
    }
}

#[expect(unsafe_code, reason = "memory shared with the kernel")]
impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping was created by `map`, and nothing refers to it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.page + RING_BYTES) };
    }
}
