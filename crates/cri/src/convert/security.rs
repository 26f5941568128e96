use model::{
    Capabilities, ContainerSecurity, NamespaceMode, Namespaces, SandboxSecurity, SeLinuxOptions,
    SecurityProfile, SupplementalGroupsPolicy, UserNamespace,
};

use crate::v1;
use crate::v1::security_profile::ProfileType;

pub(super) fn sandbox_context(security: &SandboxSecurity) -> v1::LinuxSandboxSecurityContext {
    v1::LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(&security.namespaces, security.user_namespace)),
        selinux_options: security.selinux.as_ref().map(selinux),
        run_as_user: security.run_as_user.map(int64),
        run_as_group: security.run_as_group.map(int64),
        supplemental_groups: security.supplemental_groups.clone(),
        supplemental_groups_policy: policy(security.supplemental_groups_policy).into(),
        privileged: security.privileged,
        seccomp: security.seccomp.as_ref().map(profile),
        ..Default::default()
    }
}

pub(super) fn container_context(
    security: &ContainerSecurity,
    user_namespace: UserNamespace,
) -> v1::LinuxContainerSecurityContext {
    let capabilities = &security.capabilities;
    v1::LinuxContainerSecurityContext {
        // Unset if there is nothing to add or drop, same as upstream.
        capabilities: (*capabilities != Capabilities::default()).then(|| v1::Capability {
            add_capabilities: capabilities.add.clone(),
            drop_capabilities: capabilities.drop.clone(),
            add_ambient_capabilities: Vec::new(),
        }),
        privileged: security.privileged,
        namespace_options: Some(namespaces(&security.namespaces, user_namespace)),
        selinux_options: security.selinux.as_ref().map(selinux),
        run_as_user: security.run_as_user.map(int64),
        run_as_group: security.run_as_group.map(int64),
        run_as_username: security.run_as_username.clone(),
        readonly_rootfs: security.readonly_rootfs,
        supplemental_groups: security.supplemental_groups.clone(),
        supplemental_groups_policy: policy(security.supplemental_groups_policy).into(),
        no_new_privs: security.no_new_privs,
        masked_paths: security.masked_paths.clone(),
        readonly_paths: security.readonly_paths.clone(),
        seccomp: security.seccomp.as_ref().map(profile),
        apparmor: security.apparmor.as_ref().map(profile),
        apparmor_profile: security.apparmor.as_ref().map(apparmor_name).unwrap_or_default(),
        ..Default::default()
    }
}

/// Converts a namespace mode. `target` is only used for [`NamespaceMode::Target`].
pub(super) fn namespace_mode(mode: v1::NamespaceMode, target: &str) -> NamespaceMode {
    match mode {
        v1::NamespaceMode::Pod => NamespaceMode::Pod,
        v1::NamespaceMode::Container => NamespaceMode::Container,
        v1::NamespaceMode::Node => NamespaceMode::Node,
        v1::NamespaceMode::Target => NamespaceMode::Target(target.to_owned()),
    }
}

/// Returns the mappings for both users and groups, which are identical.
pub(super) fn id_mappings(user_namespace: UserNamespace) -> Vec<v1::IdMapping> {
    match user_namespace {
        UserNamespace::Node => Vec::new(),
        UserNamespace::Pod(range) => {
            vec![v1::IdMapping { host_id: range.first, container_id: 0, length: range.length }]
        }
    }
}

fn apparmor_name(profile: &SecurityProfile) -> String {
    match profile {
        SecurityProfile::RuntimeDefault => "runtime/default".to_owned(),
        SecurityProfile::Unconfined => "unconfined".to_owned(),
        SecurityProfile::Localhost(name) => format!("localhost/{name}"),
    }
}

fn namespaces(namespaces: &Namespaces, user_namespace: UserNamespace) -> v1::NamespaceOption {
    let Namespaces { network, pid, ipc } = namespaces;
    v1::NamespaceOption {
        network: mode(network).into(),
        pid: mode(pid).into(),
        ipc: mode(ipc).into(),
        // The message has one target; only the PID namespace can have one.
        target_id: [pid, network, ipc].into_iter().find_map(target).unwrap_or_default().to_owned(),
        userns_options: Some(v1::UserNamespace {
            mode: match user_namespace {
                UserNamespace::Node => v1::NamespaceMode::Node.into(),
                UserNamespace::Pod(_) => v1::NamespaceMode::Pod.into(),
            },
            uids: id_mappings(user_namespace),
            gids: id_mappings(user_namespace),
        }),
    }
}

fn mode(mode: &NamespaceMode) -> v1::NamespaceMode {
    match mode {
        NamespaceMode::Pod => v1::NamespaceMode::Pod,
        NamespaceMode::Container => v1::NamespaceMode::Container,
        NamespaceMode::Node => v1::NamespaceMode::Node,
        NamespaceMode::Target(_) => v1::NamespaceMode::Target,
    }
}

fn target(mode: &NamespaceMode) -> Option<&str> {
    match mode {
        NamespaceMode::Target(id) => Some(id),
        NamespaceMode::Pod | NamespaceMode::Container | NamespaceMode::Node => None,
    }
}

fn int64(value: i64) -> v1::Int64Value {
    v1::Int64Value { value }
}

fn policy(policy: SupplementalGroupsPolicy) -> v1::SupplementalGroupsPolicy {
    match policy {
        SupplementalGroupsPolicy::Merge => v1::SupplementalGroupsPolicy::Merge,
        SupplementalGroupsPolicy::Strict => v1::SupplementalGroupsPolicy::Strict,
    }
}

fn profile(profile: &SecurityProfile) -> v1::SecurityProfile {
    let (kind, reference) = match profile {
        SecurityProfile::RuntimeDefault => (ProfileType::RuntimeDefault, ""),
        SecurityProfile::Unconfined => (ProfileType::Unconfined, ""),
        SecurityProfile::Localhost(reference) => (ProfileType::Localhost, reference.as_str()),
    };
    v1::SecurityProfile { profile_type: kind.into(), localhost_ref: reference.to_owned() }
}

fn selinux(options: &SeLinuxOptions) -> v1::SeLinuxOption {
    v1::SeLinuxOption {
        user: options.user.clone(),
        role: options.role.clone(),
        r#type: options.kind.clone(),
        level: options.level.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_namespace_mode_has_target_id() {
        let security = ContainerSecurity {
            namespaces: Namespaces { pid: NamespaceMode::Target("abc".into()), ..Default::default() },
            ..Default::default()
        };
        let options = container_context(&security, UserNamespace::Node).namespace_options.unwrap();
        assert_eq!((options.pid(), options.target_id.as_str()), (v1::NamespaceMode::Target, "abc"));
        assert_eq!(options.network(), v1::NamespaceMode::Pod);
        assert_eq!(options.userns_options.as_ref().unwrap().mode(), v1::NamespaceMode::Node);
        assert_eq!(namespace_mode(options.pid(), &options.target_id), security.namespaces.pid);
    }

    #[test]
    fn distinguishes_unset_user_from_root() {
        let sent = container_context(&ContainerSecurity::default(), UserNamespace::Node);
        assert_eq!((sent.run_as_user, sent.seccomp, sent.apparmor), (None, None, None));
        let sent = container_context(
            &ContainerSecurity { run_as_user: Some(0), ..Default::default() },
            UserNamespace::Node,
        );
        assert_eq!(sent.run_as_user, Some(v1::Int64Value { value: 0 }));
    }

    #[test]
    fn converts_container_security_settings() {
        let sent = container_context(
            &ContainerSecurity {
                capabilities: Capabilities { add: vec!["NET_ADMIN".into()], drop: vec!["ALL".into()] },
                run_as_group: Some(5),
                supplemental_groups_policy: SupplementalGroupsPolicy::Strict,
                selinux: Some(SeLinuxOptions { kind: "spc_t".into(), ..Default::default() }),
                seccomp: Some(SecurityProfile::Localhost("/p.json".into())),
                apparmor: Some(SecurityProfile::Unconfined),
                ..Default::default()
            },
            UserNamespace::Pod(model::IdRange { first: 131_072, length: 65_536 }),
        );
        assert_eq!(sent.apparmor_profile, "unconfined", "old runtimes only read the profile name");
        let users = sent.namespace_options.clone().unwrap().userns_options.unwrap();
        assert_eq!(users.mode(), v1::NamespaceMode::Pod);
        assert_eq!((users.uids.len(), users.uids[0].host_id, users.uids[0].container_id), (1, 131_072, 0));
        assert_eq!(users.uids, users.gids);
        let capabilities = sent.capabilities.clone().unwrap();
        assert_eq!(
            (&capabilities.add_capabilities[0], &capabilities.drop_capabilities[0]),
            (&"NET_ADMIN".to_owned(), &"ALL".to_owned())
        );
        assert_eq!(sent.run_as_group.unwrap().value, 5);
        assert_eq!(sent.supplemental_groups_policy(), v1::SupplementalGroupsPolicy::Strict);
        assert_eq!(sent.selinux_options.unwrap().r#type, "spc_t");
        let seccomp = sent.seccomp.unwrap();
        assert_eq!(
            (seccomp.profile_type(), seccomp.localhost_ref.as_str()),
            (ProfileType::Localhost, "/p.json")
        );
        assert_eq!(sent.apparmor.unwrap().profile_type(), ProfileType::Unconfined);
    }

    #[test]
    fn converts_sandbox_security_settings() {
        let sent = sandbox_context(&SandboxSecurity {
            namespaces: Namespaces {
                network: NamespaceMode::Node,
                pid: NamespaceMode::Container,
                ipc: NamespaceMode::Pod,
            },
            privileged: true,
            run_as_user: Some(7),
            supplemental_groups: vec![1, 2],
            seccomp: Some(SecurityProfile::RuntimeDefault),
            ..Default::default()
        });
        let options = sent.namespace_options.unwrap();
        assert_eq!(options.network(), v1::NamespaceMode::Node);
        assert_eq!(options.pid(), v1::NamespaceMode::Container);
        assert!(sent.privileged);
        assert_eq!((sent.run_as_user.unwrap().value, sent.supplemental_groups), (7, vec![1, 2]));
        assert_eq!(sent.seccomp.unwrap().profile_type(), ProfileType::RuntimeDefault);
    }
}
