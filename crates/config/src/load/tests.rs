use std::fs;

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

const HEAD: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// A temporary directory with configuration files, used as the working directory.
struct TestDir(TempDir);

impl TestDir {
    fn with(files: &[(&str, &str)]) -> Self {
        let dir = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            let path = dir.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{HEAD}{text}")).unwrap();
        }
        dir
    }

    fn try_load(&self, args: &[&str]) -> Result<Invocation, LoadError> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let environment =
            Environment { working_directory: self.0.path().to_owned(), cgroup: CgroupVersion::V2 };
        load(&args, &environment)
    }

    fn load(&self, args: &[&str]) -> LoadedConfig {
        match self.try_load(args) {
            Ok(Invocation::Run(loaded)) => *loaded,
            Ok(other) => panic!("{args:?}: {other:?}"),
            Err(error) => panic!("{args:?}: {error}"),
        }
    }

    /// The problems, one per line, with this directory written as `DIR`.
    fn problems(&self, args: &[&str]) -> Vec<String> {
        let error = self.try_load(args).expect_err("must be rejected").to_string();
        error.replace(&self.0.path().display().to_string(), "DIR").lines().map(str::to_owned).collect()
    }
}

fn field(loaded: &LoadedConfig, path: &str) -> Value {
    path.split('.').fold(loaded.config.to_json(), |current, key| current[key].clone())
}

#[test]
fn uses_legacy_defaults_without_a_configuration_file() {
    let loaded = TestDir::with(&[]).load(&[]);
    assert_eq!(loaded.config, KubeletConfiguration::legacy_defaults());
    assert_eq!(loaded.config.reservations.eviction_hard, None);
    assert!(loaded.notices.is_empty() && loaded.set_fields.is_empty());
}

#[test]
fn uses_file_defaults_with_a_configuration_file() {
    let loaded = TestDir::with(&[("c.yaml", "")]).load(&["--config", "c.yaml"]);
    assert_eq!(loaded.config, KubeletConfiguration::file_defaults());
    assert_eq!(loaded.config.server.read_only_port, 0);
    assert!(!loaded.config.access.authentication.anonymous.enabled);
}

#[test]
fn default_eviction_thresholds_depend_on_the_file() {
    let hard = |text: &str, args: &[&str]| {
        let args = [&["--config=c.yaml"], args].concat();
        field(&TestDir::with(&[("c.yaml", text)]).load(&args), "evictionHard")
    };
    let all = json!({"imagefs.available": "15%", "imagefs.inodesFree": "5%", "memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"});
    assert_eq!(hard("", &[]), all);
    assert_eq!(hard("evictionHard: {}", &[]), json!({}));
    assert_eq!(hard("evictionHard: {memory.available: 1Gi}", &[]), json!({"memory.available": "1Gi"}));
    let mut merged = all.clone();
    merged["memory.available"] = json!("1Gi");
    assert_eq!(
        hard("evictionHard: {memory.available: 1Gi}\nmergeDefaultEvictionSettings: true", &[]),
        merged
    );
    assert_eq!(hard("", &["--eviction-hard=pid.available<5%"]), json!({"pid.available": "5%"}));
}

#[test]
fn resolves_relative_paths_against_the_directory_of_the_file() {
    let dir = TestDir::with(&[(
        "etc/c.yaml",
        "staticPodPath: manifests\nresolvConf: ''\ntlsCertFile: ../pki/a.crt\npodLogsDir: /var/log/pods\n",
    )]);
    let loaded = dir.load(&["--config=etc/c.yaml", "--tls-private-key-file=rel.key"]);
    let root = dir.0.path();
    assert_eq!(loaded.config.server.static_pod_path, root.join("etc/manifests").to_str().unwrap());
    assert_eq!(loaded.config.server.tls_cert_file, root.join("pki/a.crt").to_str().unwrap());
    assert_eq!(loaded.config.server.tls_private_key_file, "rel.key");
    assert_eq!(loaded.config.network.resolv_conf, "");
}

#[test]
fn merges_drop_ins_in_order() {
    type Files = &'static [(&'static str, &'static str)];
    const NULL_IN_A_LIST: Files = &[
        ("d/1.conf", "registerWithTaints: [{key: a, value: , effect: NoSchedule}]\nmaxPods: 9"),
        ("d/2.conf", "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi, hugepages-2Mi: null}}]"),
    ];
    let table: &[(&str, Files, &str, Value)] = &[
        ("maxPods: 1", &[("d/10.conf", "maxPods: 2"), ("d/20.conf", "maxPods: 3")], "maxPods", json!(3)),
        ("maxPods: 1", &[("d/10/z.conf", "maxPods: 2"), ("d/05.conf", "maxPods: 3")], "maxPods", json!(2)),
        ("maxPods: 1", &[("d/10.conf", "maxPods: null")], "maxPods", json!(110)),
        ("clusterDNS: [a, b]", &[("d/10.conf", "clusterDNS: [c]")], "clusterDNS", json!(["c"])),
        (
            "kubeReserved: {cpu: '1', pid: '5'}",
            &[("d/1.conf", "kubeReserved: {cpu: '2', memory: 1Gi, pid: null}")],
            "kubeReserved",
            json!({"cpu": "2", "memory": "1Gi"}),
        ),
        (
            "featureGates: {AllAlpha: false}",
            &[("d/1.conf", "featureGates: {MemoryQoS: true}")],
            "featureGates",
            json!({"AllAlpha": false, "MemoryQoS": true}),
        ),
        (
            "",
            &[("d/1.conf", "authentication: {anonymous: {enabled: true}}")],
            "authentication.webhook.enabled",
            json!(true),
        ),
        ("", &[("d/1.conf", "staticPodPath: rel")], "staticPodPath", json!("rel")),
        ("enforceNodeAllocatable: []", &[("d/1.conf", "maxPods: 9")], "enforceNodeAllocatable", json!([])),
        ("", &[("d/1.conf", "nodeStatusUpdateFrequency: 7s")], "nodeStatusReportFrequency", json!("5m0s")),
        ("", NULL_IN_A_LIST, "maxPods", json!(9)),
        ("", NULL_IN_A_LIST, "registerWithTaints", json!([{"key": "a", "effect": "NoSchedule"}])),
        ("", NULL_IN_A_LIST, "reservedMemory", json!([{"numaNode": 0, "limits": {"memory": "1Gi"}}])),
    ];
    for (main, drop_ins, path, expected) in table {
        let dir = TestDir::with(&[&[("c.yaml", *main)], *drop_ins].concat());
        let loaded = dir.load(&["--config=c.yaml", "--config-dir=d"]);
        assert_eq!(field(&loaded, path), *expected, "{main} {drop_ins:?}");
    }
}

#[test]
fn loads_drop_ins_without_a_file_and_ignores_other_files() {
    let dir = TestDir::with(&[("d/a.conf", "maxPods: 5"), ("d/b.yaml", "maxPods: 6")]);
    let loaded = dir.load(&["--config-dir", "d"]);
    assert_eq!((loaded.config.pods.max_pods, loaded.config.server.read_only_port), (5, 10255));
    assert!(
        loaded.notices[0].ends_with("b.yaml: ignored, because its name does not end in .conf"),
        "{:?}",
        loaded.notices
    );
}

#[test]
fn flags_take_precedence_over_files_and_gates_are_merged() {
    let dir = TestDir::with(&[(
        "c.yaml",
        "maxPods: 5\nclusterDNS: [a]\nkubeReserved: {cpu: '1'}\nlogging: {vmodule: [{filePattern: a, verbosity: 1}]}\n\
         featureGates: {MemoryQoS: true, QOSReserved: true}\n",
    )]);
    let loaded = dir.load(&[
        "--max-pods=7",
        "--config=c.yaml",
        "--cluster-dns=b,c",
        "--kube-reserved=memory=1Gi",
        "--vmodule=b=2",
        "--feature-gates=MemoryQoS=false",
        "--port=4",
        "-v=3",
    ]);
    let expected = [
        ("maxPods", json!(7)),
        ("clusterDNS", json!(["b", "c"])),
        ("kubeReserved", json!({"memory": "1Gi"})),
        (
            "logging.vmodule",
            json!([{"filePattern": "a", "verbosity": 1}, {"filePattern": "b", "verbosity": 2}]),
        ),
        ("featureGates", json!({"MemoryQoS": false, "QOSReserved": true})),
        ("logging.verbosity", json!(3)),
    ];
    for (path, value) in expected {
        assert_eq!(field(&loaded, path), value, "{path}");
    }
    assert!(loaded.gates.enabled(crate::Gate::QOSReserved) && !loaded.gates.enabled(crate::Gate::MemoryQoS));
    let set: Vec<&str> = loaded.set_fields.iter().map(String::as_str).collect();
    assert_eq!(set, ["clusterDNS", "featureGates", "kubeReserved", "logging", "maxPods", "port"]);
}

#[test]
fn reports_every_problem_with_its_position() {
    let dir = TestDir::with(&[
        ("c.yaml", "maxPods: -1\nportt: 1\nhealthzPort: x\nfeatureGates:\n  Nope: true\n  NodeSwap: false\n"),
        ("d/1.conf", "oomScoreAdj: 5000\n"),
        ("d/2.conf", "containerLogMaxFiles: 1\nsyncFrequency: 5\n"),
    ]);
    let args = [
        "--config=c.yaml",
        "--config-dir=d",
        "--registry-burst=-1",
        "--cloud-provider=aws",
        "--authorization-mode=Maybe",
        "--exit-on-lock-contention",
        "--feature-gates=AllBetta=true",
    ];
    assert_eq!(
        dir.problems(&args),
        [
            "flag --cloud-provider: \"aws\" must be empty or \"external\"",
            "flag --exit-on-lock-contention: requires --lock-file",
            "DIR/c.yaml: line 4: portt: unknown field; did you mean \"port\"?",
            "DIR/c.yaml: line 5: healthzPort: invalid type: string \"x\", expected i32",
            "DIR/d/2.conf: line 4: syncFrequency: invalid type: integer `5`, expected a duration with its unit, such as \"1m30s\"",
            "flag --authorization-mode: unknown variant `Maybe`, expected `AlwaysAllow` or `Webhook`",
            "flag --feature-gates: featureGates.AllBetta: unknown feature gate; did you mean \"AllBeta\"?",
            "DIR/c.yaml: line 8: featureGates.NodeSwap: feature gate is locked to true",
            "DIR/c.yaml: line 7: featureGates.Nope: unknown feature gate",
            "flag --registry-burst: registryBurst: -1 must not be negative",
            "DIR/c.yaml: line 3: maxPods: -1 must not be negative",
            "DIR/d/1.conf: line 3: oomScoreAdj: 5000 must be between -1000 and 1000",
        ]
    );
}

#[test]
fn rejects_files_that_are_not_a_configuration() {
    let table = [
        ("", "DIR/c: the file is empty"),
        ("a: [\n", "DIR/c: line 2: while parsing a node, did not find expected node content"),
        (
            "kind: KubeletConfiguration\n",
            "DIR/c: line 1: apiVersion: required field is missing; it must be \"kubelet.config.k8s.io/v1beta1\"",
        ),
        (
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: Pod\n",
            "DIR/c: line 2: kind: \"Pod\" must be \"KubeletConfiguration\"",
        ),
        ("kind: A\nkind: B\n", "DIR/c: line 2: field \"kind\" is already set on line 1"),
    ];
    for (text, expected) in table {
        let dir = TestDir::with(&[]);
        fs::write(dir.0.path().join("c"), text).unwrap();
        assert_eq!(dir.problems(&["--config=c"]), [expected], "{text:?}");
    }
    let dir = TestDir::with(&[("c", "---\na: 1")]);
    assert_eq!(dir.problems(&["--config=c"]), ["DIR/c: line 4: the file must contain exactly one document"]);
    assert_eq!(dir.problems(&["--config=none"]), ["failed to read configuration DIR/none"]);
    assert_eq!(dir.problems(&["--config-dir=none"]), ["failed to read configuration DIR/none"]);
    let dir = TestDir::with(&[]);
    fs::create_dir(dir.0.path().join("d")).unwrap();
    fs::write(dir.0.path().join("d/x.conf"), "maxPods: 5").unwrap();
    assert_eq!(dir.problems(&["--config-dir=d"]).len(), 2);
}

#[test]
fn help_and_version_take_precedence_over_errors() {
    let dir = TestDir::with(&[]);
    assert!(matches!(dir.try_load(&["--config=none", "-h"]), Ok(Invocation::Help)));
    let version = |arg| match dir.try_load(&[arg]) {
        Ok(Invocation::Version(format)) => Some(format),
        _ => None,
    };
    assert_eq!(version("--version"), Some(VersionFormat::Plain));
    assert_eq!(version("--version=raw"), Some(VersionFormat::Raw));
    assert_eq!(version("--version=false"), None);
}

#[test]
fn loads_a_kubeadm_node_like_upstream() {
    let dir = TestDir::with(&[]);
    fs::write(dir.0.path().join("config.yaml"), include_str!("testdata/kubeadm.yaml")).unwrap();
    let loaded = dir.load(&[
        "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
        "--kubeconfig=/etc/kubernetes/kubelet.conf",
        "--config=config.yaml",
        "--container-runtime-endpoint=unix:///run/containerd/containerd.sock",
        "--node-ip=172.18.0.2",
        "--node-labels=node-role=worker,node.kubernetes.io/x=1",
        "--provider-id=kind://docker/kind/kind-control-plane",
        "--runtime-cgroups=/system.slice/containerd.service",
    ]);
    let golden: Value = serde_json::from_str(include_str!("testdata/kubeadm.golden.json")).unwrap();
    let mut config = loaded.config.to_json();
    config["staticPodPath"] = json!("manifests");
    assert_eq!(config, golden);
    assert_eq!(loaded.flags.node_ip.as_deref(), Some("172.18.0.2"));
    assert_eq!(loaded.flags.node_labels.len(), 2);
    assert_eq!(loaded.notices.len(), 1, "{:?}", loaded.notices);
}

#[test]
fn accepts_the_flags_of_kind_and_of_the_node_e2e_tests() {
    let dir = TestDir::with(&[("c.yaml", "")]);
    let loaded = dir.load(&[
        "--config=c.yaml",
        "--cgroup-root=/kubelet",
        "--fail-swap-on=false",
        "--housekeeping-interval=5s",
        "--pod-manifest-path=/tmp/static",
        "--pod-cidr=10.100.0.0/24",
        "--register-with-taints=node-role.kubernetes.io/control-plane:NoSchedule",
        "--feature-gates=MemoryQoS=true",
        "--v=4",
        "--logging-format=json",
        "--root-dir=/tmp/k",
        "--hostname-override=n1",
        "--seccomp-default",
    ]);
    assert_eq!(loaded.config.cgroups.cgroup_root, "/kubelet");
    assert!(!loaded.config.pods.fail_swap_on && loaded.seccomp_default());
    assert_eq!(loaded.flag_values.get("housekeeping-interval").map(String::as_str), Some("5s"));
    assert!(matches!(
        dir.try_load(&["--pod-infra-container-image=registry.k8s.io/pause:3.10"]),
        Err(LoadError::CommandLine(_))
    ));
}

#[test]
fn validates_node_flags() {
    let dir = TestDir::with(&[]);
    let table = [
        ("--node-labels=kubernetes.io/foo=1", "a node may not set this label on itself"),
        ("--node-labels=a b=1", "is not a label key"),
        ("--node-labels=a=b c", "is not a label value"),
        ("--node-ip=1.2.3.4,5.6.7.8", "one IPv4 and one IPv6 address"),
        ("--node-ip=::,0.0.0.0", "one IPv4 and one IPv6 address"),
        ("--node-ip=1.2.3.4,::1,x,1.2.3.5", "must be one IP address"),
    ];
    for (arg, expected) in table {
        let problems = dir.problems(&[arg]);
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{arg}: {problems:?}");
    }
    for fine in ["--node-ip=here", "--node-ip=10.0.0.5,", "--node-ip=::", "--node-ip=010.0.0.5, ::1"] {
        dir.load(&[fine]);
    }
    dir.load(&["--node-labels=kubernetes.io/os=linux,x.node.kubernetes.io/y=z,a=b"]);
}

/// Random valid configurations.
fn any_config() -> impl Strategy<Value = KubeletConfiguration> {
    let text = || "[a-z]{1,8}";
    let map = || prop::collection::btree_map("[a-z]{1,5}", text(), 0..3);
    (
        (1..65536_i32, 0..65536_i32, 1..10_000_i64, any::<bool>(), prop::collection::vec(text(), 0..3)),
        (1..500_i32, -1..1000_i64, 1..300_i64, any::<bool>(), prop::option::of(1..2_i32)),
        (
            prop::collection::btree_map("[a-z]{1,5}", prop::collection::vec(text(), 1..3), 0..3),
            1..1_000_000_i64,
        ),
        (0..10_u32, prop::option::of(map().prop_map(|_| BTreeMap::new())), 0.01..1.0_f64, text()),
    )
        .prop_map(|(server, pods, headers, rest)| {
            let mut config = KubeletConfiguration::file_defaults();
            config.server.port = server.0;
            config.server.healthz_port = server.1;
            config.server.sync_frequency = values::duration::GoDuration::from_millis(server.2);
            config.server.enable_server = server.3;
            config.network.cluster_dns = server.4;
            config.pods.max_pods = pods.0;
            config.pods.pod_pids_limit = pods.1;
            config.pods.crash_loop_back_off.max_container_restart_period =
                Some(values::duration::GoDuration::from_secs(pods.2));
            config.node.register_node = pods.3;
            config.images.max_parallel_image_pulls = pods.4;
            config.server.static_pod_url_header = headers.0;
            config.images.runtime_request_timeout = values::duration::GoDuration::from_nanos(headers.1);
            config.logs.logging.verbosity = rest.0;
            config.reservations.eviction_hard = rest.1.or_else(|| config.reservations.eviction_hard.take());
            config.managers.memory_throttling_factor = Some(rest.2);
            config.network.cluster_domain = rest.3;
            config
        })
}

proptest! {
    #[test]
    fn parses_any_serialized_config_back(config in any_config()) {
        let mut json = config.to_json();
        json["apiVersion"] = json!(crate::configuration::API_VERSION);
        json["kind"] = json!(crate::configuration::KIND);
        prop_assert_eq!(parse_config(json.to_string().as_bytes()).unwrap(), config);
    }

    #[test]
    fn parsing_arbitrary_config_never_panics(text in "[a-zA-Z0-9:{}\\[\\], \n\"'.-]{0,200}") {
        let _ = parse_config(format!("{HEAD}{text}").as_bytes());
    }
}

#[test]
fn an_empty_text_means_not_set() {
    let set = |text: &str| TestDir::with(&[("c.yaml", text)]).load(&["--config=c.yaml"]).set_fields;
    assert!(set("containerRuntimeEndpoint: ''\n").is_empty());
    assert_eq!(set("containerRuntimeEndpoint: /run/c.sock\n").len(), 1);
}
