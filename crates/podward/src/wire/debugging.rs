//! Starts the node API paths that reach into pods: logs, exec, attach, port-forward.

use ::node_api::{ContainerLogDeps, DebugDeps, NodeLogDeps, PodLookup, StreamSessions, StreamingDeps};

use super::Running;
use super::context::Context;
use crate::plan::debugging::DebugPlan;

/// Runs open streams, and returns what the paths that reach into pods need.
pub(super) fn start_debugging(
    running: &mut Running,
    context: &Context,
    plan: DebugPlan,
    pods: PodLookup,
) -> DebugDeps {
    let (adapters, tables) = (&context.adapters, &context.tables);
    let sessions = StreamSessions::default();
    running.spawn("streams", sessions.clone().run(running.cancel.clone()));
    DebugDeps {
        logs: ContainerLogDeps {
            pods: pods.clone(),
            statuses: tables.statuses.clone(),
            observer: tables.observer.clone(),
            files: adapters.log_files.clone(),
            clock: adapters.clock.clone(),
            split_streams: plan.split_streams,
        },
        streaming: StreamingDeps {
            pods,
            observer: tables.observer.clone(),
            streams: adapters.runtime.clone(),
            containers: adapters.runtime.clone(),
            sessions,
            metrics: adapters.metrics.clone(),
            translate: plan.translate,
        },
        node_logs: plan
            .node_logs
            .then(|| NodeLogDeps { logs: adapters.node_logs.clone(), queries_enabled: plan.log_queries }),
    }
}
