use document::parse;

use super::*;

fn violations_on(cgroup: CgroupVersion, text: &str) -> Vec<String> {
    let documents = parse(text.as_bytes()).unwrap();
    let (mut config, errors) = KubeletConfiguration::decode(&documents[0]);
    assert_eq!(errors, [], "{text}");
    let resolved = FeatureGates::resolve(&config.api_client.feature_gates);
    assert_eq!(resolved.errors, [], "{text}");
    config.apply_defaults(&resolved.gates);
    let violations = check_configuration(&config, &resolved.gates, cgroup);
    violations.into_iter().map(|violation| format!("{}: {}", violation.path, violation.reason)).collect()
}

fn check(table: &[(&str, &str)]) {
    for (text, expected) in table {
        let found = violations_on(CgroupVersion::V2, text);
        assert_eq!(found, [*expected], "{text}");
    }
}

#[test]
fn defaults_satisfy_all_rules() {
    let none: [String; 0] = [];
    assert_eq!(violations_on(CgroupVersion::V2, "{}"), none);
    for config in [KubeletConfiguration::file_defaults(), KubeletConfiguration::legacy_defaults()] {
        assert_eq!(check_configuration(&config, &FeatureGates::default(), CgroupVersion::Unknown), []);
    }
}

#[test]
fn rejects_invalid_server_settings() {
    check(&[
        ("{syncFrequency: -1s}", "syncFrequency: must be greater than zero"),
        ("{port: 70000}", "port: 70000 must be between 1 and 65535"),
        ("{readOnlyPort: -1}", "readOnlyPort: -1 must be between 0 and 65535"),
        ("{healthzPort: 65536}", "healthzPort: 65536 must be between 0 and 65535"),
        ("{podLogsDir: logs}", "podLogsDir: \"logs\" must be an absolute path"),
        (
            "{podLogsDir: /var//log}",
            "podLogsDir: \"/var//log\" must not contain \".\", \"..\" or extra slashes",
        ),
        ("{podLogsDir: /lög}", "podLogsDir: \"/lög\" must contain only ASCII characters"),
        (
            "{tlsCipherSuites: [TLS_AES_128_GCM_SHA256, TLS_NULL]}",
            "tlsCipherSuites[1]: \"TLS_NULL\" is not a known cipher suite",
        ),
        ("{tlsCurvePreferences: [29, 7]}", "tlsCurvePreferences[1]: 7 is not a known key exchange group"),
        ("{tlsCurvePreferences: [29, 29]}", "tlsCurvePreferences[1]: 29 is listed twice"),
        (
            "{serverTLSBootstrap: true, featureGates: {RotateKubeletServerCertificate: false}}",
            "serverTLSBootstrap: requires feature gate RotateKubeletServerCertificate to be enabled",
        ),
        (
            "{enableSystemLogQuery: true, enableSystemLogHandler: false}",
            "enableSystemLogQuery: requires enableSystemLogHandler to be true",
        ),
    ]);
}

#[test]
fn rejects_invalid_node_and_api_client_settings() {
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
            "tracing.endpoint: \"http://x:1\" must be host:port, or an address with the scheme dns, unix or unix-abstract",
        ),
    ]);
}

#[test]
fn rejects_invalid_logging_settings() {
    check(&[
        ("{logging: {flushFrequency: -5s}}", "logging.flushFrequency: must be greater than zero"),
        (
            "{logging: {verbosity: 4294967295}}",
            "logging.verbosity: 4294967295 must be between 0 and 2147483647",
        ),
        (
            "{logging: {format: json, vmodule: [{filePattern: a, verbosity: 1}]}}",
            "logging.vmodule: requires logging.format to be text",
        ),
        (
            "{logging: {format: json}, featureGates: {LoggingBetaOptions: false}}",
            "logging.format: requires feature gate LoggingBetaOptions to be enabled",
        ),
        ("{logging: {vmodule: [{verbosity: 1}]}}", "logging.vmodule[0].filePattern: must not be empty"),
        (
            "{logging: {vmodule: [{filePattern: 'a=b', verbosity: 1}]}}",
            "logging.vmodule[0].filePattern: must not contain '=' or ','",
        ),
        (
            "{logging: {options: {json: {splitStream: true}}}}",
            "logging.options.json.splitStream: requires feature gate LoggingAlphaOptions to be enabled",
        ),
        (
            "{logging: {options: {text: {infoBufferSize: 1Ki}}}}",
            "logging.options.text.infoBufferSize: requires feature gate LoggingAlphaOptions to be enabled",
        ),
    ]);
}

#[test]
fn rejects_invalid_image_settings() {
    check(&[
        ("{registryPullQPS: -1}", "registryPullQPS: -1 must not be negative"),
        ("{registryBurst: -1}", "registryBurst: -1 must not be negative"),
        ("{maxParallelImagePulls: 0}", "maxParallelImagePulls: 0 must be 1 or more"),
        (
            "{maxParallelImagePulls: 2, serializeImagePulls: true}",
            "maxParallelImagePulls: 2 requires serializeImagePulls to be false",
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
            "imageMaximumGCAge: 2m0s must be greater than imageMinimumGCAge, which is 2m0s",
        ),
        (
            "{preloadedImagesVerificationAllowlist: [a/b]}",
            "preloadedImagesVerificationAllowlist: requires imagePullCredentialsVerificationPolicy to be NeverVerifyAllowlistedImages",
        ),
        (
            "{imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages, preloadedImagesVerificationAllowlist: [r.io/*, 'a/b:1']}",
            "preloadedImagesVerificationAllowlist[1]: \"a/b:1\" must not have a tag or digest",
        ),
        (
            "{imagePullCredentialsVerificationPolicy: NeverVerifyAllowlistedImages, preloadedImagesVerificationAllowlist: ['a/*/b']}",
            "preloadedImagesVerificationAllowlist[0]: \"a/*/b\" may contain a wildcard only as \"/*\" at its end",
        ),
        (
            "{imagePullCredentialsVerificationPolicy: NeverVerify, featureGates: {KubeletEnsureSecretPulledImages: false}}",
            "imagePullCredentialsVerificationPolicy: requires feature gate KubeletEnsureSecretPulledImages to be enabled",
        ),
    ]);
}

#[test]
fn rejects_invalid_pod_settings() {
    check(&[
        ("{maxPods: -1}", "maxPods: -1 must not be negative"),
        ("{podsPerCore: -1}", "podsPerCore: -1 must not be negative"),
        ("{iptablesDropBit: 32}", "iptablesDropBit: 32 must be between 0 and 31"),
        ("{iptablesMasqueradeBit: -1}", "iptablesMasqueradeBit: -1 must be between 0 and 31"),
        (
            "{allowedUnsafeSysctls: [net.*, vm.swappiness]}",
            "allowedUnsafeSysctls[1]: \"vm.swappiness\" is not a namespaced sysctl",
        ),
        (
            "{allowedUnsafeSysctls: ['Net']}",
            "allowedUnsafeSysctls[0]: \"Net\" is not a sysctl name or a prefix ending in *",
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
            "crashLoopBackOff.maxContainerRestartPeriod: requires feature gate KubeletCrashLoopBackOffMax to be enabled",
        ),
        ("{shutdownGracePeriod: 500ms}", "shutdownGracePeriod: 500ms must be zero or at least 1s"),
        (
            "{shutdownGracePeriodCriticalPods: 5s}",
            "shutdownGracePeriodCriticalPods: 5s must not be greater than shutdownGracePeriod, which is 0s",
        ),
        (
            "{shutdownGracePeriod: 5s, shutdownGracePeriodByPodPriority: [{priority: 1, shutdownGracePeriodSeconds: 2}]}",
            "shutdownGracePeriodByPodPriority: cannot be used together with shutdownGracePeriod and shutdownGracePeriodCriticalPods",
        ),
    ]);
}

#[test]
fn rejects_invalid_cgroup_settings() {
    check(&[
        ("{systemCgroups: /s}", "systemCgroups: requires cgroupRoot to be set"),
        ("{systemCgroups: /, cgroupRoot: /}", "systemCgroups: cannot be the root cgroup"),
        ("{cpuCFSQuotaPeriod: 2s}", "cpuCFSQuotaPeriod: 2s must be between 1ms and 1s"),
        ("{oomScoreAdj: 1001}", "oomScoreAdj: 1001 must be between -1000 and 1000"),
        ("{maxOpenFiles: -1}", "maxOpenFiles: -1 must not be negative"),
    ]);
    let on_v1 = |text: &str| violations_on(CgroupVersion::V1, text).len();
    assert_eq!(on_v1("{}"), 1);
    assert_eq!(on_v1("{failCgroupV1: false}"), 0);
    assert_eq!(on_v1("{failCgroupV1: false, singleProcessOOMKill: false}"), 1);
    assert_eq!(on_v1("{failCgroupV1: false, memorySwap: {swapBehavior: LimitedSwap}}"), 1);
    assert_eq!(on_v1("{failCgroupV1: false, memorySwap: {swapBehavior: NoSwap}}"), 0);
}

#[test]
fn rejects_invalid_reservations() {
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
        ("{enforceNodeAllocatable: [pods, pods]}", "enforceNodeAllocatable[1]: is listed twice"),
        (
            "{enforceNodeAllocatable: [none, pods]}",
            "enforceNodeAllocatable[0]: \"none\" must be the only item",
        ),
        (
            "{enforceNodeAllocatable: [system-reserved]}",
            "enforceNodeAllocatable[0]: requires systemReservedCgroup to be set",
        ),
        (
            "{enforceNodeAllocatable: [kube-reserved-compressible]}",
            "enforceNodeAllocatable[0]: requires kubeReservedCgroup to be set",
        ),
        (
            "{enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible], kubeReservedCgroup: /k}",
            "enforceNodeAllocatable: a reservation and its -compressible variant cannot both be enforced",
        ),
        ("{cgroupsPerQOS: false}", "enforceNodeAllocatable[0]: requires cgroupsPerQOS to be true"),
        ("{qosReserved: {memory: 50%}}", "qosReserved: requires feature gate QOSReserved to be enabled"),
        (
            "{qosReserved: {memory: '50'}, featureGates: {QOSReserved: true}}",
            "qosReserved.memory: \"50\" must be a percentage from 0% to 100%",
        ),
    ]);
    assert!(
        violations_on(CgroupVersion::V2, "{cgroupsPerQOS: false, enforceNodeAllocatable: [none]}").is_empty()
    );
}

#[test]
fn rejects_invalid_eviction_settings() {
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
            "evictionSoft[\"memory.available\"]: requires a grace period in evictionSoftGracePeriod",
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
        violations_on(CgroupVersion::V2, "{evictionHard: {memory.available: 0%, nodefs.available: 100%}}")
            .is_empty()
    );
    let found = violations_on(CgroupVersion::V2, "{evictionHard: {disk.free: 1Gi}}");
    assert!(
        found[0].starts_with(
            "evictionHard[\"disk.free\"]: unknown eviction signal; must be one of memory.available"
        ),
        "{found:?}"
    );
}

#[test]
fn rejects_invalid_manager_and_container_log_settings() {
    check(&[
        (
            "{cpuManagerPolicyOptions: {fast: 'true'}}",
            "cpuManagerPolicyOptions: None policy: received unsupported options=map[fast:true]",
        ),
        (
            "{cpuManagerPolicy: static, cpuManagerPolicyOptions: {fast: 'true'}}",
            "cpuManagerPolicyOptions.fast: unknown CPU Manager Policy option: \"fast\"",
        ),
        (
            "{cpuManagerPolicy: static, cpuManagerPolicyOptions: {prefer-align-cpus-by-uncorecache: 'true', distribute-cpus-across-numa: 'true'}}",
            "cpuManagerPolicyOptions: static policy options prefer-align-cpus-by-uncorecache and distribute-cpus-across-numa can not be used at the same time",
        ),
        (
            "{cpuManagerPolicy: static, cpuManagerPolicyOptions: {full-pcpus-only: maybe}}",
            "cpuManagerPolicyOptions.full-pcpus-only: bad value for option \"full-pcpus-only\": strconv.ParseBool: parsing \"maybe\": invalid syntax",
        ),
        (
            "{cpuManagerPolicy: static, cpuManagerPolicyOptions: {align-by-socket: 'true'}}",
            "cpuManagerPolicyOptions.align-by-socket: CPU Manager Policy Alpha-level Options not enabled, but option \"align-by-socket\" provided",
        ),
        (
            "{topologyManagerPolicy: restricted, topologyManagerPolicyOptions: {max-allowable-numa-nodes: '7'}}",
            "topologyManagerPolicyOptions.max-allowable-numa-nodes: the minimum value of \"max-allowable-numa-nodes\" should not be less than 8",
        ),
        (
            "{topologyManagerPolicy: restricted, topologyManagerPolicyOptions: {x: '7'}}",
            "topologyManagerPolicyOptions.x: unknown Topology Manager Policy option: \"x\"",
        ),
        (
            "{reservedMemory: [{numaNode: 0, limits: {cpu: 1}}]}",
            "reservedMemory[0].limits.cpu: the limit type \"cpu\" for NUMA node 0 is not supported, only [memory hugepages-<HugePageSize>] is accepted",
        ),
        (
            "{reservedMemory: [{numaNode: 0, limits: {memory: 0}}]}",
            "reservedMemory[0].limits.memory: reserved memory may not be zero for NUMA node 0 and resource \"memory\"",
        ),
        (
            "{reservedMemory: [{numaNode: 0, limits: {memory: 1}}, {numaNode: 0, limits: {memory: 1}}]}",
            "reservedMemory[1].limits.memory: the reserved memory has a duplicate value for NUMA node 0 and resource \"memory\"",
        ),
        ("{memoryThrottlingFactor: 0}", "memoryThrottlingFactor: 0 must be greater than 0 and at most 1"),
        (
            "{memoryReservationPolicy: TieredReservation}",
            "memoryReservationPolicy: requires feature gate MemoryQoS to be enabled",
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
fn reports_all_violations_together() {
    let found =
        violations_on(CgroupVersion::V2, "{port: -1, maxPods: -1, oomScoreAdj: 9999, podsPerCore: -1}");
    assert_eq!(found.len(), 4, "{found:?}");
}
