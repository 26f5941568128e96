//! Checks of a request for a sandbox.

use cri::v1::{IdMapping, NamespaceMode, NamespaceOption, PodSandboxConfig, PodSandboxMetadata};

use super::sysctls::OwnNamespaces;
use crate::errors::ServiceError;
use crate::launcher::{IdMappings, IdRange};

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
    if id_mappings(options)?.is_none() {
        return Ok(());
    }
    let node = i32::from(NamespaceMode::Node);
    // The kernel lets a user namespace mount only file systems of namespaces that it owns.
    if options.ipc == node || options.pid == node {
        return refuse("a pod with a user namespace needs IPC and PID namespaces of its own");
    }
    Ok(())
}

/// The mappings of the pod's user namespace; none if the pod uses the node's.
pub(crate) fn id_mappings(options: &NamespaceOption) -> Result<Option<IdMappings>, ServiceError> {
    let field = "userns_options";
    let problem = |text: &str| ServiceError::setting(field, text);
    let refuse = |text: &str| Err(problem(text));
    let Some(user) = &options.userns_options else { return Ok(None) };
    match NamespaceMode::try_from(user.mode) {
        Ok(NamespaceMode::Node) if user.uids.is_empty() && user.gids.is_empty() => Ok(None),
        Ok(NamespaceMode::Node) => refuse("the node's user namespace has no mappings of a pod"),
        Ok(NamespaceMode::Pod) => {
            let range = |mappings: &[IdMapping]| match mappings {
                [one] if one.container_id == 0 && one.length > 0 => {
                    Ok(IdRange { container: 0, host: one.host_id, length: one.length })
                }
                _ => Err(problem("one mapping of user ids and one of group ids are needed, both with id 0")),
            };
            let (uids, gids) = (range(&user.uids)?, range(&user.gids)?);
            if [uids, gids].iter().any(|range| range.host.checked_add(range.length).is_none()) {
                return refuse("a mapping exceeds the highest id");
            }
            Ok(Some(IdMappings { uids, gids }))
        }
        Ok(NamespaceMode::Container | NamespaceMode::Target) => {
            refuse("a user namespace belongs to the pod or the node")
        }
        Err(_) => refuse("the mode is unknown"),
    }
}

/// Which namespaces the pod does not share with the node.
pub(super) fn own_namespaces(options: &NamespaceOption) -> OwnNamespaces {
    let node = i32::from(NamespaceMode::Node);
    // The hostname of a pod in the host network is the node's.
    OwnNamespaces {
        network: options.network != node,
        ipc: options.ipc != node,
        uts: options.network != node,
        user: matches!(id_mappings(options), Ok(Some(_))),
    }
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
    fn user_namespace_needs_one_mapping_of_each_kind_with_id_0() {
        let mapping = |container_id, host_id, length| IdMapping { host_id, container_id, length };
        let user = |uids: &[IdMapping], gids: &[IdMapping]| NamespaceOption {
            userns_options: Some(UserNamespace {
                mode: NamespaceMode::Pod.into(),
                uids: uids.to_vec(),
                gids: gids.to_vec(),
            }),
            ..NamespaceOption::default()
        };
        let good = mapping(0, 300_000, 65_536);
        let ids = id_mappings(&user(&[good], &[good])).unwrap().unwrap();
        assert_eq!((ids.uids.host, ids.gids.length), (300_000, 65_536));
        for bad in [mapping(1, 300_000, 10), mapping(0, 300_000, 0), mapping(0, u32::MAX, 2)] {
            assert!(id_mappings(&user(&[bad], &[good])).is_err(), "{bad:?}");
            assert!(id_mappings(&user(&[good], &[bad])).is_err(), "{bad:?}");
        }
        assert!(id_mappings(&user(&[good, good], &[good])).is_err());
        assert!(id_mappings(&user(&[], &[good])).is_err());
        let host = NamespaceOption { ipc: NamespaceMode::Node.into(), ..user(&[good], &[good]) };
        assert!(check(&config(host), "").is_err());
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
