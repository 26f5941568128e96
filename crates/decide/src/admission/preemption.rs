use std::sync::Arc;
use std::time::Duration;

use model::{Pod, Rejection, ResourceAmounts};

use super::occupancy::{Occupancy, Usage};
use super::{Misfit, Shortage};
use crate::grace::LONGEST_GRACE_SECONDS;
use crate::qos::{QosClass, pod_qos_class};

/// Pods of this priority and above keep the node or the cluster alive.
const SYSTEM_CRITICAL: i32 = 2_000_000_000;
/// Time that the end of any pod may take.
const SHORTEST_WAIT: Duration = Duration::from_secs(10);

/// Whether the node makes room for a pod at the expense of others.
#[must_use]
pub fn is_critical(pod: &Pod) -> bool {
    pod.is_static() || pod.spec.priority.is_some_and(|priority| priority >= SYSTEM_CRITICAL)
}

/// How long a critical pod waits for the end of one that makes room for it.
#[must_use]
pub fn end_by(pod: &Pod) -> Duration {
    let grace = pod.spec.termination_grace_period_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    end_within(grace.unwrap_or_default())
}

/// How long the end of a pod that has so much grace is waited for.
#[must_use]
pub fn end_within(grace_seconds: u64) -> Duration {
    let grace = grace_seconds.min(LONGEST_GRACE_SECONDS);
    Duration::from_secs(grace + grace / 2).max(SHORTEST_WAIT)
}

/// What the misfits come to: a refusal, or the pods to end first.
pub(super) fn resolve(
    pod: &Pod,
    occupancy: &Occupancy,
    misfits: &[Misfit],
) -> Result<Vec<Arc<Pod>>, Rejection> {
    let Some(first) = misfits.first() else { return Ok(Vec::new()) };
    if !is_critical(pod) {
        return Err(first.rejection());
    }
    let mut needs = ResourceAmounts::new();
    let mut names = Vec::new();
    for misfit in misfits {
        match misfit {
            Misfit::Predicate { .. } => return Err(misfit.rejection()),
            Misfit::Resource(Shortage { resource, requested, used, capacity }) => {
                let missing = requested.saturating_sub(capacity.saturating_sub(*used));
                needs.insert(resource.clone(), missing);
                names.push(resource.clone());
            }
        }
    }
    let needs = Needs { names, amounts: needs };
    victims(pod, occupancy, &needs).map_err(|unmet| Rejection {
        reason: "UnexpectedAdmissionError".to_owned(),
        message: format!(
            "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: {}",
            unmet.text()
        ),
    })
}

/// The pods whose end frees what is needed, with as little harm as possible: first the least important class of
/// pods gives, then as few pods as possible, then the smaller ones.
fn victims(pod: &Pod, occupancy: &Occupancy, needs: &Needs) -> Result<Vec<Arc<Pod>>, Needs> {
    let others = occupancy.others(&pod.uid);
    let of_class = |class: QosClass| -> Vec<&Usage> {
        let class_matches = |usage: &&&Usage| pod_qos_class(&usage.pod) == class;
        let may_end = |usage: &&&Usage| is_preemptable(pod, &usage.pod);
        others.iter().filter(may_end).filter(class_matches).copied().collect()
    };
    let best_effort = of_class(QosClass::BestEffort);
    let burstable = of_class(QosClass::Burstable);
    let guaranteed = of_class(QosClass::Guaranteed);

    let unmet = needs.less(best_effort.iter().chain(&burstable).chain(&guaranteed));
    if !unmet.names.is_empty() {
        return Err(unmet);
    }
    let of_guaranteed = closest(&guaranteed, needs.less(best_effort.iter().chain(&burstable)))?;
    let of_burstable = closest(&burstable, needs.less(best_effort.iter().chain(&of_guaranteed)))?;
    let of_best_effort = closest(&best_effort, needs.less(of_burstable.iter().chain(&of_guaranteed)))?;
    let all = of_best_effort.into_iter().chain(of_burstable).chain(of_guaranteed);
    Ok(all.map(|usage| Arc::clone(&usage.pod)).collect())
}

fn is_preemptable(by: &Pod, pod: &Pod) -> bool {
    if is_critical(by) && !is_critical(pod) {
        return true;
    }
    matches!((by.spec.priority, pod.spec.priority), (Some(by), Some(own)) if by > own)
}

/// Takes the pod that covers most of what is left, again and again.
fn closest<'a>(pods: &[&'a Usage], mut needs: Needs) -> Result<Vec<&'a Usage>, Needs> {
    let mut left = pods.to_vec();
    let mut chosen = Vec::new();
    while !needs.names.is_empty() {
        let best = left.iter().enumerate().min_by(|(_, one), (_, other)| {
            let by_distance = needs.distance(one).total_cmp(&needs.distance(other));
            by_distance.then_with(|| size(one).cmp(&size(other)))
        });
        let Some((index, usage)) = best.map(|(index, usage)| (index, *usage)) else { return Err(needs) };
        needs = needs.less([&usage]);
        chosen.push(usage);
        left.swap_remove(index);
    }
    Ok(chosen)
}

fn size(usage: &Usage) -> (i64, i64) {
    (amount(usage, "memory"), amount(usage, "cpu"))
}

fn amount(usage: &Usage, name: &str) -> i64 {
    if name == "pods" { 1 } else { usage.requests.get(name).copied().unwrap_or_default() }
}

/// What is still missing, in the order it was found missing.
#[derive(Clone, Debug, Default)]
struct Needs {
    names: Vec<String>,
    amounts: ResourceAmounts,
}

impl Needs {
    fn of(&self, name: &str) -> i64 {
        self.amounts.get(name).copied().unwrap_or_default()
    }

    /// What is missing once these pods are gone.
    fn less<'a, 'b: 'a>(&self, pods: impl IntoIterator<Item = &'a &'b Usage>) -> Self {
        let mut left = self.clone();
        for usage in pods {
            for (name, missing) in &mut left.amounts {
                *missing = missing.saturating_sub(amount(usage, name));
            }
        }
        left.amounts.retain(|_, missing| *missing > 0);
        let amounts = &left.amounts;
        left.names.retain(|name| amounts.contains_key(name));
        left
    }

    /// How much a pod leaves uncovered; each resource counts the same.
    #[expect(clippy::cast_precision_loss, reason = "only compared")]
    fn distance(&self, usage: &Usage) -> f64 {
        let uncovered = |name: &String| {
            let needed = self.of(name);
            let left = needed.saturating_sub(amount(usage, name)).max(0);
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
