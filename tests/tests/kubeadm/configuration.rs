//! The files that an administrator gives to kubeadm.

use serde_json::{Value, json};
use testkit::machine::{IMAGE_REPOSITORY, Machine};

pub(crate) const VERSION: &str = "v1.36.4";
pub(crate) const POD_NETWORK: &str = "10.244.0.0/16";
const SERVICE_NETWORK: &str = "10.96.0.0/16";
const TOKEN: &str = "abcdef.0123456789abcdef";
const CRI_SOCKET: &str = "unix:///run/containerd/containerd.sock";

/// `SystemVerification` fails on a host with cgroup v1, even if `failCgroupV1` lets the agent run there.
pub(crate) const IGNORED_PREFLIGHT_ERRORS: [&str; 1] = ["SystemVerification"];
/// Also ignored in `kubeadm upgrade`, which looks for a CoreDNS to upgrade although DNS is disabled.
pub(crate) const IGNORED_UPGRADE_ERRORS: [&str; 2] = ["CoreDNSMigration", "CoreDNSUnsupportedPlugins"];

/// Of `kubeadm init`: JSON documents, which are YAML too.
pub(crate) fn init(machine: &Machine) -> String {
    let first = json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "InitConfiguration",
        "bootstrapTokens": [{"token": TOKEN, "ttl": "1h0m0s"}],
        "localAPIEndpoint": {"advertiseAddress": machine.address()},
        "nodeRegistration": node_registration(machine),
        "timeouts": timeouts(),
    });
    documents(&[first, cluster(), kubelet()])
}

/// Of `kubeadm join`, which trusts the cluster's CA by its hash.
pub(crate) fn join(machine: &Machine, api_server: &str, ca_certificate_hash: &str) -> String {
    documents(&[json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "JoinConfiguration",
        "discovery": {"bootstrapToken": {
            "token": TOKEN,
            "apiServerEndpoint": format!("{api_server}:6443"),
            "caCertHashes": [ca_certificate_hash],
        }},
        "nodeRegistration": node_registration(machine),
        "timeouts": timeouts(),
    })])
}

/// Of kubeadm, longer than its defaults: each ends when its condition is true, so a loaded machine fails no step.
fn timeouts() -> Value {
    json!({
        "controlPlaneComponentHealthCheck": "15m",
        "kubeletHealthCheck": "15m",
        "kubernetesAPICall": "5m",
        "etcdAPICall": "10m",
        "tlsBootstrap": "15m",
        "discovery": "15m",
        "upgradeManifests": "15m",
    })
}

fn node_registration(machine: &Machine) -> Value {
    json!({
        "name": machine.name(),
        "criSocket": CRI_SOCKET,
        // Pods run on the control plane's node too, because there are only two nodes.
        "taints": [],
        "kubeletExtraArgs": [
            {"name": "node-ip", "value": machine.address()},
            // Both machines share the cgroup hierarchies of the host.
            {"name": "cgroup-root", "value": machine.cgroup_root()},
        ],
        "ignorePreflightErrors": IGNORED_PREFLIGHT_ERRORS,
    })
}

fn cluster() -> Value {
    json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "kubernetesVersion": VERSION,
        "imageRepository": IMAGE_REPOSITORY,
        "networking": {"podSubnet": POD_NETWORK, "serviceSubnet": SERVICE_NETWORK},
        // Nothing in the test uses services or their names.
        "dns": {"disabled": true},
        "proxy": {"disabled": true},
        // The API server verifies serving certificates, so that logs and exec prove that they were approved.
        "apiServer": {"extraArgs": [
            {"name": "kubelet-certificate-authority", "value": "/etc/kubernetes/pki/ca.crt"},
        ]},
    })
}

fn kubelet() -> Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": false,
        "serverTLSBootstrap": true,
        // The host's disk may be almost full; eviction is not the subject.
        "evictionHard": {
            "memory.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
            "imagefs.available": "0%", "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
    })
}

fn documents(documents: &[Value]) -> String {
    documents.iter().map(|document| format!("---\n{document}\n")).collect()
}
