//! Creates the service that brings one pod in line with its spec.

use std::sync::Arc;

use agent::cluster::cluster_content::ClusterContent;
use agent::cluster::tokens::Tokens;
use agent::dynamic_resources::resource_claims::ResourceClaims;
use agent::images::pull_ledger::PullLedger;
use agent::images::{self, Credentials, CredentialsDeps, Images, ServiceAccounts};
use agent::node::node_view::NodeView;
use agent::pipeline::pod_runtime::{self, PodRuntime};
use agent::pipeline::tables::Writer;
use agent::pipeline::user_namespaces::UserNamespaces;
use agent::upkeep::sweep_claims::SweepClaims;
use model::{PodUid, Replacement};
use ports::served::objects::Objects;
use timing::KeyReceiver;
use tokio::sync::watch;

use super::Running;
use super::cluster_content::start_cluster_content;
use super::context::Context;
use super::volumes::Volumes;

/// Objects and services that the syncs of pods use.
pub(super) struct PodContent {
    pub(super) objects: Arc<dyn Objects>,
    pub(super) cluster_content: Option<ClusterContent>,
    pub(super) ledger: Option<Arc<PullLedger>>,
    pub(super) sweeping: SweepClaims,
}

impl PodContent {
    /// Replaces what the manifests offer by what the cluster offers.
    pub(super) fn start_cluster_side(
        &mut self,
        running: &mut Running,
        context: &Context,
        node: &watch::Receiver<NodeView>,
        tokens: Option<Arc<Tokens>>,
        changed_pods: KeyReceiver<PodUid>,
    ) {
        let content = start_cluster_content(running, context, node, tokens, changed_pods);
        if let Some((objects, content)) = content {
            self.objects = objects;
            self.cluster_content = Some(content);
        }
    }
}

/// Creates the service that syncs one pod, with its images and credentials.
pub(super) fn pod_runtime(
    context: &Context,
    (volumes, resource_claims): (&Volumes, Option<Arc<ResourceClaims>>),
    content: PodContent,
    replacements: Writer<Replacement>,
) -> PodRuntime {
    let (adapters, plan, tables) = (&context.adapters, &context.plan, &context.tables);
    let images = images(context, &content);
    let pod_runtime = PodRuntime::new(pod_runtime::PodRuntimeDeps {
        runtime: adapters.runtime.clone(),
        images,
        observer: tables.observer.clone(),
        probes: tables.probe_results.clone(),
        statuses: tables.statuses.clone(),
        replacements,
        timelines: context.timelines.clone(),
        health: context.health.clone(),
        sweeping: content.sweeping,
        folders: adapters.folders.clone(),
        objects: content.objects,
        cluster: content.cluster_content,
        env_files: adapters.env_files.clone(),
        logs: adapters.logs.clone(),
        volumes: volumes.volumes.clone(),
        claims: volumes.claims.clone(),
        resource_claims,
        allocations: adapters.allocations.clone(),
        cgroups: adapters.cgroups.clone(),
        user_namespaces: UserNamespaces::new(plan.id_pool, adapters.user_namespaces.clone()),
        host: adapters.host.clone(),
        outbound: adapters.outbound.clone(),
        events: context.events.clone(),
        clock: adapters.clock.clone(),
        metrics: adapters.metrics.clone(),
        settings: context.settings.clone(),
        crash_backoff: plan.crash_backoff,
        keep_dead: plan.keep_dead,
        started_at: adapters.clock.now(),
    });
    pod_runtime.check_resolv_conf();
    pod_runtime
}

fn images(context: &Context, content: &PodContent) -> Images {
    let (adapters, plan) = (&context.adapters, &context.plan);
    if let Some(hash) = &plan.credential_provider_hash {
        adapters.metrics.images.providers_configured(hash);
    }
    let credentials = CredentialsDeps {
        files: adapters.credential_files.clone(),
        programs: adapters.credential_programs.clone(),
        providers: plan.credential_providers.clone(),
        accounts: accounts(context, content.cluster_content.as_ref()),
        clock: adapters.clock.clone(),
        metrics: adapters.metrics.clone(),
    };
    Images::new(images::ImagesDeps {
        runtime: adapters.runtime.clone(),
        events: context.events.clone(),
        clock: adapters.clock.clone(),
        metrics: adapters.metrics.clone(),
        objects: content.objects.clone(),
        credentials: Credentials::new(credentials),
        ledger: content.ledger.clone(),
        settings: plan.pulls,
    })
}

/// The service accounts whose tokens credential provider programs receive.
fn accounts(context: &Context, cluster_content: Option<&ClusterContent>) -> Option<ServiceAccounts> {
    let accounts = context.api()?.service_accounts.clone();
    Some(ServiceAccounts { accounts, tokens: cluster_content?.tokens.clone() })
}
