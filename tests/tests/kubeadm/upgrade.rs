//! New versions of the control plane's manifests, one component after the other.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use testkit::machine::{CONTROL_PLANE_COMPONENTS, control_plane_image};
use testkit::poll::within;

use crate::cluster::{Cluster, TIMEOUT};
use crate::configuration::{IGNORED_PREFLIGHT_ERRORS, IGNORED_UPGRADE_ERRORS, VERSION};
use crate::workload;

/// Tags of the images that the edited manifests name; their content is the same. They are older than those of the
/// cluster's configuration, because `kubeadm upgrade` leaves an etcd alone that is not.
const EDITED_TAG: &str = "v1.36.3";
const EDITED_ETCD_TAG: &str = "3.6.7-0";
/// A flag that the edited manifests add; every component accepts it.
const EDITED_FLAG: &str = "--v=1";

/// Edits each manifest as `kubeadm upgrade` does: a complete new file is renamed over the old one.
pub(crate) async fn edit_manifests(cluster: &Cluster) -> Result<()> {
    let before = workload::ready_pods(cluster).await?;
    for component in CONTROL_PLANE_COMPONENTS {
        let manifest = format!("/etc/kubernetes/manifests/{component}.yaml");
        let text = cluster.first.read_file(&manifest)?;
        let image = manifest_image(&text)?;
        let other = control_plane_image(component, edited_tag(component));
        cluster.first.tag_image(image, &other).await?;
        let program = format!("    - {component}\n");
        let edited =
            text.replace(image, &other).replace(&program, &format!("{program}    - {EDITED_FLAG}\n"));
        ensure!(edited.contains(EDITED_FLAG), "the manifest has no command:\n{text}");
        let old = cluster.wait_static_pod(component, |_| Ok(())).await?;
        let staged = format!("/etc/kubernetes/tmp/{component}.yaml");
        cluster.first.write_file(&staged, &edited)?;
        cluster.first.run("mv", &[&staged, &manifest]).await?;
        wait_rolled(cluster, component, &old, &other).await?;
    }
    check_health(cluster, &before).await
}

/// `kubeadm upgrade apply` writes all manifests again, with the tags and flags of the cluster's configuration.
pub(crate) async fn upgrade_with_kubeadm(cluster: &Cluster) -> Result<()> {
    let before = workload::ready_pods(cluster).await?;
    let mut old = Vec::new();
    for component in CONTROL_PLANE_COMPONENTS {
        old.push((component, cluster.wait_static_pod(component, |_| Ok(())).await?));
    }
    let ignored = [IGNORED_PREFLIGHT_ERRORS.as_slice(), &IGNORED_UPGRADE_ERRORS].concat().join(",");
    let ignored = format!("--ignore-preflight-errors={ignored}");
    cluster.first.run("kubeadm", &["upgrade", "apply", VERSION, "--yes", "--force", &ignored]).await?;
    for (component, old) in old {
        let manifest = cluster.first.read_file(&format!("/etc/kubernetes/manifests/{component}.yaml"))?;
        let image = manifest_image(&manifest)?;
        ensure!(!manifest.contains(edited_tag(component)), "{component} still has the image {image}");
        wait_rolled(cluster, component, &old, image).await?;
    }
    check_health(cluster, &before).await
}

/// Waits until the mirror pod is that of the new manifest, and a new container runs.
///
/// The image in the status does not tell the difference: the runtime may report any name of the same content.
async fn wait_rolled(cluster: &Cluster, component: &str, old: &Value, image: &str) -> Result<()> {
    let hash = |pod: &Value| pod["metadata"]["annotations"]["kubernetes.io/config.hash"].clone();
    let container = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
    cluster
        .wait_static_pod(component, |pod| {
            ensure!(hash(pod) != hash(old), "{component} has the old hash");
            ensure!(pod["spec"]["containers"][0]["image"] == image, "{}", pod["spec"]);
            ensure!(container(pod) != container(old), "{component} has the old container");
            Ok(())
        })
        .await
        .map(drop)
}

/// The API server is healthy, scheduler and controllers work, both nodes are ready, and the Deployment's pods were not
/// touched.
async fn check_health(cluster: &Cluster, pods_before: &[workload::WebPod]) -> Result<()> {
    within("healthy control plane", TIMEOUT, async || {
        cluster.first.kubectl(&["get", "--raw", "/readyz"]).await?;
        let nodes = cluster.first.get(&["nodes"]).await?;
        let nodes = nodes["items"].as_array().context("no nodes")?;
        let ready = nodes.iter().filter(|node| scenarios::condition(node, "Ready") == "True").count();
        ensure!(ready == 2, "{ready} nodes are ready");
        // Not ready for a moment if the API server was away for long, but still the same pods without a restart.
        let pods = workload::ready_pods(cluster).await?;
        ensure!(pods == pods_before, "pods were {pods_before:?}, are {pods:?}");
        Ok(())
    })
    .await?;
    // A pod that is scheduled, runs and ends needs every component.
    let job = ["create", "job", "probe", "--image", testkit::images::BUSYBOX, "--", "true"];
    cluster.first.kubectl(&job).await?;
    cluster.first.kubectl(&["wait", "job/probe", "--for=condition=Complete", "--timeout=900s"]).await?;
    cluster.first.kubectl(&["delete", "job", "probe"]).await.map(drop)
}

fn edited_tag(component: &str) -> &'static str {
    if component == "etcd" { EDITED_ETCD_TAG } else { EDITED_TAG }
}

fn manifest_image(manifest: &str) -> Result<&str> {
    let line = manifest.lines().find_map(|line| line.trim().strip_prefix("image: "));
    line.map(str::trim).context("a manifest without image")
}
