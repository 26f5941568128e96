//! Which fields podward acts on, so that nobody sets one in vain without being told.

use std::collections::BTreeSet;

use crate::KubeletConfiguration;

/// Fields podward acts on.
pub static SUPPORTED: &[&str] = &[
    "address",
    "allowedUnsafeSysctls",
    "authentication",
    "authorization",
    "cgroupDriver",
    "cgroupRoot",
    "cgroupsPerQOS",
    "clusterDNS",
    "clusterDomain",
    "configMapAndSecretChangeDetectionStrategy",
    "containerLogMaxFiles",
    "containerLogMaxSize",
    "containerLogMaxWorkers",
    "containerLogMonitorInterval",
    "containerRuntimeEndpoint",
    "cpuCFSQuota",
    "cpuCFSQuotaPeriod",
    "crashLoopBackOff",
    "enableControllerAttachDetach",
    "enableDebugFlagsHandler",
    "enableDebuggingHandlers",
    "enableProfilingHandler",
    "enableServer",
    "enableSystemLogHandler",
    "enableSystemLogQuery",
    "enforceNodeAllocatable",
    "eventBurst",
    "eventRecordQPS",
    "evictionHard",
    "failCgroupV1",
    "failSwapOn",
    "featureGates",
    "fileCheckFrequency",
    "healthzBindAddress",
    "healthzPort",
    "httpCheckFrequency",
    "imageGCHighThresholdPercent",
    "imageGCLowThresholdPercent",
    "imageMaximumGCAge",
    "imageMinimumGCAge",
    "imagePullCredentialsVerificationPolicy",
    "imageServiceEndpoint",
    "kubeAPIBurst",
    "kubeAPIQPS",
    "kubeReserved",
    "kubeReservedCgroup",
    "kubeletCgroups",
    "localStorageCapacityIsolation",
    "logging",
    "makeIPTablesUtilChains",
    "maxOpenFiles",
    "maxParallelImagePulls",
    "maxPods",
    "memorySwap",
    "mergeDefaultEvictionSettings",
    "nodeLeaseDurationSeconds",
    "nodeStatusMaxImages",
    "nodeStatusReportFrequency",
    "nodeStatusUpdateFrequency",
    "oomScoreAdj",
    "podLogsDir",
    "podPidsLimit",
    "podsPerCore",
    "port",
    "preloadedImagesVerificationAllowlist",
    "protectKernelDefaults",
    "providerID",
    "readOnlyPort",
    "registerNode",
    "registerWithTaints",
    "registryBurst",
    "registryPullQPS",
    "reservedSystemCPUs",
    "resolvConf",
    "rotateCertificates",
    "runtimeRequestTimeout",
    "seccompDefault",
    "serializeImagePulls",
    "serverTLSBootstrap",
    "singleProcessOOMKill",
    "staticPodPath",
    "staticPodURL",
    "staticPodURLHeader",
    "syncFrequency",
    "systemCgroups",
    "systemReserved",
    "systemReservedCgroup",
    "tlsCertFile",
    "tlsCipherSuites",
    "tlsCurvePreferences",
    "tlsMinVersion",
    "tlsPrivateKeyFile",
    "tracing",
    "userNamespaces",
    "volumeStatsAggPeriod",
];

/// Fields that have no effect upstream either.
pub static WITHOUT_EFFECT_UPSTREAM: &[&str] =
    &["hairpinMode", "iptablesDropBit", "iptablesMasqueradeBit", "runOnce", "streamingConnectionIdleTimeout"];

/// The fields that were set to something else than their default, and that podward does not act on.
pub fn without_effect(config: &KubeletConfiguration, set_fields: &BTreeSet<String>) -> Vec<String> {
    let (effective, default) = (config.to_json(), KubeletConfiguration::file_defaults().to_json());
    set_fields
        .iter()
        .filter(|field| {
            let name = field.as_str();
            !SUPPORTED.contains(&name) && !WITHOUT_EFFECT_UPSTREAM.contains(&name)
        })
        .filter(|field| effective.get(field.as_str()) != default.get(field.as_str()))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_name_fields_that_exist() {
        let known = KubeletConfiguration::field_names();
        for field in SUPPORTED.iter().chain(WITHOUT_EFFECT_UPSTREAM) {
            assert!(known.contains(field), "{field}");
        }
    }

    #[test]
    fn names_fields_set_in_vain() {
        let mut config = KubeletConfiguration::file_defaults();
        config.pods.max_pods = 5;
        config.managers.topology_manager_scope = crate::configuration::TopologyScope::Pod;
        config.server.enable_system_log_query = true;
        let set = ["maxPods", "topologyManagerScope", "hairpinMode", "registerNode", "enableSystemLogQuery"];
        let set = set.into_iter().map(str::to_owned).collect();
        assert_eq!(without_effect(&config, &set), ["topologyManagerScope"]);
    }
}
