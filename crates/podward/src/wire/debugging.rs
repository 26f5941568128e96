//! Wiring of the paths that look into pods.

use ::node_api::{DebugParts, LogParts, NodeLogParts, PodLookup, Sessions, StreamingParts, Views};
use agent::observation::Observer;

use super::{Running, World};
use crate::debug_plan::DebugPlan;

/// What the paths read besides the world.
pub(super) struct Tables<'a> {
    pub(super) views: &'a Views,
    pub(super) observer: Observer,
    pub(super) pods: PodLookup,
}

/// Starts the keeper of open streams and gathers what the paths need.
pub(super) fn start_debugging(
    running: &mut Running,
    world: &World,
    plan: DebugPlan,
    tables: Tables<'_>,
) -> DebugParts {
    let Tables { views, observer, pods } = tables;
    let sessions = Sessions::default();
    running.spawn("streams", sessions.clone().run(running.cancel.clone()));
    DebugParts {
        logs: LogParts {
            pods: pods.clone(),
            statuses: views.statuses.clone(),
            observer: observer.clone(),
            files: world.log_files.clone(),
            clock: world.clock.clone(),
            split_streams: plan.split_streams,
        },
        streaming: StreamingParts {
            pods,
            observer,
            streams: world.runtime.clone(),
            containers: world.runtime.clone(),
            sessions,
            metrics: world.metrics.clone(),
            translate: plan.translate,
        },
        node_logs: plan
            .node_logs
            .then(|| NodeLogParts { logs: world.node_logs.clone(), queries: plan.log_queries }),
    }
}
