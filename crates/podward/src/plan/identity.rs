//! Settings of the node's client certificate and API clients.

use std::time::Duration;

use cluster::identity::IdentitySettings;
use cluster::{ClientSettings, RateLimit};
use config::LoadedConfig;

/// How the node joins its cluster; `None` for a standalone node.
pub(crate) fn identity(loaded: &LoadedConfig, node: &str) -> Option<IdentitySettings> {
    let flags = &loaded.flags;
    Some(IdentitySettings {
        kubeconfig: flags.kubeconfig.clone()?,
        bootstrap_kubeconfig: flags.bootstrap_kubeconfig.clone(),
        certificate_folder: flags.cert_dir.clone(),
        node: node.to_owned(),
        rotate: loaded.config.server.rotate_certificates,
        clients: client_settings(loaded),
    })
}

fn client_settings(loaded: &LoadedConfig) -> ClientSettings {
    let (client, node) = (&loaded.config.api_client, &loaded.config.node);
    let lease = Duration::from_secs(node.node_lease_duration_seconds.max(1).unsigned_abs().into());
    let status = node.node_status_update_frequency.to_std().max(Duration::from_secs(1));
    ClientSettings {
        requests: RateLimit::for_requests(client.kube_api_qps, client.kube_api_burst),
        events: RateLimit::for_events(client.event_record_qps, client.event_burst),
        heartbeat_timeout: lease.min(status),
    }
}
