//! The network of a sandbox: what this runtime asks of the pod networks.

use crate::errors::ServiceError;
use crate::records::SandboxRecord;

/// Until a pod network is built in, pods have their loopback interface only.
pub(crate) struct PodNetworking {}

impl PodNetworking {
    pub(crate) fn new() -> Self {
        Self {}
    }

    /// Connects a sandbox; returns its addresses, the preferred one first.
    #[expect(clippy::unused_async, reason = "pod networks are added later")]
    pub(crate) async fn set_up(&self, _: &SandboxRecord) -> Result<Vec<String>, ServiceError> {
        Ok(Vec::new())
    }

    /// Disconnects a sandbox. Does nothing if it is not connected.
    #[expect(clippy::unused_async, reason = "pod networks are added later")]
    pub(crate) async fn tear_down(&self, _: &SandboxRecord) -> Result<(), ServiceError> {
        Ok(())
    }

    /// Why pods cannot have addresses.
    #[expect(clippy::unused_self, reason = "pod networks are added later")]
    pub(crate) fn readiness(&self) -> Result<(), String> {
        Err("no pod network is configured: pods have no addresses".to_owned())
    }

    /// Takes the ranges of pod addresses.
    #[expect(clippy::unused_self, reason = "pod networks are added later")]
    pub(crate) fn set_pod_cidrs(&self, _: &str) {}
}
