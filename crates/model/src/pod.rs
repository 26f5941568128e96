use std::sync::Arc;

use k8s_openapi::api::core::v1::{self as core, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{PodFullName, PodSource, PodUid, Timestamp, labels};

/// A pod that the node should run: an API object whose identity and spec are known to exist.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// UID.
    pub uid: PodUid,
    pub full_name: PodFullName,
    pub source: PodSource,
    /// The object's metadata, local annotations included.
    pub metadata: ObjectMeta,
    pub spec: PodSpec,
    /// The status as the source delivered it.
    pub status: PodStatus,
    /// `spec.ephemeralContainers`, in the form of the other containers.
    pub ephemeral: Vec<EphemeralContainer>,
    pub standing: Standing,
}

/// Why a pod is desired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// Its source, since this agent started.
    #[default]
    Confirmed,
    /// Restored from a checkpoint; its source has not delivered yet.
    Remembered,
}

/// An API object that cannot be a [`Pod`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodShapeError {
    /// No `metadata.uid`.
    #[error("metadata.uid: required")]
    NoUid,
    /// No `metadata.name`.
    #[error("metadata.name: required")]
    NoName,
    /// No `spec`.
    #[error("spec: required")]
    NoSpec,
}

impl Pod {
    /// Takes an API object in.
    ///
    /// # Errors
    /// When the object lacks its UID, name or spec.
    pub fn from_object(object: core::Pod, source: PodSource) -> Result<Self, PodShapeError> {
        let core::Pod { metadata, spec, status } = object;
        let uid = metadata.uid.as_deref().filter(|uid| !uid.is_empty()).ok_or(PodShapeError::NoUid)?.into();
        let name = metadata.name.clone().filter(|name| !name.is_empty()).ok_or(PodShapeError::NoName)?;
        let namespace = metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let spec = spec.ok_or(PodShapeError::NoSpec)?;
        let ephemeral = spec.ephemeral_containers.iter().flatten().map(EphemeralContainer::of).collect();
        Ok(Self {
            uid,
            full_name: PodFullName { namespace, name },
            source,
            metadata,
            spec,
            status: status.unwrap_or_default(),
            ephemeral,
            standing: Standing::default(),
        })
    }

    /// The API object with a given status.
    pub fn to_object(&self, status: PodStatus) -> core::Pod {
        core::Pod { metadata: self.metadata.clone(), spec: Some(self.spec.clone()), status: Some(status) }
    }

    /// The pod's name.
    pub fn name(&self) -> &str {
        &self.full_name.name
    }

    /// The pod's namespace.
    pub fn namespace(&self) -> &str {
        &self.full_name.namespace
    }

    /// Name, namespace and UID as upstream writes them in messages.
    pub fn log_name(&self) -> String {
        format!("{}_{}({})", self.name(), self.namespace(), self.uid)
    }

    /// An annotation's value.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }

    /// Static pods are owned by the node, not by the API server.
    pub fn is_static(&self) -> bool {
        self.source.is_static()
    }

    /// Whether the pod lives in the host's network.
    pub fn is_host_network(&self) -> bool {
        self.spec.host_network == Some(true)
    }

    /// Whether a graceful deletion has begun.
    pub fn is_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// When the object was made, or first seen.
    pub fn created_at(&self) -> Timestamp {
        self.metadata.creation_timestamp.as_ref().map(Timestamp::from_api_time).unwrap_or_default()
    }

    /// When the agent saw the pod first.
    pub fn first_seen(&self) -> Timestamp {
        self.annotation(labels::CONFIG_SEEN)
            .and_then(|text| text.parse::<jiff::Timestamp>().ok())
            .map(|time| Timestamp::from_nanos(i64::try_from(time.as_nanosecond()).unwrap_or_default()))
            .unwrap_or_default()
    }

    /// All containers that the pod was made with, with their kinds, in the order init, regular.
    pub fn containers(&self) -> impl Iterator<Item = ContainerRef<'_>> {
        let init = self.spec.init_containers.iter().flatten();
        init.map(|container| ContainerRef { kind: ContainerKind::Init, container }).chain(
            self.spec
                .containers
                .iter()
                .map(|container| ContainerRef { kind: ContainerKind::Regular, container }),
        )
    }

    /// Containers that were added while the pod runs.
    pub fn ephemeral_containers(&self) -> impl Iterator<Item = ContainerRef<'_>> {
        let kind = ContainerKind::Ephemeral;
        self.ephemeral.iter().map(move |entry| ContainerRef { kind, container: &entry.container })
    }

    /// Containers of all kinds.
    pub fn all_containers(&self) -> impl Iterator<Item = ContainerRef<'_>> {
        self.containers().chain(self.ephemeral_containers())
    }

    /// The container of that name, of whatever kind.
    pub fn container(&self, name: &str) -> Option<ContainerRef<'_>> {
        self.all_containers().find(|entry| entry.container.name == name)
    }

    /// Shared form.
    #[must_use]
    pub fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }
}

/// Which list of the spec a container stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContainerKind {
    /// `spec.initContainers`.
    Init,
    /// `spec.containers`.
    Regular,
    /// `spec.ephemeralContainers`.
    Ephemeral,
}

/// A container that was added to a pod while it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct EphemeralContainer {
    pub container: core::Container,
    /// The container whose processes it sees.
    pub target: Option<String>,
}

impl EphemeralContainer {
    fn of(spec: &core::EphemeralContainer) -> Self {
        let own = spec.clone();
        let container = core::Container {
            args: own.args,
            command: own.command,
            env: own.env,
            env_from: own.env_from,
            image: own.image,
            image_pull_policy: own.image_pull_policy,
            lifecycle: own.lifecycle,
            liveness_probe: own.liveness_probe,
            name: own.name,
            ports: own.ports,
            readiness_probe: own.readiness_probe,
            resize_policy: own.resize_policy,
            resources: own.resources,
            restart_policy: own.restart_policy,
            restart_policy_rules: own.restart_policy_rules,
            security_context: own.security_context,
            startup_probe: own.startup_probe,
            stdin: own.stdin,
            stdin_once: own.stdin_once,
            termination_message_path: own.termination_message_path,
            termination_message_policy: own.termination_message_policy,
            tty: own.tty,
            volume_devices: own.volume_devices,
            volume_mounts: own.volume_mounts,
            working_dir: own.working_dir,
        };
        Self { container, target: own.target_container_name.filter(|name| !name.is_empty()) }
    }
}

/// A container of a pod with the list it stands in.
#[derive(Clone, Copy, Debug)]
pub struct ContainerRef<'a> {
    pub kind: ContainerKind,
    pub container: &'a core::Container,
}

impl ContainerRef<'_> {
    /// The field path events use for this container.
    pub fn field_path(&self) -> String {
        let list = match self.kind {
            ContainerKind::Init => "initContainers",
            ContainerKind::Regular => "containers",
            ContainerKind::Ephemeral => "ephemeralContainers",
        };
        format!("spec.{list}{{{}}}", self.container.name)
    }
}
