//! Rules for the pod's operating system and for fields that only exist on one of them.

use k8s_openapi::api::core::v1::{PodSecurityContext, SecurityContext, WindowsSecurityContextOptions};

use super::field::Field;
use super::{Context, formats};

const MAX_CREDENTIAL_SPEC_BYTES: usize = 64 * 1024;
const MAX_DOMAIN_LENGTH: usize = 256;
const MAX_USER_LENGTH: usize = 104;

/// Checks `os`, and that the pod has no fields of the other operating system.
pub(super) fn check(context: &Context<'_>) {
    check_host_processes(context);
    let at = context.spec_field();
    match context.os() {
        None => {}
        Some("") => at.field("os.name").required(""),
        Some("linux") => check_no_windows_fields(context),
        Some("windows") => check_no_linux_fields(context),
        Some(other) => at.field("os.name").unsupported(other, &["linux", "windows"]),
    }
}

pub(super) fn check_windows_options(options: &WindowsSecurityContextOptions, at: &Field<'_>) {
    at.field("gmsaCredentialSpecName")
        .optional_format(&options.gmsa_credential_spec_name, formats::dns_subdomain);
    if let Some(spec) = &options.gmsa_credential_spec {
        let at = at.field("gmsaCredentialSpec");
        if spec.is_empty() {
            at.invalid("", "cannot be an empty string");
        } else if spec.len() > MAX_CREDENTIAL_SPEC_BYTES {
            at.too_long(MAX_CREDENTIAL_SPEC_BYTES);
        }
    }
    at.field("runAsUserName").optional_format(&options.run_as_user_name, user_name_format);
}

/// Returns a message unless the name has the form `DOMAIN\user` or `user`.
fn user_name_format(name: &str) -> Option<String> {
    let (domain, user) = name.split_once('\\').map_or((None, name), |(domain, user)| (Some(domain), user));
    let is_net_bios = |domain: &str| {
        !domain.is_empty()
            && domain.chars().count() <= 15
            && !domain.starts_with('.')
            && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
    };
    let is_dns =
        |domain: &str| domain.split('.').all(|label| formats::dns_label(&label.to_lowercase()).is_none());
    let message = if name.is_empty() {
        "cannot be an empty string"
    } else if name.chars().any(char::is_control) {
        "cannot contain control characters"
    } else if user.contains('\\') {
        "cannot contain more than one backslash"
    } else if domain.is_some_and(|domain| domain.len() >= MAX_DOMAIN_LENGTH) {
        "the domain is too long"
    } else if domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns(domain)) {
        "the domain has neither NetBios nor DNS format"
    } else if user.is_empty() || user.len() > MAX_USER_LENGTH {
        "the user must have 1 to 104 characters"
    } else if user.chars().all(|c| matches!(c, '.' | ' ')) {
        "the user cannot contain only periods or spaces"
    } else if user.contains(['"', '/', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        "the user cannot contain any of \"/\\:;|=,+*?<>@[]"
    } else {
        return None;
    };
    Some(message.to_owned())
}

fn check_host_processes(context: &Context<'_>) {
    let at = context.spec_field();
    let host_process = |options: &Option<WindowsSecurityContextOptions>| options.as_ref()?.host_process;
    let pod = context.spec.security_context.as_ref().and_then(|pod| host_process(&pod.windows_options));
    let (mut total, mut on_host) = (0, 0);
    for (at, container) in context.containers() {
        let container_value =
            container.security_context.as_ref().and_then(|security| host_process(&security.windows_options));
        if let (Some(pod), Some(container_value)) = (pod, container_value)
            && pod != container_value
        {
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            at.field("securityContext.windowsOptions.hostProcess").invalid(container_value, &detail);
        }
        total += 1;
        on_host += usize::from(container_value.or(pod) == Some(true));
    }
    if on_host > 0 && on_host != total {
        at.invalid("", "if one container is a hostProcess container, all must be");
    }
    if on_host > 0 && !context.host_network() {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        at.field("hostNetwork").invalid(false, detail);
    }
}

fn check_no_windows_fields(context: &Context<'_>) {
    let detail = "windows options cannot be set for a linux pod";
    let pod = context.spec.security_context.as_ref();
    if pod.is_some_and(|pod| pod.windows_options.is_some()) {
        context.spec_field().field("securityContext.windowsOptions").forbidden(detail);
    }
    for (at, container) in context.containers() {
        if container.security_context.as_ref().is_some_and(|security| security.windows_options.is_some()) {
            at.field("securityContext.windowsOptions").forbidden(detail);
        }
    }
}

fn check_no_linux_fields(context: &Context<'_>) {
    let spec = context.spec;
    let at = context.spec_field();
    forbid_on_windows(
        &at,
        &[
            ("hostUsers", spec.host_users.is_some()),
            ("hostPID", spec.host_pid == Some(true)),
            ("hostIPC", spec.host_ipc == Some(true)),
            ("shareProcessNamespace", spec.share_process_namespace.is_some()),
        ],
    );
    at.if_set("securityContext", &spec.security_context, check_no_linux_fields_of_pod);
    for (at, container) in context.containers() {
        at.if_set("securityContext", &container.security_context, check_no_linux_fields_of_container);
    }
}

fn check_no_linux_fields_of_pod(pod: &PodSecurityContext, at: &Field<'_>) {
    forbid_on_windows(
        at,
        &[
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
        ],
    );
}

fn check_no_linux_fields_of_container(security: &SecurityContext, at: &Field<'_>) {
    forbid_on_windows(
        at,
        &[
            ("appArmorProfile", security.app_armor_profile.is_some()),
            ("seLinuxOptions", security.se_linux_options.is_some()),
            ("seccompProfile", security.seccomp_profile.is_some()),
            ("capabilities", security.capabilities.is_some()),
            ("readOnlyRootFilesystem", security.read_only_root_filesystem.is_some()),
            ("privileged", security.privileged.is_some()),
            ("allowPrivilegeEscalation", security.allow_privilege_escalation.is_some()),
            ("procMount", security.proc_mount.is_some()),
            ("runAsUser", security.run_as_user.is_some()),
            ("runAsGroup", security.run_as_group.is_some()),
        ],
    );
}

fn forbid_on_windows(at: &Field<'_>, fields: &[(&str, bool)]) {
    at.forbid_set(fields, "cannot be set for a windows pod");
}
