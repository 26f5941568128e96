//! Command lines of the components.

use std::path::Path;

use crate::control_plane::ControlPlaneOptions;
use crate::control_plane::ports::Ports;

pub(super) fn etcd(folder: &Path, ports: Ports) -> Vec<String> {
    let clients = format!("http://127.0.0.1:{}", ports.etcd);
    let peers = format!("http://127.0.0.1:{}", ports.etcd_peers);
    vec![
        "--name=default".to_owned(),
        format!("--data-dir={}/etcd", folder.display()),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        // A single member elects itself after this time.
        "--heartbeat-interval=10".to_owned(),
        "--election-timeout=100".to_owned(),
        "--experimental-watch-progress-notify-interval=5s".to_owned(),
        "--logger=zap".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

pub(super) fn api_server(folder: &Path, ports: Ports, options: &ControlPlaneOptions) -> Vec<String> {
    let folder = folder.display();
    let mut all = vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        format!("--secure-port={}", ports.api_server),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        // Endpoints objects must not contain a loopback address.
        "--endpoint-reconciler-type=none".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        format!("--tls-cert-file={folder}/pki/apiserver.crt"),
        format!("--tls-private-key-file={folder}/pki/apiserver.key"),
        format!("--client-ca-file={folder}/pki/ca.crt"),
        format!("--kubelet-client-certificate={folder}/pki/kubelet-client.crt"),
        format!("--kubelet-client-key={folder}/pki/kubelet-client.key"),
        "--kubelet-preferred-address-types=InternalIP,Hostname".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-key-file={folder}/pki/service-accounts.pub"),
        format!("--service-account-signing-key-file={folder}/pki/service-accounts.key"),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--enable-bootstrap-token-auth=true".to_owned(),
        "--allow-privileged=true".to_owned(),
        format!("--audit-policy-file={folder}/audit-policy.json"),
        format!("--audit-log-path={folder}/audit.log"),
        "--audit-log-maxsize=1000".to_owned(),
        "--profiling=false".to_owned(),
        // Off by default.
        "--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true,PodCertificateRequest=true"
            .to_owned(),
        "--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true,\
         certificates.k8s.io/v1beta1/podcertificaterequests=true"
            .to_owned(),
        "--v=0".to_owned(),
    ];
    all.extend(options.api_server_arguments.iter().cloned());
    all
}

pub(super) fn controller_manager(folder: &Path, options: &ControlPlaneOptions) -> Vec<String> {
    let folder = folder.display();
    let mut all = vec![
        format!("--kubeconfig={folder}/controller-manager.kubeconfig"),
        "--leader-elect=false".to_owned(),
        // The roles of the controllers are bound to their service accounts.
        "--use-service-account-credentials=true".to_owned(),
        // It serves no requests here.
        "--secure-port=0".to_owned(),
        format!("--root-ca-file={folder}/pki/ca.crt"),
        format!("--service-account-private-key-file={folder}/pki/service-accounts.key"),
        format!("--cluster-signing-cert-file={folder}/pki/ca.crt"),
        format!("--cluster-signing-key-file={folder}/pki/ca.key"),
        format!("--cluster-signing-duration={}s", options.signing_duration.as_secs()),
        "--allocate-node-cidrs=true".to_owned(),
        "--cluster-cidr=10.244.0.0/16".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        // API server outages in scenarios must not look like dead nodes.
        "--node-monitor-grace-period=600s".to_owned(),
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=400".to_owned(),
        "--v=0".to_owned(),
    ];
    all.extend(options.controller_manager_arguments.iter().cloned());
    all
}

pub(super) fn scheduler(folder: &Path) -> Vec<String> {
    vec![
        format!("--kubeconfig={}/scheduler.kubeconfig", folder.display()),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
        "--kube-api-qps=200".to_owned(),
        "--kube-api-burst=400".to_owned(),
        "--v=0".to_owned(),
    ]
}
