//! Test infrastructure: fakes for the unit tests, and real components for the scenarios.
//!
//! - [`fake_runtime`] serves the CRI over a real socket and runs nothing;
//! - [`fakes`] replace ports of the machine;
//! - [`images`] writes OCI image archives from files;
//! - [`instance`] is a private node's folder and everything that is named after it;
//! - [`containerd`] runs a private containerd in one, [`node_runtime`] that or podward's own runtime, [`cri_view`] reads
//!   the state of either;
//! - [`agent_process`] runs podward or the upstream kubelet on it;
//! - [`control_plane`] runs a Kubernetes control plane for it to join;
//! - [`machine`] is a machine in namespaces, on which kubeadm makes a cluster, [`host_state`] what it must not change;
//! - [`csi_driver`] is a small CSI driver with real mounts;
//! - [`dra_driver`] is a small driver for dynamic resource allocation;
//! - [`http`], [`poll`] and [`process`] query, wait for and measure them.
//!
//! Invariant: a test removes everything that it started, also when it fails; the next test removes the remains of a
//! killed one. Assertions are not made here. For tests only, so `anyhow` everywhere.

pub mod agent_process;
pub mod builders;
pub mod containerd;
pub mod control_plane;
pub mod cri_view;
pub mod csi_driver;
pub mod device_plugin;
pub mod dra_driver;
pub mod fake_api;
pub mod fake_clock;
pub mod fake_logind;
pub mod fake_outbound;
pub mod fake_runtime;
pub mod fakes;
pub mod host_state;
pub mod http;
pub mod images;
pub mod instance;
pub mod machine;
pub mod node_runtime;
pub mod poll;
pub mod process;
pub mod registry;
pub mod remains;
pub mod runtime_process;
