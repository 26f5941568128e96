use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::KubeletConfiguration;

fn parse(args: &[&str]) -> Result<CommandLine, String> {
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    CommandLine::parse(&args).map_err(|error| error.to_string())
}

fn value(args: &[&str], name: &str) -> Value {
    parse(args).unwrap().value(name).cloned().unwrap()
}

#[test]
fn accepts_exactly_the_upstream_flags_and_our_own() {
    let (podward, mut others): (Vec<&str>, Vec<&str>) =
        flag_names().partition(|name| name.starts_with("podward-"));
    let own = [
        "faults",
        "offline",
        "offline-max-age",
        "streaming-get",
        "runtime-listen",
        "pod-bridge",
        "cni-conf-dir",
    ];
    assert_eq!(podward, own.map(|name| format!("podward-{name}")));
    others.sort_unstable();
    let upstream: Vec<&str> = include_str!("testdata/upstream_flags.txt").lines().collect();
    assert_eq!(others, upstream);
}

#[test]
fn flags_refer_to_existing_configuration_fields() {
    let mut config = KubeletConfiguration::file_defaults().to_json();
    for flag in table::all() {
        let Target::Field(path) = flag.target else { continue };
        let top = path.split('.').next().unwrap();
        assert!(KubeletConfiguration::field_names().contains(&top), "{path}");
        if let Some((parent, last)) = path.rsplit_once('.') {
            let parent = parent.split('.').fold(&mut config, |current, key| &mut current[key]);
            assert!(parent.is_object(), "{path}");
            assert!(!last.is_empty());
        }
    }
}

#[test]
fn parses_values_in_every_upstream_form() {
    let table: &[(&[&str], &str, Value)] = &[
        (&["--config", "a.yaml"], "config", json!("a.yaml")),
        (&["--config=a=b"], "config", json!("a=b")),
        (&["--config_dir", "d"], "config-dir", json!("d")),
        (&["--config", "--odd"], "config", json!("--odd")),
        (&["--fail-swap-on"], "fail-swap-on", json!(true)),
        (&["--fail-swap-on=false"], "fail-swap-on", json!(false)),
        (&["--fail-swap-on=F"], "fail-swap-on", json!(false)),
        (&["-v", "4"], "v", json!(4)),
        (&["-v=4"], "v", json!(4)),
        (&["-v4"], "v", json!(4)),
        (&["--v=2", "--v", "6"], "v", json!(6)),
        (&["-h"], "help", json!(true)),
        (&["--max-pods=0x10"], "max-pods", json!(16)),
        (&["--sync-frequency", "90s"], "sync-frequency", json!("1m30s")),
        (&["--cluster-dns=a,b", "--cluster-dns", "c"], "cluster-dns", json!(["a", "b", "c"])),
        (&["--cluster-dns="], "cluster-dns", json!([])),
        (&["--cluster-dns=\"10.96.0.10\""], "cluster-dns", json!(["10.96.0.10"])),
        (
            &["--cluster-dns=\"a,\"\"b\"\"\",c,", "--cluster-dns=\"\""],
            "cluster-dns",
            json!(["a,\"b\"", "c", "", ""]),
        ),
        (&["--healthz-bind-address=010.0.0.5"], "healthz-bind-address", json!("010.0.0.5")),
        (
            &["--kube-reserved=cpu=1, memory=2Gi", "--kube-reserved=pid=9"],
            "kube-reserved",
            json!({"cpu": "1", "memory": "2Gi", "pid": "9"}),
        ),
        (&["--eviction-hard="], "eviction-hard", json!({})),
        (
            &["--eviction-hard", "memory.available<1Gi,nodefs.available<5%"],
            "eviction-hard",
            json!({"memory.available": "1Gi", "nodefs.available": "5%"}),
        ),
        (&["--cpu-manager-policy-options", "a=1,2"], "cpu-manager-policy-options", json!({"a": "1,2"})),
        (&["--feature-gates=A=true,B=false"], "feature-gates", json!({"A": true, "B": false})),
        (
            &["--manifest-url-header", "a:x,b:y", "--manifest-url-header=a:z"],
            "manifest-url-header",
            json!({"a": ["x", "z"], "b": ["y"]}),
        ),
        (&["--node-labels=a=b,c"], "node-labels", json!({"a": "b", "c": ""})),
        (
            &["--register-with-taints=k=v:NoSchedule,l:NoExecute"],
            "register-with-taints",
            json!([{"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "l", "value": "", "effect": "NoExecute"}]),
        ),
        (
            &["--reserved-memory", "0:memory=1Gi,hugepages-2Mi=4Mi;1:memory=2Gi"],
            "reserved-memory",
            json!([{"numaNode": 0, "limits": {"memory": "1Gi", "hugepages-2Mi": "4Mi"}}, {"numaNode": 1, "limits": {"memory": "2Gi"}}]),
        ),
        (
            &["--vmodule=a*=2,b=3"],
            "vmodule",
            json!([{"filePattern": "a*", "verbosity": 2}, {"filePattern": "b", "verbosity": 3}]),
        ),
        (&["--version=raw"], "version", json!("raw")),
    ];
    for (args, name, expected) in table {
        assert_eq!(value(args, name), *expected, "{args:?}");
    }
    assert!(parse(&["--address="]).unwrap().value("address").is_none());
}

#[test]
fn reports_what_is_wrong_with_a_command_line() {
    let table: &[(&[&str], &str)] = &[
        (&["--max-pod=5"], "unknown flag --max-pod; did you mean --max-pods?"),
        (&["-config", "x"], "unknown flag -config; did you mean --config?"),
        (&["--pod-infra-container-image=x"], "unknown flag --pod-infra-container-image"),
        (&["--config"], "flag --config requires a value"),
        (&["-v"], "flag -v requires a value"),
        (&["run"], "unexpected argument \"run\"; all settings are given as flags"),
        (&["--fail-swap-on", "false"], "unexpected argument \"false\"; all settings are given as flags"),
        (&["--", "--config"], "unexpected argument \"--config\"; all settings are given as flags"),
        (&["--fail-swap-on=maybe"], "flag --fail-swap-on: \"maybe\" must be true or false"),
        (&["--max-pods=many"], "flag --max-pods: \"many\" is not an integer"),
        (&["--max-pods=4294967296"], "flag --max-pods: \"4294967296\" is out of range"),
        (
            &["--sync-frequency=10"],
            "flag --sync-frequency: \"10\" is a duration without a unit; write \"10s\" for seconds",
        ),
        (&["--address=localhost"], "flag --address: \"localhost\" is not an IP address"),
        (&["--cluster-dns=a\"b"], "flag --cluster-dns: \"a\\\"b\" has a misplaced or missing quote"),
        (&["--cluster-dns=\"a"], "flag --cluster-dns: \"\\\"a\" has a misplaced or missing quote"),
        (&["--cluster-dns=\"a\"b"], "flag --cluster-dns: \"\\\"a\\\"b\" has a misplaced or missing quote"),
        (&["--kube-reserved=cpu"], "flag --kube-reserved: \"cpu\" is not of the form key=value"),
        (&["--feature-gates=A=x"], "flag --feature-gates: A: \"x\" must be true or false"),
        (
            &["--register-with-taints=a=b"],
            "flag --register-with-taints: \"a=b\" is not of the form key=value:effect",
        ),
        (&["-v=-1"], "flag --v: \"-1\" is not an integer of at least 0"),
        (&["--version=v1.2.3"], "flag --version: \"v1.2.3\" must be true or false"),
    ];
    for (args, expected) in table {
        assert_eq!(parse(args).unwrap_err(), *expected, "{args:?}");
    }
}

#[test]
fn deprecated_flags_produce_one_notice_each() {
    let line = parse(&[
        "--max-pods=1",
        "--max-pods=2",
        "--containerd=x",
        "--provider-id=p",
        "--v=2",
        "--housekeeping-interval=5s",
        "--experimental-mounter-path=/m",
    ])
    .unwrap();
    assert_eq!(
        line.notices(),
        [
            "flag --max-pods is deprecated: set maxPods in the configuration file (--config) instead",
            "flag --containerd is deprecated: it belongs to cAdvisor and has no effect here",
            "flag --housekeeping-interval has no effect: statistics are collected on request",
            "flag --experimental-mounter-path is deprecated: the agent mounts volumes itself, so it has no effect here",
        ]
    );
}

#[test]
fn flag_only_values_have_upstream_defaults() {
    let flags = Flags::from_command_line(&parse(&[]).unwrap());
    assert_eq!(flags.root_dir.to_str(), Some("/var/lib/kubelet"));
    assert_eq!(flags.cert_dir.to_str(), Some("/var/lib/kubelet/pki"));
    assert_eq!((flags.maximum_dead_containers_per_container, flags.maximum_dead_containers), (1, -1));
    assert_eq!((flags.kubeconfig, flags.node_ip, flags.seccomp_default), (None, None, false));
}

#[test]
fn help_is_aligned_and_lists_every_flag() {
    let help = help_text(ProgramName::Kubelet);
    for name in flag_names() {
        assert!(help.contains(&format!("--{name}")), "{name}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 112), "{help}");
    assert!(
        help.contains(
            "--max-pods N                              Maximum number of pods on the node. (default 110)"
        ),
        "{help}"
    );
}

#[test]
fn version_text_has_upstream_format() {
    assert_eq!(version_text(ProgramName::Kubelet, "podward 1.2.0"), "Kubernetes v1.36.4");
    assert_eq!(version_text(ProgramName::Podward, "podward 1.2.0"), "Kubernetes v1.36.4\npodward 1.2.0");
}

proptest! {
    #[test]
    fn parsing_arbitrary_arguments_never_panics(args in prop::collection::vec("(--?)?[-a-z_]{0,20}(=[-a-z0-9,:;=<%]{0,20})?|-v.{0,5}|[0-9a-z=:,]{0,10}", 0..6)) {
        let _ = CommandLine::parse(&args);
    }

    #[test]
    fn parsing_arbitrary_flag_values_never_panics(index in 0..149_usize, value in ".{0,30}") {
        let name = flag_names().nth(index).unwrap();
        let _ = CommandLine::parse(&[format!("--{name}={value}")]);
    }
}
