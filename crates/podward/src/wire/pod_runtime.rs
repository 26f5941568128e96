//! What brings one pod in line with its spec.

use std::sync::Arc;

use agent::claims::Claims;
use agent::cluster_supplies::ClusterSupplies;
use agent::images::{self, Accounts, CredentialParts, Credentials, Images};
use agent::kept_status::KeptStatus;
use agent::observation::Observer;
use agent::pod_runtime::{self, PodRuntime};
use agent::published::Reader;
use agent::pull_ledger::PullLedger;
use agent::runtime_health::RuntimeHealth;
use agent::sweeping::Sweeping;
use agent::timeline::Timelines;
use agent::user_namespaces::UserNamespaces;
use model::ProbeVerdicts;
use ports::event_recorder::EventRecorder;
use ports::objects::Objects;
use ports::pod_volumes::PodVolumes;

use super::World;
use crate::plan::Plan;

/// What the pod runtime reads.
pub(super) struct Tables {
    pub(super) observer: Observer,
    pub(super) probes: Reader<ProbeVerdicts>,
    pub(super) statuses: Reader<KeptStatus>,
    pub(super) objects: Arc<dyn Objects>,
    pub(super) supplies: Option<ClusterSupplies>,
    pub(super) volumes: Arc<dyn PodVolumes>,
    pub(super) claims: Option<Arc<Claims>>,
    pub(super) timelines: Arc<Timelines>,
    pub(super) ledger: Option<Arc<PullLedger>>,
    pub(super) sweeping: Sweeping,
}

/// What syncs one pod, with its images and credentials.
pub(super) fn pod_runtime(
    world: &World,
    plan: &Plan,
    tables: Tables,
    health: RuntimeHealth,
    events: Arc<dyn EventRecorder>,
) -> PodRuntime {
    if let Some(hash) = &plan.credential_provider_hash {
        world.metrics.images.providers_configured(hash);
    }
    let credentials = CredentialParts {
        files: world.credential_files.clone(),
        programs: world.credential_programs.clone(),
        providers: plan.credential_providers.clone(),
        accounts: accounts(world, tables.supplies.as_ref()),
        clock: world.clock.clone(),
        metrics: world.metrics.clone(),
    };
    let images = Images::new(images::Parts {
        runtime: world.runtime.clone(),
        events: events.clone(),
        clock: world.clock.clone(),
        metrics: world.metrics.clone(),
        objects: tables.objects.clone(),
        credentials: Credentials::new(credentials),
        ledger: tables.ledger,
        settings: plan.pulls,
    });
    PodRuntime::new(pod_runtime::Parts {
        runtime: world.runtime.clone(),
        images,
        observer: tables.observer,
        probes: tables.probes,
        statuses: tables.statuses,
        timelines: tables.timelines,
        health,
        sweeping: tables.sweeping,
        folders: world.folders.clone(),
        objects: tables.objects,
        supplies: tables.supplies,
        env_files: world.env_files.clone(),
        logs: world.logs.clone(),
        volumes: tables.volumes,
        claims: tables.claims,
        allocations: world.allocations.clone(),
        cgroups: world.cgroups.clone(),
        user_namespaces: UserNamespaces::new(plan.id_pool, world.user_namespaces.clone()),
        host: world.host.clone(),
        outbound: world.outbound.clone(),
        events,
        clock: world.clock.clone(),
        metrics: world.metrics.clone(),
        settings: Arc::new(plan.settings.clone()),
        crash_limits: plan.crash_limits,
        keep_dead: plan.keep_dead,
        started_at: world.clock.now(),
    })
}

/// The service accounts that provider programs are told of.
fn accounts(world: &World, supplies: Option<&ClusterSupplies>) -> Option<Accounts> {
    let accounts = world.api.as_ref()?.service_accounts.clone();
    Some(Accounts { accounts, tokens: supplies?.tokens.clone() })
}
