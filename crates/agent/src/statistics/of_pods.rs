//! Pod statistics for eviction.

use std::collections::HashSet;

use async_trait::async_trait;
use decide::statistics::readings::arrange;
use decide::statistics::summary::{EnvironmentReading, NodeReading, summary};
use model::PodUid;
use model::statistics::PodStatistics;
use ports::served::pod_statistics::{DiskParts, PodStatisticsSource};

use super::runtime_side::Figures;
use super::{Scope, Statistics};

#[async_trait]
impl PodStatisticsSource for Statistics {
    async fn everything(&self) -> Vec<PodStatistics> {
        self.summary(Scope::Everything).await.pods
    }

    async fn disks(&self, pods: Vec<PodUid>, deps: DiskParts) -> Vec<PodStatistics> {
        let wanted: HashSet<PodUid> = pods.into_iter().collect();
        let mut pods = self.running();
        pods.retain(|pod| wanted.contains(&pod.uid) && pod.has_containers());
        let from_runtime = async {
            match deps {
                DiskParts::Files => Figures::default(),
                DiskParts::FilesAndLayers => {
                    let mut runtime_side = self.runtime_side.lock().await;
                    runtime_side.figures(&*self.deps.runtime, &*self.deps.disks).await
                }
            }
        };
        let from_disk = async { self.files.lock().await.of(&self.deps, &pods).await };
        let rooms = self.deps.disks.rooms(vec![self.deps.node.root_dir.clone()]);
        let (rooms, told, files) = tokio::join!(rooms, from_runtime, from_disk);
        let around = EnvironmentReading {
            time: self.deps.clock.now(),
            node_fs: rooms.into_iter().next().flatten(),
            image_fs: told.image_fs,
            container_fs: told.container_fs,
            layers: told.layers,
            files,
            ..EnvironmentReading::default()
        };
        let pods: Vec<_> = pods.into_iter().map(|pod| arrange(pod, None, Vec::new())).collect();
        summary(&NodeReading::default(), &pods, Some(&around)).pods
    }
}
