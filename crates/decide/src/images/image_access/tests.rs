use super::*;
use model::Timestamp;

const IMAGE: &str = "registry.local/team/app:1";
const NAME: &str = "registry.local/team/app";

fn secret(name: &str, hash: &str) -> PullSecret {
    PullSecret {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        hash: hash.to_owned(),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_nanos(seconds * 1_000_000_000)
}

fn record(permit: Permit) -> PulledRecord {
    let mut record = PulledRecord::new("sha256:1", at(0));
    record.permit(NAME, permit, at(1));
    record
}

fn secrets(shown: &[PullSecret]) -> Shown {
    Shown { secrets: shown.to_vec(), ..Shown::default() }
}

fn by_secrets(secrets: Vec<PullSecret>) -> PulledRecord {
    record(Permit { secrets, ..Permit::default() })
}

#[test]
fn each_policy_selects_its_images() {
    let listed = Verification::UnlessListed(vec!["registry.local/team/*".to_owned(), "other/app".to_owned()]);
    let cases = [
        (Verification::Never, IMAGE, Known::Pulled, Access::ByPolicy),
        (Verification::UnlessPreloaded, IMAGE, Known::Nothing, Access::ByPolicy),
        (Verification::UnlessPreloaded, IMAGE, Known::Pulled, Access::MustPull),
        (Verification::Always, IMAGE, Known::Nothing, Access::MustPull),
        (listed.clone(), IMAGE, Known::Pulled, Access::ByPolicy),
        (listed.clone(), "other/app:2", Known::Nothing, Access::ByPolicy),
        (listed.clone(), "other/app2", Known::Nothing, Access::MustPull),
        (listed, "registry.local/teams/app", Known::Nothing, Access::MustPull),
        (Verification::Never, IMAGE, Known::Unreadable, Access::Unclear),
    ];
    for (policy, image, known, expected) in cases {
        assert_eq!(
            access_without_credentials(&policy, image, known),
            Some(expected),
            "{policy:?} {image} {known:?}"
        );
    }
}

#[test]
fn public_image_needs_no_credentials_under_its_name() {
    let public = record(Permit { everybody: true, ..Permit::default() });
    let policy = Verification::UnlessPreloaded;
    let check = |image| access_without_credentials(&policy, image, Known::Recorded(&public));
    assert_eq!(check(IMAGE), Some(Access::ByRecord));
    assert_eq!(
        check(
            "registry.local/team/app@sha256:f24acc752be18b93b0504c86312bbaf482c9efb0c45e925bbccb0a591cebd7af"
        ),
        Some(Access::ByRecord)
    );
    assert_eq!(check("elsewhere/team/app:1"), Some(Access::MustPull));
    let nobody = PulledRecord::new("sha256:1", at(0));
    assert_eq!(access_without_credentials(&policy, IMAGE, Known::Recorded(&nobody)), Some(Access::MustPull));
}

#[test]
fn pod_with_recorded_secret_has_access() {
    let known = by_secrets(vec![secret("one", "a")]);
    assert_eq!(
        access_without_credentials(&Verification::UnlessPreloaded, IMAGE, Known::Recorded(&known)),
        None
    );
    let check = |shown: &[PullSecret]| access_by_credentials(&known, IMAGE, &secrets(shown));
    assert_eq!(check(&[]), Access::MustPull);
    assert_eq!(check(&[secret("one", "a")]), Access::ByRecord);
    assert_eq!(check(&[secret("two", "b")]), Access::MustPull);
    // Another secret with the same content, and the same secret with other content.
    assert_eq!(check(&[secret("two", "b"), secret("two", "a")]), Access::Learn(secret("two", "a")));
    assert_eq!(check(&[secret("one", "b")]), Access::Learn(secret("one", "b")));
    // A secret that was recreated under the same name has another UID.
    let recreated = |hash| PullSecret { uid: "uid-new".to_owned(), ..secret("one", hash) };
    assert_eq!(check(&[recreated("b")]), Access::MustPull);
    assert_eq!(check(&[recreated("a")]), Access::Learn(recreated("a")));
    // A hash that could not be made equals nothing.
    assert_eq!(
        access_by_credentials(&by_secrets(vec![secret("one", "")]), IMAGE, &secrets(&[secret("two", "")])),
        Access::MustPull
    );
}

#[test]
fn record_has_a_maximum_of_secrets() {
    let full = by_secrets((0..100).map(|number| secret(&format!("s{number}"), "a")).collect());
    assert_eq!(access_by_credentials(&full, IMAGE, &secrets(&[secret("new", "a")])), Access::ByRecord);
    assert_eq!(access_by_credentials(&full, IMAGE, &secrets(&[secret("s1", "b")])), Access::MustPull);
}

#[test]
fn merges_permits() {
    let mut known = by_secrets(vec![secret("one", "a")]);
    let more = |secret| Permit { secrets: vec![secret], ..Permit::default() };
    assert!(!known.permit(NAME, more(secret("one", "a")), at(2)));
    assert_eq!(known.updated, at(1));
    assert!(known.permit(NAME, more(secret("one", "b")), at(3)));
    assert!(known.permit(NAME, more(secret("0", "c")), at(4)));
    assert_eq!(known.permits[NAME].secrets, [secret("0", "c"), secret("one", "b")]);
    assert!(known.permit(NAME, Permit { everybody: true, ..Permit::default() }, at(5)));
    assert!(!known.permit(NAME, more(secret("one", "a")), at(6)));
    assert_eq!(known, record_with(at(5), Permit { everybody: true, ..Permit::default() }));
    assert!(!known.permit("other", Permit::default(), at(7)));
}

fn record_with(updated: Timestamp, permit: Permit) -> PulledRecord {
    let mut record = record(permit);
    record.updated = updated;
    record
}

#[test]
fn records_have_upstreams_format() {
    assert_eq!(
        file_name("docker.io/testing/test:latest"),
        "sha256-aef2af226629a35d5f3ef0fdbb29fdbebf038d0acd8850590e8c48e1e283aa56"
    );
    let intent = write_intent("docker.io/testing/test:latest");
    assert_eq!(read_intent(&intent).unwrap(), "docker.io/testing/test:latest");
    let written = by_secrets(vec![secret("one", "a")]).write();
    let value: serde_json::Value = serde_json::from_slice(&written).unwrap();
    assert_eq!(
        value,
        serde_json::json!({
            "kind": "ImagePulledRecord", "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "lastUpdatedTime": "1970-01-01T00:00:01Z", "imageRef": "sha256:1",
            "credentialMapping": {NAME: {"kubernetesSecrets": [
                {"uid": "uid-one", "namespace": "default", "name": "one", "credentialHash": "a"}]}},
        })
    );
    assert_eq!(PulledRecord::read(&written).unwrap(), by_secrets(vec![secret("one", "a")]));
}

#[test]
fn rejects_invalid_records() {
    let intent = write_intent("a");
    for bad in [&b""[..], b"{}", b"[1]", &intent, br#"{"kind":"ImagePulledRecord","apiVersion":"v9"}"#] {
        assert!(PulledRecord::read(bad).is_err(), "{}", String::from_utf8_lossy(bad));
    }
    let old = br#"{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1alpha1","image":"a"}"#;
    assert_eq!(read_intent(old).unwrap(), "a");
}

#[test]
fn strips_tag_and_digest() {
    let digest = "sha256:f24acc752be18b93b0504c86312bbaf482c9efb0c45e925bbccb0a591cebd7af";
    for (image, expected) in [
        ("app", "app"),
        ("host:5000/app", "host:5000/app"),
        ("host:5000/app:1", "host:5000/app"),
        (&format!("app@{digest}"), "app"),
        (&format!("host/app:2@{digest}"), "host/app"),
    ] {
        assert_eq!(without_tag(image).as_deref(), Some(expected));
    }
    assert_eq!(without_tag("NO GOOD"), None);
}

#[test]
fn anonymous_pull_permits_all_pods() {
    let everybody = Permit { everybody: true, ..Permit::default() };
    let mut credential = RegistryCredential {
        location: "registry.local".to_owned(),
        username: "u".to_owned(),
        password: "<p>".to_owned(),
        email: String::new(),
        origin: CredentialOrigin::Node,
    };
    assert_eq!(permit_of(None), everybody);
    assert_eq!(permit_of(Some(&credential)), everybody);
    let (uid, namespace, name) = ("1".to_owned(), "n".to_owned(), "s".to_owned());
    credential.origin = CredentialOrigin::Secret { uid, namespace, name };
    let permit = permit_of(Some(&credential));
    assert!(!permit.everybody);
    // sha256 of {"username":"u","password":"\u003cp\u003e"}
    let expected = format!("{:x}", Sha256::digest(br#"{"username":"u","password":"\u003cp\u003e"}"#));
    assert_eq!(permit.secrets[0].hash, expected);
}

#[test]
fn pull_by_account_is_private() {
    let origin = CredentialOrigin::Account { uid: "1".into(), namespace: "ns".into(), name: "puller".into() };
    let used = RegistryCredential {
        location: "r.io".into(),
        username: "u".into(),
        password: "p".into(),
        email: String::new(),
        origin,
    };
    let account = PullAccount { namespace: "ns".into(), name: "puller".into(), uid: "1".into() };
    assert_eq!(permit_of(Some(&used)), Permit { accounts: vec![account], ..Permit::default() });
    assert_eq!(shown_secret(&used), None);
    let mut record = PulledRecord::new("id", model::Timestamp::from_secs(1));
    record.permit("r.io/app", permit_of(Some(&used)), model::Timestamp::from_secs(1));
    let known = Known::Recorded(&record);
    assert_eq!(access_without_credentials(&Verification::Always, "r.io/app:1", known), None);
    let check = |shown: &Shown| access_by_credentials(&record, "r.io/app:1", shown);
    assert_eq!(check(&Shown::default()), Access::MustPull);
    assert_eq!(check(&Shown::of(std::slice::from_ref(&used))), Access::ByRecord);
    for origin in [
        CredentialOrigin::Account { uid: "2".into(), namespace: "ns".into(), name: "puller".into() },
        CredentialOrigin::Account { uid: "1".into(), namespace: "other".into(), name: "puller".into() },
        CredentialOrigin::Node,
    ] {
        assert_eq!(check(&Shown::of(&[RegistryCredential { origin, ..used.clone() }])), Access::MustPull);
    }
}
