use k8s_openapi::api::core::v1::PodCondition;
use model::PodSource;
use serde_json::{Value, json};

use super::*;

const NOW: Timestamp = Timestamp::from_secs(1_000);

fn status(value: Value) -> PodStatus {
    serde_json::from_value(value).unwrap()
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

#[test]
fn what_others_wrote_stays() {
    let seen = status(json!({
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
    let status = reported(&seen, &own, Containers::MayRun, NOW);
    let kinds: Vec<&str> =
        status.conditions.iter().flatten().map(|condition| condition.type_.as_str()).collect();
    assert_eq!(kinds, ["example.com/gate", "DisruptionTarget", "Ready"]);
    assert_eq!(status.start_time, seen.start_time);
    assert_eq!(status.observed_generation, Some(3));
    assert_eq!(status.resource_claim_statuses, seen.resource_claim_statuses);
    assert_eq!(status.nominated_node_name.as_deref(), Some("n"));
}

#[test]
fn an_end_is_told_once_nothing_runs() {
    let seen = status(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}));
    let own = status(json!({
        "phase": "Failed", "reason": "Evicted", "message": "m",
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "DisruptionTarget", "status": "True"}],
    }));
    let held = reported(&seen, &own, Containers::MayRun, NOW);
    assert_eq!((held.phase.as_deref(), held.reason.as_deref()), (Some("Running"), None));
    assert!(condition(&held, "DisruptionTarget").is_none());

    let told = reported(&seen, &own, Containers::Ended, NOW);
    assert_eq!((told.phase.as_deref(), told.reason.as_deref()), (Some("Failed"), Some("Evicted")));
    let ready = condition(&told, "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_deref()), ("False", Some("PodFailed")));
    assert_eq!(ready.last_transition_time, Some(NOW.to_api_time()));
    assert!(condition(&told, "DisruptionTarget").is_some());

    // What the server shows to be over stays so, whatever still runs.
    let over = status(json!({"phase": "Failed"}));
    assert_eq!(reported(&over, &own, Containers::MayRun, NOW).phase.as_deref(), Some("Failed"));
}

#[test]
fn readiness_and_ends_go_first() {
    let of = |phase: &str, ready: &str| {
        status(json!({"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}))
    };
    let cases = [
        (of("Pending", "False"), of("Pending", "False"), Haste::Relaxed),
        (of("Pending", "False"), of("Running", "False"), Haste::Prompt),
        (of("Pending", "False"), of("Running", "True"), Haste::Urgent),
        (of("Running", "True"), of("Running", "False"), Haste::Urgent),
        (of("Running", "False"), of("Failed", "False"), Haste::Urgent),
        (PodStatus::default(), of("Pending", "False"), Haste::Prompt),
    ];
    for (seen, next, expected) in cases {
        assert_eq!(haste(&seen, &next), expected, "{seen:?} {next:?}");
    }
}

#[test]
fn a_pod_goes_when_it_is_deleted_over_and_cleaned_up() {
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
