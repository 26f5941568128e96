//! The pod's operating system, and what only one of them has.

use k8s_openapi::api::core::v1::{PodSecurityContext, SecurityContext, WindowsSecurityContextOptions};

use super::checker::Checker;
use super::{Context, formats};
use crate::path::Path;

const CREDENTIAL_LIMIT: usize = 64 * 1024;
const DOMAIN_LIMIT: usize = 256;
const USER_LIMIT: usize = 104;

/// Checks `os`, and that the pod uses nothing of the other system.
pub(super) fn check(context: &Context<'_>, check: &mut Checker) {
    host_processes(context, check);
    let at = Path::root().field("spec");
    match context.os() {
        None => {}
        Some("") => check.required(&at.field("os.name"), ""),
        Some("linux") => nothing_of_windows(context, check),
        Some("windows") => nothing_of_linux(context, check),
        Some(other) => check.unsupported(&at.field("os.name"), other, &["linux", "windows"]),
    }
}

/// Checks Windows options of a security context.
pub(super) fn options(options: Option<&WindowsSecurityContextOptions>, at: &Path, check: &mut Checker) {
    let Some(options) = options else { return };
    if let Some(name) = &options.gmsa_credential_spec_name {
        check.format(&at.field("gmsaCredentialSpecName"), name, formats::dns_subdomain(name));
    }
    if let Some(spec) = &options.gmsa_credential_spec {
        let at = at.field("gmsaCredentialSpec");
        if spec.is_empty() {
            check.invalid(&at, "", "cannot be an empty string");
        } else if spec.len() > CREDENTIAL_LIMIT {
            check.too_long(&at, CREDENTIAL_LIMIT);
        }
    }
    if let Some(name) = &options.run_as_user_name {
        check.format(&at.field("runAsUserName"), name, user_name(name));
    }
}

/// `DOMAIN\user` or `user`.
fn user_name(name: &str) -> Option<String> {
    let (domain, user) = name.split_once('\\').map_or((None, name), |(domain, user)| (Some(domain), user));
    let is_net_bios = |domain: &str| {
        !domain.is_empty()
            && domain.chars().count() <= 15
            && !domain.starts_with('.')
            && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
    };
    let is_dns =
        |domain: &str| domain.split('.').all(|label| formats::dns_label(&label.to_lowercase()).is_none());
    let complaint = if name.is_empty() {
        "cannot be an empty string"
    } else if name.chars().any(char::is_control) {
        "cannot contain control characters"
    } else if user.contains('\\') {
        "cannot contain more than one backslash"
    } else if domain.is_some_and(|domain| domain.len() >= DOMAIN_LIMIT) {
        "the domain is too long"
    } else if domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns(domain)) {
        "the domain has neither NetBios nor DNS format"
    } else if user.is_empty() || user.len() > USER_LIMIT {
        "the user must have 1 to 104 characters"
    } else if user.chars().all(|c| matches!(c, '.' | ' ')) {
        "the user cannot contain only periods or spaces"
    } else if user.contains(['"', '/', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        "the user cannot contain any of \"/\\:;|=,+*?<>@[]"
    } else {
        return None;
    };
    Some(complaint.to_owned())
}

fn host_processes(context: &Context<'_>, check: &mut Checker) {
    let at = Path::root().field("spec");
    let host_process = |options: &Option<WindowsSecurityContextOptions>| options.as_ref()?.host_process;
    let pod = context.spec.security_context.as_ref().and_then(|pod| host_process(&pod.windows_options));
    let (mut total, mut on_host) = (0, 0);
    for (at, container) in context.containers() {
        let own = container.security_context.as_ref().and_then(|own| host_process(&own.windows_options));
        if let (Some(pod), Some(own)) = (pod, own)
            && pod != own
        {
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            check.invalid(&at.field("securityContext.windowsOptions.hostProcess"), own, &detail);
        }
        total += 1;
        on_host += usize::from(own.or(pod) == Some(true));
    }
    if on_host > 0 && on_host != total {
        check.invalid(&at, "", "if one container is a hostProcess container, all must be");
    }
    if on_host > 0 && !context.host_network() {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        check.invalid(&at.field("hostNetwork"), false, detail);
    }
}

fn nothing_of_windows(context: &Context<'_>, check: &mut Checker) {
    let detail = "windows options cannot be set for a linux pod";
    let pod = context.spec.security_context.as_ref();
    if pod.is_some_and(|pod| pod.windows_options.is_some()) {
        check.forbidden(&Path::root().field("spec.securityContext.windowsOptions"), detail);
    }
    for (at, container) in context.containers() {
        if container.security_context.as_ref().is_some_and(|own| own.windows_options.is_some()) {
            check.forbidden(&at.field("securityContext.windowsOptions"), detail);
        }
    }
}

fn nothing_of_linux(context: &Context<'_>, check: &mut Checker) {
    let spec = context.spec;
    let at = Path::root().field("spec");
    let mut used = vec![
        (at.field("hostUsers"), spec.host_users.is_some()),
        (at.field("hostPID"), spec.host_pid == Some(true)),
        (at.field("hostIPC"), spec.host_ipc == Some(true)),
        (at.field("shareProcessNamespace"), spec.share_process_namespace.is_some()),
    ];
    if let Some(pod) = &spec.security_context {
        used.extend(linux_fields_of_pod(pod, &at.field("securityContext")));
    }
    for (at, container) in context.containers() {
        if let Some(own) = &container.security_context {
            used.extend(linux_fields_of_container(own, &at.field("securityContext")));
        }
    }
    for (at, _) in used.into_iter().filter(|(_, is_set)| *is_set) {
        check.forbidden(&at, "cannot be set for a windows pod");
    }
}

fn linux_fields_of_pod(pod: &PodSecurityContext, at: &Path) -> [(Path, bool); 11] {
    [
        ("appArmorProfile", pod.app_armor_profile.is_some()),
        ("seLinuxOptions", pod.se_linux_options.is_some()),
        ("seccompProfile", pod.seccomp_profile.is_some()),
        ("fsGroup", pod.fs_group.is_some()),
        ("fsGroupChangePolicy", pod.fs_group_change_policy.is_some()),
        ("sysctls", pod.sysctls.as_ref().is_some_and(|sysctls| !sysctls.is_empty())),
        ("runAsUser", pod.run_as_user.is_some()),
        ("runAsGroup", pod.run_as_group.is_some()),
        ("supplementalGroups", pod.supplemental_groups.is_some()),
        ("supplementalGroupsPolicy", pod.supplemental_groups_policy.is_some()),
        ("seLinuxChangePolicy", pod.se_linux_change_policy.is_some()),
    ]
    .map(|(field, is_set)| (at.field(field), is_set))
}

fn linux_fields_of_container(own: &SecurityContext, at: &Path) -> [(Path, bool); 10] {
    [
        ("appArmorProfile", own.app_armor_profile.is_some()),
        ("seLinuxOptions", own.se_linux_options.is_some()),
        ("seccompProfile", own.seccomp_profile.is_some()),
        ("capabilities", own.capabilities.is_some()),
        ("readOnlyRootFilesystem", own.read_only_root_filesystem.is_some()),
        ("privileged", own.privileged.is_some()),
        ("allowPrivilegeEscalation", own.allow_privilege_escalation.is_some()),
        ("procMount", own.proc_mount.is_some()),
        ("runAsUser", own.run_as_user.is_some()),
        ("runAsGroup", own.run_as_group.is_some()),
    ]
    .map(|(field, is_set)| (at.field(field), is_set))
}
