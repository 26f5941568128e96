//! What tests stand on: fakes for the inner classes, and the real thing for the scenarios.
//!
//! - [`fake_runtime`] serves the CRI over a real socket and runs nothing;
//! - [`fakes`] stand in for ports of the machine;
//! - [`images`] writes OCI image archives from files;
//! - [`instance`] is a private node's folder and all that is named after it;
//! - [`containerd`] runs a private containerd in one, [`cri_view`] looks into it;
//! - [`agent_process`] runs podward or the upstream kubelet on it;
//! - [`control_plane`] runs a Kubernetes control plane for it to join;
//! - [`csi_driver`] is a small CSI driver with real mounts;
//! - [`http`], [`poll`] and [`process`] ask, wait for and measure them.
//!
//! Invariant: what a test starts is gone after it, also when it fails; what a killed test left is
//! removed by the next. Not here: what is asserted. For tests only, so `anyhow` everywhere.

pub mod agent_process;
pub mod containerd;
pub mod control_plane;
pub mod cri_view;
pub mod csi_driver;
pub mod fake_api;
pub mod fake_logind;
pub mod fake_outbound;
pub mod fake_runtime;
pub mod fakes;
pub mod http;
pub mod images;
pub mod instance;
pub mod poll;
pub mod process;
pub mod registry;
