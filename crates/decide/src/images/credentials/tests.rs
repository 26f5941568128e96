use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use model::{
    AccountIdentity, ConfigObject, CredentialProvider, ObjectKey, ObjectKind, ProviderToken, ResponseSharing,
};

use super::*;

fn entry(location: &str, username: &str) -> RegistryCredential {
    RegistryCredential {
        location: location.to_owned(),
        username: username.to_owned(),
        password: "p".to_owned(),
        email: String::new(),
        origin: CredentialOrigin::Node,
    }
}

fn users(entries: &[RegistryCredential], repository: &str) -> Vec<String> {
    matching(entries, repository).into_iter().map(|entry| entry.username.clone()).collect()
}

#[test]
fn wildcards_match_within_one_host_label() {
    for (glob, target, expected) in [
        ("*.kubernetes.io", "prefix.kubernetes.io", true),
        ("*.kubernetes.io", "kubernetes.io", false),
        ("*.kubernetes.io", "too.many.kubernetes.io", false),
        ("prefix.*.io", "prefix.kubernetes.io", true),
        ("prefix*.kubernetes.io", "prefix2.kubernetes.io", true),
        ("*-good.kubernetes.io", "prefix-good.kubernetes.io", true),
        ("kubernetes.*", "kubernetes.io", true),
        ("*.io/foo", "kubernetes.io/foo/bar", true),
        ("kubernetes.io/foo", "kubernetes.io/bar", false),
        ("kubernetes.io", "kubernetes.io/foo", true),
        ("kubernetes.io:443", "kubernetes.io:443/foo", true),
        ("kubernetes.io:443", "kubernetes.io/foo", false),
        ("*:5000", "localhost:5000/a", true),
        ("r?.io", "r1.io", false),
        ("r[0-9].io", "r1.io", false),
        ("a*b*c.io", "aXbYc.io", true),
        ("a*b*c.io", "abYd.io", false),
        ("*a.io", "a.io", true),
        ("ab*ba.io", "aba.io", false),
        ("127.0.0.1:5000", "127.0.0.1:5000/web", true),
    ] {
        assert_eq!(locations_match(glob, target), expected, "{glob} {target}");
    }
}

#[test]
fn tries_all_matches_most_specific_first() {
    let entries = [
        entry("quay.io", "host"),
        entry("https://quay.io/team/", "team"),
        entry("*.io", "wild"),
        entry("quay.io/team/app", "app"),
        entry("quay.io/other", "other"),
    ];
    assert_eq!(users(&entries, "quay.io/team/app"), ["app", "team", "host", "wild"]);
    assert!(users(&entries, "example.com/team/app").is_empty());
}

#[test]
fn api_paths_match_the_registry() {
    for location in ["https://r.io/v2/", "http://r.io/v1/", "r.io/", "https://r.io"] {
        assert_eq!(users(&[entry(location, "u")], "r.io/a/b"), ["u"], "{location}");
    }
}

#[test]
fn finds_default_registry_by_old_name() {
    let entries = [entry("https://index.docker.io/v1/", "hub"), entry("r.io", "other")];
    assert_eq!(users(&entries, "docker.io/library/busybox"), ["hub"]);
    assert!(users(&entries, "example.com/busybox").is_empty());
}

#[test]
fn reads_docker_files_with_and_without_padding() {
    let text = br#"{"auths": {
        "a.io": {"auth": "dXNlcjpwYTpzcw==", "email": "m"},
        "b.io": {"auth": "dXNlcjpwYTpzcw"},
        "c.io": {"username": "user", "password": "pa:ss"}
    }, "HttpHeaders": {"x": "y"}}"#;
    let read = read_config_json(text, &CredentialOrigin::Node).unwrap();
    assert_eq!(read.len(), 3);
    for entry in read {
        assert_eq!((entry.username.as_str(), entry.password.as_str()), ("user", "pa:ss"));
        assert!(!format!("{entry:?}").contains("pa:ss"));
    }
    for bad in [
        r#"{"auths": {"a.io": {"auth": "???"}}}"#,
        r#"{"auths": {"a.io": {"auth": "dXNlcg=="}}}"#,
        r#"{"auths": []}"#,
        "[]",
        "nothing",
    ] {
        assert_eq!(
            read_config_json(bad.as_bytes(), &CredentialOrigin::Node),
            Err(InvalidDockerConfig),
            "{bad}"
        );
    }
}

#[test]
fn skips_broken_files_and_prefers_config_json() {
    let file = |form, content: &str| CredentialFile {
        path: PathBuf::new(),
        form,
        content: content.as_bytes().to_vec(),
    };
    let old = file(CredentialFileForm::Dockercfg, r#"{"r.io": {"username": "old", "password": "p"}}"#);
    let broken = file(CredentialFileForm::ConfigJson, "{");
    let new =
        file(CredentialFileForm::ConfigJson, r#"{"auths": {"r.io": {"username": "new", "password": "p"}}}"#);
    assert_eq!(first_readable(&[old.clone(), broken.clone(), new])[0].username, "new");
    assert_eq!(first_readable(&[old, broken])[0].username, "old");
    assert!(first_readable(&[]).is_empty());
}

fn provider() -> CredentialProvider {
    CredentialProvider {
        name: "p".into(),
        match_images: vec!["*.r.io".into(), "local:5000/team".into()],
        default_cache_duration: Duration::from_secs(60),
        api_version: "credentialprovider.kubelet.k8s.io/v1".into(),
        args: Vec::new(),
        env: BTreeMap::new(),
        token: None,
    }
}

fn answer(extra: &str) -> Result<ProviderResponse, ProviderResponseError> {
    let text = format!(
        r#"{{"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse",
            "auth": {{"*.r.io": {{"username": "u", "password": "secret"}}}}{extra}}}"#
    );
    read_response(&provider(), "a.r.io/b/c", None, text.as_bytes())
}

#[test]
fn provider_is_called_for_matching_images_only() {
    assert!(handles_image(&provider(), "a.r.io/b"));
    assert!(handles_image(&provider(), "local:5000/team/app"));
    assert!(!handles_image(&provider(), "local:5000/other"));
    let request: serde_json::Value =
        serde_json::from_slice(&write_request(&provider(), "a.r.io/b", None)).unwrap();
    assert_eq!(request["image"], "a.r.io/b");
    assert_eq!(request["kind"], "CredentialProviderRequest");
}

#[test]
fn response_sets_cache_duration_and_scope() {
    let minute = Duration::from_secs(60);
    for (extra, keep) in [
        (r#", "cacheKeyType": "Image""#, Some(("a.r.io/b/c", minute))),
        (r#", "cacheKeyType": "Registry", "cacheDuration": "2m""#, Some(("a.r.io", minute * 2))),
        (r#", "cacheKeyType": "Global", "cacheDuration": "1m0s""#, Some(("<global>", minute))),
        (r#", "cacheKeyType": "Global", "cacheDuration": "0s""#, None),
    ] {
        let answer = answer(extra).unwrap();
        assert_eq!(answer.keep, keep.map(|(key, duration)| (key.to_owned(), duration)), "{extra}");
        assert_eq!(users(&answer.entries, "a.r.io/b/c"), ["u"]);
        let expected = answer.keep.map(|(key, _)| key);
        assert!(expected.is_none_or(|key| cache_keys("a.r.io/b/c").contains(&key)));
    }
}

#[test]
fn rejects_invalid_responses_without_leaking_content() {
    for extra in ["", r#", "cacheKeyType": "image""#, r#", "cacheKeyType": "Image", "more": 1"#] {
        let error = answer(extra).unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    let other = br#"{"apiVersion": "credentialprovider.kubelet.k8s.io/v1beta1", "kind": "CredentialProviderResponse"}"#;
    assert!(matches!(
        read_response(&provider(), "a", None, other),
        Err(ProviderResponseError::Version { .. })
    ));
    assert_eq!(read_response(&provider(), "a", None, b"plain text"), Err(ProviderResponseError::Malformed));
}

#[test]
fn reads_pull_secret_by_type() {
    const ENTRY: &str = r#"{"r.io": {"username": "u", "password": "p"}}"#;
    let config_json = format!(r#"{{"auths": {ENTRY}}}"#);
    for (kind, key, content, expected) in [
        ("kubernetes.io/dockerconfigjson", ".dockerconfigjson", config_json.as_str(), Some("u")),
        ("kubernetes.io/dockercfg", ".dockercfg", ENTRY, Some("u")),
        ("kubernetes.io/dockerconfigjson", ".dockercfg", ENTRY, None),
        ("kubernetes.io/dockerconfigjson", ".dockerconfigjson", "{", None),
        ("Opaque", ".dockerconfigjson", config_json.as_str(), None),
    ] {
        let name = ObjectKey { kind: ObjectKind::Secret, namespace: "ns".into(), name: "pull".into() };
        let secret = ConfigObject {
            key: name,
            uid: "7".to_owned(),
            data: BTreeMap::from([(key.to_owned(), content.as_bytes().to_vec())]),
            binary_data: BTreeMap::new(),
            secret_type: kind.to_owned(),
            immutable: false,
        };
        let read = read_secret(&secret);
        let found = read.as_ref().and_then(|entries| entries.first());
        assert_eq!(found.map(|entry| entry.username.as_str()), expected, "{kind} {key}");
        let origin =
            CredentialOrigin::Secret { uid: "7".into(), namespace: "ns".into(), name: "pull".into() };
        assert!(found.is_none_or(|entry| entry.origin == origin), "{kind} {key}");
    }
}

fn with_token(shared: ResponseSharing) -> CredentialProvider {
    let token = ProviderToken {
        audience: "registry".into(),
        requires_account: true,
        required_annotations: vec!["id".into()],
        optional_annotations: vec!["tenant".into()],
        shared,
    };
    CredentialProvider { token: Some(token), ..provider() }
}

fn account(token: &str) -> AccountIdentity {
    AccountIdentity {
        namespace: "ns".into(),
        name: "builder".into(),
        uid: "1".into(),
        annotations: BTreeMap::from([("id".to_owned(), "7".to_owned())]),
        token: token.into(),
    }
}

#[test]
fn accounts_opt_in_by_annotations() {
    let token = with_token(ResponseSharing::Account).token.unwrap();
    let annotations = |keys: &[&str]| -> BTreeMap<String, String> {
        keys.iter().map(|key| ((*key).to_owned(), "v".to_owned())).collect()
    };
    for (has, expected) in [
        (annotations(&[]), None),
        (annotations(&["tenant"]), None),
        (annotations(&["id", "other"]), Some(annotations(&["id"]))),
        (annotations(&["id", "tenant"]), Some(annotations(&["id", "tenant"]))),
    ] {
        assert_eq!(passed_annotations(&token, &has), expected, "{has:?}");
    }
}

#[test]
fn request_has_token_and_annotations() {
    let provider = with_token(ResponseSharing::Account);
    let read = |account: Option<&AccountIdentity>| -> serde_json::Value {
        serde_json::from_slice(&write_request(&provider, "a.r.io/b", account)).unwrap()
    };
    let request = read(Some(&account("secret")));
    assert_eq!(request["serviceAccountToken"], "secret");
    assert_eq!(request["serviceAccountAnnotations"], serde_json::json!({"id": "7"}));
    let fields = read(None).as_object().unwrap().len();
    assert_eq!(fields, 3);
}

#[test]
fn response_is_cached_per_account_or_token() {
    let (by_account, by_token) = (with_token(ResponseSharing::Account), with_token(ResponseSharing::Token));
    let (first, second) = (account("one"), account("two"));
    assert_eq!(cache_owner(&by_account, Some(&first)), cache_owner(&by_account, Some(&second)));
    assert_ne!(cache_owner(&by_token, Some(&first)), cache_owner(&by_token, Some(&second)));
    assert!(!cache_owner(&by_token, Some(&first)).contains("one"));
    let renewed = AccountIdentity { uid: "2".into(), ..first.clone() };
    assert_ne!(cache_owner(&by_account, Some(&first)), cache_owner(&by_account, Some(&renewed)));
    assert_eq!(cache_owner(&by_account, None), "");
    assert_eq!(cache_owner(&provider(), Some(&first)), "");
}

#[test]
fn rejects_shared_response_that_echoes_the_token() {
    let text =
        br#"{"apiVersion": "credentialprovider.kubelet.k8s.io/v1", "kind": "CredentialProviderResponse",
        "cacheKeyType": "Image", "auth": {"*.r.io": {"username": "u", "password": "one"}}}"#;
    let read = |shared, token: &str| {
        read_response(&with_token(shared), "a.r.io/b", Some(&account(token)), text)
            .map(|answer| answer.entries.len())
    };
    assert_eq!(read(ResponseSharing::Account, "one"), Err(ProviderResponseError::EchoedToken));
    assert_eq!(read(ResponseSharing::Account, "two"), Ok(1));
    assert_eq!(read(ResponseSharing::Token, "one"), Ok(1));
}
