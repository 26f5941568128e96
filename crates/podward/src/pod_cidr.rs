//! `podCIDR`, for nodes to which no API server gives a range.

use ports::runtime::RuntimeService;

/// Tells the runtime the configured range of pod addresses, if there is one. A runtime that does not take it is told of,
/// no more: most have networks that know better.
pub(crate) async fn tell(runtime: &dyn RuntimeService, cidr: &str) {
    if cidr.is_empty() {
        return;
    }
    match runtime.set_pod_cidr(cidr).await {
        Ok(()) => tracing::info!(%cidr, "the runtime was told the address range of pods"),
        Err(error) => tracing::warn!(%error, %cidr, "the runtime did not take the address range of pods"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use async_trait::async_trait;
    use model::{CgroupDriver, RuntimeConditions, RuntimeVersion};
    use ports::runtime::{RuntimeError, RuntimeErrorKind, RuntimeEvents};

    use super::*;

    /// Notes what it is told, and refuses it.
    #[derive(Default)]
    struct Told(Mutex<Vec<String>>);

    fn away<T>() -> Result<T, RuntimeError> {
        let message = "away".to_owned();
        Err(RuntimeError { operation: "none", kind: RuntimeErrorKind::Unavailable, message })
    }

    #[async_trait]
    impl RuntimeService for Told {
        async fn version(&self) -> Result<RuntimeVersion, RuntimeError> {
            away()
        }

        async fn conditions(&self) -> Result<RuntimeConditions, RuntimeError> {
            away()
        }

        async fn cgroup_driver(&self) -> Result<CgroupDriver, RuntimeError> {
            away()
        }

        async fn set_pod_cidr(&self, cidr: &str) -> Result<(), RuntimeError> {
            self.0.lock().unwrap().push(cidr.to_owned());
            away()
        }

        async fn events(&self) -> Result<RuntimeEvents, RuntimeError> {
            away()
        }
    }

    #[tokio::test]
    async fn the_runtime_is_told_the_range_of_a_node_that_has_one() {
        let runtime = Told::default();
        tell(&runtime, "").await;
        tell(&runtime, "10.1.0.0/16").await;
        assert_eq!(*runtime.0.lock().unwrap(), ["10.1.0.0/16"]);
    }
}
