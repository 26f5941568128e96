//! Grace periods of pods and containers.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use model::{KillOptions, Pod};

use crate::pipeline::pod_actions::KillReason;

pub const MIN_CONTAINER_GRACE: Duration = Duration::from_secs(2);

/// Longer grace periods are cut to this: the API allows values that overflow a timestamp.
pub const MAX_GRACE_SECONDS: u64 = 10 * 365 * 24 * 3600;

pub const ORPHAN_GRACE_SECONDS: u64 = 1;

/// The grace period of a terminating pod in seconds. Later requests can only shorten it.
pub fn pod_grace(current: Option<u64>, pod: &Pod, kill: Option<&KillOptions>) -> u64 {
    let requested = [
        current,
        pod.metadata.deletion_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok()),
        kill.and_then(|options| options.grace_override),
    ];
    requested
        .into_iter()
        .flatten()
        .filter(|seconds| *seconds > 0)
        .min()
        .or_else(|| pod.spec.termination_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok()))
        .unwrap_or(ORPHAN_GRACE_SECONDS)
        .clamp(1, MAX_GRACE_SECONDS)
}

/// The grace period in seconds of a container that is stopped while its pod keeps running. A failed probe may have its own
/// grace period; that of a deletion takes precedence.
pub fn container_grace(pod: &Pod, container: &Container, reason: Option<KillReason>) -> u64 {
    let probe = match reason {
        Some(KillReason::LivenessFailed) => container.liveness_probe.as_ref(),
        Some(KillReason::StartupFailed) => container.startup_probe.as_ref(),
        Some(
            KillReason::DefinitionChanged
            | KillReason::UnknownState
            | KillReason::Superseded
            | KillReason::ResizeRestart
            | KillReason::ObjectsChanged,
        )
        | None => None,
    };
    let of_probe = probe.and_then(|probe| probe.termination_grace_period_seconds);
    let of_pod = pod.spec.termination_grace_period_seconds;
    pod.metadata
        .deletion_grace_period_seconds
        .or(of_pod.and(of_probe))
        .or(of_pod)
        .map_or(MIN_CONTAINER_GRACE.as_secs(), |seconds| u64::try_from(seconds).unwrap_or(0))
        .min(MAX_GRACE_SECONDS)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Probe;
    use model::PodSource;
    use proptest::prelude::*;

    use super::*;

    fn pod(spec: Option<i64>, deletion: Option<i64>) -> Pod {
        let mut object = k8s_openapi::api::core::v1::Pod::default();
        object.metadata.uid = Some("u".into());
        object.metadata.name = Some("n".into());
        object.metadata.deletion_grace_period_seconds = deletion;
        object.spec = Some(Default::default());
        object.spec.as_mut().unwrap().termination_grace_period_seconds = spec;
        Pod::from_object(object, PodSource::File).unwrap()
    }

    fn with_override(seconds: u64) -> KillOptions {
        KillOptions { grace_override: Some(seconds), rejection: None }
    }

    #[test]
    fn grace_of_spec_is_the_default() {
        assert_eq!(pod_grace(None, &pod(Some(30), None), None), 30);
    }

    #[test]
    fn override_replaces_grace_of_spec_and_shorter_api_grace_wins() {
        assert_eq!(pod_grace(None, &pod(Some(30), None), Some(&with_override(60))), 60);
        assert_eq!(pod_grace(None, &pod(Some(30), Some(5)), Some(&with_override(60))), 5);
    }

    #[test]
    fn grace_is_at_least_one_second() {
        assert_eq!(pod_grace(None, &pod(Some(0), None), None), 1);
        assert_eq!(pod_grace(None, &pod(None, None), None), 1);
    }

    #[test]
    fn failed_probe_may_shorten_container_grace() {
        let probe = |seconds| Some(Probe { termination_grace_period_seconds: seconds, ..Probe::default() });
        let container =
            Container { liveness_probe: probe(Some(5)), startup_probe: probe(None), ..Container::default() };
        let grace = |pod: &Pod, reason| container_grace(pod, &container, reason);
        let plain = pod(Some(30), None);
        assert_eq!(grace(&plain, None), 30);
        assert_eq!(grace(&plain, Some(KillReason::LivenessFailed)), 5);
        assert_eq!(grace(&plain, Some(KillReason::StartupFailed)), 30);
        assert_eq!(grace(&plain, Some(KillReason::DefinitionChanged)), 30);
        assert_eq!(grace(&pod(Some(30), Some(9)), Some(KillReason::LivenessFailed)), 9);
        assert_eq!(grace(&pod(Some(0), None), None), 0);
        assert_eq!(grace(&pod(None, None), Some(KillReason::LivenessFailed)), 2);
    }

    proptest! {
        #[test]
        fn grace_never_overflows_a_timestamp(seconds in 0..=i64::MAX) {
            let pod = pod(Some(seconds), Some(seconds));
            let container = container_grace(&pod, &Container::default(), None);
            for grace in [pod_grace(None, &pod, None), container] {
                prop_assert!(grace <= MAX_GRACE_SECONDS);
            }
            let wait = crate::admission::preemption_timeout(&pod);
            prop_assert!(wait <= Duration::from_secs(2 * MAX_GRACE_SECONDS));
        }

        #[test]
        fn grace_only_shrinks(spec in 0i64..100, requests in proptest::collection::vec(0u64..100, 1..6)) {
            let pod = pod(Some(spec), None);
            let mut current = None;
            for request in requests {
                let next = pod_grace(current, &pod, Some(&with_override(request)));
                if let Some(before) = current {
                    prop_assert!(next <= before);
                }
                current = Some(next);
            }
        }
    }
}
