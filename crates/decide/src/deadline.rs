//! `activeDeadlineSeconds`: how long a pod may be active on the node.

use std::time::Duration;

use model::{ObservedPod, Pod, Rejection, Timestamp};

/// What is known of a pod's start.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// The start time that is reported.
    pub reported: Option<Timestamp>,
    /// What the runtime holds.
    pub observed: &'a ObservedPod,
    /// When this agent was started.
    pub agent_started: Timestamp,
}

/// When the pod's time is over, `None` if it has all the time.
///
/// It counts from the reported start time. An agent that was started anew reports a later one, so the oldest sandbox
/// that an earlier agent made counts too.
#[must_use]
pub fn deadline(pod: &Pod, start: Start<'_>) -> Option<Timestamp> {
    let seconds = u64::try_from(pod.spec.active_deadline_seconds?).ok()?;
    let delivered = pod.status.start_time.as_ref().map(Timestamp::from_api_time);
    let sandboxes = start.observed.sandboxes.iter().map(|sandbox| sandbox.created_at);
    let earlier = sandboxes.filter(|made| *made < start.agent_started);
    let known = start.reported.into_iter().chain(delivered).chain(earlier);
    let first = known.filter(|time| !time.is_zero()).min()?;
    Some(first.after(Duration::from_secs(seconds)))
}

/// What is reported of a pod whose time is over.
#[must_use]
pub fn deadline_exceeded() -> Rejection {
    Rejection {
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
    fn counts_from_the_earliest_known_start() {
        let limited = pod(serde_json::json!({"activeDeadlineSeconds": 10, "containers": []}));
        let at = Timestamp::from_secs;
        let nothing = observed(vec![], vec![]);
        let check = |pod: &Pod, reported, observed, agent_started| {
            deadline(pod, Start { reported, observed, agent_started: at(agent_started) })
        };
        assert_eq!(check(&limited, None, &nothing, 50), None);
        assert_eq!(check(&limited, Some(at(100)), &nothing, 50), Some(at(110)));
        let seen = observed(vec![sandbox("s", 1, SandboxState::NotReady)], vec![]);
        assert_eq!(check(&limited, Some(at(100)), &seen, 50), Some(at(12)));
        // A sandbox that this agent made belongs to an earlier life of the same pod.
        assert_eq!(check(&limited, Some(at(100)), &seen, 1), Some(at(110)));
        let free = pod(serde_json::json!({"containers": []}));
        assert_eq!(check(&free, Some(at(100)), &seen, 50), None);
    }
}
