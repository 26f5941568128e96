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
fn knows_every_flag_of_upstream_and_no_other_but_our_own() {
    let (own, mut ours): (Vec<&str>, Vec<&str>) = flag_names().partition(|name| name.starts_with("podward-"));
    assert_eq!(own, ["podward-offline", "podward-offline-max-age", "podward-streaming-get"]);
    ours.sort_unstable();
    let upstream: Vec<&str> = include_str!("testdata/upstream_flags.txt").lines().collect();
    assert_eq!(ours, upstream);
}

#[test]
fn flags_name_fields_that_exist() {
    let mut config = KubeletConfiguration::file_defaults().to_json();
    for flag in table::all() {
        let Target::Field(path) = flag.target else { continue };
        let top = path.split('.').next().unwrap();
        assert!(KubeletConfiguration::field_names().contains(&top), "{path}");
        if let Some((parent, last)) = path.rsplit_once('.') {
            let parent = parent.split('.').fold(&mut config, |here, key| &mut here[key]);
            assert!(parent.is_object(), "{path}");
            assert!(!last.is_empty());
        }
    }
}

#[test]
fn values_follow_in_every_upstream_form() {
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
fn wrong_command_lines_say_what_is_wrong() {
    let table: &[(&[&str], &str)] = &[
        (&["--max-pod=5"], "unknown flag --max-pod; did you mean --max-pods?"),
        (&["-config", "x"], "unknown flag -config; did you mean --config?"),
        (&["--pod-infra-container-image=x"], "unknown flag --pod-infra-container-image"),
        (&["--config"], "flag --config needs a value"),
        (&["-v"], "flag -v needs a value"),
        (&["run"], "unknown command \"run\""),
        (&["--fail-swap-on", "false"], "unknown command \"false\""),
        (&["--", "--config"], "unknown command \"--config\""),
        (&["--fail-swap-on=maybe"], "flag --fail-swap-on: \"maybe\" is neither true nor false"),
        (&["--max-pods=many"], "flag --max-pods: \"many\" is not an integer"),
        (&["--max-pods=4294967296"], "flag --max-pods: \"4294967296\" is out of range"),
        (
            &["--sync-frequency=10"],
            "flag --sync-frequency: \"10\" is a duration without a unit; write \"10s\" for seconds",
        ),
        (&["--address=localhost"], "flag --address: \"localhost\" is not an IP address"),
        (&["--cluster-dns=a\"b"], "flag --cluster-dns: \"a\\\"b\" has a quote where none belongs"),
        (&["--cluster-dns=\"a"], "flag --cluster-dns: \"\\\"a\" has a quote where none belongs"),
        (&["--cluster-dns=\"a\"b"], "flag --cluster-dns: \"\\\"a\\\"b\" has a quote where none belongs"),
        (&["--kube-reserved=cpu"], "flag --kube-reserved: \"cpu\" is not of the form key=value"),
        (&["--feature-gates=A=x"], "flag --feature-gates: A: \"x\" is neither true nor false"),
        (
            &["--register-with-taints=a=b"],
            "flag --register-with-taints: \"a=b\" is not of the form key=value:effect",
        ),
        (&["-v=-1"], "flag --v: \"-1\" is not a number from 0"),
        (&["--version=v1.2.3"], "flag --version: \"v1.2.3\" is neither true nor false"),
    ];
    for (args, expected) in table {
        assert_eq!(parse(args).unwrap_err(), *expected, "{args:?}");
    }
}

#[test]
fn deprecated_flags_leave_a_notice_once() {
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
            "flag --max-pods is deprecated: set maxPods in the file given with --config",
            "flag --containerd is deprecated: it belongs to cAdvisor and has no effect here",
            "flag --housekeeping-interval has no effect: statistics are read when they are asked for",
            "flag --experimental-mounter-path is deprecated: volumes are mounted by the agent itself, so it has no effect here",
        ]
    );
}

#[test]
fn own_values_have_upstream_defaults() {
    let flags = Flags::from_line(&parse(&[]).unwrap());
    assert_eq!(flags.root_dir.to_str(), Some("/var/lib/kubelet"));
    assert_eq!(flags.cert_dir.to_str(), Some("/var/lib/kubelet/pki"));
    assert_eq!((flags.maximum_dead_containers_per_container, flags.maximum_dead_containers), (1, -1));
    assert_eq!((flags.kubeconfig, flags.node_ip, flags.seccomp_default), (None, None, false));
}

#[test]
fn help_is_aligned_and_mentions_every_flag() {
    let help = help_text(CalledAs::Kubelet);
    for name in flag_names() {
        assert!(help.contains(&format!("--{name}")), "{name}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 112), "{help}");
    assert!(
        help.contains(
            "--max-pods N                              How many pods the node takes. (default 110)"
        ),
        "{help}"
    );
}

#[test]
fn version_is_what_programs_parse() {
    assert_eq!(version_text(CalledAs::Kubelet), "Kubernetes v1.36.4");
    assert!(version_text(CalledAs::Podward).starts_with("Kubernetes v1.36.4\npodward "));
}

proptest! {
    #[test]
    fn never_panics(args in prop::collection::vec("(--?)?[-a-z_]{0,20}(=[-a-z0-9,:;=<%]{0,20})?|-v.{0,5}|[0-9a-z=:,]{0,10}", 0..6)) {
        let _ = CommandLine::parse(&args);
    }

    #[test]
    fn any_value_is_judged(index in 0..149_usize, value in ".{0,30}") {
        let name = flag_names().nth(index).unwrap();
        let _ = CommandLine::parse(&[format!("--{name}={value}")]);
    }
}
