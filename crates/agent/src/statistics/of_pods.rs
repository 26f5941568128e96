//! Pod statistics for eviction.

use std::collections::HashSet;

use async_trait::async_trait;
use decide::statistics::readings::arrange;
use decide::statistics::summary::{NodeReading, summary};
use model::PodUid;
use model::statistics::PodStatistics;
use ports::served::pod_statistics::{DiskParts, PodStatisticsSource};

use super::{Scope, Statistics};

#[async_trait]
impl PodStatisticsSource for Statistics {
    async fn everything(&self) -> Vec<PodStatistics> {
        self.summary(Scope::Everything).await.pods
    }

    async fn disks(&self, pods: Vec<PodUid>, deps: DiskParts) -> Vec<PodStatistics> {
        let selected: HashSet<PodUid> = pods.into_iter().collect();
        let mut pods = self.running();
        pods.retain(|pod| selected.contains(&pod.uid) && pod.has_containers());
        let around = self.disk_environment(&pods, deps).await;
        let pods: Vec<_> = pods.into_iter().map(|pod| arrange(pod, None, Vec::new())).collect();
        summary(&NodeReading::default(), &pods, Some(&around)).pods
    }
}
