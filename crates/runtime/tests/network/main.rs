//! Pods' networks in namespaces that the tests make. The node is a namespace as well, so that the machine is not touched.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod built_in;
mod cni;
mod namespaces;
mod node;
