//! The control plane of the test cluster.

mod launcher;
