use super::*;
use model::labels::{CONTAINER_NAME, POD_UID};
use model::{Device, IdRange, ImageSpec, LinuxResources};

fn labelled<const N: usize>(labels: [(&str, &str); N]) -> HashMap<String, String> {
    labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

#[test]
fn converts_container_spec() {
    let sent = config(
        &ContainerSpec {
            name: "main".into(),
            attempt: 2,
            image: ImageSpec {
                image: "sha256:1".into(),
                user_specified_image: "web:1".into(),
                ..Default::default()
            },
            command: vec!["sh".into()],
            args: vec!["-c".into()],
            working_dir: "/w".into(),
            env: vec![("B".into(), "2".into()), ("A".into(), "1".into())],
            mounts: vec![Mount {
                container_path: "/in".into(),
                host_path: "/out".into(),
                readonly: true,
                propagation: MountPropagation::Bidirectional,
                ..Default::default()
            }],
            devices: vec![Device {
                container_path: "/dev/a".into(),
                host_path: "/dev/b".into(),
                permissions: "rw".into(),
            }],
            log_path: "main/2.log".into(),
            stdin: true,
            tty: true,
            resources: LinuxResources { cpu_shares: 100, ..Default::default() },
            stop_signal: Some("SIGUSR1".into()),
            ..Default::default()
        },
        UserNamespace::Pod(IdRange { first: 131_072, length: 65_536 }),
    )
    .unwrap();
    let metadata = sent.metadata.clone().unwrap();
    assert_eq!((metadata.name.as_str(), metadata.attempt), ("main", 2));
    let image = sent.image.clone().unwrap();
    assert_eq!((image.image.as_str(), image.user_specified_image.as_str()), ("sha256:1", "web:1"));
    assert_eq!((sent.command[0].as_str(), sent.args[0].as_str()), ("sh", "-c"));
    let env = sent.envs.iter().map(|pair| (pair.key.as_str(), pair.value.as_slice())).collect::<Vec<_>>();
    assert_eq!(env, [("B", b"2".as_slice()), ("A", b"1".as_slice())], "the order is preserved");
    let mount = &sent.mounts[0];
    assert_eq!((mount.container_path.as_str(), mount.host_path.as_str()), ("/in", "/out"));
    assert!(mount.readonly && !mount.selinux_relabel);
    assert_eq!(mount.uid_mappings[0].host_id, 131_072, "mounts use the pod's user namespace");
    assert_eq!(mount.uid_mappings, mount.gid_mappings);
    assert_eq!(mount.propagation(), v1::MountPropagation::PropagationBidirectional);
    assert_eq!(
        (sent.devices[0].container_path.as_str(), sent.devices[0].permissions.as_str()),
        ("/dev/a", "rw")
    );
    assert!(sent.stdin && !sent.stdin_once && sent.tty);
    assert_eq!(sent.stop_signal(), v1::Signal::Sigusr1);
    assert_eq!(sent.linux.unwrap().resources.unwrap().cpu_shares, 100);
}

#[test]
fn converts_stop_signals_from_api_names() {
    for (name, signal) in [
        (None, v1::Signal::RuntimeDefault),
        (Some("SIGTERM"), v1::Signal::Sigterm),
        (Some("SIGRTMIN+1"), v1::Signal::Sigrtminplus1),
        (Some("SIGRTMAX-14"), v1::Signal::Sigrtmaxminus14),
        (Some("SIGRTMAX"), v1::Signal::Sigrtmax),
    ] {
        assert_eq!(stop_signal(name), Ok(signal), "{name:?}");
    }
    assert_eq!(stop_signal(Some("TERM")), Err(UnknownSignal("TERM".into())));
}

#[test]
fn lists_omit_containers_without_pod_labels() {
    let mut item =
        list_calls::Container { id: "c".into(), pod_sandbox_id: "s".into(), state: 1, ..Default::default() };
    assert_eq!(summary(&item), None);
    let labels = [(POD_UID, "u"), (CONTAINER_NAME, "main")];
    item.labels =
        labels.map(|(key, value)| list_calls::Label { key: key.into(), value: value.into() }).to_vec();
    item.metadata = Some(list_calls::ContainerMetadata { name: "other".into(), attempt: 4 });
    let ours = summary(&item).unwrap();
    assert_eq!((ours.sandbox_id.as_str(), ours.name.as_str(), ours.attempt), ("s", "main", 4));
    assert_eq!(ours.state, ContainerState::Running);
}

#[test]
fn converts_container_status() {
    let reported = v1::ContainerStatus {
        id: "c".into(),
        metadata: Some(v1::ContainerMetadata { name: "main".into(), attempt: 1 }),
        state: v1::ContainerState::ContainerExited.into(),
        created_at: 1,
        started_at: 2,
        finished_at: 3,
        exit_code: 4,
        image: Some(v1::ImageSpec { image: "web:1".into(), ..Default::default() }),
        image_ref: "web@sha256:1".into(),
        image_id: "sha256:1".into(),
        reason: "Error".into(),
        annotations: labelled([("a", "b")]),
        log_path: "/l".into(),
        mounts: vec![v1::Mount {
            container_path: "/in".into(),
            host_path: "/out".into(),
            ..Default::default()
        }],
        resources: Some(v1::ContainerResources {
            linux: Some(v1::LinuxContainerResources { cpu_quota: 5, ..Default::default() }),
            windows: None,
        }),
        ..Default::default()
    };
    let found = status(reported, &labelled([("info", r#"{"pid":77,"config":{"x":[1]}}"#)])).unwrap();
    assert_eq!((found.name.as_str(), found.attempt, found.state), ("main", 1, ContainerState::Exited));
    let times = [found.created_at, found.started_at, found.finished_at];
    assert_eq!(times, [1, 2, 3].map(Timestamp::from_nanos));
    assert_eq!((found.exit_code, found.reason.as_str()), (4, "Error"));
    assert_eq!((found.image.as_str(), found.image_ref.as_str()), ("web:1", "web@sha256:1"));
    assert_eq!(found.mounts, [("/in".to_owned(), "/out".to_owned())]);
    assert_eq!(found.resources.unwrap().cpu_quota, 5);
    assert_eq!(found.pid, Some(77));
}

#[test]
fn extracts_process_id_if_positive() {
    for (text, expected) in
        [(r#"{"pid":5}"#, Some(5)), (r#"{"pid":0}"#, None), ("{}", None), ("not json", None)]
    {
        assert_eq!(pid(text), expected, "{text}");
    }
}

#[test]
fn rejects_status_without_id_or_metadata() {
    let none = HashMap::new();
    assert!(status(v1::ContainerStatus::default(), &none).is_err());
    assert!(status(v1::ContainerStatus { id: "c".into(), ..Default::default() }, &none).is_err());
}
