//! The life of a pod: merging sources, worker steps, pod actions, probes, termination and cleanup.

pub mod backoff;
pub mod dead_containers;
pub mod deadline;
pub mod grace;
pub mod hooks;
pub mod housekeeping;
pub mod merge;
pub mod mirror_pods;
pub mod object_restart;
pub mod pod_actions;
pub mod probe;
pub mod requeue;
pub mod runtime_events;
pub mod start_limit;
pub mod termination;
pub mod termination_message;
pub mod terminations;
pub mod worker;
