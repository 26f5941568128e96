//! What this process can be asked about itself while it runs: where its processor time goes, its threads, its memory.

use std::io;
use std::time::Duration;

use async_trait::async_trait;

/// Looks at this process. Costs nothing while nobody asks.
#[async_trait]
pub trait Profiler: Send + Sync {
    /// Samples the stacks of all threads for so long. One at a time; whoever drops the future ends it at once.
    ///
    /// # Errors
    /// Another one is under way, or the kernel does not let this process be sampled.
    async fn processor_time(&self, length: Duration) -> Result<ProcessorProfile, ProfilerError>;

    /// The threads as they are now.
    ///
    /// # Errors
    /// The kernel's list cannot be read.
    fn threads(&self) -> io::Result<Vec<ThreadFacts>>;

    /// The memory as it is now. Walks the page tables: milliseconds.
    ///
    /// # Errors
    /// The kernel's numbers cannot be read.
    fn memory(&self) -> io::Result<MemoryFacts>;
}

/// Why there is no profile. The text follows "Could not enable CPU profiling: ".
#[derive(Debug, thiserror::Error)]
pub enum ProfilerError {
    /// One at a time; Go's words, which its tools show.
    #[error("cpu profiling already in use")]
    InUse,
    /// The kernel keeps the samples from this process.
    #[error("{what}; {remedy}")]
    Refused {
        /// What could not be done.
        what: &'static str,
        /// What would help.
        remedy: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Something of this process could not be read or started.
    #[error("{0}")]
    Failed(&'static str, #[source] io::Error),
}

/// Where processor time went.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessorProfile {
    /// Processor time between two samples of a thread.
    pub period: Duration,
    /// How long samples were taken.
    pub sampled: Duration,
    /// The program first, then its libraries.
    pub modules: Vec<ModuleFacts>,
    /// The places that stacks are made of.
    pub frames: Vec<Frame>,
    /// Each stack once per name of a thread.
    pub stacks: Vec<Stack>,
    /// Samples that could not be kept.
    pub lost: u64,
    /// Threads that were not sampled, because there were too many or the kernel refused.
    pub unseen_threads: usize,
}

/// Code that is mapped from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleFacts {
    /// First address.
    pub start: u64,
    /// The address after the last.
    pub end: u64,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file.
    pub path: String,
    /// What tells this build from others, in hexadecimal; empty where the file has none.
    pub build_id: String,
    /// Whether names of functions were found for it.
    pub is_named: bool,
}

/// A place in the code.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The instruction; of a caller, one inside its call.
    pub address: u64,
    /// The index of its module.
    pub module: Option<usize>,
    /// The function it is in, where the file still has names.
    pub function: Option<Function>,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name, as people write it.
    pub name: String,
    /// Its name in the file.
    pub symbol: String,
}

/// A stack that was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// The thread's name.
    pub thread: String,
    /// Indices of frames, what ran first.
    pub frames: Vec<usize>,
    /// How often.
    pub count: u64,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadFacts {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The kernel's letter: R runs, S sleeps, D waits for a disk.
    pub state: char,
    /// Processor time of its own code.
    pub user: Duration,
    /// Processor time of the kernel on its behalf.
    pub system: Duration,
}

/// Memory of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// The kernel's view: its own names, in bytes.
    pub mapped: Vec<(String, u64)>,
    /// The allocator's view: what each number is, in bytes.
    pub allocator: Vec<(&'static str, u64)>,
}
