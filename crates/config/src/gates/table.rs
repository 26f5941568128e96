//! The feature gates of the upstream kubelet v1.36.4: stage, default, and whether the default is locked.

use super::{Initial::*, Lock::*, Spec, Stage::*};

macro_rules! gates {
    ($($name:ident: $stage:ident, $initial:ident, $lock:ident;)*) => {
        #[allow(missing_docs, reason = "the names are the contract; upstream's feature list explains them")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Gate {
            $($name,)*
        }

        /// All gates in the order of [`Gate`].
        pub(super) static TABLE: &[Spec] = &[
            $(Spec { gate: Gate::$name, name: stringify!($name), stage: $stage, initial: $initial, lock: $lock },)*
        ];
    };
}

gates! {
    APIResponseCompression: Beta, On, Free;
    APIServerIdentity: Beta, On, Free;
    APIServerTracing: Stable, On, Locked;
    APIServingWithRoutine: Alpha, Off, Free;
    AggregatedDiscoveryRemoveBetaType: Deprecated, On, Locked;
    AllAlpha: Alpha, Off, Free;
    AllBeta: Beta, Off, Free;
    AllowDNSOnlyNodeCSR: Deprecated, Off, Free;
    AllowInsecureKubeletCertificateSigningRequests: Deprecated, Off, Free;
    AllowOverwriteTerminationGracePeriodSeconds: Deprecated, Off, Locked;
    AllowParsingUserUIDFromCertAuth: Beta, On, Free;
    AllowServiceExternalIPs: Stable, On, Free;
    AllowUnsafeMalformedObjectDeletion: Alpha, Off, Free;
    AnonymousAuthConfigurableEndpoints: Stable, On, Locked;
    AnyVolumeDataSource: Stable, On, Locked;
    AtomicFIFO: Beta, On, Free;
    AuthorizeNodeWithSelectors: Stable, On, Locked;
    AuthorizePodWebsocketUpgradeCreatePermission: Beta, On, Free;
    AuthorizeWithSelectors: Stable, On, Locked;
    BtreeWatchCache: Stable, On, Locked;
    CBORServingAndStorage: Alpha, Off, Free;
    CPUManagerPolicyAlphaOptions: Alpha, Off, Free;
    CPUManagerPolicyBetaOptions: Beta, On, Free;
    CPUManagerPolicyOptions: Stable, On, Locked;
    CRDObservedGenerationTracking: Beta, On, Free;
    CRDValidationRatcheting: Stable, On, Locked;
    CRIListStreaming: Alpha, Off, Free;
    CSIServiceAccountTokenSecrets: Stable, On, Locked;
    CSIVolumeHealth: Alpha, Off, Free;
    ChangeContainerStatusOnKubeletRestart: Deprecated, Off, Free;
    ClearingNominatedNodeNameAfterBinding: Beta, On, Free;
    ClientsAllowCARotation: Beta, On, Free;
    ClientsAllowCBOR: Alpha, Off, Free;
    ClientsAllowTLSCacheGC: Beta, On, Free;
    ClientsPreferCBOR: Alpha, Off, Free;
    CloudControllerManagerWatchBasedRoutesReconciliation: Alpha, Off, Free;
    CloudControllerManagerWebhook: Alpha, Off, Free;
    ClusterTrustBundle: Beta, Off, Free;
    ClusterTrustBundleProjection: Beta, Off, Free;
    ComponentFlagz: Beta, On, Free;
    ComponentStatusz: Beta, On, Free;
    ConcurrentWatchObjectDecode: Beta, Off, Free;
    ConsistentListFromCache: Stable, On, Locked;
    ConstrainedImpersonation: Beta, On, Free;
    ContainerCheckpoint: Beta, On, Free;
    ContainerRestartRules: Beta, On, Free;
    ContainerStopSignals: Alpha, Off, Free;
    ContextualLogging: Beta, On, Free;
    ControllerManagerReleaseLeaderElectionLockOnExit: Alpha, Off, Free;
    CoordinatedLeaderElection: Beta, Off, Free;
    CrossNamespaceVolumeDataSource: Alpha, Off, Free;
    CustomCPUCFSQuotaPeriod: Stable, On, Free;
    CustomResourceFieldSelectors: Stable, On, Locked;
    DRAAdminAccess: Stable, On, Locked;
    DRAConsumableCapacity: Beta, On, Free;
    DRADeviceBindingConditions: Beta, On, Free;
    DRADeviceTaintRules: Beta, Off, Free;
    DRADeviceTaints: Beta, On, Free;
    DRAExtendedResource: Beta, On, Free;
    DRAListTypeAttributes: Alpha, Off, Free;
    DRANodeAllocatableResources: Alpha, Off, Free;
    DRAPartitionableDevices: Beta, On, Free;
    DRAPrioritizedList: Stable, On, Free;
    DRAResourceClaimDeviceStatus: Beta, On, Free;
    DRAResourceClaimGranularStatusAuthorization: Beta, On, Free;
    DRAResourcePoolStatus: Alpha, Off, Free;
    DRASchedulerFilterTimeout: Beta, On, Free;
    DRAWorkloadResourceClaims: Alpha, Off, Free;
    DeclarativeValidation: Stable, On, Locked;
    DeclarativeValidationBeta: Beta, On, Free;
    DeclarativeValidationTakeover: Deprecated, Off, Free;
    DeploymentReplicaSetTerminatingReplicas: Beta, On, Free;
    DetectCacheInconsistency: Beta, On, Free;
    DisableAllocatorDualWrite: Stable, On, Locked;
    DisableCPUQuotaWithExclusiveCPUs: Deprecated, On, Free;
    DisableNodeKubeProxyVersion: Deprecated, On, Locked;
    DynamicResourceAllocation: Stable, On, Locked;
    EnvFiles: Beta, On, Free;
    EventedPLEG: Alpha, Off, Free;
    ExecProbeTimeout: Stable, On, Locked;
    ExtendWebSocketsToKubelet: Beta, On, Free;
    ExternalServiceAccountTokenSigner: Stable, On, Locked;
    GangScheduling: Alpha, Off, Free;
    GenericWorkload: Alpha, Off, Free;
    GitRepoVolumeDriver: Deprecated, Off, Locked;
    GracefulNodeShutdown: Beta, On, Free;
    GracefulNodeShutdownBasedOnPodPriority: Beta, On, Free;
    HPAConfigurableTolerance: Beta, On, Free;
    HPAScaleToZero: Alpha, Off, Free;
    HostnameOverride: Beta, On, Free;
    ImageMaximumGCAge: Stable, On, Locked;
    ImageVolume: Stable, On, Locked;
    ImageVolumeWithDigest: Alpha, Off, Free;
    InOrderInformers: Stable, On, Locked;
    InOrderInformersBatchProcess: Beta, On, Free;
    InPlacePodLevelResourcesVerticalScaling: Beta, On, Free;
    InPlacePodVerticalScaling: Stable, On, Locked;
    InPlacePodVerticalScalingExclusiveCPUs: Alpha, Off, Free;
    InPlacePodVerticalScalingExclusiveMemory: Alpha, Off, Free;
    InPlacePodVerticalScalingInitContainers: Beta, On, Free;
    InformerResourceVersion: Stable, On, Free;
    JobBackoffLimitPerIndex: Stable, On, Locked;
    JobManagedBy: Stable, On, Locked;
    JobPodReplacementPolicy: Stable, On, Locked;
    JobSuccessPolicy: Stable, On, Locked;
    KMSv1: Deprecated, Off, Free;
    KubeletCgroupDriverFromCRI: Stable, On, Locked;
    KubeletCrashLoopBackOffMax: Beta, On, Free;
    KubeletEnsureSecretPulledImages: Beta, On, Free;
    KubeletFineGrainedAuthz: Stable, On, Locked;
    KubeletInUserNamespace: Alpha, Off, Free;
    KubeletPSI: Stable, On, Locked;
    KubeletPodResourcesDynamicResources: Stable, On, Locked;
    KubeletPodResourcesGet: Stable, On, Locked;
    KubeletPodResourcesListUseActivePods: Deprecated, On, Free;
    KubeletRegistrationGetOnExistsOnly: Deprecated, Off, Free;
    KubeletSeparateDiskGC: Beta, On, Free;
    KubeletServiceAccountTokenForCredentialProviders: Beta, On, Free;
    KubeletTracing: Stable, On, Locked;
    ListFromCacheSnapshot: Beta, On, Free;
    LocalStorageCapacityIsolationFSQuotaMonitoring: Beta, Off, Free;
    LogarithmicScaleDown: Stable, On, Locked;
    LoggingAlphaOptions: Alpha, Off, Free;
    LoggingBetaOptions: Beta, On, Free;
    ManifestBasedAdmissionControlConfig: Alpha, Off, Free;
    MatchLabelKeysInPodAffinity: Stable, On, Locked;
    MatchLabelKeysInPodTopologySpread: Beta, On, Free;
    MatchLabelKeysInPodTopologySpreadSelectorMerge: Beta, On, Free;
    MaxUnavailableStatefulSet: Beta, Off, Free;
    MemoryQoS: Alpha, Off, Free;
    MultiCIDRServiceAllocator: Stable, On, Locked;
    MutableCSINodeAllocatableCount: Stable, On, Locked;
    MutablePVNodeAffinity: Alpha, Off, Free;
    MutablePodResourcesForSuspendedJobs: Beta, On, Free;
    MutableSchedulingDirectivesForSuspendedJobs: Beta, On, Free;
    MutatingAdmissionPolicy: Stable, On, Free;
    NFTablesProxyMode: Stable, On, Locked;
    NativeHistograms: Alpha, Off, Free;
    NodeDeclaredFeatures: Beta, On, Free;
    NodeInclusionPolicyInPodTopologySpread: Stable, On, Locked;
    NodeLogQuery: Stable, On, Locked;
    NodeSwap: Stable, On, Locked;
    NominatedNodeNameForExpectation: Beta, On, Free;
    OpenAPIEnums: Beta, On, Free;
    OpportunisticBatching: Beta, On, Free;
    OrderedNamespaceDeletion: Stable, On, Locked;
    PLEGOnDemandRelist: Beta, On, Free;
    PersistentVolumeClaimUnusedSinceTime: Alpha, Off, Free;
    PodAndContainerStatsFromCRI: Alpha, Off, Free;
    PodCertificateRequest: Beta, Off, Free;
    PodDeletionCost: Beta, On, Free;
    PodLevelResourceManagers: Alpha, Off, Free;
    PodLevelResources: Beta, On, Free;
    PodLifecycleSleepAction: Stable, On, Locked;
    PodLifecycleSleepActionAllowZero: Stable, On, Locked;
    PodLogsQuerySplitStreams: Alpha, Off, Free;
    PodObservedGenerationTracking: Stable, On, Locked;
    PodReadyToStartContainersCondition: Beta, On, Free;
    PodSchedulingReadiness: Stable, On, Locked;
    PodTopologyLabelsAdmission: Beta, On, Free;
    PodsAPI: Alpha, Off, Free;
    PortForwardWebsockets: Beta, On, Free;
    PreferSameTrafficDistribution: Stable, On, Locked;
    PreventStaticPodAPIReferences: Beta, On, Free;
    ProcMountType: Stable, On, Locked;
    QOSReserved: Alpha, Off, Free;
    RecoverVolumeExpansionFailure: Stable, On, Locked;
    RecursiveReadOnlyMounts: Stable, On, Locked;
    ReduceDefaultCrashLoopBackOffDecay: Alpha, Off, Free;
    RelaxedDNSSearchValidation: Stable, On, Locked;
    RelaxedEnvironmentVariableValidation: Stable, On, Locked;
    RelaxedServiceNameValidation: Beta, On, Free;
    ReloadKubeletClientCAFile: Beta, On, Free;
    ReloadKubeletServerCertificateFile: Beta, On, Free;
    RemoteRequestHeaderUID: Beta, On, Free;
    ResilientWatchCacheInitialization: Stable, On, Locked;
    ResourceHealthStatus: Beta, On, Free;
    ResourceHealthStatusMessage: Beta, On, Free;
    RestartAllContainersOnContainerExits: Beta, On, Free;
    RetryGenerateName: Stable, On, Locked;
    RotateKubeletServerCertificate: Beta, On, Free;
    RuntimeClassInImageCriApi: Alpha, Off, Free;
    SELinuxChangePolicy: Stable, On, Locked;
    SELinuxMount: Beta, Off, Free;
    SELinuxMountReadWriteOncePod: Stable, On, Locked;
    SchedulerAsyncAPICalls: Beta, Off, Free;
    SchedulerAsyncPreemption: Beta, On, Free;
    SchedulerPopFromBackoffQ: Beta, On, Free;
    SchedulerQueueingHints: Stable, On, Locked;
    SeparateCacheWatchRPC: Deprecated, Off, Locked;
    SeparateTaintEvictionController: Stable, On, Locked;
    ServiceAccountNodeAudienceRestriction: Beta, On, Free;
    ServiceAccountTokenJTI: Stable, On, Locked;
    ServiceAccountTokenNodeBinding: Stable, On, Locked;
    ServiceAccountTokenNodeBindingValidation: Stable, On, Locked;
    ServiceAccountTokenPodNodeInfo: Stable, On, Locked;
    ServiceCIDRStatusFieldWiping: Deprecated, On, Free;
    ShardedListAndWatch: Alpha, Off, Free;
    SidecarContainers: Stable, On, Locked;
    SizeBasedListCostEstimate: Beta, On, Free;
    StaleControllerConsistencyDaemonSet: Beta, On, Free;
    StaleControllerConsistencyJob: Beta, On, Free;
    StaleControllerConsistencyReplicaSet: Beta, On, Free;
    StaleControllerConsistencyStatefulSet: Beta, On, Free;
    StatefulSetSemanticRevisionComparison: Beta, On, Free;
    StorageCapacityScoring: Alpha, Off, Free;
    StorageNamespaceIndex: Deprecated, On, Free;
    StorageVersionAPI: Alpha, Off, Free;
    StorageVersionHash: Beta, On, Free;
    StorageVersionMigrator: Beta, Off, Free;
    StreamingCollectionEncodingToJSON: Stable, On, Locked;
    StreamingCollectionEncodingToProtobuf: Stable, On, Locked;
    StrictIPCIDRValidation: Beta, On, Free;
    StructuredAuthenticationConfiguration: Stable, On, Locked;
    StructuredAuthenticationConfigurationEgressSelector: Beta, On, Free;
    StructuredAuthenticationConfigurationJWKSMetrics: Beta, On, Free;
    SupplementalGroupsPolicy: Stable, On, Locked;
    SystemdWatchdog: Stable, On, Locked;
    TaintTolerationComparisonOperators: Alpha, Off, Free;
    TokenRequestServiceAccountUIDValidation: Beta, On, Free;
    TopologyAwareWorkloadScheduling: Alpha, Off, Free;
    TopologyManagerPolicyAlphaOptions: Alpha, Off, Free;
    TopologyManagerPolicyBetaOptions: Beta, On, Free;
    TopologyManagerPolicyOptions: Stable, On, Locked;
    TranslateStreamCloseWebsocketRequests: Beta, On, Free;
    UnauthenticatedHTTP2DOSMitigation: Beta, On, Free;
    UnknownVersionInteroperabilityProxy: Beta, On, Free;
    UnlockWhileProcessingFIFO: Beta, On, Free;
    UserNamespacesHostNetworkSupport: Alpha, Off, Free;
    UserNamespacesSupport: Stable, On, Locked;
    VolumeAttributesClass: Stable, On, Locked;
    VolumeLimitScaling: Alpha, Off, Free;
    WatchCacheInitializationPostStartHook: Beta, On, Free;
    WatchList: Beta, On, Free;
    WatchListClient: Beta, On, Free;
    WinDSR: Stable, On, Locked;
    WinOverlay: Stable, On, Locked;
    WindowsCPUAndMemoryAffinity: Alpha, Off, Free;
    WindowsGracefulNodeShutdown: Beta, On, Free;
    WindowsHostNetwork: Deprecated, Off, Free;
    WorkloadAwarePreemption: Alpha, Off, Free;
    WorkloadWithJob: Alpha, Off, Free;
}

/// Gates that require other gates to be enabled.
pub(super) static DEPENDENCIES: &[(Gate, &[Gate])] = &[
    (Gate::AuthorizeNodeWithSelectors, &[Gate::AuthorizeWithSelectors]),
    (Gate::ClusterTrustBundleProjection, &[Gate::ClusterTrustBundle]),
    (Gate::DRAAdminAccess, &[Gate::DynamicResourceAllocation]),
    (Gate::DRAConsumableCapacity, &[Gate::DynamicResourceAllocation]),
    (
        Gate::DRADeviceBindingConditions,
        &[Gate::DRAResourceClaimDeviceStatus, Gate::DynamicResourceAllocation],
    ),
    (Gate::DRADeviceTaintRules, &[Gate::DRADeviceTaints]),
    (Gate::DRADeviceTaints, &[Gate::DynamicResourceAllocation]),
    (Gate::DRAExtendedResource, &[Gate::DynamicResourceAllocation]),
    (Gate::DRAListTypeAttributes, &[Gate::DynamicResourceAllocation]),
    (Gate::DRANodeAllocatableResources, &[Gate::DynamicResourceAllocation]),
    (Gate::DRAPartitionableDevices, &[Gate::DynamicResourceAllocation]),
    (Gate::DRAPrioritizedList, &[Gate::DynamicResourceAllocation]),
    (
        Gate::DRAResourceClaimGranularStatusAuthorization,
        &[Gate::DRAResourceClaimDeviceStatus, Gate::DynamicResourceAllocation],
    ),
    (Gate::DRAResourcePoolStatus, &[Gate::DynamicResourceAllocation]),
    (Gate::DRASchedulerFilterTimeout, &[Gate::DynamicResourceAllocation]),
    (Gate::DRAWorkloadResourceClaims, &[Gate::DynamicResourceAllocation, Gate::GenericWorkload]),
    (Gate::DeclarativeValidationBeta, &[Gate::DeclarativeValidation]),
    (Gate::DeclarativeValidationTakeover, &[Gate::DeclarativeValidation]),
    (Gate::DisableAllocatorDualWrite, &[Gate::MultiCIDRServiceAllocator]),
    (Gate::ExtendWebSocketsToKubelet, &[Gate::NodeDeclaredFeatures]),
    (Gate::GangScheduling, &[Gate::GenericWorkload]),
    (Gate::GracefulNodeShutdownBasedOnPodPriority, &[Gate::GracefulNodeShutdown]),
    (Gate::ImageVolumeWithDigest, &[Gate::ImageVolume]),
    (
        Gate::InPlacePodLevelResourcesVerticalScaling,
        &[Gate::InPlacePodVerticalScaling, Gate::NodeDeclaredFeatures, Gate::PodLevelResources],
    ),
    (Gate::InPlacePodVerticalScalingExclusiveCPUs, &[Gate::InPlacePodVerticalScaling]),
    (Gate::InPlacePodVerticalScalingExclusiveMemory, &[Gate::InPlacePodVerticalScaling]),
    (
        Gate::InPlacePodVerticalScalingInitContainers,
        &[Gate::InPlacePodVerticalScaling, Gate::NodeDeclaredFeatures],
    ),
    (Gate::MatchLabelKeysInPodTopologySpreadSelectorMerge, &[Gate::MatchLabelKeysInPodTopologySpread]),
    (Gate::PodCertificateRequest, &[Gate::AuthorizeNodeWithSelectors]),
    (Gate::PodLevelResourceManagers, &[Gate::PodLevelResources]),
    (Gate::PodLifecycleSleepActionAllowZero, &[Gate::PodLifecycleSleepAction]),
    (Gate::ProcMountType, &[Gate::UserNamespacesSupport]),
    (Gate::ResourceHealthStatus, &[Gate::DynamicResourceAllocation]),
    (Gate::ResourceHealthStatusMessage, &[Gate::ResourceHealthStatus]),
    (Gate::RestartAllContainersOnContainerExits, &[Gate::ContainerRestartRules, Gate::NodeDeclaredFeatures]),
    (Gate::ServiceAccountTokenNodeBinding, &[Gate::ServiceAccountTokenNodeBindingValidation]),
    (Gate::StaleControllerConsistencyDaemonSet, &[Gate::AtomicFIFO]),
    (Gate::StaleControllerConsistencyJob, &[Gate::AtomicFIFO]),
    (Gate::StaleControllerConsistencyReplicaSet, &[Gate::AtomicFIFO]),
    (Gate::StaleControllerConsistencyStatefulSet, &[Gate::AtomicFIFO]),
    (Gate::StorageVersionAPI, &[Gate::APIServerIdentity]),
    (
        Gate::StructuredAuthenticationConfigurationEgressSelector,
        &[Gate::StructuredAuthenticationConfiguration],
    ),
    (Gate::StructuredAuthenticationConfigurationJWKSMetrics, &[Gate::StructuredAuthenticationConfiguration]),
    (Gate::TopologyAwareWorkloadScheduling, &[Gate::GenericWorkload]),
    (Gate::UnknownVersionInteroperabilityProxy, &[Gate::APIServerIdentity]),
    (Gate::UserNamespacesHostNetworkSupport, &[Gate::NodeDeclaredFeatures, Gate::UserNamespacesSupport]),
    (Gate::WindowsGracefulNodeShutdown, &[Gate::GracefulNodeShutdown]),
    (Gate::WorkloadAwarePreemption, &[Gate::GangScheduling]),
    (Gate::WorkloadWithJob, &[Gate::GenericWorkload]),
];
