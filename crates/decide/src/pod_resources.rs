//! CPU and memory of pods: requests and limits, QoS class, allocation and in-place resize.

pub mod allocation;
pub mod critical_pods;
pub mod qos;
pub mod resize;
pub mod resize_requests;
pub mod resources;
