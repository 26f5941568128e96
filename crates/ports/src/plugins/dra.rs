//! Drivers of dynamic resource allocation (DRA).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use model::{ClaimReference, DeviceHealthReport, PreparedDevice};

/// A version of the service that drivers offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraVersion {
    /// Since Kubernetes 1.34.
    V1,
    /// The version before.
    V1Beta1,
}

impl DraVersion {
    /// All versions that the agent can call.
    pub const ALL: [Self; 2] = [Self::V1, Self::V1Beta1];

    /// The name under which drivers register it.
    #[must_use]
    pub fn service(self) -> &'static str {
        match self {
            Self::V1 => "v1.DRAPlugin",
            Self::V1Beta1 => "v1beta1.DRAPlugin",
        }
    }

    /// The path of a method in gRPC.
    #[must_use]
    pub fn method(self, name: &str) -> String {
        format!("/k8s.io.kubelet.pkg.apis.dra.{}/{name}", self.service())
    }
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DraError {
    /// The name of the gRPC code, such as `Unavailable`.
    pub code: String,
    /// The error as Go's gRPC prints it.
    pub message: String,
}

/// A driver's results by UID of the claim; the error is the driver's text.
pub type ClaimResults<T> = BTreeMap<String, Result<T, String>>;

/// Reports of a driver, each about some or all of its devices. An error or the end means that nothing watches them any more.
pub type HealthReports = BoxStream<'static, Result<Vec<DeviceHealthReport>, DraError>>;

/// Connects to drivers.
#[async_trait]
pub trait DraConnector: Send + Sync {
    /// Opens a connection to the socket of a driver.
    async fn connect(&self, endpoint: &Path) -> Result<Arc<dyn DraConnection>, DraError>;
}

/// An open connection to a driver. Every call has a deadline, except for the stream of reports.
#[async_trait]
pub trait DraConnection: Send + Sync {
    /// Makes the devices of claims usable. Idempotent.
    async fn prepare(
        &self,
        version: DraVersion,
        claims: &[ClaimReference],
    ) -> Result<ClaimResults<Vec<PreparedDevice>>, DraError>;

    /// Undoes a preparation. Idempotent.
    async fn unprepare(
        &self,
        version: DraVersion,
        claims: &[ClaimReference],
    ) -> Result<ClaimResults<()>, DraError>;

    /// Follows the health of the driver's devices. Fails at drivers that do not report it.
    async fn watch_health(&self) -> Result<HealthReports, DraError>;

    /// Waits until the connection is closed.
    async fn closed(&self);
}
