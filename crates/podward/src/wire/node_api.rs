//! Wiring of the node's API.

use std::sync::Arc;

use ::node_api::access::{Access, AccessChecks, Authentication, Authorization, TokenChecks};
use ::node_api::{
    About, CheckpointParts, MainParts, PodLookup, ProfilingParts, ServerConfig, Views, health_router,
    main_router, read_only_router, serve, serve_tls,
};
use agent::api_pods::ApiPodsReader;
use agent::node_view::{self, NodeView};
use agent::observation::Observer;
use k8s_openapi::api::core::v1::NodeAddress;
use ports::client_certificates::ClientCertificates;
use tokio::sync::watch;

use super::{Running, World, debugging};
use crate::plan::Plan;
use crate::server_plan::{AuthorizationPlan, ServerPlan};

/// With what the main port answers.
#[derive(Clone)]
pub struct Serving {
    /// Certificate and versions.
    pub tls: Arc<ServerConfig>,
    /// Whose client certificates are believed.
    pub certificates: Option<Arc<dyn ClientCertificates>>,
    /// Who wants to know the node's addresses, to ask for a certificate.
    pub addresses: Option<watch::Sender<Vec<NodeAddress>>>,
    /// What the agent says of itself.
    pub about: About,
    /// What `/debug` offers.
    pub profiling: ProfilingParts,
}

/// What the API shows.
pub(super) struct Known {
    pub(super) views: Views,
    pub(super) node: Option<watch::Receiver<NodeView>>,
    pub(super) observer: Observer,
    pub(super) shown: Option<ApiPodsReader>,
}

/// Starts all listeners.
pub(super) fn start_node_api(running: &mut Running, world: &World, plan: &Plan, known: Known) {
    let Known { views, node, observer, shown } = known;
    let cancel = running.cancel.clone();
    if let Some(address) = plan.health_address {
        let router = health_router(views.clone());
        running.spawn("healthz", serve("healthz", address, router, cancel.clone()));
    }
    if let Some(address) = plan.read_only_address {
        let router = read_only_router(views.clone());
        running.spawn("read-only port", serve("read-only port", address, router, cancel.clone()));
    }
    let (Some(server), Some(serving)) = (&plan.server, &world.serving) else { return };
    if let (Some(addresses), Some(node)) = (serving.addresses.clone(), node) {
        let follow = node_view::follow_addresses(node, addresses, cancel.clone());
        running.spawn("serving addresses", follow);
    }
    let lookup = PodLookup::new(views.desired.clone(), shown);
    let debug = plan.debug.map(|plan| {
        let tables = debugging::Tables { views: &views, observer: observer.clone(), pods: lookup.clone() };
        debugging::start_debugging(running, world, plan, tables)
    });
    let checkpoints = CheckpointParts {
        lookup,
        observer: observer.clone(),
        runtime: world.runtime.clone(),
        folder: plan.settings.root_dir.join("checkpoints"),
        clock: world.clock.clone(),
    };
    let parts = MainParts {
        views,
        access: access(world, server, serving, &plan.settings.name),
        about: server.debugging.then(|| serving.about.clone()),
        profiling: server.debugging.then(|| serving.profiling.clone()),
        checkpoints: (server.checkpoints && server.debugging).then_some(checkpoints),
        running: server.debugging.then_some(observer),
        debug,
    };
    let main = serve_tls("main port", server.address, serving.tls.clone(), main_router(parts), cancel);
    running.spawn("main port", main);
}

fn access(world: &World, plan: &ServerPlan, serving: &Serving, node: &str) -> Access {
    let api = world.api.as_ref();
    let tokens = api.zip(plan.tokens);
    let authentication = Authentication {
        certificates: serving.certificates.clone(),
        tokens: tokens.map(|(api, ttl)| TokenChecks::new(api.token_reviews.clone(), ttl)),
        anonymous: plan.anonymous,
    };
    let authorization = match (plan.authorization, api) {
        (AuthorizationPlan::Webhook { allowed, denied }, Some(api)) => Authorization::Webhook(
            AccessChecks::new(api.access_reviews.clone(), node.to_owned(), allowed, denied),
        ),
        (AuthorizationPlan::AlwaysAllow, _) => Authorization::AlwaysAllow,
        // The plan never says so without an API server.
        (AuthorizationPlan::Webhook { .. }, None) => Authorization::Nobody,
    };
    Access {
        authentication: Arc::new(authentication),
        authorization: Arc::new(authorization),
        streaming: plan.streaming,
    }
}
