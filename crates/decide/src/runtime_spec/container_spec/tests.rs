#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

use serde_json::{Value, json};

use super::*;
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects::pod;

fn spec_of(pod: &Pod, restart_count: u32) -> Result<ContainerSpec, String> {
    spec_on(&settings(), pod, restart_count, None)
}

fn spec_on(
    settings: &NodeSettings,
    pod: &Pod,
    restart_count: u32,
    target: Option<&ContainerId>,
) -> Result<ContainerSpec, String> {
    let volumes =
        crate::volumes::plan_volumes(pod, settings, &Default::default(), &Default::default()).unwrap();
    let image = ImageStatus { id: "sha256:1".into(), uid: Some(7), ..ImageStatus::default() };
    container_spec(&ContainerInputs {
        pod,
        container: pod.containers().last().unwrap(),
        restart_count,
        image: &image,
        image_ref: "sha256:1",
        pod_ips: &["10.0.0.7".to_owned()],
        settings,
        volumes: &volumes,
        sources: &EnvironmentSources::default(),
        hosts_file: Some(Path::new("/pods/u/etc-hosts")),
        termination_log: Some(Path::new("/pods/u/containers/c/1a")),
        target,
        recursive_read_only: false,
        volume_groups: &[9],
    })
}

fn pod_with(fields: Value) -> Pod {
    let mut container = json!({"name": "c", "image": "busybox"});
    container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    pod(json!({"containers": [container], "volumes": [{"name": "v"}]}))
}

fn annotation(fields: Value, key: &str) -> Option<String> {
    spec_of(&pod_with(fields), 0).unwrap().annotations.remove(key)
}

#[test]
fn builds_complete_container_spec() {
    let mut pod = pod_with(json!({
        "command": ["/bin/$(WHAT)", "$$(WHAT)"], "args": ["$(WHAT)", "$(OTHER)"], "workingDir": "/w",
        "env": [{"name": "WHAT", "value": "sh"}],
        "stdin": true, "stdinOnce": true, "tty": true,
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "resources": {"limits": {"memory": "1Mi"}},
        "lifecycle": {"stopSignal": "SIGUSR1"},
    }));
    pod.spec.termination_grace_period_seconds = Some(30);
    pod.metadata.deletion_grace_period_seconds = Some(5);
    let spec = spec_of(&pod, 2).unwrap();
    assert_eq!((spec.name.as_str(), spec.attempt, spec.log_path.as_str()), ("c", 2, "c/2.log"));
    assert_eq!(
        (spec.image.image.as_str(), spec.image.user_specified_image.as_str()),
        ("sha256:1", "busybox")
    );
    assert_eq!(spec.command, ["/bin/sh", "$(WHAT)"]);
    assert_eq!(spec.args, ["sh", "$(OTHER)"]);
    assert_eq!(spec.working_dir, "/w");
    assert_eq!(spec.env, [("WHAT".to_owned(), "sh".to_owned())]);
    assert!(spec.stdin && spec.stdin_once && spec.tty);
    let paths: Vec<_> = spec.mounts.iter().map(|mount| mount.container_path.as_str()).collect();
    assert_eq!(paths, ["/v", "/etc/hosts", "/dev/termination-log"]);
    assert_eq!(spec.resources.memory_limit_bytes, 1 << 20);
    assert_eq!(spec.security.run_as_user, Some(7));
    assert_eq!(spec.stop_signal.as_deref(), Some("SIGUSR1"));
    let expected = [
        ("io.kubernetes.container.hash", as_hash(&pod)),
        ("io.kubernetes.container.restartCount", "2".to_owned()),
        ("io.kubernetes.container.terminationMessagePath", "/dev/termination-log".to_owned()),
        ("io.kubernetes.container.terminationMessagePolicy", "File".to_owned()),
        ("io.kubernetes.pod.deletionGracePeriod", "5".to_owned()),
        ("io.kubernetes.pod.terminationGracePeriod", "30".to_owned()),
    ];
    assert_eq!(spec.annotations, expected.map(|(key, value)| (key.to_owned(), value)).into());
}

#[test]
fn stop_signal_requires_feature_gate() {
    let pod = pod_with(json!({"lifecycle": {"stopSignal": "SIGUSR1"}}));
    let off = NodeSettings { container_stop_signals: false, ..settings() };
    assert_eq!(spec_on(&off, &pod, 0, None).unwrap().stop_signal, None);
}

#[test]
fn targets_pid_namespace_unless_pod_shares_one() {
    let target: ContainerId = "1f".into();
    let pid = |pod: &Pod| spec_on(&settings(), pod, 0, Some(&target)).unwrap().security.namespaces.pid;
    let mut pod = pod_with(json!({}));
    assert_eq!(pid(&pod), NamespaceMode::Target("1f".into()));
    pod.spec.share_process_namespace = Some(true);
    assert_eq!(pid(&pod), NamespaceMode::Pod);
}

fn as_hash(pod: &Pod) -> String {
    crate::runtime_spec::container_hash::as_annotation(crate::runtime_spec::container_hash::container_hash(
        &pod.spec.containers[0],
    ))
}

#[test]
fn labels_contain_only_pod_and_container() {
    let mut pod = pod_with(json!({}));
    pod.metadata.labels = Some([("app".to_owned(), "x".to_owned())].into());
    let expected = [
        ("io.kubernetes.container.name", "c"),
        ("io.kubernetes.pod.name", "p"),
        ("io.kubernetes.pod.namespace", "default"),
        ("io.kubernetes.pod.uid", "u"),
    ];
    let labels = spec_of(&pod, 0).unwrap().labels;
    assert_eq!(labels, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
}

#[test]
fn formats_ports_like_upstream() {
    let ports = json!([
        {"name": "web", "hostPort": 80, "containerPort": 8080, "protocol": "TCP", "hostIP": "127.0.0.1"},
        {"name": "", "hostPort": 0, "containerPort": 53, "protocol": "UDP"},
    ]);
    assert_eq!(
        annotation(json!({"ports": ports}), labels::CONTAINER_PORTS).as_deref(),
        Some(concat!(
            r#"[{"name":"web","hostPort":80,"containerPort":8080,"protocol":"TCP","hostIP":"127.0.0.1"},"#,
            r#"{"containerPort":53,"protocol":"UDP"}]"#
        ))
    );
    assert_eq!(annotation(json!({"ports": []}), labels::CONTAINER_PORTS), None);
}

#[test]
fn formats_pre_stop_handlers_like_upstream() {
    for (handler, expected) in [
        (
            json!({"exec": {"command": ["sh", "-c", "a && b > \"c\" \u{1}\u{e9}"]}}),
            r#"{"exec":{"command":["sh","-c","a \u0026\u0026 b \u003e \"c\" \u0001é"]}}"#,
        ),
        (json!({"exec": {}}), r#"{"exec":{}}"#),
        (
            json!({"httpGet": {
                "scheme": "HTTP", "port": 8080, "path": "/stop?a=b&c", "host": "h",
                "httpHeaders": [{"name": "X", "value": "<y>"}],
            }}),
            concat!(
                r#"{"httpGet":{"path":"/stop?a=b\u0026c","port":8080,"host":"h","scheme":"HTTP","#,
                r#""httpHeaders":[{"name":"X","value":"\u003cy\u003e"}]}}"#
            ),
        ),
        (json!({"tcpSocket": {"port": "web"}}), r#"{"tcpSocket":{"port":"web"}}"#),
        (json!({"sleep": {"seconds": 0}}), r#"{"sleep":{"seconds":0}}"#),
    ] {
        let fields = json!({"lifecycle": {"preStop": handler}});
        assert_eq!(annotation(fields, labels::PRE_STOP_HANDLER).as_deref(), Some(expected));
    }
}

#[test]
fn always_sets_required_annotations() {
    let annotations = spec_of(&pod_with(json!({})), 0).unwrap().annotations;
    assert_eq!(annotations[labels::TERMINATION_MESSAGE_PATH], "");
    assert_eq!(annotations[labels::TERMINATION_MESSAGE_POLICY], "");
    assert_eq!(annotations.len(), 4);
}

#[test]
fn returns_errors_of_invalid_fields() {
    for (fields, text) in [
        (json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}), "secret"),
        (json!({"volumeMounts": [{"name": "w", "mountPath": "/w"}]}), "cannot find volume \"w\""),
        (json!({"securityContext": {"runAsNonRoot": true, "runAsUser": 0}}), "non-root"),
        (json!({"securityContext": {"seccompProfile": {"type": "Localhost"}}}), "localhostProfile"),
    ] {
        let problem = spec_of(&pod_with(fields), 0).unwrap_err();
        assert!(problem.contains(text), "{problem}");
    }
}

#[test]
fn volume_groups_follow_pod_groups() {
    let mut pod = pod_with(json!({}));
    let own = json!({"fsGroup": 3, "supplementalGroups": [4]});
    pod.spec.security_context = serde_json::from_value(own).unwrap();
    assert_eq!(spec_of(&pod, 0).unwrap().security.supplemental_groups, [3, 4, 9]);
}
