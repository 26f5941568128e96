//! Computes, patches, reports and explains pod statuses.

pub mod explain;
pub mod pod_status;
pub mod status_patch;
pub mod status_report;
