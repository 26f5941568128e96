//! The embedded container runtime: it runs pods on a bare Linux machine, without containerd, runc or CNI plugins.
//!
//! Input: calls of the CRI v1 services (`cri::v1`). Output: containers, their log files, images, pod networks.
//!
//! Invariants: no thread of the async process forks; namespaces and containers are made by single-threaded helper
//! processes that execute a sealed copy of this program. A security setting that cannot be enforced is an error.
//! Everything inside a container's root is hostile, also while the container is set up, and is reached only through
//! descriptors that cannot leave the root.
//!
//! This crate does not decide what should run: the caller does, through CRI.

pub mod cgroups;
pub mod containers;
mod errors;
mod events;
mod ids;
pub mod images;
pub mod keeper;
pub mod launcher;
pub mod logs;
pub mod network;
mod records;
mod sandboxes;
pub mod services;
mod shared;
pub mod streaming;
