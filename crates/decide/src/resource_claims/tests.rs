use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::api::resource::v1::ResourceClaim;
use model::{ClaimReference, Pod, PodSource, PodUid, PreparedDevice};
use serde_json::{Value, json};

use super::checks::check;
use super::container_devices::cdi_ids;
use super::references::{ExtendedResources, PodClaim, pod_claims};
use super::state_file::{self, StateFileError};
use super::{AllocatedClaim, PreparedClaims};

const CLAIMED: ExtendedResources = ExtendedResources::Claimed;

fn pod(spec: &Value, status: &Value) -> Pod {
    let object = json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "pod-1"},
        "spec": spec, "status": status,
    });
    Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::Api).unwrap()
}

fn claiming_pod() -> Pod {
    let spec = json!({
        "resourceClaims": [
            {"name": "gpu", "resourceClaimName": "shared"},
            {"name": "nic", "resourceClaimTemplateName": "nics"},
        ],
        "containers": [
            {"name": "main", "resources": {"claims": [{"name": "gpu", "request": "big"}, {"name": "nic"}]}},
            {"name": "other"},
        ],
    });
    pod(&spec, &json!({"resourceClaimStatuses": [{"name": "nic", "resourceClaimName": "web-nic"}]}))
}

fn allocated(name: &str, drivers: &[&str]) -> AllocatedClaim {
    let drivers = drivers.iter().map(|driver| (*driver).to_owned()).collect();
    AllocatedClaim { reference: reference(name), drivers }
}

fn reference(name: &str) -> ClaimReference {
    ClaimReference { namespace: "default".to_owned(), name: name.to_owned(), uid: format!("{name}-uid") }
}

fn device(name: &str, requests: &[&str], ids: &[&str]) -> PreparedDevice {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    PreparedDevice {
        pool: "pool".to_owned(),
        device: name.to_owned(),
        share_id: None,
        requests: texts(requests),
        cdi_ids: texts(ids),
    }
}

fn object(status: &Value, owner: &str) -> ResourceClaim {
    serde_json::from_value(json!({
        "metadata": {
            "name": "web-nic", "uid": "web-nic-uid",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": owner, "controller": true}],
        },
        "spec": {}, "status": status,
    }))
    .unwrap()
}

fn uids(names: &[&str]) -> BTreeSet<PodUid> {
    names.iter().map(|name| PodUid::from(*name)).collect()
}

#[test]
fn claims_of_a_pod_are_named_directly_or_by_template() {
    let found = pod_claims(&claiming_pod(), CLAIMED).unwrap();
    let claim = |entry: &str, name: &str, is_generated| PodClaim {
        entry: Some(entry.to_owned()),
        name: name.to_owned(),
        is_generated,
    };
    assert_eq!(found, [claim("gpu", "shared", false), claim("nic", "web-nic", true)]);
}

#[test]
fn template_without_a_claim_waits_or_is_skipped() {
    let spec = json!({
        "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nics"}], "containers": [],
    });
    let error = pod_claims(&pod(&spec, &json!({})), CLAIMED).unwrap_err();
    assert_eq!(error.to_string(), "pod \"default/web\": ResourceClaim not created yet");
    let skipped = pod(&spec, &json!({"resourceClaimStatuses": [{"name": "nic"}]}));
    assert_eq!(pod_claims(&skipped, CLAIMED).unwrap(), []);
    let empty = json!({"resourceClaims": [{"name": "nic"}], "containers": []});
    let error = pod_claims(&pod(&empty, &json!({})), CLAIMED).unwrap_err();
    let expected = "pod \"default/web\", spec.resourceClaim \"nic\": none of the supported fields are set";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn claim_is_refused_with_upstreams_texts() {
    let pod = claiming_pod();
    let claim = PodClaim { entry: Some("nic".to_owned()), name: "web-nic".to_owned(), is_generated: true };
    let reserved = json!([{"resource": "pods", "name": "web", "uid": "pod-1"}]);
    let results = json!([
        {"request": "a", "driver": "b.example", "pool": "p", "device": "d"},
        {"request": "a", "driver": "a.example", "pool": "p", "device": "d"},
    ]);
    let good = json!({"reservedFor": reserved, "allocation": {"devices": {"results": results}}});
    let text = |object: &ResourceClaim| check(&pod, &claim, object).unwrap_err().to_string();
    assert_eq!(
        text(&object(&good, "another")),
        "ResourceClaim default/web-nic was not created for Pod default/web (Pod is not owner)"
    );
    assert_eq!(
        text(&object(&json!({}), "pod-1")),
        "pod web (pod-1) is not allowed to use ResourceClaim web-nic (web-nic-uid)"
    );
    assert_eq!(
        text(&object(&json!({"reservedFor": reserved}), "pod-1")),
        "ResourceClaim web-nic: not allocated"
    );
    let found = check(&pod, &claim, &object(&good, "pod-1")).unwrap();
    assert_eq!(found, allocated("web-nic", &["a.example", "b.example"]));
    let by_name = PodClaim { is_generated: false, ..claim };
    check(&pod, &by_name, &object(&good, "another")).unwrap();
}

#[test]
fn shared_claim_is_prepared_once_and_unprepared_after_the_last_pod() {
    let mut claims = PreparedClaims::default();
    let shared = [allocated("shared", &["a"])];
    let (one, two) = (PodUid::from("one"), PodUid::from("two"));
    claims.reserve(&shared, &one).unwrap();
    assert_eq!(claims.to_prepare(&shared)["a"], [reference("shared")]);
    claims.record(&reference("shared"), "a", vec![device("d", &[], &["x/y=d"])]);
    claims.mark_prepared(&shared);
    claims.reserve(&shared, &two).unwrap();
    assert!(claims.to_prepare(&shared).is_empty());
    assert_eq!(claims.in_use(), ([("a", 1)].into(), 1));

    assert!(claims.to_unprepare(&one).is_empty());
    claims.release(&one);
    // A pod that does not use the claim must not end it, although only one pod is left.
    assert!(claims.to_unprepare(&one).is_empty());
    assert_eq!(claims.pods(), uids(&["two"]));
    assert_eq!(claims.to_unprepare(&two)["a"], [reference("shared")]);
    claims.release(&two);
    assert_eq!(claims, PreparedClaims::default());
}

#[test]
fn recreated_claim_waits_for_the_end_of_the_old_one() {
    let mut claims = PreparedClaims::default();
    claims.reserve(&[allocated("shared", &["a"])], &"old".into()).unwrap();
    let before = claims.clone();
    let mut new = allocated("shared", &["a"]);
    new.reference.uid = "new-uid".to_owned();
    let error = claims.reserve(&[allocated("free", &["a"]), new], &"new".into()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "old ResourceClaim with same name shared and different UID shared-uid still exists (previous pod force-deleted?!)"
    );
    assert_eq!(claims, before);
}

#[test]
fn container_gets_the_devices_of_its_requests_once() {
    let pod = claiming_pod();
    let mut claims = PreparedClaims::default();
    let both = [allocated("shared", &["a", "b"]), allocated("web-nic", &["a"])];
    claims.reserve(&both, &pod.uid).unwrap();
    let devices = vec![
        device("big", &["big"], &["v/gpu=big", "v/common=all"]),
        device("small", &["small"], &["v/gpu=small"]),
    ];
    claims.record(&reference("shared"), "a", devices);
    claims.record(&reference("shared"), "b", vec![device("any", &[], &["w/any=any"])]);
    claims.record(&reference("web-nic"), "a", vec![device("nic", &["nic"], &["v/nic=0", "v/common=all"])]);
    let ids = |container: &Container| cdi_ids(&claims, &pod, container, CLAIMED);
    let [main, other] = pod.spec.containers.as_slice() else { panic!("{:?}", pod.spec.containers) };
    assert_eq!(ids(main).unwrap(), ["v/gpu=big", "v/common=all", "w/any=any", "v/nic=0"]);
    assert_eq!(ids(other).unwrap(), Vec::<String>::new());
    let missing = cdi_ids(&PreparedClaims::default(), &pod, main, CLAIMED).unwrap_err();
    let text = "internal error: unable to get claim info for ResourceClaim shared in namespace default";
    assert_eq!(missing.to_string(), text);
}

#[test]
fn extended_resource_is_backed_by_the_schedulers_claim() {
    let status = json!({"extendedResourceClaimStatus": {
        "resourceClaimName": "extended",
        "requestMappings": [
            {"containerName": "main", "resourceName": "example.com/gpu", "requestName": "r0"},
            {"containerName": "other", "resourceName": "example.com/gpu", "requestName": "r1"},
        ],
    }});
    let resources = json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}});
    let spec = json!({"containers": [
        {"name": "main", "resources": resources}, {"name": "other", "resources": {}},
    ]});
    let pod = pod(&spec, &status);
    let [claim] = pod_claims(&pod, CLAIMED).unwrap().try_into().unwrap();
    assert_eq!(claim, PodClaim { entry: None, name: "extended".to_owned(), is_generated: false });
    let mut claims = PreparedClaims::default();
    claims.reserve(&[allocated("extended", &["a"])], &pod.uid).unwrap();
    let devices = vec![device("d0", &["r0"], &["v/gpu=0"]), device("d1", &["r1"], &["v/gpu=1"])];
    claims.record(&reference("extended"), "a", devices);
    assert_eq!(cdi_ids(&claims, &pod, &pod.spec.containers[0], CLAIMED).unwrap(), ["v/gpu=0"]);
    assert!(cdi_ids(&claims, &pod, &pod.spec.containers[1], CLAIMED).unwrap().is_empty());
    let off = ExtendedResources::NotClaimed;
    assert_eq!(pod_claims(&pod, off).unwrap(), []);
    assert!(cdi_ids(&claims, &pod, &pod.spec.containers[0], off).unwrap().is_empty());
}

#[test]
fn state_file_equals_upstreams() {
    let empty = String::from_utf8(state_file::encode(&PreparedClaims::default())).unwrap();
    assert!(empty.ends_with("\"Checksum\":4010664294}"), "{empty}");
    let list = r#"{"Data":"{\"kind\":\"DRACheckpoint\",\"apiVersion\":\"checkpoint.dra.kubelet.k8s.io/v1\",\"ClaimInfoStateList\":[]}","Checksum":2361995144}"#;
    assert_eq!(state_file::decode(list.as_bytes()), Ok(PreparedClaims::default()));

    let mut claims = PreparedClaims::default();
    claims.reserve(&[allocated("shared", &["a", "b"])], &"one".into()).unwrap();
    let share = PreparedDevice { share_id: Some("<s>".to_owned()), ..device("d", &["r"], &["v/x=d"]) };
    claims.record(&reference("shared"), "a", vec![share]);
    let content = state_file::encode(&claims);
    let file: Value = serde_json::from_slice(&content).unwrap();
    let expected = r#"{"kind":"DRACheckpoint","apiVersion":"checkpoint.dra.kubelet.k8s.io/v1","ClaimInfoStateList":[{"ClaimUID":"shared-uid","ClaimName":"shared","Namespace":"default","PodUIDs":{"one":{}},"DriverState":{"a":{"Devices":[{"PoolName":"pool","DeviceName":"d","ShareID":"\u003cs\u003e","RequestNames":["r"],"CDIDeviceIDs":["v/x=d"]}]},"b":{"Devices":null}}}]}"#;
    assert_eq!(file["Data"], expected);
    assert_eq!(state_file::decode(&content), Ok(claims));
}

#[test]
fn damaged_state_file_is_refused() {
    let content = String::from_utf8(state_file::encode(&PreparedClaims::default())).unwrap();
    let changed = content.replace("DRACheckpoint", "DRACheckpoinT");
    let error = state_file::decode(changed.as_bytes()).unwrap_err();
    assert_eq!((error.to_string().as_str(), error), ("checkpoint is corrupted", StateFileError::Checksum));
    assert!(matches!(state_file::decode(b"{"), Err(StateFileError::Unreadable(_))));
}
