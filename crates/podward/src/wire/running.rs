//! A running agent: its stages and what the servers read.

use std::future::Future;

use ::node_api::{LocalApiDeps, PublishedState};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub struct Running {
    /// Read by the servers.
    pub views: PublishedState,
    /// Read through the local socket.
    pub local: LocalApiDeps,
    /// Stops every stage.
    pub cancel: CancellationToken,
    /// The stages by name.
    pub stages: JoinSet<&'static str>,
}

impl Running {
    pub(super) fn new(views: PublishedState, local: LocalApiDeps) -> Self {
        Self { views, local, cancel: CancellationToken::new(), stages: JoinSet::new() }
    }

    /// Runs a stage until the agent stops. A stage that ends earlier ends the agent.
    pub fn spawn(&mut self, name: &'static str, stage: impl Future<Output = ()> + Send + 'static) {
        self.stages.spawn(async move {
            stage.await;
            name
        });
    }

    /// Replaces the state that the servers and the local socket read.
    pub(super) fn publish(&mut self, state: PublishedState) {
        self.local.published = state.clone();
        self.views = state;
    }
}
