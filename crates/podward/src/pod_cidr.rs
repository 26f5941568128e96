//! `podCIDR`, for nodes without an API server that assigns a range.

use ports::runtime::RuntimeService;

/// Passes the configured address range of pods to the runtime. A runtime that rejects it is only logged, because most use
/// the range of their CNI configuration.
pub(crate) async fn set_pod_cidr(runtime: &dyn RuntimeService, cidr: &str) {
    if cidr.is_empty() {
        return;
    }
    match runtime.set_pod_cidr(cidr).await {
        Ok(()) => tracing::info!(%cidr, "set the pod address range in the runtime"),
        Err(error) => tracing::warn!(%error, %cidr, "failed to set the pod address range in the runtime"),
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use async_trait::async_trait;
    use model::{CgroupDriver, RuntimeConditions, RuntimeVersion};
    use ports::runtime::{RuntimeError, RuntimeErrorKind, RuntimeEvents};

    use super::*;

    /// Records the range, and rejects it.
    #[derive(Default)]
    struct RejectingRuntime(Mutex<Vec<String>>);

    fn unavailable<T>() -> Result<T, RuntimeError> {
        let message = "unavailable".to_owned();
        Err(RuntimeError { operation: "none", kind: RuntimeErrorKind::Unavailable, message })
    }

    #[async_trait]
    impl RuntimeService for RejectingRuntime {
        async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
            unavailable()
        }

        async fn conditions(&self) -> Result<RuntimeConditions, RuntimeError> {
            unavailable()
        }

        async fn cgroup_driver(&self) -> Result<CgroupDriver, RuntimeError> {
            unavailable()
        }

        async fn set_pod_cidr(&self, cidr: &str) -> Result<(), RuntimeError> {
            self.0.lock().push(cidr.to_owned());
            unavailable()
        }

        async fn events(&self) -> Result<RuntimeEvents, RuntimeError> {
            unavailable()
        }
    }

    #[tokio::test]
    async fn sets_pod_cidr_only_when_configured() {
        let runtime = RejectingRuntime::default();
        set_pod_cidr(&runtime, "").await;
        set_pod_cidr(&runtime, "10.1.0.0/16").await;
        assert_eq!(*runtime.0.lock(), ["10.1.0.0/16"]);
    }
}
