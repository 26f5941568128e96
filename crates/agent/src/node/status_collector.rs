//! Collects the inputs of the node status.

use std::sync::Arc;
use std::time::Duration;

use decide::node::node_status::readiness::RuntimeReadiness;
use decide::node::node_status::{NodeAddressInputs, NodeStatusInputs};
use model::{ImageStatus, MachineIdentity, RuntimeVersion};
use ports::host::host_facts::HostFacts;
use tokio::time::{Instant, timeout};

use super::NodeDeps;

const IMAGES_TTL: Duration = Duration::from_secs(30);
const RUNTIME_TIMEOUT: Duration = Duration::from_secs(10);
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Caches the inputs that are not read every time.
#[derive(Default)]
pub(super) struct StatusCollector {
    readiness: RuntimeReadiness,
    machine: Option<MachineIdentity>,
    runtime: Option<RuntimeVersion>,
    images: Vec<ImageStatus>,
    images_at: Option<Instant>,
    resolved_addresses: Vec<std::net::IpAddr>,
    last: NodeStatusInputs,
}

impl StatusCollector {
    pub(super) async fn collect(&mut self, deps: &NodeDeps) -> NodeStatusInputs {
        let health = deps.health.now();
        let now = deps.clock.now();
        self.readiness.record(health.conditions.as_deref(), now);
        let is_ready = health.runtime_problem.is_none();
        if is_ready {
            self.query_runtime(deps).await;
        } else {
            // It may be upgraded before it is ready again.
            self.runtime = None;
        }
        let mut problems = self.readiness.problems(now, deps.health.since_list());
        problems.extend(deps.reports.problems());
        let (machine, addresses) = self.machine(deps).await;
        // While the runtime does not respond, its last known features stay in the status.
        let (handlers, policy) = if is_ready {
            (health.features.handlers.clone(), Some(health.features.supplemental_groups_policy))
        } else {
            (self.last.handlers.clone(), self.last.supplemental_groups_policy)
        };
        self.last = NodeStatusInputs {
            machine,
            addresses,
            runtime: self.runtime.clone(),
            handlers,
            supplemental_groups_policy: policy,
            images: self.images.clone(),
            problems,
            startup_problems: deps.reports.startup_problems(),
            pressure: deps.reports.pressure(),
            volumes_in_use: deps.reports.volumes_in_use(),
            devices: deps.reports.devices(),
        };
        self.last.clone()
    }

    async fn query_runtime(&mut self, deps: &NodeDeps) {
        if self.runtime.is_none() {
            match timeout(RUNTIME_TIMEOUT, deps.runtime.version()).await {
                Ok(Ok(version)) => self.runtime = Some(version),
                Ok(Err(error)) => tracing::warn!(%error, "failed to get runtime version"),
                Err(_) => tracing::warn!("timed out getting runtime version"),
            }
        }
        if self.images_at.is_some_and(|at| at.elapsed() < IMAGES_TTL) {
            return;
        }
        match timeout(RUNTIME_TIMEOUT, deps.images.list_images()).await {
            Ok(Ok(images)) => {
                self.images = images;
                self.images_at = Some(Instant::now());
            }
            Ok(Err(error)) => tracing::warn!(%error, "failed to list images"),
            Err(_) => tracing::warn!("timed out listing images"),
        }
    }

    async fn machine(&mut self, deps: &NodeDeps) -> (MachineIdentity, NodeAddressInputs) {
        let host = Arc::clone(&deps.host);
        let cached = self.machine.clone();
        let facts = tokio::task::spawn_blocking(move || {
            let addresses = NodeAddressInputs {
                interfaces: host.interface_addresses(),
                by_name: Vec::new(),
                default_routes: host.addresses(),
            };
            (cached.unwrap_or_else(|| host.identity()), addresses)
        });
        let (machine, mut addresses) = facts.await.unwrap_or_default();
        self.machine = Some(machine.clone());
        // The name is resolved only if no node IP is configured.
        if deps.profile.node_ips.iter().all(std::net::IpAddr::is_unspecified) {
            self.resolve_name(&deps.host, &deps.profile.name).await;
        }
        addresses.by_name.clone_from(&self.resolved_addresses);
        (machine, addresses)
    }

    /// A failed lookup keeps the earlier addresses.
    async fn resolve_name(&mut self, host: &Arc<dyn HostFacts>, name: &str) {
        let (host, name) = (Arc::clone(host), name.to_owned());
        let found = tokio::task::spawn_blocking(move || host.look_up(&name));
        if let Ok(Ok(found)) = timeout(LOOKUP_TIMEOUT, found).await {
            self.resolved_addresses = found;
        }
    }
}
