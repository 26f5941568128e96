use async_trait::async_trait;
use futures::stream::BoxStream;
use model::{CgroupDriver, RuntimeConditions, RuntimeEvent, RuntimeVersion};

use super::RuntimeError;

/// The runtime's events, in order. The stream ends or yields an error when the connection breaks.
pub type RuntimeEvents = BoxStream<'static, Result<RuntimeEvent, RuntimeError>>;

/// The runtime as a whole.
#[async_trait]
pub trait RuntimeService: Send + Sync {
    /// Name and version of the runtime.
    async fn version(&self) -> Result<RuntimeVersion, RuntimeError>;

    /// Whether the runtime and its network are ready, and what it can do.
    async fn conditions(&self) -> Result<RuntimeConditions, RuntimeError>;

    /// The cgroup driver the runtime uses; `Unimplemented` when it does not report one.
    async fn cgroup_driver(&self) -> Result<CgroupDriver, RuntimeError>;

    /// Sets the address ranges of pods, joined by commas.
    async fn set_pod_cidr(&self, cidr: &str) -> Result<(), RuntimeError>;

    /// Opens the event stream; `Unimplemented` when the runtime has none. Some runtimes report that only with
    /// the first item.
    async fn events(&self) -> Result<RuntimeEvents, RuntimeError>;
}
