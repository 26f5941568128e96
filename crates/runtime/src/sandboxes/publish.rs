//! Sandboxes in the messages of CRI.

use cri::v1::{
    LinuxPodSandboxStatus, Namespace, PodIp, PodSandbox, PodSandboxNetworkStatus, PodSandboxState,
    PodSandboxStatus,
};

use super::Sandbox;

fn state(sandbox: &Sandbox) -> i32 {
    let state =
        if sandbox.is_ready() { PodSandboxState::SandboxReady } else { PodSandboxState::SandboxNotready };
    state.into()
}

pub(crate) fn published_sandbox(sandbox: &Sandbox) -> PodSandbox {
    let record = &sandbox.record;
    PodSandbox {
        id: record.id.clone(),
        metadata: record.config.metadata.clone(),
        state: state(sandbox),
        created_at: record.created_at,
        labels: record.config.labels.clone(),
        annotations: record.config.annotations.clone(),
        runtime_handler: record.runtime_handler.clone(),
    }
}

pub(crate) fn sandbox_status(sandbox: &Sandbox) -> PodSandboxStatus {
    let record = &sandbox.record;
    // The addresses of a stopped sandbox may belong to another one.
    let addresses: &[String] = if sandbox.is_stopped() { &[] } else { &record.addresses };
    let ip = |ip: &String| PodIp { ip: ip.clone() };
    let network = PodSandboxNetworkStatus {
        ip: addresses.first().cloned().unwrap_or_default(),
        additional_ips: addresses.iter().skip(1).map(ip).collect(),
    };
    let namespaces = Namespace { options: Some(sandbox.namespace_options()) };
    PodSandboxStatus {
        id: record.id.clone(),
        metadata: record.config.metadata.clone(),
        state: state(sandbox),
        created_at: record.created_at,
        network: Some(network),
        linux: Some(LinuxPodSandboxStatus { namespaces: Some(namespaces) }),
        labels: record.config.labels.clone(),
        annotations: record.config.annotations.clone(),
        runtime_handler: record.runtime_handler.clone(),
    }
}
