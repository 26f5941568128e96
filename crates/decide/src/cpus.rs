//! The CPU manager: which containers get exclusive CPUs, and which CPUs.
//!
//! A container of a Guaranteed pod that requests whole CPUs gets that many exclusive ones; all others share the rest.
//! The choice of CPUs equals upstream's (docs/parity/resources.md lists the exceptions), because a node can switch between
//! the agents, and because users tune their machines for it. `testdata/cpu_choices.txt.gz` holds choices of upstream's code.
//!
//! Invariants: a CPU has at most one exclusive owner, apart from containers of one pod that do not run at the same time;
//! reserved CPUs are never exclusive; releasing an allocation restores the shared pool.

mod accumulator;
mod allocator;
mod combinations;
mod distribution;
#[cfg(test)]
pub(crate) mod golden_tests;
mod hints;
mod requests;
pub mod state_file;
mod static_policy;
mod whole_pods;

pub use accumulator::TakeError;
pub(crate) use allocator::EMPTY_POD_SHARED_POOL_ERROR;
pub use allocator::{AllocationError, AllocationReport, CpuAllocator};
pub use requests::{exclusive_request, is_allocated_as_whole};
pub(crate) use requests::{
    has_pod_level_resources, is_guaranteed, pod_runs_without_quota, resizes_exclusive_cpus,
    resizes_guaranteed_pod, runs_without_quota,
};
pub use static_policy::{CpuAssignments, PolicyError, StateError, StaticPolicy};
