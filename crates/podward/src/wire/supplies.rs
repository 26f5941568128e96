//! Wiring of what pods take from the API server.

use std::sync::Arc;

use agent::cluster_objects::{self, ClusterObjects};
use agent::published::Reader;
use model::{Pod, PodUid, WorkerView};
use ports::objects::Objects;
use tokio::sync::mpsc;

use super::{ApiServer, Running};
use crate::cluster_plan::ClusterPlan;

/// Who uses what.
pub(super) struct Claims {
    /// Pods of which the wish or the worker changed.
    pub(super) changed_pods: mpsc::UnboundedReceiver<PodUid>,
    /// Pods that sources want.
    pub(super) desired: Reader<Pod>,
    /// How far their workers are.
    pub(super) workers: Reader<WorkerView>,
}

/// The ConfigMaps and Secrets of the cluster.
pub(super) fn start_objects(
    running: &mut Running,
    api: &ApiServer,
    plan: &ClusterPlan,
    claims: Claims,
) -> Arc<dyn Objects> {
    let (objects, orders) = ClusterObjects::new(api.objects.clone(), plan.objects);
    let parts = cluster_objects::Parts {
        objects: objects.clone(),
        orders,
        changed_pods: claims.changed_pods,
        desired: claims.desired,
        workers: claims.workers,
    };
    running.spawn("cluster objects", cluster_objects::run(parts, running.cancel.clone()));
    objects
}
