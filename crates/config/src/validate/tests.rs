use document::parse;

use super::*;

fn findings_on(cgroup: CgroupVersion, text: &str) -> Vec<String> {
    let documents = parse(text.as_bytes()).unwrap();
    let (mut config, errors) = KubeletConfiguration::read(&documents[0]);
    assert_eq!(errors, [], "{text}");
    let resolved = FeatureGates::resolve(&config.api_client.feature_gates);
    assert_eq!(resolved.errors, [], "{text}");
    config.complete(&resolved.gates);
    let findings = configuration(&config, &resolved.gates, cgroup);
    findings.into_iter().map(|finding| format!("{}: {}", finding.path, finding.reason)).collect()
}

fn check(table: &[(&str, &str)]) {
    for (text, expected) in table {
        let found = findings_on(CgroupVersion::V2, text);
        assert_eq!(found, [*expected], "{text}");
    }
}

#[test]
fn defaults_keep_every_rule() {
    let none: [String; 0] = [];
    assert_eq!(findings_on(CgroupVersion::V2, "{}"), none);
    for config in [KubeletConfiguration::file_defaults(), KubeletConfiguration::legacy_defaults()] {
        assert_eq!(configuration(&config, &FeatureGates::default(), CgroupVersion::Unknown), []);
    }
}

#[test]
fn server_rules() {
    check(&[
        ("{syncFrequency: -1s}", "syncFrequency: must be longer than zero"),
        ("{port: 70000}", "port: 70000 must be between 1 and 65535"),
        ("{readOnlyPort: -1}", "readOnlyPort: -1 must be between 0 and 65535"),
        ("{healthzPort: 65536}", "healthzPort: 65536 must be between 0 and 65535"),
        ("{podLogsDir: logs}", "podLogsDir: \"logs\" must be an absolute path"),
        (
            "{podLogsDir: /var//log}",
            "podLogsDir: \"/var//log\" must be written without \".\", \"..\" and extra slashes",
        ),
        ("{podLogsDir: /lög}", "podLogsDir: \"/lög\" must be ASCII"),
        (
            "{tlsCipherSuites: [TLS_AES_128_GCM_SHA256, TLS_NULL]}",
            "tlsCipherSuites[1]: \"TLS_NULL\" is not a known cipher suite",
        ),
        ("{tlsCurvePreferences: [29, 7]}", "tlsCurvePreferences[1]: 7 is not a known key exchange"),
        ("{tlsCurvePreferences: [29, 29]}", "tlsCurvePreferences[1]: 29 is given twice"),
        (
            "{serverTLSBootstrap: true, featureGates: {RotateKubeletServerCertificate: false}}",
            "serverTLSBootstrap: needs feature gate RotateKubeletServerCertificate to be on",
        ),
        (
            "{enableSystemLogQuery: true, enableSystemLogHandler: false}",
            "enableSystemLogQuery: needs enableSystemLogHandler to be true",
        ),
    ]);
}

#[test]
fn node_and_client_rules() {
    check(&[
        ("{nodeLeaseDurationSeconds: -1}", "nodeLeaseDurationSeconds: must be greater than 0"),
        ("{nodeStatusMaxImages: -2}", "nodeStatusMaxImages: -2 must be -1 or more"),
        (
            "{registerWithTaints: [{key: a}, {key: -b, effect: NoExecute}]}",
            "registerWithTaints[1].key: \"-b\" is not a qualified name",
        ),
        (
            "{registerWithTaints: [{key: a, value: b c}]}",
            "registerWithTaints[0].value: \"b c\" is not a label value",
        ),
        (
            "{registerWithTaints: [{key: a, timeAdded: 2024-01-01T00:00:00Z}]}",
            "registerWithTaints[0].timeAdded: must not be set",
        ),
        ("{kubeAPIQPS: -1}", "kubeAPIQPS: -1 must not be negative"),
        ("{kubeAPIBurst: -1}", "kubeAPIBurst: -1 must not be negative"),
        ("{eventRecordQPS: -1}", "eventRecordQPS: -1 must not be negative"),
        ("{eventBurst: -1}", "eventBurst: -1 must not be negative"),
        (
            "{showHiddenMetricsForVersion: '1.34'}",
            "showHiddenMetricsForVersion: \"1.34\" must be empty or \"1.35\"",
        ),
        (
            "{tracing: {samplingRatePerMillion: 1000001}}",
            "tracing.samplingRatePerMillion: 1000001 must be between 0 and 1000000",
        ),
        (
            "{tracing: {endpoint: 'http://x:1'}}",
            "tracing.endpoint: \"http://x:1\" must be host:port, or an address that starts with dns, unix or unix-abstract",
        ),
    ]);
}

#[test]
fn logging_rules() {
    check(&[
        ("{logging: {flushFrequency: -5s}}", "logging.flushFrequency: must be longer than zero"),
        (
            "{logging: {verbosity: 4294967295}}",
            "logging.verbosity: 4294967295 must be between 0 and 2147483647",
        ),
        (
            "{logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}}",
            "logging.vmodule: works with the text format only",
        ),
        (
            "{logging: {format: json}, featureGates: {LoggingBetaOptions: false}}",
            "logging.format: needs feature gate LoggingBetaOptions to be on",
        ),
        ("{logging: {vmodule: [{verbosity: 1}]}}", "logging.vmodule[0].filePattern: must not be empty"),
        (
            "{logging: {vmodule: [{filePattern: 'a=b', verbosity: 1}]}}",
            "logging.vmodule[0].filePattern: must not contain '=' or ','",
        ),
        (
            "{logging: {options: {json: {splitStream: true}}}}",
            "logging.options.json.splitStream: needs feature gate LoggingAlphaOptions to be on",
        ),
        (
            "{logging: {options: {text: {infoBufferSize: 1Ki}}}}",
            "logging.options.text.infoBufferSize: needs feature gate LoggingAlphaOptions to be on",
        ),
    ]);
}

#[test]
fn image_rules() {
    check(&[
        ("{registryPullQPS: -1}", "registryPullQPS: -1 must not be negative"),
        ("{registryBurst: -1}", "registryBurst: -1 must not be negative"),
        ("{maxParallelImagePulls: 0}", "maxParallelImagePulls: 0 must be 1 or more"),
        (
            "{maxParallelImagePulls: 2, serializeImagePulls: true}",
            "maxParallelImagePulls: 2 needs serializeImagePulls to be false",
        ),
        ("{imageGCHighThresholdPercent: 101}", "imageGCHighThresholdPercent: 101 must be between 0 and 100"),
        (
            "{imageGCLowThresholdPercent: 85}",
            "imageGCLowThresholdPercent: 85 must be less than imageGCHighThresholdPercent, which is 85",
        ),
        ("{imageMinimumGCAge: -1s}", "imageMinimumGCAge: -1s must not be negative"),
        ("{imageMaximumGCAge: -1s}", "imageMaximumGCAge: -1s must not be negative"),
        (
            "{imageMaximumGCAge: 2m}",
            "imageMaximumGCAge: 2m0s must be longer than imageMinimumGCAge, which is 2m0s",
        ),
        (
            "{preloadedImagesVerificationAllowlist: [a/b]}",
            "preloadedImagesVerificationAllowlist: needs imagePullCredentialsVerificationPolicy to be NeverVerifyAllowlistedImages",
        ),
        (
            "{imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages, preloadedImagesVerificationAllowlist: [r.io/*, 'a/b:1']}",
            "preloadedImagesVerificationAllowlist[1]: \"a/b:1\" must not have a tag or digest",
        ),
        (
            "{imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages, preloadedImagesVerificationAllowlist: ['a/*/b']}",
            "preloadedImagesVerificationAllowlist[0]: \"a/*/b\" may have a wildcard only as \"/*\" at its end",
        ),
        (
            "{imagePullCredentialsVerificationPolicy: NeverVerify, featureGates: {KubeletEnsureSecretPulledImages: false}}",
            "imagePullCredentialsVerificationPolicy: needs feature gate KubeletEnsureSecretPulledImages to be on",
        ),
    ]);
}

#[test]
fn pod_rules() {
    check(&[
        ("{maxPods: -1}", "maxPods: -1 must not be negative"),
        ("{podsPerCore: -1}", "podsPerCore: -1 must not be negative"),
        ("{runOnce: true}", "runOnce: this mode no longer exists; remove the field"),
        ("{iptablesDropBit: 32}", "iptablesDropBit: 32 must be between 0 and 31"),
        ("{iptablesMasqueradeBit: -1}", "iptablesMasqueradeBit: -1 must be between 0 and 31"),
        (
            "{allowedUnsafeSysctls: [net.*, vm.swappiness]}",
            "allowedUnsafeSysctls[1]: \"vm.swappiness\" is not known to be namespaced",
        ),
        (
            "{allowedUnsafeSysctls: ['Net']}",
            "allowedUnsafeSysctls[0]: \"Net\" is not a sysctl name or prefix",
        ),
        (
            "{userNamespaces: {idsPerPod: 0}}",
            "userNamespaces.idsPerPod: 0 must be between 65536 and 4294967295",
        ),
        (
            "{userNamespaces: {idsPerPod: 65537}}",
            "userNamespaces.idsPerPod: 65537 must be a multiple of 65536",
        ),
        (
            "{crashLoopBackOff: {maxContainerRestartPeriod: 301s}}",
            "crashLoopBackOff.maxContainerRestartPeriod: 5m1s must be between 1s and 300s",
        ),
        (
            "{crashLoopBackOff: {maxContainerRestartPeriod: 9s}, featureGates: {KubeletCrashLoopBackOffMax: false}}",
            "crashLoopBackOff.maxContainerRestartPeriod: needs feature gate KubeletCrashLoopBackOffMax to be on",
        ),
        ("{shutdownGracePeriod: 500ms}", "shutdownGracePeriod: 500ms must be zero or at least 1s"),
        (
            "{shutdownGracePeriodCriticalPods: 5s}",
            "shutdownGracePeriodCriticalPods: 5s must not be longer than shutdownGracePeriod, which is 0s",
        ),
        (
            "{shutdownGracePeriod: 5s, shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 2}]}",
            "shutdownGracePeriodByPodPriority: cannot be used together with shutdownGracePeriod and shutdownGracePeriodCriticalPods",
        ),
    ]);
}

#[test]
fn cgroup_rules() {
    check(&[
        ("{systemCgroups: /s}", "systemCgroups: needs cgroupRoot to be set"),
        ("{systemCgroups: /, cgroupRoot: /}", "systemCgroups: cannot be the root cgroup"),
        ("{cpuCFSQuotaPeriod: 2s}", "cpuCFSQuotaPeriod: 2s must be between 1ms and 1s"),
        ("{oomScoreAdj: 1001}", "oomScoreAdj: 1001 must be between -1000 and 1000"),
        ("{maxOpenFiles: -1}", "maxOpenFiles: -1 must not be negative"),
    ]);
    let on_v1 = |text: &str| findings_on(CgroupVersion::V1, text).len();
    assert_eq!(on_v1("{}"), 1);
    assert_eq!(on_v1("{failCgroupV1: false}"), 0);
    assert_eq!(on_v1("{failCgroupV1: false, singleProcessOOMKill: false}"), 1);
    assert_eq!(on_v1("{failCgroupV1: false, memorySwap: {swapBehavior: LimitedSwap}}"), 1);
    assert_eq!(on_v1("{failCgroupV1: false, memorySwap: {swapBehavior: NoSwap}}"), 0);
}

#[test]
fn reservation_rules() {
    check(&[
        (
            "{systemReserved: {gpu: '1'}}",
            "systemReserved.gpu: only cpu, memory, ephemeral-storage and pid can be reserved",
        ),
        ("{kubeReserved: {cpu: '-1'}}", "kubeReserved.cpu: -1 must not be negative"),
        (
            "{kubeReserved: {cpu: lots}}",
            "kubeReserved.cpu: \"lots\" is not a quantity such as \"10Mi\", \"500m\" or \"2\"",
        ),
        ("{reservedSystemCPUs: 3-1}", "reservedSystemCPUs: \"3-1\" is not a list of CPUs such as \"0-3,8\""),
        (
            "{reservedSystemCPUs: '1', kubeReservedCgroup: /k}",
            "reservedSystemCPUs: cannot be used together with systemReservedCgroup or kubeReservedCgroup",
        ),
        ("{enforceNodeAllocatable: [pods, pods]}", "enforceNodeAllocatable[1]: is given twice"),
        ("{enforceNodeAllocatable: [none, pods]}", "enforceNodeAllocatable[0]: \"none\" must stand alone"),
        (
            "{enforceNodeAllocatable: [system-reserved]}",
            "enforceNodeAllocatable[0]: needs systemReservedCgroup to be set",
        ),
        (
            "{enforceNodeAllocatable: [kube-reserved-compressible]}",
            "enforceNodeAllocatable[0]: needs kubeReservedCgroup to be set",
        ),
        (
            "{enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible], kubeReservedCgroup: /k}",
            "enforceNodeAllocatable: a reservation is enforced either in whole or as -compressible, not both",
        ),
        ("{cgroupsPerQOS: false}", "enforceNodeAllocatable[0]: needs cgroupsPerQOS to be true"),
        ("{qosReserved: {memory: 50%}}", "qosReserved: needs feature gate QOSReserved to be on"),
        (
            "{qosReserved: {memory: '50'}, featureGates: {QOSReserved: true}}",
            "qosReserved.memory: \"50\" must be a percentage from 0% to 100%",
        ),
    ]);
    assert!(
        findings_on(CgroupVersion::V2, "{cgroupsPerQOS: false, enforceNodeAllocatable: [none]}").is_empty()
    );
}

#[test]
fn eviction_rules() {
    check(&[
        (
            "{evictionHard: {memory.available: '0'}}",
            "evictionHard[\"memory.available\"]: \"0\" must be greater than zero",
        ),
        (
            "{evictionHard: {nodefs.available: 101%}}",
            "evictionHard[\"nodefs.available\"]: \"101%\" must be between 0% and 100%",
        ),
        (
            "{evictionHard: {nodefs.available: x%}}",
            "evictionHard[\"nodefs.available\"]: \"x%\" is not a percentage",
        ),
        (
            "{evictionSoft: {memory.available: 1Gi}}",
            "evictionSoft[\"memory.available\"]: needs a grace period in evictionSoftGracePeriod",
        ),
        (
            "{evictionSoftGracePeriod: {memory.available: -1s}}",
            "evictionSoftGracePeriod[\"memory.available\"]: -1s must not be negative",
        ),
        (
            "{evictionMinimumReclaim: {memory.available: 0%}}",
            "evictionMinimumReclaim[\"memory.available\"]: \"0%\" must be greater than 0%",
        ),
        (
            "{evictionMinimumReclaim: {memory.available: '-1'}}",
            "evictionMinimumReclaim[\"memory.available\"]: \"-1\" must not be negative",
        ),
    ]);
    assert!(
        findings_on(CgroupVersion::V2, "{evictionHard: {memory.available: 0%, nodefs.available: 100%}}")
            .is_empty()
    );
    let found = findings_on(CgroupVersion::V2, "{evictionHard: {disk.free: 1Gi}}");
    assert!(
        found[0].starts_with("evictionHard[\"disk.free\"]: unknown signal; known are memory.available"),
        "{found:?}"
    );
}

#[test]
fn manager_and_log_rules() {
    check(&[
        (
            "{cpuManagerPolicyOptions: {fast: 'true'}}",
            "cpuManagerPolicyOptions.fast: unknown option of the CPU policy",
        ),
        (
            "{cpuManagerPolicyOptions: {full-pcpus-only: maybe}}",
            "cpuManagerPolicyOptions.full-pcpus-only: \"maybe\" is neither true nor false",
        ),
        (
            "{cpuManagerPolicyOptions: {align-by-socket: 'true'}}",
            "cpuManagerPolicyOptions.align-by-socket: needs feature gate CPUManagerPolicyAlphaOptions to be on",
        ),
        (
            "{topologyManagerPolicyOptions: {max-allowable-numa-nodes: '7'}}",
            "topologyManagerPolicyOptions.max-allowable-numa-nodes: \"7\" must be a number from 8",
        ),
        (
            "{topologyManagerPolicyOptions: {x: '7'}}",
            "topologyManagerPolicyOptions.x: unknown option of the topology policy",
        ),
        (
            "{reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]}",
            "reservedMemory[0].limits.cpu: only memory and hugepages-<size> can be reserved",
        ),
        (
            "{reservedMemory: [{numaNode: 0, limits: {memory: 0}}]}",
            "reservedMemory[0].limits.memory: must not be zero",
        ),
        (
            "{reservedMemory: [{numaNode: 0, limits: {memory: 1}}, {numaNode: 0, limits: {memory: 1}}]}",
            "reservedMemory[1].limits.memory: is given twice for NUMA node 0",
        ),
        ("{memoryThrottlingFactor: 0}", "memoryThrottlingFactor: 0 must be greater than 0 and at most 1"),
        (
            "{memoryReservationPolicy: TieredReservation}",
            "memoryReservationPolicy: needs feature gate MemoryQoS to be on",
        ),
        ("{containerLogMaxFiles: 1}", "containerLogMaxFiles: must be 2 or more"),
        ("{containerLogMaxWorkers: 0}", "containerLogMaxWorkers: must be 1 or more"),
        ("{containerLogMonitorInterval: 2s}", "containerLogMonitorInterval: must be at least 3s"),
        (
            "{containerLogMaxSize: big}",
            "containerLogMaxSize: \"big\" is not a quantity such as \"10Mi\", \"500m\" or \"2\"",
        ),
    ]);
}

#[test]
fn all_breaches_are_reported_at_once() {
    let found = findings_on(CgroupVersion::V2, "{port: -1, maxPods: -1, oomScoreAdj: 9999, runOnce: true}");
    assert_eq!(found.len(), 4, "{found:?}");
}
