//! The published tables. Each has one writer; every stage may read.

use agent::cluster::api_pods::{ApiPodChange, ApiPodsReader, ApiPodsWriter, api_pods};
use agent::pipeline::cached_status::CachedStatus;
use agent::pipeline::observation::{Observations, Observer, observations};
use agent::pipeline::tables::{Reader, Writer, table};
use model::{Pod, PodUid, ProbeResults, Replacement, Timestamp, WorkerView};
use timing::{KeyReceiver, KeySender, key_channel};

use super::Adapters;

/// The readers of all tables, and what asks a stage to read them again.
#[derive(Clone)]
pub(super) struct Tables {
    pub(super) desired: Reader<Pod>,
    pub(super) workers: Reader<WorkerView>,
    pub(super) replacements: Reader<Replacement>,
    pub(super) observer: Observer,
    pub(super) probe_results: Reader<ProbeResults>,
    pub(super) statuses: Reader<CachedStatus>,
    /// Pods as the API server shows them; empty without one.
    pub(super) api_pods: ApiPodsReader,
    /// When each worker syncs its pod next.
    pub(super) next_syncs: Reader<Timestamp>,
    /// Requests the computation of a pod's status.
    pub(super) to_status: KeySender<PodUid>,
}

/// The writer of each table, to be moved into the stage that owns it.
pub(super) struct TableWriters {
    pub(super) desired: Writer<Pod>,
    pub(super) workers: Writer<WorkerView>,
    pub(super) observations: Observations,
    pub(super) probe_results: Writer<ProbeResults>,
    pub(super) statuses: Writer<CachedStatus>,
    pub(super) next_syncs: Writer<Timestamp>,
}

/// The UIDs of changed rows, for each stage that reacts to them.
pub(super) struct TableChanges {
    pub(super) status: KeyReceiver<PodUid>,
    pub(super) cgroups: KeyReceiver<PodUid>,
    pub(super) probes: KeyReceiver<PodUid>,
    pub(super) object_hints: KeyReceiver<PodUid>,
    /// Changes of pods at the API server, for the status stage.
    pub(super) api_pods: KeyReceiver<ApiPodChange>,
}

/// The ends that belong to the stages of a node in a cluster.
pub(super) struct ClusterEnds {
    pub(super) cluster_objects: KeyReceiver<PodUid>,
    pub(super) pods: ApiPodEnds,
}

/// The ends of the stages that exchange pods with the API server.
pub(super) struct ApiPodEnds {
    pub(super) api_pods: ApiPodsWriter,
    pub(super) mirror_pods: KeyReceiver<PodUid>,
    pub(super) mirror_api_pods: KeyReceiver<ApiPodChange>,
    pub(super) status_delivery: KeyReceiver<PodUid>,
    pub(super) delivery_api_pods: KeyReceiver<ApiPodChange>,
}

/// All tables with their ends.
pub(super) struct PublishedTables {
    pub(super) readers: Tables,
    pub(super) writers: TableWriters,
    /// For the service that syncs pods.
    pub(super) replacements: Writer<Replacement>,
    pub(super) changes: TableChanges,
    pub(super) cluster: ClusterEnds,
}

/// Creates all tables and connects each to the stages that react to its changes.
pub(super) fn tables(adapters: &Adapters) -> PublishedTables {
    let (to_status, status) = key_channel();
    let (to_cgroups, cgroups) = key_channel();
    let (to_probes, probes) = key_channel();
    let (to_hints, object_hints) = key_channel();
    let (to_objects, cluster_objects) = key_channel();
    let (to_mirrors, mirror_pods) = key_channel();
    let (to_delivery, status_delivery) = key_channel();
    let listeners = |all: &[&KeySender<PodUid>]| all.iter().copied().cloned().collect();

    let (desired_writer, desired) =
        table(listeners(&[&to_status, &to_cgroups, &to_probes, &to_hints, &to_objects, &to_mirrors]));
    let (worker_writer, workers) =
        table(listeners(&[&to_status, &to_cgroups, &to_probes, &to_objects, &to_delivery, &to_mirrors]));
    let (replacement_writer, replacements) = table(listeners(&[&to_status]));
    let (result_writer, probe_results) = table(listeners(&[&to_status]));
    let (observations, observer) = observations(listeners(&[&to_status, &to_probes]));
    let (status_writer, statuses) = table(listeners(&[&to_delivery]));
    let (next_sync_writer, next_syncs) = table(Vec::new());
    adapters.allocations.subscribe(to_status.clone());
    let (api_to_status, api_changes) = key_channel();
    let (to_delivery, delivery_api_pods) = key_channel();
    let (to_mirrors, mirror_api_pods) = key_channel();
    let (api_writer, api_reader) = api_pods(vec![api_to_status, to_delivery, to_mirrors]);

    let writers = TableWriters {
        desired: desired_writer,
        workers: worker_writer,
        observations,
        probe_results: result_writer,
        statuses: status_writer,
        next_syncs: next_sync_writer,
    };
    let changes = TableChanges { status, cgroups, probes, object_hints, api_pods: api_changes };
    let pods =
        ApiPodEnds { api_pods: api_writer, mirror_pods, mirror_api_pods, status_delivery, delivery_api_pods };
    let readers = Tables {
        desired,
        workers,
        replacements,
        observer,
        probe_results,
        statuses,
        api_pods: api_reader,
        next_syncs,
        to_status,
    };
    PublishedTables {
        readers,
        writers,
        replacements: replacement_writer,
        changes,
        cluster: ClusterEnds { cluster_objects, pods },
    }
}
