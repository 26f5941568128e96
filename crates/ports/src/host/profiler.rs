//! CPU profiles, threads and memory of the agent's own process.

use std::io;
use std::time::Duration;

use async_trait::async_trait;

/// Inspects this process. Costs nothing between calls.
#[async_trait]
pub trait Profiler: Send + Sync {
    /// Samples the stacks of all threads. Only one profile runs at a time; dropping the future stops it.
    ///
    /// # Errors
    /// Another profile is running, or the kernel does not allow sampling.
    async fn processor_time(&self, length: Duration) -> Result<ProcessorProfile, ProfilerError>;

    /// The current threads.
    ///
    /// # Errors
    /// The kernel's list cannot be read.
    fn threads(&self) -> io::Result<Vec<ThreadFacts>>;

    /// The current memory use. Takes milliseconds, because it walks the page tables.
    ///
    /// # Errors
    /// The kernel's numbers cannot be read.
    fn memory(&self) -> io::Result<MemoryFacts>;
}

/// A failed profile. The text follows "Could not enable CPU profiling: ".
#[derive(Debug, thiserror::Error)]
pub enum ProfilerError {
    /// Another profile is running. The text is Go's.
    #[error("cpu profiling already in use")]
    InUse,
    /// The kernel does not allow sampling.
    #[error("{what}; {remedy}")]
    Refused {
        /// The rejected operation.
        what: &'static str,
        /// How to allow it.
        remedy: &'static str,
        /// The system error.
        #[source]
        source: io::Error,
    },
    /// Another system call failed.
    #[error("{0}")]
    Failed(&'static str, #[source] io::Error),
}

/// A CPU profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessorProfile {
    /// Processor time between two samples of a thread.
    pub period: Duration,
    /// Duration of the profile.
    pub sampled: Duration,
    /// The program first, then its libraries.
    pub modules: Vec<ModuleFacts>,
    /// The frames of all stacks.
    pub frames: Vec<Frame>,
    /// Distinct stacks per thread name.
    pub stacks: Vec<Stack>,
    /// Dropped samples.
    pub lost: u64,
    /// Threads that were not sampled, because there were too many or the kernel refused.
    pub unseen_threads: usize,
}

/// Code that is mapped from a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleFacts {
    /// First address.
    pub start: u64,
    /// End address (exclusive).
    pub end: u64,
    /// Offset in the file.
    pub offset: u64,
    /// The file.
    pub path: String,
    /// Build ID in hexadecimal; empty if the file has none.
    pub build_id: String,
    /// Whether the file has symbols.
    pub is_named: bool,
}

/// A stack frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// Address of the instruction; in a caller, an address inside the call instruction.
    pub address: u64,
    /// The index of its module.
    pub module: Option<usize>,
    /// The function, if the file has symbols.
    pub function: Option<Function>,
}

/// A function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Demangled name.
    pub name: String,
    /// Mangled name.
    pub symbol: String,
}

/// A sampled stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// The thread's name.
    pub thread: String,
    /// Indices of frames, the innermost first.
    pub frames: Vec<usize>,
    /// Number of samples.
    pub count: u64,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadFacts {
    /// Its number.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// State letter of the kernel, such as R (running) or S (sleeping).
    pub state: char,
    /// User CPU time.
    pub user: Duration,
    /// System CPU time.
    pub system: Duration,
}

/// Memory of this process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// Bytes by the kernel's names.
    pub mapped: Vec<(String, u64)>,
    /// Bytes by the allocator's names.
    pub allocator: Vec<(&'static str, u64)>,
}
