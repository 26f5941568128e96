use std::collections::HashMap;
use std::sync::Arc;

use decide::pod_actions::{is_half_made, is_sidecar};
use decide::probe::{
    Next, ProbeCheck, ProbeState, Situation, Terms, check, kept_over_restart, next, probe_of, probes,
};
use model::{
    ContainerKind, ContainerStatus, ContainerVerdicts, ObservedPod, Pod, ProbeKind, ProbeVerdict,
    ProbeVerdicts, Timestamp,
};
use tokio::time::Instant;

use super::ProbeKey;
use super::checkpoint::Saved;

/// The probes of one pod.
pub(super) struct Row {
    pub(super) pod: Arc<Pod>,
    pub(super) observed: Option<Arc<ObservedPod>>,
    pub(super) terminating: bool,
    pub(super) probes: Vec<ProbeRow>,
    /// What the table says.
    pub(super) published: ProbeVerdicts,
}

/// One probe.
pub(super) struct ProbeRow {
    pub(super) key: ProbeKey,
    pub(super) terms: Terms,
    sidecar: bool,
    pub(super) state: Option<ProbeState>,
    /// Whether a check is under way.
    pub(super) checking: bool,
    /// Its place in the queue.
    pub(super) due: Option<Instant>,
}

/// What is known from before this agent's time.
pub(super) struct Past<'a> {
    pub(super) saved: &'a Saved,
    pub(super) agent_started_at: Timestamp,
}

impl Row {
    pub(super) fn new(pod: Arc<Pod>) -> Self {
        let probes = probe_rows(&pod);
        Self { pod, observed: None, terminating: false, probes, published: ProbeVerdicts::new() }
    }

    /// Takes over another version of the pod; probes that are still there keep what they know. Returns the others.
    pub(super) fn replace_pod(&mut self, pod: Arc<Pod>) -> Vec<ProbeRow> {
        if Arc::ptr_eq(&self.pod, &pod) {
            return Vec::new();
        }
        let old = std::mem::replace(&mut self.probes, probe_rows(&pod));
        let mut old: HashMap<ProbeKey, ProbeRow> =
            old.into_iter().map(|probe| (probe.key.clone(), probe)).collect();
        for probe in &mut self.probes {
            if let Some(known) = old.remove(&probe.key) {
                (probe.state, probe.checking, probe.due) = (known.state, known.checking, known.due);
            }
        }
        self.pod = pod;
        old.into_values().collect()
    }

    /// Gives every probe a state for the container that is there now.
    pub(super) fn meet_containers(&mut self, past: Option<&Past<'_>>) {
        for probe in &mut self.probes {
            let status = self.observed.as_deref().and_then(|seen| current(seen, &probe.key.container));
            let Some(status) = status else {
                probe.state = None;
                continue;
            };
            let known = probe.state.as_ref();
            if known.is_some_and(|known| known.id == status.id && known.started_at == status.started_at) {
                continue;
            }
            let kind = probe.key.kind;
            let container = self.pod.container(&probe.key.container);
            let kept = past.and_then(|past| {
                past.saved.verdict(status, kind).or_else(|| {
                    kept_over_restart(kind, &self.pod, container?.container, status, past.agent_started_at)
                })
            });
            probe.state = Some(match kept {
                Some(verdict) => ProbeState::judged(status, kind, verdict),
                None => ProbeState::new(status),
            });
        }
    }

    pub(super) fn probe_mut(&mut self, key: &ProbeKey) -> Option<&mut ProbeRow> {
        self.probes.iter_mut().find(|probe| probe.key == *key)
    }

    /// When a probe checks again.
    pub(super) fn next(&self, probe: &ProbeRow, now: Timestamp) -> Next {
        let status = self.observed.as_deref().and_then(|seen| current(seen, &probe.key.container));
        let (Some(state), Some(status)) = (&probe.state, status) else { return Next::Wait };
        next(&Situation {
            kind: probe.key.kind,
            terms: &probe.terms,
            state,
            status,
            startup: self.startup(&probe.key.container),
            terminating: self.terminating,
            sidecar: probe.sidecar,
            now,
        })
    }

    /// The startup probe's verdict, if the container has one.
    fn startup(&self, container: &str) -> Option<Option<ProbeVerdict>> {
        let probe = self
            .probes
            .iter()
            .find(|probe| probe.key.kind == ProbeKind::Startup && *probe.key.container == *container)?;
        Some(probe.state.as_ref().and_then(|state| state.verdict))
    }

    /// What a probe asks now.
    pub(super) fn check(&self, key: &ProbeKey, host: &str) -> Result<ProbeCheck, decide::probe::CheckError> {
        let missing = || decide::probe::CheckError(format!("container {} is gone", key.container));
        let entry = self.pod.container(&key.container).ok_or_else(missing)?;
        let probe = probe_of(entry.container, key.kind).ok_or_else(missing)?;
        let own = self.observed.as_deref().and_then(|seen| seen.ips().first()).map(String::as_str);
        let pod_ip = if self.pod.is_host_network() { host } else { own.unwrap_or_default() };
        check(probe, entry.container, pod_ip)
    }

    /// What all probes say.
    pub(super) fn verdicts(&self) -> ProbeVerdicts {
        let mut verdicts = ProbeVerdicts::new();
        for probe in &self.probes {
            let Some(state) = &probe.state else { continue };
            let Some(verdict) = state.verdict else { continue };
            let row = verdicts.entry(probe.key.container.to_string()).or_insert_with(|| ContainerVerdicts {
                id: state.id.clone(),
                startup: None,
                readiness: None,
                liveness: None,
            });
            match probe.key.kind {
                ProbeKind::Startup => row.startup = Some(verdict),
                ProbeKind::Readiness => row.readiness = Some(verdict),
                ProbeKind::Liveness => row.liveness = Some(verdict),
            }
        }
        verdicts
    }
}

fn probe_rows(pod: &Arc<Pod>) -> Vec<ProbeRow> {
    probes(pod)
        .filter_map(|(entry, kind)| {
            let terms = Terms::of(probe_of(entry.container, kind)?);
            Some(ProbeRow {
                key: ProbeKey { uid: pod.uid.clone(), container: entry.container.name.as_str().into(), kind },
                terms,
                sidecar: entry.kind == ContainerKind::Init && is_sidecar(entry.container),
                state: None,
                checking: false,
                due: None,
            })
        })
        .collect()
}

/// The newest container of a name that was started at some time.
fn current<'a>(observed: &'a ObservedPod, name: &'a str) -> Option<&'a ContainerStatus> {
    observed.containers_named(name).find(|status| !is_half_made(status))
}
