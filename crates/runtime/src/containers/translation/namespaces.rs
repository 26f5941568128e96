//! The namespaces that a container joins.

use std::path::PathBuf;

use cri::v1::{LinuxContainerSecurityContext, NamespaceMode, NamespaceOption};

use super::{CgroupView, TranslationInput};
use crate::errors::ServiceError;
use crate::launcher::{CgroupNamespace, Namespaces, PidNamespace};

/// Which PID namespace a container has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PidMode {
    Pod,
    Container,
    Node,
    /// That of the container with this id.
    Target(String),
}

/// The PID namespace of a request. Without options it is the pod's.
pub(crate) fn pid_mode(security: &LinuxContainerSecurityContext) -> Result<PidMode, ServiceError> {
    let options = security.namespace_options.clone().unwrap_or_default();
    let field = "namespace_options.pid";
    match NamespaceMode::try_from(options.pid) {
        Ok(NamespaceMode::Pod) => Ok(PidMode::Pod),
        Ok(NamespaceMode::Container) => Ok(PidMode::Container),
        Ok(NamespaceMode::Node) => Ok(PidMode::Node),
        Ok(NamespaceMode::Target) if options.target_id.is_empty() => {
            Err(ServiceError::setting(field, "the mode TARGET needs target_id"))
        }
        Ok(NamespaceMode::Target) => Ok(PidMode::Target(options.target_id)),
        Err(_) => Err(ServiceError::setting(field, format!("unknown mode {}", options.pid))),
    }
}

pub(super) fn namespaces(
    input: &TranslationInput<'_>,
    security: &LinuxContainerSecurityContext,
) -> Result<Namespaces, ServiceError> {
    let sandbox = &input.sandbox;
    let node = i32::from(NamespaceMode::Node);
    let options = security.namespace_options.clone().unwrap_or_default();
    check_same_as_sandbox(&options, &sandbox.options)?;
    let own_network = sandbox.options.network != node;
    let pid = match pid_mode(security)? {
        PidMode::Container => PidNamespace::New,
        PidMode::Node => PidNamespace::Host,
        // The sandbox has a shared namespace only if it was asked for one.
        PidMode::Pod if sandbox.options.pid == i32::from(NamespaceMode::Pod) => {
            PidNamespace::Join(sandbox.namespaces.pid())
        }
        PidMode::Pod if sandbox.options.pid == node => PidNamespace::Host,
        PidMode::Pod => {
            let problem = "the pod has no PID namespace of its own";
            return Err(ServiceError::setting("namespace_options.pid", problem));
        }
        PidMode::Target(target) => match input.target_pid {
            Some(pid) => PidNamespace::Join(PathBuf::from(format!("/proc/{pid}/ns/pid"))),
            None => {
                let problem = format!("container {target} does not run in this pod");
                return Err(ServiceError::setting("namespace_options.target_id", problem));
            }
        },
    };
    Ok(Namespaces {
        network: own_network.then(|| sandbox.namespaces.network()),
        ipc: (sandbox.options.ipc != node).then(|| sandbox.namespaces.ipc()),
        uts: own_network.then(|| sandbox.namespaces.uts()),
        pid,
        cgroup: cgroup_namespace(&input.cgroup_view, security.privileged),
        user: sandbox.user.clone(),
    })
}

/// As in containerd: on cgroup v1 programs expect the paths of the host, and a privileged container sees the node's hierarchy.
fn cgroup_namespace(view: &CgroupView, privileged: bool) -> CgroupNamespace {
    match view {
        CgroupView::V2(_) if !privileged => CgroupNamespace::New,
        CgroupView::V1(_) | CgroupView::V2(_) => CgroupNamespace::Host,
    }
}

/// Network and IPC namespaces are the sandbox's. A request that wants the node's in a pod with its own could not be fulfilled.
fn check_same_as_sandbox(options: &NamespaceOption, sandbox: &NamespaceOption) -> Result<(), ServiceError> {
    let node = i32::from(NamespaceMode::Node);
    for (field, container, sandbox) in [
        ("namespace_options.network", options.network, sandbox.network),
        ("namespace_options.ipc", options.ipc, sandbox.ipc),
    ] {
        if container == node && sandbox != node {
            return Err(ServiceError::setting(field, "the sandbox has an own namespace"));
        }
    }
    let pod = i32::from(NamespaceMode::Pod);
    let user = |options: &NamespaceOption| options.userns_options.clone().filter(|user| user.mode == pod);
    if user(options) != user(sandbox) {
        return Err(ServiceError::setting("userns_options", "they differ from those of the sandbox"));
    }
    Ok(())
}
