//! Settings of requests as a container sees them.

use std::fs;

use cri::v1::*;

use crate::node::Node;

fn security(config: &mut ContainerConfig) -> &mut LinuxContainerSecurityContext {
    let linux = config.linux.get_or_insert_default();
    linux.security_context.get_or_insert_default()
}

#[tokio::test]
#[ignore = "needs root"]
async fn files_of_the_sandbox_are_visible() {
    let node = Node::start().await;
    let dns =
        DnsConfig { servers: vec!["10.1.2.3".into()], searches: vec!["a.example".into()], options: vec![] };
    let config = PodSandboxConfig { dns_config: Some(dns), ..node.sandbox_config("web") };
    let sandbox = node.run_sandbox(&config).await;
    let script = "cat /etc/hostname /etc/resolv.conf; hostname; echo $HOSTNAME $FROM_IMAGE $HOME; cat /data/declared; ip link show lo | grep -c UP";
    let (code, text) = node.output(&sandbox, &node.container_config("main", script)).await;
    assert_eq!(
        (code, text.as_str()),
        (0, "web\nsearch a.example\nnameserver 10.1.2.3\nweb\nweb yes /root\nfrom the image\n1\n")
    );
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn user_and_groups_equal_the_status() {
    let node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let mut config = node.container_config("main", "id; sleep 1000");
    security(&mut config).run_as_username = "app".into();
    security(&mut config).supplemental_groups = vec![1234];
    let id = node.run(&sandbox, &config).await;
    let status = node.status(&id).await;
    let user = status.user.unwrap().linux.unwrap();
    assert_eq!((user.uid, user.gid), (1000, 1000));
    assert_eq!(user.supplemental_groups, [1000, 1234, 50000]);
    let seen = node.exec_output(&id, "id").await;
    assert_eq!(seen, "uid=1000(app) gid=1000(app) groups=1000(app),1234,50000(logs)\n");
    node.remove_sandbox(&sandbox).await;
}

#[tokio::test]
#[ignore = "needs root"]
async fn limits_reach_the_cgroup_and_can_be_changed() {
    let node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let mut config = node.container_config("main", "sleep 1000");
    config.linux.as_mut().unwrap().resources = Some(LinuxContainerResources {
        memory_limit_in_bytes: 64 << 20,
        cpu_shares: 512,
        ..LinuxContainerResources::default()
    });
    let id = node.run(&sandbox, &config).await;
    let limit = || {
        let path = format!("{}/{id}", node.cgroup_parent);
        let v1 = format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes");
        let v2 = format!("/sys/fs/cgroup{path}/memory.max");
        fs::read_to_string(v1).or_else(|_| fs::read_to_string(v2)).unwrap().trim().parse::<u64>().unwrap()
    };
    assert_eq!(limit(), 64 << 20);
    let update = |linux: LinuxContainerResources| UpdateContainerResourcesRequest {
        container_id: id.clone(),
        linux: Some(linux),
        ..UpdateContainerResourcesRequest::default()
    };
    let more = LinuxContainerResources { memory_limit_in_bytes: 96 << 20, ..Default::default() };
    node.runtime().update_container_resources(update(more)).await.unwrap();
    assert_eq!(limit(), 96 << 20);
    let resources = node.status(&id).await.resources.unwrap().linux.unwrap();
    assert_eq!((resources.memory_limit_in_bytes, resources.cpu_shares), (96 << 20, 512));
    let impossible = LinuxContainerResources {
        memory_limit_in_bytes: 80 << 20,
        cpuset_cpus: "9999".into(),
        ..Default::default()
    };
    assert!(node.runtime().update_container_resources(update(impossible)).await.is_err());
    assert_eq!(limit(), 96 << 20);
    let resources = node.status(&id).await.resources.unwrap().linux.unwrap();
    assert_eq!(resources.memory_limit_in_bytes, 96 << 20);
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn container_above_its_memory_limit_is_reported_as_oom_killed() {
    let node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let mut config = node.container_config("main", "exec dd if=/dev/zero of=/dev/null bs=200M count=1");
    config.linux.as_mut().unwrap().resources = Some(LinuxContainerResources {
        memory_limit_in_bytes: 15 << 20,
        memory_swap_limit_in_bytes: 15 << 20,
        ..LinuxContainerResources::default()
    });
    let id = node.run(&sandbox, &config).await;
    let status = node.exited(&id).await;
    assert_eq!((status.exit_code, status.reason.as_str()), (137, "OOMKilled"));
    node.remove_sandbox(&sandbox).await;
}

#[tokio::test]
#[ignore = "needs root"]
async fn containers_can_share_a_pid_namespace() {
    let node = Node::start().await;
    let mut sandbox_config = node.sandbox_config("a");
    let linux = sandbox_config.linux.as_mut().unwrap();
    linux.security_context.as_mut().unwrap().namespace_options = Some(NamespaceOption::default());
    let sandbox = node.run_sandbox(&sandbox_config).await;
    let mut config = node.container_config("main", "sleep 4321");
    security(&mut config).namespace_options = Some(NamespaceOption::default());
    let main = node.run(&sandbox, &config).await;
    config.metadata.as_mut().unwrap().name = "other".into();
    let other = node.run(&sandbox, &config).await;
    let seen = node
        .exec_output(&other, "ps | grep -c '[s]leep 4321'; cat /proc/1/cmdline | grep -c sleep || true")
        .await;
    assert_eq!(seen, "2\n0\n");
    let pid = node.exec_output(&other, "ls /proc | grep -c '^1$'").await;
    assert_eq!(pid, "1\n");
    let mut target = node.container_config("debug", "ps | grep -c '[s]leep 4321'");
    security(&mut target).namespace_options = Some(NamespaceOption {
        pid: NamespaceMode::Target.into(),
        target_id: main.clone(),
        ..NamespaceOption::default()
    });
    assert_eq!(node.output(&sandbox, &target).await, (0, "2\n".to_owned()));
    node.stop_container(&main, 0).await;
    assert_eq!(node.status(&other).await.state(), ContainerState::ContainerRunning);
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn host_network_pod_sees_the_interfaces_of_the_node() {
    let node = Node::start().await;
    let mut config = node.sandbox_config("a");
    let linux = config.linux.as_mut().unwrap();
    let options = linux.security_context.as_mut().unwrap().namespace_options.as_mut().unwrap();
    options.network = NamespaceMode::Node.into();
    let sandbox = node.run_sandbox(&config).await;
    let status = node.sandbox_status(&sandbox).await;
    assert_eq!(status.network.unwrap().ip, "");
    let mut container =
        node.container_config("main", "busybox readlink /proc/self/ns/net; cat /proc/net/dev | wc -l");
    let options = security(&mut container).namespace_options.as_mut().unwrap();
    options.network = NamespaceMode::Node.into();
    let (_, seen) = node.output(&sandbox, &container).await;
    // Other tests make and remove interfaces meanwhile.
    let here = fs::read_link("/proc/self/ns/net").unwrap();
    let (namespace, interfaces) = seen.split_once('\n').unwrap();
    assert_eq!(namespace, here.to_string_lossy());
    assert!(interfaces.trim().parse::<usize>().unwrap() > 2, "{seen}");
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn device_of_a_driver_appears_with_its_edits() {
    let node = Node::start().await;
    let folder = node.folder.path().join("cdi");
    fs::create_dir(&folder).unwrap();
    fs::write(node.folder.path().join("driver-file"), "from the driver\n").unwrap();
    let text = format!(
        "cdiVersion: 0.6.0\nkind: vendor.test/device\ndevices:\n- name: one\n  containerEdits:\n    env: [DEVICE=one]\n\
         \x20   deviceNodes: [{{path: /dev/one, hostPath: /dev/zero}}]\n    mounts:\n\
         \x20   - {{hostPath: {}/driver-file, containerPath: /driver/file, options: [ro, bind]}}\n    additionalGids: [77]\n",
        node.folder.path().display()
    );
    fs::write(folder.join("device.yaml"), text).unwrap();
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let script = "echo $DEVICE; cat /driver/file; head -c 3 /dev/one | wc -c; id -G; touch /driver/file";
    let mut config = node.container_config("main", script);
    config.cdi_devices = vec![CdiDevice { name: "vendor.test/device=one".to_owned() }];
    let (_, seen) = node.output(&sandbox, &config).await;
    assert!(seen.starts_with("one\nfrom the driver\n3\n0 77\n"), "{seen}");
    assert!(seen.contains("Read-only file system"), "{seen}");
    config.cdi_devices = vec![CdiDevice { name: "vendor.test/device=two".to_owned() }];
    let refused = node.create(&sandbox, &config).await.unwrap_err();
    assert!(refused.message().contains("vendor.test/device=two"), "{refused}");
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn mounts_follow_the_request() {
    let node = Node::start().await;
    let sandbox = node.run_sandbox(&node.sandbox_config("a")).await;
    let host = node.folder.path().join("host");
    let missing = node.folder.path().join("missing/sub");
    fs::create_dir(&host).unwrap();
    fs::write(host.join("file"), "hello\n").unwrap();
    let mount = |path: &str, host: &std::path::Path, readonly| Mount {
        container_path: path.into(),
        host_path: host.to_string_lossy().into_owned(),
        readonly,
        ..Mount::default()
    };
    let image = |sub: &str| Mount {
        container_path: "/image".into(),
        image: Some(ImageSpec { image: crate::node::IMAGE.into(), ..ImageSpec::default() }),
        image_sub_path: sub.into(),
        readonly: true,
        ..Mount::default()
    };
    let script = "cat /host/file; touch /host/x || echo refused; touch /new/y && echo written; ls /image; touch /image/z 2>/dev/null || echo read-only";
    let mut config = node.container_config("main", script);
    config.mounts = vec![mount("/host", &host, true), mount("/new", &missing, false), image("data")];
    let (code, text) = node.output(&sandbox, &config).await;
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("hello\n") && text.contains("refused\nwritten\ndeclared\nread-only\n"), "{text}");
    assert!(missing.join("y").exists());
    for sub in ["absent", "../etc", "/etc"] {
        config.mounts = vec![image(sub)];
        let error = node.create(&sandbox, &config).await.unwrap_err();
        assert!(error.message().contains("ImageVolumeMountFailed"), "{error}");
    }
    node.remove_sandbox(&sandbox).await;
    node.assert_empty();
}

#[tokio::test]
#[ignore = "needs root"]
async fn kernel_parameters_apply_to_the_pod() {
    let node = Node::start().await;
    let mut config = node.sandbox_config("a");
    let linux = config.linux.as_mut().unwrap();
    linux.sysctls = [
        ("kernel.shm_rmid_forced".to_owned(), "1".to_owned()),
        ("fs.mqueue.msg_max".to_owned(), "100".to_owned()),
        ("net.ipv4.ip_unprivileged_port_start".to_owned(), "80".to_owned()),
    ]
    .into();
    let sandbox = node.run_sandbox(&config).await;
    let script = "cat /proc/sys/kernel/shm_rmid_forced /proc/sys/fs/mqueue/msg_max /proc/sys/net/ipv4/ip_unprivileged_port_start";
    let (_, text) = node.output(&sandbox, &node.container_config("main", script)).await;
    assert_eq!(text, "1\n100\n80\n");
    node.remove_sandbox(&sandbox).await;
    let mut config = node.sandbox_config("b");
    config.linux.as_mut().unwrap().sysctls = [("vm.swappiness".to_owned(), "1".to_owned())].into();
    let request = RunPodSandboxRequest { config: Some(config), ..Default::default() };
    let error = node.runtime().run_pod_sandbox(request).await.unwrap_err();
    assert!(error.message().contains("sysctls"), "{error}");
    node.assert_empty();
}
