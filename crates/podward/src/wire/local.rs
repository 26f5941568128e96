//! The local socket and its API.

use std::path::Path;
use std::sync::Arc;

use ::node_api::{
    ContainerLogDeps, LocalApiDeps, LocalNodeDeps, LocalSocket, LocalSocketError, PodLookup, PublishedState,
    StreamSessions, StreamingDeps, local_router, starting_router,
};
use agent::pipeline::source_report::{SourceReports, redacted_url};
use axum::Router;
use model::PodSource;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::context::Context;
use super::{Adapters, Running};
use crate::plan::Plan;
use crate::version::VERSION;

/// The name of the socket below the agent's state folder.
pub const SOCKET: &str = "agent.sock";

/// The local socket while it is served.
pub struct LocalEndpoint {
    current: watch::Sender<Router>,
    _serving: JoinSet<()>,
}

impl LocalEndpoint {
    /// Opens the socket in a state folder. Until [`LocalEndpoint::serve`] is called, it only answers what the agent waits
    /// for. A failure to open it is logged, and the agent runs without it.
    ///
    /// # Errors
    /// When another agent uses the socket.
    pub async fn open(state: &Path, waits_for: String) -> anyhow::Result<Self> {
        let (current, router) = watch::channel(starting_router(waits_for));
        let mut serving = JoinSet::new();
        match LocalSocket::bind(&state.join(SOCKET)).await {
            Ok(socket) => {
                serving.spawn(socket.serve(router));
            }
            Err(error @ LocalSocketError::InUse(_)) => return Err(error.into()),
            Err(error) => {
                tracing::error!(%error, "failed to open the local socket, podward commands cannot reach this agent");
            }
        }
        Ok(Self { current, _serving: serving })
    }

    /// Serves the whole local API from now on.
    pub fn serve(&self, parts: LocalApiDeps) {
        drop(self.current.send_replace(local_router(parts)));
    }
}

/// The configured sources, none of which has delivered pods yet.
pub(super) fn source_reports(plan: &Plan, adapters: &Adapters) -> Arc<SourceReports> {
    let reports = SourceReports::new(adapters.clock.clone());
    if let Some(file) = &plan.file {
        reports.add_source(PodSource::File, file.path.display().to_string());
    }
    if let Some(http) = &plan.http {
        reports.add_source(PodSource::Http, redacted_url(&http.url));
    }
    if adapters.api.is_some() {
        reports.add_source(PodSource::Api, "the API server of the kubeconfig".to_owned());
    }
    Arc::new(reports)
}

/// The dependencies of the local API. The Node object follows once its watch runs.
pub(super) fn local_api(context: &Context, state: &PublishedState) -> LocalApiDeps {
    let (adapters, tables) = (&context.adapters, &context.tables);
    LocalApiDeps {
        logs: logs(context),
        streaming: streaming(context),
        published: state.clone(),
        observer: tables.observer.clone(),
        workers: tables.workers.clone(),
        next_syncs: tables.next_syncs.clone(),
        health: context.health.clone(),
        sources: context.source_reports.clone(),
        node: LocalNodeDeps {
            profile: Arc::new(context.plan.node.profile.clone()),
            view: None,
            devices: adapters.allocations.managed().devices().clone(),
            host: adapters.host.clone(),
            runtime: adapters.runtime.clone(),
            agent_version: VERSION,
            started_at: adapters.clock.now(),
        },
        clock: adapters.clock.clone(),
    }
}

/// Runs the streams that the local socket opens.
pub(super) fn start_local_streams(running: &mut Running) {
    let sessions = running.local.streaming.sessions.clone();
    running.spawn("local streams", sessions.run(running.cancel.clone()));
}

fn logs(context: &Context) -> ContainerLogDeps {
    let (adapters, tables) = (&context.adapters, &context.tables);
    ContainerLogDeps {
        pods: pods(context),
        statuses: tables.statuses.clone(),
        observer: tables.observer.clone(),
        files: adapters.log_files.clone(),
        clock: adapters.clock.clone(),
        split_streams: true,
    }
}

/// Exec, attach and port-forward, which root may use whatever the main port allows.
fn streaming(context: &Context) -> StreamingDeps {
    let adapters = &context.adapters;
    StreamingDeps {
        pods: pods(context),
        observer: context.tables.observer.clone(),
        streams: adapters.runtime.clone(),
        containers: adapters.runtime.clone(),
        sessions: StreamSessions::default(),
        metrics: adapters.metrics.clone(),
        translate: true,
    }
}

fn pods(context: &Context) -> PodLookup {
    PodLookup::new(context.tables.desired.clone(), Some(context.tables.api_pods.clone()))
}
