//! A node of a real cluster: the control plane's programs, containerd and one agent.
//!
//! `make cluster` runs these on podward and on the upstream kubelet.

mod claim_devices;
mod containers;
mod deletion;
mod dynamic_resources;
mod eviction;
mod faults;
mod identity;
mod images;
mod node;
mod objects;
mod offline;
mod outage;
mod placement;
mod resize;
mod static_pods;
mod storage;
mod trust;
mod workloads;
