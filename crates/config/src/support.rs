//! Which fields podward acts on, so that nobody sets one in vain without being told.

use std::collections::BTreeSet;

use crate::{KubeletConfiguration, configuration::OutputRouting};

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
    "evictionMaxPodGracePeriod",
    "evictionMinimumReclaim",
    "evictionPressureTransitionPeriod",
    "evictionSoft",
    "evictionSoftGracePeriod",
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
    "kernelMemcgNotification",
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
    "podCIDR",
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
    "shutdownGracePeriod",
    "shutdownGracePeriodByPodPriority",
    "shutdownGracePeriodCriticalPods",
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
    "volumePluginDir",
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

/// What is to be said of fields that podward acts on in part.
pub(crate) fn partly_without_effect(config: &KubeletConfiguration) -> Vec<String> {
    let logging = &config.logs.logging;
    let routed = |routing: &OutputRouting| routing.split_stream || !routing.info_buffer_size.is_zero();
    let notices = [
        (!logging.vmodule.is_empty(), "logging.vmodule: without effect, all files have logging.verbosity"),
        (
            routed(&logging.options.text) || routed(&logging.options.json),
            "logging.options: without effect, every line goes to standard error at once",
        ),
    ];
    notices.into_iter().filter(|(applies, _)| *applies).map(|(_, notice)| notice.to_owned()).collect()
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

    #[test]
    fn names_parts_that_are_set_in_vain() {
        let table = [
            ("{}", None),
            ("{evictionHard: {memory.available: 1Gi}}", None),
            ("{logging: {verbosity: 3, format: json, flushFrequency: 1s}}", None),
            ("{logging: {vmodule: [{filePattern: a, verbosity: 1}]}}", Some("logging.vmodule: ")),
            ("{logging: {options: {json: {splitStream: true}}}}", Some("logging.options: ")),
            ("{logging: {options: {text: {infoBufferSize: 1Ki}}}}", Some("logging.options: ")),
        ];
        for (text, expected) in table {
            let document = document::parse(text.as_bytes()).unwrap().remove(0);
            let (mut config, errors) = KubeletConfiguration::read(&document);
            assert_eq!(errors, [], "{text}");
            config.reservations.inject_default_thresholds();
            let found = partly_without_effect(&config);
            assert_eq!(found.len(), usize::from(expected.is_some()), "{text}: {found:?}");
            assert!(found.iter().all(|notice| notice.starts_with(expected.unwrap_or_default())), "{found:?}");
        }
    }
}
