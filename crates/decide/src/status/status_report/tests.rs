use k8s_openapi::api::core::v1::PodCondition;
use model::PodSource;
use serde_json::{Value, json};

use super::*;

const NOW: Timestamp = Timestamp::from_secs(1_000);

fn status(value: Value) -> PodStatus {
    serde_json::from_value(value).unwrap()
}

fn find_condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

#[test]
fn keeps_fields_of_other_writers() {
    let current = status(json!({
        "phase": "Running", "startTime": "2026-01-01T00:00:00Z", "observedGeneration": 3,
        "nominatedNodeName": "n",
        "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "x"}],
        "conditions": [{"type": "example.com/gate", "status": "True"}, {"type": "Ready", "status": "False"},
            {"type": "PodResizePending", "status": "True"}, {"type": "DisruptionTarget", "status": "True"}],
    }));
    let own = status(json!({
        "phase": "Running", "startTime": "2026-02-02T00:00:00Z", "observedGeneration": 2,
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "example.com/old", "status": "True"}],
    }));
    let status = status_to_report(&current, &own, ContainerActivity::MayRun, NOW);
    let kinds: Vec<&str> =
        status.conditions.iter().flatten().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(kinds, ["example.com/gate", "DisruptionTarget", "Ready"]);
    assert_eq!(status.start_time, current.start_time);
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!(status.resource_claim_statuses, current.resource_claim_statuses);
    assert_eq!(status.nominated_node_name.as_deref(), Some("n"));
}

#[test]
fn reports_terminal_phase_after_containers_stop() {
    let current = status(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}));
    let own = status(json!({
        "phase": "Failed", "reason": "Evicted", "message": "m",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "DisruptionTarget", "status": "True"}],
    }));
    let while_running = status_to_report(&current, &own, ContainerActivity::MayRun, NOW);
    assert_eq!((while_running.phase.as_deref(), while_running.reason.as_deref()), (Some("Running"), None));
    assert!(find_condition(&while_running, "DisruptionTarget").is_none());

    let ended = status_to_report(&current, &own, ContainerActivity::Stopped, NOW);
    assert_eq!((ended.phase.as_deref(), ended.reason.as_deref()), (Some("Failed"), Some("Evicted")));
    let ready = find_condition(&ended, "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("False", Some("PodFailed")));
    assert_eq!(ready.last_transition_time, Some(NOW.to_api_time()));
    assert!(find_condition(&ended, "DisruptionTarget").is_some());

    // A terminal phase at the server is kept even while containers run.
    let over = status(json!({"phase": "Failed"}));
    assert_eq!(
        status_to_report(&over, &own, ContainerActivity::MayRun, NOW).phase.as_deref(),
        Some("Failed")
    );
}

#[test]
fn readiness_and_terminal_changes_are_urgent() {
    let of = |phase: &str, ready: &str| {
        status(json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}))
    };
    let cases = [
        (of("Pending", "False"), of("Pending", "False"), StatusUrgency::Deferred),
        (of("Pending", "False"), of("Running", "False"), StatusUrgency::Prompt),
        (of("Pending", "False"), of("Running", "True"), StatusUrgency::Urgent),
        (of("Running", "True"), of("Running", "False"), StatusUrgency::Urgent),
        (of("Running", "False"), of("Failed", "False"), StatusUrgency::Urgent),
        (PodStatus::default(), of("Pending", "False"), StatusUrgency::Prompt),
    ];
    for (current, next, expected) in cases {
        assert_eq!(urgency(&current, &next), expected, "{current:?} {next:?}");
    }
}

#[test]
fn deletes_pod_when_deleted_terminal_and_cleaned_up() {
    let pod = |deleted: bool, phase: &str, mirror: bool| {
        let mut object = json!({
            "metadata": {"name": "p", "uid": "u", "annotations": {}},
            "spec": {"containers": []}, "status": {"phase": phase},
        });
        if deleted {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        if mirror {
            object["metadata"]["annotations"][labels::CONFIG_MIRROR] = json!("hash");
        }
        Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::Api).unwrap()
    };
    let finished = Some(WorkerPhase::Finished);
    assert!(can_be_deleted(&pod(true, "Failed", false), finished));
    assert!(!can_be_deleted(&pod(false, "Failed", false), finished));
    assert!(!can_be_deleted(&pod(true, "Running", false), finished));
    assert!(!can_be_deleted(&pod(true, "Failed", true), finished));
    assert!(!can_be_deleted(&pod(true, "Failed", false), Some(WorkerPhase::Terminated)));
    assert!(!can_be_deleted(&pod(true, "Failed", false), None));
}
