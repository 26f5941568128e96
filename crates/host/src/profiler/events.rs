//! The kernel's samples of one thread, and the ring it writes them into.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::registers;

/// Processor time between two samples of a thread, in nanoseconds: a hundred in a second, as Go takes them.
pub(super) const PERIOD: u64 = 10_000_000;

/// How much of a stack a sample holds. Deep chains of futures fit.
const STACK: u32 = 32 * 1024;

/// Bytes of a ring: room for seven samples, which a thread makes in seventy milliseconds at the fastest.
const RING: usize = 256 * 1024;

/// The sampling of one thread.
pub(super) struct ThreadEvents {
    ring: Ring,
    /// Closing it ends the sampling.
    _event: OwnedFd,
}

/// Whether time in the kernel counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// All processor time.
    All,
    /// Only time in the thread's own code, for those whom the kernel does not let see more.
    OwnCode,
}

impl ThreadEvents {
    /// Begins to sample a thread of this process.
    pub(super) fn open(thread: u32, scope: Scope) -> io::Result<Self> {
        let event = open_event(thread, scope)?;
        Ok(Self { ring: Ring::map(&event)?, _event: event })
    }

    /// Takes what the kernel wrote since the last time.
    pub(super) fn take(&mut self, into: &mut Vec<u8>) {
        self.ring.take(into);
    }
}

/// The kernel's `perf_event_attr` in its fifth version. Public interface: its order and sizes never change.
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

#[expect(unsafe_code, reason = "no library we have knows this system call")]
fn open_event(thread: u32, scope: Scope) -> io::Result<OwnedFd> {
    let kernel = match scope {
        Scope::All => 0,
        Scope::OwnCode => EXCLUDE_KERNEL,
    };
    let attributes = Attributes {
        kind: SOFTWARE,
        size: u32::try_from(size_of::<Attributes>()).unwrap_or_default(),
        config: CPU_CLOCK,
        sample_period: PERIOD,
        sample_type: SAMPLE_REGS_USER | SAMPLE_STACK_USER,
        flags: EXCLUDE_HYPERVISOR | kernel,
        sample_regs_user: registers::WANTED,
        sample_stack_user: STACK,
        ..Attributes::default()
    };
    let thread = libc::pid_t::try_from(thread).map_err(io::Error::other)?;
    let (any_cpu, no_group): (libc::c_int, libc::c_int) = (-1, -1);
    // SAFETY: the kernel reads `size` bytes of the attributes and keeps no pointer to them.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread,
            any_cpu,
            no_group,
            CLOSE_ON_EXEC,
        )
    };
    let descriptor = i32::try_from(answer).map_err(io::Error::other)?;
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Memory that the kernel writes and this process reads: a page about the ring, then the ring.
struct Ring {
    start: NonNull<u8>,
    page: usize,
}

/// Where the first page says how far the kernel has written, and how far we have read.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

#[expect(unsafe_code, reason = "memory shared with the kernel")]
// SAFETY: whoever has the ring is the only one of this process who touches its memory.
unsafe impl Send for Ring {}

#[expect(unsafe_code, reason = "memory shared with the kernel")]
impl Ring {
    fn map(event: &OwnedFd) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at a place that the kernel chooses touches nothing that exists.
        let start = unsafe { mmap(std::ptr::null_mut(), page + RING, access, MapFlags::SHARED, event, 0)? };
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped nowhere"))?;
        Ok(Self { start, page })
    }

    fn counter(&self, at: usize) -> &AtomicU64 {
        // SAFETY: inside the first page, which lives as long as `self`, aligned, and written by others only as a whole.
        unsafe { AtomicU64::from_ptr(self.start.add(at).cast().as_ptr()) }
    }

    fn take(&self, into: &mut Vec<u8>) {
        into.clear();
        let head = self.counter(HEAD).load(Ordering::Acquire);
        let tail = self.counter(TAIL).load(Ordering::Relaxed);
        let size = RING as u64;
        // The kernel is never further ahead than the ring is long.
        let written = head.wrapping_sub(tail).min(size);
        let at = (tail % size) as usize;
        let (first, rest) = ((written as usize).min(RING - at), (written as usize).saturating_sub(RING - at));
        into.reserve(first + rest);
        // SAFETY: both pieces lie inside the ring; the kernel writes nothing between tail and head until the tail moves;
        // the bytes were reserved.
        unsafe {
            let ring = self.start.add(self.page).as_ptr();
            std::ptr::copy_nonoverlapping(ring.add(at), into.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(ring, into.as_mut_ptr().add(first), rest);
            into.set_len(first + rest);
        }
        self.counter(TAIL).store(head, Ordering::Release);
    }
}

#[expect(unsafe_code, reason = "memory shared with the kernel")]
impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, which nothing refers to any more.
        let _gone = unsafe { munmap(self.start.as_ptr().cast(), self.page + RING) };
    }
}
