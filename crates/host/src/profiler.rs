//! What this process can tell of itself: where its processor time goes, its threads, its memory.
//!
//! ```text
//!  kernel ─► events (a ring per thread) ─► records ─► unwind ─► sampling (each stack once) ─► symbols ─► the profile
//! ```
//! Samples are taken by the kernel: no signal interrupts a thread, and none of them runs code of ours. See
//! `docs/adr/0006-processor-profiles-by-the-kernel.md`.

mod elf;
mod events;
mod memory;
mod modules;
mod records;
mod registers;
mod sampling;
mod symbols;
mod threads;
mod unwind;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use async_trait::async_trait;
use ports::profiler::{MemoryFacts, ProcessorProfile, Profiler, ProfilerError, ThreadFacts};
use tokio::sync::oneshot;

use sampling::Sampling;

/// Looks at this process.
#[derive(Clone, Debug, Default)]
pub struct OwnProfiler {
    in_use: Arc<AtomicBool>,
}

#[async_trait]
impl Profiler for OwnProfiler {
    async fn processor_time(&self, length: Duration) -> Result<ProcessorProfile, ProfilerError> {
        let turn = Turn::take(&self.in_use)?;
        let (result, told) = oneshot::channel();
        // Held by this future: whoever drops it ends the sampling.
        let (_asking, stop) = mpsc::channel();
        // A thread of its own: a runtime whose workers are all busy is what somebody wants to look at.
        std::thread::Builder::new()
            .name("profiler".to_owned())
            .spawn(move || {
                let profile = sample(length, &stop);
                crate::give_memory_back();
                drop(turn);
                // Nobody waits any more when the caller gave up.
                let _unheard = result.send(profile);
            })
            .map_err(|error| ProfilerError::Failed("no thread to profile with", error))?;
        let died = |_| ProfilerError::Failed("the profiler's thread failed", io::Error::other("it panicked"));
        told.await.map_err(died)?
    }

    fn threads(&self) -> io::Result<Vec<ThreadFacts>> {
        threads::read()
    }

    fn memory(&self) -> io::Result<MemoryFacts> {
        memory::read()
    }
}

/// Samples until the time is over or nobody waits.
fn sample(length: Duration, stop: &mpsc::Receiver<()>) -> Result<ProcessorProfile, ProfilerError> {
    let mut sampling = Sampling::start()?;
    let begun = std::time::Instant::now();
    while let Some(rest) = length.checked_sub(begun.elapsed()).filter(|rest| !rest.is_zero()) {
        match stop.recv_timeout(rest.min(sampling::TICK)) {
            Err(mpsc::RecvTimeoutError::Timeout) => sampling.tick(),
            Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(ProcessorProfile::default()),
        }
    }
    Ok(sampling.finish())
}

/// The right to sample, given back when dropped.
struct Turn(Arc<AtomicBool>);

impl Turn {
    fn take(in_use: &Arc<AtomicBool>) -> Result<Self, ProfilerError> {
        if in_use.swap(true, Ordering::AcqRel) {
            return Err(ProfilerError::InUse);
        }
        Ok(Self(in_use.clone()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests;
