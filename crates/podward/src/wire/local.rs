//! Wiring of the local socket.

use std::path::Path;
use std::sync::Arc;

use ::node_api::{
    LocalNode, LocalSocket, LocalSocketError, LogParts, PodLookup, Sessions, StreamingParts, Views,
    local_router, starting_router,
};
use agent::api_pods::ApiPodsReader;
use agent::node_view::NodeView;
use agent::observation::Observer;
use agent::source_report::{SourceReports, shown_url};
use axum::Router;
use model::PodSource;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{LocalParts, World};
use crate::plan::Plan;

/// The name of the socket below the agent's state folder.
pub const SOCKET: &str = "agent.sock";

/// The local socket while it is served.
pub struct LocalDoor {
    current: watch::Sender<Router>,
    _serving: JoinSet<()>,
}

impl LocalDoor {
    /// Opens the socket in a state folder; until [`LocalDoor::admit`] it only tells what the agent waits for. Without a
    /// socket the agent works all the same, but not beside another one.
    ///
    /// # Errors
    /// When another agent has it.
    pub async fn open(state: &Path, waits_for: String) -> anyhow::Result<Self> {
        let (current, router) = watch::channel(starting_router(waits_for));
        let mut serving = JoinSet::new();
        match LocalSocket::bind(&state.join(SOCKET)).await {
            Ok(socket) => {
                serving.spawn(socket.serve(router));
            }
            Err(error @ LocalSocketError::InUse(_)) => return Err(error.into()),
            Err(error) => {
                tracing::error!(%error, "the commands of podward cannot look at this agent");
            }
        }
        Ok(Self { current, _serving: serving })
    }

    /// Answers from now on.
    pub fn admit(&self, parts: LocalParts) {
        // The router before it has done its work.
        drop(self.current.send_replace(local_router(parts)));
    }
}

/// The configured sources, none of which has spoken yet.
pub(super) fn source_reports(plan: &Plan, world: &World) -> Arc<SourceReports> {
    let reports = SourceReports::new(world.clock.clone());
    if let Some(file) = &plan.file {
        reports.configured(PodSource::File, file.path.display().to_string());
    }
    if let Some(http) = &plan.http {
        reports.configured(PodSource::Http, shown_url(&http.url));
    }
    if world.api.is_some() {
        reports.configured(PodSource::Api, "the API server of the kubeconfig".to_owned());
    }
    Arc::new(reports)
}

/// What the socket tells of the node.
pub(super) fn local_node(plan: &Plan, world: &World, view: Option<watch::Receiver<NodeView>>) -> LocalNode {
    LocalNode {
        profile: Arc::new(plan.node.profile.clone()),
        view,
        host: world.host.clone(),
        runtime: world.runtime.clone(),
        started_at: world.clock.now(),
    }
}

/// What logs and streams are found by.
pub(super) struct Looked<'a> {
    pub(super) views: &'a Views,
    pub(super) observer: &'a Observer,
    pub(super) shown: &'a ApiPodsReader,
}

impl Looked<'_> {
    fn pods(&self) -> PodLookup {
        PodLookup::new(self.views.desired.clone(), Some(self.shown.clone()))
    }

    /// The logs of containers.
    pub(super) fn logs(&self, world: &World) -> LogParts {
        LogParts {
            pods: self.pods(),
            statuses: self.views.statuses.clone(),
            observer: self.observer.clone(),
            files: world.log_files.clone(),
            clock: world.clock.clone(),
            split_streams: true,
        }
    }

    /// The streams to what runs; root has them whatever the main port is allowed.
    pub(super) fn streaming(&self, world: &World) -> StreamingParts {
        StreamingParts {
            pods: self.pods(),
            observer: self.observer.clone(),
            streams: world.runtime.clone(),
            containers: world.runtime.clone(),
            sessions: Sessions::default(),
            metrics: world.metrics.clone(),
            translate: true,
        }
    }
}
