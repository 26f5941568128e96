//! `activeDeadlineSeconds`: how long a pod may be active on the node.

use std::time::Duration;

use model::{ObservedPod, Pod, Rejection, RejectionKind, Timestamp};

/// Times from which the start of a pod is derived.
#[derive(Clone, Copy, Debug)]
pub struct PodStartTimes<'a> {
    /// `status.startTime` as this agent reports it.
    pub reported: Option<Timestamp>,
    pub observed: &'a ObservedPod,
    /// Start of this agent.
    pub agent_started: Timestamp,
}

/// When the pod's active deadline expires; `None` without one.
///
/// It counts from the reported start time. A restarted agent reports a later one, so the oldest sandbox from before the
/// restart counts too.
pub fn deadline(pod: &Pod, times: PodStartTimes<'_>) -> Option<Timestamp> {
    let seconds = u64::try_from(pod.spec.active_deadline_seconds?).ok()?;
    let from_source = pod.status.start_time.as_ref().map(Timestamp::from_api_time);
    let sandboxes = times.observed.sandboxes.iter().map(|sandbox| sandbox.created_at);
    let before_agent = sandboxes.filter(|created| *created < times.agent_started);
    let starts = times.reported.into_iter().chain(from_source).chain(before_agent);
    let first = starts.filter(|time| !time.is_zero()).min()?;
    Some(first.after(Duration::from_secs(seconds)))
}

/// The rejection of a pod that exceeded its active deadline.
pub fn deadline_exceeded() -> Rejection {
    Rejection {
        kind: RejectionKind::Deadline,
        reason: "DeadlineExceeded".to_owned(),
        message: "Pod was active on the node longer than the specified deadline".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use model::SandboxState;

    use super::*;
    use crate::test_objects::{observed, pod, sandbox};

    #[test]
    fn deadline_counts_from_earliest_start_time() {
        let limited = pod(serde_json::json!({"activeDeadlineSeconds": 10, "containers": []}));
        let at = Timestamp::from_secs;
        let nothing = observed(vec![], vec![]);
        let check = |pod: &Pod, reported, observed, agent_started| {
            deadline(pod, PodStartTimes { reported, observed, agent_started: at(agent_started) })
        };
        assert_eq!(check(&limited, None, &nothing, 50), None);
        assert_eq!(check(&limited, Some(at(100)), &nothing, 50), Some(at(110)));
        let seen = observed(vec![sandbox("s", 1, SandboxState::NotReady)], vec![]);
        assert_eq!(check(&limited, Some(at(100)), &seen, 50), Some(at(12)));
        // A sandbox that this agent created belongs to an earlier run of the same pod and does not count.
        assert_eq!(check(&limited, Some(at(100)), &seen, 1), Some(at(110)));
        let free = pod(serde_json::json!({"containers": []}));
        assert_eq!(check(&free, Some(at(100)), &seen, 50), None);
    }
}
