use std::collections::HashMap;
use std::sync::Arc;

use decide::pipeline::pod_actions::{is_sidecar, never_ran};
use decide::pipeline::probe::{
    NextCheck, ProbeCheck, ProbeScheduleInputs, ProbeSettings, ProbeState, build_check, next_check, probe_of,
    probes, restored_result,
};
use model::{
    ContainerKind, ContainerProbeResults, ContainerStatus, ObservedPod, Pod, ProbeKind, ProbeResult,
    ProbeResults, Timestamp,
};

use super::ProbeKey;
use super::checkpoint::SavedResults;

pub(super) struct PodRow {
    pub(super) pod: Arc<Pod>,
    pub(super) observed: Option<Arc<ObservedPod>>,
    pub(super) terminating: bool,
    pub(super) probes: Vec<ProbeRow>,
    pub(super) published: ProbeResults,
}

pub(super) struct ProbeRow {
    pub(super) key: ProbeKey,
    pub(super) settings: ProbeSettings,
    sidecar: bool,
    pub(super) state: Option<ProbeState>,
    pub(super) checking: bool,
}

/// Results of an earlier run of the agent.
pub(super) struct EarlierResults<'a> {
    pub(super) saved: &'a SavedResults,
    pub(super) agent_started_at: Timestamp,
}

impl PodRow {
    pub(super) fn new(pod: Arc<Pod>) -> Self {
        let probes = probe_rows(&pod);
        Self { pod, observed: None, terminating: false, probes, published: ProbeResults::new() }
    }

    /// Replaces the pod by a newer version. Probes that still exist keep their state; returns the removed ones.
    pub(super) fn replace_pod(&mut self, pod: Arc<Pod>) -> Vec<ProbeRow> {
        if Arc::ptr_eq(&self.pod, &pod) {
            return Vec::new();
        }
        let old = std::mem::replace(&mut self.probes, probe_rows(&pod));
        let mut old: HashMap<ProbeKey, ProbeRow> =
            old.into_iter().map(|probe| (probe.key.clone(), probe)).collect();
        for probe in &mut self.probes {
            if let Some(previous) = old.remove(&probe.key) {
                (probe.state, probe.checking) = (previous.state, previous.checking);
            }
        }
        self.pod = pod;
        old.into_values().collect()
    }

    /// Resets the state of every probe whose container was replaced.
    pub(super) fn assign_containers(&mut self, earlier: Option<&EarlierResults<'_>>) {
        for probe in &mut self.probes {
            let status =
                self.observed.as_deref().and_then(|observed| current(observed, &probe.key.container));
            let Some(status) = status else {
                probe.state = None;
                continue;
            };
            let current_state = probe.state.as_ref();
            if current_state
                .is_some_and(|state| state.id == status.id && state.started_at == status.started_at)
            {
                continue;
            }
            let kind = probe.key.kind;
            let container = self.pod.container(&probe.key.container);
            let restored = earlier.and_then(|earlier| {
                earlier.saved.result(status, kind).or_else(|| {
                    restored_result(kind, &self.pod, container?.container, status, earlier.agent_started_at)
                })
            });
            probe.state = Some(match restored {
                Some(result) => ProbeState::with_result(status, kind, result),
                None => ProbeState::new(status),
            });
        }
    }

    pub(super) fn probe_mut(&mut self, key: &ProbeKey) -> Option<&mut ProbeRow> {
        self.probes.iter_mut().find(|probe| probe.key == *key)
    }

    pub(super) fn next(&self, probe: &ProbeRow, now: Timestamp) -> NextCheck {
        let status = self.observed.as_deref().and_then(|observed| current(observed, &probe.key.container));
        let (Some(state), Some(status)) = (&probe.state, status) else { return NextCheck::Wait };
        next_check(&ProbeScheduleInputs {
            kind: probe.key.kind,
            settings: &probe.settings,
            state,
            status,
            startup: self.startup(&probe.key.container),
            terminating: self.terminating,
            sidecar: probe.sidecar,
            now,
        })
    }

    /// The result of the container's startup probe; the outer `None` means that it has no startup probe.
    fn startup(&self, container: &str) -> Option<Option<ProbeResult>> {
        let probe = self
            .probes
            .iter()
            .find(|probe| probe.key.kind == ProbeKind::Startup && *probe.key.container == *container)?;
        Some(probe.state.as_ref().and_then(|state| state.result))
    }

    /// The check of a probe with the pod's current address.
    pub(super) fn check(
        &self,
        key: &ProbeKey,
        host: &str,
    ) -> Result<ProbeCheck, decide::pipeline::probe::CheckError> {
        let missing =
            || decide::pipeline::probe::CheckError(format!("container {} no longer exists", key.container));
        let entry = self.pod.container(&key.container).ok_or_else(missing)?;
        let probe = probe_of(entry.container, key.kind).ok_or_else(missing)?;
        let observed_ip =
            self.observed.as_deref().and_then(|observed| observed.ips().first()).map(String::as_str);
        let pod_ip = if self.pod.is_host_network() { host } else { observed_ip.unwrap_or_default() };
        build_check(probe, entry.container, pod_ip)
    }

    /// The results of all probes.
    pub(super) fn probe_results(&self) -> ProbeResults {
        let mut probe_results = ProbeResults::new();
        for probe in &self.probes {
            let Some(state) = &probe.state else { continue };
            let Some(result) = state.result else { continue };
            let row = probe_results.entry(probe.key.container.to_string()).or_insert_with(|| {
                ContainerProbeResults { id: state.id.clone(), startup: None, readiness: None, liveness: None }
            });
            match probe.key.kind {
                ProbeKind::Startup => row.startup = Some(result),
                ProbeKind::Readiness => row.readiness = Some(result),
                ProbeKind::Liveness => row.liveness = Some(result),
            }
        }
        probe_results
    }
}

fn probe_rows(pod: &Arc<Pod>) -> Vec<ProbeRow> {
    probes(pod)
        .filter_map(|(entry, kind)| {
            let settings = ProbeSettings::of(probe_of(entry.container, kind)?);
            Some(ProbeRow {
                key: ProbeKey { uid: pod.uid.clone(), container: entry.container.name.as_str().into(), kind },
                settings,
                sidecar: entry.kind == ContainerKind::Init && is_sidecar(entry.container),
                state: None,
                checking: false,
            })
        })
        .collect()
}

/// The newest container with a name that was started.
fn current<'a>(observed: &'a ObservedPod, name: &'a str) -> Option<&'a ContainerStatus> {
    observed.containers_named(name).find(|status| !never_ran(status))
}
