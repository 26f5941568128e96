//! Rules for security contexts and host namespaces.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{PodSecurityContext, SecurityContext, Sysctl};

use values::sysctl::dotted_name;

use super::field::Field;
use super::{Context, formats, profiles, windows};

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
pub(super) fn check_pod(context: &Context<'_>) {
    let spec = context.spec;
    let at = context.spec_field();
    if spec.share_process_namespace == Some(true) && spec.host_pid == Some(true) {
        let detail = "shareProcessNamespace and hostPID cannot both be enabled";
        at.field("shareProcessNamespace").invalid(true, detail);
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
            at.field(field).forbidden("when `hostUsers` is false");
        }
    }
    let Some(security) = &spec.security_context else { return };
    let at = at.field("securityContext");
    for (field, id) in [
        ("fsGroup", security.fs_group),
        ("runAsUser", security.run_as_user),
        ("runAsGroup", security.run_as_group),
    ] {
        check_user_or_group(id, &at.field(field));
    }
    for (at, group) in at.list("supplementalGroups", &security.supplemental_groups) {
        check_user_or_group(Some(*group), &at);
    }
    at.if_set("sysctls", &security.sysctls, |sysctls, at| check_sysctls(sysctls, context, at));
    check_policies(security, context, &at);
    at.if_set("seccompProfile", &security.seccomp_profile, profiles::check_seccomp);
    at.if_set("appArmorProfile", &security.app_armor_profile, profiles::check_apparmor);
    at.if_set("windowsOptions", &security.windows_options, windows::check_windows_options);
}

pub(super) fn check_container(security: &SecurityContext, context: &Context<'_>, at: &Field<'_>) {
    check_user_or_group(security.run_as_user, &at.field("runAsUser"));
    check_user_or_group(security.run_as_group, &at.field("runAsGroup"));
    if let Some(mount) = security.proc_mount.as_deref() {
        at.field("procMount").one_of(mount, &["Default", "Unmasked"]);
        if mount == "Unmasked" && context.host_users() {
            at.field("procMount").invalid(mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    if security.allow_privilege_escalation == Some(false) {
        let at = at.field("allowPrivilegeEscalation");
        if security.privileged == Some(true) {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            at.invalid(false, detail);
        }
        let added = security.capabilities.iter().flat_map(|capabilities| capabilities.add.iter().flatten());
        if added.into_iter().any(|capability| capability == "CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and add the capability CAP_SYS_ADMIN";
            at.invalid(false, detail);
        }
    }
    at.if_set("seccompProfile", &security.seccomp_profile, profiles::check_seccomp);
    at.if_set("appArmorProfile", &security.app_armor_profile, profiles::check_apparmor);
    at.if_set("windowsOptions", &security.windows_options, windows::check_windows_options);
}

fn check_user_or_group(id: Option<i64>, at: &Field<'_>) {
    if let Some(id) = id {
        at.in_range(id, 0, i64::from(i32::MAX));
    }
}

fn check_policies(security: &PodSecurityContext, context: &Context<'_>, at: &Field<'_>) {
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
        at.field(field).optional_one_of(policy, supported);
    }
}

fn check_sysctls(sysctls: &[Sysctl], context: &Context<'_>, at: &Field<'_>) {
    let mut names = BTreeSet::new();
    for (at, sysctl) in at.items(sysctls) {
        let (name, at) = (sysctl.name.as_str(), at.field("name"));
        if !at.require(name) {
            continue;
        }
        if !is_sysctl_name(name) {
            let detail = "must be a sysctl name: segments of lower case letters, digits, '-' and '_', joined by '.' or '/'";
            at.invalid(name, detail);
        } else if !names.insert(name) {
            at.duplicate(name);
        }
        let dotted = dotted_name(name);
        if context.host_network() && dotted.starts_with("net.") {
            at.invalid(name, "may not be specified when 'hostNetwork' is true");
        }
        let is_ipc = IPC_SYSCTLS.contains(&dotted.as_str()) || dotted.starts_with("fs.mqueue.");
        if context.spec.host_ipc == Some(true) && is_ipc {
            at.invalid(name, "may not be specified when 'hostIPC' is true");
        }
    }
}

fn is_sysctl_name(name: &str) -> bool {
    let is_edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= MAX_SYSCTL_LENGTH
        && name.split(['.', '/']).all(|segment| formats::is_word(segment, is_edge, &['-', '_']))
}
