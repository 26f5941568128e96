//! Looks at everything the node's status tells.

use std::sync::Arc;
use std::time::Duration;

use decide::node_status::readiness::RuntimeReadiness;
use decide::node_status::{AddressSight, NodeSight};
use model::{ImageStatus, MachineIdentity, RuntimeVersion};
use ports::host_facts::HostFacts;
use tokio::time::{Instant, timeout};

use super::Parts;

/// How long the list of images is good for.
const IMAGES_FOR: Duration = Duration::from_secs(30);
/// How long the runtime may take to name its version or images.
const RUNTIME_DEADLINE: Duration = Duration::from_secs(10);
/// How long the resolver may take.
const LOOK_UP_DEADLINE: Duration = Duration::from_secs(5);

/// What was seen before and need not be looked at each time.
#[derive(Default)]
pub(super) struct Memory {
    readiness: RuntimeReadiness,
    machine: Option<MachineIdentity>,
    runtime: Option<RuntimeVersion>,
    images: Vec<ImageStatus>,
    images_at: Option<Instant>,
    by_name: Vec<std::net::IpAddr>,
    last: NodeSight,
}

impl Memory {
    /// Everything as it is now.
    pub(super) async fn look(&mut self, parts: &Parts) -> NodeSight {
        let health = parts.health.now();
        let now = parts.clock.now();
        self.readiness.saw(health.answer.as_deref(), now);
        let is_ready = health.runtime_problem.is_none();
        if is_ready {
            self.ask_runtime(parts).await;
        } else {
            // It may come back as another version.
            self.runtime = None;
        }
        let mut problems = self.readiness.problems(now, parts.health.since_list());
        problems.extend(parts.inputs.problems());
        let (machine, addresses) = self.machine(parts).await;
        // While the runtime is away, what it could do is still the best knowledge.
        let (handlers, policy) = if is_ready {
            (health.abilities.handlers.clone(), Some(health.abilities.supplemental_groups_policy))
        } else {
            (self.last.handlers.clone(), self.last.supplemental_groups_policy)
        };
        self.last = NodeSight {
            machine,
            addresses,
            runtime: self.runtime.clone(),
            handlers,
            supplemental_groups_policy: policy,
            images: self.images.clone(),
            problems,
            obstacles: parts.inputs.obstacles(),
            pressure: parts.inputs.pressure(),
            volumes_in_use: parts.inputs.volumes_in_use(),
        };
        self.last.clone()
    }

    async fn ask_runtime(&mut self, parts: &Parts) {
        if self.runtime.is_none() {
            match timeout(RUNTIME_DEADLINE, parts.runtime.version()).await {
                Ok(Ok(version)) => self.runtime = Some(version),
                Ok(Err(error)) => tracing::warn!(%error, "the runtime does not name its version"),
                Err(_) => tracing::warn!("the runtime does not name its version in time"),
            }
        }
        if self.images_at.is_some_and(|at| at.elapsed() < IMAGES_FOR) {
            return;
        }
        match timeout(RUNTIME_DEADLINE, parts.images.list_images()).await {
            Ok(Ok(images)) => {
                self.images = images;
                self.images_at = Some(Instant::now());
            }
            Ok(Err(error)) => tracing::warn!(%error, "the runtime does not list its images"),
            Err(_) => tracing::warn!("the runtime does not list its images in time"),
        }
    }

    async fn machine(&mut self, parts: &Parts) -> (MachineIdentity, AddressSight) {
        let host = Arc::clone(&parts.host);
        let known = self.machine.clone();
        let seen = tokio::task::spawn_blocking(move || {
            let addresses = AddressSight {
                interfaces: host.interface_addresses(),
                by_name: Vec::new(),
                default_routes: host.addresses(),
            };
            (known.unwrap_or_else(|| host.identity()), addresses)
        });
        let (machine, mut addresses) = seen.await.unwrap_or_default();
        self.machine = Some(machine.clone());
        // Only a node that was given no address is found by its name.
        if parts.profile.node_ips.iter().all(std::net::IpAddr::is_unspecified) {
            self.look_up(&parts.host, &parts.profile.name).await;
        }
        addresses.by_name.clone_from(&self.by_name);
        (machine, addresses)
    }

    /// A resolver that is away leaves the node where it was.
    async fn look_up(&mut self, host: &Arc<dyn HostFacts>, name: &str) {
        let (host, name) = (Arc::clone(host), name.to_owned());
        let found = tokio::task::spawn_blocking(move || host.look_up(&name));
        if let Ok(Ok(found)) = timeout(LOOK_UP_DEADLINE, found).await {
            self.by_name = found;
        }
    }
}
