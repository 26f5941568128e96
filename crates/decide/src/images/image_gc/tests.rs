use model::ContainerState;
use proptest::prelude::*;

use super::*;
use crate::test_objects::{container, observed, pod};

const POLICY: ImageGcPolicy = ImageGcPolicy {
    high_percent: 85,
    low_percent: 80,
    min_age: Duration::from_secs(120),
    max_age: Duration::from_secs(3600),
    by_handler: false,
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_secs(1_000_000 + seconds)
}

fn image(id: &str, tag: &str) -> ImageStatus {
    ImageStatus { id: id.into(), repo_tags: vec![tag.into()], size: 100, ..ImageStatus::default() }
}

#[test]
fn containers_and_image_volumes_use_images() {
    let images = [
        image("sha256:a", "docker.io/library/a:1"),
        image("sha256:b", "docker.io/library/b:latest"),
        image("sha256:c", "r.io/c:1"),
        image("sha256:d", "r.io/d:1"),
    ];
    let mut by_id = container("x", "x", 0, ContainerState::Exited);
    by_id.image_id = "sha256:a".into();
    let mut by_name = container("y", "y", 0, ContainerState::Running);
    (by_name.image_id, by_name.image_ref) = (String::new(), "r.io/c:1".into());
    let seen = observed(Vec::new(), vec![by_id, by_name]);
    let desired = pod(serde_json::json!({
        "containers": [], "volumes": [{"name": "v", "image": {"reference": "b"}}]
    }));
    let used = images_in_use(&images, [&seen], [&desired], &POLICY);
    assert_eq!(used.into_iter().collect::<Vec<_>>(), ["sha256:a", "sha256:b", "sha256:c"]);
}

#[test]
fn removes_least_recently_used_first_and_keeps_pinned() {
    let mut pinned = image("pinned", "p:1");
    pinned.pinned = true;
    let images = [image("used-late", "a:1"), image("never", "b:1"), image("used-early", "c:1"), pinned];
    let mut records = ImageRecords::new();
    let all = |ids: &[&str]| ids.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    detect(&mut records, &images, &all(&["used-early"]), at(0));
    detect(&mut records, &images, &all(&["used-late"]), at(10));
    detect(&mut records, &images, &all(&[]), at(20));
    let order: Vec<_> = candidates(&records, &images, &all(&[])).into_iter().map(|one| one.id).collect();
    assert_eq!(order, ["never", "used-early", "used-late"]);
    assert_eq!(candidates(&records, &images, &all(&["never"])).len(), 2);
    detect(&mut records, &images[..1], &all(&[]), at(30));
    assert_eq!(records.len(), 1);
    assert_eq!(records["used-late"].first_detected, at(0));
}

#[test]
fn age_counts_from_last_use_or_first_detection() {
    let candidate = |first: i64, used: Option<i64>| Candidate {
        id: "a".into(),
        key: "a".into(),
        size: 1,
        record: ImageRecord { first_detected: at(first), last_used: used.map_or(Timestamp::ZERO, at) },
    };
    assert!(candidate(0, None).is_too_old(&POLICY, at(3601)));
    assert!(!candidate(0, None).is_too_old(&POLICY, at(3600)));
    assert!(!candidate(0, Some(10)).is_too_old(&POLICY, at(3601)));
    let never = ImageGcPolicy { max_age: Duration::ZERO, ..POLICY };
    assert!(!candidate(0, None).is_too_old(&never, at(1_000_000)));
    assert!(candidate(0, None).may_be_removed_for_space(&POLICY, at(120)));
    assert!(!candidate(0, None).may_be_removed_for_space(&POLICY, at(119)));
    assert!(!candidate(0, Some(500)).may_be_removed_for_space(&POLICY, at(500)));
}

#[test]
fn frees_down_to_the_low_threshold() {
    assert_eq!(shortage(1000, 160, &POLICY), None);
    assert_eq!(shortage(1000, 150, &POLICY), Some(Shortage { used_percent: 85, bytes: 50 }));
    assert_eq!(shortage(1000, 0, &POLICY), Some(Shortage { used_percent: 100, bytes: 200 }));
    assert_eq!(shortage(0, 0, &POLICY), None);
    assert_eq!(shortage(1000, 5000, &POLICY), None);
    let text = still_short(Shortage { used_percent: 90, bytes: 5 }, 3 << 30, 7);
    assert!(text.contains("(90% of 3.0 GiB used)") && text.contains("(freed 7 bytes)"), "{text}");
    assert!(ImageGcPolicy { high_percent: 100, max_age: Duration::ZERO, ..POLICY }.is_off());
}

proptest! {
    #[test]
    fn freeing_the_excess_reaches_the_low_threshold(capacity in 1u64..1 << 50, free in 0u64..100) {
        let available = capacity / 100 * free;
        if let Some(short) = shortage(capacity, available, &POLICY) {
            let after = u128::from(available + short.bytes) * 100 / u128::from(capacity);
            prop_assert!(after >= 19);
        }
    }
}

#[test]
fn tracks_handlers_only_with_the_gate() {
    let of = |handler: &str| ImageStatus { runtime_handler: handler.into(), ..image("a", "r.io/a:1") };
    let mut held = container("x", "x", 0, ContainerState::Running);
    (held.image_id, held.image_handler) = ("a".into(), "kata".into());
    let seen = observed(Vec::new(), vec![held]);
    let left = |by_handler| {
        let policy = ImageGcPolicy { by_handler, ..POLICY };
        let images = normalize_handlers(vec![of(""), of("kata")], &policy);
        let in_use = images_in_use(&images, [&seen], [], &policy);
        let mut records = ImageRecords::new();
        detect(&mut records, &images, &in_use, at(0));
        let left = candidates(&records, &images, &in_use).into_iter().map(|one| one.key).collect::<Vec<_>>();
        (records.into_keys().collect::<Vec<_>>(), left)
    };
    assert_eq!(left(false), (vec!["a".to_owned()], vec![]));
    assert_eq!(left(true), (vec!["a".to_owned(), "a,kata".to_owned()], vec!["a".to_owned()]));
}
