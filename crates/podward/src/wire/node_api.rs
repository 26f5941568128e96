//! Starts the listeners of the node API.

use std::sync::Arc;

use ::node_api::access::{Access, AccessChecks, Authentication, Authorization, TokenChecks};
use ::node_api::{
    CheckpointDeps, MainRouterDeps, PodLookup, ProfilingDeps, PublishedState, ServerConfig, ZPagesDeps,
    health_router, main_router, read_only_router, serve, serve_tls,
};
use agent::node::node_view::{self, NodeView};
use k8s_openapi::api::core::v1::NodeAddress;
use ports::served::client_certificates::ClientCertificates;
use tokio::sync::watch;

use super::context::Context;
use super::{Adapters, Running, debugging};
use crate::plan::server::{AuthorizationPlan, ServerPlan};

/// Dependencies of the main port besides the published state.
#[derive(Clone)]
pub struct Serving {
    pub tls: Arc<ServerConfig>,
    /// Verifies client certificates.
    pub certificates: Option<Arc<dyn ClientCertificates>>,
    /// Receives the node's addresses, for the names in a requested certificate.
    pub addresses: Option<watch::Sender<Vec<NodeAddress>>>,
    pub about: ZPagesDeps,
    pub profiling: ProfilingDeps,
}

/// Starts all listeners.
pub(super) fn start_node_api(
    running: &mut Running,
    context: &Context,
    views: PublishedState,
    node: Option<watch::Receiver<NodeView>>,
) {
    let (adapters, plan) = (&context.adapters, &context.plan);
    let observer = context.tables.observer.clone();
    let cancel = running.cancel.clone();
    if let Some(address) = plan.health_address {
        let router = health_router(views.clone());
        running.spawn("healthz", serve("healthz", address, router, cancel.clone()));
    }
    if let Some(address) = plan.read_only_address {
        let router = read_only_router(views.clone());
        running.spawn("read-only port", serve("read-only port", address, router, cancel.clone()));
    }
    let (Some(server), Some(serving)) = (&plan.server, &adapters.serving) else { return };
    if let (Some(addresses), Some(node)) = (serving.addresses.clone(), node) {
        let publish = node_view::publish_addresses(node, addresses, cancel.clone());
        running.spawn("serving addresses", publish);
    }
    let api_pods = context.api().map(|_| context.tables.api_pods.clone());
    let lookup = PodLookup::new(views.desired.clone(), api_pods);
    let debug = plan.debug.map(|plan| debugging::start_debugging(running, context, plan, lookup.clone()));
    let checkpoints = CheckpointDeps {
        lookup,
        observer: observer.clone(),
        runtime: adapters.runtime.clone(),
        folder: plan.settings.root_dir.join("checkpoints"),
        clock: adapters.clock.clone(),
    };
    let parts = MainRouterDeps {
        published: views,
        access: access(adapters, server, serving, &plan.settings.name),
        zpages: server.debugging.then(|| serving.about.clone()),
        profiling: server.debugging.then(|| serving.profiling.clone()),
        checkpoints: (server.checkpoints && server.debugging).then_some(checkpoints),
        running: server.debugging.then_some(observer),
        debug,
    };
    let main = serve_tls("main port", server.address, serving.tls.clone(), main_router(parts), cancel);
    running.spawn("main port", main);
}

fn access(adapters: &Adapters, plan: &ServerPlan, serving: &Serving, node: &str) -> Access {
    let api = adapters.api.as_ref();
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
        // The plan never asks for a webhook without an API server.
        (AuthorizationPlan::Webhook { .. }, None) => Authorization::DenyAll,
    };
    Access {
        authentication: Arc::new(authentication),
        authorization: Arc::new(authorization),
        streaming: plan.streaming,
    }
}
