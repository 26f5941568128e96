//! The memory manager: containers of Guaranteed pods get memory of particular NUMA nodes.
//!
//! The choice of nodes and the bookkeeping equal upstream's, because upstream replays the assignments of the state file
//! when it starts, and refuses a file with another result. A container with blocks on several nodes groups these nodes:
//! until its release, only containers on exactly the same group can use them.
//!
//! Invariants: the free and reserved bytes of a node are always its allocatable ones; releasing an
//! assignment restores the tables.

mod allocator;
mod hints;
mod policy;
mod requests;
pub mod state_file;
mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod whole_pods;

pub use allocator::{MemoryAllocator, MemoryError};
pub use policy::{MemoryPolicy, MemoryPolicyError, MemoryReservations, MemoryStateError};
pub use tables::{Assignments, MemoryBlock, MemoryState, MemoryTable, NodeMemory};
pub use whole_pods::WholePodReport;
