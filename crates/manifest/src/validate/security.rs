//! Security contexts of the pod and its containers, and the host's namespaces.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, PodSecurityContext, Sysctl};

use super::checker::Checker;
use super::{Context, profiles, windows};
use crate::path::Path;

const SYSCTL_LENGTH: usize = 253;
/// Upstream's list; names below `fs.mqueue.` and `net.` are namespaced too.
const IPC_SYSCTLS: [&str; 10] = [
    "kernel.sem",
    "kernel.shmall",
    "kernel.shmmax",
    "kernel.shmmni",
    "kernel.shm_rmid_forced",
    "kernel.shm",
    "kernel.msgmax",
    "kernel.msgmnb",
    "kernel.msgmni",
    "kernel.msg",
];

/// Checks the pod's security context and its use of the host's namespaces.
pub(super) fn check_pod(context: &Context<'_>, check: &mut Checker) {
    let spec = context.spec;
    let at = Path::root().field("spec");
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        let detail = "shareProcessNamespace and hostPID cannot both be enabled";
        check.invalid(&at.field("shareProcessNamespace"), true, detail);
    }
    if !context.host_users() {
        let shared =
            [("hostNetwork", spec.host_network), ("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc)];
        let is_fine = |field: &str| field == "hostNetwork" && !context.strictness.own_users_own_network;
        for (field, _) in shared.into_iter().filter(|(field, value)| *value == Some(true) && !is_fine(field))
        {
            check.forbidden(&at.field(field), "when `hostUsers` is false");
        }
    }
    let Some(security) = &spec.security_context else { return };
    let at = at.field("securityContext");
    for (field, id) in [
        ("fsGroup", security.fs_group),
        ("runAsUser", security.run_as_user),
        ("runAsGroup", security.run_as_group),
    ] {
        user_or_group(id, &at.field(field), check);
    }
    for (at, group) in
        at.field("supplementalGroups").items(security.supplemental_groups.as_deref().unwrap_or_default())
    {
        user_or_group(Some(*group), &at, check);
    }
    sysctls(security.sysctls.as_deref().unwrap_or_default(), context, &at.field("sysctls"), check);
    policies(security, context, &at, check);
    profiles::seccomp(security.seccomp_profile.as_ref(), &at.field("seccompProfile"), check);
    profiles::apparmor(security.app_armor_profile.as_ref(), &at.field("appArmorProfile"), check);
    windows::options(security.windows_options.as_ref(), &at.field("windowsOptions"), check);
}

/// Checks a container's security context.
pub(super) fn check_container(container: &Container, context: &Context<'_>, at: &Path, check: &mut Checker) {
    let Some(security) = &container.security_context else { return };
    user_or_group(security.run_as_user, &at.field("runAsUser"), check);
    user_or_group(security.run_as_group, &at.field("runAsGroup"), check);
    if let Some(mount) = security.proc_mount.as_deref() {
        check.one_of(&at.field("procMount"), mount, &["Default", "Unmasked"]);
        if mount == "Unmasked" && context.host_users() {
            check.invalid(&at.field("procMount"), mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    if security.allow_privilege_escalation == Some(false) {
        let at = at.field("allowPrivilegeEscalation");
        if security.privileged == Some(true) {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            check.invalid(&at, false, detail);
        }
        let added = security.capabilities.iter().flat_map(|capabilities| capabilities.add.iter().flatten());
        if added.into_iter().any(|capability| capability == "CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and add the capability CAP_SYS_ADMIN";
            check.invalid(&at, false, detail);
        }
    }
    profiles::seccomp(security.seccomp_profile.as_ref(), &at.field("seccompProfile"), check);
    profiles::apparmor(security.app_armor_profile.as_ref(), &at.field("appArmorProfile"), check);
    windows::options(security.windows_options.as_ref(), &at.field("windowsOptions"), check);
}

fn user_or_group(id: Option<i64>, at: &Path, check: &mut Checker) {
    if let Some(id) = id {
        check.in_range(at, id, 0, i64::from(i32::MAX));
    }
}

fn policies(security: &PodSecurityContext, context: &Context<'_>, at: &Path, check: &mut Checker) {
    let label_policies: &[&str] =
        if context.strictness.no_label_mounts { &["Recursive"] } else { &["MountOption", "Recursive"] };
    for (field, policy, supported) in [
        ("fsGroupChangePolicy", &security.fs_group_change_policy, &["Always", "OnRootMismatch"][..]),
        ("supplementalGroupsPolicy", &security.supplemental_groups_policy, &["Merge", "Strict"][..]),
        ("seLinuxChangePolicy", &security.se_linux_change_policy, label_policies),
    ] {
        if let Some(policy) = policy {
            check.one_of(&at.field(field), policy, supported);
        }
    }
}

fn sysctls(sysctls: &[Sysctl], context: &Context<'_>, at: &Path, check: &mut Checker) {
    let mut names = BTreeSet::new();
    for (at, sysctl) in at.items(sysctls) {
        let (name, at) = (sysctl.name.as_str(), at.field("name"));
        if !check.require_text(&at, name) {
            continue;
        }
        if !is_sysctl_name(name) {
            let detail = "must be a sysctl name: segments of lower case letters, digits, '-' and '_', joined by '.' or '/'";
            check.invalid(&at, name, detail);
        } else if !names.insert(name) {
            check.duplicate(&at, name);
        }
        let dotted = dotted_name(name);
        if context.host_network() && dotted.starts_with("net.") {
            check.invalid(&at, name, "may not be specified when 'hostNetwork' is true");
        }
        let is_ipc = IPC_SYSCTLS.contains(&dotted.as_str()) || dotted.starts_with("fs.mqueue.");
        if context.spec.host_ipc == Some(true) && is_ipc {
            check.invalid(&at, name, "may not be specified when 'hostIPC' is true");
        }
    }
}

fn is_sysctl_name(name: &str) -> bool {
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= SYSCTL_LENGTH
        && name.split(['.', '/']).all(|segment| {
            segment.starts_with(is_edge)
                && segment.ends_with(is_edge)
                && segment.chars().all(|c| is_edge(c) || matches!(c, '-' | '_'))
        })
}

/// A name whose first separator is a slash uses slashes where others use dots, and the other way round.
fn dotted_name(name: &str) -> String {
    match name.find(['.', '/']).and_then(|index| name.get(index..=index)) {
        Some("/") => {
            let swap = |c| match c {
                '/' => '.',
                '.' => '/',
                other => other,
            };
            name.chars().map(swap).collect()
        }
        _ => name.to_owned(),
    }
}
