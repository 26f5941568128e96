//! Observes this process: processor time by function, threads and memory.

mod memory;
#[cfg(feature = "profiler")]
mod processor;
mod threads;

use std::io;
#[cfg(feature = "profiler")]
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use ports::host::profiler::{MemoryFacts, ProcessorProfile, Profiler, ProfilerError, ThreadFacts};

/// [`Profiler`] of the process it runs in. Processor profiles need the cargo feature `profiler`.
#[derive(Clone, Debug, Default)]
pub struct OwnProfiler {
    #[cfg(feature = "profiler")]
    in_use: Arc<tokio::sync::Mutex<()>>,
}

#[async_trait]
impl Profiler for OwnProfiler {
    #[cfg(feature = "profiler")]
    async fn processor_time(&self, length: Duration) -> Result<ProcessorProfile, ProfilerError> {
        processor::profile(&self.in_use, length).await
    }

    #[cfg(not(feature = "profiler"))]
    async fn processor_time(&self, _: Duration) -> Result<ProcessorProfile, ProfilerError> {
        Err(ProfilerError::Refused {
            what: "this build has no processor profiler",
            remedy: "build with the cargo feature profiler",
            source: io::ErrorKind::Unsupported.into(),
        })
    }

    fn threads(&self) -> io::Result<Vec<ThreadFacts>> {
        threads::read()
    }

    fn memory(&self) -> io::Result<MemoryFacts> {
        memory::read()
    }
}
