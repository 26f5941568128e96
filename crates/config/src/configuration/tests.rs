use super::*;

fn decode(text: &str) -> Result<KubeletConfiguration, Vec<String>> {
    let documents = document::parse(text.as_bytes()).unwrap();
    let (config, errors) = KubeletConfiguration::decode(&documents[0]);
    if errors.is_empty() { Ok(config) } else { Err(errors.iter().map(ToString::to_string).collect()) }
}

#[test]
fn serializes_the_defaults_like_upstream() {
    let expected: Value = serde_json::from_str(include_str!("testdata/upstream_defaults.json")).unwrap();
    assert_eq!(KubeletConfiguration::legacy_defaults().to_json(), expected);
}

#[test]
fn every_field_belongs_to_one_section() {
    let mut names = KubeletConfiguration::field_names();
    assert_eq!(names.len(), 125);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 125);
}

#[test]
fn reports_every_wrong_field_with_its_line() {
    let text = "
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPod: 5
port: many
logging: {formt: json, options: {text: {split: true}}}
syncFrequency: 10
authorization: {mode: Sometimes}
clusterDNS: 10.0.0.10
authentication:
  anonymous: {enabled: 'no'}
";
    assert_eq!(
        decode(text).unwrap_err(),
        [
            "line 4: maxPod: unknown field; did you mean \"maxPods\"?",
            "line 5: port: invalid type: string \"many\", expected i32",
            "line 6: logging.formt: unknown field",
            "line 6: logging.options.text.split: unknown field",
            "line 7: syncFrequency: invalid type: integer `10`, expected a duration with its unit, such as \"1m30s\"",
            "line 8: authorization.mode: unknown variant `Sometimes`, expected `AlwaysAllow` or `Webhook`",
            "line 9: clusterDNS: invalid type: string \"10.0.0.10\", expected a sequence",
            "line 11: authentication.anonymous.enabled: invalid type: string \"no\", expected a boolean",
        ]
    );
}

#[test]
fn zero_and_null_mean_not_set_for_fields_without_a_zero_value() {
    let text = "{port: 0, address: '', syncFrequency: 0s, maxPods: null, healthzPort: 0, registryPullQPS: 0,
        registryBurst: 0, podPidsLimit: -5, resolvConf: '', tlsMinVersion: '', hairpinMode: '',
        imagePullCredentialsVerificationPolicy: '', memorySwap: {swapBehavior: ''}, logging: {flushFrequency: 0}}";
    let mut config = decode(text).unwrap();
    config.apply_defaults(&FeatureGates::default());
    let mut expected = KubeletConfiguration::default();
    expected.apply_defaults(&FeatureGates::default());
    expected.server.healthz_port = 0;
    expected.images.registry_pull_qps = 0;
    expected.network.resolv_conf = String::new();
    assert_eq!(config, expected);
}

#[test]
fn list_items_may_omit_fields() {
    let config = decode(
        "{reservedMemory: [{limits: {memory: 1Gi}}, {numaNode: 1}], shutdownGracePeriodByPodPriority:
        [{shutdownGracePeriodSeconds: 60}, {priority: 5}], logging: {vmodule: [{filePattern: a}, {verbosity: 1}]}}",
    )
    .unwrap();
    let reserved = &config.managers.reserved_memory;
    assert_eq!((reserved[0].numa_node, reserved[1].numa_node, reserved[1].limits.len()), (0, 1, 0));
    let periods = config.pods.shutdown_grace_period_by_pod_priority.iter();
    let periods: Vec<_> = periods.map(|item| (item.priority, item.shutdown_grace_period_seconds)).collect();
    assert_eq!(periods, [(0, 60), (5, 0)]);
    let levels = config.logs.logging.vmodule.iter();
    let levels: Vec<_> = levels.map(|item| (item.file_pattern.as_str(), item.verbosity)).collect();
    assert_eq!(levels, [("a", 0), ("", 1)]);
}

#[test]
fn some_defaults_depend_on_other_fields() {
    let with_defaults = |text: &str| {
        let mut config = decode(text).unwrap();
        config.apply_defaults(&FeatureGates::default());
        config
    };
    let report = |text: &str| with_defaults(text).node.node_status_report_frequency.to_string();
    assert_eq!(report("{}"), "5m0s");
    assert_eq!(report("{nodeStatusUpdateFrequency: 7s}"), "7s");
    assert_eq!(report("{nodeStatusUpdateFrequency: 7s, nodeStatusReportFrequency: 9s}"), "9s");
    let serial = |text: &str| with_defaults(text).images.serialize_image_pulls;
    assert_eq!(serial("{}"), Some(true));
    assert_eq!(serial("{maxParallelImagePulls: 1}"), Some(true));
    assert_eq!(serial("{maxParallelImagePulls: 2}"), Some(false));
    assert_eq!(serial("{maxParallelImagePulls: 2, serializeImagePulls: true}"), Some(true));
}

#[test]
fn decodes_valid_fields_next_to_invalid_ones() {
    let documents = document::parse(b"{maxPods: 7, port: x, staticPodURLHeader: {a: [secret]}}").unwrap();
    let (config, errors) = KubeletConfiguration::decode(&documents[0]);
    assert_eq!(errors.len(), 1);
    assert_eq!((config.pods.max_pods, config.server.port), (7, 10250));
    assert!(!config.to_json_for_log().to_string().contains("secret"));
}
