//! Rules for security contexts and host namespaces.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, PodSecurityContext, Sysctl};

use super::checker::Checker;
use super::{Context, profiles, windows};
use crate::path::Path;

const MAX_SYSCTL_LENGTH: usize = 253;
/// Upstream's list. Names with the prefixes `fs.mqueue.` and `net.` are namespaced too.
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

/// Checks the pod's security context and its use of host namespaces.
pub(super) fn check_pod(context: &Context<'_>, checker: &mut Checker) {
    let spec = context.spec;
    let path = Path::root().field("spec");
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        let detail = "shareProcessNamespace and hostPID cannot both be enabled";
        checker.invalid(&path.field("shareProcessNamespace"), true, detail);
    }
    if !context.host_users() {
        let shared =
            [("hostNetwork", spec.host_network), ("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc)];
        let is_allowed = |field: &str| {
            field == "hostNetwork" && !context.validation_gates.forbid_host_network_with_user_namespace
        };
        for (field, _) in
            shared.into_iter().filter(|(field, value)| *value == Some(true) && !is_allowed(field))
        {
            checker.forbidden(&path.field(field), "when `hostUsers` is false");
        }
    }
    let Some(security) = &spec.security_context else { return };
    let path = path.field("securityContext");
    for (field, id) in [
        ("fsGroup", security.fs_group),
        ("runAsUser", security.run_as_user),
        ("runAsGroup", security.run_as_group),
    ] {
        check_user_or_group(id, &path.field(field), checker);
    }
    for (path, group) in
        path.field("supplementalGroups").items(security.supplemental_groups.as_deref().unwrap_or_default())
    {
        check_user_or_group(Some(*group), &path, checker);
    }
    check_sysctls(security.sysctls.as_deref().unwrap_or_default(), context, &path.field("sysctls"), checker);
    check_policies(security, context, &path, checker);
    profiles::check_seccomp(security.seccomp_profile.as_ref(), &path.field("seccompProfile"), checker);
    profiles::check_apparmor(security.app_armor_profile.as_ref(), &path.field("appArmorProfile"), checker);
    windows::check_windows_options(security.windows_options.as_ref(), &path.field("windowsOptions"), checker);
}

pub(super) fn check_container(
    container: &Container,
    context: &Context<'_>,
    path: &Path,
    checker: &mut Checker,
) {
    let Some(security) = &container.security_context else { return };
    check_user_or_group(security.run_as_user, &path.field("runAsUser"), checker);
    check_user_or_group(security.run_as_group, &path.field("runAsGroup"), checker);
    if let Some(mount) = security.proc_mount.as_deref() {
        checker.one_of(&path.field("procMount"), mount, &["Default", "Unmasked"]);
        if mount == "Unmasked" && context.host_users() {
            checker.invalid(&path.field("procMount"), mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    if security.allow_privilege_escalation == Some(false) {
        let path = path.field("allowPrivilegeEscalation");
        if security.privileged == Some(true) {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            checker.invalid(&path, false, detail);
        }
        let added = security.capabilities.iter().flat_map(|capabilities| capabilities.add.iter().flatten());
        if added.into_iter().any(|capability| capability == "CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and add the capability CAP_SYS_ADMIN";
            checker.invalid(&path, false, detail);
        }
    }
    profiles::check_seccomp(security.seccomp_profile.as_ref(), &path.field("seccompProfile"), checker);
    profiles::check_apparmor(security.app_armor_profile.as_ref(), &path.field("appArmorProfile"), checker);
    windows::check_windows_options(security.windows_options.as_ref(), &path.field("windowsOptions"), checker);
}

fn check_user_or_group(id: Option<i64>, path: &Path, checker: &mut Checker) {
    if let Some(id) = id {
        checker.in_range(path, id, 0, i64::from(i32::MAX));
    }
}

fn check_policies(security: &PodSecurityContext, context: &Context<'_>, path: &Path, checker: &mut Checker) {
    let selinux_policies: &[&str] = if context.validation_gates.forbid_selinux_mount_option {
        &["Recursive"]
    } else {
        &["MountOption", "Recursive"]
    };
    for (field, policy, supported) in [
        ("fsGroupChangePolicy", &security.fs_group_change_policy, &["Always", "OnRootMismatch"][..]),
        ("supplementalGroupsPolicy", &security.supplemental_groups_policy, &["Merge", "Strict"][..]),
        ("seLinuxChangePolicy", &security.se_linux_change_policy, selinux_policies),
    ] {
        if let Some(policy) = policy {
            checker.one_of(&path.field(field), policy, supported);
        }
    }
}

fn check_sysctls(sysctls: &[Sysctl], context: &Context<'_>, path: &Path, checker: &mut Checker) {
    let mut names = BTreeSet::new();
    for (path, sysctl) in path.items(sysctls) {
        let (name, path) = (sysctl.name.as_str(), path.field("name"));
        if !checker.require_text(&path, name) {
            continue;
        }
        if !is_sysctl_name(name) {
            let detail = "must be a sysctl name: segments of lower case letters, digits, '-' and '_', joined by '.' or '/'";
            checker.invalid(&path, name, detail);
        } else if !names.insert(name) {
            checker.duplicate(&path, name);
        }
        let dotted = dotted_name(name);
        if context.host_network() && dotted.starts_with("net.") {
            checker.invalid(&path, name, "may not be specified when 'hostNetwork' is true");
        }
        let is_ipc = IPC_SYSCTLS.contains(&dotted.as_str()) || dotted.starts_with("fs.mqueue.");
        if context.spec.host_ipc == Some(true) && is_ipc {
            checker.invalid(&path, name, "may not be specified when 'hostIPC' is true");
        }
    }
}

fn is_sysctl_name(name: &str) -> bool {
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= MAX_SYSCTL_LENGTH
        && name.split(['.', '/']).all(|segment| {
            segment.starts_with(is_edge)
                && segment.ends_with(is_edge)
                && segment.chars().all(|c| is_edge(c) || matches!(c, '-' | '_'))
        })
}

/// Converts a name with slashes as separators to dots. In such a name, dots and slashes have swapped roles.
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
