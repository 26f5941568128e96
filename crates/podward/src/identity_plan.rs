//! From flags and configuration to the identity of the node.

use std::time::Duration;

use cluster::identity::Settings;
use cluster::{ClientSettings, Rate};
use config::Loaded;

/// How the node joins its cluster; `None` means a node of its own.
pub(crate) fn identity(loaded: &Loaded, node: &str) -> Option<Settings> {
    let flags = &loaded.flags;
    Some(Settings {
        kubeconfig: flags.kubeconfig.clone()?,
        bootstrap_kubeconfig: flags.bootstrap_kubeconfig.clone(),
        certificate_folder: flags.cert_dir.clone(),
        node: node.to_owned(),
        rotate: loaded.config.server.rotate_certificates,
        clients: client_settings(loaded),
    })
}

fn client_settings(loaded: &Loaded) -> ClientSettings {
    let (client, node) = (&loaded.config.api_client, &loaded.config.node);
    let lease = Duration::from_secs(node.node_lease_duration_seconds.max(1).unsigned_abs().into());
    let status = node.node_status_update_frequency.to_std().max(Duration::from_secs(1));
    ClientSettings {
        requests: Rate::of_requests(client.kube_api_qps, client.kube_api_burst),
        events: Rate::of_events(client.event_record_qps, client.event_burst),
        heartbeat_limit: lease.min(status),
    }
}
