//! The feature gates of the upstream kubelet v1.36.4: stage, default, effect of a setting, and required gates.

use super::{GateEffect::*, Initial::*, Spec, Stage::*};

macro_rules! gates {
    ($($name:ident: $stage:ident, $initial:ident, $effect:ident $(, requires $($required:ident),+)?;)*) => {
        #[allow(missing_docs, reason = "the names are the contract; upstream's feature list explains them")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Gate {
            $($name,)*
        }

        /// All gates in the order of [`Gate`].
        pub(super) static TABLE: &[Spec] = &[
            $(Spec {
                gate: Gate::$name,
                name: stringify!($name),
                stage: $stage,
                initial: $initial,
                effect: $effect,
                requires: &[$($(Gate::$required),+)?],
            },)*
        ];
    };
}

gates! {
    APIResponseCompression: Beta, On, Other;
    APIServerIdentity: Beta, On, Other;
    APIServerTracing: Stable, On, Locked;
    APIServingWithRoutine: Alpha, Off, Other;
    AggregatedDiscoveryRemoveBetaType: Deprecated, On, Locked;
    AllAlpha: Alpha, Off, Used;
    AllBeta: Beta, Off, Used;
    AllowDNSOnlyNodeCSR: Deprecated, Off, Used;
    AllowInsecureKubeletCertificateSigningRequests: Deprecated, Off, Other;
    AllowOverwriteTerminationGracePeriodSeconds: Deprecated, Off, Locked;
    AllowParsingUserUIDFromCertAuth: Beta, On, Other;
    AllowServiceExternalIPs: Stable, On, Other;
    AllowUnsafeMalformedObjectDeletion: Alpha, Off, Other;
    AnonymousAuthConfigurableEndpoints: Stable, On, Locked;
    AnyVolumeDataSource: Stable, On, Locked;
    AtomicFIFO: Beta, On, Other;
    AuthorizeNodeWithSelectors: Stable, On, Locked, requires AuthorizeWithSelectors;
    AuthorizePodWebsocketUpgradeCreatePermission: Beta, On, Other;
    AuthorizeWithSelectors: Stable, On, Locked;
    BtreeWatchCache: Stable, On, Locked;
    CBORServingAndStorage: Alpha, Off, Other;
    CPUManagerPolicyAlphaOptions: Alpha, Off, Used;
    CPUManagerPolicyBetaOptions: Beta, On, Used;
    CPUManagerPolicyOptions: Stable, On, Locked;
    CRDObservedGenerationTracking: Beta, On, Other;
    CRDValidationRatcheting: Stable, On, Locked;
    CRIListStreaming: Alpha, Off, Used;
    CSIServiceAccountTokenSecrets: Stable, On, Locked;
    CSIVolumeHealth: Alpha, Off, Used;
    ChangeContainerStatusOnKubeletRestart: Deprecated, Off, Used;
    ClearingNominatedNodeNameAfterBinding: Beta, On, Other;
    ClientsAllowCARotation: Beta, On, Other;
    ClientsAllowCBOR: Alpha, Off, Other;
    ClientsAllowTLSCacheGC: Beta, On, Other;
    ClientsPreferCBOR: Alpha, Off, Other;
    CloudControllerManagerWatchBasedRoutesReconciliation: Alpha, Off, Other;
    CloudControllerManagerWebhook: Alpha, Off, Other;
    ClusterTrustBundle: Beta, Off, Other;
    ClusterTrustBundleProjection: Beta, Off, Used, requires ClusterTrustBundle;
    ComponentFlagz: Beta, On, Used;
    ComponentStatusz: Beta, On, Used;
    ConcurrentWatchObjectDecode: Beta, Off, Other;
    ConsistentListFromCache: Stable, On, Locked;
    ConstrainedImpersonation: Beta, On, Other;
    ContainerCheckpoint: Beta, On, Used;
    ContainerRestartRules: Beta, On, Used;
    ContainerStopSignals: Alpha, Off, Used;
    ContextualLogging: Beta, On, Other;
    ControllerManagerReleaseLeaderElectionLockOnExit: Alpha, Off, Other;
    CoordinatedLeaderElection: Beta, Off, Other;
    CrossNamespaceVolumeDataSource: Alpha, Off, Other;
    CustomCPUCFSQuotaPeriod: Stable, On, Used;
    CustomResourceFieldSelectors: Stable, On, Locked;
    DRAAdminAccess: Stable, On, Locked, requires DynamicResourceAllocation;
    DRAConsumableCapacity: Beta, On, Other, requires DynamicResourceAllocation;
    DRADeviceBindingConditions: Beta, On, Other,
        requires DRAResourceClaimDeviceStatus, DynamicResourceAllocation;
    DRADeviceTaintRules: Beta, Off, Other, requires DRADeviceTaints;
    DRADeviceTaints: Beta, On, Other, requires DynamicResourceAllocation;
    DRAExtendedResource: Beta, On, Used, requires DynamicResourceAllocation;
    DRAListTypeAttributes: Alpha, Off, Other, requires DynamicResourceAllocation;
    DRANodeAllocatableResources: Alpha, Off, Other, requires DynamicResourceAllocation;
    DRAPartitionableDevices: Beta, On, Other, requires DynamicResourceAllocation;
    DRAPrioritizedList: Stable, On, Other, requires DynamicResourceAllocation;
    DRAResourceClaimDeviceStatus: Beta, On, Other;
    DRAResourceClaimGranularStatusAuthorization: Beta, On, Other,
        requires DRAResourceClaimDeviceStatus, DynamicResourceAllocation;
    DRAResourcePoolStatus: Alpha, Off, Other, requires DynamicResourceAllocation;
    DRASchedulerFilterTimeout: Beta, On, Other, requires DynamicResourceAllocation;
    DRAWorkloadResourceClaims: Alpha, Off, NoEffect, requires DynamicResourceAllocation, GenericWorkload;
    DeclarativeValidation: Stable, On, Locked;
    DeclarativeValidationBeta: Beta, On, Other, requires DeclarativeValidation;
    DeclarativeValidationTakeover: Deprecated, Off, Other, requires DeclarativeValidation;
    DeploymentReplicaSetTerminatingReplicas: Beta, On, Other;
    DetectCacheInconsistency: Beta, On, Other;
    DisableAllocatorDualWrite: Stable, On, Locked, requires MultiCIDRServiceAllocator;
    DisableCPUQuotaWithExclusiveCPUs: Deprecated, On, Used;
    DisableNodeKubeProxyVersion: Deprecated, On, Locked;
    DynamicResourceAllocation: Stable, On, Locked;
    EnvFiles: Beta, On, Used;
    EventedPLEG: Alpha, Off, Other;
    ExecProbeTimeout: Stable, On, Locked;
    ExtendWebSocketsToKubelet: Beta, On, Used, requires NodeDeclaredFeatures;
    ExternalServiceAccountTokenSigner: Stable, On, Locked;
    GangScheduling: Alpha, Off, Other, requires GenericWorkload;
    GenericWorkload: Alpha, Off, Other;
    GitRepoVolumeDriver: Deprecated, Off, Locked;
    GracefulNodeShutdown: Beta, On, Used;
    GracefulNodeShutdownBasedOnPodPriority: Beta, On, Used, requires GracefulNodeShutdown;
    HPAConfigurableTolerance: Beta, On, Other;
    HPAScaleToZero: Alpha, Off, Other;
    HostnameOverride: Beta, On, Used;
    ImageMaximumGCAge: Stable, On, Locked;
    ImageVolume: Stable, On, Locked;
    ImageVolumeWithDigest: Alpha, Off, Used, requires ImageVolume;
    InOrderInformers: Stable, On, Locked;
    InOrderInformersBatchProcess: Beta, On, Other;
    InPlacePodLevelResourcesVerticalScaling: Beta, On, Used,
        requires InPlacePodVerticalScaling, NodeDeclaredFeatures, PodLevelResources;
    InPlacePodVerticalScaling: Stable, On, Locked;
    InPlacePodVerticalScalingExclusiveCPUs: Alpha, Off, Used, requires InPlacePodVerticalScaling;
    InPlacePodVerticalScalingExclusiveMemory: Alpha, Off, Used, requires InPlacePodVerticalScaling;
    InPlacePodVerticalScalingInitContainers: Beta, On, Used,
        requires InPlacePodVerticalScaling, NodeDeclaredFeatures;
    InformerResourceVersion: Stable, On, Other;
    JobBackoffLimitPerIndex: Stable, On, Locked;
    JobManagedBy: Stable, On, Locked;
    JobPodReplacementPolicy: Stable, On, Locked;
    JobSuccessPolicy: Stable, On, Locked;
    KMSv1: Deprecated, Off, Other;
    KubeletCgroupDriverFromCRI: Stable, On, Locked;
    KubeletCrashLoopBackOffMax: Beta, On, Used;
    KubeletEnsureSecretPulledImages: Beta, On, Used;
    KubeletFineGrainedAuthz: Stable, On, Locked;
    KubeletInUserNamespace: Alpha, Off, Used;
    KubeletPSI: Stable, On, Locked;
    KubeletPodResourcesDynamicResources: Stable, On, Locked;
    KubeletPodResourcesGet: Stable, On, Locked;
    KubeletPodResourcesListUseActivePods: Deprecated, On, Used;
    KubeletRegistrationGetOnExistsOnly: Deprecated, Off, Used;
    KubeletSeparateDiskGC: Beta, On, Used;
    KubeletServiceAccountTokenForCredentialProviders: Beta, On, Used;
    KubeletTracing: Stable, On, Locked;
    ListFromCacheSnapshot: Beta, On, Other;
    LocalStorageCapacityIsolationFSQuotaMonitoring: Beta, Off, NoEffect;
    LogarithmicScaleDown: Stable, On, Locked;
    LoggingAlphaOptions: Alpha, Off, Used;
    LoggingBetaOptions: Beta, On, Used;
    ManifestBasedAdmissionControlConfig: Alpha, Off, Other;
    MatchLabelKeysInPodAffinity: Stable, On, Locked;
    MatchLabelKeysInPodTopologySpread: Beta, On, Used;
    MatchLabelKeysInPodTopologySpreadSelectorMerge: Beta, On, Used,
        requires MatchLabelKeysInPodTopologySpread;
    MaxUnavailableStatefulSet: Beta, Off, Other;
    MemoryQoS: Alpha, Off, Used;
    MultiCIDRServiceAllocator: Stable, On, Locked;
    MutableCSINodeAllocatableCount: Stable, On, Locked;
    MutablePVNodeAffinity: Alpha, Off, Other;
    MutablePodResourcesForSuspendedJobs: Beta, On, Other;
    MutableSchedulingDirectivesForSuspendedJobs: Beta, On, Other;
    MutatingAdmissionPolicy: Stable, On, Other;
    NFTablesProxyMode: Stable, On, Locked;
    NativeHistograms: Alpha, Off, Other;
    NodeDeclaredFeatures: Beta, On, Used;
    NodeInclusionPolicyInPodTopologySpread: Stable, On, Locked;
    NodeLogQuery: Stable, On, Locked;
    NodeSwap: Stable, On, Locked;
    NominatedNodeNameForExpectation: Beta, On, Other;
    OpenAPIEnums: Beta, On, Other;
    OpportunisticBatching: Beta, On, Other;
    OrderedNamespaceDeletion: Stable, On, Locked;
    PLEGOnDemandRelist: Beta, On, Other;
    PersistentVolumeClaimUnusedSinceTime: Alpha, Off, Other;
    PodAndContainerStatsFromCRI: Alpha, Off, NoEffect;
    PodCertificateRequest: Beta, Off, Used, requires AuthorizeNodeWithSelectors;
    PodDeletionCost: Beta, On, Used;
    PodLevelResourceManagers: Alpha, Off, Used, requires PodLevelResources;
    PodLevelResources: Beta, On, Used;
    PodLifecycleSleepAction: Stable, On, Locked;
    PodLifecycleSleepActionAllowZero: Stable, On, Locked, requires PodLifecycleSleepAction;
    PodLogsQuerySplitStreams: Alpha, Off, Used;
    PodObservedGenerationTracking: Stable, On, Locked;
    PodReadyToStartContainersCondition: Beta, On, Used;
    PodSchedulingReadiness: Stable, On, Locked;
    PodTopologyLabelsAdmission: Beta, On, Other;
    PodsAPI: Alpha, Off, Used;
    PortForwardWebsockets: Beta, On, Other;
    PreferSameTrafficDistribution: Stable, On, Locked;
    PreventStaticPodAPIReferences: Beta, On, Used;
    ProcMountType: Stable, On, Locked, requires UserNamespacesSupport;
    QOSReserved: Alpha, Off, Used;
    RecoverVolumeExpansionFailure: Stable, On, Locked;
    RecursiveReadOnlyMounts: Stable, On, Locked;
    ReduceDefaultCrashLoopBackOffDecay: Alpha, Off, Used;
    RelaxedDNSSearchValidation: Stable, On, Locked;
    RelaxedEnvironmentVariableValidation: Stable, On, Locked;
    RelaxedServiceNameValidation: Beta, On, Other;
    ReloadKubeletClientCAFile: Beta, On, Used;
    ReloadKubeletServerCertificateFile: Beta, On, Used;
    RemoteRequestHeaderUID: Beta, On, Other;
    ResilientWatchCacheInitialization: Stable, On, Locked;
    ResourceHealthStatus: Beta, On, Used, requires DynamicResourceAllocation;
    ResourceHealthStatusMessage: Beta, On, Used, requires ResourceHealthStatus;
    RestartAllContainersOnContainerExits: Beta, On, Used,
        requires ContainerRestartRules, NodeDeclaredFeatures;
    RetryGenerateName: Stable, On, Locked;
    RotateKubeletServerCertificate: Beta, On, Used;
    RuntimeClassInImageCriApi: Alpha, Off, Used;
    SELinuxChangePolicy: Stable, On, Locked;
    SELinuxMount: Beta, Off, Used;
    SELinuxMountReadWriteOncePod: Stable, On, Locked;
    SchedulerAsyncAPICalls: Beta, Off, Other;
    SchedulerAsyncPreemption: Beta, On, Other;
    SchedulerPopFromBackoffQ: Beta, On, Other;
    SchedulerQueueingHints: Stable, On, Locked;
    SeparateCacheWatchRPC: Deprecated, Off, Locked;
    SeparateTaintEvictionController: Stable, On, Locked;
    ServiceAccountNodeAudienceRestriction: Beta, On, Other;
    ServiceAccountTokenJTI: Stable, On, Locked;
    ServiceAccountTokenNodeBinding: Stable, On, Locked, requires ServiceAccountTokenNodeBindingValidation;
    ServiceAccountTokenNodeBindingValidation: Stable, On, Locked;
    ServiceAccountTokenPodNodeInfo: Stable, On, Locked;
    ServiceCIDRStatusFieldWiping: Deprecated, On, Other;
    ShardedListAndWatch: Alpha, Off, Other;
    SidecarContainers: Stable, On, Locked;
    SizeBasedListCostEstimate: Beta, On, Other;
    StaleControllerConsistencyDaemonSet: Beta, On, Other, requires AtomicFIFO;
    StaleControllerConsistencyJob: Beta, On, Other, requires AtomicFIFO;
    StaleControllerConsistencyReplicaSet: Beta, On, Other, requires AtomicFIFO;
    StaleControllerConsistencyStatefulSet: Beta, On, Other, requires AtomicFIFO;
    StatefulSetSemanticRevisionComparison: Beta, On, Other;
    StorageCapacityScoring: Alpha, Off, Other;
    StorageNamespaceIndex: Deprecated, On, Other;
    StorageVersionAPI: Alpha, Off, Other, requires APIServerIdentity;
    StorageVersionHash: Beta, On, Other;
    StorageVersionMigrator: Beta, Off, Other;
    StreamingCollectionEncodingToJSON: Stable, On, Locked;
    StreamingCollectionEncodingToProtobuf: Stable, On, Locked;
    StrictIPCIDRValidation: Beta, On, Used;
    StructuredAuthenticationConfiguration: Stable, On, Locked;
    StructuredAuthenticationConfigurationEgressSelector: Beta, On, Other,
        requires StructuredAuthenticationConfiguration;
    StructuredAuthenticationConfigurationJWKSMetrics: Beta, On, Other,
        requires StructuredAuthenticationConfiguration;
    SupplementalGroupsPolicy: Stable, On, Locked;
    SystemdWatchdog: Stable, On, Locked;
    TaintTolerationComparisonOperators: Alpha, Off, Used;
    TokenRequestServiceAccountUIDValidation: Beta, On, Other;
    TopologyAwareWorkloadScheduling: Alpha, Off, Other, requires GenericWorkload;
    TopologyManagerPolicyAlphaOptions: Alpha, Off, Other;
    TopologyManagerPolicyBetaOptions: Beta, On, Other;
    TopologyManagerPolicyOptions: Stable, On, Locked;
    TranslateStreamCloseWebsocketRequests: Beta, On, Other;
    UnauthenticatedHTTP2DOSMitigation: Beta, On, Other;
    UnknownVersionInteroperabilityProxy: Beta, On, Other, requires APIServerIdentity;
    UnlockWhileProcessingFIFO: Beta, On, Other;
    UserNamespacesHostNetworkSupport: Alpha, Off, Used, requires NodeDeclaredFeatures, UserNamespacesSupport;
    UserNamespacesSupport: Stable, On, Locked;
    VolumeAttributesClass: Stable, On, Locked;
    VolumeLimitScaling: Alpha, Off, Other;
    WatchCacheInitializationPostStartHook: Beta, On, Other;
    WatchList: Beta, On, Other;
    WatchListClient: Beta, On, Other;
    WinDSR: Stable, On, Locked;
    WinOverlay: Stable, On, Locked;
    WindowsCPUAndMemoryAffinity: Alpha, Off, Other;
    WindowsGracefulNodeShutdown: Beta, On, Other, requires GracefulNodeShutdown;
    WindowsHostNetwork: Deprecated, Off, Other;
    WorkloadAwarePreemption: Alpha, Off, Other, requires GangScheduling;
    WorkloadWithJob: Alpha, Off, Other, requires GenericWorkload;
}
