//! Security settings of sandboxes and containers.

use std::path::Path;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, PodSecurityContext, SELinuxOptions, SeccompProfile, SecurityContext,
};
use model::{
    Capabilities, ContainerSecurity, ImageStatus, NamespaceMode, Namespaces, NodeSettings, Pod,
    SandboxSecurity, SeLinuxOptions, SecurityProfile, SupplementalGroupsPolicy, UserNamespace,
};

/// Kernel paths that reveal host information; masked unless `procMount` is `Unmasked`.
const MASKED_PATHS: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
/// Kernel paths through which a container could change the host.
const READONLY_PATHS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

pub(crate) const APPARMOR_ANNOTATION_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Settings of the container, else of the pod, else the defaults of image and node.
///
/// # Errors
/// When a profile or policy is invalid; the message names it.
pub fn container_security(
    pod: &Pod,
    container: &Container,
    image: &ImageStatus,
    settings: &NodeSettings,
) -> Result<ContainerSecurity, String> {
    let of_pod = pod.spec.security_context.as_ref();
    let own = container.security_context.as_ref();
    let mut security = ContainerSecurity {
        capabilities: capabilities(own),
        privileged: own.is_some_and(|own| own.privileged == Some(true)),
        namespaces: namespaces(pod),
        selinux: own
            .and_then(|own| own.se_linux_options.as_ref())
            .or(of_pod.and_then(|of_pod| of_pod.se_linux_options.as_ref()))
            .map(selinux),
        run_as_user: run_as_user(of_pod, own),
        run_as_group: own.and_then(|own| own.run_as_group).or(of_pod.and_then(|of_pod| of_pod.run_as_group)),
        readonly_rootfs: own.is_some_and(|own| own.read_only_root_filesystem == Some(true)),
        supplemental_groups: supplemental_groups(of_pod),
        supplemental_groups_policy: supplemental_groups_policy(of_pod)?,
        no_new_privs: own.is_some_and(|own| own.allow_privilege_escalation == Some(false)),
        seccomp: Some(seccomp(of_pod, own, settings)?),
        apparmor: apparmor(pod, container)?,
        ..ContainerSecurity::default()
    };
    if security.run_as_user.is_none() {
        match ImageUser::of(image) {
            ImageUser::Id(id) => security.run_as_user = Some(id),
            ImageUser::Name(name) => name.clone_into(&mut security.run_as_username),
        }
    }
    if own.and_then(|own| own.proc_mount.as_deref()) != Some("Unmasked") {
        security.masked_paths = masked_paths(settings);
        security.readonly_paths = READONLY_PATHS.map(str::to_owned).to_vec();
    }
    Ok(security)
}

/// The sandbox process always uses the `RuntimeDefault` seccomp profile. Groups of volumes come before
/// `supplementalGroups`.
///
/// # Errors
/// When the pod requests an unsupported setting.
pub fn sandbox_security(
    pod: &Pod,
    user_namespace: UserNamespace,
    volume_groups: &[i64],
) -> Result<SandboxSecurity, String> {
    if pod.spec.host_users == Some(false) && user_namespace == UserNamespace::Node {
        return Err("spec.hostUsers: the pod has no user namespace of its own".to_owned());
    }
    let of_pod = pod.spec.security_context.as_ref();
    let mut groups = supplemental_groups(of_pod);
    let after_fs_group = usize::from(of_pod.is_some_and(|of_pod| of_pod.fs_group.is_some()));
    groups.splice(after_fs_group..after_fs_group, volume_groups.iter().copied());
    Ok(SandboxSecurity {
        namespaces: namespaces(pod),
        user_namespace,
        privileged: pod.containers().any(|entry| {
            entry.container.security_context.as_ref().is_some_and(|own| own.privileged == Some(true))
        }),
        run_as_user: of_pod.and_then(|of_pod| of_pod.run_as_user),
        run_as_group: of_pod.and_then(|of_pod| of_pod.run_as_group),
        supplemental_groups: groups,
        supplemental_groups_policy: supplemental_groups_policy(of_pod)?,
        selinux: of_pod.and_then(|of_pod| of_pod.se_linux_options.as_ref()).map(selinux),
        seccomp: Some(SecurityProfile::RuntimeDefault),
    })
}

/// The namespaces that the pod shares with the node, and whether its containers share a PID namespace.
pub fn namespaces(pod: &Pod) -> Namespaces {
    let node_or_pod = |shared| if shared == Some(true) { NamespaceMode::Node } else { NamespaceMode::Pod };
    Namespaces {
        network: node_or_pod(pod.spec.host_network),
        ipc: node_or_pod(pod.spec.host_ipc),
        pid: if pod.spec.host_pid == Some(true) {
            NamespaceMode::Node
        } else if pod.spec.share_process_namespace == Some(true) {
            NamespaceMode::Pod
        } else {
            NamespaceMode::Container
        },
    }
}

/// Checks `runAsNonRoot` against the effective user of the container.
///
/// # Errors
/// When that user is root, or cannot be proven not to be.
pub fn verify_run_as_non_root(pod: &Pod, container: &Container, image: &ImageStatus) -> Result<(), String> {
    let of_pod = pod.spec.security_context.as_ref();
    let own = container.security_context.as_ref();
    let requested =
        own.and_then(|own| own.run_as_non_root).or(of_pod.and_then(|of_pod| of_pod.run_as_non_root));
    if requested != Some(true) {
        return Ok(());
    }
    let problem = match (run_as_user(of_pod, own), ImageUser::of(image)) {
        (Some(0), _) => "container's runAsUser breaks non-root policy".to_owned(),
        (Some(_), _) => return Ok(()),
        (None, ImageUser::Id(0)) => "container has runAsNonRoot and image will run as root".to_owned(),
        (None, ImageUser::Id(id)) if i32::try_from(id).is_ok_and(|id| id > 0) => return Ok(()),
        (None, ImageUser::Id(id)) => {
            format!(
                "container has runAsNonRoot and image has an invalid user id ({id}). (Must be 1-({max})): must be between 0 and {max}, inclusive",
                max = i32::MAX
            )
        }
        (None, ImageUser::Name(name)) => format!(
            "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root"
        ),
    };
    Err(format!("{problem} (pod: {:?}, container: {})", pod.log_name(), container.name))
}

/// The default user of an image; root if the image does not set one.
enum ImageUser<'a> {
    Id(i64),
    Name(&'a str),
}

impl<'a> ImageUser<'a> {
    fn of(image: &'a ImageStatus) -> Self {
        match (image.uid, image.username.as_str()) {
            (Some(id), _) => Self::Id(id),
            (None, "") => Self::Id(0),
            (None, name) => Self::Name(name),
        }
    }
}

fn run_as_user(of_pod: Option<&PodSecurityContext>, own: Option<&SecurityContext>) -> Option<i64> {
    own.and_then(|own| own.run_as_user).or(of_pod.and_then(|of_pod| of_pod.run_as_user))
}

fn capabilities(own: Option<&SecurityContext>) -> Capabilities {
    own.and_then(|own| own.capabilities.clone()).map_or_else(Capabilities::default, |own| Capabilities {
        add: own.add.unwrap_or_default(),
        drop: own.drop.unwrap_or_default(),
    })
}

fn selinux(options: &SELinuxOptions) -> SeLinuxOptions {
    SeLinuxOptions {
        user: options.user.clone().unwrap_or_default(),
        role: options.role.clone().unwrap_or_default(),
        kind: options.type_.clone().unwrap_or_default(),
        level: options.level.clone().unwrap_or_default(),
    }
}

fn supplemental_groups(of_pod: Option<&PodSecurityContext>) -> Vec<i64> {
    let fs_group = of_pod.and_then(|of_pod| of_pod.fs_group);
    let groups = of_pod.and_then(|of_pod| of_pod.supplemental_groups.as_ref());
    fs_group.into_iter().chain(groups.into_iter().flatten().copied()).collect()
}

fn supplemental_groups_policy(
    of_pod: Option<&PodSecurityContext>,
) -> Result<SupplementalGroupsPolicy, String> {
    match of_pod.and_then(|of_pod| of_pod.supplemental_groups_policy.as_deref()) {
        None | Some("Merge") => Ok(SupplementalGroupsPolicy::Merge),
        Some("Strict") => Ok(SupplementalGroupsPolicy::Strict),
        Some(other) => Err(format!("unsupported supplementalGroupsPolicy: {other}")),
    }
}

fn seccomp(
    of_pod: Option<&PodSecurityContext>,
    own: Option<&SecurityContext>,
    settings: &NodeSettings,
) -> Result<SecurityProfile, String> {
    let requested = own
        .and_then(|own| own.seccomp_profile.as_ref())
        .or(of_pod.and_then(|of_pod| of_pod.seccomp_profile.as_ref()));
    match requested {
        Some(SeccompProfile { type_, localhost_profile }) => {
            let root = settings.root_dir.join("seccomp");
            let file = |name: &str| root.join(Path::new(name)).to_string_lossy().into_owned();
            profile("seccomp", type_, localhost_profile.as_deref().map(file))
        }
        None if settings.seccomp_default => Ok(SecurityProfile::RuntimeDefault),
        None => Ok(SecurityProfile::Unconfined),
    }
}

/// Static pods may still use the annotation; it takes precedence over the pod's field but not the container's.
pub(crate) fn apparmor(pod: &Pod, container: &Container) -> Result<Option<SecurityProfile>, String> {
    let parse = |AppArmorProfile { type_, localhost_profile }: &AppArmorProfile| {
        profile("apparmor", type_, localhost_profile.clone()).map(Some)
    };
    if let Some(own) = container.security_context.as_ref().and_then(|own| own.app_armor_profile.as_ref()) {
        return parse(own);
    }
    let annotation = pod.annotation(&format!("{APPARMOR_ANNOTATION_PREFIX}{}", container.name));
    let annotated = match annotation {
        Some("runtime/default") => Some(SecurityProfile::RuntimeDefault),
        Some("unconfined") => Some(SecurityProfile::Unconfined),
        Some(other) => {
            other.strip_prefix("localhost/").map(|name| SecurityProfile::Localhost(name.to_owned()))
        }
        None => None,
    };
    match (annotated, pod.spec.security_context.as_ref().and_then(|of_pod| of_pod.app_armor_profile.as_ref()))
    {
        (Some(annotated), _) => Ok(Some(annotated)),
        (None, Some(of_pod)) => parse(of_pod),
        (None, None) => Ok(None),
    }
}

fn profile(system: &str, kind: &str, localhost: Option<String>) -> Result<SecurityProfile, String> {
    match (kind, localhost) {
        ("RuntimeDefault", _) => Ok(SecurityProfile::RuntimeDefault),
        ("Unconfined", _) => Ok(SecurityProfile::Unconfined),
        ("Localhost", Some(name)) if !name.trim().is_empty() => Ok(SecurityProfile::Localhost(name)),
        ("Localhost", name) => Err(match (system, name) {
            ("seccomp", _) => "localhostProfile must be set if seccompProfile type is Localhost.".to_owned(),
            (_, Some(name)) => format!("invalid empty AppArmor profile name: {name:?}"),
            (_, None) => "missing localhost apparmor profile name".to_owned(),
        }),
        (other, _) => Err(format!("unknown {system} profile type: {other:?}")),
    }
}

fn masked_paths(settings: &NodeSettings) -> Vec<String> {
    let cpu_paths = settings.capabilities.masked_cpu_paths.iter().cloned();
    MASKED_PATHS.map(str::to_owned).into_iter().chain(cpu_paths).collect()
}

#[cfg(test)]
mod tests;
