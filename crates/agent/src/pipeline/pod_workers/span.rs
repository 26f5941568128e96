//! The tracing span of a sync.

use decide::pipeline::worker::Work;
use model::{PodFullName, PodUid};
use ports::telemetry::trace::TARGET;
use tracing::Span;

/// The span of one piece of work, with upstream's names.
pub(super) fn span_of(work: &Work) -> Span {
    match work {
        Work::Sync { pod, kind, .. } => {
            let span = span("syncPod", &pod.uid, &pod.full_name);
            span.record("k8s.pod.update_type", kind.as_str());
            span
        }
        Work::Terminate { pod, .. } => span("syncTerminatingPod", &pod.uid, &pod.full_name),
        Work::TerminateOrphan { observed, .. } => {
            span("syncTerminatingRuntimePod", &observed.uid, &observed.full_name)
        }
        Work::CleanUp { pod } => span("syncTerminatedPod", &pod.uid, &pod.full_name),
    }
}

fn span(name: &str, uid: &PodUid, pod: &PodFullName) -> Span {
    tracing::info_span!(
        target: TARGET,
        "pod_sync",
        otel.name = name,
        k8s.pod.uid = uid.as_str(),
        k8s.pod = %pod,
        k8s.pod.name = pod.name.as_str(),
        k8s.namespace.name = pod.namespace.as_str(),
        k8s.pod.update_type = tracing::field::Empty
    )
}
