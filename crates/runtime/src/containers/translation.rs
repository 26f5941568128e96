//! From a request of CRI to what the launcher and the cgroups need. Pure: everything that depends on the machine is in
//! [`TranslationInput`].
//!
//! A setting that cannot be enforced is an error that names its field.

mod arguments;
mod mounts;
mod namespaces;
mod resources;
mod security;
mod user;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use cri::v1::{ContainerConfig, LinuxContainerSecurityContext, NamespaceOption};

pub(crate) use arguments::stop_signal;
pub(crate) use mounts::clean;
pub(crate) use namespaces::{PidMode, pid_mode};
pub(crate) use resources::{merge, resources};
pub(crate) use security::{
    AppArmorHost, DEFAULT_APPARMOR_PROFILE, SeccompChoice, needs_default_profile, seccomp_choice,
};
pub(crate) use user::{UserFiles, resolve as resolve_user};

use crate::cgroups::{DeviceAccess, DeviceRule, DeviceType, Resources, default_device_rules};
use crate::errors::ServiceError;
use crate::images::ImageConfig;
use crate::launcher::capabilities::Capability;
use crate::launcher::{
    Access, CgroupHierarchy, ContainerSpec, DeviceKind, DeviceNode, DeviceNodes, FileOwners, LimitKind,
    MountAttribute, ProcessSpec, ResourceLimit, Terminal, User, UserNamespace,
};
use crate::sandboxes::{NamespaceFiles, SandboxFiles};

/// Settings that a container takes from its sandbox.
#[derive(Clone, Debug)]
pub(crate) struct SandboxView {
    pub(crate) files: SandboxFiles,
    pub(crate) shared_memory: PathBuf,
    pub(crate) namespaces: NamespaceFiles,
    pub(crate) options: NamespaceOption,
    pub(crate) privileged: bool,
    pub(crate) hostname: String,
    pub(crate) user: Option<UserNamespace>,
}

/// The cgroups as the container sees them.
#[derive(Clone, Debug)]
pub(crate) enum CgroupView {
    V1(Vec<CgroupHierarchy>),
    /// The directory that appears as the container's whole hierarchy.
    V2(PathBuf),
}

/// A device of the host for a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostDevice {
    pub(crate) node: DeviceNode,
    pub(crate) access: DeviceAccess,
}

/// Changes that device drivers request through the Container Device Interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeviceEdits {
    pub(crate) environment: Vec<String>,
    pub(crate) devices: Vec<HostDevice>,
    pub(crate) mounts: Vec<EditedMount>,
    pub(crate) groups: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EditedMount {
    pub(crate) source: PathBuf,
    pub(crate) destination: String,
    pub(crate) read_only: bool,
    pub(crate) attributes: BTreeSet<MountAttribute>,
}

pub(crate) struct TranslationInput<'a> {
    pub(crate) id: &'a str,
    pub(crate) config: &'a ContainerConfig,
    pub(crate) image: &'a ImageConfig,
    pub(crate) sandbox: SandboxView,
    /// The mounted root file system.
    pub(crate) root: PathBuf,
    pub(crate) user_files: UserFiles,
    /// Capabilities of this process.
    pub(crate) held: &'a BTreeSet<Capability>,
    /// Directories of the container's cgroups.
    pub(crate) cgroups: Vec<PathBuf>,
    pub(crate) cgroup_view: CgroupView,
    /// The content of the profile file that the request names.
    pub(crate) seccomp_profile: Option<Vec<u8>>,
    pub(crate) apparmor: AppArmorHost,
    /// The first process of the container whose PID namespace is joined.
    pub(crate) target_pid: Option<u32>,
    /// Folders of image volumes, by the position of their mounts in the request.
    pub(crate) image_mounts: BTreeMap<usize, PathBuf>,
    /// Volumes that the image declares: destination and source.
    pub(crate) declared_volumes: Vec<(String, PathBuf)>,
    pub(crate) devices: Vec<HostDevice>,
    pub(crate) edits: DeviceEdits,
}

pub(crate) struct Translation {
    pub(crate) spec: ContainerSpec,
    pub(crate) resources: Resources,
    pub(crate) device_rules: Vec<DeviceRule>,
}

impl TranslationInput<'_> {
    fn security(&self) -> LinuxContainerSecurityContext {
        security_context(self.config)
    }
}

/// The security context of a request; an empty one if it has none.
pub(crate) fn security_context(config: &ContainerConfig) -> LinuxContainerSecurityContext {
    config.linux.clone().unwrap_or_default().security_context.unwrap_or_default()
}

pub(crate) fn translate(input: &TranslationInput<'_>) -> Result<Translation, ServiceError> {
    let config = input.config;
    let security = input.security();
    refuse_unsupported(&security)?;
    if security.privileged && !input.sandbox.privileged {
        return Err(ServiceError::setting("privileged", "the sandbox is not privileged"));
    }
    let requested = config.linux.clone().unwrap_or_default().resources.unwrap_or_default();
    let oom_score_adj = i32::try_from(requested.oom_score_adj).ok().filter(|score| score.abs() <= 1000);
    let oom_score_adj = oom_score_adj
        .ok_or_else(|| ServiceError::setting("oom_score_adj", "it is not between -1000 and 1000"))?;
    let resolved = resolve_user(&security, &input.image.user, &input.user_files)?;
    let mut groups: BTreeSet<u32> = resolved.user.groups.iter().copied().collect();
    groups.extend(&input.edits.groups);
    let home = resolved.home.as_deref().unwrap_or("/");
    let confinement = security::confinement(input, &security)?;
    let process = ProcessSpec {
        arguments: arguments::arguments(config, input.image)?,
        environment: arguments::environment(
            config,
            input.image,
            &input.edits.environment,
            &input.sandbox.hostname,
            home,
        )?,
        directory: PathBuf::from(arguments::directory(config, input.image)?),
        user: User { groups: groups.into_iter().collect(), ..resolved.user },
        capabilities: confinement.capabilities,
        new_privileges: confinement.new_privileges,
        seccomp: confinement.seccomp,
        security_label: confinement.label,
        oom_score_adj,
        // Programs that use every possible descriptor become slow with the limit of a node agent.
        resource_limits: vec![ResourceLimit { kind: LimitKind::OpenFiles, soft: 1024, hard: 524_288 }],
        terminal: if config.tty { Terminal::New } else { Terminal::None },
    };
    let mounts = mounts::mounts(input, &security)?;
    let devices = input.devices.iter().chain(&input.edits.devices);
    let spec = ContainerSpec {
        root_owners: FileOwners::Unchanged,
        id: input.id.to_owned(),
        root: input.root.clone(),
        root_access: if security.readonly_rootfs { Access::ReadOnly } else { Access::ReadWrite },
        namespaces: namespaces::namespaces(input, &security)?,
        mounts: mounts.mounts,
        devices: if mounts.own_devices {
            DeviceNodes::None
        } else {
            DeviceNodes::StandardAnd(devices.clone().map(|device| device.node.clone()).collect())
        },
        masked_paths: paths(&security, &security.masked_paths),
        readonly_paths: paths(&security, &security.readonly_paths),
        process,
        cgroups: input.cgroups.clone(),
    };
    let device_rules = if security.privileged {
        vec![DeviceRule { kind: DeviceType::Any, major: None, minor: None, access: DeviceAccess::ALL }]
    } else {
        devices.map(rule).chain(default_device_rules()).collect()
    };
    Ok(Translation { spec, resources: resources(&requested)?, device_rules })
}

/// A privileged container sees everything.
fn paths(security: &LinuxContainerSecurityContext, paths: &[String]) -> Vec<PathBuf> {
    if security.privileged { Vec::new() } else { paths.iter().map(PathBuf::from).collect() }
}

fn rule(device: &HostDevice) -> DeviceRule {
    DeviceRule {
        kind: match device.node.kind {
            DeviceKind::Character => DeviceType::Character,
            DeviceKind::Block => DeviceType::Block,
        },
        major: Some(device.node.major),
        minor: Some(device.node.minor),
        access: device.access,
    }
}

fn refuse_unsupported(security: &LinuxContainerSecurityContext) -> Result<(), ServiceError> {
    if security.selinux_options.is_some() {
        return Err(ServiceError::setting("selinux_options", "this runtime sets no SELinux labels"));
    }
    let capabilities = security.capabilities.clone().unwrap_or_default();
    if !capabilities.add_ambient_capabilities.is_empty() {
        return Err(ServiceError::setting(
            "add_ambient_capabilities",
            "ambient capabilities are not supported",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
