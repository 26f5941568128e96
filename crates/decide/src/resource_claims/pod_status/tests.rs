use std::collections::BTreeMap;
use std::time::Duration;

use model::{ClaimDeviceHealth, ClaimReference, DeviceHealthReport, PodSource};
use serde_json::{Value, json};

use super::*;
use crate::resource_claims::health_file;
use crate::resource_claims::prepared_claims::AllocatedClaim;

const NOW: Timestamp = Timestamp::from_secs(1_000);

fn report(
    device: &str,
    health: ClaimDeviceHealth,
    timeout_seconds: i64,
    message: &str,
) -> DeviceHealthReport {
    DeviceHealthReport {
        pool: "pool".to_owned(),
        device: device.to_owned(),
        health,
        timeout_seconds,
        message: message.to_owned(),
    }
}

fn named(device: &str) -> DeviceName {
    DeviceName { driver: "gpu.example".to_owned(), pool: "pool".to_owned(), device: device.to_owned() }
}

fn set(devices: &[&str]) -> BTreeSet<DeviceName> {
    devices.iter().map(|device| named(device)).collect()
}

fn later(seconds: u64) -> Timestamp {
    NOW.after(Duration::from_secs(seconds))
}

#[test]
fn reports_change_devices_when_health_message_or_timeout_differ() {
    let mut table = DeviceHealthTable::default();
    let healthy = |timeout, message| report("a", ClaimDeviceHealth::Healthy, timeout, message);
    let mut update = |report| table.update("gpu.example", vec![report], NOW);
    assert_eq!(update(healthy(0, "")), set(&["a"]));
    assert_eq!(update(healthy(30, "")), set(&[]), "30 s is the default");
    assert_eq!(update(healthy(-1, "")), set(&[]), "30 s is the default");
    assert_eq!(update(healthy(31, "")), set(&["a"]));
    assert_eq!(update(healthy(31, "hot")), set(&["a"]));
    assert_eq!(update(report("a", ClaimDeviceHealth::Unhealthy, 31, "hot")), set(&["a"]));
    assert_eq!(table.health(&named("a"), NOW), (ClaimDeviceHealth::Unhealthy, "hot"));
    assert_eq!(table.health(&named("b"), NOW), (ClaimDeviceHealth::Unknown, ""));
    assert_eq!(table.erase("gpu.example"), set(&["a"]));
    assert_eq!(table.health(&named("a"), NOW), (ClaimDeviceHealth::Unknown, ""));
    assert_eq!(table, DeviceHealthTable::default());
}

#[test]
fn devices_that_are_missing_become_unknown_when_their_report_expires() {
    let mut table = DeviceHealthTable::default();
    let reports = vec![
        report("a", ClaimDeviceHealth::Healthy, 10, "fine"),
        report("b", ClaimDeviceHealth::Unhealthy, 60, "hot"),
    ];
    table.update("gpu.example", reports, NOW);
    assert_eq!(table.next_expiry(), Some(later(10)));
    let again = vec![report("b", ClaimDeviceHealth::Unhealthy, 60, "hot")];
    assert_eq!(table.update("gpu.example", again, later(5)), set(&[]));
    assert_eq!(table.health(&named("a"), later(10)), (ClaimDeviceHealth::Healthy, "fine"));
    assert_eq!(table.expire(later(10)), set(&[]));
    // A reader needs no timer.
    assert_eq!(table.health(&named("a"), later(11)), (ClaimDeviceHealth::Unknown, ""));
    assert_eq!(table.expire(later(11)), set(&["a"]));
    assert_eq!(table.expire(later(11)), set(&[]));
    assert_eq!(table.next_expiry(), Some(later(65)), "the second report counts from its own time");
    let back = vec![report("a", ClaimDeviceHealth::Healthy, 10, "fine")];
    assert_eq!(table.update("gpu.example", back, later(12)), set(&["a"]));
}

#[test]
fn long_messages_are_cut_between_characters() {
    let mut table = DeviceHealthTable::default();
    let mut shown = |text: String| {
        table.update("gpu.example", vec![report("a", ClaimDeviceHealth::Unhealthy, 0, &text)], NOW);
        table.health(&named("a"), NOW).1.to_owned()
    };
    assert_eq!(shown("x".repeat(1024)), "x".repeat(1024));
    assert_eq!(shown("x".repeat(1025)), format!("{}...", "x".repeat(1021)));
    assert_eq!(shown("é".repeat(513)), format!("{}...", "é".repeat(510)));
}

#[test]
fn health_file_equals_upstreams() {
    let mut table = DeviceHealthTable::default();
    let reports = vec![report("a", ClaimDeviceHealth::Unhealthy, 5, "<hot>")];
    table.update("gpu.example", reports, Timestamp::from_nanos(1_700_000_000_123_000_000));
    let file = r#"{"gpu.example":{"Devices":{"pool/a":{"PoolName":"pool","DeviceName":"a","Health":"Unhealthy","LastUpdated":"2023-11-14T22:13:20.123Z","HealthCheckTimeout":5000000000,"Message":"\u003chot\u003e"}}}}"#;
    assert_eq!(String::from_utf8(health_file::encode(&table)).unwrap(), file);
    assert_eq!(health_file::decode(file.as_bytes()).unwrap(), table);
    // Upstream writes the time with the offset of the machine.
    let offset = file.replace("2023-11-14T22:13:20.123Z", "2023-11-14T23:13:20.123+01:00");
    assert_eq!(health_file::decode(offset.as_bytes()).unwrap(), table);
    assert_eq!(health_file::encode(&DeviceHealthTable::default()), b"{}");
    for empty in ["{}", r#"{"a":{"Devices":null}}"#] {
        assert_eq!(health_file::decode(empty.as_bytes()).unwrap().next_expiry(), None);
    }
    assert!(health_file::decode(b"[").is_err());
    let unreadable_time = file.replace("2023-11-14T22:13:20.123Z", "yesterday");
    let table = health_file::decode(unreadable_time.as_bytes()).unwrap();
    assert_eq!(table.health(&named("a"), NOW), (ClaimDeviceHealth::Unknown, ""));
}

fn device(name: &str, requests: &[&str], ids: &[&str]) -> PreparedDevice {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    PreparedDevice {
        pool: "pool".to_owned(),
        device: name.to_owned(),
        requests: texts(requests),
        cdi_ids: texts(ids),
        ..PreparedDevice::default()
    }
}

fn prepared(devices: Vec<PreparedDevice>) -> PreparedClaims {
    let reference =
        ClaimReference { namespace: "default".to_owned(), name: "gpus".to_owned(), uid: "1".to_owned() };
    let drivers = BTreeSet::from(["gpu.example".to_owned()]);
    let mut claims = PreparedClaims::default();
    let claim = AllocatedClaim { reference: reference.clone(), drivers };
    claims.reserve(&[claim], &"pod-1".into()).unwrap();
    claims.record(&reference, "gpu.example", devices);
    claims
}

fn pod(claims: &Value) -> Pod {
    let object = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "pod-1"},
        "spec": {
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpus"}],
            "initContainers": [{"name": "init", "resources": {"claims": [{"name": "gpu"}]}}],
            "containers": [{"name": "main", "resources": {"claims": claims}}, {"name": "other"}],
        },
    });
    Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::Api).unwrap()
}

fn shown(claims: &Value, inputs: ClaimHealthInputs<'_>) -> Value {
    serde_json::to_value(claim_health(&pod(claims), inputs)).unwrap()
}

#[test]
fn containers_show_the_devices_of_their_requests() {
    let claims = prepared(vec![
        device("a", &["big"], &["v/gpu=0", "v/gpu=more"]),
        device("b", &["small"], &[]),
        device("c", &["small"], &["v/gpu=0"]),
    ]);
    let mut health = DeviceHealthTable::default();
    let reports = vec![
        report("a", ClaimDeviceHealth::Unhealthy, 0, "hot"),
        report("b", ClaimDeviceHealth::Healthy, 0, ""),
    ];
    health.update("gpu.example", reports, NOW);
    let inputs = ClaimHealthInputs { prepared: &claims, health: &health, shows_messages: true, now: NOW };
    let a = json!({"resourceID": "v/gpu=0", "health": "Unhealthy", "message": "hot"});
    let b = json!({"resourceID": "gpu.example/pool/b", "health": "Healthy"});
    let all = json!({"main": [{"name": "claim:gpu", "resources": [a, b]}]});
    assert_eq!(shown(&json!([{"name": "gpu"}]), inputs), all);
    let big = json!({"main": [{"name": "claim:gpu/big", "resources": [a]}]});
    assert_eq!(shown(&json!([{"name": "gpu", "request": "big"}]), inputs), big);
    assert_eq!(shown(&json!([{"name": "gpu", "request": "none"}]), inputs), json!({}));
    assert_eq!(shown(&json!([]), inputs), json!({}));

    let quiet = ClaimHealthInputs { shows_messages: false, ..inputs };
    let big = json!({"main": [{"name": "claim:gpu/big", "resources": [
        {"resourceID": "v/gpu=0", "health": "Unhealthy"},
    ]}]});
    assert_eq!(shown(&json!([{"name": "gpu", "request": "big"}]), quiet), big);
    let old = ClaimHealthInputs { now: later(31), ..inputs };
    let big = json!({"main": [{"name": "claim:gpu/big", "resources": [
        {"resourceID": "v/gpu=0", "health": "Unknown"},
    ]}]});
    assert_eq!(shown(&json!([{"name": "gpu", "request": "big"}]), old), big);
    assert_eq!(claim_health(&pod(&json!([])), inputs), BTreeMap::new());
}

#[test]
fn changed_devices_lead_to_the_pods_that_use_them() {
    let claims = prepared(vec![device("a", &[], &[]), device("b", &[], &[])]);
    assert_eq!(pods_of_devices(&claims, &set(&["b", "z"])), BTreeSet::from(["pod-1".into()]));
    assert_eq!(pods_of_devices(&claims, &set(&["z"])), BTreeSet::new());
    let other = BTreeSet::from([DeviceName { driver: "other.example".to_owned(), ..named("a") }]);
    assert_eq!(pods_of_devices(&claims, &other), BTreeSet::new());
}
