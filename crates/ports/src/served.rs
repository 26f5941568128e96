//! Events, objects, logs and statistics that one part of the agent offers to others. Implemented by `agent` and `cluster`.

pub mod client_certificates;
pub mod device_registration;
pub mod event_recorder;
pub mod objects;
pub mod pod_logs;
pub mod pod_resources;
pub mod pod_statistics;
pub mod pods;
