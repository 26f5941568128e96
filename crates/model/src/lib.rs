//! The nouns and messages of the node agent.
//!
//! Comes in: Kubernetes API types (`k8s-openapi`). Goes out: values that every layer above shares: pod
//! identities, validated pods, the messages between the stages, what was observed in the runtime, and the
//! specifications handed to it.
//!
//! Invariants: a [`Pod`] always has a UID, a name, a namespace and a spec; ids are newtypes; wall-clock
//! times are [`Timestamp`]s, order between an action and an observation is a [`Moment`].
//!
//! It deliberately does nothing: no IO, no clock, no decisions.

mod access;
mod admission_settings;
mod allocation;
mod cgroup_limits;
mod cgroup_settings;
mod changes;
mod commands;
mod config_object;
mod cpu_policy;
mod cpu_topology;
mod credentials;
mod csi_volume;
mod device;
mod events;
mod flex_volume;
mod host_capabilities;
mod ids;
pub mod labels;
pub mod local_api;
mod log_folder;
mod machine_identity;
mod memory_policy;
pub mod metric_family;
pub mod metrics_text;
mod network_disk;
mod node_resources;
mod node_settings;
mod numa_node;
mod observed;
mod outcome;
mod packet_filter;
mod pod;
mod pod_certificate;
mod pod_level_management;
mod pod_lists;
mod probe;
mod projected_file;
mod rejection;
mod replacement;
mod resource_claim;
mod runtime_spec;
mod runtime_status;
mod service;
mod service_account_token;
pub mod statistics;
mod status_urgency;
mod stream_choice;
mod system_processes;
mod time;
mod timeline;
mod topology_hint;
mod trust_bundle;
pub mod usage;
mod user_namespace;
mod volume_label;
mod volume_plan;
mod worker_state;
pub mod yaml;

pub use access::{AccessQuestion, User};
pub use admission_settings::{AdmissionSettings, AppArmor, KernelVersion, PodLevelResources};
pub use allocation::{ContainerResources, PodAllocation, PodResources, ResizeCondition};
pub use cgroup_limits::{CgroupLimits, HugepageLimits};
pub use cgroup_settings::{CgroupSettings, Enforcement, MemoryQos, MemoryReservation, SwapBehavior};
pub use changes::{Operation, PodUpdate, Snapshot, SnapshotKind};
pub use commands::{KillOptions, UpdateKind, WorkerCommand, WorkerTarget};
pub use config_object::{ConfigObject, ObjectError, ObjectKey, ObjectKind, ReadObjects};
pub use cpu_policy::{CpuPlacement, CpuPolicy, CpuPolicyOptions, ExclusiveQuota};
pub use cpu_topology::{CpuGroup, CpuLocation, CpuTopology};
pub use credentials::{
    AccountIdentity, CredentialFile, CredentialFileForm, CredentialOrigin, CredentialProvider, ProviderToken,
    RegistryCredential, ResponseSharing,
};
pub use csi_volume::{CsiAccess, CsiLifecycle, CsiPod, CsiSize, CsiVolume, SecretReference};
pub use device::{AllocatedDevices, DeviceOptions, DevicePluginOptions, PluginDevice};
pub use events::{EventSubject, EventType, PodEvent, PodEventKind, RecordedEvent};
pub use flex_volume::FlexVolume;
pub use host_capabilities::{CgroupVersion, HostCapabilities};
pub use ids::{ContainerId, PodFullName, PodSource, PodUid, SandboxId};
pub use log_folder::LogFolder;
pub use machine_identity::MachineIdentity;
pub use memory_policy::MemoryManagerPolicy;
pub use network_disk::{Chap, DiskUse, FcDisk, FcName, IscsiDisk, OwnInitiator, VolumeSecret};
pub use node_resources::{NodeResources, ResourceAmounts};
pub use node_settings::{NodeSettings, PodGates};
pub use numa_node::NumaNode;
pub use observed::{Observation, ObservedPod};
pub use outcome::{ContainerProblem, ContainerProblems, SyncFailure, SyncOutcome};
pub use packet_filter::{FilterChain, FilterPlan, FilterRule, IpFamily, RulePlace};
pub use pod::{ContainerKind, ContainerRef, EphemeralContainer, Pod, PodShapeError, Standing};
pub use pod_certificate::{
    CertificateOutcome, CertificateRequest, CertificateWish, PodCertificate, ReadCertificates,
};
pub use pod_level_management::PodLevelManagement;
pub use pod_lists::{ListMark, PodLists};
pub use probe::{ContainerProbeResults, ProbeKind, ProbeResult, ProbeResults};
pub use projected_file::ProjectedFile;
pub use rejection::{Rejection, RejectionKind};
pub use replacement::Replacement;
pub use resource_claim::{ClaimDeviceHealth, ClaimReference, DeviceHealthReport, PreparedDevice};
pub use runtime_spec::{
    Capabilities, ContainerSecurity, ContainerSpec, Device, DnsConfig, HugepageLimit, ImageAuth, ImageSpec,
    LinuxResources, Mount, MountPropagation, NamespaceMode, Namespaces, PortMapping, Protocol,
    SandboxSecurity, SandboxSpec, SeLinuxOptions, SecurityProfile, StartUrgency, SubPath,
    SupplementalGroupsPolicy,
};
pub use runtime_status::{
    CgroupDriver, ContainerState, ContainerStatus, ContainerSummary, ContainerUser, ExecOutput,
    FilesystemUsage, ImageFilesystems, ImageStatus, RuntimeCondition, RuntimeConditions, RuntimeEvent,
    RuntimeEventKind, RuntimeHandler, RuntimeVersion, SandboxState, SandboxStatus, SandboxSummary,
};
pub use service::{Service, ServicePort};
pub use service_account_token::{IssuedToken, ReadTokens, TokenRequest, TokenSpec};
pub use status_urgency::StatusUrgency;
pub use stream_choice::StreamChoice;
pub use system_processes::{OwnProcess, PidNamespace, ProcessKind, RootProcess, SystemProcesses};
pub use time::{Moment, MomentSource, Timestamp};
pub use timeline::{PodTimeline, StartStep, StepRecord, StepSpan};
pub use topology_hint::{NumaMask, ProviderHints, ResourceHints, TopologyHint};
pub use trust_bundle::{ReadTrustBundles, TrustBundle};
pub use user_namespace::{IdPool, IdRange, UserNamespace};
pub use volume_label::{ContainerLabels, LabelChange, LabelReach, LabelRequest, VolumeLabel, same_label};
pub use volume_plan::{
    ClaimedSize, FileStorage, FsGroup, FsGroupChange, HostPathKind, LocalSource, PlannedVolume, VolumePlan,
    VolumeStep,
};
pub use worker_state::{WorkerPhase, WorkerPodKind, WorkerProgress, WorkerView};
