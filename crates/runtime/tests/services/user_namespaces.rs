//! Pods with a user namespace, through the services.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use cri::v1::*;

use crate::node::{Node, log_text};

const HOST_ID: u32 = 300_000;

fn mapping() -> Vec<IdMapping> {
    vec![IdMapping { host_id: HOST_ID, container_id: 0, length: 65_536 }]
}

fn user_namespace(options: &mut NamespaceOption) {
    options.userns_options =
        Some(UserNamespace { mode: NamespaceMode::Pod.into(), uids: mapping(), gids: mapping() });
}

fn sandbox_config(node: &Node, pid: NamespaceMode) -> PodSandboxConfig {
    let mut config = node.sandbox_config("mapped");
    let security = config.linux.as_mut().unwrap().security_context.as_mut().unwrap();
    let options = security.namespace_options.as_mut().unwrap();
    options.pid = pid.into();
    user_namespace(options);
    config
}

fn container_config(node: &Node, script: &str, pid: NamespaceMode) -> ContainerConfig {
    let mut config = node.container_config("main", script);
    let security = config.linux.as_mut().unwrap().security_context.as_mut().unwrap();
    let options = security.namespace_options.as_mut().unwrap();
    options.pid = pid.into();
    user_namespace(options);
    config
}

#[tokio::test]
#[ignore = "needs root"]
async fn pod_with_mapped_ids_runs_and_nothing_is_left() {
    let node = Node::start().await;
    for pid in [NamespaceMode::Container, NamespaceMode::Pod] {
        let config = sandbox_config(&node, pid);
        let sandbox = node.run_sandbox(&config).await;
        let volume = tempfile::tempdir().unwrap();
        let script = "read a b c < /proc/self/uid_map; echo $a $b $c; id -u; hostname; \
                      stat -c '%u:%g' / /bin /etc/hosts /volume /dev/shm; touch /made /volume/made && echo made";
        let mut container = container_config(&node, script, pid);
        container.mounts.push(Mount {
            container_path: "/volume".to_owned(),
            host_path: volume.path().to_string_lossy().into_owned(),
            uid_mappings: mapping(),
            gid_mappings: mapping(),
            ..Mount::default()
        });
        let id = node.run(&sandbox, &container).await;
        let status = node.exited(&id).await;
        assert_eq!(
            log_text(Path::new(&status.log_path)),
            format!("0 {HOST_ID} 65536\n0\nmapped\n0:0\n0:0\n0:0\n0:0\n65534:65534\nmade\n"),
            "{pid:?}"
        );
        assert_eq!(fs::metadata(volume.path().join("made")).unwrap().uid(), 0);
        fs::remove_file(&status.log_path).unwrap();
        node.remove_container(&id).await;
        node.remove_sandbox(&sandbox).await;
        node.assert_empty();
    }
}

#[tokio::test]
#[ignore = "needs root"]
async fn container_that_does_not_share_the_mappings_is_refused() {
    let node = Node::start().await;
    let sandbox = node.run_sandbox(&sandbox_config(&node, NamespaceMode::Container)).await;
    let error = node.create(&sandbox, &node.container_config("main", "true")).await.unwrap_err();
    assert!(error.message().contains("userns_options"), "{error}");
    let mut other = container_config(&node, "true", NamespaceMode::Container);
    let mapping = vec![IdMapping { host_id: HOST_ID, container_id: 0, length: 10 }];
    other.mounts.push(Mount {
        container_path: "/volume".to_owned(),
        host_path: "/tmp".to_owned(),
        uid_mappings: mapping.clone(),
        gid_mappings: mapping,
        ..Mount::default()
    });
    let error = node.create(&sandbox, &other).await.unwrap_err();
    assert!(error.message().contains("differ from those of the pod"), "{error}");
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}
