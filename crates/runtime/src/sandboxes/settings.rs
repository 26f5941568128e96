//! Checks of a request for a sandbox.

use cri::v1::{NamespaceMode, NamespaceOption, PodSandboxConfig, PodSandboxMetadata};

use super::sysctls::OwnNamespaces;
use crate::errors::ServiceError;

/// The name that a sandbox reserves.
pub(crate) fn sandbox_name(metadata: &PodSandboxMetadata) -> String {
    let PodSandboxMetadata { name, uid, namespace, attempt } = metadata;
    format!("{name}_{namespace}_{uid}_{attempt}")
}

/// Checks the request, apart from names; returns its metadata.
pub(super) fn check(config: &PodSandboxConfig, handler: &str) -> Result<PodSandboxMetadata, ServiceError> {
    let metadata = config.metadata.clone().ok_or(ServiceError::Missing("sandbox metadata"))?;
    for (field, value) in [
        ("metadata.name", &metadata.name),
        ("metadata.namespace", &metadata.namespace),
        ("metadata.uid", &metadata.uid),
    ] {
        if value.is_empty() {
            return Err(ServiceError::Missing(field));
        }
    }
    if !handler.is_empty() {
        let problem = format!("no runtime for {handler:?} is configured");
        return Err(ServiceError::setting("runtime_handler", problem));
    }
    let linux = config.linux.clone().unwrap_or_default();
    let security = linux.security_context.unwrap_or_default();
    if security.selinux_options.is_some() {
        return Err(ServiceError::setting("selinux_options", "this runtime sets no SELinux labels"));
    }
    check_namespaces(&security.namespace_options.unwrap_or_default())?;
    if config.hostname.len() > 64 || config.hostname.contains(['\n', '\0']) {
        return Err(ServiceError::setting("hostname", "it must have at most 64 bytes and no line break"));
    }
    Ok(metadata)
}

fn check_namespaces(options: &NamespaceOption) -> Result<(), ServiceError> {
    let field = "namespace_options";
    let refuse = |problem: &str| Err(ServiceError::setting(field, problem));
    let mode = |value: i32| {
        let problem = || ServiceError::setting(field, format!("unknown mode {value}"));
        NamespaceMode::try_from(value).map_err(|_| problem())
    };
    for value in [options.network, options.ipc] {
        match mode(value)? {
            NamespaceMode::Pod | NamespaceMode::Node => {}
            NamespaceMode::Container | NamespaceMode::Target => {
                return refuse("network and IPC namespaces belong to the pod or the node");
            }
        }
    }
    mode(options.pid)?;
    let Some(user) = &options.userns_options else { return Ok(()) };
    match mode(user.mode)? {
        NamespaceMode::Node if user.uids.is_empty() && user.gids.is_empty() => Ok(()),
        NamespaceMode::Node => refuse("the node's user namespace has no mappings of a pod"),
        NamespaceMode::Pod => {
            Err(ServiceError::setting("userns_options", "user namespaces are not supported yet"))
        }
        NamespaceMode::Container | NamespaceMode::Target => {
            refuse("a user namespace belongs to the pod or the node")
        }
    }
}

/// Which namespaces the pod does not share with the node.
pub(super) fn own_namespaces(options: &NamespaceOption) -> OwnNamespaces {
    let node = i32::from(NamespaceMode::Node);
    // The hostname of a pod in the host network is the node's.
    OwnNamespaces { network: options.network != node, ipc: options.ipc != node, uts: options.network != node }
}

#[cfg(test)]
mod tests {
    use cri::v1::{LinuxPodSandboxConfig, LinuxSandboxSecurityContext, UserNamespace};

    use super::*;

    fn config(options: NamespaceOption) -> PodSandboxConfig {
        let metadata =
            PodSandboxMetadata { name: "web".into(), uid: "u".into(), namespace: "n".into(), attempt: 2 };
        let security = LinuxSandboxSecurityContext {
            namespace_options: Some(options),
            ..LinuxSandboxSecurityContext::default()
        };
        let linux =
            LinuxPodSandboxConfig { security_context: Some(security), ..LinuxPodSandboxConfig::default() };
        PodSandboxConfig { metadata: Some(metadata), linux: Some(linux), ..PodSandboxConfig::default() }
    }

    #[test]
    fn name_contains_attempt() {
        let metadata = check(&config(NamespaceOption::default()), "").unwrap();
        assert_eq!(sandbox_name(&metadata), "web_n_u_2");
    }

    #[test]
    fn unknown_handler_and_missing_metadata_are_refused() {
        assert!(check(&config(NamespaceOption::default()), "kata").is_err());
        let nameless = PodSandboxConfig { metadata: None, ..config(NamespaceOption::default()) };
        assert!(matches!(check(&nameless, ""), Err(ServiceError::Missing(_))));
    }

    #[test]
    fn namespaces_that_cannot_be_made_are_refused() {
        let mode = |mode: NamespaceMode| i32::from(mode);
        let user =
            |mode: NamespaceMode| Some(UserNamespace { mode: mode.into(), ..UserNamespace::default() });
        let accepted = [
            NamespaceOption { network: mode(NamespaceMode::Node), ..NamespaceOption::default() },
            NamespaceOption { pid: mode(NamespaceMode::Container), ..NamespaceOption::default() },
            NamespaceOption { userns_options: user(NamespaceMode::Node), ..NamespaceOption::default() },
        ];
        for options in accepted {
            assert!(check(&config(options.clone()), "").is_ok(), "{options:?}");
        }
        let refused = [
            NamespaceOption { network: mode(NamespaceMode::Container), ..NamespaceOption::default() },
            NamespaceOption { ipc: mode(NamespaceMode::Target), ..NamespaceOption::default() },
            NamespaceOption { userns_options: user(NamespaceMode::Container), ..NamespaceOption::default() },
            NamespaceOption { pid: 17, ..NamespaceOption::default() },
        ];
        for options in refused {
            assert!(check(&config(options.clone()), "").is_err(), "{options:?}");
        }
    }
}
