use proptest::prelude::*;

use super::*;

fn registered(resources: &[(&str, &[&str])]) -> StoredDevices {
    let devices = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
    let registered = resources.iter().map(|(name, ids)| ((*name).to_owned(), devices(ids)));
    StoredDevices { entries: Vec::new(), registered: registered.collect() }
}

fn checksum(stored: &StoredDevices) -> u64 {
    serde_json::from_slice::<Value>(&stored.encode()).unwrap()["Checksum"].as_u64().unwrap()
}

#[test]
fn checksums_equal_files_of_upstream() {
    assert_eq!(checksum(&registered(&[])), 3_467_439_661);
    let gpu: &[&str] = &["GPU-0650a168-e770-3ea8-8ac3-8a1d419763e0"];
    assert_eq!(checksum(&registered(&[("nvidia.com/gpu", gpu)])), 3_952_659_280);
}

#[test]
fn encodes_fields_in_the_order_of_upstream() {
    let key = RecordKey { uid: "u".into(), container: "c".to_owned(), resource: "v.com/x".to_owned() };
    let ids = [(-1, vec!["a".to_owned()]), (1, vec!["b".to_owned()])].into();
    let stored = StoredDevices {
        entries: vec![StoredEntry { key, ids, answer: vec![10, 66] }],
        registered: [("v.com/x".to_owned(), Vec::new())].into(),
    };
    let text = String::from_utf8(stored.encode()).unwrap();
    let start = r#"{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"v.com/x","DeviceIDs":{"-1":["a"],"1":["b"]},"AllocResp":"CkI="}],"RegisteredDevices":{"v.com/x":[]}},"Checksum":"#;
    assert!(text.starts_with(start), "{text}");
    assert_eq!(StoredDevices::decode(text.as_bytes()), Ok(stored));
}

#[test]
fn reads_null_fields_and_names_in_other_case() {
    let file = r#"{"data":{"poddeviceentries":null,"registereddevices":{}},"CHECKSUM":3467439661,"other":1}"#;
    assert_eq!(StoredDevices::decode(file.as_bytes()), Ok(StoredDevices::default()));
}

#[test]
fn refuses_damaged_files() {
    let good = String::from_utf8(registered(&[("v.com/x", &["a"])]).encode()).unwrap();
    let changed = good.replace("\"a\"", "\"b\"");
    assert_eq!(StoredDevices::decode(changed.as_bytes()), Err(DeviceCheckpointError::Checksum));
    for damaged in ["", "{}", "null", "{\"Data\":{\"PodDeviceEntries\":3}}", &good[..good.len() - 1]] {
        assert!(StoredDevices::decode(damaged.as_bytes()).is_err(), "{damaged}");
    }
    // Kubernetes 1.19 listed devices without their NUMA nodes; upstream does not read that any more.
    let old = r#"{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"r","DeviceIDs":["a"],"AllocResp":""}],"RegisteredDevices":{}},"Checksum":1}"#;
    assert_eq!(StoredDevices::decode(old.as_bytes()), Err(DeviceCheckpointError::Field("DeviceIDs")));
}

proptest! {
    #[test]
    fn decoding_returns_what_was_encoded(
        entries in proptest::collection::vec(
            (
                ("[a-z<&\"é]{0,6}", "[a-z]{0,3}", "[a-z./]{0,6}"),
                proptest::collection::btree_map(-1_i64..12, proptest::collection::vec("[a-z<]{0,4}", 0..3), 0..3),
                proptest::collection::vec(any::<u8>(), 0..9),
            ),
            0..4,
        ),
        registered in proptest::collection::btree_map("[a-z/]{1,5}", proptest::collection::vec("[a-z]{1,3}", 0..3), 0..3),
    ) {
        let entries = entries.into_iter().map(|((uid, container, resource), ids, answer)| StoredEntry {
            key: RecordKey { uid: PodUid::from(uid.as_str()), container, resource },
            ids,
            answer,
        });
        let stored = StoredDevices { entries: entries.collect(), registered };
        prop_assert_eq!(StoredDevices::decode(&stored.encode()), Ok(stored));
    }
}
