//! Services and stages that talk to the API server: status updates, mirror pods, events, and the objects that pods refer to.

pub mod api_pods;
pub mod api_timeout;
pub mod cluster_content;
pub mod cluster_objects;
pub mod content_cache;
pub mod event_delivery;
pub mod event_log;
pub mod mirror_pods;
pub mod object_hints;
pub mod objects;
pub mod offline_cache;
pub mod pod_certificates;
pub mod status_delivery;
pub mod tokens;
pub mod watched_set;
