//! The topology manager: on which NUMA nodes the resources of a container or pod are allocated.
//!
//! Each resource manager offers hints. [`Alignment::merge`] combines one hint of each resource, and returns the best
//! combination by upstream's comparison. `testdata/topology_hints.txt.gz` holds choices of upstream's code.
//!
//! Upstream enumerates all combinations, whose number is exponential in the number of resources. The comparison is a total
//! order on the merged hints, so it is enough to enumerate the distinct partial results after each resource.

mod alignment;
mod merge;
#[cfg(test)]
mod tests;

pub use alignment::{
    Alignment, AlignmentError, AlignmentOptions, AlignmentPolicy, AlignmentScope, DEFAULT_MAX_NUMA_NODES,
    MergedHint, TOPOLOGY_AFFINITY_ERROR, affinity_rejection,
};
