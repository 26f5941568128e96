use std::sync::Arc;
use std::time::Duration;

use model::{Pod, Rejection, ResourceAmounts};

use super::occupancy::{AdmittedPod, Occupancy};
use super::{InsufficientResource, PredicateFailure};
use crate::pipeline::grace::MAX_GRACE_SECONDS;
use crate::pod_resources::critical_pods::is_critical;
use crate::pod_resources::qos::{QosClass, pod_qos_class};

const MIN_TERMINATION_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a critical pod waits until a preempted pod has stopped.
pub fn preemption_timeout(pod: &Pod) -> Duration {
    let grace = pod.spec.termination_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    termination_timeout(grace.unwrap_or_default())
}

/// How long to wait until a pod with this grace period has stopped.
pub fn termination_timeout(grace_seconds: u64) -> Duration {
    let grace = grace_seconds.min(MAX_GRACE_SECONDS);
    Duration::from_secs(grace + grace / 2).max(MIN_TERMINATION_TIMEOUT)
}

/// Turns predicate failures into a rejection, or into the pods to preempt.
pub(super) fn resolve(
    pod: &Pod,
    occupancy: &Occupancy,
    failures: &[PredicateFailure],
) -> Result<Vec<Arc<Pod>>, Rejection> {
    let Some(first) = failures.first() else { return Ok(Vec::new()) };
    if !is_critical(pod) {
        return Err(first.rejection());
    }
    let mut amounts = ResourceAmounts::new();
    let mut names = Vec::new();
    for failure in failures {
        match failure {
            PredicateFailure::Predicate { .. } => return Err(failure.rejection()),
            PredicateFailure::Resource(InsufficientResource { resource, requested, used, capacity }) => {
                let amount = requested.saturating_sub(capacity.saturating_sub(*used));
                amounts.insert(resource.clone(), amount);
                names.push(resource.clone());
            }
        }
    }
    let missing = MissingResources { names, amounts };
    select_victims(pod, occupancy, &missing).map_err(|unavailable| {
        let message = format!(
            "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: {}",
            unavailable.text()
        );
        Rejection::at_admission("UnexpectedAdmissionError", message)
    })
}

/// Selects the pods to preempt: the least important QoS class first, then as few pods as possible, then the smaller ones.
fn select_victims(
    pod: &Pod,
    occupancy: &Occupancy,
    missing: &MissingResources,
) -> Result<Vec<Arc<Pod>>, MissingResources> {
    let others = occupancy.others(&pod.uid);
    let candidates = |class: QosClass| -> Vec<&AdmittedPod> {
        let class_matches = |candidate: &&&AdmittedPod| pod_qos_class(&candidate.pod) == class;
        let preemptable = |candidate: &&&AdmittedPod| is_preemptable(pod, &candidate.pod);
        others.iter().filter(preemptable).filter(class_matches).copied().collect()
    };
    let best_effort = candidates(QosClass::BestEffort);
    let burstable = candidates(QosClass::Burstable);
    let guaranteed = candidates(QosClass::Guaranteed);

    let unavailable = missing.after_preempting(best_effort.iter().chain(&burstable).chain(&guaranteed));
    if !unavailable.names.is_empty() {
        return Err(unavailable);
    }
    let of_guaranteed =
        pick_pods(&guaranteed, missing.after_preempting(best_effort.iter().chain(&burstable)))?;
    let of_burstable =
        pick_pods(&burstable, missing.after_preempting(best_effort.iter().chain(&of_guaranteed)))?;
    let of_best_effort =
        pick_pods(&best_effort, missing.after_preempting(of_burstable.iter().chain(&of_guaranteed)))?;
    let all = of_best_effort.into_iter().chain(of_burstable).chain(of_guaranteed);
    Ok(all.map(|candidate| Arc::clone(&candidate.pod)).collect())
}

fn is_preemptable(by: &Pod, pod: &Pod) -> bool {
    if is_critical(by) && !is_critical(pod) {
        return true;
    }
    matches!((by.spec.priority, pod.spec.priority), (Some(by), Some(own)) if by > own)
}

/// Repeatedly picks the pod that covers most of the missing resources.
fn pick_pods<'a>(
    pods: &[&'a AdmittedPod],
    mut missing: MissingResources,
) -> Result<Vec<&'a AdmittedPod>, MissingResources> {
    let mut left = pods.to_vec();
    let mut chosen = Vec::new();
    while !missing.names.is_empty() {
        let best = left.iter().enumerate().min_by(|(_, one), (_, other)| {
            let by_distance = missing.distance(one).total_cmp(&missing.distance(other));
            by_distance.then_with(|| size(one).cmp(&size(other)))
        });
        let Some((index, candidate)) = best.map(|(index, candidate)| (index, *candidate)) else {
            return Err(missing);
        };
        missing = missing.after_preempting([&candidate]);
        chosen.push(candidate);
        left.swap_remove(index);
    }
    Ok(chosen)
}

fn size(candidate: &AdmittedPod) -> (i64, i64) {
    (amount(candidate, "memory"), amount(candidate, "cpu"))
}

fn amount(candidate: &AdmittedPod, name: &str) -> i64 {
    if name == "pods" { 1 } else { candidate.requests.get(name).copied().unwrap_or_default() }
}

/// Missing amounts, with the resource names in the order in which they were found.
#[derive(Clone, Debug, Default)]
struct MissingResources {
    names: Vec<String>,
    amounts: ResourceAmounts,
}

impl MissingResources {
    fn of(&self, name: &str) -> i64 {
        self.amounts.get(name).copied().unwrap_or_default()
    }

    /// The missing amounts after these pods are preempted.
    fn after_preempting<'a, 'b: 'a>(&self, pods: impl IntoIterator<Item = &'a &'b AdmittedPod>) -> Self {
        let mut left = self.clone();
        for candidate in pods {
            for (name, missing) in &mut left.amounts {
                *missing = missing.saturating_sub(amount(candidate, name));
            }
        }
        left.amounts.retain(|_, missing| *missing > 0);
        let amounts = &left.amounts;
        left.names.retain(|name| amounts.contains_key(name));
        left
    }

    /// How much a pod leaves uncovered; all resources have equal weight.
    #[expect(clippy::cast_precision_loss, reason = "only compared")]
    fn distance(&self, candidate: &AdmittedPod) -> f64 {
        let uncovered = |name: &String| {
            let needed = self.of(name);
            let left = needed.saturating_sub(amount(candidate, name)).max(0);
            (left as f64 / needed as f64).powi(2)
        };
        self.names.iter().map(uncovered).sum()
    }

    fn text(&self) -> String {
        let parts: String =
            self.names.iter().map(|name| format!("(res: {name}, q: {}), ", self.of(name))).collect();
        format!("[{parts}]")
    }
}
