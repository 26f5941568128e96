//! Processor profiles, sampled by the kernel.
//!
//! ```text
//!  kernel ─► events (a ring per thread) ─► records ─► unwind ─► sampling (each stack once) ─► symbols ─► profile
//! ```
//! The kernel takes the samples: no signal interrupts a thread, and no thread runs code for the profiler. See
//! `docs/adr/0006-processor-profiles-by-the-kernel.md`.

mod elf;
mod events;
mod modules;
mod records;
mod registers;
mod sampling;
mod symbols;
#[cfg(test)]
mod tests;
mod unwind;

use std::io;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use ports::host::profiler::{ProcessorProfile, ProfilerError};
use tokio::sync::{Mutex, oneshot};

use sampling::Sampling;

/// Samples all threads for `length`. Dropping the future ends the sampling. `in_use` allows one profile at a time.
pub(super) async fn profile(
    in_use: &Arc<Mutex<()>>,
    length: Duration,
) -> Result<ProcessorProfile, ProfilerError> {
    let permit = Arc::clone(in_use).try_lock_owned().map_err(|_| ProfilerError::InUse)?;
    let (result_sender, result) = oneshot::channel();
    // Dropped with this future, which tells the thread to stop.
    let (_cancel_on_drop, cancelled) = mpsc::channel();
    // Not a task: a profile must also be possible while all workers of the runtime are busy.
    std::thread::Builder::new()
        .name("profiler".to_owned())
        .spawn(move || {
            let profile = sample(length, &cancelled);
            crate::release_free_memory();
            drop(permit);
            // Fails if the caller dropped its future.
            let _ = result_sender.send(profile);
        })
        .map_err(|error| ProfilerError::Failed("failed to start the profiler thread", error))?;
    let panicked = |_| ProfilerError::Failed("the profiler thread failed", io::Error::other("it panicked"));
    result.await.map_err(panicked)?
}

/// Samples until `length` has passed or the caller dropped its future.
fn sample(length: Duration, cancelled: &mpsc::Receiver<()>) -> Result<ProcessorProfile, ProfilerError> {
    let mut sampling = Sampling::start()?;
    let start = std::time::Instant::now();
    while let Some(rest) = length.checked_sub(start.elapsed()).filter(|rest| !rest.is_zero()) {
        match cancelled.recv_timeout(rest.min(sampling::TICK)) {
            Err(mpsc::RecvTimeoutError::Timeout) => sampling.tick(),
            Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(ProcessorProfile::default()),
        }
    }
    Ok(sampling.finish())
}
